"""Cases of the suite, and the archives that they consist of."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphwire.hooks import default_registry
from making.documents import Tree, meta
from making.zip_bytes import DEFLATED, End, Member, write_zip

FORMATS = ("json", "msgpack", "cbor")


@dataclass(frozen=True)
class Case:
    """One file that a reader is given."""

    name: str
    """`GROUP/NAME`."""
    about: str
    """What is special about the file, in one sentence."""
    data: bytes
    rules: tuple[str, ...] = ()
    """Of an invalid file: the rule that it breaks, by all its numbers. Those of valid files are in `rules`."""
    valid: bool = True
    needs: tuple[str, ...] = ("json",)
    """The parts that a reader must claim to be given the file."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Files beside it, by path relative to its folder."""


def encode(tree: Tree, wire_format: str = "json") -> bytes:
    """A tree in a wire format."""
    return default_registry().wire_format(wire_format).encode(tree)


def json_bytes(tree: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


# ------------------------------------------------------------------------------------------------------------- payloads


@dataclass
class Payload:
    """A weight or constant."""

    record: str
    """The name of its record in its folder."""
    data: bytes
    meta: Tree
    is_param: bool = True
    fields: dict[str, Any] = field(default_factory=dict)
    """More fields of its entry in the config."""


def numbers(count: int, item: int = 4, seed: int = 0) -> bytes:
    """Bytes of elements, all of them different."""
    return b"".join((index * 257 + seed + 1).to_bytes(item, "little") for index in range(count))


def config(payloads: Mapping[str, Payload]) -> bytes:
    """The config of payloads."""
    return json_bytes(
        {
            "config": {
                name: {
                    "path_name": each.record,
                    "is_param": each.is_param,
                    "use_pickle": False,
                    "tensor_meta": each.meta,
                    **each.fields,
                }
                for name, each in payloads.items()
            }
        }
    )


# ------------------------------------------------------------------------------------------------------------- archives

Rewrite = Callable[[list[Member]], None]


@dataclass
class Archive:
    """An archive in graphwire's layout."""

    programs: Mapping[str, Tree | bytes]
    """By name; bytes are a document that is encoded already."""
    weights: Mapping[str, Payload] = field(default_factory=dict)
    constants: Mapping[str, Payload] = field(default_factory=dict)
    samples: Mapping[str, Payload] = field(default_factory=dict)
    wire_format: str = "json"
    references: Any = None
    extra: Mapping[str, bytes] = field(default_factory=dict)
    manifest: bool = True
    root: str = "program"
    method: int = DEFLATED
    end: End = field(default_factory=End)
    start: bytes = b""
    without: Sequence[str] = ()
    """Names of payload records that are dropped: they are elsewhere."""
    first: Mapping[str, bytes] = field(
        default_factory=lambda: {
            "archive_format": b"pt2",
            "archive_version": b"0",
            "byteorder": b"little",
            ".data/version": b"6",
        }
    )

    def small(self) -> Archive:
        """The same with no more records than a reader needs, so that the suite is small."""
        return replace(self, manifest=False, first={})

    def members(self) -> list[Member]:
        """The members, with names below the root folder, without the manifest."""
        found = [Member(name, data) for name, data in self.first.items()]
        for name, tree in self.programs.items():
            document = tree if isinstance(tree, bytes) else encode(tree, self.wire_format)
            found.append(Member(f"models/{name}.{self.wire_format}", document, self.method))
        for folder, kind, table in (
            ("weights", "weights", self.weights),
            ("constants", "constants", self.constants),
            ("sample_inputs", "sample_inputs", self.samples),
        ):
            for name in self.programs:
                if table or self.first or kind != "sample_inputs":  # the only config that may be absent
                    found.append(
                        Member(f"data/{folder}/{name}_{kind}_config.json", config(table), self.method)
                    )
            records = {each.record: each.data for each in table.values() if each.record}
            found += [
                Member(f"data/{folder}/{record}", data)
                for record, data in records.items()
                if f"data/{folder}/{record}" not in self.without
            ]
        if self.references is not None:
            found.append(Member("data/weights/references.json", json_bytes(self.references), self.method))
        found += [Member(f"extra/{path}", data, self.method) for path, data in self.extra.items()]
        return found

    def build(self, *changes: Rewrite, after: Rewrite | None = None) -> bytes:
        """Return the bytes.

        Args:
            changes: edits of the members, before the manifest is made.
            after: an edit of all members, with the manifest and whole names.
        """
        members = self.members()
        for change in changes:
            change(members)
        if self.manifest:
            members.append(manifest_of(members))
        for each in members:
            each.name = f"{self.root}/{each.name}" if self.root else each.name
        if after is not None:
            after(members)
        return write_zip(members, self.end, self.start)


def manifest_of(members: Iterable[Member]) -> Member:
    """The manifest, with a digest for each record; payloads of less than 1 MiB share one."""
    listed = [each for each in members if each.listed]
    small = [each for each in listed if is_payload(each.name)]
    digests = {
        each.name: hashlib.sha256(each.data).hexdigest()
        for each in listed
        if each not in small or len(small) == 1
    }
    tree: dict[str, Any] = {"sha256": digests}
    if len(small) > 1:
        together = hashlib.sha256(b"".join(each.data for each in small)).hexdigest()
        tree["together"] = [{"sizes": {each.name: len(each.data) for each in small}, "sha256": together}]
    return Member("manifest.json", json_bytes(tree))


def is_payload(name: str) -> bool:
    """Whether a record has the bytes of a payload."""
    return name.startswith("data/") and "_config" not in name and not name.endswith(".json")


def member(members: list[Member], name: str) -> Member:
    """Return the member whose name ends so."""
    return next(each for each in members if each.name.endswith(name))


def edited(tree: Tree, path: str, value: Any) -> Tree:
    """Return a copy of a tree with another value at a path such as `graph_module.graph.nodes.0.name`."""
    made = copy.deepcopy(tree)
    place = made
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step) if isinstance(place, list) else step]
    if value is REMOVED:
        del place[int(last) if isinstance(place, list) else last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return made


REMOVED: Any = object()
"""As a value of `edited`: the entry is removed."""


def float32(sizes: Sequence[int] = (2, 3), record: str = "weight_0", seed: int = 0, **fields: Any) -> Payload:
    """A contiguous float32 weight."""
    count = 1
    for size in sizes:
        count *= size
    return Payload(record, numbers(count, 4, seed), meta(7, sizes), fields=fields)


def holding(
    weights: Mapping[str, Payload], constants: Mapping[str, Payload] | None = None, **fields: Any
) -> Tree:
    """A program that takes weights as parameters (or buffers) and constants, and returns the relu of `x`."""
    from making.documents import graph, program, relu, tensor

    inputs, specs, tensors = [], [], {}
    for index, (name, each) in enumerate(weights.items()):
        value = f"p_{index}"
        inputs.append(tensor(value))
        tensors[value] = each.meta
        arg = {"name": value}
        if each.is_param:
            specs.append({"parameter": {"arg": arg, "parameter_name": name}})
        else:
            specs.append({"buffer": {"arg": arg, "buffer_name": name, "persistent": True}})
    for index, (name, each) in enumerate((constants or {}).items()):
        value = f"c_{index}"
        inputs.append(tensor(value))
        tensors[value] = each.meta
        specs.append({"tensor_constant": {"arg": {"name": value}, "tensor_constant_name": name}})
    inputs.append(tensor("x"))
    specs.append({"user_input": {"arg": tensor("x")}})
    contents = graph(inputs, [tensor("relu")], [relu()], {**tensors, "x": meta(), "relu": meta()})
    return program(contents, specs, **fields)


def with_weights(
    weights: Mapping[str, Payload],
    constants: Mapping[str, Payload] | None = None,
    wire_format: str = "json",
    **fields: Any,
) -> Archive:
    """An archive of such a program."""
    return Archive(
        {"model": holding(weights, constants, **fields)},
        weights,
        constants or {},
        wire_format=wire_format,
    )
