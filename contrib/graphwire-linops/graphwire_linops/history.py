"""Upgrades and downgrades between the versions of the operators.

1  project(x, weight), norm_project(x, weight, eps), soften(x, width=1.0), apply(x, function)
2  project(x, weight, transposed): a new argument
3  norm_project is removed: unit(x, eps), then project
4  soften is renamed smooth, and its default width is 0.5
"""

from __future__ import annotations

from msgspec.structs import replace

from graphwire.hooks import NodeEditor, OpsetStep

PROJECT, NORM_PROJECT, UNIT = (
    f"torch.ops.linops.{name}.default" for name in ("project", "norm_project", "unit")
)
TRANSPOSE = "torch.ops.aten.t.default"
SOFTEN, SMOOTH = "torch.ops.linops.soften.default", "torch.ops.linops.smooth.default"


def _add_transposed(edit: NodeEditor) -> None:
    edit.set("transposed", False)


def _drop_transposed(edit: NodeEditor) -> None:
    if edit.value("transposed") is not False:
        # Stated, not found at load: readers of version 1 do not have this step, which declares what may be left open.
        weight = edit.value("weight")
        whole = edit.tensor(weight)
        turned = replace(whole, sizes=whole.sizes[::-1], strides=whole.strides[::-1])
        edit.set("weight", edit.emit(TRANSPOSE, {"self": weight}, known=turned))
    edit.drop("transposed")


def _split(edit: NodeEditor) -> None:
    unit = edit.emit(UNIT, {"x": edit.value("x"), "eps": edit.value("eps")})
    edit.retarget(PROJECT, {"x": unit, "weight": edit.value("weight"), "transposed": False})


def _no_unit(edit: NodeEditor) -> None:
    edit.refuse("version 2 cannot compute unit rows without a projection")


def _rename(edit: NodeEditor) -> None:
    edit.retarget(SMOOTH)
    edit.default("width", 1.0)


def _rename_back(edit: NodeEditor) -> None:
    edit.retarget(SOFTEN)
    edit.default("width", 0.5)


STEPS = (
    OpsetStep("linops", 1, 2, {PROJECT: _add_transposed}),
    OpsetStep("linops", 2, 1, {PROJECT: _drop_transposed}, propagates={TRANSPOSE}),
    OpsetStep("linops", 2, 3, {NORM_PROJECT: _split}, propagates={UNIT}),
    OpsetStep("linops", 3, 2, {UNIT: _no_unit}),
    OpsetStep("linops", 3, 4, {SOFTEN: _rename}),
    OpsetStep("linops", 4, 3, {SMOOTH: _rename_back}),
)
"""All steps, up and down. `apply` never changed."""
