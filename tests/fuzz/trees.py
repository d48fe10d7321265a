"""Documents changed as trees: what a hostile writer would do who knows the schema.

A tree is changed in one to four places: what stands there is dropped, given twice, exchanged for what stands elsewhere under the same
name, in this or in another program, given another type, a number at an edge, a name that is taken, another arm, or itself inside itself.
"""

from __future__ import annotations

import marshal
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Tree = Any

_EDGES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    64,
    127,
    1 << 15,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    (1 << 63) - 1,
    1 << 63,
    -(1 << 63),
    1 << 64,
    1 << 200,
    -0.0,
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "0",
    "NaN",
    "Infinity",
    "None",
    "self",
    "torch",
    "class",
    "__class__",
    "a.b",
    "a" * 2000,
    "é",
    "\0",
    "\n",
    "x\r\ny",
    "\ud800",
    b"",
    b"\xff",
    [],
    {},
    [[]],
    [{}],
    {"": None},
)
_TEXTS = (
    "Symbol('s0')",
    "Symbol('s0', positive=True, integer=True)",
    "Integer(0)",
    "Pow(Integer(9), Integer(999999))",
    "FloorDiv(Symbol('s0'), Integer(0))",
    "Mod(Integer(1), Integer(0))",
    "Add(" * 300 + "Integer(1)" + ")" * 300,
    "s0 // 0",
    "9**9**9**9",
    "L['x'].size()[0] == 1",
    "L['x'].size()[10**9]",
    "torch.ops.aten.add.Tensor",
    "torch.ops.aten.add.NoSuch",
    "torch.ops.higher_order.cond",
    "torch.ops.higher_order.wrap_with_set_grad_enabled",
    "_operator.add",
    "_operator.getitem",
    "math.trunc",
    "torch.sym_sqrt",
    "#graphwire:none",
    "[1, " + '{"type": "builtins.tuple", "context": "null", "children_spec": [' * 120 + "]}" * 120 + "]",
    '[1, {"type": "builtins.dict", "context": "[\\"a\\", \\"a\\"]", "children_spec": []}]',
    "cuda",
    "meta",
    "jagged",
    "quint8",
    "sparse_coo",
    "bits8",
    "graphwire.sequence",
)


class Slot(NamedTuple):
    """A place in a tree: a container, and a key or index of it."""

    container: Any
    key: Any

    @property
    def value(self) -> Tree:
        """What stands there."""
        return self.container[self.key]

    def put(self, value: Tree) -> None:
        """Put something else there."""
        self.container[self.key] = value


def copied(tree: Tree) -> Tree:
    """The tree again; nothing in it is shared any more."""
    return marshal.loads(marshal.dumps(tree, 2))  # noqa: S302 - what this very process wrote


def slots(tree: Tree) -> list[Slot]:
    """Every place of a tree, the root excepted, and nothing twice."""
    found: list[Slot] = []
    pending = [tree]
    while pending:
        each = pending.pop()
        keys: Sequence[Any] = list(each) if isinstance(each, dict) else range(len(each))
        for key in keys:
            found.append(Slot(each, key))
            if isinstance(each[key], (dict, list)):
                pending.append(each[key])
    return found


class Stock:
    """What stands in some trees, by the name under which it stands: what one program has, another could."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._by_key: dict[str, list[Tree]] = {}
        self.keys: list[str] = []
        self.texts: list[str] = []
        for tree in trees:
            for slot in slots(tree):
                if isinstance(slot.key, str):
                    self._by_key.setdefault(slot.key, []).append(slot.value)
                if isinstance(slot.value, str):
                    self.texts.append(slot.value)
        self.keys = sorted(self._by_key)
        self.arms = [key for key in self.keys if key.startswith("as_")]

    def value(self, chance: random.Random, key: str) -> Tree:
        """Something that stands under a name somewhere."""
        return copied(chance.choice(self._by_key.get(key) or self._by_key[chance.choice(self.keys)]))


def _walk(chance: random.Random, tree: Tree, places: Sequence[Slot]) -> Slot:
    """A place: any, or the end of a walk from the root, which ends near it more often."""
    if chance.randrange(2):
        return chance.choice(places)
    slot, at = None, tree
    while isinstance(at, (dict, list)) and at and (slot is None or chance.randrange(6)):
        slot = Slot(at, chance.choice(list(at) if isinstance(at, dict) else range(len(at))))
        at = slot.value
    return slot or chance.choice(places)


def _drop(_chance: random.Random, slot: Slot, _places: Sequence[Slot], _stock: Stock) -> None:
    del slot.container[slot.key]


def _repeat(chance: random.Random, slot: Slot, _places: Sequence[Slot], stock: Stock) -> None:
    if isinstance(slot.container, list):
        slot.container[slot.key : slot.key] = [slot.value] * chance.choice((1, 1, 1, 100))
    else:
        slot.container[chance.choice(stock.keys)] = copied(slot.value)


def _edge(chance: random.Random, slot: Slot, _places: Sequence[Slot], _stock: Stock) -> None:
    slot.put(copied(chance.choice(_EDGES)))


def _text(chance: random.Random, slot: Slot, _places: Sequence[Slot], stock: Stock) -> None:
    slot.put(chance.choice(_TEXTS) if chance.randrange(3) else chance.choice(stock.texts))


def _number(chance: random.Random, slot: Slot, _places: Sequence[Slot], _stock: Stock) -> None:
    slot.put(
        chance.choice((chance.randrange(-3, 100), 1 << chance.randrange(80), -(1 << chance.randrange(80))))
    )


def _collide(chance: random.Random, slot: Slot, places: Sequence[Slot], _stock: Stock) -> None:
    """Give a text what another text of the tree is: names collide, refer to what comes later, or to themselves."""
    texts = [each for each in places if isinstance(each.value, str)]
    if texts:
        chance.choice(texts).put(chance.choice(texts).value)


def _exchange(_chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Put there what stands under the same name elsewhere."""
    key = slot.key if isinstance(slot.key, str) else _chance.choice(stock.keys)
    slot.put(stock.value(_chance, key))


def _swap(chance: random.Random, slot: Slot, places: Sequence[Slot], _stock: Stock) -> None:
    other = chance.choice(places)
    one, another = copied(slot.value), copied(other.value)
    slot.put(another)
    other.put(one)


def _arm(chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Say a union by another arm, with the old value or that of another, or by two."""
    unions = [
        each.value
        for each in places
        if isinstance(each.value, dict) and any(str(key).startswith("as_") for key in each.value)
    ]
    if unions:
        union = chance.choice(unions)
        arm = chance.choice(stock.arms)
        old = next(iter(union.values()))
        if chance.randrange(4):
            union.clear()
        union[arm] = old if chance.randrange(2) else stock.value(chance, arm)


def _nest(chance: random.Random, slot: Slot, _places: Sequence[Slot], _stock: Stock) -> None:
    value = slot.value
    wraps: tuple[Callable[[Tree], Tree], ...] = (
        lambda inner: [inner],
        lambda inner: {"a": inner},
        lambda inner: {"as_sequence": {"items": [inner]}},
        lambda inner: {"as_mapping": {"items": [{"key": {"as_int": 1}, "value": inner}]}},
    )
    wrap = chance.choice(wraps)
    for _ in range(chance.choice((1, 2, 50, 101, 150))):
        value = wrap(value)
    slot.put(value)


def _within(chance: random.Random, slot: Slot, places: Sequence[Slot], _stock: Stock) -> None:
    """Put a copy of a part of the tree into itself: a graph that is its own subgraph."""
    inner = slot
    for _ in range(chance.randrange(1, 6)):
        if not (isinstance(inner.value, (dict, list)) and inner.value):
            break
        keys = list(inner.value) if isinstance(inner.value, dict) else range(len(inner.value))
        inner = Slot(inner.value, chance.choice(keys))
    if inner is not slot:
        inner.put(copied(slot.value))


def _order(chance: random.Random, slot: Slot, _places: Sequence[Slot], _stock: Stock) -> None:
    container = slot.container
    if isinstance(container, list):
        chance.shuffle(container)
    else:
        items = list(container.items())
        chance.shuffle(items)
        container.clear()
        container.update(items)


WAYS = (_drop, _drop, _repeat, _edge, _edge, _text, _number, _collide, _collide, _exchange, _exchange, _swap, _arm, _arm, _nest, _within, _order)  # fmt: skip
_MOST = 200_000
"""Places of a tree that still grows: some ways double it."""


def changed(chance: random.Random, tree: Mapping[str, Tree], stock: Stock) -> Tree:
    """A tree, changed in one to four places."""
    result = copied(tree)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = slots(result)
        if not places or len(places) > _MOST:
            break
        chance.choice(WAYS)(chance, _walk(chance, result, places), places, stock)
    return result
