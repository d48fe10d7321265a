"""Providers that are right, and ones that are wrong in one thing each. Each class names the test of its suite that must fail
on it; the right ones, whose names end with `Right`, pass all those tests. `test_mutants` runs them."""

from __future__ import annotations

import base64
import copy
import itertools
import json
import struct
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

import torch
from given_plugins import Plugin
from torch.utils import _pytree as pytree

from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import Chunk, OpsetStep, StoredTensor, StoreIndex
from graphwire.schema import Argument, ArgumentKind, FileFacts, NamedArgument
from graphwire.testing import (
    ConstantCodecContract,
    OpHandlerContract,
    OpsetContract,
    TreespecContract,
    WeightStoreContract,
    WireFormatContract,
)
from graphwire_plugins.json_format import JsonFormat
from graphwire_plugins.safetensors import SafetensorsStore

PROVIDERS = ("wire_format", "handler", "serializer", "codec", "store")
"""The attributes of suites that hold what they test."""


def mutant(suite: type, test: str) -> Callable[[type], type]:
    """Make a class of the suite of a provider that is wrong; `test` is the one that must fail on it."""

    def make(provider: type) -> type:
        (attribute,) = (each for each in PROVIDERS if hasattr(suite, each))
        name = f"Test{provider.__name__}"
        globals()[name] = type(name, (suite,), {attribute: provider(), "fails": test})
        return provider

    return make


# ------------------------------------------------------------------------------------------------------ wire formats


class Json(JsonFormat):
    name, suffix, media_type = "mutant", ".mutant", "application/x-mutant"


class TestFormatRight(WireFormatContract):
    wire_format = Json()


@mutant(TestFormatRight, "test_similar_values_stay_apart")
class BytesAsText(Json):
    def encode(self, tree: Any) -> bytes:
        return super().encode(self._changed(tree))

    def _changed(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._changed(each) for each in tree]
        if type(tree) is dict:
            return {key: self._changed(each) for key, each in tree.items()}
        return base64.b64encode(tree).decode() if isinstance(tree, bytes) else tree


@mutant(TestFormatRight, "test_dicts_keep_their_order")
class Sorted(Json):
    def encode(self, tree: Any) -> bytes:
        return super().encode(dict(sorted(tree.items())) if type(tree) is dict else tree)


@mutant(TestFormatRight, "test_a_scalar_comes_back_alone_and_inside")
class HalfFloats(Json):
    def decode(self, buffer: Any) -> Any:
        tree = super().decode(buffer)
        return (
            struct.unpack("<f", struct.pack("<f", tree))[0] if type(tree) is float and abs(tree) < 9 else tree
        )


@mutant(TestFormatRight, "test_bytes_after_the_document_are_refused")
class Generous(Json):
    def decode(self, buffer: Any) -> Any:
        return super().decode(bytes(buffer).rstrip(b"\0"))


@mutant(TestFormatRight, "test_a_value_that_no_format_has_is_refused")
class Tuples(Json):
    def encode(self, tree: Any) -> bytes:
        return super().encode(list(tree) if type(tree) is tuple else tree)


@mutant(TestFormatRight, "test_equal_trees_make_equal_bytes")
class Stamped(Json):
    count = itertools.count()

    def encode(self, tree: Any) -> bytes:
        return super().encode(tree) + b" " * (next(self.count) % 7)


@mutant(TestFormatRight, "test_encode_returns_bytes_and_leaves_the_tree_alone")
class Eats(Json):
    def encode(self, tree: Any) -> bytes:
        data = super().encode(tree)
        if type(tree) is dict:
            tree.clear()
        return data


@mutant(TestFormatRight, "test_encode_returns_bytes_and_leaves_the_tree_alone")
class Array(Json):
    def encode(self, tree: Any) -> Any:
        return bytearray(super().encode(tree))


@mutant(TestFormatRight, "test_it_knows_no_strangers")
class Greedy(Json):
    def matches(self, head: bytes) -> bool:
        return True


@mutant(TestFormatRight, "test_random_bytes_are_a_tree_or_an_error_of_ours")
class Foreign(Json):
    def decode(self, buffer: Any) -> Any:
        return {b"{": 1, b"[": 2, b"n": 3, b"t": 4}[bytes(buffer)[:1]] and super().decode(buffer)


@mutant(TestFormatRight, "test_eight_threads_at_once")
class Shared(Json):
    last: Any = None

    def encode(self, tree: Any) -> bytes:
        type(self).last = tree
        time.sleep(1e-5)
        return super().encode(type(self).last)


@mutant(TestFormatRight, "test_decoded_trees_are_independent")
class Cached(Json):
    known: ClassVar[dict[bytes, Any]] = {}

    def decode(self, buffer: Any) -> Any:
        return self.known.setdefault(bytes(buffer), super().decode(buffer))


@mutant(TestFormatRight, "test_deep_trees_come_back")
class Shallow(Json):
    def decode(self, buffer: Any) -> Any:
        if bytes(buffer).startswith(b"[" * 100):
            raise RecursionError
        return super().decode(buffer)


@mutant(TestFormatRight, "test_decoded_trees_are_independent")
class OneEmptyList(Json):
    empty: ClassVar[list[Any]] = []

    def decode(self, buffer: Any) -> Any:
        tree = super().decode(buffer)
        return {key: value or self.empty for key, value in tree.items()} if type(tree) is dict else tree


@mutant(TestFormatRight, "test_another_process_reads_and_writes_the_same")
class Interned(Json):
    known: ClassVar[list[bytes]] = []

    def encode(self, tree: Any) -> bytes:
        self.known.append(super().encode(tree))
        return b"%d" % (len(self.known) - 1)

    def decode(self, buffer: Any) -> Any:
        return super().decode(self.known[int(bytes(buffer))])


@mutant(TestFormatRight, "test_another_process_reads_and_writes_the_same")
class Seeded(Json):
    def encode(self, tree: Any) -> bytes:
        return super().encode(tree) + b" " * (hash("a text") % 9973)


@mutant(TestFormatRight, "test_records_are_written_as_their_tree_is")
class EatsNodes(Json):
    def encode_records(self, records: Any) -> bytes:
        data = super().encode_records(records)
        if hasattr(records, "graph_module"):
            records.graph_module.graph.nodes.clear()
        return data


@mutant(TestFormatRight, "test_a_program_is_read_as_its_tree_is")
class LosesNodes(Json):
    def decode_program(self, buffer: Any) -> Any:
        program = super().decode_program(buffer)
        if program is not None:
            program.graph_module.graph.nodes.clear()
        return program


@mutant(TestFormatRight, "test_a_scalar_comes_back_alone_and_inside")
class CountsNothing(Json):
    def most_values(self, buffer: Any) -> int:
        return 0


# ------------------------------------------------------------------------------------------- operators, their history

if not hasattr(torch.ops.gw_mutant, "scale"):
    library = torch.library.Library("gw_mutant", "DEF")
    library.define("scale(Tensor x, float factor, float offset) -> Tensor")
    library.define("other(Tensor x, float factor, float offset) -> Tensor")
    for operator in ("scale", "other"):
        library.impl(operator, lambda x, factor, offset: x * factor + offset, "CompositeExplicitAutograd")
SCALE = "torch.ops.gw_mutant.scale.default"


class Model(torch.nn.Module):
    def __init__(self, offset: float) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.gw_mutant.scale(x, 2.0, self.offset) + 1


def plain() -> Any:
    return torch.export.export(Model(0.0), (torch.arange(4.0),))


def moved() -> Any:
    return torch.export.export(Model(0.5), (torch.arange(4.0),))


class Handler:
    namespace, prefixes, opset_version, convention = "gw_mutant", ("torch.ops.gw_mutant.",), 1, "schema"

    def name_of(self, target: Any) -> str | None:
        return None

    def resolve(self, name: str) -> Any:
        return {SCALE: torch.ops.gw_mutant.scale.default}.get(name)


class TestHandlerRight(OpHandlerContract):
    handler: Any = Handler()
    programs = (plain, moved)


@mutant(TestHandlerRight, "test_a_name_resolves_to_the_operator_that_has_it")
class Confused(Handler):
    def resolve(self, name: str) -> Any:
        return torch.ops.gw_mutant.other.default if name == SCALE else None


@mutant(TestHandlerRight, "test_unknown_names_give_nothing")
class Always(Handler):
    def resolve(self, name: str) -> Any:
        return torch.ops.gw_mutant.scale.default


@mutant(TestHandlerRight, "test_unknown_names_give_nothing")
class Walks(Handler):
    def resolve(self, name: str) -> Any:
        found: Any = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        return found


@mutant(TestHandlerRight, "test_what_is_no_operator_has_no_name")
class NamesAll(Handler):
    def name_of(self, target: Any) -> str | None:
        return SCALE


@mutant(TestHandlerRight, "test_every_program_uses_its_operators")
class Elsewhere(Handler):
    prefixes = ("torch.ops.gw_mutant_elsewhere.",)


class Codes(Handler):
    """Writes the inputs of its nodes itself, and rightly."""

    def encode_node(self, target: Any, args: Any, kwargs: Any, encode: Any) -> Any:
        return [NamedArgument("", encode(each), ArgumentKind.POSITIONAL) for each in args]

    def decode_node(self, target: Any, inputs: Any, decode: Any) -> Any:
        if [each.name for each in inputs] != [""] * 3:
            raise DecodeError("no call of scale")
        return tuple(decode(each.arg) for each in inputs), {}


class TestCodesRight(TestHandlerRight):
    handler = Codes()


@mutant(TestHandlerRight, "test_programs_round_trip")
class Forgets(Codes):
    def encode_node(self, target: Any, args: Any, kwargs: Any, encode: Any) -> Any:
        return [
            *super().encode_node(target, args, kwargs, encode)[:2],
            NamedArgument("", Argument(as_float=9.0), ArgumentKind.POSITIONAL),
        ]


@mutant(TestHandlerRight, "test_programs_round_trip")
class Drifts(Codes):
    count = itertools.count()

    def encode_node(self, target: Any, args: Any, kwargs: Any, encode: Any) -> Any:
        *first, last = super().encode_node(target, args, kwargs, encode)
        return (
            [*first, last]
            if next(self.count) % 2
            else [*first, NamedArgument("", last.arg, ArgumentKind.UNKNOWN)]
        )


@mutant(TestHandlerRight, "test_whatever_stands_in_a_file_is_read_or_refused")
class Trusts(Codes):
    def decode_node(self, target: Any, inputs: Any, decode: Any) -> Any:
        x, factor, offset = inputs
        return (decode(x.arg), decode(factor.arg), decode(offset.arg)), {}


class Third(Handler):
    opset_version = 3


class TestGap(TestHandlerRight):
    handler = Third()
    steps = (OpsetStep("gw_mutant", 1, 2),)
    fails = "test_its_history_has_no_gap"


class Second(Handler):
    opset_version = 2


def add_offset(edit: Any) -> None:
    if not edit.has("offset"):
        edit.set("offset", 0.0)


def drop_offset(edit: Any) -> None:
    if edit.value("offset") != 0.0:
        edit.refuse("version 1 has no offset")
    edit.drop("offset")


def history(up: Any = add_offset, down: Any = drop_offset) -> Any:
    return (OpsetStep("gw_mutant", 1, 2, {SCALE: up}), OpsetStep("gw_mutant", 2, 1, {SCALE: down}))


def plugin_with(steps: Any) -> Plugin:
    return Plugin(op_handlers=[Second()], opset_upgraders=steps)


class TestHistoryRight(OpsetContract):
    steps: Any = history()
    plugin: Any = plugin_with(steps)
    newest = 2
    programs = (plain, moved)


def raises(edit: Any) -> None:
    raise KeyError("offset")


class TestRaisesUp(TestHistoryRight):
    steps = history(up=raises)
    plugin = plugin_with(steps)
    fails = "test_no_step_fails"


class TestRaisesUpAlone(TestHistoryRight):
    """There is no way down, so no program of version 1."""

    steps = history(up=raises)[:1]
    plugin = plugin_with(steps)
    fails = "test_no_step_fails"


class TestRaisesDown(TestHistoryRight):
    steps = history(down=raises)
    plugin = plugin_with(steps)
    fails = "test_a_program_goes_down_and_computes_the_same_or_says_why_not"


class TestRaisesOfOther(TestHistoryRight):
    """An operator that no program has."""

    steps = (
        OpsetStep("gw_mutant", 1, 2, {SCALE: add_offset, "torch.ops.gw_mutant.old.default": raises}),
        history()[1],
    )
    plugin = plugin_with(steps)
    fails = "test_no_step_fails"


class TestForgetsOffset(TestHistoryRight):
    steps = history(down=lambda edit: edit.drop("offset"))
    plugin = plugin_with(steps)
    fails = "test_a_program_goes_down_and_computes_the_same_or_says_why_not"


class TestMisspelt(TestHistoryRight):
    steps = history(up=lambda edit: edit.set("ofset", 0.0))
    plugin = plugin_with(steps)
    fails = "test_a_program_goes_down_and_computes_the_same_or_says_why_not"


class TestStep(TestHistoryRight):
    steps = (*history(), OpsetStep("gw_mutant", 2, 4))
    fails = "test_each_is_a_step_of_one_namespace"


class TestOtherNamespace(TestHistoryRight):
    steps = (*history(), OpsetStep("gw_mutant_other", 1, 2))
    fails = "test_each_is_a_step_of_one_namespace"


class TestNoWayUp(TestHistoryRight):
    steps = history()[1:]
    plugin = plugin_with(steps)
    fails = "test_the_way_up_has_no_gap"


class TestTwice(TestHistoryRight):
    steps = (*history(), history()[0])
    fails = "test_each_operator_is_rewritten_by_one_function_a_step"


def edits_in_place(edit: Any) -> None:
    edit.argument("factor").as_float = 1.0
    drop_offset(edit)


class TestEditsInPlace(TestHistoryRight):
    steps = history(down=edits_in_place)
    plugin = plugin_with(steps)
    fails = "test_steps_change_no_program_that_they_are_given"


counter = itertools.count()  # The numbers of its bits have no period, so that no two rounds are alike.


class TestMoody(TestHistoryRight):
    steps = history(
        down=lambda edit: edit.refuse("today") if next(counter).bit_count() % 2 else drop_offset(edit)
    )
    plugin = plugin_with(steps)
    fails = "test_threads_do_not_meet"


# -------------------------------------------------------------------------------------------------------- containers


class Box:
    def __init__(self, items: list[Any], label: Any) -> None:
        self.items, self.label = items, label


pytree.register_pytree_node(
    Box,
    lambda box: (box.items, box.label),
    lambda items, label: Box(list(items), label),
    flatten_with_keys_fn=lambda box: (
        [(pytree.SequenceKey(i), each) for i, each in enumerate(box.items)],
        box.label,
    ),
)


class Serializer:
    name, version = "gw_mutant.Box", 1

    def container(self) -> type:
        return Box

    def dump_context(self, context: Any) -> Any:
        if not isinstance(context, tuple) or [*map(type, context)] != [int, str]:
            raise EncodeError("no label of a Box")
        return 1, list(context)

    def load_context(self, tree: Any, version: int) -> Any:
        match tree:
            case [int(number), str(text)] if type(number) is int:
                return (number, text)
        raise DecodeError("no label of a Box")

    def arity(self, container: type, context: Any) -> int | None:
        return int(context[0])


class TestSerializerRight(TreespecContract):
    serializer: Any = Serializer()
    examples = (Box([1, 2], (2, "a")), Box([], (0, "")))
    refused = (Box([1], {3}), Box([1], None))
    bad_contexts = ((["a", 3], 1), ({}, 1), (None, 1))


@mutant(TestSerializerRight, "test_a_context_comes_back_exactly")
class LosesContext(Serializer):
    def load_context(self, tree: Any, version: int) -> Any:
        return (super().load_context(tree, version)[0], "a")


@mutant(TestSerializerRight, "test_a_context_comes_back_exactly")
class Lists(Serializer):
    def load_context(self, tree: Any, version: int) -> Any:
        return list(super().load_context(tree, version))


@mutant(TestSerializerRight, "test_a_context_comes_back_exactly")
class Ahead(Serializer):
    def dump_context(self, context: Any) -> Any:
        return 2, super().dump_context(context)[1]


@mutant(TestSerializerRight, "test_a_context_comes_back_exactly")
class NoJson(Serializer):
    def dump_context(self, context: Any) -> Any:
        return 1, tuple(super().dump_context(context)[1])


@mutant(TestSerializerRight, "test_a_container_comes_back_with_its_leaves_in_order")
class Miscounts(Serializer):
    def arity(self, container: type, context: Any) -> int | None:
        return int(context[0]) + 1


@mutant(TestSerializerRight, "test_a_bad_context_is_refused")
class Credulous(Serializer):
    def load_context(self, tree: Any, version: int) -> Any:
        return (0, "")


@mutant(TestSerializerRight, "test_whatever_stands_in_a_file_is_a_context_or_refused")
class Careless(Serializer):
    def load_context(self, tree: Any, version: int) -> Any:
        return (tree[0], tree[1])


@mutant(TestSerializerRight, "test_equal_containers_have_equal_text")
class Counts(Serializer):
    count = itertools.count()

    def dump_context(self, context: Any) -> Any:
        return 1, [next(self.count), *super().dump_context(context)[1]]

    def load_context(self, tree: Any, version: int) -> Any:
        return super().load_context(tree[1:] if isinstance(tree, list) else tree, version)


@mutant(TestSerializerRight, "test_what_it_cannot_write_is_refused")
class WritesAll(Serializer):
    def dump_context(self, context: Any) -> Any:
        return 1, [1, str(context)]


@mutant(TestSerializerRight, "test_torch_flattens_its_containers")
class NotOurs(Serializer):
    def container(self) -> type:
        return JsonFormat


# ------------------------------------------------------------------------------------------------------------ codecs


class Striped(torch.Tensor):
    row: Any

    @staticmethod
    def __new__(cls: Any, row: Any, rows: int) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, (rows, *row.shape), dtype=row.dtype, device=row.device
        )

    def __init__(self, row: Any, rows: int) -> None:
        self.row = row

    def __tensor_flatten__(self) -> Any:
        return ["row"], self.shape[0]

    @staticmethod
    def __tensor_unflatten__(inner: Any, rows: int, size: Any, stride: Any) -> Any:
        return Striped(inner["row"], rows)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.detach.default:
            return Striped(args[0].row.detach(), args[0].shape[0])
        full = [each.row.expand(each.shape) if isinstance(each, Striped) else each for each in args]
        return function(*full, **(kwargs or {}))


class Codec:
    name = "gw_mutant"

    def owns(self, value: Any) -> bool:
        return type(value) is Striped

    def encode(self, value: Any) -> Any:
        return {"rows": value.shape[0]}, [value.row]

    def decode(self, tree: Any, tensors: Any) -> Any:
        match tree, list(tensors):
            case {"rows": int(rows)}, [row] if type(rows) is int and rows >= 0:
                return Striped(row, rows)
        raise DecodeError("no Striped")


class TestCodecRight(ConstantCodecContract):
    codec: Any = Codec()
    examples = (lambda: Striped(torch.arange(3.0), 4), lambda: Striped(torch.ones(2, 2), 0))

    def assert_same(self, actual: Any, expected: Any) -> None:
        assert actual.shape == expected.shape
        assert torch.equal(actual.row, expected.row)


@mutant(TestCodecRight, "test_it_owns_its_constants_and_nothing_plain")
class Grasping(Codec):
    def owns(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)


@mutant(TestCodecRight, "test_it_owns_its_constants_and_nothing_plain")
class Tries(Codec):
    def owns(self, value: Any) -> bool:
        return bool(value.row is not None)


@mutant(TestCodecRight, "test_a_constant_comes_back")
class LosesRows(Codec):
    def decode(self, tree: Any, tensors: Any) -> Any:
        return Striped(super().decode(tree, tensors).row, 4)


@mutant(TestCodecRight, "test_a_constant_comes_back")
class MakesPlain(Codec):
    def decode(self, tree: Any, tensors: Any) -> Any:
        return super().decode(tree, tensors) + 0


@mutant(TestCodecRight, "test_the_same_constant_makes_the_same_tree_and_no_tensor_is_copied")
class Copies(Codec):
    def encode(self, value: Any) -> Any:
        return {"rows": value.shape[0]}, [value.row.clone()]


@mutant(TestCodecRight, "test_a_constant_is_a_tree_and_tensors")
class NoTree(Codec):
    def encode(self, value: Any) -> Any:
        return {"rows": value.shape[0], "kinds": {1, 2}}, [value.row]


@mutant(TestCodecRight, "test_the_same_constant_makes_the_same_tree_and_no_tensor_is_copied")
class Numbers(Codec):
    count = itertools.count()

    def encode(self, value: Any) -> Any:
        return {"rows": value.shape[0], "number": next(self.count)}, [value.row]


@mutant(TestCodecRight, "test_whatever_stands_in_a_file_is_a_constant_or_refused")
class Naive(Codec):
    def decode(self, tree: Any, tensors: Any) -> Any:
        return Striped(tensors[0], tree["rows"])


@mutant(TestCodecRight, "test_what_is_no_tree_of_its_own_is_refused")
class Shrugs(Codec):
    def decode(self, tree: Any, tensors: Any) -> Any:
        return super().decode(tree, tensors) if tensors else Striped(torch.ones(1), 1)


@mutant(TestCodecRight, "test_the_registry_accepts_it")
class Unnamed(Codec):
    name = "Bad Name"


@mutant(TestCodecRight, "test_threads_do_not_meet")
class Remembers(Codec):
    last: Any = None

    def encode(self, value: Any) -> Any:
        type(self).last = copy.copy(value.shape[0])
        time.sleep(1e-3)
        return {"rows": type(self).last}, [value.row]


@mutant(TestCodecRight, "test_another_process_loads_what_this_one_wrote")
class Keeps(Codec):
    def __init__(self) -> None:
        self.rows: dict[int, int] = {}

    def encode(self, value: Any) -> Any:
        self.rows[len(self.rows)] = value.shape[0]
        key = next(key for key, rows in self.rows.items() if rows == value.shape[0])
        return {"key": key}, [value.row]

    def decode(self, tree: Any, tensors: Any) -> Any:
        match tree:
            case {"key": int(key)} if key in self.rows:
                return super().decode({"rows": self.rows[key]}, tensors)
        raise DecodeError("no Striped")


@mutant(TestCodecRight, "test_another_process_loads_what_this_one_wrote")
class Guesses(Keeps):
    def decode(self, tree: Any, tensors: Any) -> Any:
        match tree:
            case {"key": int(key)} if type(key) is int and key not in self.rows:
                return super().decode({"rows": 1}, tensors)
        return super().decode(tree, tensors)


# ------------------------------------------------------------------------------------------------------ weight stores


class TestStoreRight(WeightStoreContract):
    store: Any = SafetensorsStore()
    location = "model.safetensors"


@mutant(TestStoreRight, "test_every_type_and_shape_that_it_keeps_comes_back")
class Unsigned(SafetensorsStore):
    """It forgets that integers have no sign."""

    def open(self, folder: Any, location: str) -> Any:
        index = super().open(folder, location)
        tensors = {name: each._replace(dtype=each.dtype.lstrip("u")) for name, each in index.tensors.items()}
        return index._replace(tensors=tensors)


@mutant(TestStoreRight, "test_it_says_which_types_it_keeps")
class AnyType(SafetensorsStore):
    def keeps(self, dtype: str) -> bool:
        return True


@mutant(TestStoreRight, "test_every_name_comes_back")
class LowerCase(SafetensorsStore):
    """It writes names in lower case, as a store that has a file for each tensor might."""

    def write(self, folder: Any, location: str, tensors: Any) -> Any:
        lower = {name.lower(): new for name, new in tensors.items()}
        written, _ = super().write(folder, location, lower)
        return written, {name: name.lower() for name in tensors}


@mutant(TestStoreRight, "test_no_file_is_replaced")
class Replacing(SafetensorsStore):
    def write(self, folder: Any, location: str, tensors: Any) -> Any:
        folder.remove(location)
        return super().write(folder, location, tensors)


@mutant(TestStoreRight, "test_equal_content_is_written_once")
class Counted(SafetensorsStore):
    """It never uses a file that is there."""

    number = itertools.count()

    def write(self, folder: Any, location: str, tensors: Any) -> Any:
        return super().write(folder, f"{next(self.number)}-{location}", tensors)


@mutant(TestStoreRight, "test_it_does_not_find_what_others_wrote")
class Claiming(SafetensorsStore):
    def find(self, folder: Any, location: str) -> str | None:
        return location


@mutant(TestStoreRight, "test_a_missing_file_is_noticed")
class OnceRead(SafetensorsStore):
    """It looks at a location once."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Any] = {}

    def open(self, folder: Any, location: str) -> Any:
        if location not in self.known:
            self.known[location] = super().open(folder, location)
        return self.known[location]


@mutant(TestStoreRight, "test_damage_is_an_archive_error_or_describes_what_is_there")
class Unchecked(SafetensorsStore):
    """It takes a header as it is."""

    def open(self, folder: Any, location: str) -> Any:
        with closing(folder.open(location)) as file:
            begin = 8 + int.from_bytes(file.read_at(0, 8), "little")
            tree, size = json.loads(file.read_at(8, begin - 8)), file.size
        tensors = {}
        for name, entry in tree.items():
            shape = tuple(entry["shape"])
            chunk = Chunk(location, begin + entry["data_offsets"][0], (0,) * len(shape), shape)
            tensors[name] = StoredTensor("uint8", shape, (chunk,))
        return StoreIndex(tensors, {location: FileFacts(size)})


@mutant(TestStoreRight, "test_memory_does_not_grow_with_the_tensors")
class Hoarding(SafetensorsStore):
    """It keeps a copy of all elements while it writes."""

    def write(self, folder: Any, location: str, tensors: Any) -> Any:
        copies = {name: bytes(new.view()) for name, new in tensors.items()}
        views = {
            name: new._replace(view=lambda name=name: memoryview(copies[name]))
            for name, new in tensors.items()
        }
        return super().write(folder, location, views)


@mutant(TestStoreRight, "test_it_closes_the_files_that_it_opens")
class LeavingOpen(SafetensorsStore):
    def open(self, folder: Any, location: str) -> Any:
        folder.open(location)
        return super().open(folder, location)


@mutant(TestStoreRight, "test_writers_in_parallel_do_not_meet")
class Hasty(SafetensorsStore):
    """It takes a file of another writer for its own."""

    def write(self, folder: Any, location: str, tensors: Any) -> Any:
        super().write(folder, location, tensors)
        return location, {name: name for name in tensors}
