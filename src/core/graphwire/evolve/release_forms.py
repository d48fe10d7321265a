"""ATen operators that changed between releases with one version of the schema, so that nothing in a file tells which form it has.

    operator                        change                                            older → newer torch
    cholesky, qr                    → linalg_cholesky, linalg_qr                      2.13 → 2.14
    _pdist_backward                 parameter `grad` → `grad_output`                  2.13 → 2.14
    _cdist_backward                 the same                                          2.13 → 2.14

A program gets the forms of the torch that is installed when it is loaded, and those of a target's release when it is written for
one; a form that fits stays. Found by comparing the operator tables of the releases, 2.1 to 2.15.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from graphwire.errors import OpsetError, Problem
from graphwire.evolve.editor import NodeEditor
from graphwire.evolve.references import uses_operator
from graphwire.evolve.step import Taken
from graphwire.evolve.upgrades import Upgrade, rewrite_graph
from graphwire.evolve.versions import RELEASES
from graphwire.schema.graph import Node
from graphwire.schema.program import Program

__all__ = ["CHANGES", "Change", "Rewrite", "forms_of_parameters", "forms_of_release", "with_forms"]

_ATEN = "torch.ops.aten."


class Change(NamedTuple):
    """One change of one operator."""

    release: str
    """The first release of torch with the newer form, such as `2.14`."""
    target: str
    """The operator, as the older form calls it."""
    older: str
    """A parameter that only the older form has."""
    newer: str | None
    """A parameter that only the newer form has; None where that is another operator, which the older release has too."""
    up: Upgrade
    down: Upgrade | None


def _linalg_cholesky(edit: NodeEditor) -> None:
    options = {"upper": edit.value("upper")} if edit.has("upper") else {}
    matrix = edit.value("self")
    edit.retarget(f"{_ATEN}linalg_cholesky.default", {"self": matrix})
    for name, value in options.items():
        edit.set(name, value, keyword=True)


def _linalg_qr(edit: NodeEditor) -> None:
    if edit.has("some"):
        edit.set("some", "reduced" if edit.value("some") else "complete")
    edit.rename("some", "mode")
    edit.rename("self", "A")
    edit.retarget(f"{_ATEN}linalg_qr.default")


def _renamed(old: str, new: str) -> Upgrade:
    def rename(edit: NodeEditor) -> None:
        edit.rename(old, new)

    return rename


def _renamed_parameter(release: str, operator: str, old: str, new: str) -> Change:
    return Change(release, f"{_ATEN}{operator}", old, new, _renamed(old, new), _renamed(new, old))


CHANGES: Final[tuple[Change, ...]] = (
    Change("2.14", f"{_ATEN}cholesky.default", "self", None, _linalg_cholesky, None),
    Change("2.14", f"{_ATEN}qr.default", "self", None, _linalg_qr, None),
    _renamed_parameter("2.14", "_pdist_backward.default", "grad", "grad_output"),
    _renamed_parameter("2.14", "_cdist_backward.default", "grad", "grad_output"),
)
"""Every change, oldest first."""


_CHANGED: Final = frozenset(change.target for change in CHANGES)
_AGE: Final = {release: index for index, release in enumerate(RELEASES)}


class Rewrite(NamedTuple):
    """What brings an operator to another form."""

    parameter: str
    """What tells that a node has the form that is left: an argument of that name."""
    apply: Upgrade


def forms_of_release(release: str) -> dict[str, Rewrite]:
    """What brings the operators to the form of a release of torch, such as `2.12`, by their serialized names."""
    age = _AGE.get(release, -1)
    return _rewrites(lambda change: age >= _AGE[change.release])


def forms_of_parameters(parameters: Callable[[str], Collection[str]]) -> dict[str, Rewrite]:
    """What brings the operators to the form of an installed torch, by their serialized names.

    Args:
        parameters: the names of the parameters of an operator there; none where it does not exist.
    """
    return _rewrites(lambda change: change.older not in parameters(change.target))


def _rewrites(has_newer: Callable[[Change], bool]) -> dict[str, Rewrite]:
    found = {}
    for change in CHANGES:
        if has_newer(change):
            found[change.target] = Rewrite(change.older, change.up)
        elif change.newer is not None and change.down is not None:
            found[change.target] = Rewrite(change.newer, change.down)
    return found


def with_forms(
    program: Program, forms: Callable[[], Mapping[str, Rewrite]], done: list[Taken] | None = None
) -> Program:
    """A program with operators in the given forms; the very same one where it has none that changed.

    Args:
        forms: asked only for a program with operators that changed.
        done: gets what was rewritten.

    Raises:
        OpsetError: a node is not what its operator takes.
    """
    module = program.graph_module
    if not uses_operator(module.graph, _CHANGED):
        return program
    rewrites = forms()
    problems: list[Problem] = []
    touched: dict[str, list[str]] = {}

    def note(_place: str, node: Node) -> None:
        if any(named.name == rewrites[node.target].parameter for named in node.inputs):
            touched.setdefault(node.target, []).append(node.name or node.target)

    upgrades = {target: rewrite.apply for target, rewrite in rewrites.items()}
    graph, _ = rewrite_graph(module.graph, upgrades, "graph_module.graph", problems, note)
    if problems:
        raise OpsetError("operators cannot be brought to the form of the wanted torch", problems=problems)
    if done is not None:
        done += [
            Taken(f"operator {target.removeprefix('torch.ops.')} in the form of this torch", tuple(names))
            for target, names in touched.items()
        ]
    return program if not touched else replace(program, graph_module=replace(module, graph=graph))
