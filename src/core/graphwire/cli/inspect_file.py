"""The commands `inspect` and `targets`: what is in files, and which readers they can be written for."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from graphwire.cli.files import FOUND, OK, Input, run_on_files
from graphwire.cli.options import add_files, add_method, add_selection, add_target, open_options
from graphwire.cli.terminal import Output
from graphwire.display import Section, size_text
from graphwire.errors import Obstacle

if TYPE_CHECKING:
    from graphwire.analysis.load_report import Disclosure
    from graphwire.analysis.summary import ModuleSummary
    from graphwire.api.archive import Archive
    from graphwire.api.saved_weights import WeightInfo
    from graphwire.schema import Graph


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Show the programs, weights and origin of each file. Reads no weights."
    add_files(parser)
    add_method(parser)
    parser.add_argument(
        "--parameters",
        action="store_true",
        help="also list the weights: name, type, shape, bytes, where each is",
    )
    add_selection(parser, "the weights of --parameters")
    parser.add_argument("--modules", action="store_true", help="also list the submodules at every depth")
    parser.add_argument("--nodes", action="store_true", help="also list every node")
    parser.add_argument(
        "--targets",
        action="store_true",
        help="also list the torch releases and schema versions that it can be written for, and the obstacles for the others",
    )
    parser.set_defaults(run=partial(run_on_files, _inspect_file, "Inspecting"))


class _Details(msgspec.Struct, frozen=True):
    """What is shown of a program besides its summary."""

    contains: list[Disclosure]
    modules: list[ModuleSummary]
    weights: WeightList
    nodes: list[NodeText]
    targets: dict[str, list[Obstacle]]


def _details(archive: Archive, name: str, arguments: argparse.Namespace) -> _Details:

    modules, listed, nodes = [], WeightList([]), []
    if arguments.modules:
        from graphwire.analysis.summary import nested_modules

        modules = nested_modules(archive.program_of(name), archive.payloads_of(name).weights)
    if _lists_weights(arguments):
        from graphwire.api.saved_weights import list_weights

        whole = list_weights(archive.payloads_of(name), archive.weights.references, archive.weights.divided)
        listed = selected(whole, arguments)
    if arguments.nodes:
        nodes = list(node_texts(archive.program_of(name).graph_module.graph))
    targets = archive.targets(name) if arguments.targets else {}
    return _Details(archive.disclosures(name), modules, listed, nodes, targets)


_ORDERS: dict[str, Callable[[WeightInfo], Any]] = {
    "size": lambda weight: -weight.nbytes,
    "name": lambda weight: weight.name,
    "dtype": lambda weight: (weight.dtype, -weight.nbytes),
}
"""What weights are sorted by, for each choice of `--sort`. Equal ones keep their order in the program."""


class WeightList(msgspec.Struct, frozen=True):
    """The weights that a command shows, and the others, which it counts."""

    shown: Sequence[WeightInfo]
    more: Sequence[WeightInfo] = ()

    def more_tree(self) -> dict[str, int]:
        """Return the count of the weights that are not shown, and their bytes, as JSON has them."""
        return {"count": len(self.more), "nbytes": sum(each.nbytes for each in self.more)}

    def section(self) -> Section:
        """Return the weights as a table. The bytes of each are those of its elements, as they are stored."""
        rows: list[tuple[str, ...]] = [
            (each.name, each.dtype, str(each.shape), size_text(each.nbytes), each.tied_to, each.place)
            for each in self.shown
        ]
        if self.more:
            more = self.more_tree()
            rows.append((f"… and {more['count']:,} more, {size_text(more['nbytes'])}",))
        return Section("Weights", ("name", "type", "shape", "size", "tied to", "where"), rows, frozenset({3}))


def selected(weights: Sequence[WeightInfo], arguments: argparse.Namespace) -> WeightList:
    """Return the weights that `--sort` and `--top` choose, in their order."""
    order = arguments.sort or ("size" if arguments.top is not None else None)
    found = weights if order is None else sorted(weights, key=_ORDERS[order])
    count = len(found) if arguments.top is None else arguments.top
    return WeightList(found[:count], found[count:])


class NodeText(msgspec.Struct, frozen=True):
    """The texts of one node."""

    graph: str
    """The names of its enclosing subgraphs, joined by slashes; empty in the top-level graph."""
    index: int
    target: str
    inputs: str
    outputs: str


def node_texts(graph: Graph) -> Iterator[NodeText]:
    """Yield the nodes of a graph, and after each graph those of its subgraphs."""
    from graphwire.analysis.diff.facts import argument_text
    from graphwire.schema import named_subgraphs_in

    pending = deque([("", graph)])
    while pending:
        place, current = pending.popleft()
        for index, node in enumerate(current.nodes):
            for named in node.inputs:
                for held in named_subgraphs_in(named.arg):
                    pending.append((f"{place}/{held.name}" if place else held.name, held.graph))
            inputs = [
                f"{each.name}={argument_text(each.arg)}" if each.name else argument_text(each.arg)
                for each in node.inputs
            ]
            outputs = [argument_text(output) for output in node.outputs]
            yield NodeText(place, index, node.target, ", ".join(inputs), ", ".join(outputs))


def node_section(nodes: Iterable[NodeText]) -> Section:
    """Return the section of the nodes."""
    rows = [(each.graph, str(each.index), each.target, each.inputs, each.outputs) for each in nodes]
    return Section("Nodes", ("graph", "index", "operator", "inputs", "outputs"), rows, frozenset({1}))


def _lists_weights(arguments: argparse.Namespace) -> bool:
    return arguments.parameters or arguments.sort is not None or arguments.top is not None


def _inspect_file(each: Input, arguments: argparse.Namespace, output: Output) -> int:

    import graphwire
    from graphwire.analysis.inspection_text import inspection_sections

    with graphwire.open(each.source, **open_options(arguments)) as archive:
        name = None if arguments.method is None else archive.method(arguments.method)
        inspection = archive.inspect(each.name)
        if name is not None:
            chosen = [method for method in inspection.methods if method.name == name]
            inspection = msgspec.structs.replace(inspection, methods=chosen)
        details = {each.name: _details(archive, each.name, arguments) for each in inspection.methods}
        extra_files = archive.extra_files
    if arguments.json:
        tree = msgspec.to_builtins(inspection) | {"extra_files": list(extra_files)}
        tree["methods"] = [
            method | _detail_tree(details[method["name"]], arguments) for method in tree["methods"]
        ]
        output.json(tree, indent=None)
        return OK
    sections = {name: list(_detail_sections(each)) for name, each in details.items()}
    output.sections(inspection_sections(inspection, sections, extra_files))
    return OK


def _detail_tree(details: _Details, arguments: argparse.Namespace) -> dict[str, Any]:

    tree: dict[str, Any] = {"contains": [each._asdict() for each in details.contains]}
    if arguments.modules:
        tree["modules"] = msgspec.to_builtins(details.modules)
    if _lists_weights(arguments):
        tree["weights"] = msgspec.to_builtins(details.weights.shown)
        if arguments.top is not None:
            tree["more_weights"] = details.weights.more_tree()
    if arguments.nodes:
        tree["nodes"] = msgspec.to_builtins(details.nodes)
    if arguments.targets:
        tree["targets"] = target_trees(details.targets)
    return tree


def _detail_sections(details: _Details) -> Iterator[Section]:
    from graphwire.analysis.inspection_text import module_section

    rows = [(each.what,) for each in details.contains]
    yield Section("Also contains (graphwire strip leaves it out)", rows=rows)
    yield module_section("All modules", details.modules)
    yield details.weights.section()
    yield node_section(details.nodes)
    if details.targets:
        yield from target_sections(details.targets)


_TARGET_GROUPS = {"release": "Releases of torch", "schema": "Schemas", "draft": "Drafts of the schema"}
"""The headings of the groups of targets, in the order of the sections."""


def target_sections(targets: Mapping[str, Sequence[Obstacle]], name: str = "") -> Iterator[Section]:
    """Yield a section of each group of targets: whether a program can be written for them, and the obstacles.

    Args:
        name: the program, if the titles name it. A single target has it as its title.
    """
    from graphwire.evolve.targets import target_named

    heads = ("target", "writable", "node", "obstacle", "supported from")
    groups: dict[str, list[tuple[str, str, str, str, str]]] = {group: [] for group in _TARGET_GROUPS}
    for target, obstacles in targets.items():
        rows = groups[target_named(target).group]
        if not obstacles:
            rows.append((target, "yes", "", "", ""))
        rows += [
            (target if not index else "", "no" if not index else "", each.node, each.construct, each.first)
            for index, each in enumerate(obstacles)
        ]
    for group, rows in groups.items():
        title = name if len(targets) == 1 else ": ".join(filter(None, (name, _TARGET_GROUPS[group])))
        yield Section(title, heads, rows)


def target_trees(targets: Mapping[str, Sequence[Obstacle]]) -> list[dict[str, Any]]:
    """Return targets and their obstacles as JSON has them."""
    from graphwire.evolve.targets import target_named

    return [
        {
            "target": name,
            "group": target_named(name).group,
            "obstacles": [each._asdict() for each in obstacles],
        }
        for name, obstacles in targets.items()
    ]


# ------------------------------------------------------------------------------------------- `targets`


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "List the torch releases and schema versions that each program can be written for, and the obstacles for the others."
        " With --target, the exit code is 1 if there is an obstacle."
    )
    add_files(parser)
    add_method(parser)
    add_target(parser, "only this release of torch, such as 2.6; torch is the installed release")
    parser.set_defaults(run=partial(run_on_files, _targets_of_file, "Comparing"))


def _targets_of_file(each: Input, arguments: argparse.Namespace, output: Output) -> int:
    import graphwire

    found = {}
    with graphwire.open(each.source, **open_options(arguments)) as archive:
        names = archive.methods if arguments.method is None else (archive.method(arguments.method),)
        for name in names:
            if arguments.target is None:
                found[name] = archive.targets(name)
            else:
                found[name] = {arguments.target: graphwire.supports(archive, arguments.target, method=name)}
    blocked = arguments.target is not None and any(any(each.values()) for each in found.values())
    if arguments.json:
        tree = {"file": each.name, "programs": {name: target_trees(each) for name, each in found.items()}}
        output.json(tree, indent=None, problem=blocked)
    else:
        titled = {f"{each.name}:{name}" if len(found) > 1 else each.name: of for name, of in found.items()}
        output.sections(
            (each for title, of in titled.items() for each in target_sections(of, title)),
            problem=blocked,
        )
    return FOUND if blocked else OK
