"""The serializers in the box keep the contract."""

from __future__ import annotations

import collections
import enum
import math

import pytest
import torch
from inside.schema import parse_treespec
from inside.wire import same_tree
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

from graphwire.testing import TreespecContract
from graphwire_plugins import treespecs
from graphwire_plugins.ops import PredispatchFunctions


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    LOW = 1


class Mode(str, enum.Enum):  # noqa: UP042 as people write it
    FAST = "fast"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


LeftAndRight = collections.namedtuple("LeftAndRight", ["left", "right"])
Unnamed = collections.namedtuple("Unnamed", ["value"])

KEYS = ["text", "", "é\ud800", 1, -(10**30), 2.5, -0.0, math.inf, None, True, Color.RED]
ODD_KEYS = [
    (),
    (1, ("a", Color.GREEN)),
    Level.LOW,
    Mode.FAST,
    b"\x00\xff",
    (math.inf, -math.inf),
    Access.READ,
    Access.READ | Access.WRITE,
    Access(0),
]
REFUSED_KEYS = [frozenset(), 1j, torch.float32, (object,), enum.IntFlag("Bits", "ONE")(9)]


@pytest.fixture(scope="module", autouse=True)
def _names() -> None:
    if LeftAndRight not in pytree.SUPPORTED_SERIALIZED_TYPES:
        pytree._register_namedtuple(LeftAndRight, serialized_type_name="tests.treespecs.LeftAndRight")


def dicts(keys: list[object]) -> list[dict[object, int]]:
    return [{}, *({key: 1} for key in keys), {key: index for index, key in enumerate(keys)}]


class TestTuple(TreespecContract):
    serializer = treespecs.Tuple()
    examples = ((), (1,), (1, None, (2,)))
    bad_contexts = (("[]", 1), (0, 1))


class TestList(TreespecContract):
    serializer = treespecs.List()
    examples = ([], [1, [2]])
    bad_contexts = (("[]", 1), (False, 1))


class TestDict(TreespecContract):
    serializer = treespecs.Dict()
    examples = (*dicts(KEYS), *dicts(ODD_KEYS), {True: 1, "a": 2, (1,): 3})
    refused = tuple({key: 1} for key in REFUSED_KEYS)
    bad_contexts = (
        *(("null", 1), ('"ab"', 1), ('{"a": 1}', 1), ('["a", "a"]', 1), ("[1, 1.0]", 1), ('[{"a": 1}]', 1)),
        *(
            ('[{"tuple": 1}]', 2),
            ('[{"tuple": [], "x": 1}]', 2),
            ('[{"bytes": "?"}]', 2),
            ('[{"float": "1"}]', 2),
        ),
        *(('[{"dict": []}]', 2), ('[{"enum": "no_module:Nothing", "name": "A"}]', 2), ("[[", 1), ("[[", 2)),
    )

    @pytest.mark.parametrize("key", [math.nan, (1, math.nan)])
    def test_nan_comes_back_though_it_equals_nothing(self, key: object) -> None:
        version, tree = self.serializer.dump_context([key])
        assert same_tree(self.serializer.load_context(tree, version), [key])

    def test_tuple_keys_that_torch_wrote_come_back_as_tuples(self) -> None:
        text = pytree.treespec_dumps(pytree.tree_structure({(1, ("a", 2)): 0}))
        context = parse_treespec(text).context
        assert self.serializer.load_context(context, 1) == [(1, ("a", 2))]


class TestOrderedDict(TreespecContract):
    serializer = treespecs.OrderedDict()
    examples = tuple(collections.OrderedDict(each) for each in dicts(KEYS) + dicts(ODD_KEYS))
    bad_contexts = (("null", 1), ('["a", "a"]', 1))


class TestDefaultDict(TreespecContract):
    serializer = treespecs.DefaultDict()
    examples = (
        *(collections.defaultdict(list, each) for each in dicts(KEYS) + dicts(ODD_KEYS)),
        *(collections.defaultdict(factory, a=1) for factory in treespecs.FACTORIES.values()),
        collections.defaultdict(None, a=1),
    )
    refused = (
        collections.defaultdict(lambda: 1),
        collections.defaultdict(Color),
        collections.defaultdict(math.inf.hex),
    )
    bad_contexts = (
        ({"default_factory_module": "os", "default_factory_name": "getcwd", "dict_context": []}, 1),
        ({"default_factory_module": "builtins", "default_factory_name": "eval", "dict_context": []}, 1),
        ({"default_factory_module": "builtins", "default_factory_name": "list"}, 1),
        ({"factory": "builtins.exec", "keys": []}, 2),
        ({"factory": "builtins.list", "keys": "ab"}, 2),
    )


class TestDeque(TreespecContract):
    serializer = treespecs.Deque()
    examples = (collections.deque(), collections.deque([1, 2]), collections.deque([1, 2], maxlen=5))
    bad_contexts = (("-1", 1), ("true", 1), ("1.0", 1), ("[]", 1), (str(2**70), 1))


class TestNamedTuple(TreespecContract):
    serializer = treespecs.NamedTuple()
    examples = (LeftAndRight(1, 2), LeftAndRight((1,), None))
    refused = (Unnamed(1),)
    bad_contexts = (
        ("no such name", 1),
        (3, 1),
        ("builtins.tuple", 1),
        ({"class_name": "LeftAndRight", "fields": ["x"]}, 1),
    )

    def test_the_error_gives_the_line_to_add(self) -> None:
        with pytest.raises(treespecs.EncodeError) as caught:
            self.serializer.dump_context(Unnamed)
        name = f"{__name__}.Unnamed"
        assert name in caught.value.problem
        assert (
            f"torch.utils._pytree._register_namedtuple(Unnamed, serialized_type_name={name!r})"
            in caught.value.remedy
        )

    def test_what_2_1_wrote_is_found_by_class_name_and_fields(self) -> None:
        assert (
            self.serializer.load_context({"class_name": "LeftAndRight", "fields": ["left", "right"]}, 1)
            is LeftAndRight
        )


class TestSize(TreespecContract):
    serializer = treespecs.Size()
    examples = (torch.Size([]), torch.Size([2, 3]))


class TestReturnTypes(TreespecContract):
    serializer = treespecs.ReturnTypes()
    examples = tuple(
        each(range(each.n_sequence_fields))
        for each in vars(torch.return_types).values()
        if isinstance(each, type) and issubclass(each, tuple) and each.__module__ == "torch.return_types"
    )

    def test_every_return_type_of_this_torch_is_served(self) -> None:
        served = set(self.serializer.container().values())
        assert {
            each for each in pytree.SUPPORTED_NODES if getattr(each, "__module__", "") == "torch.return_types"
        } == served
        assert set(torch.return_types.all_return_types) <= served
        assert len(served) >= 33


def _constant(function: object) -> object:
    from torch._higher_order_ops.flat_apply import _ConstantFunction

    return _ConstantFunction(function)


class TestConstantFunctions(TreespecContract):
    serializer = treespecs.ConstantFunctions()
    examples = (*map(_constant, PredispatchFunctions().functions), _constant(TwoTensor))
    refused = (_constant(torch.Tensor), _constant(math.inf.hex))
    bad_contexts = ((None, 1), ("torch.sin", 1), ({"function": 1}, 1), ({"function": "os.system"}, 1))


class TestFunctionSchemas(TreespecContract):
    serializer = treespecs.FunctionSchemas()
    examples = (torch.ops.aten.add.Tensor._schema, torch.ops.aten.topk.default._schema)
    bad_contexts = ((None, 1), ("add(", 1), ({"schema": "add("}, 1), ({"schema": 1}, 1))

    @pytest.fixture(autouse=True)
    def _flattened(self) -> None:
        if torch._C.FunctionSchema not in pytree.SUPPORTED_NODES:
            pytree.register_constant(torch._C.FunctionSchema)
