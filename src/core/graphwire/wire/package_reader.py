"""Reads a package: an archive of one or more programs, each a document, and the payloads that they share.

    models/NAME.SUFFIX                                      the program, in the wire format with that suffix
    data/weights/NAME_weights_config.json                   its weights, by qualified name
    data/weights/weight_I                                   the bytes of one storage
    data/constants/NAME_constants_config.json, tensor_I     likewise for tensors outside the state dict
    data/sample_inputs/NAME_sample_inputs_config.json       likewise for the tensors of the example inputs
    data/sample_inputs/NAME.pt                              the example inputs for torch, or empty: torch requires the record
    data/weights/references.json                            where weights are that the archive lacks
    data/wire_formats.json                                  which distribution provides a wire format of a plugin
    extra/PATH                                              the caller's extra files

This is the layout of PyTorch's PT2 archive since torch 2.9. Documents in formats other than JSON, and the third config, are
graphwire's. `package_writer` writes packages. Where each release of torch stores a program and its weights:

    A1   torch 2.1         flat; one torch.save file, named .json, has the state dict and the lifted constants
    A2   torch 2.2         flat; constants have a file of their own
    A3   torch 2.3         flat; the torch.save files are named .pt
    A4   torch 2.4 to 2.7  flat; the example inputs are a third torch.save file
    B1   torch 2.8         a root folder, several programs; weights and constants are torch.save files
    B2   torch 2.9 on      as B1, but each storage is a record, and a config describes the tensors in it. graphwire's layout

In B1 and B2 the example inputs are a torch.save file; graphwire also writes a third config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Final, TypeVar

import msgspec

from graphwire import schema
from graphwire.errors import (
    ArchiveError,
    GraphwireError,
    MissingFormatError,
    MissingRecordError,
    Problem,
    UnknownFormatError,
    locate,
)
from graphwire.process import TYPE_ANALYSIS
from graphwire.registry.discovery import missing_error, missing_of
from graphwire.registry.interfaces import Tree, WireFormat
from graphwire.registry.registry import Registry
from graphwire.schema.trees import payloads_of_config
from graphwire.wire.archive.manifest import MANIFEST, Manifest, SwappedRecord, manifest_errors, read_manifest
from graphwire.wire.archive.reader import ArchiveReader, damaged_record, payload_record
from graphwire.wire.archive.source import Closing, Readable
from graphwire.wire.document import decode_json_record, read_document, read_program_or_tree
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import (
    CONSTANTS,
    SAMPLE_INPUTS,
    WEIGHTS,
    Payloads,
    Record,
    StateDict,
    extensions_of,
    extent,
    number_width,
)
from graphwire.wire.weights.reference_table import REFERENCES, read_references, store_requirements

MODELS = "models/"
_ONLY = "model"
"""The name of the program in a layout that stores a single unnamed one."""
BARE_DOCUMENT = "document"
"""The layout of a document without an archive, for targets whose documents contain the weights."""
PROVIDERS = "data/wire_formats.json"
"""The record with the provider of each wire format that graphwire does not include, by suffix; and, by distribution, what else
programs in such a format need, which a reader without the format cannot read in them."""
CONFIG_SUFFIX = "_config.json"
"""The end of each config's member name, in every layout."""
with TYPE_ANALYSIS:
    _CONFIGS = msgspec.json.Decoder(schema.PayloadConfig)
# Made at import rather than at first use: see `process`.


class LayoutSpec(msgspec.Struct, frozen=True):
    """One layout, described by the names of its members. `{name}` in them is the name of the program."""

    name: str
    releases: str
    """The torch releases that write it."""
    document: str
    """The member that stores the program. In B1 and B2 graphwire replaces `.json` by the suffix of the wire format."""
    weights: str
    """A torch.save file, or if `has_configs` a config."""
    constants: str
    """A torch.save file, or if `has_configs` a config; empty if constants are among the weights."""
    sample_inputs: str
    """A torch.save file; empty if the layout has none."""
    extra: str
    """The folder of the caller's extra files."""
    marker: str
    """The member that identifies the layout among those later in `_DETECTED`; empty if there is no other."""
    untyped: frozenset[str] = frozenset()
    """The element types without a typed storage class that all these releases read."""
    is_flat: bool = True
    """Whether records are at the archive's top level, including `version`, and there is a single program."""
    has_configs: bool = False
    """Whether each storage is a separate record, described by a config."""

    def member(self, kind: str, name: str) -> str:
        """Return the member that stores a program's `document`, `weights`, `constants` or `sample_inputs`."""
        return str(getattr(self, kind)).format(name=name)

    def is_used_by(self, reader: ArchiveReader, documents: Iterable[str]) -> bool:
        """Return whether an archive with these documents has the member that identifies the layout."""
        programs = [*map(_program_of, documents)] or [_ONLY]
        return not self.marker or any(self.marker.format(name=name) in reader for name in programs)


def _flat(
    name: str, releases: str, suffix: str, examples: str, marker: str, untyped: frozenset[str]
) -> LayoutSpec:
    state, constants = _STATE + suffix, _CONSTANTS + suffix
    return LayoutSpec(name, releases, _PROGRAM, state, constants, examples, _FLAT_EXTRA, marker, untyped)


_PROGRAM = "serialized_exported_program.json"
_STATE = "serialized_state_dict"
_CONSTANTS = "serialized_constants"
_EXAMPLES = "serialized_example_inputs.pt"
_FLAT_EXTRA = "extra_files/"

_SINCE_2_2 = frozenset("complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz".split())
_SINCE_2_3 = _SINCE_2_2 | {"uint16", "uint32", "uint64"}
_SINCE_2_8 = _SINCE_2_3 | {"float8_e8m0fnu", "float4_e2m1fn_x2"}

LAYOUTS: dict[str, LayoutSpec] = {
    spec.name: spec
    for spec in (
        LayoutSpec("A1", "2.1", _PROGRAM, f"{_STATE}.json", "", "", _FLAT_EXTRA, _PROGRAM),
        _flat("A2", "2.2", ".json", "", f"{_CONSTANTS}.json", _SINCE_2_2),
        _flat("A3", "2.3", ".pt", "", f"{_STATE}.pt", _SINCE_2_3),
        # 2.7 only reads the eight bits of exponents; earlier schemas have no number for the type
        _flat("A4", "2.4 to 2.7", ".pt", _EXAMPLES, _EXAMPLES, _SINCE_2_3 | {"float8_e8m0fnu"}),
        LayoutSpec(
            "B1",
            "2.8",
            f"{MODELS}{{name}}.json",
            f"{WEIGHTS}{{name}}.pt",
            f"{CONSTANTS}{{name}}.pt",
            f"{SAMPLE_INPUTS}{{name}}.pt",
            "extra/",
            f"{WEIGHTS}{{name}}.pt",
            _SINCE_2_8,
            is_flat=False,
        ),
        LayoutSpec(
            "B2",
            "2.9 and later",
            f"{MODELS}{{name}}.json",
            f"{WEIGHTS}{{name}}_weights{CONFIG_SUFFIX}",
            f"{CONSTANTS}{{name}}_constants{CONFIG_SUFFIX}",
            f"{SAMPLE_INPUTS}{{name}}.pt",
            "extra/",
            "",
            is_flat=False,
            has_configs=True,
        ),
    )
}
"""Every layout, by name, oldest first."""

_DETECTED = ("B1", "B2", "A2", "A4", "A3", "A1")
"""The layouts in the order in which an archive is tested for them. The last flat one, and the last other one, is that of any
archive with a program."""


OWN_LAYOUT = "B2"
"""The layout of files that are not written for a target; also called `pt2`."""


def layout_named(name: str) -> LayoutSpec:
    """Return the layout with a name; `pt2` is that of files without a target.

    Raises:
        ArchiveError: no layout has the name.
    """
    spec = LAYOUTS.get(OWN_LAYOUT if name == "pt2" else name)
    if spec is None:
        raise ArchiveError(f"there is no layout {name!r}", remedy=f"There are {', '.join(LAYOUTS)}")
    return spec


def config_members(name: str, layout: LayoutSpec | None = None) -> dict[str, str]:
    """Return the config members of a program, by the attribute of `Payloads` that they describe.

    torch has the first two; graphwire adds `sample_inputs`. A layout without configs stands for `OWN_LAYOUT`.
    """
    spec = layout if layout is not None and layout.has_configs else LAYOUTS[OWN_LAYOUT]
    return {
        "weights": spec.member("weights", name),
        "constants": spec.member("constants", name),
        "sample_inputs": f"{SAMPLE_INPUTS}{name}_sample_inputs{CONFIG_SUFFIX}",
    }


def open_layout(reader: ArchiveReader) -> Layout:
    """Detect the layout of an archive by the names of its members.

    Raises:
        MissingRecordError: the archive contains no program.
    """
    flat, documents = _PROGRAM in reader, _documents(reader.names)
    if not flat and not documents:
        code = any(name.startswith("data/aotinductor/") for name in reader.names)
        found = "Was it written by graphwire or torch.export?"
        if code:
            found = "It holds compiled code, which is never loaded"
        elif "data.pkl" in reader:
            found = "torch.save or torch.jit.save wrote it. Export the module, and save what torch.export.export makes"
        raise MissingRecordError("the archive holds no program", place=MODELS, remedy=found)
    *tried, last = (LAYOUTS[name] for name in _DETECTED if LAYOUTS[name].is_flat == flat)
    spec = next((spec for spec in tried if spec.is_used_by(reader, documents)), last)
    return Layout(spec, reader, documents)


_DESCRIPTIONS = frozenset({_PROGRAM, PROVIDERS, REFERENCES, "archive_format", "archive_version", "byteorder"})


def descriptions(names: Iterable[str]) -> list[str]:
    """Return the members that describe what an archive has: programs, configs and references, in any layout."""
    return [
        name
        for name in names
        if name in _DESCRIPTIONS or name.startswith(MODELS) or name.endswith(CONFIG_SUFFIX)
    ]


def _documents(names: Iterable[str]) -> list[str]:
    """Return the members that are documents of programs, whose names may contain slashes."""
    return [name for name in names if name.startswith(MODELS) and "." in name.rpartition("/")[2]]


def _program_of(document: str) -> str:
    """Return the name of the program that a member stores."""
    return document.removeprefix(MODELS).rpartition(".")[0]


def _config_of(data: bytes, member: str) -> dict[str, schema.PayloadMeta]:
    """Return the payloads of a config. Equal metas of tensors become one record, which is read once.

    Raises:
        ArchiveError: the record is damaged.
    """
    config = payloads_of_config(data)
    if config is None:
        config = decode_json_record(_CONFIGS, data, "the payload config is", member).config
        metas: dict[bytes, schema.TensorMeta | None] = {}
        for meta in config.values():
            meta.tensor_meta = metas.setdefault(msgspec.json.encode(meta.tensor_meta), meta.tensor_meta)
    return config


class Layout:
    """An open archive, read in one of the layouts.

    Args:
        spec: the layout.
        reader: the archive. It must stay open while this object is used.
        documents: the members that are documents of programs.
    """

    def __init__(self, spec: LayoutSpec, reader: ArchiveReader, documents: Iterable[str]) -> None:
        self.spec = spec
        self.reader = reader
        self._documents = documents

    @property
    def title(self) -> str:
        """The layout's name and torch releases, for messages."""
        return f"{self.spec.name} (torch {self.spec.releases})"

    @cached_property
    def members(self) -> dict[str, str]:
        """The member that stores each program, by program name.

        Raises:
            ArchiveError: two members store the same program.
        """
        if self.spec.is_flat:
            return {_ONLY: _PROGRAM}
        members: dict[str, str] = {}
        for member in self._documents:
            name = _program_of(member)
            if name in members:
                raise ArchiveError(f"two members hold the program {name!r}: {members[name]} and {member}")
            members[name] = member
        return members

    @cached_property
    def extra_files(self) -> tuple[str, ...]:
        """The paths of the extra files that the caller of `save` added."""
        folder = self.spec.extra
        return tuple(name.removeprefix(folder) for name in self.reader.names if name.startswith(folder))

    @cached_property
    def payload_records(self) -> tuple[str, ...]:
        """The members that store the bytes of payloads."""
        if self.spec.is_flat:
            wanted = (self.spec.weights, self.spec.constants, self.spec.sample_inputs)
            return tuple(name for name in wanted if name and name in self.reader)
        names = (name for name in self.reader.names if name.startswith("data/") and name != REFERENCES)
        return tuple(name for name in names if not name.endswith(CONFIG_SUFFIX))

    def payloads_of(self, name: str, *, copied: bool = False) -> Payloads:
        """Return a program's payloads, without reading any tensor's elements.

        `unread` and `warnings` of the result list what could not be read.

        Args:
            copied: whether each view of a record is a checked copy in memory, not a mapping.

        Raises:
            ArchiveError: a member is missing or damaged.
            DecodeError: a torch.save file does not contain a dict of tensors.
            LimitError: the archive exceeds the limits.
        """
        weights = self._state(name, "weights", WEIGHTS, "weight_", copied)
        constants = self._state(name, "constants", CONSTANTS, "tensor_", copied)
        records = {**weights.records, **constants.records}
        for meta in constants.metas.values():  # also where the weight itself is a pickle, and not read
            if meta.shared in weights.pickled and meta.shared not in records:
                records[meta.shared] = self._record(meta.shared, meta, copied)
            if meta.shared in weights.records and meta.shared not in self.reader:
                raise _no_record(meta.shared)
        payloads = Payloads(
            weights.metas,
            constants.metas,
            records=records,
            encoded={**weights.encoded, **constants.encoded},
            unread={**weights.unread, **constants.unread},
            requires=weights.requires | constants.requires,
            unlisted=weights.unlisted | constants.unlisted,
        )
        config = config_members(name, self.spec)["sample_inputs"]
        if not self.spec.is_flat and config in self.reader:
            samples = self._read_config(config, SAMPLE_INPUTS, copied)
            payloads.sample_inputs = samples.metas
            payloads.requires |= samples.requires
            payloads.unlisted |= samples.unlisted
            payloads.records = {**payloads.records, **samples.records}
        elif self.spec.sample_inputs:
            from graphwire.wire.torch_files.torch_save_reader import read_sample_inputs

            member = self.spec.member("sample_inputs", name)
            stem = self._stem(name, "tensor_")
            read_sample_inputs(self.reader, member, stem, copied=copied, payloads=payloads)
        return payloads

    # ------------------------------------------------------------------------------------------------- payloads

    def _stem(self, name: str, stem: str) -> str:
        """Return the prefix of the record names that represent storages inside torch.save files."""
        return stem if len(self.members) == 1 else f"{stem}{name}_"

    def _state(self, name: str, kind: str, folder: str, stem: str, copied: bool) -> StateDict:
        """Return the weights or the constants of a program. If both forms exist, the torch.save file is read, as by torch."""
        spec = self.spec if self.spec.is_flat else LAYOUTS["B1"]
        member = spec.member(kind, name)
        if not member:
            return StateDict()
        if member not in self.reader:
            if spec.is_flat:
                raise MissingRecordError(f"the archive has no {kind}", place=f"record {member!r}")
            return self._read_config(config_members(name, self.spec)[kind], folder, copied)
        self._forbid_references(folder)
        if self.reader.size(member) == 0:
            return StateDict()
        try:
            from graphwire.wire.torch_files.torch_save_reader import read_state_dict

            return read_state_dict(self.reader.nested(member), folder, self._stem(name, stem), copied=copied)
        except Exception as error:
            locate(error, f"record {member!r}")
            raise

    def _forbid_references(self, folder: str) -> None:
        """Check that no references are beside pickled weights, whose storages have made-up names that references could have."""
        if folder == WEIGHTS and REFERENCES in self.reader:
            raise damaged_record(REFERENCES, "it is beside weights that are pickled")

    @cached_property
    def _is_big_endian(self) -> bool:
        return "byteorder" in self.reader and self.reader.read("byteorder") == b"big"

    def _read_config(self, member: str, folder: str, copied: bool) -> StateDict:
        data = self.reader.read(member)
        config = _config_of(data, member)
        state = StateDict(requires=extensions_of(each for each in config.values() if not each.use_pickle))
        for name, meta in config.items():
            if meta.use_pickle:
                self._forbid_references(folder)
                stated = meta.tensor_meta
                numbers = [] if stated is None else [*stated.sizes, *stated.strides, stated.storage_offset]
                if any((each.as_int is None) == (each.as_expr is None) for each in numbers):
                    raise damaged_record(
                        member, f"the tensor {name!r:.200} has a number with no variant, or two"
                    )
                if meta.placement not in (None, "meta", "fake"):
                    raise damaged_record(member, f"the tensor {name!r:.200} has an unknown placement")
                self._add_pickled(state, name, meta, folder, copied)
                continue
            state.metas[name] = meta
            full_name = folder + meta.path_name
            if full_name not in self.reader or meta.placement is not None or full_name in state.records:
                continue
            record = self._record(full_name, meta, copied)
            tensor = meta.tensor_meta
            if not record.nbytes and tensor and tensor.device.type == "meta" and extent(tensor):
                meta.placement, meta.path_name = "meta", ""  # as torch writes it
                continue
            state.records[full_name] = record
        for meta in config.values() if state.pickled else ():
            full_name = folder + meta.path_name
            if not meta.use_pickle and full_name in state.records and full_name not in self.reader:
                raise _no_record(full_name)
        return state

    def _record(self, full_name: str, meta: schema.PayloadMeta, copied: bool) -> Record:
        record: Record = payload_record(self.reader, full_name, copied=copied)
        width = number_width(meta.tensor_meta.dtype_text) if self._is_big_endian and meta.tensor_meta else 1
        return SwappedRecord(record, width) if width > 1 else record

    def _add_pickled(
        self, state: StateDict, name: str, meta: schema.PayloadMeta, folder: str, copied: bool
    ) -> None:
        """Add a payload that torch pickled: a tensor, or an object, which is not read."""
        member = folder + meta.path_name
        if meta.path_name.startswith(("custom_obj_", "opaque_obj_")):
            state.unread[name] = "a pickled object, which is not read because reading it would run code"
            return
        if (
            member in state.pickled
        ):  # torch writes one record for each; reading one for many names would take unbounded time
            state.unread[name] = "a pickle that another value also uses"
            return
        state.pickled.add(member)
        listed = set(state.metas)
        try:
            from graphwire.wire.torch_files.torch_save_reader import read_tensor

            read_tensor(state, name, self.reader.nested(member), folder, f"{meta.path_name}.", copied=copied)
        except GraphwireError as error:
            state.unread[name] = error.problem
        state.unlisted.update((folder, each) for each in state.metas.keys() - listed)


def _no_record(name: str) -> ArchiveError:
    """The error for a name of a storage in a torch.save file, which only this package gives it, that a config states."""
    return MissingRecordError("a config names a record that the archive lacks", place=f"record {name!r:.200}")


_EXECUTABLE_SUFFIXES = {
    **dict.fromkeys((".so", ".dll", ".dylib", ".pyd", ".o", ".a", ".cubin", ".exe"), "this is compiled code"),
    **dict.fromkeys((".pkl", ".pickle"), "this is a pickle"),
    **dict.fromkeys((".py", ".pyc", ".sh", ".cpp"), "this is source code"),
}
_MAGICS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def executable_members(reader: ArchiveReader) -> list[Problem]:
    """Return a problem for each member of an archive that contains executable code."""
    found = [(name, _executable(reader, name)) for name in reader.names]
    return [
        Problem(f"record {name!r}", "executable", f"{why}; it is never loaded") for name, why in found if why
    ]


def _executable(reader: ArchiveReader, name: str) -> str:
    """Return a description of a member that contains executable code; empty for any other member."""
    suffix = name[name.rindex(".") :].lower() if "." in name.rpartition("/")[2] else ""
    if suffix in _EXECUTABLE_SUFFIXES:
        return _EXECUTABLE_SUFFIXES[suffix]
    if name.startswith(("data/weights/", "data/constants/tensor_", "data/sample_inputs/")):
        return ""  # the bytes of a tensor may look like anything
    try:
        return "this is compiled code" if reader.head(name, 4).startswith(_MAGICS) else ""
    except GraphwireError:  # the check of checksums reports it
        return ""


def schema_version_text(document: bytes) -> str:
    """Return the schema version of a JSON document as the member `version` of a flat archive states it, such as `2` or `7.3`.

    Raises:
        ArchiveError: the document does not state its schema version.
    """
    try:
        match json.loads(document):
            case {"schema_version": int(version)}:
                return str(version)
            case {"schema_version": {"major": int(major), "minor": int(minor)}}:
                return f"{major}.{minor}"
    except (ValueError, RecursionError):
        pass
    raise ArchiveError("the document does not state its schema version, which old torch requires")


# ------------------------- renames weights whose names cannot be attributes, as the quantizer of torch 2.1 creates them
# `L['self'][0]_scale_0`.
#
# The new name depends only on the old one, so the signature and the state dict can be renamed independently.


Value = TypeVar("Value")

_QUOTED: Final = r"[\"\\]"
_SIGN: Final = r"(?a)[^\w.]"
_FIELDS: Final = ("parameter_name", "buffer_name", "tensor_constant_name")


def sanitized_name(name: str) -> str:
    """Return a name with a double quote or backslash with underscores for all special characters; any other unchanged."""
    return re.sub(_SIGN, "_", name) if re.search(_QUOTED, name) else name


def sanitize_weight_names(program: schema.Program) -> list[tuple[str, str]]:
    """Rename the weights in a program's signature, except where two would get the same name.

    Returns:
        The changed names, each with the new one.
    """
    signature = program.graph_module.signature
    places = [
        (kind, field, getattr(kind, field))
        for spec in (*signature.input_specs, *signature.output_specs)
        for kind in (getattr(spec, variant) for variant in spec.__struct_fields__)
        for field in _FIELDS
        if hasattr(kind, field)
    ]
    names = _renamed({name: None for _, _, name in places})
    for kind, field, name in places:
        setattr(kind, field, names[name])
    return [(old, new) for old, new in names.items() if old != new]


def sanitize_payload_names(payloads: Payloads, renamed: Callable[[str], str] = sanitized_name) -> None:
    """Rename the weights and constants of a program's payloads in the same way."""
    names = _renamed(dict.fromkeys((*payloads.weights, *payloads.constants, *payloads.unread)), renamed)
    if all(old == new for old, new in names.items()):
        return
    for meta in (*payloads.weights.values(), *payloads.constants.values()):
        meta.same_as = names.get(meta.same_as or "", meta.same_as)
        meta.weight = names.get(meta.weight or "", meta.weight)
    payloads.weights = _with(payloads.weights, names)
    payloads.constants = _with(payloads.constants, names)
    payloads.unread = _with(payloads.unread, names)
    payloads.encoded = _with(payloads.encoded, names)


def _renamed(names: dict[str, None], renamed: Callable[[str], str] = sanitized_name) -> dict[str, str]:
    """Map each name to its sanitized name, or to itself if several names would become equal."""
    wanted: dict[str, list[str]] = {}
    for name in names:
        wanted.setdefault(renamed(name), []).append(name)
    return {name: plain if len(of) == 1 else name for plain, of in wanted.items() for name in of}


def _with(values: dict[str, Value], names: dict[str, str]) -> dict[str, Value]:
    return {names.get(name, name): value for name, value in values.items()}


NO_MANIFEST = Problem(
    f"record {MANIFEST!r}",
    "manifest",
    "it is missing, though graphwire writes one: exchanged records cannot be detected",
)
_OF_TORCH = ".data/serialization_id"
with TYPE_ANALYSIS:
    _PROVIDERS = msgspec.json.Decoder(dict[str, schema.PluginRequirement])


class Package(Closing):
    """A package open for reading. Opening reads only the directory; other parts are read on request.

    Args:
        source: a path, a binary file object, or bytes.

    Raises:
        ArchiveError: the source is not an archive, or it is damaged.
    """

    def __init__(self, source: Readable, registry: Registry, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.archive = ArchiveReader(source, limits=limits)
        if self.archive.is_remote:
            self.archive.expect(descriptions(self.archive.names), together=True)
        self._registry = registry
        self._limits = limits
        self._fetched: dict[str, bytes] = {}

    @cached_property
    def layout(self) -> Layout:
        """The archive's layout.

        Raises:
            MissingRecordError: the archive contains no program.
        """
        return open_layout(self.archive)

    def member_of(self, name: str) -> str:
        """Return the member that stores a program.

        Raises:
            MissingRecordError: no program has that name.
        """
        try:
            return self.layout.members[name]
        except KeyError:
            names = ", ".join(map(repr, self.layout.members))
            raise MissingRecordError(
                f"the archive holds no program {name!r}", remedy=f"It holds {names}"
            ) from None

    def format_of(self, name: str) -> WireFormat:
        """Return the wire format of a program's document.

        Raises:
            UnknownFormatError: no installed plugin provides it.
        """
        member = self.member_of(name)
        suffix = member[member.rindex(".") :]
        try:
            return self._registry.wire_format_of_suffix(suffix)
        except UnknownFormatError as error:
            raise self._missing_format(member, suffix) or error from None

    def _missing_format(self, member: str, suffix: str) -> MissingFormatError | None:
        """Return an error that lists every plugin that the archive names, if it names that of the format, else None."""
        try:
            data = self.archive.read(PROVIDERS)
            providers = decode_json_record(_PROVIDERS, data, "the providers of formats are", PROVIDERS)
        except GraphwireError:
            return None
        provider = providers.pop(suffix, None)
        if provider is None or not provider.is_installable:
            return None
        stores: list[schema.PluginRequirement] = []
        with suppress(GraphwireError):  # damaged references are told where they are read
            stores = store_requirements(self.references or schema.WeightReferences())
        others = [each for key, each in providers.items() if not key.startswith(".") and each.is_installable]
        name = f"wire_format:{suffix.removeprefix('.')}"
        missing = [
            (provider, provider.provides[:1] or [name]),
            *missing_of([*others, *stores], self._registry),
        ]
        places = {
            missing[0][1][0]: [member],
            **{name: ["weights"] for each in stores for name in each.provides},
        }
        return missing_error(missing, self._registry, places, MissingFormatError)

    def tree_of(self, name: str) -> Tree:
        """Return a program's document as a plain tree, in whatever schema version it is.

        Raises:
            FormatError: the member is not a document of its format.
        """
        return read_document(self.archive.read(self.member_of(name)), self.format_of(name), self._limits)

    def fetch(self, name: str) -> None:
        """Read the bytes of a program's document now. `program_or_tree_of` decodes them later.

        Raises:
            ArchiveError: the record is damaged.
        """
        if name not in self._fetched:
            self._fetched[name] = self.archive.read(self.member_of(name))

    def program_or_tree_of(self, name: str) -> schema.Program | Tree:
        """Return a program as records if its document can be decoded without a tree, otherwise its tree.

        Raises:
            FormatError: the member is not a document of its format.
        """
        data, wire_format = self._fetched.pop(name, None), self.format_of(name)
        if data is None:
            data = self.archive.read(self.member_of(name))
        return read_program_or_tree(data, wire_format, self._limits)

    @cached_property
    def references(self) -> schema.WeightReferences | None:
        """Where the weights are that the archive lacks; None if it has all of them.

        Raises:
            ArchiveError: the record with the references is damaged, or the archive has a record that it refers to.
            WeightsError: references leave the folder of the file, or do not fit; the error lists all problems.
        """
        if REFERENCES not in self.archive:
            return None
        references = read_references(self.archive.read(REFERENCES))
        for name in chain(references.records, *references.ranks):
            if name in self.archive:  # readers would differ in which of both they take
                raise damaged_record(REFERENCES, f"it refers to {name!r:.200}, which the archive has")
        return references

    @cached_property
    def manifest(self) -> Manifest:
        """The digests of the archive's records; empty if the archive has no manifest.

        Raises:
            ArchiveError: the manifest is damaged.
        """
        return read_manifest(self.archive.read(MANIFEST)) if MANIFEST in self.archive else Manifest({})

    def check_payloads(self) -> None:
        """Check the records of all payloads against their checksums and the digests in the manifest.

        Raises:
            GraphwireError: as `ArchiveReader.verify`.
        """
        self.archive.expect(self.layout.payload_records)
        for fault in manifest_errors(self.archive, self.manifest, self.layout.payload_records):
            raise fault

    @property
    def has_manifest(self) -> bool:
        """Whether the archive has a manifest."""
        return MANIFEST in self.archive

    @property
    def lacks_manifest(self) -> bool:
        """Whether the manifest is missing although graphwire apparently wrote the archive.

        torch's writer adds a record of its own to each archive. graphwire adds a manifest to each archive in layout B2.
        """
        return not self.has_manifest and self.layout.spec.has_configs and _OF_TORCH not in self.archive

    @property
    def is_of_torch(self) -> bool:
        """Whether torch's own writer may have made the archive: Python's zipfile until 2.7, and torch's archive writer later."""
        return not self.archive.marks_utf8 if self.layout.spec.is_flat else _OF_TORCH in self.archive

    def problems(self, *, payloads: bool = True) -> list[Problem]:
        """Read all records, or with `payloads=False` all but those of payloads, and return every problem of the archive.

        Problems are records that differ from what was written, that only the manifest or only the archive has, or that contain
        executable code (which graphwire never runs), and bytes that belong to no record.
        """
        self.archive.expect(self.archive.names)
        problems = executable_members(self.archive)
        manifest = Manifest({})
        try:
            manifest = self.manifest
            listed = set(manifest.names) if self.has_manifest else None
        except GraphwireError as error:
            problems.append(Problem(error.place, "manifest", error.problem))
            listed = None
        skipped = frozenset() if payloads else frozenset(self.layout.payload_records)
        read = [name for name in self.archive.names if name not in skipped]
        found = manifest_errors(self.archive, manifest, read)
        problems += [Problem(fault.place, "record", fault.problem) for fault in found]
        if listed is not None:
            missing, unlisted = "the manifest lists it, but it is missing", "the manifest does not list it"
            names = set(self.archive.names) - {MANIFEST}
            problems += [Problem(f"record {name!r}", "manifest", missing) for name in sorted(listed - names)]
            problems += [Problem(f"record {name!r}", "manifest", unlisted) for name in sorted(names - listed)]
        for place, count in self.archive.unowned():
            problems.append(Problem(place, "unowned", f"{count:,} bytes belong to no record"))
        return problems

    def close(self) -> None:
        """Close the file. Mapped payloads stay valid."""
        self.archive.close()
