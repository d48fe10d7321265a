"""Converts the graph signature and the module call graph to and from records, and checks that a program can be called."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch.export import graph_signature as torch_signature
from torch.export.exported_program import (
    ModuleCallEntry as TorchModuleCallEntry,
    ModuleCallSignature as TorchModuleCallSignature,
)
from torch.export.graph_signature import InputKind, OutputKind

from graphwire import schema
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.bridge.graph.values import LITERAL_VARIANTS, literal_of
from graphwire.bridge.torch_compat.code_text import hiding_parameter, path_fault
from graphwire.bridge.torch_compat.private import output_kind
from graphwire.bridge.torch_compat.pytree import children_of, context_of, input_paths
from graphwire.errors import DecodeError, EncodeError, GraphwireError, located, shown

# ------------------------------------------------------------------------------------------------- argument specs

_REFERENCES: dict[str, tuple[Any, Any]] = {
    "as_tensor": (torch_signature.TensorArgument, schema.TensorArgument),
    "as_sym_int": (torch_signature.SymIntArgument, schema.SymIntArgument),
    "as_sym_float": (torch_signature.SymFloatArgument, schema.SymFloatArgument),
    "as_sym_bool": (torch_signature.SymBoolArgument, schema.SymBoolArgument),
}
"""torch's class, and the record, of each variant that refers to a value by its name alone."""
_VARIANTS = {kind: (variant, record) for variant, (kind, record) in _REFERENCES.items()}
_VARIANTS[torch_signature.TokenArgument] = ("as_tensor", schema.TensorArgument)
_LITERAL_VARIANTS: dict[type, str] = {int: "as_int", float: "as_float", bool: "as_bool", str: "as_string"}


def _encode_literal(value: Any) -> dict[str, Any]:
    """Encode a literal."""
    if value is None:
        return {"as_none": True}
    variant = _LITERAL_VARIANTS.get(type(value))
    if variant is None:
        raise EncodeError(f"an input or output cannot be the constant {shown(value)}")
    return {variant: schema.encode_float(value) if variant == "as_float" else value}


def encode_argument_spec(spec: Any) -> tuple[schema.Argument, str | None]:
    """Encode an argument spec, and return it with its name if the argument record has no name."""
    if isinstance(spec, torch_signature.ConstantArgument):
        return schema.Argument(**_encode_literal(spec.value)), spec.name or None
    if isinstance(spec, torch_signature.CustomObjArgument):
        return schema.Argument(as_custom_obj=schema.CustomObjArgument(spec.name, spec.class_fqn)), None
    variant, record = _VARIANTS[type(spec)]
    return schema.Argument(**{variant: record(spec.name)}), None


def decode_argument_spec(argument: schema.Argument, name: str | None) -> Any:
    """Decode an argument spec."""
    if (tensor := argument.as_tensor) is not None:  # the common case
        return torch_signature.TensorArgument(tensor.name)
    variant, value = schema.variant_of(argument), schema.value_name(argument)
    if argument.as_custom_obj is not None:
        return torch_signature.CustomObjArgument(value, argument.as_custom_obj.class_fqn)
    if value is not None:
        return _REFERENCES[variant][0](value)
    if variant not in LITERAL_VARIANTS:
        raise DecodeError(f"an input or output cannot be {variant}")
    return torch_signature.ConstantArgument(name or "", literal_of(argument))


# ------------------------------------------------------------------------------------------ inputs and outputs

_INPUT_ROLES: dict[str, tuple[str, Any]] = {
    "PARAMETER": ("parameter", schema.InputToParameterSpec),
    "BUFFER": ("buffer", schema.InputToBufferSpec),
    "CONSTANT_TENSOR": ("tensor_constant", schema.InputToTensorConstantSpec),
    "CUSTOM_OBJ": ("custom_obj", schema.InputToCustomObjSpec),
    "TOKEN": ("token", schema.InputTokenSpec),
}
_PARAMETER = _INPUT_ROLES["PARAMETER"]
_ARGUMENTS_OF_ROLES: dict[str, Any] = {
    "custom_obj": torch_signature.CustomObjArgument,
    "token": torch_signature.TokenArgument,
}
"""torch's class of the argument of a spec, by variant; of others it is that of tensors."""
_ROLES_OF_INPUTS = {id(kind): _INPUT_ROLES.get(kind.name) for kind in InputKind}
"""The same by the id of torch's kind, which computes its hash and its name in Python."""
_OUTPUT_ROLES: dict[str, tuple[str, Any]] = {
    "LOSS_OUTPUT": ("loss_output", schema.LossOutputSpec),
    "BUFFER_MUTATION": ("buffer_mutation", schema.BufferMutationSpec),
    "PARAMETER_MUTATION": ("parameter_mutation", schema.ParameterMutationSpec),
    "GRADIENT_TO_PARAMETER": ("gradient_to_parameter", schema.GradientToParameterSpec),
    "GRADIENT_TO_USER_INPUT": ("gradient_to_user_input", schema.GradientToUserInputSpec),
    "USER_INPUT_MUTATION": ("user_input_mutation", schema.UserInputMutationSpec),
    "TOKEN": ("token", schema.OutputTokenSpec),
}
"""The variant, and its record class, of most kinds, by torch's name of the kind. A record has the first fields
of torch's spec: the argument, the target, and whether a buffer is persistent."""
_OUTPUT_VARIANTS = LITERAL_VARIANTS | frozenset(schema.VALUE_VARIANTS)
"""The variants that `decode_argument_spec` supports."""


def _encode_role(spec: Any, role: tuple[str, Any], name: str) -> dict[str, Any]:
    """Encode the spec of an input or output called `name`, as a variant with its record."""
    variant, record = role
    argument: Any = schema.TensorArgument(name)
    if variant == "token":
        argument = schema.TokenArgument(name)
    elif variant == "custom_obj":
        argument = schema.CustomObjArgument(name, spec.arg.class_fqn)
    if variant == "buffer":
        return {variant: record(argument, spec.target, bool(spec.persistent))}
    if variant == "tensor_constant":
        return {variant: record(argument, spec.target, spec.persistent)}
    return {
        variant: record(argument) if len(record.__struct_fields__) == 1 else record(argument, spec.target)
    }


def _decode_role(record: Any, roles: dict[str, tuple[str, Any]], what: str) -> tuple[str, list[Any]]:
    """Return the kind of an input or output, and the other arguments of torch's spec."""
    for kind, (variant, _) in roles.items():
        if (content := getattr(record, variant)) is not None:
            argument, *others = msgspec.structs.astuple(content)
            decoded = getattr(torch_signature, type(argument).__name__)(*msgspec.structs.astuple(argument))
            return kind, [decoded, *(others or [None])]
    raise DecodeError(f"{what} spec has no variant that this version supports")


def encode_input_spec(spec: Any) -> schema.InputSpec:
    """Encode the spec of a graph input."""
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, torch_signature.ConstantArgument):
            value = schema.ConstantValue(**_encode_literal(spec.arg.value))
            return schema.InputSpec(constant_input=schema.InputToConstantInputSpec(spec.arg.name, value))
        return schema.InputSpec(user_input=schema.UserInputSpec(*encode_argument_spec(spec.arg)))
    role = _ROLES_OF_INPUTS.get(id(spec.kind))
    if role is _PARAMETER and type(spec.arg) is torch_signature.TensorArgument:  # the common case
        argument = schema.TensorArgument(spec.arg.name)
        return schema.InputSpec(parameter=schema.InputToParameterSpec(argument, spec.target))
    if role is None:
        raise EncodeError(f"the schema cannot represent an input of kind {shown(spec.kind)}")
    wanted = _ARGUMENTS_OF_ROLES.get(role[0], torch_signature.TensorArgument)
    if not isinstance(spec.arg, wanted):  # where torch's own check fails to say so
        raise EncodeError(
            f"{spec.arg.name!r:.80} is a {role[0].replace('_', ' ')}, and its `arg` a {type(spec.arg).__name__}",
            remedy=f"Let it be a {wanted.__name__}",
        )
    return schema.InputSpec(**_encode_role(spec, role, spec.arg.name))


def decode_input_spec(record: schema.InputSpec) -> Any:
    """Decode the spec of a graph input."""
    make = torch_signature.InputSpec
    if (weight := record.parameter) is not None:  # the common case
        argument = torch_signature.TensorArgument(weight.arg.name)
        return make(InputKind.PARAMETER, argument, weight.parameter_name, None)
    if (user := record.user_input) is not None:
        return make(InputKind.USER_INPUT, decode_argument_spec(user.arg, user.name), None)
    if (literal := record.constant_input) is not None:
        argument = torch_signature.ConstantArgument(literal.name, literal_of(literal.value))
        return make(InputKind.USER_INPUT, argument, None)
    kind, arguments = _decode_role(record, _INPUT_ROLES, "an input")
    return make(InputKind[kind], *arguments)


def encode_output_spec(
    spec: Any, output: schema.Argument, copies: Mapping[str, schema.ElementCopy]
) -> schema.OutputSpec:
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
        if schema.variant_of(output) not in _OUTPUT_VARIANTS:
            raise EncodeError(
                f"a program cannot return {schema.variant_of(output)}",
                remedy="Make the graph's own constants and objects inputs of it before they are returned",
            )
        name = None if schema.value_name(output) is not None else encode_argument_spec(spec.arg)[1]
        return schema.OutputSpec(user_output=schema.UserOutputSpec(output, name))
    name = spec.arg.name
    if name in copies and spec.kind is not OutputKind.TOKEN:
        name = copies[name].of
    return schema.OutputSpec(**_encode_role(spec, _OUTPUT_ROLES[spec.kind.name], name))


def decode_output_spec(record: schema.OutputSpec) -> Any:
    """Decode the spec of a graph output."""
    make = torch_signature.OutputSpec
    if (user := record.user_output) is not None:
        return make(OutputKind.USER_OUTPUT, decode_argument_spec(user.arg, user.name), None)
    kind, arguments = _decode_role(record, _OUTPUT_ROLES, "an output")
    return make(output_kind(kind), *arguments)


def _check_text(value: Any) -> None:
    """Raise for a value that encoding would otherwise copy unchecked. `edited_attributes_named` finds its place."""
    if type(value) is not str:
        raise TypeError(f"the program's signature contains {shown(value)}")


# -------------------------------------------------------------------------------------------------- signature


def encode_signature(signature: Any, graph: schema.Graph, inputs: Sequence[str]) -> schema.GraphSignature:
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
    encoded: list[schema.InputSpec] = []
    with located(lambda: f"graph_signature.input_specs[{len(encoded)}]"):
        for spec in signature.input_specs:
            encoded.append(encode_input_spec(spec))  # the place names its index
    return schema.GraphSignature(
        encoded,
        [
            encode_output_spec(spec, output, graph.copies)
            for spec, output in zip(signature.output_specs, graph.outputs, strict=True)
        ],
    )


def _check_specs(signature: Any) -> None:
    """Raise a TypeError if names, targets or flags have wrong types. Hashing or printing such values may fail, or never
    end."""
    specs = [*signature.input_specs, *signature.output_specs]
    names = {type(spec.arg.name) for spec in specs}
    targets = {type(spec.target) for spec in specs}
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


def decode_signature(record: schema.GraphSignature) -> Any:
    """Decode a graph signature."""
    return torch_signature.ExportGraphSignature(
        [decode_input_spec(spec) for spec in record.input_specs],
        [decode_output_spec(spec) for spec in record.output_specs],
    )


def set_output_names(specs: Sequence[Any], graph: torch.fx.Graph) -> None:
    """Set the names of output specs to the nodes that a graph returns. Records name elements, which several nodes may
    read."""
    for spec, value in zip(specs, graph.output_node().args[0], strict=False):
        if isinstance(value, torch.fx.Node) and hasattr(spec.arg, "name"):
            spec.arg.name = value.name


def note_unkept(context: EncodeContext, program: Any, record: schema.GraphSignature) -> None:
    """Note where the specs of a loaded program differ from those of the program: the graph decides what inputs and outputs are,
    and a record has no target or flag where its kind needs none."""
    signature, outputs = program.graph_signature, [decode_output_spec(spec) for spec in record.output_specs]
    set_output_names(outputs, program.graph)
    # `ExportedProgram.module()` renames the outputs of a program with effect tokens in its signature alone.
    renamed = any(spec.kind is OutputKind.TOKEN for spec in signature.output_specs)
    pairs = [
        (f"input_specs[{index}]", spec, decode_input_spec(written), False)
        for index, (spec, written) in enumerate(zip(signature.input_specs, record.input_specs, strict=True))
        if (weight := written.parameter) is None  # as of few inputs
        or spec.arg.name != weight.arg.name
        or spec.persistent is not None
    ]
    pairs += [
        (f"output_specs[{index}]", spec, loaded, renamed)
        for index, (spec, loaded) in enumerate(zip(signature.output_specs, outputs, strict=True))
    ]
    for place, spec, loaded, free in pairs:
        for name, what in _unkept(spec, loaded, free):
            context.unsaved.setdefault(f"graph_signature.{place}.{name} ({what})", "")


def _unkept(spec: Any, other: Any, renamed: bool) -> Iterator[tuple[str, str]]:
    """Yield the fields of a spec that differ, with what a loaded program has instead."""
    argument, loaded = spec.arg, other.arg
    if type(argument) is not type(loaded):
        yield "arg", f"the graph has a {type(loaded).__name__}"
    elif argument.name != loaded.name and not renamed and _stem(argument.name) != _stem(loaded.name):
        yield "arg.name", f"the graph has {loaded.name!r:.80}"
    elif type(argument) is torch_signature.ConstantArgument and repr(argument.value) != repr(loaded.value):
        yield "arg.value", f"the graph has {shown(loaded.value)}"
    if spec.target != other.target and (
        None in (spec.target, other.target) or _stem(spec.target) != _stem(other.target)
    ):
        yield "target", "a file has none"
    if getattr(spec, "persistent", None) != getattr(other, "persistent", None):
        yield "persistent", "a file has none"


def _stem(name: str) -> str:
    """Return a name without the number that FX adds: a deep copy of a program has `max_1` for `max` in its graph alone."""
    return re.sub(r"_\d+$", "", name)


def set_object_values(signature: Any, graph: torch.fx.Graph) -> None:
    """Set the values of inputs that are objects, where the graph has them and not only their class."""
    if torch_signature.CustomObjArgument not in {type(spec.arg) for spec in signature.input_specs}:
        return
    for spec, node in zip(signature.input_specs, graph.find_nodes(op="placeholder"), strict=False):
        if isinstance(spec.arg, torch_signature.CustomObjArgument):
            value = node.meta.get("val")
            spec.arg.fake_val = None if isinstance(value, torch_signature.CustomObjArgument) else value


# ------------------------------------------------------------------------------------------- module call graph


def encode_module_calls(
    context: EncodeContext, entries: Sequence[Any], copies: Mapping[str, schema.ElementCopy]
) -> list[schema.ModuleCallEntry]:
    """Encode the module call graph.

    Args:
        copies: the copies of the graph, by name. Each gets the positions where it is named.
    """
    records = []
    for entry in entries:
        _check_text(entry.fqn)
    with located(lambda: f"module_call_graph[{entry.fqn!r}]"):
        for index, entry in enumerate(entries):
            signature = None if entry.signature is None else _encode_call(context, entry.signature)
            if copies and signature is not None:
                for place, arguments in _places(index, signature):
                    _name_first(place, arguments, copies)
            records.append(schema.ModuleCallEntry(entry.fqn, signature))
    return records


def _places(index: int, signature: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the argument lists of a call, each with its key in `ElementCopy.uses`, which no node can have as its name."""
    yield f"module_call_graph[{index}].inputs", signature.inputs
    yield f"module_call_graph[{index}].outputs", signature.outputs


def _name_first(
    place: str, arguments: list[schema.Argument], copies: Mapping[str, schema.ElementCopy]
) -> None:
    for position, argument in enumerate(arguments):
        if argument.as_tensor is not None and (copy := copies.get(argument.as_tensor.name)) is not None:
            copy.uses.setdefault(place, []).append(position)
            arguments[position] = schema.Argument(as_tensor=schema.TensorArgument(copy.of))


def restore_copy_names(
    entries: Sequence[Any], copies: Mapping[str, schema.ElementCopy], graph: torch.fx.Graph
) -> None:
    """Restore the names of copies in the module call graph."""
    there = {node.name for node in graph.nodes}
    for index, entry in enumerate(entries):
        for place, arguments in () if entry.signature is None else _places(index, entry.signature):
            for name, copy in copies.items():
                for position in copy.uses.get(place, ()):
                    if name in there and 0 <= position < len(arguments):
                        arguments[position] = torch_signature.TensorArgument(name)


def _encode_call(context: EncodeContext, signature: Any) -> schema.ModuleCallSignature:
    names = signature.forward_arg_names
    for name in names or ():
        _check_text(name)
    for spec in (*signature.inputs, *signature.outputs):
        if type(spec) is torch_signature.TokenArgument:
            context.unsaved.setdefault(f"that {spec.name:.80} is a token in module_call_graph", "")
    inputs = [encode_argument_spec(spec) for spec in signature.inputs]
    outputs = [encode_argument_spec(spec) for spec in signature.outputs]
    return schema.ModuleCallSignature(
        inputs=[argument for argument, _ in inputs],
        outputs=[argument for argument, _ in outputs],
        in_spec=_encode_spec(context, signature.in_spec),
        out_spec=_encode_spec(context, signature.out_spec),
        forward_arg_names=None if names is None else list(names),
        input_names=[n for _, n in inputs] if any(n is not None for _, n in inputs) else None,
        output_names=[n for _, n in outputs] if any(n is not None for _, n in outputs) else None,
    )


def _encode_spec(context: EncodeContext, spec: Any) -> str:
    return encode_treespec(spec, context.registry, plain=context.plain_containers, names=context.containers)


def decode_module_calls(context: DecodeContext, records: Sequence[schema.ModuleCallEntry]) -> list[Any]:
    """Decode the module call graph."""
    entries = []
    with located(lambda: f"module_call_graph[{record.fqn!r}]"):
        for record in records:
            signature = None if record.signature is None else _decode_call(context, record.signature)
            entries.append(TorchModuleCallEntry(record.fqn, signature))
    return entries


def _decode_call(context: DecodeContext, record: schema.ModuleCallSignature) -> Any:
    return TorchModuleCallSignature(
        inputs=_decode_named(record.inputs, record.input_names),
        outputs=_decode_named(record.outputs, record.output_names),
        in_spec=decode_treespec(record.in_spec, context.registry),
        out_spec=decode_treespec(record.out_spec, context.registry),
        forward_arg_names=record.forward_arg_names,
    )


def _decode_named(arguments: Sequence[schema.Argument], names: Sequence[str | None] | None) -> list[Any]:
    given = names if names is not None else [None] * len(arguments)
    return [decode_argument_spec(argument, name) for argument, name in zip(arguments, given, strict=True)]


# --------------------------------- checks that a program can be called: of its call, its attributes and its guards

_CALL = "graph_module.module_call_graph[0].signature"
_WHOLE = "torch does not make such programs: export it again, or restore what was removed"


def check_entry(record: schema.Program, error: type[GraphwireError]) -> None:
    """Raise if a program lacks what `ExportedProgram.module` and `call_spec` read first.

    Raises:
        error: it has no dialect, or its first call is not its own call with a signature.
    """
    if not record.verifiers:
        raise error("the program names no dialect", place="verifiers", remedy=_WHOLE)
    calls = record.graph_module.module_call_graph
    if not calls or calls[0].signature is None:
        raise error(
            "the first call is not the program's own, with a signature",
            place="graph_module.module_call_graph",
            remedy=_WHOLE,
        )


def parameter_names(
    record: schema.Program, in_spec: Any, out_spec: Any, error: type[GraphwireError]
) -> list[str]:
    """Return the names of the parameters of the module of a program.

    Args:
        in_spec: the treespec of the program's arguments.
        out_spec: that of its results; None if it is unknown.

    Raises:
        error: every call would fail: the structures are not those of the program's inputs and outputs, or there is another
            number of names.
    """
    call, signature = record.graph_module.module_call_graph[0].signature, record.graph_module.signature
    assert call is not None  # check_entry
    parts = children_of(in_spec)
    if in_spec.type is not tuple or [part.type for part in parts] != [tuple, dict]:
        problem = "the structure of the arguments is not one of positional and keyword arguments"
        raise error(problem, place=f"{_CALL}.in_spec", remedy=_WHOLE)
    positional, keywords = len(children_of(parts[0])), [str(each) for each in context_of(parts[1])]
    names = call.forward_arg_names or [*(f"arg_{index}" for index in range(positional)), *keywords]
    if len(names) != positional + len(keywords):
        problem = f"there are {len(names)} names of parameters, and {positional + len(keywords)} arguments"
        raise error(problem, place=f"{_CALL}.forward_arg_names", remedy=_WHOLE)
    if names[positional:] != keywords:
        problem = (
            f"the last parameters are {names[positional:]!s:.80}, and the keyword arguments {keywords!s:.80}"
        )
        raise error(problem, place=f"{_CALL}.forward_arg_names", remedy=_WHOLE)
    specs = signature.input_specs
    inputs = len([spec for spec in specs if spec.user_input is not None or spec.constant_input is not None])
    if in_spec.num_leaves != inputs:
        problem = (
            f"the program takes {inputs} inputs, and the structure of its arguments has {in_spec.num_leaves}"
        )
        raise error(problem, place=f"{_CALL}.in_spec", remedy=_WHOLE)
    results = signature.output_specs
    outputs = len([spec for spec in results if spec.user_output is not None or spec.loss_output is not None])
    gradients = [spec for spec in results if spec.gradient_to_parameter or spec.gradient_to_user_input]
    if out_spec is not None and out_spec.num_leaves != outputs and not gradients:
        problem = f"the program returns {outputs} outputs, and the structure of its results has {out_spec.num_leaves}"
        raise error(problem, place=f"{_CALL}.out_spec", remedy=_WHOLE)
    return list(names)


def input_numbers(in_spec: Any, names: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Return the number of the flat input at each path, such as `("x", 0)`.

    Args:
        names: the names of the parameters.
    """
    return {tuple(of for _, of in path): index for index, path in enumerate(input_paths(in_spec, names))}


def check_guards(
    record: schema.Program, numbers: Mapping[tuple[Any, ...], int], error: type[GraphwireError]
) -> tuple[list[Any], list[str]]:
    """Return the conditions of the guards of a program, and the guards that refer to something that is no input.

    Args:
        numbers: as `input_numbers` returns them.

    Raises:
        error: there is such a guard, and example inputs, with which torch's module checks guards: every call would fail.
    """
    if not record.guards_code:
        return [], []
    from graphwire.bridge.module.input_conditions import guard_condition

    conditions, unknown = [], []
    for index, guard in enumerate(record.guards_code):
        condition = guard_condition(guard, numbers)
        if condition is not None:
            conditions.append(condition)
        elif record.example_inputs is None:
            unknown.append(f"{guard:.80}")
        else:
            raise error(
                f"the guard {guard:.80} refers to something that is no input of the program",
                place=f"guards_code[{index}]",
                remedy=_WHOLE,
            )
    return conditions, unknown


def check_attributes(
    held: Sequence[schema.Held],
    graph: torch.fx.Graph,
    constants: Mapping[str, Any],
    error: type[GraphwireError],
) -> None:
    """Raise if what the module of a program holds cannot be its attributes.

    Args:
        held: what the signature refers to.
        constants: the constants by name.

    Raises:
        error: `ExportedProgram.module` would fail, or read something else.
    """
    paths = [(each.kind, each.name) for each in held]
    read = graph.find_nodes(op="get_attr")
    if read:
        inputs = {each.value for each in held}
        read = [node for node in read if node.name not in inputs]
    paths += [("subgraph or tensor of the graph", str(node.target)) for node in read]
    if fault := path_fault(paths):
        from graphwire.analysis.legal_names import legal_path

        remedy = "Rename the attribute of the model"
        if path_fault([(kind, legal_path(path)) for kind, path in paths]) is None:
            is_new = error is EncodeError
            remedy += (
                ', or save with names="renamed"' if is_new else "; `graphwire convert --rename FILE DST` does"
            )
        raise error(fault, place="graph_module.signature.input_specs", remedy=remedy)
    # torch registers them as buffers, and finds them as parameters.
    names = {name for name, value in constants.items() if isinstance(value, torch.nn.Parameter)}
    if wrong := [each.name for each in held if each.name in names] if names else []:
        raise error(
            f"the constant {wrong[0]!r:.80} is a parameter, which the module of a program cannot hold as one",
            place="graph_module.signature.input_specs",
            remedy="Detach it: program.constants[name] = program.constants[name].detach()",
        )


def check_parameters(names: Sequence[str], module: torch.fx.GraphModule, error: type[GraphwireError]) -> None:
    """Raise if the generated code of a program means something else by the name of a parameter.

    Args:
        names: the parameters of the program's module.

    Raises:
        error: torch's code would compute something else than the graph.
    """
    if hiding := hiding_parameter(module, names, is_new=error is DecodeError):
        raise error(
            f"the name {hiding!r} of an argument hides what generated code calls by it",
            place=_CALL,
            remedy="Rename the argument of the model, and export it again",
        )
