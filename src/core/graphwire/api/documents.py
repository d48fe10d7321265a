"""Encode programs and treespecs as documents of a wire format, without payloads, and decode them.

A document is for a reader: of the current schema, or of the schema and layout of a target.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec.structs import replace

from graphwire import errors, schema
from graphwire.analysis.load_report import NarrowedRange, Omission, Strippable, WriteReport, stripped
from graphwire.analysis.validation.program_rules import check_valid
from graphwire.api.error_boundary import Boundary
from graphwire.api.options import Ranges, check_choice, check_limits, check_records, public_function
from graphwire.evolve.step import AppliedStep, is_current, version_of
from graphwire.evolve.targets import OURS_FIRST, Target, first_reader, target_named, with_trace_texts
from graphwire.process import LOG
from graphwire.registry.interfaces import PROJECT, Tree, WireFormat
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.schema import DRAFT, SCHEMA_VERSION, PluginRequirement, Program, Version
from graphwire.schema.texts.metadata import DECLARED
from graphwire.schema.texts.treespec import TreeSpec, format_treespec, parse_treespec
from graphwire.schema.trees import OMITTED, program_from_tree, to_tree
from graphwire.wire.archive.source import file_name, type_text
from graphwire.wire.document import (
    check_treespec_protocol,
    detect_format,
    read_program_or_tree,
    read_treespec,
    write_document,
    write_plain_json,
    write_program,
    write_treespec,
)
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.package_reader import BARE_DOCUMENT, OWN_LAYOUT, Package, sanitize_weight_names
from graphwire.wire.payloads import CONSTANTS, WEIGHTS, Document, Payloads

if TYPE_CHECKING:
    from graphwire.bridge.context import OpaqueOrigin
    from graphwire.evolve import planner


@public_function(errors=errors.EncodeError)
def encode(
    program: Program,
    format: str = "json",
    *,
    target: str | None = None,
    payloads: Payloads | None = None,
    registry: Registry | None = None,
) -> bytes:
    """Encode the records of a program as a document of a wire format, without payloads.

    Args:
        program: the records.
        format: the name of an installed wire format.
        target: the older schema to write instead: a release, a schema version, "compact-5.3" or "draft-2022".
        payloads: the weights of the program, for "draft-2022" only: that schema stores weights in its documents, as
            big-endian bytes. Without payloads, the weights of such a document have a location and no bytes.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: no such target exists.
        TargetError: the target cannot represent the program; the error lists every obstacle.
        EncodeError: the payloads lack the bytes of a weight.
    """
    check_records(program)
    wire_format = registry_or_installed(registry).wire_format(format)
    checked = _is_foreign(wire_format, registry_or_installed(registry))
    if target is None:
        return write_program(program, wire_format, checked=checked)
    dropped: list[tuple[str, str]] = []
    data = document_for(program, target_named(target), wire_format, dropped, payloads, checked=checked)
    for what, why in dropped:
        errors.warn(f"the {what} are not all written: {why}")
    return data


def document_for(
    program: Program,
    reader: Target,
    wire_format: WireFormat,
    dropped: list[tuple[str, str]],
    payloads: Payloads | None = None,
    *,
    checked: bool = False,
) -> bytes:
    """Encode the records of a program as the document of a target.

    Args:
        dropped: receives what is dropped without harm to what the program computes, and why.
        payloads: the weights to store in a `draft-2022`.
        checked: whether to decode the document, and compare.

    Raises:
        GraphwireError: as `encode`.
    """
    from graphwire.evolve import planner
    from graphwire.evolve.chain import downgrade

    program = planner.with_forms(program, lambda: planner.forms_of_release(reader.release))
    omitted: list[str] = []
    tree = downgrade(to_tree(program), reader.version, reader.release, omitted)
    dropped += [(OMITTED, why) for why in omitted]
    if lost := _lost_values_of_plugins(program, tree):
        what = f"values under the metadata keys of plugins ({', '.join(sorted({*lost}))[:400]})"
        dropped.append((what, f"{len(lost):,} have no place in a file for {reader.name}"))
    if reader.version == DRAFT and payloads is not None:
        from graphwire.evolve.steps.embedded import embed

        held = payloads
        tree = embed(tree, lambda name: _storage_of(held, name))
    if reader.version != DRAFT and wire_format.name == "json":
        return write_plain_json(tree, bare_tokens=reader.nonfinite == "token")
    return write_document(tree, wire_format, checked=checked)


def _lost_values_of_plugins(program: Program, written: Mapping[str, Any]) -> list[str]:
    """Return the metadata keys of plugins that a document for a target lacks: those of inputs and outputs, or of the program."""
    module = program.graph_module
    lost = [] if "metadata" in written.get("graph_module", ()) else [module.metadata]
    for graph in schema.graphs_in(module.graph):
        lost += (each.metadata for each in (*graph.value_metadata.values(), graph.output_metadata) if each)
    return [key.removeprefix(DECLARED) for texts in lost for key in texts if key.startswith(DECLARED)]


def _storage_of(payloads: Payloads, name: str) -> bytes:
    """Return the bytes of the storage of a weight or constant."""
    meta, folder = payloads.weights.get(name), WEIGHTS
    if meta is None:
        meta, folder = payloads.constants.get(name), CONSTANTS
    record = None if meta is None else payloads.records.get(folder + meta.path_name)
    if record is None:
        raise errors.EncodeError(f"the payloads have no bytes of the weight {name!r}")
    from graphwire.wire.torch_files.torch_save_writer import record_chunks

    return b"".join(map(bytes, record_chunks(record)))


@public_function("buffer")
def decode(
    buffer: bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Program:
    """Decode a document to the records of its program.

    Args:
        buffer: the document.
        format: its wire format. None detects it from the first bytes.
        registry: the plugins to use. None uses the installed ones.
        limits: bounds on the time and memory that reading the document may take.

    Raises:
        UnknownFormatError: no installed format recognizes the document.
        FormatError: the bytes are not a document of the format.
        SchemaError: the document is not a valid program of a supported schema.
        LimitError: the document exceeds `limits`.
    """
    registry = registry_or_installed(registry)
    check_limits(limits)
    if not isinstance(buffer, (bytes, bytearray, memoryview)):
        raise errors.FormatError(f"a document is bytes, not {type(buffer).__name__}")
    if format is None:
        wire_format = detect_format(buffer, registry)
    else:
        wire_format = registry.wire_format(format)
    with Boundary("", registry, ("", wire_format.name)):
        document = read_program_or_tree(buffer, wire_format, limits)
        program, _, _ = program_at_current_schema(document)
        check_valid(program)
    return program


class ProgramRecords(msgspec.Struct, frozen=True):
    """The records of a program in a file, checked without its weights."""

    program: Program
    version: Version
    """The schema version of its document."""
    taken: list[AppliedStep]
    """The steps from there."""
    renamed: list[tuple[str, str]]
    """The weights that were renamed, each with its new name."""
    calls: Mapping[str, schema.Node]
    """The operators that the program calls, each with one of its nodes."""


def read_records(package: Package, name: str) -> ProgramRecords:
    """Return the checked records of a program."""
    program, version, taken = program_at_current_schema(package.program_or_tree_of(name))
    renamed = sanitize_weight_names(program) if package.layout.spec.is_flat else []
    calls = check_valid(program)
    return ProgramRecords(program, version, taken, renamed, calls)


def program_at_current_schema(document: Program | Tree) -> tuple[Program, Version, list[AppliedStep]]:
    """Return the program of a document of any schema version, the version, and the schema steps that were applied."""
    if isinstance(document, Program):
        return document, Version(*SCHEMA_VERSION), []
    version = version_of(document)
    if is_current(version):  # which needs none of the steps
        return program_from_tree(document), version, []
    from graphwire.evolve.chain import upgrade

    current, taken = upgrade(document)
    return program_from_tree(current), version, taken


@overload
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    format: None = None,
    *,
    registry: Registry | None = None,
) -> str: ...


@overload
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    *,
    format: str,
    registry: Registry | None = None,
) -> bytes: ...


@public_function(errors=errors.EncodeError)
def treespec_dumps(
    spec: Any,
    protocol: int | None = None,
    format: str | None = None,
    *,
    registry: Registry | None = None,
) -> str | bytes:
    """Encode a treespec, the structure of nested containers, as text that torch reads or as a document of a wire format.

    Args:
        spec: a `graphwire.schema.texts.treespec.TreeSpec`, which needs no torch, or a `torch.utils._pytree.TreeSpec`.
        protocol: the version of the text; 1 is the only one.
        format: the name of an installed wire format. None returns text.
        registry: the plugins to use. None uses the installed ones.

    Raises:
        EncodeError: no serializer supports a container type, or a context cannot be encoded.
        SchemaError: no such protocol exists.
        UnknownFormatError: no installed plugin provides the format.
    """
    check_treespec_protocol(protocol)
    registry = registry_or_installed(registry)
    if isinstance(spec, TreeSpec):
        text = format_treespec(spec)
    else:
        from graphwire.bridge.graph.treespec import encode_treespec

        text = encode_treespec(spec, registry)
    if format is None:
        return text
    wire_format = registry.wire_format(format)
    return write_treespec(parse_treespec(text), wire_format, checked=_is_foreign(wire_format, registry))


def _is_foreign(wire_format: WireFormat, registry: Registry) -> bool:
    """Whether a wire format comes from a plugin, whose documents are decoded and compared."""
    return not registry.is_built_in("wire_format", wire_format.name)


@public_function()
def treespec_loads(
    data: str | bytes | bytearray | memoryview,
    format: str | None = None,
    *,
    to_torch: bool = False,
    registry: Registry | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """Decode a treespec, the structure of nested containers, from text of torch or from what `treespec_dumps` returned.

    Args:
        data: the text, or the document of a wire format.
        format: the wire format of a document. None detects it from the first bytes.
        to_torch: whether to return a `torch.utils._pytree.TreeSpec`, whose container types must be registered in this
            process, instead of a `graphwire.schema.texts.treespec.TreeSpec`, which needs no torch.
        registry: the plugins to use. None uses the installed ones.
        limits: bounds on the time and memory that reading a document may take.

    Raises:
        SchemaError: the data is not a treespec.
        FormatError: the bytes are not a document of the format.
        UnknownTypeError: `to_torch` is true, and no serializer supports a container type.
        LimitError: the document exceeds `limits`.
    """
    registry = registry_or_installed(registry)
    check_limits(limits)
    given: object = data
    if not isinstance(given, (str, bytes, bytearray, memoryview)):
        raise errors.DecodeError(
            f"a treespec is text or bytes, not {type_text(given)}",
            remedy="graphwire.treespec_dumps makes either",
        )
    with Boundary("the text" if isinstance(data, str) else file_name(data), registry):
        if isinstance(data, str):
            spec = parse_treespec(data)
        else:
            wire_format = detect_format(data, registry) if format is None else registry.wire_format(format)
            spec = read_treespec(data, wire_format, limits)
        if not to_torch:
            return spec
        from graphwire.bridge.graph.treespec import decode_treespec

        return decode_treespec(format_treespec(spec), registry)


def documents_for_target(
    programs: Mapping[str, tuple[Program, Payloads]],
    format: str,
    target: str | None,
    registry: Registry,
    ranges: Ranges = "exact",
    *,
    check_format: bool = True,
) -> tuple[dict[str, Document], str, WriteReport]:
    """Encode programs as documents: in the current schema, or in the schema and layout of a target.

    Args:
        programs: records and payloads, by name.
        format: the name of the wire format.
        target: the target; None for the current schema.
        registry: the plugins to use.
        ranges: as in `save`.
        check_format: as in `save`.

    Returns:
        The documents by name, the archive layout (a key of `wire.package_reader.LAYOUTS`, or `BARE_DOCUMENT`), and a report.

    Raises:
        FormatError: the format does not read what it wrote.
        UnknownFormatError: no installed plugin provides the format.
        SchemaVersionError: no such target exists.
        TargetError: the target cannot represent a program; the error lists every obstacle.
        EncodeError: the target does not read `format`, the payloads of a draft lack a weight, or `ranges` is "narrowed" without
            a target.
    """
    check_ranges(ranges, target)
    wire_format = registry.wire_format(format)
    checked = check_format and _is_foreign(wire_format, registry)
    reader = None if target is None else target_named(target)
    if reader is not None and reader.layout is not None and format != "json":
        raise errors.EncodeError(
            f"{reader.name} reads JSON, not {format}", remedy='Write it with format="json"'
        )
    provider = _provider(format, registry)
    documents, dropped, found = {}, [], list[NarrowedRange]()
    for name, held in programs.items():
        lost: list[tuple[str, str]] = []
        in_archive = reader is None or reader.layout is not None
        program, payloads = held[1].as_torch_writes(held[0]) if in_archive else held
        if reader is None:
            document = _document_of_today(program, payloads, wire_format, provider, lost, checked=checked)
        else:
            written = _narrowed(name, program, reader, found) if ranges == "narrowed" else program
            if reader.layout is None:
                data = document_for(written, reader, wire_format, lost, payloads, checked=checked)
                document = Document(data, wire_format.suffix, Payloads())
            else:
                data = document_for(written, reader, wire_format, lost)
                beside = replace(payloads, examples=written.example_inputs, encoded=written.encoded_values)
                document = Document(data, ".json", beside, lists_examples=False)
        documents[name] = document
        dropped += [Omission(what, why, name) for what, why in lost]
    if reader is None:
        return documents, OWN_LAYOUT, WriteReport("", dropped=dropped)
    return documents, reader.layout or BARE_DOCUMENT, WriteReport(reader.name, found, dropped)


def warn_of_dropped(dropped: Iterable[Omission]) -> None:
    """Warn the caller of a public function about data that the written file lacks."""
    for each in dropped:
        errors.warn(each.as_written)


def check_ranges(ranges: str, target: str | None) -> None:
    """Check the options `ranges`, "exact" or "narrowed" with a target, and `target`.

    Raises:
        EncodeError: `ranges` is something else.
        SchemaVersionError: there is no such target.
    """
    check_choice("ranges", ranges, ("exact", "narrowed"), errors.EncodeError)
    if ranges == "narrowed" and target is None:
        raise errors.EncodeError(
            "ranges are narrowed only for an older reader", remedy='Name it, such as target="torch-2.3"'
        ).about("ranges")
    if target is not None:
        target_named(target)


def _narrowed(name: str, program: Program, reader: Target, found: list[NarrowedRange]) -> Program:
    from graphwire.evolve.expressions import narrow_ranges

    program, ranges = narrow_ranges(program, reader.version)
    found += [NarrowedRange(name, *each) for each in ranges]
    return program


def _provider(format: str, registry: Registry) -> list[PluginRequirement]:
    owner = registry.owner_of("wire_format", format)
    if owner is None or owner.distribution in ("", PROJECT):
        return []
    return [PluginRequirement(owner.distribution, owner.version, [f"wire_format:{format}"])]


def _document_of_today(
    program: Program,
    payloads: Payloads,
    wire_format: WireFormat,
    provider: list[PluginRequirement],
    dropped: list[tuple[str, str]],
    *,
    checked: bool,
) -> Document:
    """Encode a program in the current schema, with the first release that can read the file.

    Stack traces are texts, as torch writes them. If torch can read the document, the archive also gets the example inputs
    in torch's form.

    Args:
        dropped: as in `document_for`.
    """
    omitted: list[str] = []
    program = with_trace_texts(program, omitted)
    dropped += [(OMITTED, why) for why in omitted]
    reader = first_reader(program, is_json=wire_format.name == "json")
    data = write_program(msgspec.structs.replace(program, readable_from=reader), wire_format, checked=checked)
    examples = None if reader == OURS_FIRST else program.example_inputs
    providers = [*provider, *program.plugins] if provider else []
    return Document(data, wire_format.suffix, replace(payloads, examples=examples), providers)


def without(program: Program, payloads: Payloads, kinds: Collection[Strippable]) -> tuple[Program, Payloads]:
    """Return a program and its payloads without what the option `strip` names."""
    if not kinds:
        return program, payloads
    held = payloads.without_examples() if "example_inputs" in kinds else payloads
    return stripped(program, kinds), held


# ------------------------------- apply opset upgrades to validated programs: to the installed versions, or along a plan


class ProgramAtInstalledOpsets(msgspec.Struct, frozen=True):
    """A validated program at the installed opsets."""

    program: Program
    origin: OpaqueOrigin | None
    """The versions and requirements to keep for opaque operators; None if no operator is opaque."""
    rewritten: list[AppliedStep]
    """The operators that were rewritten to the form of the installed torch."""
    propagates: frozenset[str]
    """The operators whose result metadata `load` computes with fake kernels: marked by upgraders of this load or, in the
    file, declared by installed upgraders."""
    plan: planner.Plan
    upgraded: frozenset[int]
    """The indices of the nodes that upgraders wrote."""
    calls: Mapping[str, schema.Node]
    """The operators that the program calls, each with one of its nodes."""

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Name the plugins of the upgraders in an error at a node that these wrote."""
        try:
            yield
        except errors.DecodeError as error:
            from graphwire.evolve.planner import blamed_on

            node = re.match(r"graph\.nodes\[(\d+)\]", error.place)
            if node is not None and int(node[1]) in self.upgraded:
                blamed_on(error, self.plan)
            raise


def at_installed_opsets(
    program: Program, registry: Registry, unknown_ops: planner.UnknownOps, calls: Mapping[str, schema.Node]
) -> ProgramAtInstalledOpsets:
    """Bring a validated program to the installed opsets, and its operators to the form of the installed torch.

    Args:
        calls: the operators that it calls, as of `check_valid`.
    """
    from graphwire.bridge.context import OpaqueOrigin
    from graphwire.bridge.graph.operators import signature_mismatches
    from graphwire.bridge.torch_compat.private import parameters_of
    from graphwire.evolve import planner

    planner.check_plugins(program, registry, operators=unknown_ops == "error")
    planner.check_stored_marks(program, registry)
    plan = planner.plan_for(program, registry, unknown=unknown_ops)
    origin = None
    if unknown_ops == "opaque":
        kept = planner.kept_requirements(program, registry, plan.opaque)
        versions = {namespace: program.opset_version[namespace] for namespace in plan.opaque}
        origin = OpaqueOrigin(versions, kept, own_forms="calls" in program.requires)
    rewritten: list[AppliedStep] = []
    changed = _applied(program, plan, registry)
    formed = changed
    if changed is not program:
        calls = schema.calls_in(changed.graph_module.graph)
    if not planner.CHANGED.isdisjoint(calls):
        formed = planner.with_forms(changed, lambda: planner.forms_of_parameters(parameters_of), rewritten)
        calls = schema.calls_in(formed.graph_module.graph)
    problems = signature_mismatches(program, formed, registry) if changed is not program else []
    if unknown_ops == "opaque":
        problems = [each for each in problems if each.kind != "no-operator"]
    if problems:
        raise _invalid(plan, problems)
    upgraded: frozenset[int] = frozenset()
    if changed is not program:
        had = {id(node) for node in program.graph_module.graph.nodes}
        nodes = enumerate(formed.graph_module.graph.nodes)
        upgraded = frozenset(index for index, node in nodes if id(node) not in had)
    marked = planner.marked_operators(formed)
    return ProgramAtInstalledOpsets(formed, origin, rewritten, marked, plan, upgraded, calls)


def program_after_plan(program: Program, plan: planner.Plan, registry: Registry) -> Program:
    """Apply a plan to a program that will be stored, and validate the result.

    Raises:
        OpsetError: an upgrader rejects a node, makes an invalid program, or leaves result metadata to be computed for an
            operator that it does not declare.
    """
    changed = _applied(program, plan, registry)
    if changed is not program:
        from graphwire.evolve import planner
        from graphwire.evolve.plain_values import walk_nodes

        had = {node.target for _, node in walk_nodes(program.graph_module.graph)}
        unknown = [
            errors.Problem(place, "no-operator", f"no plugin here has an operator {node.target}")
            for place, node in walk_nodes(changed.graph_module.graph)
            if node.target not in had and registry.op_handler(node.target) is None
        ]
        if unknown:
            raise _invalid(plan, unknown)
        before, after = program.opset_version, changed.opset_version
        lowered = {name for name, version in after.items() if version < before.get(name, version)}
        for readers in ((), lowered):
            try:
                planner.check_stored_marks(changed, registry, readers)
            except errors.OpsetError as error:
                planner.blamed_on(error, plan)
                if not readers:
                    raise
                errors.warn(str(error))
    return changed


def _applied(program: Program, plan: planner.Plan, registry: Registry) -> Program:
    """Apply a plan and validate the result: programs of upgraders are as untrusted as those of files."""
    from graphwire.evolve import planner

    changed = planner.apply(program, plan)
    if changed is program:
        return program
    for step in plan.steps:
        LOG.info("upgraded opset %s, %d nodes", step, len(step.nodes))
    changed = planner.with_requirements(changed, registry, program.opset_version)
    try:
        check_valid(changed)
    except errors.ValidationError as error:
        raise _invalid(plan, error.problems) from error
    return changed


def _invalid(plan: planner.Plan, problems: Sequence[errors.Problem]) -> errors.OpsetError:
    from graphwire.evolve.planner import blamed_on

    names = ", ".join(step.origin for step in plan.steps if step.nodes)
    error = errors.OpsetError(
        f"upgraders made a program that is not valid ({names})",
        problems=problems,
        remedy="Report it to the authors of the plugins that provide them",
    )
    return blamed_on(error, plan)
