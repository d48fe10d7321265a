"""Graph signatures of schema 1 (torch 2.1), which maps names instead of giving each input and output a spec."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from graphwire.errors import SchemaError, locate
from graphwire.schema.arguments import value_name
from graphwire.schema.graph import Argument
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
from graphwire.schema.signature_names import BackwardSignature


class NameMaps(NamedTuple):
    """The six fields of schema 1's `GraphSignature`."""

    inputs_to_parameters: Mapping[str, str]
    """From the input's name to the qualified name of the parameter."""
    inputs_to_buffers: Mapping[str, str]
    """From the input's name to the qualified name of the buffer, or of a lifted tensor constant, for which schema 1 has
    no map."""
    user_inputs: Collection[str]
    user_outputs: Collection[str]
    buffers_to_mutate: Mapping[str, str]
    """From the name of the new value to the qualified name of the buffer."""
    backward_signature: BackwardSignature | None = None


def signature_from_maps(
    maps: NameMaps,
    inputs: Sequence[Argument],
    outputs: Sequence[Argument],
    *,
    non_persistent_buffers: Collection[str] = (),
    tensor_constants: Collection[str] = (),
) -> GraphSignature:
    """Return the signature that name maps describe, with one spec for each input and output.

    Args:
        maps: the names and their roles.
        inputs: the graph's inputs, in order.
        outputs: the graph's outputs, in order. If a value occurs several times, its first occurrence is a buffer's new
            value.
        non_persistent_buffers: qualified names of the buffers that are not part of the state dict.
        tensor_constants: the qualified names in the map of buffers that are lifted tensors.

    Raises:
        SchemaError: no map contains a tensor among the inputs or outputs.
    """
    signature = GraphSignature([], [])
    for index, argument in enumerate(inputs):
        try:
            spec = _input_spec(maps, argument, index, non_persistent_buffers, tensor_constants)
        except SchemaError as error:
            locate(error, f"inputs[{index}]")
            raise
        signature.input_specs.append(spec)
    backward = maps.backward_signature
    made = (
        dict(maps.buffers_to_mutate),
        dict(backward.gradients_to_parameters) if backward else {},
        dict(backward.gradients_to_user_inputs) if backward else {},
    )
    for index, argument in enumerate(outputs):
        try:
            result = _output_spec(argument, *made, backward and backward.loss_output, maps.user_outputs)
        except SchemaError as error:
            locate(error, f"outputs[{index}]")
            raise
        signature.output_specs.append(result)
    return signature


def _input_spec(
    maps: NameMaps, argument: Argument, index: int, fleeting: Collection[str], constants: Collection[str]
) -> InputSpec:
    name = value_name(argument)
    if name is None:
        return _constant_input(argument, f"arg{index}")
    tensor = argument.as_tensor
    if tensor is None:
        return InputSpec(user_input=UserInputSpec(argument))
    if name in maps.inputs_to_parameters:
        return InputSpec(parameter=InputToParameterSpec(tensor, maps.inputs_to_parameters[name]))
    if name in maps.inputs_to_buffers:
        buffer = maps.inputs_to_buffers[name]
        if buffer in constants:
            return InputSpec(tensor_constant=InputToTensorConstantSpec(tensor, buffer))
        return InputSpec(buffer=InputToBufferSpec(tensor, buffer, buffer not in fleeting))
    if name in maps.user_inputs:
        return InputSpec(user_input=UserInputSpec(argument))
    raise SchemaError(f"the tensor {name!r} is neither a user input, nor a parameter, nor a buffer")


def _constant_input(argument: Argument, name: str) -> InputSpec:
    arms = ("as_none", "as_int", "as_float", "as_string", "as_bool")
    found = {arm: value for arm in arms if (value := getattr(argument, arm)) is not None}
    if not found:
        raise SchemaError("an input is neither a value nor a literal")
    return InputSpec(constant_input=InputToConstantInputSpec(name, ConstantValue(**found)))


def _output_spec(
    argument: Argument,
    mutated: dict[str, str],
    to_parameters: dict[str, str],
    to_inputs: dict[str, str],
    loss: str | None,
    user_outputs: Collection[str],
) -> OutputSpec:
    """Return the spec of an output and remove its entry from the three maps: each entry is for one output."""
    tensor = argument.as_tensor
    if tensor is None:
        return OutputSpec(user_output=UserOutputSpec(argument))
    name = tensor.name
    if name in mutated:
        return OutputSpec(buffer_mutation=BufferMutationSpec(tensor, mutated.pop(name)))
    if name == loss:
        return OutputSpec(loss_output=LossOutputSpec(tensor))
    if name in to_parameters:
        return OutputSpec(gradient_to_parameter=GradientToParameterSpec(tensor, to_parameters.pop(name)))
    if name in to_inputs:
        return OutputSpec(gradient_to_user_input=GradientToUserInputSpec(tensor, to_inputs.pop(name)))
    if name in user_outputs:
        return OutputSpec(user_output=UserOutputSpec(argument))
    raise SchemaError(f"the tensor {name!r} is neither a user output nor a gradient")
