"""The constructs of torch's schema and the version that first reads each: one row per field, element type and extension.

Only these tables and that of the arms of arguments (`schema.arguments`) decide what a step down, `supports`, and the note of
a file's first reader answer. A construct without a row is rejected, so a new field of `schema` cannot reach a reader of torch
before somebody decides what becomes of it.

A row has the first version of torch's schema whose **reader** reads the construct, measured as `schema.arguments` describes.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import msgspec

from graphwire import schema
from graphwire.evolve.documents.versions import Version
from graphwire.schema import ARMS, ScalarType

V1, V2, V5_1, V5_3, V7_3 = Version(1), Version(2), Version(5, 1), Version(5, 3), Version(7, 3)
V8_2, V8_7, V8_8, V8_14 = Version(8, 2), Version(8, 7), Version(8, 8), Version(8, 14)
V8_15, V8_17, V8_20 = Version(8, 15), Version(8, 17), Version(8, 20)

TYPES: Final[dict[ScalarType, Version]] = {
    **dict.fromkeys(ScalarType, V1),
    ScalarType.UINT16: V8_2,
    ScalarType.FLOAT8E4M3FN: V8_7,
    ScalarType.FLOAT8E5M2: V8_7,
    ScalarType.FLOAT8E4M3FNUZ: V8_14,
    ScalarType.FLOAT8E5M2FNUZ: V8_14,
    ScalarType.FLOAT8E8M0FNU: V8_20,
    ScalarType.UINT32: V8_20,
    ScalarType.UINT64: V8_20,
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


class Field(NamedTuple):
    """How a step down treats a field of a record."""

    since: Version | None = V1
    """The first version of torch's schema with the field; None for a field of graphwire's own."""
    fate: Literal["kept", "left out", "converted", "refused"] = "kept"
    """How a step down treats the field below `since`; a field of graphwire's own, in any document for torch. `kept`: the step
    converts or drops it."""
    says: str = ""
    """The name in messages, if the field is refused."""
    feature: str = ""
    """The extension that the field belongs to, if a reader must support it."""
    names: bool = False
    """Whether its text, or the keys of its table, are names of values or nodes of the graph."""


def _fields(listed: str, since: Version | None = V1, **options: Any) -> dict[str, Field]:
    return {name: Field(since, **options) for name in listed.split()}


def _left_out(listed: str, **options: Any) -> dict[str, Field]:
    return _fields(listed, None, fate="left out", **options)


def _converted(listed: str) -> dict[str, Field]:
    return _fields(listed, None, fate="converted")


def _named(listed: str, since: Version | None = V1) -> dict[str, Field]:
    return _fields(listed, since, names=True)


def _refused(says: str, since: Version) -> Field:
    return Field(since, "refused", says)


def _extension(feature: str) -> Field:
    return Field(None, "refused", schema.FEATURES[feature], feature)


FIELDS: Final[dict[type[msgspec.Struct], dict[str, Field]]] = {
    schema.Program: {
        **_fields("graph_module opset_version range_constraints schema_version"),
        **_fields("verifiers torch_version", V7_3),
        **_fields("guards_code", V8_14),
        **_left_out("requires producer readable_from plugins example_inputs edited_values"),
        **_converted("encoded_values"),
    },
    schema.GraphModule: {
        **_fields("graph signature module_call_graph"),
        **_fields("metadata", V7_3),
        **_fields("treespec_namedtuple_fields", V8_7),
        **_converted("stack_frames node_sources"),
        **_left_out("inline_constraints replacements"),
    },
    schema.SchemaVersion: _fields("major minor"),
    schema.StackFrame: _converted("file line name source stripped"),
    schema.NodeSource: _converted("name target graph_id pass_name action from_node"),
    schema.PluginRequirement: _left_out("distribution version provides"),
    schema.EncodedValue: _converted(
        "codec tree tensors buffer is_weight requires_grad is_param same_as index"
    ),
    schema.ExampleInputs: _left_out("spec leaves encoded_values"),
    schema.Graph: {
        **_fields("inputs outputs nodes is_single_tensor_return"),
        **_named("tensor_values sym_int_values sym_bool_values"),
        **_named("custom_obj_values", V5_1),
        **_named("sym_float_values", V8_2),
        **_left_out("input_names value_metadata placed copies compositions held_as", names=True),
        **_left_out("output_metadata output_list"),
    },
    schema.Node: {
        **_fields("target inputs outputs metadata"),
        **_fields("is_hop_single_tensor_return", V8_7),
        **_named("name", V8_17),
        **_converted("stack from_node"),
        **_left_out("container"),
        "propagate": _extension("propagate"),
    },
    schema.ValueMetadata: {
        **_left_out("metadata stack from_node unstated stated target value"),
        **_left_out("name", names=True),
    },
    schema.NamedArgument: {**_fields("name arg"), **_fields("kind", V8_7), **_left_out("tuples")},
    schema.Argument: {
        arm: Field(row.argument, "converted" if row.resolved or row.feature else "kept", row.says)
        for arm, row in ARMS.items()
    },
    **{
        row.record: _converted(" ".join(row.record.__struct_fields__))
        for row in ARMS.values()
        if row.record is not None
    },
    schema.TensorArgument: _named("name"),
    schema.TokenArgument: _named("name", V5_3),
    schema.SymIntArgument: {**_named("as_name"), **_fields("as_int")},
    schema.SymFloatArgument: {**_named("as_name", V8_2), **_fields("as_float", V8_2)},
    schema.SymBoolArgument: {**_named("as_name"), **_fields("as_bool")},
    schema.OptionalTensorArgument: _fields("as_tensor as_none"),
    schema.CustomObjArgument: {**_named("name"), **_fields("class_fqn", V5_1)},
    schema.ComplexValue: _fields("real imag", V8_14),
    schema.GraphArgument: {**_fields("name graph"), **_left_out("node")},
    schema.ElementCopy: _left_out("of uses", names=True),
    schema.GraphSignature: _fields("input_specs output_specs"),
    schema.InputSpec: {
        **_fields("user_input parameter buffer tensor_constant"),
        "custom_obj": _refused("an input that is a script object", V5_1),
        "token": _refused("a token, which orders effects", V5_3),
        **_fields("constant_input", V5_3),
    },
    schema.OutputSpec: {
        **_fields("user_output loss_output buffer_mutation gradient_to_parameter gradient_to_user_input"),
        "user_input_mutation": _refused("an input that the program changes", V5_1),
        "token": _refused("a token, which orders effects", V5_3),
        "parameter_mutation": _refused("a parameter that the program changes", V8_14),
    },
    schema.UserInputSpec: {**_fields("arg"), **_left_out("name", names=True)},
    schema.UserOutputSpec: {**_fields("arg"), **_left_out("name", names=True)},
    schema.ConstantValue: _fields("as_none as_int as_float as_string as_bool", V5_3),
    schema.InputToConstantInputSpec: {**_named("name", V5_3), **_fields("value", V5_3)},
    schema.InputToParameterSpec: _fields("arg parameter_name"),
    schema.InputToBufferSpec: {**_fields("arg buffer_name"), **_fields("persistent", V5_1)},
    schema.InputToTensorConstantSpec: {**_fields("arg tensor_constant_name"), **_left_out("persistent")},
    schema.InputToCustomObjSpec: _fields("arg custom_obj_name", V5_1),
    schema.InputTokenSpec: _fields("arg", V5_3),
    schema.LossOutputSpec: _fields("arg"),
    schema.BufferMutationSpec: _fields("arg buffer_name"),
    schema.ParameterMutationSpec: _fields("arg parameter_name", V8_14),
    schema.GradientToParameterSpec: _fields("arg parameter_name"),
    schema.GradientToUserInputSpec: {**_fields("arg"), **_named("user_input_name")},
    schema.UserInputMutationSpec: {**_fields("arg", V5_1), **_named("user_input_name", V5_1)},
    schema.OutputTokenSpec: _fields("arg", V5_3),
    schema.ModuleCallEntry: _fields("fqn signature"),
    schema.ModuleCallSignature: {
        **_fields("inputs outputs in_spec out_spec"),
        **_fields("forward_arg_names", V8_2),
        **_left_out("input_names output_names", names=True),
    },
    schema.NamedTupleDef: _fields("field_names", V8_7),
    schema.SymExprHint: {**_fields("as_int"), **_fields("as_bool as_float", V2)},
    schema.SymExpr: _fields("expr_str hint"),
    schema.SymInt: _fields("as_expr as_int"),
    schema.SymFloat: _fields("as_expr as_float", V8_2),
    schema.SymBool: _fields("as_expr as_bool"),
    schema.RangeConstraint: _fields("min_val max_val"),
    schema.Device: _fields("type index"),
    schema.TensorMeta: {
        **_fields("dtype sizes requires_grad device strides storage_offset layout"),
        "dtype_name": _extension("dtypes"),
        "layout_name": _extension("layouts"),
        **_left_out("sparse"),
    },
    schema.SparseMeta: _left_out("dense_dim coalesced index_dtype block"),
    schema.Composition: _left_out("codec tree parts integers"),
    schema.Part: _left_out("meta composition"),
    schema.PayloadConfig: _fields("config", V8_14),
    schema.PayloadMeta: {
        **_fields("path_name is_param use_pickle tensor_meta", V8_14),
        **_left_out("same_as weight shared buffer"),
        **_converted("conj neg placement"),
    },
}
"""Every field of every record in a program or in the config of its payloads.

`converted` for a field of graphwire's own: written in torch's terms, or an obstacle through the extension that it belongs to.
"""


def fields_of_torch(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a record that are in torch's schema."""
    return frozenset(name for name, row in FIELDS[kind].items() if row.since is not None)
