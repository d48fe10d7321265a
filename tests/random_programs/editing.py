"""A program that is being edited: what an edit picks nodes from, and how users are told of what it did."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec
from torch.fx import GraphModule, Node

__all__ = ["Editing", "is_float", "is_pure", "is_reader", "is_tensor"]


class Editing:
    """A program that is being edited, one of its graphs, and the source of chance."""

    def __init__(self, program: ExportedProgram, chance: random.Random) -> None:
        self.program, self.chance = program, chance
        owners = [owner for owner in program.graph_module.modules() if isinstance(owner, GraphModule)]
        self.module = program.graph_module if chance.random() < 0.6 else chance.choice(owners)
        self.graph = self.module.graph
        self.nodes = list(self.graph.nodes)
        self.places = {node: index for index, node in enumerate(self.nodes)}

    @property
    def top(self) -> bool:
        """Whether the graph is the program's own, whose inputs and outputs have a signature."""
        return self.module is self.program.graph_module

    def pick(self, accepts: Callable[[Node], Any]) -> Node | None:
        """A random node of those that `accepts` accepts; None where there is none."""
        found = [node for node in self.nodes if accepts(node)]
        return self.chance.choice(found) if found else None

    def earliest(self, node: Node) -> int:
        """The first place where a node may stand: behind the placeholders and what it reads."""
        inputs = [self.places[each] for each in node.all_input_nodes]
        return max([*inputs, *(i for i, n in enumerate(self.nodes) if n.op == "placeholder")], default=-1) + 1

    def before(self, first: int, last: int) -> Any:
        """A place between two, as what `graph.inserting_before` gives."""
        return self.graph.inserting_before(self.nodes[self.chance.randint(first, max(first, last))])

    def rewire(self, node: Node, other: Node, least: int = 0) -> list[Node]:
        """Let some users of `node` use `other`, which stands in the place `least` of the nodes."""
        users = [user for user in node.users if user is not other and self.places.get(user, -1) >= least]
        chosen = [user for user in users if self.chance.random() < 0.6] or users[:1]
        for user in chosen:
            if user.op != "output" or not self.top or user is not self.nodes[-1]:
                user.replace_input_with(node, other)
            else:
                self.replace_output(user, node, other)
        return chosen

    def replace_output(self, output: Node, node: Node, other: Node) -> None:
        specs = self.program.graph_signature.output_specs
        for position, value in enumerate(output.args[0]):
            if value is node and hasattr(specs[position].arg, "name"):
                specs[position].arg.name = other.name
        output.replace_input_with(node, other)

    def rename(self, node: Node, name: str) -> None:
        """Give a node a name that FX makes of `name`, in the signature too."""
        old = node.name
        node._rename(name)
        if not self.top:
            return
        if node.op == "placeholder":
            node.target = node.name
        signature = self.program.graph_signature
        for spec in (*signature.input_specs, *signature.output_specs):
            if getattr(spec.arg, "name", None) == old:
                spec.arg.name = node.name
            if (
                isinstance(spec, OutputSpec)
                and spec.kind is OutputKind.USER_INPUT_MUTATION
                and spec.target == old
            ):
                spec.target = node.name


def is_tensor(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op != "output" and isinstance(value, torch.Tensor) and value.layout is torch.strided


def is_float(node: Node) -> bool:
    return is_tensor(node) and node.meta["val"].dtype is torch.float32


def is_reader(node: Node) -> bool:
    return node.op == "get_attr" or node.target is operator.getitem


def is_pure(node: Node) -> bool:
    return node.op in ("call_function", "get_attr") and not node.is_impure()
