"""Guards: the Python conditions that torch.export stores for a program's inputs. They are checked and never run.

A guard is a condition such as `L['x'].size()[0] % 8 == 0`: arithmetic and comparisons on *sources*, which are paths
from the input dictionary `L` through keys, attributes and a few methods of tensors. torch itself pastes guards into
generated code and runs it (`torch/export/_unlift.py`), between other statements and a second time inside a quoted
message. Therefore a valid guard is one line, without comments, and its keys contain neither quotes nor backslashes.
"""

from __future__ import annotations

import ast
import re
from itertools import accumulate
from typing import NoReturn

from graphwire.errors import ExpressionError
from graphwire.schema.texts.operations import FUNCTIONS

MAX_CHARACTERS = 100_000
MAX_DEPTH = 200
MAX_INTEGER = 2**64
MAX_EXPONENT = 64

METHODS = frozenset({"size", "stride", "storage_offset", "item", "__neg__"})
"""Methods of a source that a guard may call, all without arguments."""

ATTRIBUTES = frozenset({"_base"})
"""Attributes of a source, besides those whose name starts with a letter."""

CONSTANTS = frozenset({"inf", "math.inf", "math.nan"})
"""Every named constant of a guard."""

MAX_BRACKETS = 190
"""Python's compiler rejects code that nests 200. Some are around a guard in the code that torch generates."""

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Not: "not",
    ast.USub: "-",
    ast.And: "and",
    ast.Or: "or",
}
"""Every operator of a guard, as Python spells it."""
_KEY = r"\['([^']*)'\]"
"""A subscript with a key. Python would also accept prefixes, three quotes, and several texts side by side."""
_OUTSIDE_KEYS = r"[^ -~]|[#\"'\\]"
_GLUED_NUMBER = r"(?<!\w)(?>[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)[A-Za-z_]"
"""A number directly followed by a word, such as `1or`: Python's parser would print a warning."""
_OF_PYTHON_ALONE = (
    r"^ |(?<![\w.])(?<![eE][-+])0[0-9]+(?![0-9.eE])|, *\)|\[ *-? *\(|[^( ] *\) *[\[.(]"
    r"|(?:^|[^. ]) *\b(?:math|torch)(?: +\.|\. )"
)
"""What Python reads and the grammar lacks: a space in front, leading zeros, a comma after the last argument, parentheses in a
subscript or around a part of a source or a function's name, and spaces in such a name."""


def check_guard(text: str) -> None:
    """Check that `text` is a valid guard, such as `L['x'].size()[0] <= 10`.

    Raises:
        ExpressionError: it is not; the message names the node and its column.
    """
    if not isinstance(text, str):
        raise ExpressionError(f"a guard is text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"a guard of {len(text)} characters; at most {MAX_CHARACTERS} are read")
    _check_characters(text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise ExpressionError(f"a guard is not a Python expression ({reason}): {text[:80]!r}") from error
    pending: list[tuple[ast.expr, int, bool]] = [(tree, 1, False)]
    while pending:
        node, depth, powered = pending.pop()
        powered = powered or _is_power(node)
        operands = _operands(node)
        if operands and depth > MAX_DEPTH:
            _refuse(node, f"operations nested deeper than {MAX_DEPTH}")
        if powered and any(map(_is_power, operands)):
            _refuse(node, "a power inside a power")
        pending.extend((operand, depth + 1, powered) for operand in operands)


def _refuse(node: ast.AST, problem: str, remedy: str = "") -> NoReturn:
    name, column = type(node).__name__, getattr(node, "col_offset", 0)
    raise ExpressionError(f"a guard holds {problem} ({name} at column {column})", remedy=remedy)


def _check_characters(text: str) -> None:
    for key in re.findall(_KEY, text):
        if not key.isprintable() or '"' in key or "\\" in key:
            raise ExpressionError(f"a guard has a key that torch would not quote safely: {key[:80]}")
    outside = re.sub(_KEY, "[0]", text)
    glued = re.search(_GLUED_NUMBER, outside)
    if glued is not None:
        raise ExpressionError(f"a guard holds a number directly followed by a word: {glued[0][:80]!r}")
    other = re.search(_OF_PYTHON_ALONE, outside)
    if other is not None:
        raise ExpressionError(f"a guard holds {other[0]!r:.80}, which only Python reads: {text[:80]!r}")
    found = re.search(_OUTSIDE_KEYS, outside)
    if found is not None:
        raise ExpressionError(
            f"a guard holds the character {found[0]!r} outside of a key: {text[:80]!r}",
            remedy="A guard is one line of ASCII without comments; its keys are in single quotes",
        )

    if outside.count("(") + outside.count("[") > MAX_BRACKETS:
        depths = accumulate((each in "([") - (each in ")]") for each in outside)
        if max(depths) > MAX_BRACKETS:
            raise ExpressionError(f"a guard nests brackets deeper than {MAX_BRACKETS}: {text[:80]!r}")


def _is_power(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _operands(node: ast.expr) -> list[ast.expr]:
    """Check one node by itself, and return the operands to check next."""
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.BinOp):
        _check_operator(node, node.op)
        _check_exponent(node)
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        _check_operator(node, node.op)
        return [node.operand]
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            _refuse(node, "a chain of comparisons")
        _check_operator(node, node.ops[0])
        return [node.left, *node.comparators]
    if isinstance(node, ast.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, ast.Constant):
        _check_constant(node)
        return []
    if _name_of(node) in CONSTANTS:
        return []
    if isinstance(node, ast.Call) and (name := _name_of(node.func)) in FUNCTIONS:
        least, most = FUNCTIONS[name]
        count = len(node.args)
        if node.keywords or count < least or (most is not None and count > most):
            _refuse(node, f"a call of {name} with arguments that it does not take")
        return node.args
    _check_source(node)
    return []


def _check_operator(node: ast.expr, operator: ast.AST) -> None:
    if type(operator) not in OPERATORS:
        _refuse(node, f"the operator {type(operator).__name__}")


def _check_exponent(node: ast.BinOp) -> None:
    if not isinstance(node.op, ast.Pow):
        return
    exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    if isinstance(exponent, ast.Constant):
        power = exponent.value
        if isinstance(power, bool) or not isinstance(power, (int, float)) or abs(power) > MAX_EXPONENT:
            _refuse(node, f"an exponent that is no number up to {MAX_EXPONENT}")
    elif not any(isinstance(part, ast.Subscript) for part in ast.walk(exponent)):
        _refuse(node, "an exponent that is computed from numbers alone")


def _check_constant(node: ast.Constant) -> None:
    value = node.value
    if type(value) not in (int, float, bool):
        _refuse(node, f"a constant that is not a number: {str(value)[:80]!r}")
    _check_whole(node, value)


def _check_whole(node: ast.expr, value: object) -> None:
    if type(value) is int and value > MAX_INTEGER:
        _refuse(node, "a whole number beyond 2**64")


def _name_of(node: ast.expr) -> str:
    """Return `max` or `math.floor` for a node that is such a name, and an empty string for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _check_subscript(index: ast.expr) -> None:
    is_signed = isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub)
    number = index.operand if isinstance(index, ast.UnaryOp) and is_signed else index
    kinds = (int,) if is_signed else (int, str)
    if not isinstance(number, ast.Constant) or type(number.value) not in kinds:
        _refuse(index, "a subscript that is neither a number nor a key")
    _check_whole(index, number.value)


def _check_source(node: ast.expr) -> None:
    """Check a path such as `L['x'][0].size()[1]`, from its end to its root."""
    step = first = node
    steps = 0
    while not (isinstance(step, ast.Name) and step.id == "L"):
        first = step  # next to the root, in the end
        steps += 1
        if steps > MAX_DEPTH:
            _refuse(node, f"a source of more than {MAX_DEPTH} steps")
        if isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute):
            if step.func.attr not in METHODS or step.args or step.keywords:
                _refuse(
                    step, f"a call of the method {step.func.attr[:80]!r}", f"It may call {sorted(METHODS)}"
                )
            step = step.func.value
        elif isinstance(step, ast.Attribute):
            if not step.attr[0].isalpha() and step.attr not in ATTRIBUTES:
                _refuse(step, f"the attribute {step.attr[:80]!r}")
            step = step.value
        elif isinstance(step, ast.Subscript):
            _check_subscript(step.slice)
            step = step.value
        elif isinstance(step, ast.Name):
            _refuse(step, f"the name {step.id[:80]!r}", "A guard refers to the inputs, such as L['x']")
        else:
            _refuse(step, "something outside the guard grammar")
    if not isinstance(first, ast.Subscript):
        _refuse(node, "the whole dictionary of inputs", "A guard refers to the inputs, such as L['x']")
