"""What the inputs of a program must be, as conditions: from the records of its inputs, its ranges and its guards.

A condition is Python code that is made here, part by part, from what was parsed: numbers, the names of operations of a table,
and sources. A source is a place in the inputs, such as `x.shape[1]`: the number of an input, and steps from it. No text of a file
becomes a part of the code, but for the numbers and the operators of a guard, which `check_guard` has parsed.
"""

from __future__ import annotations

import ast
import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphwire import schema
from graphwire.errors import shown, unless_interrupted
from graphwire.schema.texts.infix import format_infix, parse_infix
from graphwire.schema.texts.operations import Expression, parse_expression

Step = tuple[str, Any]
"""`attribute`, `call` or `item`, with a name or an index."""


class Source(NamedTuple):
    """A place in the inputs."""

    number: int
    """The number of the flat input."""
    steps: tuple[Step, ...] = ()

    def code(self) -> str:
        """Return the code that reads it, where `v3` is the fourth input."""
        return f"v{self.number}" + "".join(map(_step_code, self.steps))

    def text(self, names: Sequence[str]) -> str:
        """Return it as messages show it.

        Args:
            names: the inputs, as messages show them.
        """
        text = names[self.number] + "".join(map(_step_code, self.steps))
        return text.replace(".size()", ".shape")

    def value(self, inputs: Sequence[Any]) -> Any:
        """Return what is there."""
        value = inputs[self.number]
        for kind, of in self.steps:
            value = value[of] if kind == "item" else getattr(value, of)
            value = value() if kind == "call" else value
        return value

    def is_in(self, inputs: Sequence[Any]) -> bool:
        """Return whether something is there."""
        try:
            self.value(inputs)
        except unless_interrupted(Exception):  # of an object that the caller passes
            return False
        return True


def _step_code(step: Step) -> str:
    kind, of = step
    return f"[{of!r}]" if kind == "item" else f".{of}" + "()" * (kind == "call")


class Condition(NamedTuple):
    """One thing that must hold."""

    code: str
    """The expression that is true where it holds."""
    subject: Source | None
    """What the message says the value of; None where it is a relation of several things."""
    demand: str
    """The rest of the message, such as `must be 2 * {0}`. The numbers are those of `others`."""
    others: tuple[Source, ...] = ()
    traced: bool = True
    """Whether a symbolic trace asserts it. Types and literals are those of the trace."""

    @property
    def sources(self) -> Iterator[Source]:
        """All places in the inputs that it reads."""
        return (each for each in (self.subject, *self.others) if each is not None)

    def message(self, names: Sequence[str], inputs: Sequence[Any]) -> str:
        """Return what is wrong with inputs that break the condition."""
        demand = self.demand.format(*(each.text(names) for each in self.others))
        parts = [
            f"{each.text(names)} is {_told(each, inputs)}" for each in self.others if each != self.subject
        ]
        if self.subject is not None:
            demand = f"{self.subject.text(names)} is {_told(self.subject, inputs)}, {demand}"
        return f"{demand}, and {', '.join(parts)}" if parts else demand

    def stated(self, names: Sequence[str]) -> str:
        """Return the message for inputs of which nothing is known yet."""
        demand = self.demand.format(*(each.text(names) for each in self.others))
        return demand if self.subject is None else f"{self.subject.text(names)} {demand}"


def _told(source: Source, inputs: Sequence[Any]) -> str:
    if not source.is_in(inputs):
        return "not there"
    value = source.value(inputs)
    return shown(value) if type(value) in (int, float, bool, str) else f"{value!s:.80}"


# ------------------------------------------------------------------------------------------------- shapes and literals


def input_conditions(
    graph: schema.Graph,
    inputs: Sequence[schema.Argument],
    ranges: Mapping[str, schema.RangeConstraint],
    members: Mapping[int, enum.Enum],
    *,
    exact: bool,
) -> Iterator[Condition]:
    """Yield what the shapes and literals of the inputs must be.

    As torch does, a lower bound counts from 3 on: a program that was exported with a size of 2 or more runs with 0 and 1 too.

    Args:
        inputs: those of the graph that the caller passes.
        ranges: the ranges of symbols and expressions, by infix text.
        members: the inputs that are members of an enumeration of numbers or texts, by their positions.
        exact: whether ranks and the types of literals must be the same, as torch's hook wants it; torch's function of guards
            compares sizes and values.
    """
    positive: set[str] = set()
    bounds = {_plain(parse_infix(text), positive): bounds for text, bounds in ranges.items()}
    sizes: list[tuple[Source, Expression]] = []
    others: list[Condition] = []
    ranks: dict[int, int] = {}
    for index, argument in enumerate(inputs):
        if argument.as_tensor is not None:
            if exact and argument.as_tensor.name in (graph.compositions or {}):
                continue  # torch's hook passes over tensor subclasses
            meta = graph.tensor_values[argument.as_tensor.name]
            ranks[index] = len(meta.sizes)
            if exact:
                yield from _tensor_conditions(index, f"== {ranks[index]}", ranks[index])
            for position, size in enumerate(meta.sizes):
                here = Source(index, (("call", "size"), ("item", position)))
                sizes.append((here, _size(size, positive)))
        elif argument.as_sym_int is not None and argument.as_sym_int.as_name is not None:
            number = (graph.sym_int_values or {})[argument.as_sym_int.as_name]
            if exact:
                yield Condition(f"has_int(v{index})", Source(index), "must be a whole number", traced=False)
            sizes.append((Source(index), _size(number, positive)))
        else:
            others += _literal_conditions(Source(index), argument, members.get(index), exact)
    for here, expression in sizes:
        if expression.head == "Integer":
            (number,) = expression.args
            others.append(Condition(f"{here.code()} == {number}", here, f"must be {number}"))
    others += _size_conditions(sizes, bounds, positive, exact)
    if not exact:
        read: dict[int, int] = {}
        """The number of dimensions that an input must have at least: so many are read."""
        for each in others:
            for source in (each.subject, *each.others):
                if source is not None and source.steps:
                    read[source.number] = max(read.get(source.number, 0), source.steps[-1][1] + 1)
        for index, least in sorted(read.items()):
            yield from _tensor_conditions(index, f">= {least}", ranks[index])
    yield from others


def _tensor_conditions(index: int, wanted: str, rank: int) -> Iterator[Condition]:
    yield Condition(f"isinstance(v{index}, Tensor)", Source(index), "must be a tensor", traced=False)
    yield Condition(f"v{index}.ndim {wanted}", Source(index, (("attribute", "ndim"),)), f"must be {rank}")


def _size(size: schema.SymInt, positive: set[str]) -> Expression:
    if size.as_expr is None:
        return Expression("Integer", (int(size.as_int or 0),))
    return _plain(parse_expression(size.as_expr.expr_str), positive)


def _plain(expression: Expression, positive: set[str]) -> Expression:
    """Return an expression whose symbols have no assumptions, which infix texts do not have, and whose sums and products have
    one order.

    Args:
        positive: gets the names of symbols that are positive.
    """
    head, args = expression
    if head == "Symbol":
        if ("positive", True) in args:
            positive.add(args[0])
        return Expression(head, args[:1])
    parts = [_plain(each, positive) if isinstance(each, Expression) else each for each in args]
    return Expression(head, tuple(sorted(parts, key=repr) if head in ("Add", "Mul") else parts))


def _symbols(expression: Expression) -> set[str]:
    if expression.head == "Symbol":
        return {expression.args[0]}
    return {name for each in expression.operands for name in _symbols(each)}


def _literal_conditions(
    here: Source, argument: schema.Argument, member: enum.Enum | None, exact: bool
) -> Iterator[Condition]:
    number = None if argument.as_float is None else schema.decode_float(argument.as_float)
    if member is not None and isinstance(member.value, float):
        number = member.value
    value = None if member is None else member.value
    found = (number, argument.as_int, argument.as_bool, argument.as_string, value)
    literal = next((each for each in found if each is not None), None)
    if literal is None:
        return
    code, kind = here.code(), type(literal).__name__ if member is None else type(member).__qualname__
    written = repr(literal) if number is None else _number(number)
    is_nan = number is not None and math.isnan(number)
    test = f"math.isnan({code})" if is_nan else f"equals({code}, {written})"
    test = f"type({code}).__qualname__ == {kind!r} and {test}" if exact else test
    named = repr(literal) if member is None else f"{kind}.{member.name}"
    demand = f"must be {named:.80}".replace("{", "{{").replace("}", "}}")
    yield Condition(test, here, demand, traced=False)


def _number(number: float) -> str:
    return f"float('{number}')" if math.isinf(number) else repr(number)


def _size_conditions(
    sizes: Sequence[tuple[Source, Expression]],
    bounds: Mapping[Expression, schema.RangeConstraint],
    positive: Collection[str],
    exact: bool,
) -> Iterator[Condition]:
    """Yield the ranges and equalities of symbolic sizes."""
    first: dict[Expression, Source] = {}
    for here, expression in sizes:
        code = here.code()
        if len(_symbols(expression)) != 1 if exact else expression not in bounds:
            continue
        if (same := first.setdefault(expression, here)) is not here:
            yield Condition(f"{code} == {same.code()}", here, "must be {0}", (same,))
            continue
        if (within := bounds.get(expression)) is None:
            continue
        if within.min_val is not None and within.min_val > 2:
            yield Condition(f"{code} >= {within.min_val}", here, f"must be at least {within.min_val}")
        if within.max_val is not None:
            yield Condition(f"{code} <= {within.max_val}", here, f"must be at most {within.max_val}")
    # Guards of the program tell what depends on a symbol that is a size. torch's hook goes through the sizes in order.
    told = () if exact else {each.args[0] for each in first if each.head == "Symbol"}
    known: dict[str, tuple[Source, int, int]] = {}
    for expression, here in first.items():
        if (linear := _linear(expression)) is None or linear[1] in told:
            continue
        factor, name, rest = linear
        if name not in known:  # the first place that tells the symbol: here = factor * symbol + rest
            known[name] = here, factor, rest
            if exact and expression.head != "Symbol":
                yield _solvable(here, expression, linear, name in positive)
            continue
        origin, by, less = known[name]
        # here = factor * (origin - less) / by + rest
        right = f"{factor} * ({origin.code()} - {less}) + {rest * by}"
        demand = _scaled(factor, "{0}" if less == 0 else f"({{0}} - {less})", by, rest).replace("- -", "+ ")
        yield Condition(f"{by} * {here.code()} == {right}", here, f"must be {demand}", (origin,))


def _solvable(
    here: Source, expression: Expression, linear: tuple[int, str, int], is_positive: bool
) -> Condition:
    """Return that a size is the value of a linear expression for a whole symbol."""
    factor, name, rest = linear
    test = f"({here.code()} - {rest}) % {factor} == 0"
    if is_positive:
        test += f" and ({here.code()} - {rest}) // {factor} >= 1"
    text = format_infix(expression).replace("{", "{{")
    return Condition(test, here, f"must be {text} for a {'positive' if is_positive else 'whole'} {name}")


def _scaled(factor: int, of: str, divisor: int, rest: int) -> str:
    text = of if factor == 1 else f"{factor} * {of}"
    text = text if divisor == 1 else f"{text} / {divisor}"
    return text if rest == 0 else f"{text} {'-' if rest < 0 else '+'} {abs(rest)}"


def _linear(expression: Expression) -> tuple[int, str, int] | None:
    """Return the factor, the symbol and the rest of `factor * symbol + rest`; None for any other expression."""
    head, args = expression
    if head == "Symbol":
        return 1, args[0], 0
    if head not in ("Add", "Mul"):
        return None
    numbers = [each.args[0] for each in args if each.head == "Integer"]
    others = [each for each in args if each.head != "Integer"]
    if len(others) != 1 or (inner := _linear(others[0])) is None:
        return None
    factor, name, rest = inner
    if head == "Add":
        return factor, name, rest + sum(numbers)
    times = math.prod(numbers)
    return (factor * times, name, rest * times) if times else None


# ------------------------------------------------------------------------------------------------------------- guards

_FUNCTIONS = {
    "torch.sym_float": "float",
    "torch.sym_int": "int",
    "torch.sym_max": "sym_max",
    "torch.sym_min": "sym_min",
    "torch.sym_not": "not_",
    "torch._sym_sqrt": "math.sqrt",
    "cast_symbool_to_symint_guardless": "int",
    "IsNonOverlappingAndDenseIndicator": "is_dense",
    "Where": "where",
    **{f"OpaqueUnaryFn_{name}": f"math.{name}" for name in ("asinh", "exp", "log")},
}
"""The functions of guards that have another name in the code of conditions. They are in `input_checks.NAMES`."""

_WORDS: dict[type, str] = {
    ast.Eq: "",
    ast.NotEq: "other than ",
    ast.Lt: "less than ",
    ast.LtE: "at most ",
    ast.Gt: "more than ",
    ast.GtE: "at least ",
}


def guard_condition(guard: str, paths: Mapping[tuple[Any, ...], int]) -> Condition | None:
    """Return the condition of a guard, such as `L['x'].size()[0] % 8 == 0`; None if it refers to something that is no input.

    Args:
        guard: a text that `check_guard` accepts.
        paths: the number of the flat input at each path, such as `("x", 0)`.
    """
    tree = ast.parse(guard, mode="eval").body
    sources: list[Source] = []
    try:
        made = ast.fix_missing_locations(_Guard(paths, sources).visit(tree))
    except LookupError:
        return None
    subject, demand = None, f"{_demand(made, sources)} must hold"
    if isinstance(made, ast.Compare) and (word := _WORDS.get(type(made.ops[0]))) is not None:
        left, right = made.left, made.comparators[0]
        if isinstance(left, ast.Name) and left.id == _name(0):
            subject, demand = sources[0], f"must be {word}{_demand(right, sources)}"
    # Trees, not texts, take the places of names: a key may look like one.
    placed = _Placed([ast.parse(source.code(), mode="eval").body for source in sources]).visit(made)
    return Condition(ast.unparse(placed), subject, demand, tuple(sources))


def _demand(tree: ast.expr, sources: Sequence[Source]) -> str:
    text = ast.unparse(tree)
    for index in range(len(sources)):
        text = text.replace(_name(index), f"{{{index}}}")
    return text


class _Placed(ast.NodeTransformer):
    """Replaces the names of sources by what reads them."""

    def __init__(self, codes: Sequence[ast.expr]) -> None:
        self._codes = {_name(index): code for index, code in enumerate(codes)}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._codes.get(node.id, node)


def _name(index: int) -> str:
    return f"_source_{index}_"


class _Guard(ast.NodeTransformer):
    """Replaces the sources of a guard by names, and its functions by those of conditions."""

    def __init__(self, paths: Mapping[tuple[Any, ...], int], sources: list[Source]) -> None:
        self._paths = paths
        self._names = {path[0] for path in paths if path}
        self._sources = sources

    def visit_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and not name.startswith(("math.", "torch.")):
            return self._source(node)
        called = ast.parse(_FUNCTIONS.get(name, name), mode="eval").body
        return ast.Call(called, [self.visit(each) for each in node.args], [])

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "math":
            return node
        return self._source(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self._source(node)

    def _source(self, node: ast.expr) -> ast.expr:
        steps: list[Step] = []
        step = node
        while not isinstance(step, ast.Name):
            if isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute):
                steps.append(("call", step.func.attr))
                step = step.func.value
            elif isinstance(step, ast.Attribute):
                steps.append(("attribute", step.attr))
                step = step.value
            elif isinstance(step, ast.Subscript):
                steps.append(("item", ast.literal_eval(step.slice)))
                step = step.value
            else:
                raise AssertionError("check_guard has checked it")
        steps.reverse()
        source = self._found(steps)
        if source is None:
            raise LookupError
        if source not in self._sources:
            self._sources.append(source)
        return ast.Name(_name(self._sources.index(source)), ast.Load())

    def _found(self, steps: Sequence[Step]) -> Source | None:
        """Return the input whose path is the longest beginning of the steps, and the steps from there."""
        keys = [of for _, of in steps]
        if len(keys) > 1 and keys[0] == "flat_args" and type(keys[1]) is int:
            return Source(keys[1], tuple(steps[2:])) if 0 <= keys[1] < len(self._paths) else None
        if len(keys) > 1 and type(keys[1]) is int and f"{keys[0]}_{keys[1]}" in self._names:
            keys = [f"{keys[0]}_{keys[1]}", *keys[2:]]  # one of several that the signature had as *args
            steps = [("item", key) for key in keys[:1]] + list(steps[2:])
        for length in range(len(keys), 0, -1):
            if (index := self._paths.get(tuple(keys[:length]))) is not None:
                return Source(index, tuple(steps[length:]))
        return None
