"""What torch tells about the operators of a program: their schemas, and how much each call computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from graphwire.analysis.summary import known_size, named_nodes
from graphwire.bridge.graph.arguments import decode_argument
from graphwire.bridge.graph.propagation import check_arguments
from graphwire.bridge.tensors.tensor_metas import decode_dtype
from graphwire.bridge.torch_compat.fake_tensors import (
    CallBudget,
    DecodedMode,
    flops_on_metadata,
    may_count_flops,
    why_not_run,
)
from graphwire.bridge.torch_compat.private import preserved_process_state
from graphwire.registry import Registry
from graphwire.schema import Graph, Node, Program, TensorMeta

MOST_ELEMENTS = 1 << 60
"""Tensors of more elements have no fake tensor here."""


MOST_CALLS = 100_000
"""The most operators that are called on metadata for one program: some ten seconds. Later ones are not counted."""


class OperatorFacts(NamedTuple):
    """The facts about the operators of one program."""

    schemas: dict[str, str]
    """The schema of each operator that has one, by its serialized name."""
    flops: dict[str, int]
    """By the name of the node, the floating-point operations of one call. A node whose number is unknown is missing."""
    source: str
    """Who counted."""


def operator_facts(program: Program, registry: Registry) -> OperatorFacts:
    """Return what torch tells about the operators of a program. No kernel runs on elements.

    The sizes are those of the example inputs, which the document has as hints. The operators in a subgraph count once.
    """
    operators = _Operators(registry)
    mode = DecodedMode()
    budget = CallBudget(MOST_CALLS)
    flops: dict[str, int] = {}
    counted: dict[Any, int | None] = {}
    values: dict[int, _Values] = {}
    for name, node, graph in named_nodes(program):
        if budget.left < 0:
            break
        operator = operators.overload(node.target)
        if operator is None:
            continue
        may_count = may_count_flops(operator)
        if not may_count:
            if may_count is False:
                flops[name] = 0
            continue
        scope = _Scope(values.setdefault(id(graph), _Values(graph, mode)))
        key = _key(node, graph)
        if key not in counted:
            counted[key] = _count(mode, operator, node, scope, budget)
        if (count := counted[key]) is not None:
            flops[name] = count
    release = ".".join(torch.__version__.split(".")[:2])
    return OperatorFacts(operators.schemas, flops, f"torch {release} flop counter")


class _Operators:
    """The operators that serialized names resolve to."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._overloads: dict[str, Any] = {}
        self.schemas: dict[str, str] = {}

    def overload(self, name: str) -> Any:
        """Return the overload of torch's dispatcher that a name resolves to, if it may run on metadata; else None."""
        if name not in self._overloads:
            self._overloads[name] = None
            target = self._resolved(name)
            schema = getattr(target, "_schema", None)
            if schema is not None:
                self.schemas[name] = str(schema)
            if target is not None and why_not_run(target) is None:
                self._overloads[name] = target
        return self._overloads[name]

    def _resolved(self, name: str) -> Any:
        handler = self._registry.op_handler(name)
        try:
            return None if handler is None else handler.resolve(name)
        except Exception:  # noqa: BLE001 a plugin's code; the page then lacks the schema
            return None


def _count(mode: Any, operator: Any, node: Node, scope: _Scope, budget: CallBudget) -> int | None:
    try:
        named = {each.name: decode_argument(scope, each.arg) for each in node.inputs}
        parameters = [each.name for each in operator._schema.arguments if not each.kwarg_only]
        args = []
        for parameter in parameters:
            if parameter not in named:
                break
            args.append(named.pop(parameter))
        check_arguments(node, operator, args, named)
        with preserved_process_state(node.target):
            return flops_on_metadata(mode, operator, args, named, budget)
    except Exception:  # noqa: BLE001 torch refuses the arguments, or a size is unknown: then the count is
        return None


def _key(node: Node, graph: Graph) -> Any:
    """Return a key that is equal for nodes with equal operators, arguments and tensors."""
    described = []
    for named in node.inputs:
        described.append((named.name, repr(named.arg) if named.arg.as_tensor is None else ""))
    metas = [
        _shape(graph.tensor_values.get(each.arg.as_tensor.name)) for each in node.inputs if each.arg.as_tensor
    ]
    return node.target, tuple(described), tuple(metas)


def _shape(meta: TensorMeta | None) -> Any:
    if meta is None:
        return None
    return meta.dtype_text, *map(known_size, meta.sizes)


class _Values(Mapping[str, Any]):
    """The values of a graph as fake tensors and numbers, at the sizes of the example inputs."""

    def __init__(self, graph: Graph, mode: Any) -> None:
        self._graph = graph
        self._mode = mode

    def __getitem__(self, name: str) -> Any:
        if (meta := self._graph.tensor_values.get(name)) is not None:
            return self._tensor(meta)
        for table in (self._graph.sym_int_values, self._graph.sym_float_values, self._graph.sym_bool_values):
            if (number := table.get(name)) is not None:
                return _number(number)
        raise KeyError(name)

    def _tensor(self, meta: TensorMeta) -> torch.Tensor:
        sizes = [_known(size) for size in meta.sizes]
        strides = [_known(stride) for stride in meta.strides]
        elements = 1
        for size in sizes:
            elements *= size
        if elements > MOST_ELEMENTS:
            raise OverflowError("the tensor is too large")
        with self._mode:
            return torch.empty_strided(sizes, strides, dtype=decode_dtype(meta), device="cpu")

    def __iter__(self) -> Iterator[str]:
        return iter(self._graph.tensor_values)

    def __len__(self) -> int:
        return len(self._graph.tensor_values)


def _known(size: Any) -> int:
    number = known_size(size)
    if number is None:
        raise ValueError("the size is unknown before the program runs")
    return number


def _number(number: Any) -> Any:
    held = number.as_expr.hint if number.as_expr is not None else number
    return next(
        part
        for part in (getattr(held, name, None) for name in ("as_int", "as_float", "as_bool"))
        if part is not None
    )


class _Device:
    """Stands for the state of a load, of which arguments need the device alone: fake tensors are on the CPU."""

    def __init__(self) -> None:
        self.devices: dict[Any, torch.device] = {}
        self.constants: dict[str, Any] = {}

    def place_device(self, _device: torch.device) -> torch.device:
        return torch.device("cpu")


class _Scope:
    """What `decode_argument` needs of a graph."""

    def __init__(self, values: _Values) -> None:
        self.values = values
        self.context: Any = _Device()
        self.results: Mapping[str, Any] = {}

    def _unsupported(self, argument: Any) -> Any:
        raise ValueError(f"no operator that is counted takes a {type(argument).__name__}")

    subgraph = treespec = constant = _unsupported
