"""Hostile symbolic work: expressions of the whole grammar, put wherever a document may have one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from hostile import Tree, Victim
from inside.schema import (
    OPERATIONS,
    Expression,
    float_number,
    format_expression,
    integer,
    operations,
    rational,
    symbol,
)
from torch import Tensor, nn
from torch.export import Dim, export

import graphwire
from graphwire.errors import ExpressionError
from graphwire.hooks import format_infix

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 63, 64, 65, 1023, 4097, 2**31, 2**63 - 1, 2**63, -(2**63), 10**11, -(10**12), 10**40, 10**300, 10**4299)  # fmt: skip
_FLOATS = ("0.5", "-0.0", "9.5", "1e308", "1e-320", "1e-99999999", "3.0")
_BOOLEAN = "And Or Not Xor Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan true false".split()
_CONNECTIVES = ("And", "Or", "Not", "Xor")
_USUAL = ("Add", "Mul", "FloorDiv", "Mod", "Pow", "Max", "Min", "PowByNatural", "CleanDiv", "LShift", "ModularIndexing")  # fmt: skip


class Sizes(nn.Module):
    """Sizes, strides, offsets, unbacked symbols, conditions and floats that are symbolic, and a branch."""

    def forward(self, x: Tensor, y: Tensor, n: Tensor) -> Any:
        k = n.item()
        torch._check(k >= 2)
        torch._check(k < 50)
        z = x.new_zeros(k, x.shape[0] * 2) + 1
        w = x.reshape(-1)[2:].as_strided((x.shape[0],), (3,), 2)
        v = torch.full((x.shape[0] // 2 + y.shape[0],), x.shape[0] / 3)
        b = torch.cond(y.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))
        return {"z": z, "w": (w, v)}, y.nonzero(), x.shape[0] * 3, b


def victim_of_sizes() -> Victim:
    """The good file that hostile expressions are put into."""
    inputs = (torch.ones(6, 3), torch.ones(4), torch.tensor(5))
    shapes = ({0: Dim("n", min=4, max=64)}, {0: Dim.AUTO}, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Victim.of(graphwire.dumps(export(Sizes(), inputs, dynamic_shapes=shapes)))


class Grammar:
    """Expressions of the grammar, by chance."""

    def __init__(self, chance: random.Random, symbols: list[str]) -> None:
        self.chance = chance
        self.symbols = symbols

    def number(self, depth: int) -> Expression:
        """An expression that is a number, mostly."""
        chance = self.chance
        if depth <= 0 or chance.random() < 0.15:
            return self.leaf()
        head = chance.choice(_USUAL if chance.random() < 0.7 else sorted(OPERATIONS))
        if head in _BOOLEAN or head == "ExprCondPair":
            head = "Add"
        if head == "Piecewise":
            pairs = [
                Expression("ExprCondPair", (self.number(depth - 1), self.truth(depth - 1))) for _ in range(2)
            ]
            return Expression("Piecewise", tuple(pairs))
        if head == "Where":
            return Expression(head, (self.truth(depth - 1), self.number(depth - 1), self.number(depth - 1)))
        least, most = OPERATIONS[head][1:3]
        count = chance.choice((2, 2, 3, 12)) if most is None else chance.randint(max(least, 1), most)
        if count == 12:
            return Expression(head, tuple([self.leaf() for _ in range(chance.choice((12, 60, 300)))]))
        part = self.number(depth - 1)
        if chance.random() < 0.2:  # the same again and again, which doubles at each level
            return Expression(head, (part,) * count)
        return Expression(head, (part, *[self.number(depth - 1) for _ in range(count - 1)]))

    def truth(self, depth: int) -> Expression:
        """A condition."""
        head = self.chance.choice(_BOOLEAN)
        if head in ("true", "false"):
            return Expression(head, ())
        if head == "Not":
            return Expression(head, (self.truth(depth - 1),)) if depth > 0 else Expression("true", ())
        make = self.truth if head in _CONNECTIVES and depth > 0 else self.number
        return Expression(head if make == self.truth or head not in _CONNECTIVES else "Equality", (make(depth - 1), make(depth - 1)))  # fmt: skip

    def leaf(self) -> Expression:
        """A symbol, a number or a constant."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.55:
            name = chance.choice((*self.symbols, *self.symbols, "s3", "u9", "zf1"))
            positive = [("positive", True)] if name[0] == "s" else []
            return symbol(name, [*positive, *([] if name[0] == "z" else [("integer", True)])])
        if kind < 0.85:
            return integer(chance.choice(NUMBERS[: 8 if chance.random() < 0.6 else None]))
        if kind < 0.92:
            return rational(chance.choice(NUMBERS), chance.choice((1, 2, 3, 7, 10**40)))
        if kind < 0.97:
            return float_number(chance.choice(_FLOATS))
        return Expression(chance.choice(sorted(operations.CONSTANTS)), ())

    def text(self, *, truth: bool = False) -> str:
        """Constructor text."""
        depth = self.chance.choice((1, 2, 3, 3, 4, 6, 9))
        return format_expression(self.truth(depth) if truth else self.number(depth))[:300_000]

    def infix(self) -> str:
        """Infix text."""
        try:
            return format_infix(self.number(self.chance.choice((1, 2, 3, 5))))[:100_000]
        except ExpressionError:
            return "s0"

    def guard(self) -> str:
        """A condition on the inputs, in Python's words."""
        chance = self.chance

        def operand(depth: int) -> str:
            kind = chance.randrange(7 if depth else 2)
            if kind == 0:
                return chance.choice(("L['args'][0][0].size()[0]", "L['x'].size()[0]", "L['args'][0][1].size()[0]", "L['x'].stride()[0]", "L['y'].storage_offset()"))  # fmt: skip
            if kind == 1:
                return str(chance.choice(NUMBERS))
            if kind == 6:
                return f"{chance.choice(('max', 'min'))}({', '.join([operand(depth - 1)] * 3)})"
            sign = chance.choice(("+", "-", "*", "//", "%", "**", "<<", ">>", "/"))
            return f"({operand(depth - 1)} {sign} {operand(depth - 1)})"

        return f"{operand(4)} {chance.choice(('==', '<', '>=', '!='))} {operand(4)}"


def expressions(tree: Tree) -> Iterator[tuple[dict[str, Any], bool]]:
    """Every record of a symbolic value, and whether it is a condition."""
    pending: list[tuple[Any, bool]] = [(tree, False)]
    while pending:
        each, truth = pending.pop()
        if isinstance(each, dict):
            if "expr_str" in each:
                yield each, truth
            pending += [(value, truth or key in ("sym_bool_values", "as_sym_bool")) for key, value in each.items()]  # fmt: skip
        elif isinstance(each, list):
            pending += [(value, truth) for value in each]


def _graphs(tree: Tree) -> list[Any]:
    found, pending = [], [tree["graph_module"]["graph"]]
    while pending:
        graph = pending.pop()
        found.append(graph)
        for node in graph["nodes"]:
            pending += [
                named["arg"]["as_graph"]["graph"] for named in node["inputs"] if "as_graph" in named["arg"]
            ]
    return found


def _hint(chance: random.Random) -> Any:
    return chance.choice(
        (None, {"as_int": chance.choice(NUMBERS[:15])}, {"as_int": chance.randrange(-2, 20)})
    )


def _symbolic(grammar: Grammar) -> Any:
    return {"as_expr": {"expr_str": grammar.text(), "hint": _hint(grammar.chance)}}


def put_values(grammar: Grammar, tree: Tree) -> None:
    """In place of expressions that are there."""
    found = list(expressions(tree))
    for record, truth in grammar.chance.sample(found, min(len(found), grammar.chance.choice((1, 3, 20)))):
        record["expr_str"] = grammar.text(truth=truth)
        if grammar.chance.random() < 0.7:
            record["hint"] = None if truth else _hint(grammar.chance)


def put_same(grammar: Grammar, tree: Tree) -> None:
    """One expression everywhere."""
    text = grammar.text()
    for record, truth in expressions(tree):
        if not truth:
            record["expr_str"] = text


def put_metas(grammar: Grammar, tree: Tree) -> None:
    """In sizes, strides and offsets, symbolic or not until now."""
    for graph in _graphs(tree):
        for meta in graph["tensor_values"].values():
            if grammar.chance.random() < 0.4:
                for field in ("sizes", "strides"):
                    meta[field] = [
                        _symbolic(grammar) if grammar.chance.random() < 0.5 else each for each in meta[field]
                    ]
                if grammar.chance.random() < 0.5:
                    meta["storage_offset"] = _symbolic(grammar)


def put_ranges(grammar: Grammar, tree: Tree) -> None:
    """In keys of ranges, with bounds at edges."""
    table = tree["range_constraints"]
    for _ in range(grammar.chance.choice((1, 3, 30))):
        key = grammar.infix() if grammar.chance.random() < 0.6 else grammar.chance.choice(grammar.symbols)
        ends = [grammar.chance.choice((None, *NUMBERS[:15])) for _ in range(2)]
        table[key] = {"min_val": ends[0], "max_val": ends[1]}
    if grammar.chance.random() < 0.5:
        tree["graph_module"]["inline_constraints"] = dict(table)


def put_replacements(grammar: Grammar, tree: Tree) -> None:
    """In what stands for symbols."""
    names = [f"s{number}" for number in range(100, 130)] + grammar.symbols
    tree["graph_module"]["replacements"] = {
        grammar.chance.choice(names): grammar.text() for _ in range(grammar.chance.choice((1, 4, 30)))
    }
    for name in list(tree["graph_module"]["replacements"]):
        if grammar.chance.random() < 0.5:
            tree["range_constraints"][name] = {"min_val": 2, "max_val": 9}


def put_guards(grammar: Grammar, tree: Tree) -> None:
    """In guards."""
    tree["guards_code"] = [grammar.guard() for _ in range(grammar.chance.choice((1, 3, 20)))]


def put_arguments(grammar: Grammar, tree: Tree) -> None:
    """In arguments of nodes, and inputs and outputs, of symbols."""
    variants: list[Any] = []
    for graph in _graphs(tree):
        variants += [named["arg"] for node in graph["nodes"] for named in node["inputs"]]
        variants += [output for node in graph["nodes"] for output in node["outputs"]]
        variants += [*graph["inputs"], *graph["outputs"]]
    for argument in variants:
        if grammar.chance.random() < 0.2:
            for variant in ("as_sym_int", "as_sym_float", "as_sym_bool"):
                if variant in argument:
                    argument[variant] = _symbolic(grammar)
            for variant in ("as_sym_ints", "as_ints"):
                if variant in argument:
                    argument.pop(variant)
                    argument["as_sym_ints"] = [_symbolic(grammar)] * 3


def put_signatures(grammar: Grammar, tree: Tree) -> None:
    """In calls of modules, and contexts of their containers."""
    entry = grammar.chance.choice(tree["graph_module"]["module_call_graph"])
    signature = entry["signature"]
    if signature is not None:
        for field in ("inputs", "outputs"):
            signature[field] = [{"as_sym_int": _symbolic(grammar)} for _ in signature[field]]
        if grammar.chance.random() < 0.5:
            context = grammar.text().replace('"', "'")
            signature["in_spec"] = signature["in_spec"].replace('"null"', f'"{context}"')


def put_unbacked(grammar: Grammar, tree: Tree) -> None:
    """In what nodes bring that only a run knows: sizes that were symbols of inputs are unbacked ones, and the reverse."""
    old, new = grammar.chance.sample(["s0", "s3", "u0", "u1", "zf0", *grammar.symbols], 2)
    for record, _ in expressions(tree):
        if grammar.chance.random() < 0.5:
            record["expr_str"] = record["expr_str"].replace(f"'{old}'", f"'{new}'")


PLACES: tuple[Callable[[Grammar, Tree], None], ...] = (
    put_values,
    put_same,
    put_metas,
    put_ranges,
    put_replacements,
    put_guards,
    put_arguments,
    put_signatures,
    put_unbacked,
)


def hostile_document(good: Victim, seed: int) -> bytes:
    """A file with hostile expressions in one to three kinds of places."""
    chance = random.Random(seed)
    known = sorted(good.document["range_constraints"])
    grammar = Grammar(chance, [name for name in known if name.isalnum()] or ["s0"])
    first = PLACES[seed % len(PLACES)]
    others = chance.sample(PLACES, chance.choice((0, 0, 1, 2)))

    def change(tree: Tree) -> None:
        for place in (first, *others):
            place(grammar, tree)

    return good.with_document(change)
