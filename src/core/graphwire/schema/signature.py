"""The graph signature: the role of each input and output of the top-level graph."""

from typing import NamedTuple

import msgspec

from graphwire.schema.graph import Argument, CustomObjArgument, TensorArgument, TokenArgument
from graphwire.schema.symbols import Float


class UserInputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An input that the caller passes."""

    arg: Argument
    """The input: equal to the graph's input at this position."""
    name: str | None = None
    """Extension without requirement: the input's name, if `arg` carries none. Absent: the name in `arg`."""


class ConstantValue(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The literal that an input was specialised to. Exactly one arm is set."""

    as_none: bool | None = None
    """None. Writers write true; readers ignore the value."""
    as_int: int | None = None
    """An integer."""
    as_float: Float | None = None
    """A float."""
    as_string: str | None = None
    """A text."""
    as_bool: bool | None = None
    """A boolean."""


class InputToConstantInputSpec(msgspec.Struct, gc=False):
    """An input that the caller must pass with the value it had at export."""

    name: str
    """The name of the input."""
    value: ConstantValue
    """The value at export: equal to the graph's input at this position."""


class InputToParameterSpec(msgspec.Struct, gc=False):
    """An input that is a parameter. Parameters are identified by qualified name."""

    arg: TensorArgument
    """The graph's input at this position."""
    parameter_name: str
    """The qualified name of the parameter: a key of the weights."""


class InputToBufferSpec(msgspec.Struct, gc=False):
    """An input that is a buffer. Buffers are identified by qualified name."""

    arg: TensorArgument
    """The graph's input at this position."""
    buffer_name: str
    """The qualified name of the buffer: a key of the weights if it is persistent, otherwise of the constants."""
    persistent: bool
    """Whether the buffer is part of the state dict."""


class InputToTensorConstantSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An input that is a tensor lifted out of the code, by its name among the constants."""

    arg: TensorArgument
    """The graph's input at this position."""
    tensor_constant_name: str
    """The name of the tensor: a key of the constants."""
    persistent: bool | None = None
    """Extension without requirement: the `persistent` flag that strict export sets on the input as if it were a buffer.
    Absent: no flag."""


class InputToCustomObjSpec(msgspec.Struct, gc=False):
    """An input that is a script object or an opaque value, by its name among the constants."""

    arg: CustomObjArgument
    """The graph's input at this position."""
    custom_obj_name: str
    """The name of the object: a key of the constants."""


class InputTokenSpec(msgspec.Struct, gc=False):
    """An effect token that the graph takes. Tokens order side effects."""

    arg: TokenArgument
    """The graph's input at this position."""


class InputSpec(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The role of one input. Exactly one arm is set."""

    user_input: UserInputSpec | None = None
    """A value that the caller passes."""
    parameter: InputToParameterSpec | None = None
    """A parameter of the program."""
    buffer: InputToBufferSpec | None = None
    """A buffer of the program."""
    tensor_constant: InputToTensorConstantSpec | None = None
    """A tensor lifted out of the code."""
    custom_obj: InputToCustomObjSpec | None = None
    """A script object or an opaque value lifted out of the code."""
    token: InputTokenSpec | None = None
    """An effect token."""
    constant_input: InputToConstantInputSpec | None = None
    """A literal that the caller must pass as it was at export."""


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
    """The output: equal to the graph's output at this position."""
    name: str | None = None
    """Extension without requirement: the output's name, if `arg` carries none. Absent: the name in `arg`."""


class LossOutputSpec(msgspec.Struct, gc=False):
    """The output that a joint graph differentiates."""

    arg: TensorArgument
    """The graph's output at this position."""


class BufferMutationSpec(msgspec.Struct, gc=False):
    """The new value of a buffer, by its qualified name."""

    arg: TensorArgument
    """The graph's output at this position."""
    buffer_name: str
    """The qualified name of the buffer: that of an input with the role `buffer`."""


class ParameterMutationSpec(msgspec.Struct, gc=False):
    """The new value of a parameter, by its qualified name."""

    arg: TensorArgument
    """The graph's output at this position."""
    parameter_name: str
    """The qualified name of the parameter: that of an input with the role `parameter`."""


class GradientToParameterSpec(msgspec.Struct, gc=False):
    """The gradient of a parameter, by its qualified name."""

    arg: TensorArgument
    """The graph's output at this position."""
    parameter_name: str
    """The qualified name of the parameter: that of an input with the role `parameter`."""


class GradientToUserInputSpec(msgspec.Struct, gc=False):
    """The gradient of a user input, by the input's value name."""

    arg: TensorArgument
    """The graph's output at this position."""
    user_input_name: str
    """The name of the input's value. Torch keeps the name that the input had before export renamed it, so readers do
    not resolve it."""


class UserInputMutationSpec(msgspec.Struct, gc=False):
    """The new value of a user input, by the input's value name."""

    arg: TensorArgument
    """The graph's output at this position."""
    user_input_name: str
    """The name of the value of an input with the role `user_input`."""


class OutputTokenSpec(msgspec.Struct, gc=False):
    """An effect token that the graph returns. Tokens order side effects."""

    arg: TokenArgument
    """The graph's output at this position."""


class OutputSpec(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The role of one output. Exactly one arm is set."""

    user_output: UserOutputSpec | None = None
    """A value that the caller receives."""
    loss_output: LossOutputSpec | None = None
    """The loss that a joint graph differentiates."""
    buffer_mutation: BufferMutationSpec | None = None
    """The new value of a buffer."""
    gradient_to_parameter: GradientToParameterSpec | None = None
    """The gradient of a parameter."""
    gradient_to_user_input: GradientToUserInputSpec | None = None
    """The gradient of a user input."""
    user_input_mutation: UserInputMutationSpec | None = None
    """The new value of a user input."""
    token: OutputTokenSpec | None = None
    """An effect token."""
    parameter_mutation: ParameterMutationSpec | None = None
    """The new value of a parameter."""


class GraphSignature(msgspec.Struct, gc=False):
    """One spec for each graph input and output, in order."""

    input_specs: list[InputSpec]
    """The role of each of the graph's inputs, in order."""
    output_specs: list[OutputSpec]
    """The role of each of the graph's outputs, in order."""

    def __repr__(self) -> str:
        return f"<GraphSignature: {len(self.input_specs)} inputs, {len(self.output_specs)} outputs>"
