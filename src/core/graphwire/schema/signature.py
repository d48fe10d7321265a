"""The graph signature: the role of each input and output of the top-level graph."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from graphwire.schema.graph import Argument, CustomObjArgument, TensorArgument, TokenArgument
from graphwire.schema.symbols import Float


class UserInputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An input that the caller passes."""

    arg: Argument
    name: str | None = None
    """Extension without requirement: the input's name, if `arg` carries none."""


class ConstantValue(msgspec.Struct, gc=False, omit_defaults=True):
    """The literal that an input was specialised to. Exactly one arm is set."""

    as_none: bool | None = None
    as_int: int | None = None
    as_float: Float | None = None
    as_string: str | None = None
    as_bool: bool | None = None


class InputToConstantInputSpec(msgspec.Struct, gc=False):
    """An input that the caller must pass with the value it had at export."""

    name: str
    value: ConstantValue


class InputToParameterSpec(msgspec.Struct, gc=False):
    """An input that is a parameter. Parameters are identified by qualified name."""

    arg: TensorArgument
    parameter_name: str


class InputToBufferSpec(msgspec.Struct, gc=False):
    """An input that is a buffer. Buffers are identified by qualified name."""

    arg: TensorArgument
    buffer_name: str
    persistent: bool
    """Whether the buffer is part of the state dict."""


class InputToTensorConstantSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An input that is a tensor lifted out of the code, by its name among the constants."""

    arg: TensorArgument
    tensor_constant_name: str
    persistent: bool | None = None
    """Extension without requirement: the `persistent` flag that strict export sets on the input as if it were a buffer."""


class InputToCustomObjSpec(msgspec.Struct, gc=False):
    """An input that is a script object or an opaque value, by its name among the constants."""

    arg: CustomObjArgument
    custom_obj_name: str


class InputTokenSpec(msgspec.Struct, gc=False):
    """An effect token that the graph takes. Tokens order side effects."""

    arg: TokenArgument


class InputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """The role of one input. Exactly one arm is set."""

    user_input: UserInputSpec | None = None
    parameter: InputToParameterSpec | None = None
    buffer: InputToBufferSpec | None = None
    tensor_constant: InputToTensorConstantSpec | None = None
    custom_obj: InputToCustomObjSpec | None = None
    token: InputTokenSpec | None = None
    constant_input: InputToConstantInputSpec | None = None


class Held(NamedTuple):
    """An input whose value the program itself holds."""

    kind: str
    """`parameter`, `buffer` or `constant`."""
    name: str
    """The qualified name of the weight or constant."""
    value: str
    """The name of the input's value in the graph."""


def held_by(spec: InputSpec) -> Held | None:
    """Return the weight or constant that an input refers to; None for a value that the caller passes, and for a token."""
    if spec.parameter is not None:
        return Held("parameter", spec.parameter.parameter_name, spec.parameter.arg.name)
    if spec.buffer is not None:
        return Held("buffer", spec.buffer.buffer_name, spec.buffer.arg.name)
    if spec.tensor_constant is not None:
        return Held("constant", spec.tensor_constant.tensor_constant_name, spec.tensor_constant.arg.name)
    if spec.custom_obj is not None:
        return Held("constant", spec.custom_obj.custom_obj_name, spec.custom_obj.arg.name)
    return None


class UserOutputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An output that the caller receives."""

    arg: Argument
    name: str | None = None
    """Extension without requirement: the output's name, if `arg` carries none."""


class LossOutputSpec(msgspec.Struct, gc=False):
    """The output that a joint graph differentiates."""

    arg: TensorArgument


class BufferMutationSpec(msgspec.Struct, gc=False):
    """The new value of a buffer, by its qualified name."""

    arg: TensorArgument
    buffer_name: str


class ParameterMutationSpec(msgspec.Struct, gc=False):
    """The new value of a parameter, by its qualified name."""

    arg: TensorArgument
    parameter_name: str


class GradientToParameterSpec(msgspec.Struct, gc=False):
    """The gradient of a parameter, by its qualified name."""

    arg: TensorArgument
    parameter_name: str


class GradientToUserInputSpec(msgspec.Struct, gc=False):
    """The gradient of a user input, by the input's value name."""

    arg: TensorArgument
    user_input_name: str


class UserInputMutationSpec(msgspec.Struct, gc=False):
    """The new value of a user input, by the input's value name."""

    arg: TensorArgument
    user_input_name: str


class OutputTokenSpec(msgspec.Struct, gc=False):
    """An effect token that the graph returns. Tokens order side effects."""

    arg: TokenArgument


class OutputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """The role of one output. Exactly one arm is set."""

    user_output: UserOutputSpec | None = None
    loss_output: LossOutputSpec | None = None
    buffer_mutation: BufferMutationSpec | None = None
    gradient_to_parameter: GradientToParameterSpec | None = None
    gradient_to_user_input: GradientToUserInputSpec | None = None
    user_input_mutation: UserInputMutationSpec | None = None
    token: OutputTokenSpec | None = None
    parameter_mutation: ParameterMutationSpec | None = None


class GraphSignature(msgspec.Struct, gc=False):
    """One spec for each graph input and output, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
