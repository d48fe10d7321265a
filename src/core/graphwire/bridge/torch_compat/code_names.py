"""Keeps the names of inputs apart from the other names of generated code, and the paths of weights from the attributes of
modules, so that a module computes what the graph says.

torch gives each node a name that no other node, no builtin and no global of the code has. The names of parameters, and the
targets of placeholders, it writes as they are.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch.fx import graph as fx_graph

_UNLIFTED = frozenset(("torch", "fx_pytree", "pytree", "getattr"))
"""What the code of `ExportedProgram.module()` may call beside what the code of the graph calls."""


def choose_targets(graph: torch.fx.Graph, paths: Iterable[str]) -> None:
    """Give each placeholder whose target may become the name of another node its own name as target.

    Args:
        paths: the attributes that nodes may read later, when the program is unlifted.
    """
    illegal = fx_graph._illegal_names
    if all(node.target in (node.name, *illegal) for node in graph.find_nodes(op="placeholder")):
        return
    names = {node.name for node in graph.nodes}
    # torch numbers these names until they are free; it keeps the others.
    stems = {_stem(name) for name in (*paths, *(name for name in names if name in illegal))}
    is_first = True
    for node in graph.nodes:
        is_first = is_first and node.op == "placeholder"
        if node.op != "placeholder" or node.target in (node.name, *illegal):
            continue
        if not is_first or node.target in names or _stem(node.target) in stems:
            node.target = node.name


def _stem(name: str) -> str:
    """Return what all names have in common that torch may derive from a name or path."""
    return re.sub(r"(?a)[\W_]", "", name.rstrip("0123456789_")).lower()


def hiding_parameter(
    module: torch.fx.GraphModule, parameters: Collection[str] = (), *, is_new: bool = False
) -> str | None:
    """Return a parameter that hides what generated code means by its name, in a module or one inside it; None if there is none.

    Args:
        module: the module, whose graphs may have changed since their code was generated.
        parameters: the names of the parameters that the module has once it is unlifted.
        is_new: whether the code is that of the graphs, so that it need not be generated again.
    """
    for each in module.modules():
        if not isinstance(each, torch.fx.GraphModule):
            continue
        info = getattr(each.graph._codegen, "pytree_info", None)
        names = {str(node.target) for node in each.graph.find_nodes(op="placeholder")}
        names.update(() if info is None else info.orig_args, parameters if each is module else ())
        known = getattr(type(each).forward, "__globals__", {})
        if names := {name for name in names if name in fx_graph._illegal_names or name in known}:
            used = _names_used(each.code if is_new else each.graph.python_code("self").src, names)
            names &= used | _UNLIFTED if parameters and each is module else used
        if names:
            return min(names)
    return None


_OF_PARAMETERS = re.compile(
    r"^\s*(?:def .*|[\w, ]+, = fx_pytree\.tree_flatten_spec\(.*|\w+ = \w+)$", re.MULTILINE
)
"""The lines of generated code that declare parameters, or only give them to nodes."""


def _names_used(code: str, wanted: Collection[str]) -> set[str]:
    """Return the names that generated code uses, apart from its parameters where it only gives them to nodes.

    Args:
        wanted: the names that matter. Code whose other lines have none of these words is not parsed.
    """
    used: set[str] = set()
    rest = _OF_PARAMETERS.sub("", code)
    if not any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", rest) for name in wanted):
        return used
    try:
        functions = ast.parse(code).body
    except SyntaxError:  # an argument without a literal: the code cannot run
        return used
    for function in functions:
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            match statement:
                case ast.Assign(targets=[ast.Name()], value=ast.Name()):
                    continue  # a node for a parameter
                case ast.Assign(targets=[ast.Tuple()]):
                    continue  # the leaves of the parameters
            used.update(each.id for each in ast.walk(statement) if isinstance(each, ast.Name))
    return used


@functools.cache
def taken_attributes() -> frozenset[str]:
    """Return the attributes that the module of a program has, or that torch sets when it unlifts the program."""
    graph: Any = torch.fx.Graph()
    graph.set_codegen(fx_graph._PyTreeCodeGen(fx_graph._PyTreeInfo([], None, None)))
    made = torch.fx.GraphModule({}, graph)
    return frozenset((*dir(made), "_guards_fn", "range_constraints", "validate_inputs"))


@functools.cache
def _taken_below() -> frozenset[str]:
    return frozenset(dir(torch.nn.Module()))


def path_fault(held: Iterable[tuple[str, str]]) -> str | None:
    """Return why attributes cannot all be set on the module of a program; None if they can.

    Args:
        held: the kind and path of each.
    """
    kinds: dict[str, str] = {}
    for kind, path in held:
        if kinds.setdefault(path, kind) != kind:
            return f"{path!r:.80} is the path of a {kinds[path]} and of a {kind}"
        first, *below = path.split(".")
        if first in taken_attributes() or not _taken_below().isdisjoint(below):
            return f"{path!r:.80} cannot be the path of a {kind}: the module of a program has another attribute of that name"
    for path, kind in kinds.items():
        above = path
        while above := above.rpartition(".")[0]:
            if above in kinds:
                return f"{path!r:.80} cannot be the path of a {kind}: a {kinds[above]} is at {above!r:.80}"
    return None
