"""Opset upgraders for torch's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from graphwire.errors import OpsetError
from graphwire.evolve.plain_values import Value
from graphwire.evolve.planner import Change, EditNode, opset_steps
from graphwire.registry.interfaces import OpsetStep, OpsetUpgrader, hookimpl
from graphwire.schema import ScalarType, SymExpr, SymExprHint, SymFloat, SymInt, TensorMeta

if TYPE_CHECKING:
    from graphwire.evolve.node_editor import NodeEditor

# ----------------------------------------------------------------------------------------------- ATen's version history
# the 18 overloads whose meaning changed, and how to convert their nodes up and down.
#
# The versions are torch's own (`torch._C._get_operator_version_map()`, `torch/csrc/jit/operator_upgraders`):
#
#     4   `div` of two integers is a true division; before, it truncated towards zero (torch 1.5)
#     5   `full` takes its element type from a boolean or integer; before, it used the default float type (1.6)
#     8   `linspace` requires `steps`; before, the default was 100 (1.10)
#     9   `logspace` likewise (1.10)
#     10  `gelu` has `approximate`; before, it was always exact (1.11)
#
# Nothing changed in the other versions. Every release since 2.1 writes version 10.


_ATEN = "torch.ops.aten."
_OVERLOADS = ("default", "out")
_TRUE_DIVISION = ("float", "bfloat", "complex")
"""Prefixes of the names of element types whose division never truncated."""


def _unchanged(edit: NodeEditor) -> None:
    """Leave the node as it is: the overload exists in both versions with the same meaning."""


# --------------------------------------------------------------------------------------------------- division, 3 and 4


def _is_fraction(edit: NodeEditor, value: Any) -> bool:
    """Whether a division with this operand is a true division in every version."""
    if isinstance(value, Value):
        if value.kind == "tensor":
            return edit.dtype(value).startswith(_TRUE_DIVISION)
        return value.kind == "sym_float"
    # Of the other literals, only a complex number is not a plain value.
    return not isinstance(value, int)


def _is_integer_division(edit: NodeEditor) -> bool:
    operands = [edit.value("self"), edit.value("other")]
    if edit.has("out"):
        operands.append(edit.value("out"))
    return not any(_is_fraction(edit, operand) for operand in operands)


def _cut_off(overload: str) -> EditNode:
    """Return the upgrade of a division, which makes the truncation of integers explicit."""

    def upgrade(edit: NodeEditor) -> None:
        if _is_integer_division(edit):
            edit.retarget(f"{_ATEN}{overload}")
            edit.set("rounding_mode", "trunc", keyword=True)

    return upgrade


def _true_division(edit: NodeEditor) -> None:
    """Downgrade a division: convert an integer dividend to a float first."""
    if not _is_integer_division(edit):
        return
    if edit.has("out") or "div_." in edit.target:
        edit.refuse("integers cannot be divided in place with a fraction as the result")
    dividend, (result,) = edit.value("self"), edit.outputs
    meta = edit.tensor(result)
    known: TensorMeta = replace(edit.tensor(dividend), dtype=meta.dtype, dtype_name=meta.dtype_name)
    if meta.dtype is ScalarType.UNKNOWN:
        edit.refuse(f"no argument of version 3 can represent the element type {meta.dtype_text}")
    converted = edit.emit(
        f"{_ATEN}_to_copy.default", {"self": dividend}, keywords={"dtype": meta.dtype}, known=known
    )
    edit.set("self", converted)


_DIVISIONS = {
    "div.Tensor": "div.Tensor_mode",
    "div.Scalar": "div.Scalar_mode",
    "div.out": "div.out_mode",
    "div_.Tensor": "div_.Tensor_mode",
    "div_.Scalar": "div_.Scalar_mode",
}
"""Each division, and its overload with a rounding mode."""


# ------------------------------------------------------------------------------------------------------- full, 4 and 5


def _full_of_floats(edit: NodeEditor) -> None:
    if edit.value("dtype", None) is not None:
        return
    fill = edit.value("fill_value")
    if isinstance(fill, int):
        edit.set("fill_value", float(fill))
    elif isinstance(fill, Value) and fill.kind == "sym_int":
        known = _as_float(edit.known(fill))
        (converted,) = edit.emit_all("torch.sym_float", [fill], [known])
        edit.set("fill_value", converted)
    elif isinstance(fill, Value) and fill.kind == "sym_bool":
        edit.refuse("a boolean that is only known at run time cannot be converted to a float")


def _as_float(known: SymInt | None) -> SymFloat:
    """Return the metadata of an integer after conversion to a float."""
    if known is None:
        raise OpsetError("the integer has no metadata before the program is loaded")
    if known.as_expr is None:
        return SymFloat(as_float=float(known.as_int or 0))
    hint = known.as_expr.hint
    hinted = None if hint is None or hint.as_int is None else SymExprHint(as_float=float(hint.as_int))
    return SymFloat(as_expr=SymExpr(f"ToFloat({known.as_expr.expr_str})", hinted))


def _full_of_its_type(edit: NodeEditor) -> None:
    if edit.value("dtype", None) is not None:
        return
    fill = edit.value("fill_value")
    kind = fill.kind.removeprefix("sym_") if isinstance(fill, Value) else type(fill).__name__
    dtypes = {"bool": ScalarType.BOOL, "int": ScalarType.LONG}
    if kind in dtypes:
        edit.set("dtype", dtypes[kind], keyword=True)


# ----------------------------------------------------------------------------------- linspace and logspace, 7, 8 and 9


def _hundred_steps(edit: NodeEditor) -> None:
    if edit.value("steps", None) is None:
        edit.set("steps", 100, keyword=True)


# ------------------------------------------------------------------------------------------------------ gelu, 9 and 10


def _exact_gelu(edit: NodeEditor) -> None:
    edit.default("approximate", "none", keyword=True)


_SQRT_2_OVER_PI = 0.7978845608028654


def _gelu_of_parts(edit: NodeEditor) -> None:
    """Downgrade `gelu`: keep the exact form, and expand the tanh approximation into elementary operators."""
    approximate = edit.value("approximate", "none")
    edit.drop("approximate")
    if approximate == "none":
        return
    if approximate != "tanh" or edit.has("out"):
        edit.refuse(f"version 9 has no gelu with approximate={approximate!r}")
    x = edit.value("self")
    if edit.dtype(x) not in {"float32", "float64"}:
        edit.refuse(f"as several operators, gelu with tanh rounds differently than as one in {edit.dtype(x)}")

    def emit(name: str, one: Value, other: Any = None) -> Value:
        inputs = {"self": one} if other is None else {"self": one, "other": other}
        return edit.emit(f"{_ATEN}{name}", inputs, like=x)

    # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
    cube = emit("mul.Tensor", emit("mul.Tensor", x, x), x)
    inner = emit("mul.Scalar", emit("add.Tensor", x, emit("mul.Scalar", cube, 0.044715)), _SQRT_2_OVER_PI)
    weight = emit("add.Scalar", emit("tanh.default", inner), 1)
    edit.retarget(f"{_ATEN}mul.Tensor", {"self": emit("mul.Scalar", x, 0.5), "other": weight})


# --------------------------------------------------------------------------------------------------------------- table

_CHANGES = (
    *(Change(4, f"{_ATEN}{old}", _cut_off(new), _true_division) for old, new in _DIVISIONS.items()),
    *(Change(4, f"{_ATEN}{new}", _unchanged, _unchanged) for new in _DIVISIONS.values()),
    Change(5, f"{_ATEN}full.default", _full_of_floats, _full_of_its_type),
    Change(5, f"{_ATEN}full.out", _unchanged, _unchanged),
    *(Change(8, f"{_ATEN}linspace.{overload}", _hundred_steps, _unchanged) for overload in _OVERLOADS),
    *(Change(9, f"{_ATEN}logspace.{overload}", _hundred_steps, _unchanged) for overload in _OVERLOADS),
    *(Change(10, f"{_ATEN}gelu.{overload}", _exact_gelu, _gelu_of_parts) for overload in _OVERLOADS),
)
"""Each change of an overload, by the version that introduced it."""

ATEN_STEPS: tuple[OpsetStep, ...] = opset_steps("aten", 10, _CHANGES)
"""Each step from version 1 to 10, and back."""


@hookimpl
def graphwire_opset_upgraders() -> list[OpsetUpgrader]:
    """Return the upgrade and downgrade steps of ATen."""
    return list(ATEN_STEPS)
