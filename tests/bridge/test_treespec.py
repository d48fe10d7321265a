"""Treespecs go out as torch writes them, and come back whole."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from given_plugins import Plugin
from hypothesis import given, settings, strategies as st
from inside.bridge import decode_treespec, encode_treespec, pytree as torch_pytree
from inside.registry import default_registry
from inside.schema import format_treespec, parse_treespec
from inside.schema.texts import treespec
from inside.wire import same_tree
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from graphwire.errors import (
    DecodeError,
    EncodeError,
    GraphwireError,
    LimitError,
    SchemaError,
    UnknownTypeError,
)
from graphwire.hooks import Registry
from graphwire_plugins import treespecs

REGISTRY = Registry.of(treespecs)
LEAF = {"type": None, "context": None, "children_spec": []}


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


Place = collections.namedtuple("Place", ["x", "y"])


@dataclasses.dataclass
class Box:
    low: Any
    high: Any = None
    tag: Any = None


class Ring:
    def __init__(self, items: list[Any], name: Any) -> None:
        self.items, self.name = items, name


class Bag(Ring):
    """A container whose context is JSON by itself."""


@pytest.fixture(scope="module", autouse=True)
def _registrations() -> None:
    if Place in pytree.SUPPORTED_SERIALIZED_TYPES:
        return
    pytree._register_namedtuple(Place, serialized_type_name="tests.Place")
    torch.export.register_dataclass(Box, serialized_type_name="tests.Box")
    pytree.register_pytree_node(
        Ring,
        lambda ring: (ring.items, ring.name),
        lambda items, name: Ring(list(items), name),
        serialized_type_name="tests.Ring",
        to_dumpable_context=lambda name: {"ring_name": name},
        from_dumpable_context=lambda tree: tree["ring_name"],
    )
    pytree.register_pytree_node(
        Bag,
        lambda bag: (bag.items, bag.name),
        lambda items, name: Bag(list(items), name),
        serialized_type_name="tests.Bag",
    )


def spec_text(kind: str | None, context: Any = "null", children: list[Any] | None = None) -> str:
    return json.dumps([1, {"type": kind, "context": context, "children_spec": children or []}])


SAYABLE = {
    "leaf": lambda: 1,
    "none": lambda: None,
    "tuple": lambda: (1, (2,), ()),
    "list": lambda: [1, [2]],
    "dict": lambda: {"a": 1, "é": {"b": 2}, '"\\\n': 3},
    "dict of many keys": lambda: {1: 2, 1.5: 3, None: 4, False: 5, float("inf"): 6, -0.5: 7, 10**30: 8},
    "enum keys": lambda: {Color.RED: 1},
    "OrderedDict": lambda: collections.OrderedDict(y=1, x=2),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "deque": lambda: collections.deque([1, 2]),
    "deque with a maxlen": lambda: collections.deque([1, 2], maxlen=4),
    "namedtuple": lambda: Place(1, (2, 3)),
    "dataclass": lambda: Box(1, tag=[2]),
    "Size": lambda: (torch.Size([2, 3]),),
    "registered with functions": lambda: Ring([1, 2], "name"),
    "registered without": lambda: Bag([1, 2], ["name", {"x": Color.RED}]),
    "immutable": lambda: immutable_list([immutable_dict(a=1)]),
    "inputs of a program": lambda: ((1, {"a": [2, 3]}), {"mask": None, "scale": (1,)}),
}
BEYOND = {
    "topk": lambda: torch.rand(4).topk(2),
    "tuple keys": lambda: {(1, "a"): 1},
    "IntEnum keys": lambda: {Level.LOW: 1},
    "bytes keys": lambda: collections.OrderedDict({b"\xff": 1}),
    "no default factory": lambda: collections.defaultdict(None, a=1),
    "enum keys of a defaultdict": lambda: collections.defaultdict(int, {Color.RED: 1}),
    "nested": lambda: [{(1,): torch.rand(3).sort()}, 2],
    "tuple keys of an immutable dict": lambda: immutable_dict({(1,): 2}),
}
BEYOND_BUT_CHANGED = {"a tuple as context": lambda: Bag([1], ("name", 1))}
"""torch writes and reads these, and gives back another context."""


@pytest.mark.parametrize("example", SAYABLE.values(), ids=SAYABLE)
def test_what_torch_can_say_is_written_byte_for_byte_as_torch_does(example: Any) -> None:
    spec = pytree.tree_structure(example())
    text = encode_treespec(spec, REGISTRY)
    assert text == pytree.treespec_dumps(spec)
    assert pytree.treespec_loads(text) == spec


@pytest.mark.parametrize("example", [*SAYABLE.values(), *BEYOND.values(), *BEYOND_BUT_CHANGED.values()])
def test_a_spec_comes_back_equal_with_the_same_types(example: Any) -> None:
    leaves, spec = pytree.tree_flatten(example())
    again = decode_treespec(encode_treespec(spec, REGISTRY), REGISTRY)
    assert again == spec
    assert same(again, spec)
    assert hash(again) == hash(spec)
    made = pytree.tree_unflatten(leaves, again)
    assert type(made) is type(pytree.tree_unflatten(leaves, spec))


@pytest.mark.parametrize("example", BEYOND.values(), ids=BEYOND)
def test_what_torch_cannot_say_is_refused_by_torch_cleanly(example: Any) -> None:
    text = encode_treespec(pytree.tree_structure(example()), REGISTRY)
    with pytest.raises(NotImplementedError, match="is not registered"):
        pytree.treespec_loads(text)


def test_specs_of_older_releases_are_read() -> None:
    fields = [LEAF, LEAF]
    old = [
        ("tests.Box", ["gen.Box", ["low", "tag"], ["high"]]),  # 2.2
        ("gen.Box", ["gen.Box", ["low", "tag"], ["high"]]),  # 2.1, and the class has moved since
        (f"{__name__}.Box", ["gen.Box", ["low", "tag"], ["high"]]),  # 2.1, and it has not
        ("tests.Box", '[["low", "tag"], ["high"]]'),
    ]
    for kind, context in old:
        assert decode_treespec(spec_text(kind, context, fields), REGISTRY) == pytree.tree_structure(
            Box(1, None, 2)
        )
    named = spec_text("collections.namedtuple", {"class_name": "Place", "fields": ["x", "y"]}, fields)
    assert decode_treespec(named, REGISTRY) == pytree.tree_structure(Place(1, 2))


def test_a_context_that_nothing_can_say_is_refused() -> None:
    for example in (
        Bag([1], object()),
        {torch.float32: 1},
        collections.defaultdict(lambda: 1),
        Ring([1], {1, 2}),
    ):
        with pytest.raises(EncodeError):
            encode_treespec(pytree.tree_structure(example), REGISTRY)
    with pytest.raises(EncodeError, match=r"not a torch\.utils"):
        encode_treespec("text", REGISTRY)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (spec_text("collections.namedtuple", "tests.Place", [LEAF]), DecodeError),
        (spec_text("torch.return_types.topk", "null", [LEAF]), DecodeError),
        (spec_text("tests.Box", '[["low", "nothing"], []]', [LEAF, LEAF]), DecodeError),
        (spec_text("tests.Box", '[["low"], ["low"]]', [LEAF]), DecodeError),
        (spec_text("tests.Box", '[["low"], []]', []), DecodeError),
        (spec_text("tests.Box", '["low", []]', [LEAF]), DecodeError),
        (spec_text("tests.Ring", "text"), DecodeError),
        (spec_text("tests.Bag", "text"), DecodeError),
        (spec_text("tests.Bag@3", "1"), DecodeError),
        (
            spec_text("builtins.dict", '[{"__enum__": true, "fqn": "antigravity:Nothing", "name": "A"}]'),
            UnknownTypeError,
        ),
    ],
)
def test_a_bad_text_is_one_of_our_errors(text: str, error: type[GraphwireError]) -> None:
    with pytest.raises(error):
        decode_treespec(text, REGISTRY)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        spec_text(
            "collections.defaultdict",
            {"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []},
        ),
        spec_text("collections.namedtuple", "tests.Ring", [LEAF]),
        spec_text("tests.Place", "tests.Ring", [LEAF]),
    ],
)
@pytest.mark.parametrize("registry", [REGISTRY, Registry.of()], ids=["with the plugin", "without"])
def test_torchs_own_readers_which_import_and_call_by_name_are_never_used(
    text: str, registry: Registry
) -> None:
    with pytest.raises(DecodeError):
        decode_treespec(text, registry)
    assert "antigravity" not in sys.modules


def test_without_the_plugin_plain_containers_still_work_and_others_are_refused() -> None:
    registry = Registry.of()
    for example in (((1, [2]), {"a": 1}), {(1,): Box(1)}, collections.deque([1]), torch.Size([1])):
        spec = pytree.tree_structure(example)
        text = encode_treespec(spec, registry)
        assert text == encode_treespec(spec, REGISTRY)
        assert decode_treespec(text, registry) == decode_treespec(text, REGISTRY) == spec
    for refused in (collections.defaultdict(int), Place(1, 2), torch.rand(3).topk(1)):
        with pytest.raises(EncodeError, match="plugin `treespecs`"):
            encode_treespec(pytree.tree_structure(refused), registry)


def test_a_serializer_that_fails_is_one_of_our_errors() -> None:
    class Faulty(treespecs.Tuple):
        name = "tests.faulty"

        def container(self) -> type:
            return Bag

        def dump_context(self, context: Any) -> Any:
            raise KeyError(context)

        def load_context(self, tree: Any, version: int) -> Any:
            raise KeyError(tree)

    registry = Registry.of(Plugin(treespec_serializers=[Faulty()]))
    with pytest.raises(EncodeError, match=r"serializer 'tests\.faulty' of plugin .*fails: KeyError: 'n'"):
        encode_treespec(pytree.tree_structure(Bag([1], "n")), registry)
    with pytest.raises(DecodeError, match=r"serializer 'tests\.faulty' of plugin .*fails: KeyError: 'n'"):
        decode_treespec(spec_text("tests.faulty", "n", [LEAF]), registry)


def test_unknown_types_are_all_named_with_what_to_do() -> None:
    text = spec_text(
        "builtins.tuple",
        "null",
        [
            {"type": name, "context": "null", "children_spec": []}
            for name in ("a.B", "c.D", "a.B", "builtins.list")
        ],
    )
    with pytest.raises(UnknownTypeError) as caught:
        decode_treespec(text, REGISTRY)
    assert "a.B, c.D" in caught.value.problem
    assert caught.value.place == "children_spec[0]"
    assert "register_dataclass" in caught.value.remedy


def test_an_error_names_the_place() -> None:
    bad = {"type": "builtins.dict", "context": "[1", "children_spec": []}
    with pytest.raises(DecodeError) as decoding:
        decode_treespec(spec_text("builtins.list", "null", [LEAF, bad]), REGISTRY)
    assert decoding.value.place == "children_spec[1].context"
    with pytest.raises(SchemaError) as parsing:
        decode_treespec(spec_text("builtins.list", "null", [LEAF, {"type": 1}]), REGISTRY)
    assert parsing.value.place == "children_spec[1].type"


def nested(depth: int) -> str:
    return (
        "[1, "
        + '{"type": "builtins.tuple", "context": "null", "children_spec": [' * depth
        + json.dumps(LEAF)
        + "]}" * depth
        + "]"
    )


def test_depth_has_a_limit() -> None:
    for depth in (treespec.MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(LimitError):
            decode_treespec(nested(depth), REGISTRY)
    with pytest.raises(LimitError):
        decode_treespec(nested(10), REGISTRY, max_depth=9)
    spec = torch_pytree.leaf_spec()
    for _ in range(treespec.MAX_DEPTH + 1):
        spec = pytree.TreeSpec(tuple, None, [spec])
    with pytest.raises(LimitError):
        encode_treespec(spec, REGISTRY)


def test_containers_nest_three_hundred_deep() -> None:
    spec = decode_treespec(nested(300), REGISTRY)
    assert spec.num_nodes == 301
    assert encode_treespec(spec, REGISTRY) == nested(300)


def test_a_serializer_of_a_plugin_goes_before_torchs_table() -> None:
    class BagSerializer(treespecs.Tuple):
        name, version = "mine.Bag", 3

        def container(self) -> type:
            return Bag

        def dump_context(self, context: Any) -> Any:
            return 3, {"n": context}

        def load_context(self, tree: Any, version: int) -> Any:
            return tree["n"] if version == 3 else tree

    registry = REGISTRY.extended(Plugin(treespec_serializers=[BagSerializer()]))
    spec = pytree.tree_structure(Bag([1], "n"))
    text = encode_treespec(spec, registry)
    assert parse_treespec(text).type == "mine.Bag@3"
    assert decode_treespec(text, registry) == spec
    assert decode_treespec(spec_text("mine.Bag@2", "old", [LEAF]), registry).context == "old"
    with pytest.raises(UnknownTypeError):
        decode_treespec(text, REGISTRY)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.recursive(
        st.one_of(
            st.text(),
            st.integers(),
            st.booleans(),
            st.none(),
            st.floats(allow_nan=False),
            st.binary(max_size=4),
            st.sampled_from(Color),
            st.sampled_from(Level),
        ),
        lambda each: st.lists(each, max_size=3).map(tuple),
        max_leaves=4,
    )
    return st.recursive(
        leaves,
        lambda child: st.one_of(
            st.lists(child, max_size=3),
            st.lists(child, max_size=3).map(tuple),
            st.dictionaries(keys, child, max_size=3),
            st.dictionaries(keys, child, max_size=3).map(collections.OrderedDict),
            st.dictionaries(keys, child, max_size=3).map(lambda each: collections.defaultdict(dict, each)),
            st.lists(child, max_size=3).map(lambda each: collections.deque(each, maxlen=4)),
            st.builds(Place, child, child),
            st.builds(Box, child, st.one_of(st.none(), child)),
            st.builds(Bag, st.lists(child, max_size=2), keys),
            st.lists(child, min_size=2, max_size=2).map(torch.return_types.topk),
        ),
        max_leaves=12,
    )


@settings(max_examples=100, deadline=None)
@given(trees(st.just(7)))
def test_any_tree_comes_back(tree: Any) -> None:
    spec = pytree.tree_structure(tree)
    text = encode_treespec(spec, REGISTRY)
    again = decode_treespec(text, REGISTRY)
    assert again == spec
    assert same(again, spec)
    assert format_treespec(parse_treespec(text)) == text
    assert encode_treespec(again, REGISTRY) == text


def test_encoding_a_spec_makes_fewer_calls_than_torch_does() -> None:
    spec = pytree.tree_structure(((1, {"a": 1, "b": [1, 2]}, Place(1, 2)), {"mask": 1}))
    installed = default_registry()  # calls of plugins in the box are not guarded
    assert calls_of(lambda: encode_treespec(spec, installed)) < calls_of(lambda: pytree.treespec_dumps(spec))


def calls_of(function: Callable[[], object]) -> int:
    """How many functions of Python and C a function calls, when it is called for the second time."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    function()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def same(one: Any, other: Any) -> bool:
    """Whether two specs agree in every type and context, exactly."""
    return (
        one.type is other.type
        and same_tree(one.context, other.context)
        and one.num_children == other.num_children
        and all(
            same(a, b)
            for a, b in zip(torch_pytree.children_of(one), torch_pytree.children_of(other), strict=True)
        )
    )


class Cache:
    """Puts what it is made of together anew, as the caches of language models do."""

    def __init__(self, keys: Any, values: Any) -> None:
        pairs = list(zip(keys, values, strict=True))
        self.keys = [torch.cat([key[..., :0, :], key], dim=-2) for key, _ in pairs]
        self.values = [torch.cat([value[..., :0, :], value], dim=-2) for _, value in pairs]


pytree.register_pytree_node(
    Cache,
    lambda cache: ([cache.keys, cache.values], ["key_cache", "value_cache"]),
    lambda parts, _: Cache(*parts),
    serialized_type_name="graphwire_test.Cache",
    flatten_with_keys_fn=lambda cache: (
        [(pytree.MappingKey("key_cache"), cache.keys), (pytree.MappingKey("value_cache"), cache.values)],
        ["key_cache", "value_cache"],
    ),
)


@pytest.mark.parametrize(
    "container",
    [
        {"a": 1, 2: [3]},
        collections.OrderedDict({"a b": 1, "c": (2, 3)}),
        collections.defaultdict(list, {"a": [1]}),
        collections.deque([1, [2]]),
        Place(1, 2),
        torch.return_types.topk([1, 2]),
        Box(1, 2),
        Cache([torch.ones(1, 2, 3, 4)] * 2, [torch.ones(1, 2, 3, 4)] * 2),
        Box(Cache([torch.ones(1, 2, 3, 4)], [torch.ones(1, 2, 3, 4)]), 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_paths_of_inputs_are_those_that_torch_names(container: Any) -> None:
    keyed, spec = pytree.tree_flatten_with_path(((container,), {}))
    steps = [path[2:] for path, _ in keyed]
    wanted = [
        [getattr(step, "name", getattr(step, "key", getattr(step, "idx", None))) for step in path]
        for path in steps
    ]
    assert [[key for _, key in path[1:]] for path in torch_pytree.input_paths(spec, ["x"])] == wanted
