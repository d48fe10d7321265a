"""Every use of torch's private interfaces to symbolic values and shape environments.

Importing it imports sympy, which takes as long as a third of torch, so the package does that when a program needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    ValueRangesSLoc,
    _free_unbacked_symbols_with_path,
    free_unbacked_symbols,
)
from torch.utils._sympy.functions import FloorDiv, Where
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils._traceback import CapturedTraceback

from graphwire.bridge.torch_compat.private import backed_values, reserve_numbers

__all__ = ["FloorDiv", "ShapeEnv", "ValueRanges", "Where", "int_oo"]
"""What the rest of the bridge imports of torch from here."""

_SYMBOLIC: dict[type, type] = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}


def symbolic_value(shape_env: ShapeEnv, expression: sympy.Basic, kind: type, hint: Any) -> Any:
    """Return the symbolic value of an expression. The expression may be a number: torch has such values where an unknown size
    became known.

    torch computes a missing hint, without a bound on the time. So the value is built with a hint and without an
    environment, and gets its real hint and environment afterwards.

    Args:
        kind: `int`, `float` or `bool`.
        hint: the value on the example inputs; None if there is none, as for values that only a run determines.
    """
    node = SymNode(expression, None, kind, kind(0))
    node.shape_env = shape_env
    node._hint = None if hint is not None and free_unbacked_symbols(expression) else hint
    return _SYMBOLIC[kind](node)


def declare_symbol(
    shape_env: ShapeEnv, symbol: sympy.Symbol, ranges: ValueRanges | None, hint: int | float | None
) -> None:
    """Declare a symbol with its range, and with its value on the example inputs (None for an unbacked symbol)."""
    if hint is not None and symbol not in (values := backed_values(shape_env)):
        values[symbol] = sympy.Integer(hint) if type(hint) is int else sympy.Float(hint)
    if ranges is not None:
        # With a source. Without one, torch looks for the user's frame, and imports its compiler to tell which are its own.
        source = shape_env._get_sloc("a range of a loaded program")
        shape_env._update_var_to_range(symbol, ranges, ValueRangesSLoc(source, source))
    shape_env.var_to_stack.setdefault(symbol, CapturedTraceback.extract(skip=1))


def replacements(shape_env: ShapeEnv, symbols: Iterable[sympy.Basic]) -> dict[sympy.Symbol, sympy.Basic]:
    """Return the `symbols` that tracing found equal to an expression, each with that expression."""
    return {symbol: shape_env.replace(symbol) for symbol in symbols if symbol in shape_env.replacements}


def replace_symbol(shape_env: ShapeEnv, symbol: sympy.Symbol, expression: sympy.Basic) -> None:
    """Replace `symbol`, which no existing value uses, by `expression`."""
    shape_env.replacements[symbol] = expression


def reserve_unbacked(shape_env: ShapeEnv, names: Iterable[str]) -> None:
    """Reserve the numbers of unbacked symbols (`u3`, `zuf0`), so that new symbols do not reuse them."""
    for name in names:
        for prefix, counter in (("zuf", "unbacked_symfloat_counter"), ("u", "unbacked_symint_counter")):
            if name.startswith(prefix) and name[len(prefix) :].isdigit():
                used = int(name[len(prefix) :]) + 1
                reserve_numbers(shape_env, counter, used)


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Return whether `symbol` represents a value that is only known when the program runs."""
    return symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


def unbacked_bindings(value: Any, shape_env: ShapeEnv, pending: set[sympy.Symbol]) -> dict[sympy.Symbol, Any]:
    """Remove from `pending` the unbacked symbols that `value` binds, and return each with its path inside `value`."""
    return _free_unbacked_symbols_with_path(value, (), shape_env=shape_env, pending=pending, simplify=True)


def fresh_unbacked_symbols(shape_env: ShapeEnv) -> set[sympy.Symbol]:
    """Remove from the environment the unbacked symbols that operators created since the last call, and return them."""
    symbols = set(shape_env.pending_fresh_unbacked_symbols)
    shape_env.pending_fresh_unbacked_symbols.clear()
    return symbols


def defer_assertion(shape_env: ShapeEnv, condition: torch.SymBool, node: torch.fx.Node) -> None:
    """Tell `shape_env` about a condition that `node` asserts at run time."""
    shape_env.guard_or_defer_runtime_assert(condition.node.expr, "", node)


def constrain_for_size(shape_env: ShapeEnv, value: torch.SymInt) -> None:
    """Tell `shape_env` that an unbacked value is used as a size."""
    shape_env._constrain_range_for_size(value.node.expr)
