"""Converts the graph signature and the module call graph to and from records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import graph_signature as torch_signature
from torch.export.exported_program import ModuleCallEntry as TorchModuleCallEntry
from torch.export.exported_program import ModuleCallSignature as TorchModuleCallSignature
from torch.export.graph_signature import InputKind, OutputKind

from graphwire.bridge import torch_compat
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.graph import LITERAL_ARMS, decode_treespec, encode_treespec
from graphwire.errors import DecodeError, EncodeError, locate, shown
from graphwire.schema import (
    VALUE_ARMS,
    Argument,
    BufferMutationSpec,
    ConstantValue,
    CustomObjArgument,
    ElementCopy,
    GradientToParameterSpec,
    GradientToUserInputSpec,
    Graph,
    GraphSignature,
    InputSpec,
    InputToBufferSpec,
    InputToConstantInputSpec,
    InputToCustomObjSpec,
    InputTokenSpec,
    InputToParameterSpec,
    InputToTensorConstantSpec,
    LossOutputSpec,
    ModuleCallEntry,
    ModuleCallSignature,
    OutputSpec,
    OutputTokenSpec,
    ParameterMutationSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
    UserInputMutationSpec,
    UserInputSpec,
    UserOutputSpec,
    arm_of,
    decode_float,
    encode_float,
    value_name,
)

# ------------------------------------------------------------------------------------------------- argument specs

_REFERENCES: dict[type, Any] = {
    torch_signature.TensorArgument: lambda a: Argument(as_tensor=TensorArgument(a.name)),
    torch_signature.SymIntArgument: lambda a: Argument(as_sym_int=SymIntArgument(as_name=a.name)),
    torch_signature.SymFloatArgument: lambda a: Argument(as_sym_float=SymFloatArgument(as_name=a.name)),
    torch_signature.SymBoolArgument: lambda a: Argument(as_sym_bool=SymBoolArgument(as_name=a.name)),
    torch_signature.CustomObjArgument: lambda a: Argument(
        as_custom_obj=CustomObjArgument(a.name, a.class_fqn)
    ),
    torch_signature.TokenArgument: lambda a: Argument(as_tensor=TensorArgument(a.name)),
}
_VALUES: dict[str, Any] = {
    "as_tensor": torch_signature.TensorArgument,
    "as_sym_int": torch_signature.SymIntArgument,
    "as_sym_float": torch_signature.SymFloatArgument,
    "as_sym_bool": torch_signature.SymBoolArgument,
}
_LITERAL_ARMS: dict[type, str] = {int: "as_int", float: "as_float", bool: "as_bool", str: "as_string"}


def _encode_literal(value: Any) -> dict[str, Any]:
    """Encode a literal."""
    if value is None:
        return {"as_none": True}
    arm = _LITERAL_ARMS.get(type(value))
    if arm is None:
        raise EncodeError(f"an input or output cannot be the constant {shown(value)}")
    return {arm: encode_float(value) if arm == "as_float" else value}


def _decode_literal(record: Any) -> Any:
    if record.as_none is not None:
        return None
    if record.as_float is not None:
        return decode_float(record.as_float)
    return next((v for v in (record.as_int, record.as_bool, record.as_string) if v is not None), None)


def encode_argument_spec(spec: Any) -> tuple[Argument, str | None]:
    """Encode an argument spec, and return it with its name if the argument record has no name."""
    if isinstance(spec, torch_signature.ConstantArgument):
        return Argument(**_encode_literal(spec.value)), spec.name or None
    return _REFERENCES[type(spec)](spec), None


def decode_argument_spec(argument: Argument, name: str | None) -> Any:
    """Decode an argument spec."""
    arm, value = arm_of(argument), value_name(argument)
    if argument.as_custom_obj is not None:
        return torch_signature.CustomObjArgument(value, argument.as_custom_obj.class_fqn)
    if value is not None:
        return _VALUES[arm](value)
    if arm not in LITERAL_ARMS:
        raise DecodeError(f"an input or output cannot be {arm}")
    return torch_signature.ConstantArgument(name or "", _decode_literal(argument))


# ----------------------------------------------------------------------------------------------------- inputs


def encode_input_spec(spec: Any) -> InputSpec:
    """Encode the spec of a graph input."""
    kind, target = spec.kind, spec.target
    if kind is InputKind.PARAMETER:  # the common case
        return InputSpec(parameter=InputToParameterSpec(TensorArgument(spec.arg.name), target))
    if kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, torch_signature.ConstantArgument):
            value = ConstantValue(**_encode_literal(spec.arg.value))
            return InputSpec(constant_input=InputToConstantInputSpec(spec.arg.name, value))
        return InputSpec(user_input=UserInputSpec(*encode_argument_spec(spec.arg)))
    if kind is InputKind.CUSTOM_OBJ:
        described = CustomObjArgument(spec.arg.name, spec.arg.class_fqn)
        return InputSpec(custom_obj=InputToCustomObjSpec(described, target))
    if kind is InputKind.TOKEN:
        return InputSpec(token=InputTokenSpec(TokenArgument(spec.arg.name)))
    tensor = TensorArgument(spec.arg.name)
    if kind is InputKind.BUFFER:
        return InputSpec(buffer=InputToBufferSpec(tensor, target, bool(spec.persistent)))
    if kind is InputKind.CONSTANT_TENSOR:
        return InputSpec(tensor_constant=InputToTensorConstantSpec(tensor, target, spec.persistent))
    raise EncodeError(f"the schema cannot represent an input of kind {shown(kind)}")


def _check_type(value: Any, *kinds: type) -> None:
    """Raise for a value that encoding would otherwise copy unchecked. `EditedAttributeCheck` finds its place."""
    if type(value) not in kinds:
        raise TypeError(f"the program's signature contains {shown(value)}")


def _tensor(argument: TensorArgument) -> Any:
    return torch_signature.TensorArgument(argument.name)


def decode_input_spec(record: InputSpec) -> Any:
    """Decode the spec of a graph input."""
    make = torch_signature.InputSpec
    if (user := record.user_input) is not None:
        return make(InputKind.USER_INPUT, decode_argument_spec(user.arg, user.name), None)
    if (parameter := record.parameter) is not None:
        return make(InputKind.PARAMETER, _tensor(parameter.arg), parameter.parameter_name)
    if (buffer := record.buffer) is not None:
        return make(InputKind.BUFFER, _tensor(buffer.arg), buffer.buffer_name, buffer.persistent)
    if (constant := record.tensor_constant) is not None:
        arg, name = _tensor(constant.arg), constant.tensor_constant_name
        return make(InputKind.CONSTANT_TENSOR, arg, name, constant.persistent)
    if (literal := record.constant_input) is not None:
        argument = torch_signature.ConstantArgument(literal.name, _decode_literal(literal.value))
        return make(InputKind.USER_INPUT, argument, None)
    if (custom := record.custom_obj) is not None:
        described = torch_signature.CustomObjArgument(custom.arg.name, custom.arg.class_fqn)
        return make(InputKind.CUSTOM_OBJ, described, custom.custom_obj_name)
    if (token := record.token) is not None:
        return make(InputKind.TOKEN, torch_signature.TokenArgument(token.arg.name), None)
    raise DecodeError("an input spec has no arm that this version supports")


# ---------------------------------------------------------------------------------------------------- outputs

_OUTPUT_ARMS = LITERAL_ARMS | frozenset(VALUE_ARMS)
"""The arms that `decode_argument_spec` supports."""

_TARGETED_OUTPUTS: dict[str, tuple[str, type]] = {
    "BUFFER_MUTATION": ("buffer_mutation", BufferMutationSpec),
    "PARAMETER_MUTATION": ("parameter_mutation", ParameterMutationSpec),
    "GRADIENT_TO_PARAMETER": ("gradient_to_parameter", GradientToParameterSpec),
    "GRADIENT_TO_USER_INPUT": ("gradient_to_user_input", GradientToUserInputSpec),
    "USER_INPUT_MUTATION": ("user_input_mutation", UserInputMutationSpec),
}
"""The arm, and its record class, of each output kind with a named target, by torch's name of the kind."""


def encode_output_spec(spec: Any, output: Argument, copies: Mapping[str, ElementCopy]) -> OutputSpec:
    """Encode the spec of a graph output.

    Args:
        copies: the copies of the graph, by name.
        output: the output in the graph, which takes precedence: for a program with effect tokens,
            `ExportedProgram.module()` renames outputs in the signature alone.
    """
    if spec.kind is OutputKind.USER_OUTPUT:
        if output.as_results is not None:
            raise EncodeError(
                f"the program returns {output.as_results!r}, which has no value in its metadata",
                remedy="Set `meta['val']` of the node to the value that it makes",
            )
        if arm_of(output) not in _OUTPUT_ARMS:
            raise EncodeError(
                f"a program cannot return {arm_of(output)}",
                remedy="Make the graph's own constants and objects inputs of it before they are returned",
            )
        return OutputSpec(user_output=UserOutputSpec(output, encode_argument_spec(spec.arg)[1]))
    if spec.kind is OutputKind.TOKEN:
        return OutputSpec(token=OutputTokenSpec(TokenArgument(spec.arg.name)))
    name = spec.arg.name
    tensor = TensorArgument(copies[name].of if name in copies else name)
    if spec.kind is OutputKind.LOSS_OUTPUT:
        return OutputSpec(loss_output=LossOutputSpec(tensor))
    arm, record = _TARGETED_OUTPUTS[spec.kind.name]
    return OutputSpec(**{arm: record(tensor, spec.target)})


def decode_output_spec(record: OutputSpec) -> Any:
    """Decode the spec of a graph output."""
    make = torch_signature.OutputSpec
    if (user := record.user_output) is not None:
        return make(OutputKind.USER_OUTPUT, decode_argument_spec(user.arg, user.name), None)
    if (loss := record.loss_output) is not None:
        return make(OutputKind.LOSS_OUTPUT, _tensor(loss.arg), None)
    if (token := record.token) is not None:
        return make(OutputKind.TOKEN, torch_signature.TokenArgument(token.arg.name), None)
    for kind, (arm, _) in _TARGETED_OUTPUTS.items():
        content = getattr(record, arm)
        if content is not None:
            target = getattr(content, content.__struct_fields__[1])
            return make(torch_compat.output_kind(kind), _tensor(content.arg), target)
    raise DecodeError("an output spec has no arm that this version supports")


# -------------------------------------------------------------------------------------------------- signature


def encode_signature(signature: Any, graph: Graph, inputs: Sequence[str]) -> GraphSignature:
    """Encode a graph signature.

    Args:
        graph: the program's graph.
        inputs: the names of its placeholder nodes.

    Raises:
        EncodeError: the number of outputs differs between the graph and the signature.
    """
    _check_specs(signature)
    if len(signature.output_specs) != len(graph.outputs):
        raise EncodeError(
            f"the graph has {len(graph.outputs)} outputs, and its signature {len(signature.output_specs)}",
            place="graph_signature.output_specs",
        )
    signature = _up_to_date(signature, inputs)
    return GraphSignature(
        [encode_input_spec(spec) for spec in signature.input_specs],
        [
            encode_output_spec(spec, output, graph.copies)
            for spec, output in zip(signature.output_specs, graph.outputs, strict=True)
        ],
    )


def _check_specs(signature: Any) -> None:
    """Raise a TypeError if names, targets or flags have wrong types. Hashing or printing such values may fail, or never
    end."""
    names = {
        type(spec.arg.name) for specs in (signature.input_specs, signature.output_specs) for spec in specs
    }
    targets = {
        type(spec.target) for specs in (signature.input_specs, signature.output_specs) for spec in specs
    }
    flags = {type(spec.persistent) for spec in signature.input_specs}
    if not (names <= {str} and targets <= {str, type(None)} and flags <= {bool, type(None)}):
        raise TypeError("the program's signature has names that are not texts")


def _up_to_date(signature: Any, inputs: Sequence[str]) -> Any:
    """Return the signature with the current names of the inputs. A deep copy of a program renames inputs such as `input` and
    `max` in its graph alone. A name that another input has stays, and is rejected later."""
    there = set(inputs)
    renamed = {
        spec.arg.name: name
        for spec, name in zip(signature.input_specs, inputs, strict=False)
        if spec.arg.name != name and spec.arg.name not in there
    }
    if not renamed:
        return signature

    def of_argument(argument: Any) -> Any:
        name = getattr(argument, "name", None)
        return dataclasses.replace(argument, name=renamed[name]) if name in renamed else argument

    inputs_named = [dataclasses.replace(s, arg=of_argument(s.arg)) for s in signature.input_specs]
    of_inputs = ("USER_INPUT_MUTATION", "GRADIENT_TO_USER_INPUT")
    outputs_named = [
        dataclasses.replace(
            spec,
            arg=of_argument(spec.arg),
            target=renamed.get(spec.target, spec.target) if spec.kind.name in of_inputs else spec.target,
        )
        for spec in signature.output_specs
    ]
    return torch_signature.ExportGraphSignature(inputs_named, outputs_named)


def decode_signature(record: GraphSignature) -> Any:
    """Decode a graph signature."""
    return torch_signature.ExportGraphSignature(
        [decode_input_spec(spec) for spec in record.input_specs],
        [decode_output_spec(spec) for spec in record.output_specs],
    )


def set_output_names(signature: Any, graph: torch.fx.Graph) -> None:
    """Set the signature's output names to the nodes that a graph returns. Records name elements, which several nodes may
    read."""
    for spec, value in zip(signature.output_specs, graph.output_node().args[0], strict=False):
        if isinstance(value, torch.fx.Node) and hasattr(spec.arg, "name"):
            spec.arg.name = value.name


# ------------------------------------------------------------------------------------------- module call graph


def encode_module_calls(
    context: EncodeContext, entries: Sequence[Any], copies: Mapping[str, ElementCopy]
) -> list[ModuleCallEntry]:
    """Encode the module call graph.

    Args:
        copies: the copies of the graph, by name. Each gets the positions where it is named.
    """
    records = []
    for index, entry in enumerate(entries):
        _check_type(entry.fqn, str)
        try:
            signature = None if entry.signature is None else _encode_call(context, entry.signature)
        except Exception as error:
            locate(error, f"module_call_graph[{entry.fqn!r}]")
            raise
        if copies and signature is not None:
            for place, arguments in _places(index, signature):
                _name_first(place, arguments, copies)
        records.append(ModuleCallEntry(entry.fqn, signature))
    return records


def _places(index: int, signature: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the argument lists of a call, each with its key in `ElementCopy.uses`, which no node can have as its name."""
    yield f"module_call_graph[{index}].inputs", signature.inputs
    yield f"module_call_graph[{index}].outputs", signature.outputs


def _name_first(place: str, arguments: list[Argument], copies: Mapping[str, ElementCopy]) -> None:
    for position, argument in enumerate(arguments):
        if argument.as_tensor is not None and (copy := copies.get(argument.as_tensor.name)) is not None:
            copy.uses.setdefault(place, []).append(position)
            arguments[position] = Argument(as_tensor=TensorArgument(copy.of))


def restore_copy_names(
    entries: Sequence[Any], copies: Mapping[str, ElementCopy], graph: torch.fx.Graph
) -> None:
    """Restore the names of copies in the module call graph."""
    there = {node.name for node in graph.nodes}
    for index, entry in enumerate(entries):
        for place, arguments in () if entry.signature is None else _places(index, entry.signature):
            for name, copy in copies.items():
                for position in copy.uses.get(place, ()):
                    if name in there and 0 <= position < len(arguments):
                        arguments[position] = torch_signature.TensorArgument(name)


def _encode_call(context: EncodeContext, signature: Any) -> ModuleCallSignature:
    names = signature.forward_arg_names or None
    for name in names or ():
        _check_type(name, str)
    inputs = [encode_argument_spec(spec) for spec in signature.inputs]
    outputs = [encode_argument_spec(spec) for spec in signature.outputs]
    return ModuleCallSignature(
        inputs=[argument for argument, _ in inputs],
        outputs=[argument for argument, _ in outputs],
        in_spec=encode_treespec(signature.in_spec, context.registry, plain=context.plain_containers),
        out_spec=encode_treespec(signature.out_spec, context.registry, plain=context.plain_containers),
        forward_arg_names=None if names is None else list(names),
        input_names=[n for _, n in inputs] if any(n is not None for _, n in inputs) else None,
        output_names=[n for _, n in outputs] if any(n is not None for _, n in outputs) else None,
    )


def decode_module_calls(context: DecodeContext, records: Sequence[ModuleCallEntry]) -> list[Any]:
    """Decode the module call graph."""
    entries = []
    for record in records:
        try:
            signature = None if record.signature is None else _decode_call(context, record.signature)
        except Exception as error:
            locate(error, f"module_call_graph[{record.fqn!r}]")
            raise
        entries.append(TorchModuleCallEntry(record.fqn, signature))
    return entries


def _decode_call(context: DecodeContext, record: ModuleCallSignature) -> Any:
    return TorchModuleCallSignature(
        inputs=_decode_named(record.inputs, record.input_names),
        outputs=_decode_named(record.outputs, record.output_names),
        in_spec=decode_treespec(record.in_spec, context.registry),
        out_spec=decode_treespec(record.out_spec, context.registry),
        forward_arg_names=record.forward_arg_names or None,
    )


def _decode_named(arguments: Sequence[Argument], names: Sequence[str | None] | None) -> list[Any]:
    given = names if names is not None else [None] * len(arguments)
    if len(given) != len(arguments):
        raise DecodeError(f"{len(given)} names are given for {len(arguments)} arguments")
    return [decode_argument_spec(argument, name) for argument, name in zip(arguments, given, strict=True)]
