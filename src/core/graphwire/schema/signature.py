"""The graph signature: the role of each input and output of the top-level graph."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.errors import SchemaError, locate
from graphwire.schema.graph import (
    Argument,
    CustomObjArgument,
    Renaming,
    TensorArgument,
    TokenArgument,
    rewritten,
    value_name,
)
from graphwire.schema.values import Float, decode_float


class UserInputSpec(msgspec.Struct, gc=False, omit_defaults=True):
    """An input that the caller passes."""

    arg: Argument
    """The input: equal to the graph's input at this position."""
    name: str | None = None
    """Extension without requirement: the input's name, if `arg` carries none. Absent: the name in `arg`."""


class ConstantValue(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The literal that an input was specialised to. Exactly one variant is set."""

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
    """The role of one input. Exactly one variant is set."""

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


class Held(msgspec.Struct, frozen=True, gc=False):
    """An input whose value the program itself holds."""

    kind: str
    """`parameter`, `buffer` or `constant`."""
    name: str
    """The qualified name of the weight or constant."""
    value: str
    """The name of the input's value in the graph."""
    is_kept: bool = False
    """Whether it is a parameter or a persistent buffer, which the state dict has."""


def held_by(spec: InputSpec) -> Held | None:
    """Return the weight or constant that an input refers to; None for a value that the caller passes, and for a token."""
    if spec.parameter is not None:
        return Held("parameter", spec.parameter.parameter_name, spec.parameter.arg.name, True)
    if spec.buffer is not None:
        return Held("buffer", spec.buffer.buffer_name, spec.buffer.arg.name, spec.buffer.persistent)
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
    """The role of one output. Exactly one variant is set."""

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


def held_in(signature: GraphSignature) -> list[Held]:
    """Return the weights and constants that the inputs of a graph refer to, in their order."""
    return [each for each in map(held_by, signature.input_specs) if each is not None]


# ------------------------- name lookups on a graph signature, with the property names of torch's `ExportGraphSignature`
# The records in `schema.signature` hold one spec for each input and output. This module answers questions about all of them
# together, and keeps them correct while a graph is edited. Names are those of values in the graph. Targets are qualified
# names of weights and constants or, for a user input, the name of its value.


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

    def _named(self, variant: str, target: str) -> Iterator[tuple[str, str]]:
        """Yield the name and the target of each input, or output, of one kind."""
        signature = self._signature
        specs = signature.input_specs if variant in InputSpec.__struct_fields__ else signature.output_specs
        for held in map(attrgetter(variant), specs):
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
    for variant in spec.__struct_fields__:
        held = getattr(spec, variant)
        if held is None:
            continue
        changed: dict[str, Any] = {}
        if variant == "constant_input":
            changed = {"name": names[held.name]} if held.name in names else {}
        elif isinstance(held.arg, Argument):
            renamed = renamed_argument(held.arg, names)
            changed = {} if renamed is held.arg else {"arg": renamed}
        elif held.arg.name in names:
            changed = {"arg": replace(held.arg, name=names[held.arg.name])}
        target: str | None = getattr(held, "user_input_name", None)
        if inputs and target is not None and target in inputs:
            changed["user_input_name"] = inputs[target]
        return replace(spec, **{variant: replace(held, **changed)}) if changed else spec
    return spec


def renamed_argument(argument: Argument, names: Mapping[str, str]) -> Argument:
    """Return the argument with values renamed (new name by old name); the same object if nothing changes."""
    return rewritten(argument, Renaming(lambda name: names.get(name, name)))


# ------------ graph signatures of schema 1 (torch 2.1), which maps names instead of giving each input and output a spec


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
    variants = ("as_none", "as_int", "as_float", "as_string", "as_bool")
    found = {variant: value for variant in variants if (value := getattr(argument, variant)) is not None}
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
