"""The least that a load can take in Python: loaded programs are rebuilt from plain rows, without decoding and without a check.

The floor makes the `torch.fx` nodes of a program, their fake tensors, and a graph module around a code text that is given, over
weights that are given. It leaves out reading, decoding, validation, symbols and the code text, so no load reaches it. It states
how far away a load is, in a unit that is the same on all machines.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from samples import Row
from timing import Bench, processor_seconds

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

__all__ = ["measure", "rebuilt", "rows_of"]

_TURNS = 12


def measure(bench: Bench) -> Iterator[Row]:
    """The least processor time of each action in turns, without collections of garbage."""
    import torch
    from cases import PROGRAMS, perceptron, unbind

    import graphwire

    chosen = {name: PROGRAMS[name] for name in ("lenet", "decoder-12-dynamic", "decoder-48-static")}
    for name, make in {"perceptron": perceptron, **chosen, "unbind-1600": lambda: unbind(1600)}.items():
        ours, theirs = bench.folder / "floor.pt2", bench.folder / "torch.pt2"
        made = make()
        graphwire.save(made, ours)
        torch.export.save(made, theirs)
        program = graphwire.load(ours)
        rows, code, held = rows_of(program), program.graph.python_code("self"), dict(program.state_dict)
        if rebuilt(rows, code, held)[0].code != program.graph_module.code:
            raise RuntimeError(f"the floor of {name} is another program")
        actions: dict[str, Callable[[], object]] = {
            "floor": lambda rows=rows, code=code, held=held: rebuilt(rows, code, held),
            "load": lambda ours=ours: graphwire.load(ours),
            "save to a path": lambda program=program, ours=ours: graphwire.save(program, ours),
            "load of torch.export": lambda theirs=theirs: torch.export.load(theirs),
        }
        least = dict.fromkeys(actions, float("inf"))
        for turn in range(_TURNS):
            for action, run in actions.items():
                if turn < 3 or action != "load of torch.export":  # it takes a hundred times as long
                    least[action] = min(least[action], _seconds(run))
        bench.done(f"floor: {name}")
        yield Row(f"floor/{name}", "nodes", "1", [len(rows)])
        for action, seconds in least.items():
            yield Row(f"floor/{name}", action, "cpu s", [seconds])


def _seconds(run: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        started = processor_seconds()
        run()
        return processor_seconds() - started
    finally:
        gc.enable()


class _Fake(NamedTuple):
    """The facts of a fake tensor of known sizes."""

    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    device: torch.device
    requires_grad: bool


class _Row(NamedTuple):
    """A node. Its arguments are functions of the nodes before it."""

    name: str
    op: str
    target: Any
    args: Callable[[list[Any]], Any]
    kwargs: Callable[[list[Any]], Any]
    meta: Mapping[str, Any]
    value: Any


def rows_of(program: ExportedProgram) -> list[_Row]:
    """Return the nodes of a program as rows."""
    from torch._subclasses.fake_tensor import FakeTensor

    numbers = {node: number for number, node in enumerate(program.graph.nodes)}

    def described(value: Any) -> Any:
        if isinstance(value, FakeTensor) and not value._has_symbolic_sizes_strides:
            return _Fake(value.dtype, tuple(value.shape), value.stride(), value.device, value.requires_grad)
        return type(value)(map(described, value)) if type(value) in (list, tuple) else value

    return [
        _Row(
            node.name,
            node.op,
            node.target,
            _maker(node.args, numbers),
            _maker(node.kwargs, numbers),
            {key: value for key, value in node.meta.items() if key != "val"},
            described(node.meta.get("val")),
        )
        for node in program.graph.nodes
    ]


def _maker(value: Any, numbers: Mapping[Any, int]) -> Callable[[list[Any]], Any]:
    """Return the function that makes an argument of the nodes so far."""
    if value in ((), {}):
        return lambda _nodes: value
    number = numbers.get(value) if type(value).__name__ == "Node" else None
    if number is not None:
        return lambda nodes: nodes[number]
    if isinstance(value, (list, tuple)):
        parts = [_maker(each, numbers) for each in value]
        kind = tuple if isinstance(value, tuple) else list
        return lambda nodes: kind([part(nodes) for part in parts])
    if isinstance(value, dict):
        entries = {key: _maker(each, numbers) for key, each in value.items()}
        return lambda nodes: {key: entry(nodes) for key, entry in entries.items()}
    return lambda _nodes: value


def rebuilt(
    rows: list[_Row], code: Any, held: Mapping[str, torch.Tensor]
) -> tuple[GraphModule, dict[str, torch.Tensor]]:
    """Return a graph module of rows, and new tensors over the memory of the weights.

    Args:
        code: what the graph's `python_code` returns.
        held: the weights by name.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx import Graph, GraphModule, Node

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    meta, shared = torch.device("meta"), dict[Any, dict[str, Any]]()

    def fake(value: Any) -> Any:
        if type(value) is not _Fake:
            return type(value)(map(fake, value)) if type(value) in (list, tuple) else value
        dtype, size, stride, device, requires_grad = value
        attributes = shared.get(device)
        if attributes is None:
            attributes = shared[device] = vars(FakeTensor(mode, torch.empty(0, device=meta), device))
        empty = torch.empty_strided(size, stride, dtype=dtype, device=meta)
        made = torch.Tensor._make_subclass(
            FakeTensor, empty, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_throw_on_mutable_data_ptr(made)
        vars(made).update(attributes)
        return made

    graph, nodes = Graph(), list[Node]()
    names, table = graph._graph_namespace, graph._find_nodes_lookup_table.table
    for name, op, target, args, kwargs, others, value in rows:
        node = Node(graph, name, op, target, args(nodes), kwargs(nodes))
        graph._insert(node)
        nodes.append(node)
        names._used_names.add(name)
        names._obj_to_name[node] = name
        table[op, target if op == "call_function" else None][node] = None
        node.meta = {**others, "val": fake(value)}
    graph._len = len(nodes)
    graph.python_code = lambda *_args, **_options: code
    module = GraphModule(torch.nn.Module(), graph)
    del graph.python_code
    weights: dict[str, torch.Tensor] = {}
    for key, tensor in held.items():
        plain = tensor.detach()
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        weights[key] = (
            torch.nn.Parameter(plain, requires_grad=tensor.requires_grad) if is_parameter else plain
        )
    return module, weights
