"""Operators whose form changed between releases: rewrites keyed by the operator and the step of the schema it changed with.

The schema's version is the only thing that tells releases apart in a file, and every release to 2.12 has its own; so a change
of an operator belongs to the step between two of them (`evolve.release_forms` has those after 2.12). Upward a form is rewritten
after its step, downward before it: a rewrite always sees the records of the newer version. Forms are as the files of the releases
have them.

    target                       change                                                              older → newer torch
    cond                         one bare result → a list of one; branches return a tuple              2.1 → 2.2
    cond                         one list of n results → n results                                     2.2 → 2.3
    map_impl                     torch.ops.map_impl → torch.ops.higher_order.map_impl                  2.1 → 2.2
    map_impl                     graph, count, tensors … → graph, mapped tensors, other tensors        2.2 → 2.3
    while_loop                   additional inputs as a fourth argument                                2.3 → 2.4
    auto_functionalized          named by its Python module → named as the others are                  2.4 → 2.5
    wrap_with_set_grad_enabled   the same                                                              2.4 → 2.5
    scan                         without dimension and direction: xs and results are permuted, flipped 2.6 → 2.7
    invoke_subgraph              one list of operands → operands                                       2.7 → 2.8
    auto_functionalized_v2       downward auto_functionalized, where nothing is a view                 2.9 ← 2.10
    aten.can_cast                parameter `from` → `from_`                                            2.3 → 2.4
    flash attention on a CPU     → aten._scaled_dot_product_flash_attention_for_cpu                    2.2 → 2.3
    aten.rrelu_with_noise        → aten.rrelu_with_noise_functional, with its noise as a second result       2.5 → 2.6
    views of attention           downward reshapes                                                     2.4 ← 2.5
    assertions on sizes          a lower bound of 2, which 2.1 made up → 0                             2.1 → 2.2

The dtype and cache flag of wrap_with_autocast may be None in files of 2.6 and 2.7: every release takes None for its own
default, so it stays. That 2.13 still runs auto_functionalized, and every form here, is tested (`tests/evolve`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from graphwire.evolve.attention import FLASH, FLASH_FOR_CPU, attention_down, attention_up, reshape_attention
from graphwire.evolve.availability import report_unavailable
from graphwire.evolve.new_values import NewValues
from graphwire.evolve.noise import RRELU, RRELU_FUNCTIONAL, noise_down, noise_up
from graphwire.evolve.operator_forms import (
    cond_results_down,
    cond_results_up,
    cond_tuple_down,
    cond_tuple_up,
    functionalized_down,
    invoke_down,
    invoke_up,
    map_down,
    map_up,
    renamed_input,
    scan_down,
    scan_up,
    unchanged,
    while_loop_down,
    while_loop_up,
)
from graphwire.evolve.size_assertions import relax_size_assertions
from graphwire.evolve.step import Taken
from graphwire.evolve.trees import Edits, Node, Record, Report, Where, node_label, rewrite
from graphwire.evolve.versions import Version

__all__ = ["FORMS", "Form", "operators_down", "operators_up"]

_HOP = "torch.ops.higher_order."

Rewrite = Callable[[NewValues, Node, Where, Report], list[Node]]
"""(graph, node, place, report) → the nodes that stand for the node."""


class Form(NamedTuple):
    """One change of one operator."""

    newer: Version
    """The version whose release has the newer form."""
    old_target: str
    new_target: str
    up: Rewrite
    down: Rewrite

    @property
    def renames(self) -> bool:
        """Whether only the name changed."""
        return self.up is unchanged and self.down is unchanged


FORMS: tuple[Form, ...] = (
    Form(Version(2), f"{_HOP}cond", f"{_HOP}cond", cond_tuple_up, cond_tuple_down),
    Form(Version(2), "torch.ops.map_impl", f"{_HOP}map_impl", unchanged, unchanged),
    Form(Version(5, 1), f"{_HOP}cond", f"{_HOP}cond", cond_results_up, cond_results_down),
    Form(Version(5, 1), f"{_HOP}map_impl", f"{_HOP}map_impl", map_up, map_down),
    Form(Version(5, 1), FLASH, FLASH_FOR_CPU, attention_up, attention_down),
    Form(Version(5, 3), f"{_HOP}while_loop", f"{_HOP}while_loop", while_loop_up, while_loop_down),
    Form(
        Version(5, 3),
        "torch.ops.aten.can_cast.default",
        "torch.ops.aten.can_cast.default",
        renamed_input("from", "from_"),
        renamed_input("from_", "from"),
    ),
    Form(
        Version(7, 3),
        "torch._higher_order_ops.auto_functionalize.auto_functionalized",
        f"{_HOP}auto_functionalized",
        unchanged,
        unchanged,
    ),
    Form(
        Version(7, 3),
        "torch._higher_order_ops.wrap.wrap_with_set_grad_enabled",
        f"{_HOP}wrap_with_set_grad_enabled",
        unchanged,
        unchanged,
    ),
    Form(Version(8, 2), RRELU, RRELU_FUNCTIONAL, noise_up, noise_down),
    Form(Version(8, 7), f"{_HOP}scan", f"{_HOP}scan", scan_up, scan_down),
    Form(Version(8, 8), f"{_HOP}invoke_subgraph", f"{_HOP}invoke_subgraph", invoke_up, invoke_down),
    Form(
        Version(8, 15),
        f"{_HOP}auto_functionalized_v2",
        f"{_HOP}auto_functionalized_v2",
        unchanged,
        functionalized_down,
    ),
)
"""Every change, oldest first."""


def operators_up(tree: Record, newer: Version) -> tuple[Record, list[Taken]]:
    """A document that has just become one of `newer`, with the operators' forms of that version, and what was rewritten."""
    forms = {form.old_target: form for form in FORMS if form.newer == newer}
    done: dict[str, list[str]] = {}

    def apply(graph: NewValues, node: Node, where: Where) -> list[Node]:
        form = forms.get(node["target"])
        if form is None:
            return [node]
        result = form.up(graph, node, where, _refuse)
        if form.renames:
            result = [{**each, "target": form.new_target} for each in result]
        if result != [node]:
            what = f"operator {form.new_target.removeprefix('torch.ops.')} in the form of {newer}"
            done.setdefault(what, []).append(node_label(node))
        return result

    if forms:
        tree = _each_node(tree, apply)
    if newer == Version(2):
        tree = relax_size_assertions(tree)
    return tree, [Taken(what, tuple(nodes)) for what, nodes in done.items()]


def operators_down(tree: Record, newer: Version, report: Report) -> Record:
    """A document of `newer` that is about to step down, with the operators' forms of the version below."""
    forms = {form.new_target: form for form in FORMS if form.newer == newer}

    def apply(graph: NewValues, node: Node, where: Where) -> list[Node]:
        form = forms.get(node["target"])
        if form is None:
            return [node]
        return [
            {**each, "target": form.old_target} if form.renames else each
            for each in form.down(graph, node, where, report)
        ]

    if forms:
        tree = _each_node(tree, apply)
    if newer == Version(7, 3):
        tree = reshape_attention(tree)
    return report_unavailable(tree, newer, report)


def _refuse(obstacle: object) -> None:
    raise AssertionError(f"nothing stands in the way of a step up: {obstacle}")


def _each_node(tree: Record, apply: Callable[[NewValues, Node, Where], list[Node]]) -> Record:
    def of_graph(graph: Record, where: Where) -> Record:
        values = NewValues(graph)
        nodes = []
        for index, node in enumerate(graph["nodes"]):
            nodes += apply(values, node, Where(where, f".nodes[{index}]", node_label(node)))
        return values.added_to(nodes)

    return rewrite(tree, Edits(graph=of_graph))
