"""Writing for an older reader: the document of its schema, in its archive layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from graphwire.api.documents import encode
from graphwire.errors import EncodeError
from graphwire.evolve.readers import first_reader
from graphwire.evolve.release_forms import forms_of_release, with_forms
from graphwire.evolve.schema import downgrade
from graphwire.evolve.targets import Target, target_named
from graphwire.hooks.hookspecs import PROJECT
from graphwire.hooks.interfaces import WireFormat
from graphwire.hooks.registry import Registry
from graphwire.schema.program import PluginRequirement, Program
from graphwire.schema.tree import to_tree
from graphwire.wire.document import write_plain_json, write_program
from graphwire.wire.layouts import BARE
from graphwire.wire.package_writer import Document
from graphwire.wire.payloads import Payloads


class Written(NamedTuple):
    """Programs as their reader wants them."""

    documents: dict[str, Document]
    layout: str
    """The archive layout, a key of `wire.layouts.LAYOUTS`; or `BARE`."""


def written(
    programs: Mapping[str, tuple[Program, Payloads]], format: str, target: str | None, registry: Registry
) -> Written:
    """The documents of programs: in a wire format of today, or in the schema, JSON and layout of a target.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: there is no such target.
        TargetError: the target cannot express a program; every obstacle is named.
        EncodeError: `format` is not what the target reads, or a draft's weight has no bytes.
    """
    wire_format = registry.wire_format(format)
    if target is None:
        provider = _provider(format, registry)
        documents = {
            name: Document(
                write_program(_noted(program, wire_format), wire_format),
                wire_format.suffix,
                payloads,
                provider,
            )
            for name, (program, payloads) in programs.items()
        }
        return Written(documents, "B2")
    reader = target_named(target)
    if reader.layout is None:
        drafts = {
            name: Document(
                encode(program, format, target=target, payloads=payloads, registry=registry),
                wire_format.suffix,
                Payloads(),
            )
            for name, (program, payloads) in programs.items()
        }
        return Written(drafts, BARE)
    if format != "json":
        raise EncodeError(f"{target} reads JSON, not {format}", remedy='Write it with format="json"')
    return Written({name: _document(reader, *program) for name, program in programs.items()}, reader.layout)


def _provider(format: str, registry: Registry) -> PluginRequirement | None:
    owner = registry.owner_of("wire_format", format)
    if owner is None or owner.distribution in ("", PROJECT):
        return None
    return PluginRequirement(owner.distribution, owner.version, [f"wire_format:{format}"])


def _noted(program: Program, wire_format: WireFormat) -> Program:
    """The program with a note of the first reader of its file."""
    reader = first_reader(program, is_json=wire_format.name == "json")
    return msgspec.structs.replace(program, readable_from=reader)


def _document(reader: Target, program: Program, payloads: Payloads) -> Document:
    program = with_forms(program, lambda: forms_of_release(reader.release))
    tree = downgrade(to_tree(program), reader.version, reader.release)
    data = write_plain_json(tree, bare_tokens=reader.nonfinite == "token")
    beside = replace(payloads, examples=program.example_inputs, encoded=program.encoded_values)
    return Document(data, ".json", beside)
