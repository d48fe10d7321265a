"""What a graph signature says, by name: the answers of torch's `ExportGraphSignature`, on our records.

The records in `schema.signature` hold one spec for each input and output; here is what one asks of them all together,
and what keeps them right while a graph is edited. Names are those of values of the graph; targets are qualified names of
what the program holds, or, for a user input, the name of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from graphwire.errors import SchemaError
from graphwire.schema.arguments import Renaming, rewritten, value_name
from graphwire.schema.graph import Argument, GraphArgument
from graphwire.schema.signature import GraphSignature
from graphwire.schema.symbols import decode_float

Literal: TypeAlias = int | float | bool | str | None
"""What a user input or output may be instead of a value of the graph."""


class BackwardSignature(NamedTuple):
    """What a joint graph differentiates, and what by."""

    loss_output: str
    gradients_to_parameters: Mapping[str, str]
    """Qualified name of the parameter by name of the gradient."""
    gradients_to_user_inputs: Mapping[str, str]
    """Name of the user input by name of the gradient."""


class SignatureNames:
    """A signature's names: everything that torch's `ExportGraphSignature` has as a property, under the same name.

    A look at the signature as it is when it is asked; nothing is kept.
    """

    __slots__ = ("_signature",)

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature

    def _held(self, arm: str, target: str) -> Iterator[tuple[str, str]]:
        """The name and the target of each input of one kind."""
        for spec in self._signature.input_specs:
            if (held := getattr(spec, arm)) is not None:
                yield held.arg.name, getattr(held, target)

    def _made(self, arm: str, target: str) -> Iterator[tuple[str, str]]:
        """The name and the target of each output of one kind."""
        for spec in self._signature.output_specs:
            if (made := getattr(spec, arm)) is not None:
                yield made.arg.name, getattr(made, target)

    # ------------------------------------------------------------------------------------------ what is held

    @property
    def parameters(self) -> tuple[str, ...]:
        """Qualified names of the parameters, in order of the inputs."""
        return tuple(target for _, target in self._held("parameter", "parameter_name"))

    @property
    def buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers, in order of the inputs."""
        return tuple(target for _, target in self._held("buffer", "buffer_name"))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers that are no part of the state dict."""
        buffers = (spec.buffer for spec in self._signature.input_specs)
        return tuple(buffer.buffer_name for buffer in buffers if buffer is not None and not buffer.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the tensors that were lifted out of the code."""
        return tuple(target for _, target in self._held("tensor_constant", "tensor_constant_name"))

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of the script objects and opaque values that were lifted out of the code."""
        return tuple(target for _, target in self._held("custom_obj", "custom_obj_name"))

    # ---------------------------------------------------------------------------- what the caller passes and gets

    @property
    def user_inputs(self) -> tuple[Literal, ...]:
        """What the caller passes, flat: the name of each value, and each literal itself."""
        found: list[Literal] = []
        for spec in self._signature.input_specs:
            if spec.user_input is not None:
                found.append(_name_or_literal(spec.user_input.arg))
            elif spec.constant_input is not None:
                found.append(_literal(spec.constant_input.value))
        return tuple(found)

    @property
    def user_outputs(self) -> tuple[Literal, ...]:
        """What the caller gets, flat, the loss of a joint graph among it: names of values, and literals themselves."""
        found: list[Literal] = []
        for spec in self._signature.output_specs:
            if spec.user_output is not None:
                found.append(_name_or_literal(spec.user_output.arg))
            elif spec.loss_output is not None:
                found.append(spec.loss_output.arg.name)
        return tuple(found)

    # ------------------------------------------------------------------------------------------------ name maps

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Qualified name of the parameter by name of the input."""
        return _mapping(self._held("parameter", "parameter_name"))

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Qualified name of the buffer by name of the input."""
        return _mapping(self._held("buffer", "buffer_name"))

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Name of the lifted tensor by name of the input."""
        return _mapping(self._held("tensor_constant", "tensor_constant_name"))

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Name of the lifted object by name of the input."""
        return _mapping(self._held("custom_obj", "custom_obj_name"))

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Qualified name of the buffer by name of its new value."""
        return _mapping(self._made("buffer_mutation", "buffer_name"))

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Qualified name of the parameter by name of its new value."""
        return _mapping(self._made("parameter_mutation", "parameter_name"))

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Name of the user input by name of its new value."""
        return _mapping(self._made("user_input_mutation", "user_input_name"))

    # ---------------------------------------------------------------------------------------- training and effects

    @property
    def backward_signature(self) -> BackwardSignature | None:
        """What a joint graph differentiates, and what by; None for a graph without a loss.

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
            _mapping(self._made("gradient_to_parameter", "parameter_name")),
            _mapping(self._made("gradient_to_user_input", "user_input_name")),
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always None, as torch has it: assertions are ordered by nodes, or by the tokens below."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """Names of the inputs that order effects."""
        return tuple(s.token.arg.name for s in self._signature.input_specs if s.token is not None)

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """Names of the outputs that order effects."""
        return tuple(s.token.arg.name for s in self._signature.output_specs if s.token is not None)


def _mapping(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs))


def _literal(value: Any) -> Literal:
    """The literal of a `ConstantValue`, or of an `Argument` that is one."""
    if value.as_float is not None:
        return decode_float(value.as_float)
    found: list[Literal] = [v for v in (value.as_int, value.as_bool, value.as_string) if v is not None]
    return found[0] if found else None


def _name_or_literal(argument: Argument) -> Literal:
    name = value_name(argument)
    return _literal(argument) if name is None else name


# ------------------------------------------------------------------------------------------------------- edits

ReplaceHook: TypeAlias = Callable[[str, str, str], None]
"""(the old value, the new one, who used the old one: `output` for the graph's outputs, `input` where the graph's own
input is renamed, otherwise the name of a node, which the signature does not care for)."""


def replace_all_uses(signature: GraphSignature, old: str, new: str) -> None:
    """Let every spec that refers to the value `old` refer to `new`, in place.

    Unlike torch's method of that name, an output that mutates the input `old`, or is its gradient, follows, too; a
    document in which it did not would not be valid.
    """
    names = {old: new}
    signature.input_specs[:] = [_renamed_spec(spec, names, names) for spec in signature.input_specs]
    signature.output_specs[:] = [_renamed_spec(spec, names, names) for spec in signature.output_specs]


def replace_hook(signature: GraphSignature, *, replace_inputs: bool = False) -> ReplaceHook:
    """What a graph editor calls for each use that it gives another value, so that the signature stays right.

    Args:
        signature: changed in place.
        replace_inputs: whether a renamed input of the graph is followed; without it only outputs are.
    """

    def follow(old: str, new: str, user: str) -> None:
        if user == "output":
            signature.output_specs[:] = with_outputs(signature, {old: new}).output_specs
        elif user == "input" and replace_inputs:
            replace_all_uses(signature, old, new)

    return follow


def with_outputs(signature: GraphSignature, names: Mapping[str, str]) -> GraphSignature:
    """A signature whose outputs are other values. Its inputs, and what refers to them, stay as they are.

    Args:
        signature: it is not changed.
        names: the new name by the old one.
    """
    return replace(signature, output_specs=[_renamed_spec(spec, names) for spec in signature.output_specs])


def _renamed_spec(spec: Any, names: Mapping[str, str], inputs: Mapping[str, str] | None = None) -> Any:
    """The spec, or another one if it refers to a renamed value: specs and their arguments may be shared, so none is changed.

    Args:
        names: the new names of values.
        inputs: the new names of inputs where an output refers to its input; None if they keep theirs.
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
    """The argument with new names of values, by old name; the very same one where nothing differs."""
    return rewritten(argument, Renaming(lambda name: names.get(name, name), _same))


def _same(held: GraphArgument) -> GraphArgument:
    return held
