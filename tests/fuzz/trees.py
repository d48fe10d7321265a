"""Documents changed as trees: what a hostile writer would do who knows the schema.

A tree is changed in one to four places: what stands there is dropped, given twice, exchanged for what stands elsewhere under the same
name, in this or in another program, given another type, a number at an edge, a name that is taken, another variant, or itself inside itself.
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
        self.variants = [key for key in self.keys if key.startswith("as_")]

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


def _variant(chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Say a union by another variant, with the old value or that of another, or by two."""
    unions = [
        each.value
        for each in places
        if isinstance(each.value, dict) and any(str(key).startswith("as_") for key in each.value)
    ]
    if unions:
        union = chance.choice(unions)
        variant = chance.choice(stock.variants)
        old = next(iter(union.values()))
        if chance.randrange(4):
            union.clear()
        union[variant] = old if chance.randrange(2) else stock.value(chance, variant)


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


def _under(places: Sequence[Slot], *keys: str) -> list[Slot]:
    return [each for each in places if each.key in keys]


def _share(chance: random.Random, slot: Slot, places: Sequence[Slot], _stock: Stock) -> None:
    """Let rows of a table share earlier ones, twice or more each: forty rows are 2**40 when they are written out."""
    modules = [each.value for each in places if each.key == "graph_module" and isinstance(each.value, dict)]
    nodes = [each.value for each in places if isinstance(each.value, dict) and "target" in each.value]
    if not modules or not nodes:
        return
    depth, width = chance.choice((2, 20, 40, 300, 3000)), chance.choice((1, 2, 2, 5))
    module, table = chance.choice(modules), chance.randrange(2)
    if table:
        row = {"name": "n", "target": "t", "graph_id": 1, "pass_name": "p", "action": "create"}
        module["node_sources"] = [{**row, "from_node": [i - 1] * width if i else []} for i in range(depth)]
    else:
        module["stack_frames"] = [{"file": "f", "line": 1, "name": "g", "source": "x" * depth}] * depth
    for node in nodes:
        node["from_node" if table else "stack"] = [depth - 1] * (1 if table else width * depth)


def _share_values(chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Let values of codecs consist of each other."""
    tables = _under(places, "encoded_values")
    roots = [each.container for each in places if each.key == "graph_module"]
    for owner in [each.container for each in tables] or roots[:1]:
        depth, width = chance.choice((2, 40, 1000)), chance.choice((1, 2))
        codec = chance.choice(("sparse", "plain_subclass", "script_object", "opaque_value"))
        owner["encoded_values"] = {
            f"c{i}": {"codec": codec, "tree": stock.value(chance, "tree"), "tensors": [f"c{i + 1}"] * width}
            for i in range(depth)
        }
        owner["requires"] = ["codecs"]


def _state(chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Change the states of script objects, which torch's C++ would be given: some of what they hold, or all of it."""
    owners = [
        each.value
        for each in places
        if isinstance(each.value, dict) and each.value.get("codec") == "script_object"
    ]
    for owner in owners:
        state = Slot(owner, "tree")
        inner = [each for each in slots(owner) if each.container is not owner]
        for each in chance.sample(inner, min(len(inner), chance.choice((1, 1, 3)))):
            way = chance.choice((_edge, _number, _text, _repeat, _drop, _nest, _order))
            held = each.container  # which an earlier change may have made smaller
            if each.key in held if isinstance(held, dict) else each.key < len(held):
                way(chance, each, places, stock)
        if not chance.randrange(8):
            state.put(stock.value(chance, "tree"))


def _propagate(chance: random.Random, slot: Slot, places: Sequence[Slot], stock: Stock) -> None:
    """Leave what nodes make to be found, of any operator that some program has."""
    for node in [each.value for each in places if isinstance(each.value, dict) and "target" in each.value]:
        if chance.randrange(2):
            node["propagate"] = True
            if chance.randrange(2):
                node["target"] = stock.value(chance, "target")
    for root in [each.container for each in places if each.key == "graph_module"]:
        root["requires"] = [*(root.get("requires") or ()), "propagate"]


_SYMBOL = "Symbol('s0', positive=True, integer=True)"
_NUMBERS = (0, 1, -1, 2, 3, 63, 65, 4097, 10**11, -(10**12), 2**63, 10**40, 10**4299)


def _expression(chance: random.Random, depth: int) -> str:
    """Constructor text with numbers that nobody wants to compute with."""
    kind = chance.randrange(8 if depth else 4)
    if kind < 1:
        return _SYMBOL
    if kind < 2:
        return f"Integer({chance.choice(_NUMBERS)})"
    if kind < 3:
        return f"Rational({chance.choice(_NUMBERS)}, {chance.choice((1, 2, 3, 7, 10**40))})"
    if kind < 4:
        return f"Float('{chance.choice(('9.5', '1e308', '1e-99999999', '0.0'))}', precision=53)"
    head = chance.choice(("Pow", "Pow", "FloatPow", "PowByNatural", "LShift", "RShift", "Mod", "FloorDiv", "Max", "Add", "Mul", "TruncToInt", "exp"))  # fmt: skip
    count = 1 if head in ("TruncToInt", "exp") else 2
    if head in ("Add", "Mul", "Max"):
        count = chance.choice((2, 3, 30))
        part = _expression(chance, depth - 1)
        return f"{head}({', '.join([_SYMBOL, *[part.replace('s0', f's{i}') for i in range(count)]])})"
    return f"{head}({', '.join([_expression(chance, depth - 1) for _ in range(count)])})"


def _symbolic(chance: random.Random, slot: Slot, places: Sequence[Slot], _stock: Stock) -> None:
    """Put hostile expressions where symbolic sizes stand, and hints beside them."""
    texts = _under(places, "expr_str", "as_expr")
    made = _expression(chance, 3)[:100_000]
    for each in chance.sample(texts, min(len(texts), chance.choice((1, 3, 20)))):
        if each.key == "expr_str":
            each.put(made)
        else:
            each.put(
                {"expr_str": made, "hint": chance.choice((None, {"as_int": chance.choice(_NUMBERS[:-1])}))}
            )


WAYS = (_share, _share_values, _state, _propagate, _symbolic, _symbolic, _drop, _drop, _repeat, _edge, _edge, _text, _number, _collide, _collide, _exchange, _exchange, _swap, _variant, _variant, _nest, _within, _order)  # fmt: skip
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
