"""Extension `propagate`: what is known of values of which a document says nothing, found by running their node on metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from graphwire.bridge import torch_private
from graphwire.bridge.arguments import arm_of
from graphwire.bridge.values import CONTAINER_ARMS, LITERAL_ARMS, DecodeScope, element_arguments, name_of
from graphwire.errors import DecodeError, GraphwireError
from graphwire.schema.graph import Argument, Node, SequenceValue

_KINDS: dict[str, tuple[type, ...]] = {
    "as_tensor": (torch.Tensor,),
    "as_sym_int": (int, torch.SymInt),
    "as_sym_float": (float, torch.SymFloat),
    "as_sym_bool": (bool, torch.SymBool),
}


def propagated_values(scope: DecodeScope, record: Node, node: torch.fx.Node) -> dict[str, Any]:
    """What is known of the values that a node makes, by their names, found by calling its operator with what is known of
    its inputs.

    Args:
        scope: the graph so far.
        record: the node, which the extension `propagate` leaves to be found.
        node: the FX node made of it.

    Raises:
        DecodeError: the operator cannot be run on metadata, or gives something else than the record says.
    """
    inputs: list[torch.Tensor] = []

    def known(each: torch.fx.Node) -> Any:
        if each.op == "get_attr":
            return _attribute(scope, str(each.target))
        value = each.meta["val"]
        if isinstance(value, torch.Tensor):
            inputs.append(value)
        return value

    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known)
    try:
        with torch.no_grad(), scope.context.fakes.mode:
            result = node.target(*args, **kwargs)
    except GraphwireError:
        raise
    except Exception as error:
        raise DecodeError(
            f"what {record.target} makes cannot be found by running it on metadata ({type(error).__name__}: {error})",
            remedy="Its library must register a fake implementation, or the upgrader state what is known of its results",
        ) from error
    scope.context.pending |= torch_private.fresh_unbacked_symbols(scope.context.shape_env)
    single = record.outputs[0] if len(record.outputs) == 1 else None
    if (
        single is not None
        and record.is_hop_single_tensor_return is False
        and arm_of(single) not in CONTAINER_ARMS
    ):
        single = None
    whole = single or Argument(as_sequence=SequenceValue("tuple", record.outputs))
    grad = any(value.requires_grad for value in inputs)
    return {name: _settled(value, grad) for name, value in _named(record, whole, result)}


def _named(record: Node, argument: Argument, value: Any) -> Iterator[tuple[str, Any]]:
    """The values of an output, by name."""
    arm = arm_of(argument)
    if arm in CONTAINER_ARMS:
        elements = element_arguments(argument)
        if not isinstance(value, (tuple, list, dict)) or len(value) != len(elements):
            raise DecodeError(f"{record.target} does not give {len(elements)} results here")
        for key, element in elements:
            yield from _named(record, element, value[key])
    elif arm not in LITERAL_ARMS:
        if not isinstance(value, _KINDS.get(arm, ())):
            raise DecodeError(f"{record.target} gives a {type(value).__name__}, where the record has {arm}")
        yield name_of(argument), value


def _settled(value: Any, grad: bool) -> Any:
    if grad and isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return value


def _attribute(scope: DecodeScope, path: str) -> Any:
    value: Any = scope.module  # type: ignore[attr-defined]
    for part in path.split("."):
        value = getattr(value, part)
    return value
