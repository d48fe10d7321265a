"""ATen operators that changed between releases with the same schema version, so the version does not determine their form.

    operator                        change                                            older → newer torch
    cholesky, qr                    → linalg_cholesky, linalg_qr                      2.13 → 2.14
    _pdist_backward                 parameter `grad` → `grad_output`                  2.13 → 2.14
    _cdist_backward                 the same                                          2.13 → 2.14

At load a program gets the forms of the installed torch; when written for a target, those of the target's release. A form that
fits stays. The list comes from comparing the operator tables of the releases, 2.1 to 2.15.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from graphwire.errors import OpsetError
from graphwire.evolve.documents import RELEASES, AppliedStep
from graphwire.evolve.opsets import (
    Change,
    EditNode,
    NodeEditor,
    renamed_parameter,
    rewrite_program,
    uses_operator,
    walk_nodes,
)
from graphwire.schema import Program

_ATEN = "torch.ops.aten."
_LINALG_CHOLESKY, _LINALG_QR = f"{_ATEN}linalg_cholesky.default", f"{_ATEN}linalg_qr.default"


def _linalg_cholesky(edit: NodeEditor) -> None:
    options = {"upper": edit.value("upper")} if edit.has("upper") else {}
    matrix = edit.value("self")
    edit.retarget(_LINALG_CHOLESKY, {"self": matrix})
    for name, value in options.items():
        edit.set(name, value, keyword=True)


def _linalg_qr(edit: NodeEditor) -> None:
    if edit.has("some"):
        edit.set("some", "reduced" if edit.value("some") else "complete")
    edit.rename("some", "mode")
    edit.rename("self", "A")
    edit.retarget(_LINALG_QR)


CHANGES: Final[tuple[Change, ...]] = (
    Change(
        "2.14", f"{_ATEN}cholesky.default", _linalg_cholesky, None, _LINALG_CHOLESKY, "self", newer="self"
    ),
    Change("2.14", f"{_ATEN}qr.default", _linalg_qr, None, _LINALG_QR, "self", newer="A"),
    renamed_parameter("2.14", f"{_ATEN}_pdist_backward.default", "grad", "grad_output"),
    renamed_parameter("2.14", f"{_ATEN}_cdist_backward.default", "grad", "grad_output"),
)
"""Every change, oldest first."""

_CHANGED: Final = frozenset(
    [row.target for row in CHANGES if row.up] + [row.newer_target for row in CHANGES if row.down]
)
_AGE: Final = {release: index for index, release in enumerate(RELEASES)}


class Rewrite(NamedTuple):
    """The conversion of an operator to another form."""

    parameter: str
    """A parameter that identifies the form to convert: a node with an argument of that name has it."""
    apply: EditNode


def forms_of_release(release: str) -> dict[str, Rewrite]:
    """Return the conversions to the forms of a release of torch, such as `2.12`, by the operators' serialized names."""
    age = _AGE.get(release, -1)
    return _rewrites(
        lambda change: age >= _AGE[str(change.since)], lambda change: age < _AGE[str(change.since)]
    )


def forms_of_parameters(parameters: Callable[[str], Collection[str]]) -> dict[str, Rewrite]:
    """Return the conversions to the forms of an installed torch, by the operators' serialized names.

    Operators that exist there in both forms, or in neither, stay.

    Args:
        parameters: returns the names of an operator's parameters in that torch; none where it does not exist.
    """

    def has_newer(change: Change) -> bool:
        return change.newer in parameters(change.newer_target)

    def has_older(change: Change) -> bool:
        return change.older in parameters(change.target)

    return _rewrites(
        lambda change: has_newer(change) and not has_older(change),
        lambda change: has_older(change) and not has_newer(change),
    )


def _rewrites(goes_up: Callable[[Change], bool], goes_down: Callable[[Change], bool]) -> dict[str, Rewrite]:
    found = {}
    for change in CHANGES:
        if change.up is not None and goes_up(change):
            found[change.target] = Rewrite(change.older, change.up)
        elif change.down is not None and goes_down(change):
            found[change.newer_target] = Rewrite(change.newer, change.down)
    return found


def with_forms(
    program: Program, forms: Callable[[], Mapping[str, Rewrite]], done: list[AppliedStep] | None = None
) -> Program:
    """Convert a program's operators to the given forms; return the very same program if none of them changed.

    Args:
        forms: called only for a program with operators that changed.
        done: receives the conversions that were made.

    Raises:
        OpsetError: a node does not match its operator's parameters.
    """
    if not uses_operator(program.graph_module.graph, _CHANGED):
        return program
    rewrites = forms()
    touched: dict[str, list[str]] = {}
    for _, node in walk_nodes(program.graph_module.graph):
        form = rewrites.get(node.target)
        if form is not None and any(named.name == form.parameter for named in node.inputs):
            touched.setdefault(node.target, []).append(node.name or node.target)
    rewritten = rewrite_program(program, {target: form.apply for target, form in rewrites.items()})
    if rewritten.problems:
        raise OpsetError(
            "operators cannot be converted to the form of the requested torch", problems=rewritten.problems
        )
    if done is not None:
        done += [
            AppliedStep(
                f"operator {target.removeprefix('torch.ops.')} in the form of this torch", tuple(names)
            )
            for target, names in touched.items()
        ]
    return rewritten.program if touched else program
