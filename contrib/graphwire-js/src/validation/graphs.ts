/** The rules of graphs: values are defined once and before they are used, names are legal, tensors are possible. */

import { scalarType } from "../enumerations.js";
import { parseExpression } from "../expressions.js";
import { argumentsIn } from "../programs.js";
import type { Argument, Composition, Device, Graph, Node, SymBool, SymFloat, SymInt, TensorMeta } from "../schema.js";
import { parseTreespec } from "../treespecs.js";
import { checkMetadata } from "./metadata.js";
import { isClassName, isOperatorName, isOwnPath, isParameterName, isPath, isTypeName, isValueName } from "./names.js";
import { parsed, refuse } from "./places.js";

type Kind = "tensor" | "int" | "float" | "bool" | "object" | "literal";

const MAX_NESTING = 100;
const MAX_DIMENSIONS = 64;
const MAX_SIZE = (1n << 63n) - 1n;
const MAX_REACH = 1n << 59n;
const MAX_DEVICE = 32767n;

const VALUES = new Set<Argument["variant"]>(["as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj"]);
const LITERALS = new Set<Argument["variant"]>(["as_none", "as_int", "as_float", "as_bool", "as_string"]);
/** The operators whose results may be computed from those of their inputs. */
const OVERLOAD = /^torch\.ops\.(?!higher_order\.|prim\.)\w+\.\w+\.\w+$/;
const RESULTS = new Set<Argument["variant"]>([
  ...LITERALS,
  "as_tensor",
  "as_tensors",
  "as_sym_int",
  "as_sym_float",
  "as_sym_bool",
  "as_custom_obj",
  "as_sym_ints",
  "as_sym_floats",
  "as_sequence",
  "as_string_to_argument",
  "as_mapping",
]);

/** Checks the texts of a program's expressions, each once. */
export class ExpressionCheck {
  readonly seen = new Set<string>();

  constructor(private readonly parse: (text: string) => unknown = parseExpression) {}

  check(text: string, place: string): void {
    if (this.seen.has(text)) return;
    parsed(place, () => this.parse(text));
    this.seen.add(text);
  }
}

/** Returns whether an argument is a literal that an input or output may be. */
export function isLiteral(argument: Argument): boolean {
  return LITERALS.has(argument.variant);
}

/** Yields the references to values in an argument, with their kinds. Those inside subgraphs are not included. */
export function* valuesIn(argument: Argument): Generator<readonly [name: string, kind: Kind]> {
  const { variant, value } = argument;
  switch (variant) {
    case "as_tensor":
      yield [value.name, "tensor"];
      break;
    case "as_tensors":
      for (const each of value) yield [each.name, "tensor"];
      break;
    case "as_nested_tensors":
      for (const each of value.flat()) yield [each.name, "tensor"];
      break;
    case "as_optional_tensor":
    case "as_optional_tensors":
      for (const each of [value].flat()) if (each.variant === "as_tensor") yield [each.value.name, "tensor"];
      break;
    case "as_sym_int":
    case "as_sym_ints":
      for (const each of [value].flat()) if (each.variant === "as_name") yield [each.value, "int"];
      break;
    case "as_sym_float":
    case "as_sym_floats":
      for (const each of [value].flat()) if (each.variant === "as_name") yield [each.value, "float"];
      break;
    case "as_sym_bool":
    case "as_sym_bools":
      for (const each of [value].flat()) if (each.variant === "as_name") yield [each.value, "bool"];
      break;
    case "as_custom_obj":
      yield [value.name, "object"];
      break;
    default:
      for (const each of argumentsIn(argument)) yield* valuesIn(each);
  }
}

/** Notes the extensions that a program uses. */
export type Used = (extension: string, place: string) => void;

/** Checks a graph and all graphs in it. */
export class GraphCheck {
  constructor(
    private readonly used: Used,
    private readonly expressions: ExpressionCheck,
    private readonly rows: { readonly frames: number; readonly sources: number },
  ) {}

  graph(graph: Graph, place: string, depth = 0, literals: readonly (string | null)[] = []): void {
    if (depth > MAX_NESTING) refuse("arguments and subgraphs nest too deep", place);
    const values = new Map<string, Kind>();
    const propagated = new Set<string>();
    const nodes = new Set<string>();
    const stated = graph.input_names ?? literals;
    if (graph.input_names !== null && graph.input_names.length !== graph.inputs.length) refuse("another number of input_names", place);
    graph.inputs.forEach((input, index) => {
      const at = `${place}.inputs[${index}]`;
      const defined = [...valuesIn(input)];
      const isValue = defined.length === 1 && input.variant !== "as_tensors" && !input.variant.endsWith("s");
      if (!isLiteral(input) && !isValue) refuse(`an input cannot be ${input.variant}`, at);
      this.define(input, values, at, depth);
      const name = stated[index] ?? null;
      if (name === null) return;
      if (isLiteral(input)) defineName(name, "literal", values, at);
      else if (graph.input_names !== null && !values.has(name)) refuse("another name than that of the input itself", at);
    });
    this.targets(graph, [...values.keys()], place);
    graph.nodes.forEach((node, index) => {
      const at = `${place}.nodes[${index}]`;
      this.node(node, values, nodes, at, depth);
      const before = values.size;
      node.outputs.forEach((output, position) => {
        const there = `${at}.outputs[${position}]`;
        checkResult(output, there);
        this.define(output, values, there, depth);
      });
      if (node.propagate) for (const name of [...values.keys()].slice(before)) propagated.add(name);
      if (node.name === null) return;
      if (!values.has(node.name)) nodes.add(node.name);
      if (graph.value_metadata.size > 0) noteReaders(graph, node, node.name, nodes);
    });
    graph.outputs.forEach((output, index) => {
      this.argument(output, values, nodes, `${place}.outputs[${index}]`, depth);
    });
    if (graph.is_single_tensor_return && graph.outputs.length !== 1) refuse("a bare output that is not the only one", place);
    this.tables(graph, values, propagated, place);
    for (const [name, metadata] of graph.value_metadata) {
      const at = `${place}.value_metadata[${JSON.stringify(name)}]`;
      const bracket = name.indexOf("[");
      const isElement = bracket >= 0 && /^(?:\[[0-9]{1,9}\])+$/.test(name.slice(bracket));
      if (!values.has(name)) checkValueName(isElement ? name.slice(0, bracket) : name, at);
      if (metadata.name !== null) checkValueName(metadata.name, at);
      if (metadata.value !== null) this.tensor(metadata.value, at);
      this.metadata(metadata, at);
    }
    if (graph.output_metadata !== null) this.metadata(graph.output_metadata, `${place}.output_metadata`);
    for (const [name, { of }] of graph.copies) {
      for (const each of [name, of]) checkValueName(each, `${place}.copies`);
      if (values.has(name) || nodes.has(name)) refuse(`the node ${name} is already defined`, `${place}.copies`);
    }
  }

  /** Checks an argument outside of a graph, whose references may be to values that are gone: of a call, or an example. */
  free(argument: Argument, place: string): void {
    this.argument(argument, null, new Set(), place, 0);
  }

  private define(argument: Argument, values: Map<string, Kind>, place: string, depth: number): void {
    for (const [name, kind] of valuesIn(argument)) defineName(name, kind, values, place);
    this.extensions(argument, place, depth);
    const held = argument.variant === "as_custom_obj" ? [argument.value] : [];
    for (const object of held) checkClass(object.class_fqn, place);
  }

  /** Checks the names that inputs have as arguments of generated code. */
  private targets(graph: Graph, inputs: readonly string[], place: string): void {
    const noted = new Map<string, string>();
    for (const [name, { target }] of graph.value_metadata) if (target !== null) noted.set(name, target);
    for (const [name, target] of noted) {
      checkValueName(target, place);
      if (target !== name && inputs.includes(target)) refuse(`the argument name ${target} is the name of another input`, place);
    }
    const targets = inputs.map((name) => noted.get(name) ?? name);
    if (new Set(targets).size !== targets.length) refuse("two inputs have the same argument name", place);
  }

  private node(node: Node, values: ReadonlyMap<string, Kind>, nodes: ReadonlySet<string>, place: string, depth: number): void {
    if (!isOperatorName(node.target)) refuse(`${JSON.stringify(node.target)} is not a legal name of an operator`, place);
    if (node.name !== null && !isValueName(node.name)) refuse(`${JSON.stringify(node.name)} is not a legal name of a node`, place);
    const names = new Set<string>();
    node.inputs.forEach(({ name, arg, kind }, index) => {
      const at = `${place}.inputs[${index}]`;
      if (name !== "") {
        if (!isParameterName(name, kind === "KEYWORD")) refuse(`${JSON.stringify(name)} is not a legal name of a parameter`, at);
        if (names.has(name)) refuse(`two inputs have the name ${name}`, at);
        names.add(name);
      }
      this.argument(arg, values, nodes, at, depth);
    });
    if (node.propagate) {
      this.used("propagate", place);
      if (!OVERLOAD.test(node.target)) refuse("results whose metadata nobody can compute", place);
    }
    this.metadata(node, place);
  }

  private metadata(
    held: Pick<Node, "metadata" | "stack" | "from_node">,
    place: string,
  ): void {
    checkMetadata(held.metadata, place);
    for (const [indices, count] of [[held.stack, this.rows.frames], [held.from_node, this.rows.sources]] as const) {
      if (indices?.some((index) => index < 0n || index >= BigInt(count)) === true) refuse("an index outside of its table", place);
    }
  }

  private argument(
    argument: Argument,
    values: ReadonlyMap<string, Kind> | null,
    nodes: ReadonlySet<string>,
    place: string,
    depth: number,
  ): void {
    if (depth > MAX_NESTING) refuse("arguments and subgraphs nest too deep", place);
    const inner = argumentsIn(argument);
    for (const each of inner) this.argument(each, values, nodes, place, depth + 1);
    if (inner.length > 0) {
      this.extension(argument, place);
      return;
    }
    for (const [name, kind] of valuesIn(argument)) {
      if (values === null) {
        checkValueName(name, place);
        continue;
      }
      const known = values.get(name);
      if (known === undefined && kind === "object" && isPath(name)) continue;
      if (known !== kind) refuse(`${JSON.stringify(name)} is not a value of the kind ${kind} that is defined before`, place);
    }
    this.extension(argument, place);
    this.content(argument, nodes, place, depth);
  }

  private content(argument: Argument, nodes: ReadonlySet<string>, place: string, depth: number): void {
    const { variant, value } = argument;
    switch (variant) {
      case "as_graph":
        if (!isValueName(value.name)) refuse(`${JSON.stringify(value.name)} is not a legal name of a subgraph`, place);
        if (value.node !== null) checkValueName(value.node, place);
        this.graph(value.graph, `${place}.as_graph.graph`, depth + 1);
        break;
      case "as_results":
        if (!nodes.has(value)) refuse(`there is no node ${JSON.stringify(value)} before`, place);
        break;
      case "as_range":
        if (value.step === 0n) refuse("a range whose step is 0", place);
        break;
      case "as_operator":
        if (!isOperatorName(value)) refuse(`${JSON.stringify(value)} is not a legal name of an operator`, place);
        break;
      case "as_custom_obj":
        checkClass(value.class_fqn, place);
        break;
      case "as_treespec":
        parsed(place, () => parseTreespec(typeof value === "string" ? value : value.spec));
        if (typeof value !== "string") for (const name of [value.name, value.node]) if (name !== null) checkValueName(name, place);
        break;
      case "as_constant":
        if (typeof value !== "string") checkValueName(value.node, place);
        checkConstant(typeof value === "string" ? value : value.name, place);
        break;
      case "as_dtype_name":
      case "as_layout_name":
        if (!isTypeName(value)) refuse(`${JSON.stringify(value)} is not a legal name of a type`, place);
        break;
      case "as_device":
        checkDevice(value, place);
        break;
      default:
    }
  }

  /** Notes the extensions of an argument and of those in it. */
  private extensions(argument: Argument, place: string, depth: number): void {
    if (depth > MAX_NESTING) refuse("arguments nest too deep", place);
    this.extension(argument, place);
    for (const each of argumentsIn(argument)) this.extensions(each, place, depth + 1);
  }

  private extension({ variant }: Argument, place: string): void {
    const extension = EXTENSIONS[variant];
    if (extension !== undefined) this.used(extension, place);
  }

  private tables(graph: Graph, values: ReadonlyMap<string, Kind>, propagated: ReadonlySet<string>, place: string): void {
    const tables = [
      ["tensor_values", "tensor"],
      ["sym_int_values", "int"],
      ["sym_float_values", "float"],
      ["sym_bool_values", "bool"],
      ["custom_obj_values", "object"],
    ] as const;
    for (const [table, kind] of tables) {
      for (const name of graph[table].keys()) {
        if (values.get(name) !== kind) refuse(`the entry ${JSON.stringify(name)} belongs to no value`, `${place}.${table}`);
      }
      for (const [name, own] of values) {
        if (own === kind && !propagated.has(name) && !graph[table].has(name)) refuse(`the value ${name} has no entry`, `${place}.${table}`);
      }
    }
    for (const [name, meta] of graph.tensor_values) this.tensor(meta, `${place}.tensor_values[${JSON.stringify(name)}]`);
    for (const table of [graph.sym_int_values, graph.sym_float_values, graph.sym_bool_values]) {
      for (const [name, value] of table) this.number(value, `${place}: ${name}`);
    }
    for (const [name, composition] of graph.compositions) {
      if (!graph.tensor_values.has(name)) refuse(`no value ${JSON.stringify(name)}`, `${place}.compositions`);
      this.composition(composition, `${place}.compositions[${JSON.stringify(name)}]`);
    }
    for (const [name, object] of graph.custom_obj_values) checkClass(object.class_fqn, `${place}.custom_obj_values[${JSON.stringify(name)}]`);
  }

  private number(value: SymInt | SymFloat | SymBool, place: string): void {
    if (value.variant === "as_expr") this.expressions.check(value.value.expr_str, place);
  }

  private composition({ parts, integers }: Composition, place: string): void {
    for (const integer of integers) this.number(integer, place);
    for (const part of parts) {
      this.tensor(part.meta, place);
      if (part.composition !== null) this.composition(part.composition, place);
    }
  }

  tensor(meta: TensorMeta, place: string): void {
    checkDtype(meta, place);
    if (meta.dtype_name !== null) this.used("dtypes", place);
    if (meta.layout_name !== null) this.used("layouts", place);
    checkDevice(meta.device, place);
    for (const value of [...meta.sizes, ...meta.strides, meta.storage_offset]) {
      this.number(value, place);
      if (value.variant === "as_int" && (value.value < 0n || value.value > MAX_SIZE)) refuse("a size out of range", place);
    }
    const { sizes, strides, layout } = meta;
    if (strides.length !== sizes.length && (layout === "Strided" || strides.length > 0)) refuse("another number of strides", place);
    const known = (value: SymInt | undefined): bigint => (value?.variant === "as_int" ? value.value : 1n);
    const product = sizes.reduce((all, size) => all * (known(size) === 0n ? 1n : known(size)), 1n);
    const reach = sizes.reduce((sum, size, index) => {
      return known(size) > 1n ? sum + (known(size) - 1n) * known(strides[index]) : sum;
    }, meta.storage_offset.variant === "as_int" ? meta.storage_offset.value : 0n);
    if (sizes.length > MAX_DIMENSIONS || product > MAX_REACH || reach >= MAX_REACH) refuse("a tensor that is too large", place);
  }
}

const EXTENSIONS: Readonly<Partial<Record<Argument["variant"], string>>> = {
  as_sequence: "sequences",
  as_mapping: "mappings",
  as_slice: "slices",
  as_dtype_name: "dtypes",
  as_layout_name: "layouts",
  as_constant: "constants",
  as_treespec: "treespecs",
  as_results: "results",
  as_range: "ranges",
};

/** Adds the names of the nodes that read an element which is no value: a container, or a literal. */
function noteReaders({ value_metadata }: Graph, { outputs }: Node, name: string, nodes: Set<string>): void {
  const elements = (held: Argument): readonly Argument[] =>
    held.variant === "as_mapping" ? held.value.map(({ value }) => value) : argumentsIn(held);
  const [first] = outputs;
  const rest: (readonly [key: string, elements: readonly Argument[]])[] = [[name, outputs]];
  if (first !== undefined && outputs.length === 1) rest.push([name, elements(first)]);
  for (const [key, found] of rest) {
    found.forEach((element, index) => {
      const here = `${key}[${index}]`;
      const reader = value_metadata.get(here)?.name ?? null;
      if (reader !== null && !VALUES.has(element.variant)) nodes.add(reader);
      rest.push([here, elements(element)]);
    });
  }
}

function checkResult(argument: Argument, place: string): void {
  if (!RESULTS.has(argument.variant)) refuse(`a result cannot be ${argument.variant}`, place);
  for (const each of argumentsIn(argument)) if (each.variant !== "as_results") checkResult(each, place);
}

/** Checks the element type and layout of a tensor: a number, or 0 and a name. */
export function checkDtype(meta: TensorMeta, place: string): void {
  if ((meta.dtype === "UNKNOWN") !== (meta.dtype_name !== null)) refuse("an element type needs a number or a name", place);
  if ((meta.layout === "Unknown") !== (meta.layout_name !== null)) refuse("a layout needs a number or a name", place);
  if (meta.dtype_name !== null && meta.dtype_name !== "unknown" && scalarType(meta.dtype_name) !== undefined) {
    refuse("the name of an element type that has a number", place);
  }
  for (const name of [meta.dtype_name, meta.layout_name]) {
    if (name !== null && !isTypeName(name)) refuse(`${JSON.stringify(name)} is not a legal name of a type`, place);
  }
}

function checkDevice({ type, index }: Device, place: string): void {
  if (!isValueName(type)) refuse(`${JSON.stringify(type)} is not a legal type of device`, place);
  if (index !== null && (index < 0n || index > MAX_DEVICE)) refuse("a device's index out of range", place);
}

/** Checks the name of an object's class. */
export function checkClass(name: string, place: string): void {
  if (!isClassName(name)) refuse(`${JSON.stringify(name)} is not a legal name of a class`, place);
}

export function checkValueName(name: string, place: string): void {
  if (!isValueName(name)) refuse(`${JSON.stringify(name)} is not a legal name of a value`, place);
}

function defineName(name: string, kind: Kind, values: Map<string, Kind>, place: string): void {
  checkValueName(name, place);
  if (values.has(name)) refuse(`the value ${name} is defined twice`, place);
  values.set(name, kind);
}

/** Checks the name of a constant that a graph reads from its own module. */
function checkConstant(name: string, place: string): void {
  const [, own = ""] = /^[^.]*\.(.*)$/s.exec(name) ?? [];
  if (!isPath(name) || !isOwnPath(own)) refuse(`${JSON.stringify(name)} is not a legal name of a constant`, place);
}
