"""The statements of a module, and the module with a probe before each of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

MARKS = "__ran__"
"""The name in each module of the dictionary whose keys are the numbers of the statements that ran."""


def statements(tree: ast.Module) -> list[ast.stmt]:
    """The statements that get a probe: all but docstrings, other constants, and what only type checkers read."""
    return [statement for block in _blocks(tree) for statement in block if _is_counted(statement)]


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a module, outer ones first."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or (name == "body" and _is_for_type_checkers(node)):
            continue
        if block and isinstance(block[0], ast.stmt):
            yield block
        for each in block:
            yield from _blocks(each)


def _is_counted(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False
    return not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def with_probes(source: bytes) -> ast.Module:
    """The syntax tree of a module, with a probe before each of its `statements`."""
    tree = ast.parse(source)
    # Behind a docstring and `from __future__`, which must stay first.
    first = next((index for index, each in enumerate(tree.body) if _is_counted(each)), len(tree.body))
    numbers = {id(statement): number for number, statement in enumerate(statements(tree))}
    for block in list(_blocks(tree)):
        block[:] = [each for statement in block for each in _probed(statement, numbers.get(id(statement)))]
    (start,) = ast.parse(f"{MARKS} = __import__('line_probes').marks_of(__file__)").body
    tree.body.insert(first, start)
    return tree


def _probed(statement: ast.stmt, number: int | None) -> list[ast.stmt]:
    if number is None:
        return [statement]
    marks = ast.Subscript(ast.Name(MARKS, ast.Load()), ast.Constant(number), ast.Store())
    probe = ast.copy_location(ast.Assign([marks], ast.Constant(1)), statement)
    probe.end_lineno = probe.lineno = _first_line(statement)
    return [ast.fix_missing_locations(probe), statement]


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
