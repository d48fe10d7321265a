"""A plugin of a user, with something for each hook, and the contract suites that test it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from graphwire import hookimpl
from graphwire.errors import DecodeError, EncodeError, FormatError
from graphwire.evolve.planner import Change
from graphwire.hooks import (
    Chunk,
    Command,
    ConstantCodec,
    MetadataKey,
    NewTensor,
    NodeCodec,
    NodeEditor,
    OpHandler,
    OpsetStep,
    OpsetUpgrader,
    Output,
    StoredTensor,
    StoreFolder,
    StoreIndex,
    Tree,
    TreespecSerializer,
    WeightStore,
    WireFormat,
    opset_steps,
)
from graphwire.schema import Argument, FileFacts, NamedArgument
from graphwire.testing import OpsetContract, WireFormatContract, assert_same_program

SCALE = "torch.ops.acme.scale.default"


class Lines:
    """A wire format."""

    name = "lines"
    suffix = ".lines"
    media_type = "application/x-lines"

    def encode(self, tree: Tree) -> bytes:
        if isinstance(tree, bytes):
            raise FormatError("bytes")
        return json.dumps(tree).encode()

    def decode(self, buffer: bytes | bytearray | memoryview) -> Tree:
        tree: Tree = json.loads(bytes(buffer))
        return tree

    def matches(self, head: bytes) -> bool:
        return head.startswith(b"L")


class Operators:
    """An operator handler that writes the arguments of its nodes itself."""

    namespace = "acme"
    prefixes = ("torch.ops.acme.",)
    opset_version = 2
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any | None:
        return {SCALE: print}.get(name)

    def encode_node(
        self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
    ) -> list[NamedArgument] | None:
        if kwargs:
            raise EncodeError("keywords")
        return [NamedArgument(name=str(position), arg=encode(arg)) for position, arg in enumerate(args)]

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        return tuple(decode(one.arg) for one in inputs), {}


def up(edit: NodeEditor) -> None:
    factor = edit.value("factor", 1.0)
    if factor == 0:
        edit.refuse("zero")
    edit.set("factor", factor)


class Interval:
    """A container type of inputs and outputs."""

    name = "acme.Interval"
    version = 1

    def container(self) -> type:
        return slice

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        return 1, None

    def load_context(self, tree: Tree, version: int) -> Any:
        if tree is not None:
            raise DecodeError("context")
        return None

    def arity(self, container: type, context: Any) -> int | None:
        return 2


class Packed:
    """A codec for weights."""

    name = "acme.Packed"

    def owns(self, value: Any) -> bool:
        return False

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        return {"scale": value.scale}, [value.data]

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        return tensors[0]


class OneFile:
    """A weight store."""

    name = "onefile"
    takes_storages = False

    def find(self, folder: StoreFolder, location: str) -> str | None:
        return location if location.endswith(".one") else None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        file = folder.open(location)
        chunk = Chunk(location, 0, (0,), (file.size,))
        return StoreIndex(
            {"all": StoredTensor("uint8", (file.size,), (chunk,))}, {location: FileFacts(nbytes=file.size)}
        )

    def keeps(self, dtype: str) -> bool:
        return dtype == "uint8"

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        with folder.create(location) as file:
            for tensor in tensors.values():
                file.write(tensor.view())
        return location, {name: name for name in tensors}


class Count:
    """A command."""

    name = "count"
    help = "counts nodes"

    def add(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, output: Output) -> int:
    output.line("counted")
    return 0


@hookimpl
def graphwire_wire_formats() -> Iterable[WireFormat]:
    return [Lines()]


@hookimpl
def graphwire_op_handlers() -> Iterable[OpHandler]:
    handler: NodeCodec = Operators()
    return [handler]


@hookimpl
def graphwire_opset_upgraders() -> Iterable[OpsetUpgrader]:
    propagates: Collection[str] = frozenset({SCALE})
    return [
        *opset_steps("acme", 2, [Change(2, SCALE, up, None)]),
        OpsetStep("acme", 2, 3, {SCALE: up}, propagates),
    ]


@hookimpl
def graphwire_treespec_serializers() -> Iterable[TreespecSerializer]:
    return [Interval()]


@hookimpl
def graphwire_constant_codecs() -> Iterable[ConstantCodec]:
    return [Packed()]


@hookimpl
def graphwire_metadata_keys() -> Iterable[MetadataKey]:
    return [MetadataKey("acme_cost")]


@hookimpl
def graphwire_weight_stores() -> Iterable[WeightStore]:
    return [OneFile()]


@hookimpl
def graphwire_commands() -> Iterable[Command]:
    return [Count()]


class TestLines(WireFormatContract):
    wire_format = Lines()


class TestSteps(OpsetContract):
    operators = Operators()


assert callable(assert_same_program)
