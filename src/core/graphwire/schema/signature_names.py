"""Name lookups on a graph signature, with the property names of torch's `ExportGraphSignature`.

The records in `schema.signature` hold one spec for each input and output. This module answers questions about all of
them together, and keeps them correct while a graph is edited. Names are those of values in the graph. Targets are
qualified names of weights and constants or, for a user input, the name of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from graphwire.errors import SchemaError
from graphwire.schema.arguments import Renaming, rewritten, value_name
from graphwire.schema.graph import Argument
from graphwire.schema.signature import GraphSignature, InputSpec
from graphwire.schema.symbols import decode_float

Literal: TypeAlias = int | float | bool | str | None
"""A user input or output that is a literal instead of a value of the graph."""


class BackwardSignature(NamedTuple):
    """The loss of a joint graph, and the gradients that it computes."""

    loss_output: str
    gradients_to_parameters: Mapping[str, str]
    """From the name of the gradient to the qualified name of the parameter."""
    gradients_to_user_inputs: Mapping[str, str]
    """From the name of the gradient to the name of the user input."""


class SignatureNames:
    """A view of a signature with every property of torch's `ExportGraphSignature`, under the same name.

    Each property is computed from the current signature; nothing is cached.
    """

    __slots__ = ("_signature",)

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature

    def _named(self, arm: str, target: str) -> Iterator[tuple[str, str]]:
        """Yield the name and the target of each input, or output, of one kind."""
        signature = self._signature
        specs = signature.input_specs if arm in InputSpec.__struct_fields__ else signature.output_specs
        for held in map(attrgetter(arm), specs):
            if held is not None:
                yield held.arg.name, getattr(held, target)

    # ------------------------------------------------------------------------------------------- weights and constants

    @property
    def parameters(self) -> tuple[str, ...]:
        """Qualified names of the parameters, in input order."""
        return tuple(target for _, target in self._named("parameter", "parameter_name"))

    @property
    def buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers, in input order."""
        return tuple(target for _, target in self._named("buffer", "buffer_name"))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers that are not part of the state dict."""
        buffers = (spec.buffer for spec in self._signature.input_specs)
        return tuple(buffer.buffer_name for buffer in buffers if buffer is not None and not buffer.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the tensors lifted out of the code."""
        return tuple(target for _, target in self._named("tensor_constant", "tensor_constant_name"))

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of the script objects and opaque values lifted out of the code."""
        return tuple(target for _, target in self._named("custom_obj", "custom_obj_name"))

    # -------------------------------------------------------------------------- values that the caller passes and gets

    @property
    def user_inputs(self) -> tuple[Literal, ...]:
        """The flat values that the caller passes: names of values, and literals themselves."""
        found: list[Literal] = []
        for spec in self._signature.input_specs:
            if spec.user_input is not None:
                found.append(_name_or_literal(spec.user_input.arg))
            elif spec.constant_input is not None:
                found.append(_literal(spec.constant_input.value))
        return tuple(found)

    @property
    def user_outputs(self) -> tuple[Literal, ...]:
        """The flat values that the caller receives, including the loss of a joint graph: names of values, and literals."""
        found: list[Literal] = []
        for spec in self._signature.output_specs:
            if spec.user_output is not None:
                found.append(_name_or_literal(spec.user_output.arg))
            elif spec.loss_output is not None:
                found.append(spec.loss_output.arg.name)
        return tuple(found)

    # ------------------------------------------------------------------------------------------------------- name maps

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """From the name of the input to the qualified name of the parameter."""
        return _mapping(self._named("parameter", "parameter_name"))

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """From the name of the input to the qualified name of the buffer."""
        return _mapping(self._named("buffer", "buffer_name"))

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """From the name of the input to the name of the lifted tensor."""
        return _mapping(self._named("tensor_constant", "tensor_constant_name"))

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """From the name of the input to the name of the lifted object."""
        return _mapping(self._named("custom_obj", "custom_obj_name"))

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """From the name of the new value to the qualified name of the buffer."""
        return _mapping(self._named("buffer_mutation", "buffer_name"))

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """From the name of the new value to the qualified name of the parameter."""
        return _mapping(self._named("parameter_mutation", "parameter_name"))

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """From the name of the new value to the name of the user input."""
        return _mapping(self._named("user_input_mutation", "user_input_name"))

    # -------------------------------------------------------------------------------------------- training and effects

    @property
    def backward_signature(self) -> BackwardSignature | None:
        """The loss of a joint graph and its gradients; None for a graph without a loss.

        Raises:
            SchemaError: there are several losses.
        """
        losses = [spec.loss_output for spec in self._signature.output_specs if spec.loss_output is not None]
        if len(losses) > 1:
            names = ", ".join(loss.arg.name for loss in losses)
            raise SchemaError(f"the signature has several loss outputs: {names}")
        if not losses:
            return None
        return BackwardSignature(
            losses[0].arg.name,
            _mapping(self._named("gradient_to_parameter", "parameter_name")),
            _mapping(self._named("gradient_to_user_input", "user_input_name")),
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always None, as in torch: nodes or effect tokens order assertions."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """Names of the inputs that are effect tokens."""
        return tuple(s.token.arg.name for s in self._signature.input_specs if s.token is not None)

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """Names of the outputs that are effect tokens."""
        return tuple(s.token.arg.name for s in self._signature.output_specs if s.token is not None)


def _mapping(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs))


def _literal(value: Any) -> Literal:
    """Return the literal of a `ConstantValue`, or of an `Argument` that is one."""
    if value.as_float is not None:
        return decode_float(value.as_float)
    found: list[Literal] = [v for v in (value.as_int, value.as_bool, value.as_string) if v is not None]
    return found[0] if found else None


def _name_or_literal(argument: Argument) -> Literal:
    name = value_name(argument)
    return _literal(argument) if name is None else name


# --------------------------------------------------------------------------------------------------------------- edits

ReplaceHook: TypeAlias = Callable[[str, str, str], None]
"""A callback that takes the old value, the new value, and the user of the old value: `output` for the graph's outputs,
`input` for a renamed input of the graph, otherwise a node's name, which the signature ignores."""


def replace_all_uses(signature: GraphSignature, old: str, new: str) -> None:
    """Make every spec that refers to the value `old` refer to `new`, in place.

    torch's method of that name does not update an output that mutates the input `old` or is its gradient. This one
    does: otherwise the document would be invalid.
    """
    names = {old: new}
    signature.input_specs[:] = [_renamed_spec(spec, names, names) for spec in signature.input_specs]
    signature.output_specs[:] = [_renamed_spec(spec, names, names) for spec in signature.output_specs]


def replace_hook(signature: GraphSignature, *, replace_inputs: bool = False) -> ReplaceHook:
    """Return a callback for graph editors that updates the signature for each use that gets another value.

    Args:
        signature: changed in place.
        replace_inputs: whether to follow renamed inputs of the graph, too; by default only outputs.
    """

    def follow(old: str, new: str, user: str) -> None:
        if user == "output":
            signature.output_specs[:] = with_outputs(signature, {old: new}).output_specs
        elif user == "input" and replace_inputs:
            replace_all_uses(signature, old, new)

    return follow


def with_outputs(signature: GraphSignature, names: Mapping[str, str]) -> GraphSignature:
    """Return a signature whose outputs are renamed. Inputs, and references to them, stay as they are.

    Args:
        signature: not changed.
        names: the new name by the old one.
    """
    return replace(signature, output_specs=[_renamed_spec(spec, names) for spec in signature.output_specs])


def _renamed_spec(spec: Any, names: Mapping[str, str], inputs: Mapping[str, str] | None = None) -> Any:
    """Return the spec, or a copy if it refers to a renamed value. Specs may be shared, so none is changed.

    Args:
        names: the new names of values.
        inputs: the new names of inputs, for outputs that refer to their input; None if inputs keep their names.
    """
    for arm in spec.__struct_fields__:
        held = getattr(spec, arm)
        if held is None:
            continue
        changed: dict[str, Any] = {}
        if arm == "constant_input":
            changed = {"name": names[held.name]} if held.name in names else {}
        elif isinstance(held.arg, Argument):
            renamed = renamed_argument(held.arg, names)
            changed = {} if renamed is held.arg else {"arg": renamed}
        elif held.arg.name in names:
            changed = {"arg": replace(held.arg, name=names[held.arg.name])}
        target: str | None = getattr(held, "user_input_name", None)
        if inputs and target is not None and target in inputs:
            changed["user_input_name"] = inputs[target]
        return replace(spec, **{arm: replace(held, **changed)}) if changed else spec
    return spec


def renamed_argument(argument: Argument, names: Mapping[str, str]) -> Argument:
    """Return the argument with values renamed (new name by old name); the same object if nothing changes."""
    return rewritten(argument, Renaming(lambda name: names.get(name, name)))
