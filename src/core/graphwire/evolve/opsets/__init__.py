"""How is a program converted to the opset versions that are installed or requested?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.opsets.changes import (
        Change,
        EditNode,
        opset_steps,
        renamed_operator,
        renamed_parameter,
    )
    from graphwire.evolve.opsets.editor import NodeEditor
    from graphwire.evolve.opsets.graph_names import graphs_in, uses_operator, walk_nodes
    from graphwire.evolve.opsets.plain_values import Value, encode_value, map_argument
    from graphwire.evolve.opsets.planner import Plan, UnknownOps, apply, plan, plan_for
    from graphwire.evolve.opsets.propagation import check_stored_marks, marked_operators
    from graphwire.evolve.opsets.requirements import check_plugins, kept_requirements, with_requirements
    from graphwire.evolve.opsets.upgrades import rewrite_program
else:
    __getattr__ = door(
        __name__,
        {
            ".changes": "Change EditNode opset_steps renamed_operator renamed_parameter",
            ".editor": "NodeEditor",
            ".graph_names": "graphs_in uses_operator walk_nodes",
            ".plain_values": "Value encode_value map_argument",
            ".planner": "Plan UnknownOps apply plan plan_for",
            ".propagation": "check_stored_marks marked_operators",
            ".requirements": "check_plugins kept_requirements with_requirements",
            ".upgrades": "rewrite_program",
        },
    )

__all__ = [
    "Change",
    "EditNode",
    "NodeEditor",
    "Plan",
    "UnknownOps",
    "Value",
    "apply",
    "check_plugins",
    "check_stored_marks",
    "encode_value",
    "graphs_in",
    "kept_requirements",
    "map_argument",
    "marked_operators",
    "opset_steps",
    "plan",
    "plan_for",
    "renamed_operator",
    "renamed_parameter",
    "rewrite_program",
    "uses_operator",
    "walk_nodes",
    "with_requirements",
]
