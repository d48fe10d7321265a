/**
 * The records of a program: schema 8.20, with graphwire's optional fields.
 *
 * One row a field: its type, whether it is required, and its value if it is absent.
 */

import {
  ARGUMENT_KIND,
  LAYOUT,
  MEMORY_FORMAT,
  SCALAR_TYPE,
  type Layout,
  type MemoryFormat,
  type ScalarType,
} from "./enumerations.js";
import { expressionText, guardText, infixText, treespecText } from "./texts.js";
import type { Tree } from "./trees.js";
import {
  always,
  dict,
  float,
  ignorable,
  integer,
  later,
  list,
  nullable,
  oneOf,
  optional,
  orNone,
  present,
  record,
  required,
  text,
  textOr,
  tree,
  truth,
  union,
  type Of,
  type Type,
  type Union,
} from "./types.js";

type Dict<T> = ReadonlyMap<string, T>;
const none: readonly never[] = [];
const noEntries: Dict<never> = new Map<string, never>();

// ------------------------------------------------------------------------------------------------------------- numbers

export const SYM_EXPR_HINT = union<{ as_int: bigint; as_bool: boolean; as_float: number }>({
  as_int: integer,
  as_bool: truth,
  as_float: float,
});
export interface SymExpr {
  readonly expr_str: string;
  readonly hint: Of<typeof SYM_EXPR_HINT> | null;
}
export const SYM_EXPR = record<SymExpr>({ expr_str: required(expressionText), hint: orNone(SYM_EXPR_HINT) });
export const SYM_INT = union<{ as_expr: SymExpr; as_int: bigint }>({ as_expr: SYM_EXPR, as_int: integer });
export type SymInt = Of<typeof SYM_INT>;
export const SYM_FLOAT = union<{ as_expr: SymExpr; as_float: number }>({ as_expr: SYM_EXPR, as_float: float });
export type SymFloat = Of<typeof SYM_FLOAT>;
export const SYM_BOOL = union<{ as_expr: SymExpr; as_bool: boolean }>({ as_expr: SYM_EXPR, as_bool: truth });
export type SymBool = Of<typeof SYM_BOOL>;

export const RANGE_CONSTRAINT = record<{ min_val: bigint | null; max_val: bigint | null }>({
  min_val: always(required(nullable(integer))),
  max_val: always(required(nullable(integer))),
});
export type RangeConstraint = Of<typeof RANGE_CONSTRAINT>;

// ------------------------------------------------------------------------------------------------------------- tensors

export const DEVICE = record<{ type: string; index: bigint | null }>({ type: required(text), index: orNone(integer) });
export type Device = Of<typeof DEVICE>;

export const SPARSE_META = record<{
  dense_dim: bigint;
  coalesced: boolean;
  index_dtype: ScalarType;
  block: readonly bigint[] | null;
}>({
  dense_dim: optional(integer, 0n),
  coalesced: optional(truth, false),
  index_dtype: optional(SCALAR_TYPE, "LONG"),
  block: orNone(list(integer)),
});

export interface TensorMeta {
  readonly dtype: ScalarType;
  readonly sizes: readonly SymInt[];
  readonly requires_grad: boolean;
  readonly device: Device;
  readonly strides: readonly SymInt[];
  readonly storage_offset: SymInt;
  readonly layout: Layout;
  readonly dtype_name: string | null;
  readonly layout_name: string | null;
  readonly sparse: Of<typeof SPARSE_META> | null;
}
export const TENSOR_META = record<TensorMeta>({
  dtype: required(SCALAR_TYPE),
  sizes: required(list(SYM_INT)),
  requires_grad: required(truth),
  device: required(DEVICE),
  strides: required(list(SYM_INT)),
  storage_offset: required(SYM_INT),
  layout: required(LAYOUT),
  dtype_name: orNone(text),
  layout_name: orNone(text),
  sparse: ignorable(orNone(SPARSE_META)),
});

// ----------------------------------------------------------------------------------------------------------- arguments

export const TENSOR_ARGUMENT = record<{ name: string }>({ name: required(text) });
export type TensorArgument = Of<typeof TENSOR_ARGUMENT>;
export const TOKEN_ARGUMENT = record<{ name: string }>({ name: required(text) });
export const SYM_INT_ARGUMENT = union<{ as_name: string; as_int: bigint }>({ as_name: text, as_int: integer });
export type SymIntArgument = Of<typeof SYM_INT_ARGUMENT>;
export const SYM_FLOAT_ARGUMENT = union<{ as_name: string; as_float: number }>({ as_name: text, as_float: float });
export type SymFloatArgument = Of<typeof SYM_FLOAT_ARGUMENT>;
export const SYM_BOOL_ARGUMENT = union<{ as_name: string; as_bool: boolean }>({ as_name: text, as_bool: truth });
export type SymBoolArgument = Of<typeof SYM_BOOL_ARGUMENT>;
export const OPTIONAL_TENSOR_ARGUMENT = union<{ as_tensor: TensorArgument; as_none: true }>({
  as_tensor: TENSOR_ARGUMENT,
  as_none: present,
});
export type OptionalTensorArgument = Of<typeof OPTIONAL_TENSOR_ARGUMENT>;
export const CUSTOM_OBJ_ARGUMENT = record<{ name: string; class_fqn: string }>({
  name: required(text),
  class_fqn: required(text),
});
export type CustomObjArgument = Of<typeof CUSTOM_OBJ_ARGUMENT>;
export const COMPLEX_VALUE = record<{ real: number; imag: number }>({ real: required(float), imag: required(float) });
export const RANGE_VALUE = record<{ start: bigint; stop: bigint; step: bigint }>({
  start: required(integer),
  stop: required(integer),
  step: required(integer),
});
export const CONSTANT_ARGUMENT = record<{ name: string; node: string }>({
  name: required(text),
  node: required(text),
});
export const TREESPEC_ARGUMENT = record<{ name: string; spec: string; node: string | null }>({
  name: required(text),
  spec: required(treespecText),
  node: orNone(text),
});

export interface GraphArgument {
  readonly name: string;
  readonly graph: Graph;
  readonly node: string | null;
}
export interface SequenceValue {
  readonly kind: "list" | "tuple";
  readonly items: readonly Argument[];
}
export interface MappingEntry {
  readonly key: Argument;
  readonly value: Argument;
}
export interface SliceValue {
  readonly start: Argument;
  readonly stop: Argument;
  readonly step: Argument;
}

export interface ArgumentVariants {
  as_none: true;
  as_tensor: TensorArgument;
  as_tensors: readonly TensorArgument[];
  as_int: bigint;
  as_ints: readonly bigint[];
  as_float: number;
  as_floats: readonly number[];
  as_string: string;
  as_strings: readonly string[];
  as_sym_int: SymIntArgument;
  as_sym_ints: readonly SymIntArgument[];
  as_scalar_type: ScalarType;
  as_memory_format: MemoryFormat;
  as_layout: Layout;
  as_device: Device;
  as_bool: boolean;
  as_bools: readonly boolean[];
  as_sym_bool: SymBoolArgument;
  as_sym_bools: readonly SymBoolArgument[];
  as_graph: GraphArgument;
  as_optional_tensors: readonly OptionalTensorArgument[];
  as_custom_obj: CustomObjArgument;
  as_operator: string;
  as_sym_float: SymFloatArgument;
  as_sym_floats: readonly SymFloatArgument[];
  as_optional_tensor: OptionalTensorArgument;
  as_complex: Of<typeof COMPLEX_VALUE>;
  as_nested_tensors: readonly (readonly TensorArgument[])[];
  as_int_lists: readonly (readonly bigint[])[];
  as_string_to_argument: Dict<Argument>;
  as_float_lists: readonly (readonly number[])[];
  as_sequence: SequenceValue;
  as_mapping: readonly MappingEntry[];
  as_slice: SliceValue;
  as_dtype_name: string;
  as_layout_name: string;
  as_constant: string | Of<typeof CONSTANT_ARGUMENT>;
  as_treespec: string | Of<typeof TREESPEC_ARGUMENT>;
  as_results: string;
  as_range: Of<typeof RANGE_VALUE>;
}
/** An argument of a node, or a reference to a value: one variant with its content. */
export type Argument = Union<ArgumentVariants>;

const argument: Type<Argument> = later<Argument>(() => ARGUMENT);
const graph: Type<Graph> = later<Graph>(() => GRAPH);

export const GRAPH_ARGUMENT = record<GraphArgument>({
  name: required(text),
  graph: required(graph),
  node: ignorable(orNone(text)),
});
export const SEQUENCE_VALUE = record<SequenceValue>({
  kind: required(oneOf("list", "tuple")),
  items: required(list(argument)),
});
export const MAPPING_ENTRY = record<MappingEntry>({ key: required(argument), value: required(argument) });
export const SLICE_VALUE = record<SliceValue>({
  start: required(argument),
  stop: required(argument),
  step: required(argument),
});

export const ARGUMENT = union<ArgumentVariants>({
  as_none: present,
  as_tensor: TENSOR_ARGUMENT,
  as_tensors: list(TENSOR_ARGUMENT),
  as_int: integer,
  as_ints: list(integer),
  as_float: float,
  as_floats: list(float),
  as_string: text,
  as_strings: list(text),
  as_sym_int: SYM_INT_ARGUMENT,
  as_sym_ints: list(SYM_INT_ARGUMENT),
  as_scalar_type: SCALAR_TYPE,
  as_memory_format: MEMORY_FORMAT,
  as_layout: LAYOUT,
  as_device: DEVICE,
  as_bool: truth,
  as_bools: list(truth),
  as_sym_bool: SYM_BOOL_ARGUMENT,
  as_sym_bools: list(SYM_BOOL_ARGUMENT),
  as_graph: GRAPH_ARGUMENT,
  as_optional_tensors: list(OPTIONAL_TENSOR_ARGUMENT),
  as_custom_obj: CUSTOM_OBJ_ARGUMENT,
  as_operator: text,
  as_sym_float: SYM_FLOAT_ARGUMENT,
  as_sym_floats: list(SYM_FLOAT_ARGUMENT),
  as_optional_tensor: OPTIONAL_TENSOR_ARGUMENT,
  as_complex: COMPLEX_VALUE,
  as_nested_tensors: list(list(TENSOR_ARGUMENT)),
  as_int_lists: list(list(integer)),
  as_string_to_argument: dict(argument),
  as_float_lists: list(list(float)),
  as_sequence: SEQUENCE_VALUE,
  as_mapping: list(MAPPING_ENTRY),
  as_slice: SLICE_VALUE,
  as_dtype_name: text,
  as_layout_name: text,
  as_constant: textOr(CONSTANT_ARGUMENT),
  as_treespec: treespecOr(TREESPEC_ARGUMENT),
  as_results: text,
  as_range: RANGE_VALUE,
});

/** A treespec's text, or the record that contains it. */
function treespecOr<T>(other: Type<T>): Type<string | T> {
  return {
    read: (value) => (typeof value === "string" ? treespecText.read(value) : other.read(value)),
    neutral: (value) => (typeof value === "string" ? treespecText.neutral(value) : other.neutral(value)),
  };
}

// --------------------------------------------------------------------------------------------------------------- graph

export interface NamedArgument {
  readonly name: string;
  readonly arg: Argument;
  readonly kind: Of<typeof ARGUMENT_KIND> | null;
  readonly tuples: boolean;
}
export const NAMED_ARGUMENT = record<NamedArgument>({
  name: required(text),
  arg: required(argument),
  kind: orNone(ARGUMENT_KIND),
  tuples: ignorable(optional(truth, false)),
});

export interface Node {
  readonly target: string;
  readonly inputs: readonly NamedArgument[];
  readonly outputs: readonly Argument[];
  readonly metadata: Dict<string>;
  readonly is_hop_single_tensor_return: boolean | null;
  readonly name: string | null;
  readonly stack: readonly bigint[] | null;
  readonly from_node: readonly bigint[] | null;
  readonly container: "list" | "tuple" | null;
  readonly propagate: boolean;
}
export const NODE = record<Node>({
  target: required(text),
  inputs: required(list(NAMED_ARGUMENT)),
  outputs: required(list(argument)),
  metadata: required(dict(text)),
  is_hop_single_tensor_return: orNone(truth),
  name: orNone(text),
  stack: ignorable(orNone(list(integer))),
  from_node: ignorable(orNone(list(integer))),
  container: ignorable(orNone(oneOf("list", "tuple"))),
  propagate: optional(truth, false),
});

export const VALUE_METADATA = record<{
  metadata: Dict<string>;
  stack: readonly bigint[] | null;
  from_node: readonly bigint[] | null;
  name: string | null;
  unstated: boolean;
  stated: boolean;
  target: string | null;
  value: TensorMeta | null;
}>({
  metadata: optional(dict(text), noEntries),
  stack: orNone(list(integer)),
  from_node: orNone(list(integer)),
  name: orNone(text),
  unstated: optional(truth, false),
  stated: optional(truth, false),
  target: orNone(text),
  value: orNone(TENSOR_META),
});
export const ELEMENT_COPY = record<{ of: string; uses: Dict<readonly bigint[]> }>({
  of: required(text),
  uses: optional(dict(list(integer)), noEntries),
});

export interface Composition {
  readonly codec: string;
  readonly tree: Tree;
  readonly parts: readonly Part[];
  readonly integers: readonly SymInt[];
}
export interface Part {
  readonly meta: TensorMeta;
  readonly composition: Composition | null;
}
const composition: Type<Composition> = later<Composition>(() => COMPOSITION);
export const PART = record<Part>({ meta: required(TENSOR_META), composition: orNone(composition) });
export const COMPOSITION = record<Composition>({
  codec: required(text),
  tree: required(tree),
  parts: required(list(PART)),
  integers: optional(list(SYM_INT), none),
});

export interface Graph {
  readonly inputs: readonly Argument[];
  readonly outputs: readonly Argument[];
  readonly nodes: readonly Node[];
  readonly tensor_values: Dict<TensorMeta>;
  readonly sym_int_values: Dict<SymInt>;
  readonly sym_bool_values: Dict<SymBool>;
  readonly is_single_tensor_return: boolean;
  readonly custom_obj_values: Dict<CustomObjArgument>;
  readonly sym_float_values: Dict<SymFloat>;
  readonly input_names: readonly string[] | null;
  readonly value_metadata: Dict<Of<typeof VALUE_METADATA>>;
  readonly output_metadata: Of<typeof VALUE_METADATA> | null;
  readonly placed: Dict<string>;
  readonly copies: Dict<Of<typeof ELEMENT_COPY>>;
  readonly compositions: Dict<Composition>;
  readonly held_as: Dict<"buffer" | "parameter">;
  readonly output_list: boolean;
}
export const GRAPH = record<Graph>({
  inputs: required(list(ARGUMENT)),
  outputs: required(list(ARGUMENT)),
  nodes: required(list(NODE)),
  tensor_values: required(dict(TENSOR_META)),
  sym_int_values: required(dict(SYM_INT)),
  sym_bool_values: required(dict(SYM_BOOL)),
  is_single_tensor_return: optional(truth, false),
  custom_obj_values: optional(dict(CUSTOM_OBJ_ARGUMENT), noEntries),
  sym_float_values: optional(dict(SYM_FLOAT), noEntries),
  input_names: ignorable(orNone(list(text))),
  value_metadata: ignorable(optional(dict(VALUE_METADATA), noEntries)),
  output_metadata: ignorable(orNone(VALUE_METADATA)),
  placed: ignorable(optional(dict(text), noEntries)),
  copies: ignorable(optional(dict(ELEMENT_COPY), noEntries)),
  compositions: ignorable(optional(dict(COMPOSITION), noEntries)),
  held_as: ignorable(optional(dict(oneOf("buffer", "parameter")), noEntries)),
  output_list: ignorable(optional(truth, false)),
});

// ----------------------------------------------------------------------------------------------------------- signature

export const CONSTANT_VALUE = union<{ as_none: true; as_int: bigint; as_float: number; as_string: string; as_bool: boolean }>({
  as_none: present,
  as_int: integer,
  as_float: float,
  as_string: text,
  as_bool: truth,
});
export type ConstantValue = Of<typeof CONSTANT_VALUE>;

const userValue = record<{ arg: Argument; name: string | null }>({
  arg: required(ARGUMENT),
  name: ignorable(orNone(text)),
});
const tensorOnly = record<{ arg: TensorArgument }>({ arg: required(TENSOR_ARGUMENT) });
const ofParameter = record<{ arg: TensorArgument; parameter_name: string }>({
  arg: required(TENSOR_ARGUMENT),
  parameter_name: required(text),
});
const ofUserInput = record<{ arg: TensorArgument; user_input_name: string }>({
  arg: required(TENSOR_ARGUMENT),
  user_input_name: required(text),
});
const tokenOnly = record<{ arg: Of<typeof TOKEN_ARGUMENT> }>({ arg: required(TOKEN_ARGUMENT) });

export interface InputSpecVariants {
  user_input: Of<typeof userValue>;
  parameter: Of<typeof ofParameter>;
  buffer: { arg: TensorArgument; buffer_name: string; persistent: boolean };
  tensor_constant: { arg: TensorArgument; tensor_constant_name: string; persistent: boolean | null };
  custom_obj: { arg: CustomObjArgument; custom_obj_name: string };
  token: Of<typeof tokenOnly>;
  constant_input: { name: string; value: ConstantValue };
}
export const INPUT_SPEC = union<InputSpecVariants>({
  user_input: userValue,
  parameter: ofParameter,
  buffer: record<InputSpecVariants["buffer"]>({
    arg: required(TENSOR_ARGUMENT),
    buffer_name: required(text),
    persistent: required(truth),
  }),
  tensor_constant: record<InputSpecVariants["tensor_constant"]>({
    arg: required(TENSOR_ARGUMENT),
    tensor_constant_name: required(text),
    persistent: ignorable(orNone(truth)),
  }),
  custom_obj: record<InputSpecVariants["custom_obj"]>({
    arg: required(CUSTOM_OBJ_ARGUMENT),
    custom_obj_name: required(text),
  }),
  token: tokenOnly,
  constant_input: record<InputSpecVariants["constant_input"]>({ name: required(text), value: required(CONSTANT_VALUE) }),
});
export type InputSpec = Of<typeof INPUT_SPEC>;

export interface OutputSpecVariants {
  user_output: Of<typeof userValue>;
  loss_output: Of<typeof tensorOnly>;
  buffer_mutation: { arg: TensorArgument; buffer_name: string };
  gradient_to_parameter: Of<typeof ofParameter>;
  gradient_to_user_input: Of<typeof ofUserInput>;
  user_input_mutation: Of<typeof ofUserInput>;
  token: Of<typeof tokenOnly>;
  parameter_mutation: Of<typeof ofParameter>;
}
export const OUTPUT_SPEC = union<OutputSpecVariants>({
  user_output: userValue,
  loss_output: tensorOnly,
  buffer_mutation: record<OutputSpecVariants["buffer_mutation"]>({
    arg: required(TENSOR_ARGUMENT),
    buffer_name: required(text),
  }),
  gradient_to_parameter: ofParameter,
  gradient_to_user_input: ofUserInput,
  user_input_mutation: ofUserInput,
  token: tokenOnly,
  parameter_mutation: ofParameter,
});
export type OutputSpec = Of<typeof OUTPUT_SPEC>;

export const GRAPH_SIGNATURE = record<{ input_specs: readonly InputSpec[]; output_specs: readonly OutputSpec[] }>({
  input_specs: required(list(INPUT_SPEC)),
  output_specs: required(list(OUTPUT_SPEC)),
});
export type GraphSignature = Of<typeof GRAPH_SIGNATURE>;

// --------------------------------------------------------------------------------------------------------- module calls

export const MODULE_CALL_SIGNATURE = record<{
  inputs: readonly Argument[];
  outputs: readonly Argument[];
  in_spec: string;
  out_spec: string;
  forward_arg_names: readonly string[] | null;
  input_names: readonly (string | null)[] | null;
  output_names: readonly (string | null)[] | null;
}>({
  inputs: required(list(ARGUMENT)),
  outputs: required(list(ARGUMENT)),
  in_spec: required(treespecText),
  out_spec: required(treespecText),
  forward_arg_names: orNone(list(text)),
  input_names: ignorable(orNone(list(nullable(text)))),
  output_names: ignorable(orNone(list(nullable(text)))),
});
export type ModuleCallSignature = Of<typeof MODULE_CALL_SIGNATURE>;
export const MODULE_CALL_ENTRY = record<{ fqn: string; signature: Of<typeof MODULE_CALL_SIGNATURE> | null }>({
  fqn: required(text),
  signature: orNone(MODULE_CALL_SIGNATURE),
});
export type ModuleCallEntry = Of<typeof MODULE_CALL_ENTRY>;
export const NAMED_TUPLE_DEF = record<{ field_names: readonly string[] }>({ field_names: required(list(text)) });

// ------------------------------------------------------------------------------------------------------------- program

export const STACK_FRAME = record<{ file: string; line: bigint; name: string; source: string; stripped: boolean }>({
  file: required(text),
  line: required(integer),
  name: required(text),
  source: optional(text, ""),
  stripped: optional(truth, false),
});
export const NODE_SOURCE = record<{
  name: string;
  target: string;
  graph_id: bigint;
  pass_name: string;
  action: string;
  from_node: readonly bigint[];
}>({
  name: required(text),
  target: required(text),
  graph_id: required(integer),
  pass_name: optional(text, ""),
  action: optional(text, ""),
  from_node: optional(list(integer), none),
});

export interface GraphModule {
  readonly graph: Graph;
  readonly signature: GraphSignature;
  readonly module_call_graph: readonly ModuleCallEntry[];
  readonly metadata: Dict<string>;
  readonly treespec_namedtuple_fields: Dict<Of<typeof NAMED_TUPLE_DEF>>;
  readonly stack_frames: readonly Of<typeof STACK_FRAME>[];
  readonly node_sources: readonly Of<typeof NODE_SOURCE>[];
  readonly inline_constraints: Dict<RangeConstraint> | null;
  readonly replacements: Dict<string>;
}
export const GRAPH_MODULE = record<GraphModule>({
  graph: required(GRAPH),
  signature: required(GRAPH_SIGNATURE),
  module_call_graph: required(list(MODULE_CALL_ENTRY)),
  metadata: optional(dict(text), noEntries),
  treespec_namedtuple_fields: optional(dict(NAMED_TUPLE_DEF), noEntries),
  stack_frames: ignorable(optional(list(STACK_FRAME), none)),
  node_sources: ignorable(optional(list(NODE_SOURCE), none)),
  inline_constraints: ignorable(orNone(dict(RANGE_CONSTRAINT, infixText))),
  replacements: ignorable(optional(dict(expressionText), noEntries)),
});

export const SCHEMA_VERSION = record<{ major: bigint; minor: bigint }>({
  major: required(integer),
  minor: required(integer),
});
export const PLUGIN_REQUIREMENT = record<{ distribution: string; version: string; provides: readonly string[] }>({
  distribution: required(text),
  version: required(text),
  provides: required(list(text)),
});

export interface EncodedValue {
  readonly codec: string;
  readonly tree: Tree;
  readonly tensors: readonly string[];
  readonly buffer: boolean | null;
  readonly is_param: boolean | null;
  readonly requires_grad: boolean | null;
  readonly same_as: string | null;
  readonly is_weight: boolean;
  readonly index: bigint | null;
}
export const ENCODED_VALUE = record<EncodedValue>({
  codec: required(text),
  tree: required(tree),
  tensors: required(list(text)),
  buffer: orNone(truth),
  is_param: orNone(truth),
  requires_grad: orNone(truth),
  same_as: orNone(text),
  is_weight: optional(truth, false),
  index: orNone(integer),
});
export const EXAMPLE_INPUTS = record<{
  spec: string;
  leaves: readonly Argument[];
  encoded_values: Dict<EncodedValue>;
}>({
  spec: required(treespecText),
  leaves: required(list(ARGUMENT)),
  encoded_values: optional(dict(ENCODED_VALUE), noEntries),
});

/** A program: the whole document. */
export interface Program {
  readonly graph_module: GraphModule;
  readonly opset_version: Dict<bigint>;
  readonly range_constraints: Dict<RangeConstraint>;
  readonly schema_version: Of<typeof SCHEMA_VERSION>;
  readonly verifiers: readonly string[];
  readonly torch_version: string;
  readonly guards_code: readonly string[];
  readonly requires: readonly string[];
  readonly encoded_values: Dict<EncodedValue>;
  readonly edited_values: readonly string[];
  readonly group_sizes: Dict<bigint>;
  readonly producer: string | null;
  readonly readable_from: string | null;
  readonly plugins: readonly Of<typeof PLUGIN_REQUIREMENT>[];
  readonly example_inputs: Of<typeof EXAMPLE_INPUTS> | null;
}
export const PROGRAM = record<Program>({
  graph_module: required(GRAPH_MODULE),
  opset_version: required(dict(integer)),
  range_constraints: required(dict(RANGE_CONSTRAINT, infixText)),
  schema_version: required(SCHEMA_VERSION),
  verifiers: optional(list(text), none),
  torch_version: optional(text, "<=2.4"),
  guards_code: optional(list(guardText), none),
  requires: optional(list(text), none),
  encoded_values: optional(dict(ENCODED_VALUE), noEntries),
  edited_values: ignorable(optional(list(text), none)),
  group_sizes: ignorable(optional(dict(integer), noEntries)),
  producer: ignorable(orNone(text)),
  readable_from: ignorable(orNone(text)),
  plugins: ignorable(optional(list(PLUGIN_REQUIREMENT), none)),
  example_inputs: ignorable(orNone(EXAMPLE_INPUTS)),
});

// ------------------------------------------------------------------------------------------------------------ payloads

export interface PayloadMeta {
  readonly path_name: string;
  readonly is_param: boolean;
  readonly use_pickle: boolean;
  readonly tensor_meta: TensorMeta | null;
  readonly same_as: string | null;
  readonly weight: string | null;
  readonly shared: string | null;
  readonly buffer: boolean | null;
  readonly conj: boolean;
  readonly neg: boolean;
  readonly placement: "meta" | "fake" | null;
}
export const PAYLOAD_META = record<PayloadMeta>({
  path_name: required(text),
  is_param: required(truth),
  use_pickle: required(truth),
  tensor_meta: required(nullable(TENSOR_META)),
  same_as: orNone(text),
  weight: orNone(text),
  shared: orNone(text),
  buffer: orNone(truth),
  conj: optional(truth, false),
  neg: optional(truth, false),
  placement: orNone(oneOf("meta", "fake")),
});
export const PAYLOAD_CONFIG = record<{ config: Dict<PayloadMeta> }>({ config: required(dict(PAYLOAD_META)) });

// ---------------------------------------------------------------------------------------------------------- references

export interface StoreReference {
  readonly kind: string;
  readonly location: string;
  readonly folder: string | null;
  readonly files: Dict<{ nbytes: bigint; index_sha256: string }>;
}
const FILE_FACTS = record<{ nbytes: bigint; index_sha256: string }>({
  nbytes: required(integer),
  index_sha256: optional(text, ""),
});
export const STORE_REFERENCE = record<StoreReference>({
  kind: required(text),
  location: required(text),
  folder: optional(nullable(text), ""),
  files: optional(dict(FILE_FACTS), noEntries),
});

export interface Region {
  readonly tensor: string;
  readonly dtype: string;
  readonly shape: readonly bigint[];
  readonly store: bigint;
  readonly box: readonly (readonly bigint[])[] | null;
  readonly offset: bigint;
  readonly strides: readonly bigint[] | null;
}
export const REGION = record<Region>({
  tensor: required(text),
  dtype: required(text),
  shape: required(list(integer)),
  store: optional(integer, 0n),
  box: orNone(list(list(integer))),
  offset: optional(integer, 0n),
  strides: orNone(list(integer)),
});

export interface RecordReference {
  readonly nbytes: bigint;
  readonly regions: readonly Region[];
  readonly sha256: string;
}
export const RECORD_REFERENCE = record<RecordReference>({
  nbytes: required(integer),
  regions: optional(list(REGION), none),
  sha256: optional(text, ""),
});

/** Where weights are that the file does not contain. */
export interface WeightReferences {
  readonly stores: readonly StoreReference[];
  readonly records: Dict<RecordReference>;
  readonly ranks: readonly Dict<RecordReference>[];
  readonly providers: Dict<Of<typeof PLUGIN_REQUIREMENT>>;
}
export const WEIGHT_REFERENCES = record<WeightReferences>({
  stores: optional(list(STORE_REFERENCE), none),
  records: optional(dict(RECORD_REFERENCE), noEntries),
  ranks: optional(list(dict(RECORD_REFERENCE)), none),
  providers: optional(dict(PLUGIN_REQUIREMENT), noEntries),
});

// ------------------------------------------------------------------------------------------------------------ manifest

export const MANIFEST = record<{
  sha256: Dict<string>;
  together: readonly { sizes: Dict<bigint>; sha256: string }[];
}>({
  sha256: required(dict(text)),
  together: optional(
    list(record<{ sizes: Dict<bigint>; sha256: string }>({ sizes: required(dict(integer)), sha256: required(text) })),
    none,
  ),
});
