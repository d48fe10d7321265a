"""The constructs of torch's schema and the version that first reads each: one row per field, element type and extension.

Only these tables and that of the variants of arguments (`schema.graph`) decide what a step down, `supports`, and the note of
a file's first reader answer. A construct without a row is rejected, so a new field of `schema` cannot reach a reader of torch
before somebody decides what becomes of it.

A row has the first version of torch's schema whose **reader** reads the construct, measured as `schema.graph` describes.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from graphwire import schema
from graphwire.schema import VARIANTS, ScalarType, Version


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return Version(int(major), int(minor or 0))


_TYPES = {
    "8.2": "UINT16",
    "8.7": "FLOAT8E4M3FN FLOAT8E5M2",
    "8.14": "FLOAT8E4M3FNUZ FLOAT8E5M2FNUZ",
    "8.20": "FLOAT8E8M0FNU UINT32 UINT64",
}
TYPES: Final[dict[ScalarType, Version]] = {
    **dict.fromkeys(ScalarType, Version(1)),
    **{ScalarType[name]: _version(since) for since, names in _TYPES.items() for name in names.split()},
}
"""The first version of every element type that has a number."""

EXTENSIONS: Final[dict[str, Literal["converted", "shown", "refused"]]] = {
    **dict.fromkeys(schema.FEATURES, "refused"),
    "sequences": "converted",
    "codecs": "shown",
    "outputs": "shown",
}
"""Every extension that a document can require.

`converted`: written in torch's terms where torch has them, else an obstacle. `shown`: an obstacle at each place that uses it.
`refused`: an obstacle even where the document does not show its use.
"""


# ----------------------------------------------------------------------------------------------------------- fields


class Field(msgspec.Struct, frozen=True):
    """What is known of a field of a record."""

    since: Version | None
    """The first version of torch's schema with the field; None for a field of graphwire's own."""
    names: bool = False
    """Whether its text, or the keys of its table, are names of values or nodes of the graph."""
    says: str = ""
    """The name in messages, if older versions refuse the field."""
    feature: str = ""
    """The extension that the field belongs to, if a reader must support it."""


def _fields(*listed: str) -> dict[str, Field]:
    """Return rows from texts `SINCE: NAME NAME …`. `ours` stands for graphwire's own fields, `@` marks those with names."""
    found: dict[str, Field] = {}
    for since, _, names in (each.partition(": ") for each in listed):
        version = None if since == "ours" else _version(since)
        found |= {name.removeprefix("@"): Field(version, name[0] == "@") for name in names.split()}
    return found


def _refused(since: str, says: str) -> Field:
    return Field(_version(since), says=says)


FIELDS: Final[dict[type[msgspec.Struct], dict[str, Field]]] = {
    schema.Program: _fields(
        "1: graph_module opset_version range_constraints schema_version",
        "7.3: verifiers torch_version",
        "8.14: guards_code",
        "ours: requires producer readable_from plugins example_inputs edited_values encoded_values",
        "ours: group_sizes",
    ),
    schema.GraphModule: _fields(
        "1: graph signature module_call_graph",
        "7.3: metadata",
        "8.7: treespec_namedtuple_fields",
        "ours: stack_frames node_sources inline_constraints replacements",
    ),
    schema.SchemaVersion: _fields("1: major minor"),
    schema.StackFrame: _fields("ours: file line name source stripped"),
    schema.NodeSource: _fields("ours: name target graph_id pass_name action from_node"),
    schema.PluginRequirement: _fields("ours: distribution version provides"),
    schema.EncodedValue: _fields(
        "ours: codec tree tensors buffer is_weight requires_grad is_param same_as index"
    ),
    schema.ExampleInputs: _fields("ours: spec leaves encoded_values"),
    schema.Graph: _fields(
        "1: inputs outputs nodes is_single_tensor_return @tensor_values @sym_int_values @sym_bool_values",
        "5.1: @custom_obj_values",
        "8.2: @sym_float_values",
        "ours: @input_names @value_metadata @placed @copies @compositions @held_as output_metadata output_list",
    ),
    schema.Node: {
        **_fields(
            "1: target inputs outputs metadata",
            "8.7: is_hop_single_tensor_return",
            "8.17: @name",
            "ours: stack from_node container",
        ),
        "propagate": Field(None, feature="propagate"),
    },
    schema.ValueMetadata: _fields("ours: metadata stack from_node unstated stated target value @name"),
    schema.NamedArgument: _fields("1: name arg", "8.7: kind", "ours: tuples"),
    schema.Argument: {variant: Field(row.argument) for variant, row in VARIANTS.items()},
    **{
        row.record: _fields(f"ours: {' '.join(row.record.__struct_fields__)}")
        for row in VARIANTS.values()
        if row.record is not None
    },
    schema.TensorArgument: _fields("1: @name"),
    schema.TokenArgument: _fields("5.3: @name"),
    schema.SymIntArgument: _fields("1: @as_name as_int"),
    schema.SymFloatArgument: _fields("8.2: @as_name as_float"),
    schema.SymBoolArgument: _fields("1: @as_name as_bool"),
    schema.OptionalTensorArgument: _fields("1: as_tensor as_none"),
    schema.CustomObjArgument: _fields("1: @name", "5.1: class_fqn"),
    schema.ComplexValue: _fields("8.14: real imag"),
    schema.GraphArgument: _fields("1: name graph", "ours: node"),
    schema.ElementCopy: _fields("ours: @of @uses"),
    schema.GraphSignature: _fields("1: input_specs output_specs"),
    schema.InputSpec: {
        **_fields("1: user_input parameter buffer tensor_constant", "5.3: constant_input"),
        "custom_obj": _refused("5.1", "an input that is a script object"),
        "token": _refused("5.3", "a token, which orders effects"),
    },
    schema.OutputSpec: {
        **_fields("1: user_output loss_output buffer_mutation gradient_to_parameter gradient_to_user_input"),
        "user_input_mutation": _refused("5.1", "an input that the program changes"),
        "token": _refused("5.3", "a token, which orders effects"),
        "parameter_mutation": _refused("8.14", "a parameter that the program changes"),
    },
    schema.UserInputSpec: _fields("1: arg", "ours: @name"),
    schema.UserOutputSpec: _fields("1: arg", "ours: @name"),
    schema.ConstantValue: _fields("5.3: as_none as_int as_float as_string as_bool"),
    schema.InputToConstantInputSpec: _fields("5.3: @name value"),
    schema.InputToParameterSpec: _fields("1: arg parameter_name"),
    schema.InputToBufferSpec: _fields("1: arg buffer_name", "5.1: persistent"),
    schema.InputToTensorConstantSpec: _fields("1: arg tensor_constant_name", "ours: persistent"),
    schema.InputToCustomObjSpec: _fields("5.1: arg custom_obj_name"),
    schema.InputTokenSpec: _fields("5.3: arg"),
    schema.LossOutputSpec: _fields("1: arg"),
    schema.BufferMutationSpec: _fields("1: arg buffer_name"),
    schema.ParameterMutationSpec: _fields("8.14: arg parameter_name"),
    schema.GradientToParameterSpec: _fields("1: arg parameter_name"),
    schema.GradientToUserInputSpec: _fields("1: arg @user_input_name"),
    schema.UserInputMutationSpec: _fields("5.1: arg @user_input_name"),
    schema.OutputTokenSpec: _fields("5.3: arg"),
    schema.ModuleCallEntry: _fields("1: fqn signature"),
    schema.ModuleCallSignature: _fields(
        "1: inputs outputs in_spec out_spec", "8.2: forward_arg_names", "ours: @input_names @output_names"
    ),
    schema.NamedTupleDef: _fields("8.7: field_names"),
    schema.SymExprHint: _fields("1: as_int", "2: as_bool as_float"),
    schema.SymExpr: _fields("1: expr_str hint"),
    schema.SymInt: _fields("1: as_expr as_int"),
    schema.SymFloat: _fields("8.2: as_expr as_float"),
    schema.SymBool: _fields("1: as_expr as_bool"),
    schema.RangeConstraint: _fields("1: min_val max_val"),
    schema.Device: _fields("1: type index"),
    schema.TensorMeta: {
        **_fields("1: dtype sizes requires_grad device strides storage_offset layout", "ours: sparse"),
        "dtype_name": Field(None, feature="dtypes"),
        "layout_name": Field(None, feature="layouts"),
    },
    schema.SparseMeta: _fields("ours: dense_dim coalesced index_dtype block"),
    schema.Composition: _fields("ours: codec tree parts integers"),
    schema.Part: _fields("ours: meta composition"),
    schema.PayloadConfig: _fields("8.14: config"),
    schema.PayloadMeta: _fields(
        "8.14: path_name is_param use_pickle tensor_meta",
        "ours: same_as weight shared buffer conj neg placement",
    ),
}
"""Every field of every record in a program or in the config of its payloads.

A step down converts or drops torch's fields that are newer than its version. What becomes of graphwire's own is in
`evolve.steps.extensions`.
"""


def fields_of_torch(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a record that are in torch's schema."""
    return frozenset(name for name, row in FIELDS[kind].items() if row.since is not None)
