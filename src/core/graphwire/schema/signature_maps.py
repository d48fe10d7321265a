"""Specs from name maps: the signature as schema 1 (torch 2.1) wrote it, before each input and output had a spec."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from graphwire.errors import SchemaError, locate
from graphwire.schema.graph import Argument, TensorArgument
from graphwire.schema.signature import (
    BufferMutationSpec,
    ConstantValue,
    GradientToParameterSpec,
    GradientToUserInputSpec,
    GraphSignature,
    InputSpec,
    InputToBufferSpec,
    InputToConstantInputSpec,
    InputToParameterSpec,
    InputToTensorConstantSpec,
    LossOutputSpec,
    OutputSpec,
    UserInputSpec,
    UserOutputSpec,
)
from graphwire.schema.signature_names import SignatureNames, value_name

__all__ = ["BackwardNameMaps", "NameMaps", "signature_from_maps", "signature_to_maps"]


class BackwardNameMaps(msgspec.Struct, frozen=True):
    """What a joint graph differentiates, and what by, as schema 1 has it."""

    gradients_to_parameters: dict[str, str]
    """Qualified name of the parameter by name of the gradient."""
    gradients_to_user_inputs: dict[str, str]
    """Name of the user input by name of the gradient."""
    loss_output: str


class NameMaps(msgspec.Struct, frozen=True):
    """The six fields of schema 1's `GraphSignature`."""

    inputs_to_parameters: dict[str, str]
    """Qualified name by name of the input."""
    inputs_to_buffers: dict[str, str]
    """Qualified name by name of the input; also that of a lifted tensor constant, which schema 1 has no map for."""
    user_inputs: list[str]
    user_outputs: list[str]
    buffers_to_mutate: dict[str, str]
    """Qualified name of the buffer by name of its new value."""
    backward_signature: BackwardNameMaps | None = None


def signature_from_maps(
    maps: NameMaps,
    inputs: Sequence[Argument],
    outputs: Sequence[Argument],
    *,
    non_persistent_buffers: Collection[str] = (),
    tensor_constants: Collection[str] = (),
) -> GraphSignature:
    """The specs of a graph's inputs and outputs.

    Args:
        maps: what the names stand for.
        inputs: the graph's own, in order.
        outputs: the graph's own, in order: the new values of buffers first.
        non_persistent_buffers: qualified names of the buffers that are no part of the state dict.
        tensor_constants: those qualified names in the map of buffers that are lifted tensors.

    Raises:
        SchemaError: a tensor among the inputs or outputs stands for nothing, or the map of mutations for no output.
    """
    persistent = frozenset(non_persistent_buffers), frozenset(tensor_constants)
    mutations = len(maps.buffers_to_mutate)
    signature = GraphSignature([], [])
    for index, argument in enumerate(inputs):
        try:
            signature.input_specs.append(_input_spec(maps, argument, index, *persistent))
        except Exception as error:
            locate(error, f"inputs[{index}]")
            raise
    for index, argument in enumerate(outputs):
        try:
            signature.output_specs.append(_output_spec(maps, argument, mutates=index < mutations))
        except Exception as error:
            locate(error, f"outputs[{index}]")
            raise
    return signature


def _input_spec(
    maps: NameMaps, argument: Argument, index: int, fleeting: Collection[str], constants: Collection[str]
) -> InputSpec:
    name = value_name(argument)
    if name is None:
        return _constant_input(argument, f"arg{index}")
    if argument.as_tensor is None or name in maps.user_inputs:
        return InputSpec(user_input=UserInputSpec(argument))
    tensor = argument.as_tensor
    if (parameter := maps.inputs_to_parameters.get(name)) is not None:
        return InputSpec(parameter=InputToParameterSpec(tensor, parameter))
    if (buffer := maps.inputs_to_buffers.get(name)) is None:
        raise SchemaError(f"the tensor {name!r} is neither a user input, nor a parameter, nor a buffer")
    if buffer in constants:
        return InputSpec(tensor_constant=InputToTensorConstantSpec(tensor, buffer))
    return InputSpec(buffer=InputToBufferSpec(tensor, buffer, buffer not in fleeting))


def _constant_input(argument: Argument, name: str) -> InputSpec:
    arms = ("as_none", "as_int", "as_float", "as_string", "as_bool")
    found = {arm: value for arm in arms if (value := getattr(argument, arm)) is not None}
    if not found:
        raise SchemaError("an input is neither a value nor a literal")
    return InputSpec(constant_input=InputToConstantInputSpec(name, ConstantValue(**found)))


def _output_spec(maps: NameMaps, argument: Argument, *, mutates: bool) -> OutputSpec:
    if argument.as_tensor is None:
        return OutputSpec(user_output=UserOutputSpec(argument))
    tensor, name = argument.as_tensor, argument.as_tensor.name
    if mutates:
        if (buffer := maps.buffers_to_mutate.get(name)) is None:
            raise SchemaError(
                f"the tensor {name!r} stands among the mutations, and is the new value of no buffer"
            )
        return OutputSpec(buffer_mutation=BufferMutationSpec(tensor, buffer))
    backward = maps.backward_signature
    # Before the user outputs, which have it, too: torch counts the loss among them.
    if backward is not None and name == backward.loss_output:
        return OutputSpec(loss_output=LossOutputSpec(tensor))
    if name in maps.user_outputs:
        return OutputSpec(user_output=UserOutputSpec(argument))
    return _gradient(backward, tensor)


def _gradient(backward: BackwardNameMaps | None, tensor: TensorArgument) -> OutputSpec:
    if backward is not None:
        if (parameter := backward.gradients_to_parameters.get(tensor.name)) is not None:
            return OutputSpec(gradient_to_parameter=GradientToParameterSpec(tensor, parameter))
        if (user_input := backward.gradients_to_user_inputs.get(tensor.name)) is not None:
            return OutputSpec(gradient_to_user_input=GradientToUserInputSpec(tensor, user_input))
    raise SchemaError(f"the tensor {tensor.name!r} is neither a user output nor a gradient")


def signature_to_maps(signature: GraphSignature) -> NameMaps:
    """The maps of a signature: the reverse of `signature_from_maps`. Lifted tensors stand among the buffers.

    Raises:
        SchemaError: schema 1 has no map for something in the signature.
    """
    names = SignatureNames(signature)
    unsaid = {
        "a lifted object": names.lifted_custom_objs,
        "a token": (*names.input_tokens, *names.output_tokens),
        "a mutated parameter": names.mutated_parameters,
        "a mutated user input": names.mutated_user_inputs,
    }
    for what, found in unsaid.items():
        if found:
            raise SchemaError(f"the signature has {what} ({next(iter(found))}), which schema 1 cannot say")
    backward = names.backward_signature
    return NameMaps(
        dict(names.inputs_to_parameters),
        {**names.inputs_to_buffers, **names.inputs_to_lifted_tensor_constants},
        [
            name
            for spec in signature.input_specs
            if spec.user_input and (name := value_name(spec.user_input.arg))
        ],
        [name for name in names.user_outputs if isinstance(name, str)],
        dict(names.buffers_to_mutate),
        None
        if backward is None
        else BackwardNameMaps(
            dict(backward.gradients_to_parameters),
            dict(backward.gradients_to_user_inputs),
            backward.loss_output,
        ),
    )
