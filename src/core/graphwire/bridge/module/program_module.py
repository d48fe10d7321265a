"""The module that runs a program: a graph module that can be copied and pickled with its checks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import torch

from graphwire.bridge.module.first_call import be_usual
from graphwire.bridge.torch_compat.private import HigherOrderOperator, OpOverload, pytree_code


class ProgramModule(torch.fx.GraphModule):
    """A program that runs: a graph module whose parameters, buffers and constants are attributes.

    It equals what `ExportedProgram.module()` returns, and can be pickled. No attribute is its own: a file may take any name that
    torch's module leaves free.
    """

    validate_inputs = True
    """Whether a call checks the structure of its arguments; the name is torch's."""

    def __init__(self) -> None:
        """Make a module with an empty graph, and without code."""
        super().__init__({}, torch.fx.Graph())

    def recompile(self) -> Any:
        """Generate the code of the graph again, as torch does. An empty graph has none."""
        if not len(self._graph.nodes):
            return None
        made = super().recompile()
        be_usual(type(self), "forward", "_call_impl", "_code")
        return made

    def train(self, mode: bool = True) -> NoReturn:
        """Raise: an exported program has the mode that it was exported in."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> NoReturn:
        """Raise: an exported program has the mode that it was exported in."""
        raise NotImplementedError("Calling eval() is not supported yet.")

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramModule:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        graph: Any = copy.deepcopy(self._graph, memo)
        state = {key: each for key, each in vars(self).items() if key != "_graph"}
        copied.__dict__.update(copy.deepcopy(state, memo))
        copied.graph = graph
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the nodes of the graph, without their metadata that is not plain. torch would trace the code again."""
        for each in self.modules():
            if isinstance(
                each, torch.fx.GraphModule
            ):  # the graph of a branch; its class has no other instance
                setattr(type(each), "__reduce__", _reduced)  # noqa: B010
        return _reduced(self)


def _reduced(module: torch.fx.GraphModule) -> tuple[Any, ...]:
    state = {
        key: each for key, each in vars(module).items() if key not in ("_graph", "_in_spec", "_out_spec")
    }
    nodes = [
        (each.op, each.name, _named(each.target), _named(each.args), _named(each.kwargs), _plain(each.meta))
        for each in module._graph.nodes
    ]
    info = getattr(module._graph._codegen, "pytree_info", None)
    call = None if info is None else (info.orig_args, info.in_spec, info.out_spec)
    base = ProgramModule if isinstance(module, ProgramModule) else torch.fx.GraphModule
    return _restored, (base, state, nodes, call)


class _Reference(NamedTuple):
    """A node, by name."""

    name: str


class _Operator(NamedTuple):
    """An operator, by its parts: the namespace, the name, and the overload."""

    parts: tuple[str, ...]


def _named(value: Any) -> Any:
    """Return a target or arguments with names in place of nodes and operators, which cannot be pickled."""
    if isinstance(value, tuple):
        return tuple(_named(each) for each in value)
    if isinstance(value, list):
        return [_named(each) for each in value]
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, torch.fx.Node):
        return _Reference(value.name)
    if isinstance(value, OpOverload):
        return _Operator((*value._schema.name.split("::"), value._overloadname))
    name = value.name() if isinstance(value, HigherOrderOperator) else None
    if name is not None and getattr(torch.ops.higher_order, name, None) is value:
        return _Operator(("higher_order", name))
    return value


def _found(value: Any, nodes: Mapping[str, torch.fx.Node]) -> Any:
    """Return what `_named` was given."""
    if isinstance(value, _Reference):
        return nodes[value.name]
    if isinstance(value, _Operator):
        found: Any = torch.ops
        for part in value.parts:
            found = getattr(found, part)
        return found
    if isinstance(value, tuple):
        return tuple(_found(each, nodes) for each in value)
    if isinstance(value, list):
        return [_found(each, nodes) for each in value]
    if isinstance(value, dict):
        return {key: _found(each, nodes) for key, each in value.items()}
    return value


def _plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: meta[key] for key in ("stack_trace", "nn_module_stack", "torch_fn", "custom") if key in meta}


def _restored(
    base: type[torch.fx.GraphModule],
    state: dict[str, Any],
    nodes: Iterable[Any],
    call: tuple[list[str], Any, Any] | None,
) -> Any:
    """Return the module that was pickled."""
    graph = torch.fx.Graph()
    made: dict[str, torch.fx.Node] = {}
    for op, name, target, args, kwargs, meta in nodes:
        node = graph.create_node(
            op, _found(target, made), _found(args, made), _found(kwargs, made), name=name
        )
        node.name = name
        node.meta.update(meta)
        made[name] = node
    module: Any = torch.fx.GraphModule.__new__(base)
    module.__dict__.update(state)
    if call is not None:
        graph._codegen = pytree_code(*call)
    module.graph = graph
    return module
