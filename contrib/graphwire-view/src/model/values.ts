/** Texts of values: types and shapes, literals, arguments. */

import {
  argumentsIn, dtypeName, floatLiteral, literalText, symbolText,
  type Argument, type Device, type Graph, type Node, type SymInt, type TensorMeta,
} from "graphwire-js";

/** What is known of a value. */
export interface ValueFacts {
  /** `float32 [s0, 32]` for a tensor, `int` and so on for others; empty if nothing is known. */
  readonly type: string;
  readonly meta: TensorMeta | null;
  /** The value of a symbol, such as `s0 + 1`; empty for a tensor. */
  readonly symbol: string;
}

const UNKNOWN: ValueFacts = { type: "", meta: null, symbol: "" };

const FACTS = new WeakMap<Graph, Map<string, ValueFacts>>();

/** Returns what a graph says of a value. */
export function valueFacts(graph: Graph, name: string): ValueFacts {
  const known = FACTS.get(graph) ?? new Map<string, ValueFacts>();
  FACTS.set(graph, known);
  const found = known.get(name) ?? factsOf(graph, name);
  known.set(name, found);
  return found;
}

function factsOf(graph: Graph, name: string): ValueFacts {
  const meta = graph.tensor_values.get(name);
  if (meta !== undefined) return { type: tensorType(meta), meta, symbol: "" };
  const tables = [
    ["int", graph.sym_int_values.get(name)],
    ["float", graph.sym_float_values.get(name)],
    ["bool", graph.sym_bool_values.get(name)],
  ] as const;
  for (const [type, value] of tables) {
    if (value !== undefined) return { type, meta: null, symbol: symbolText(value) };
  }
  const object = graph.custom_obj_values.get(name);
  return object === undefined ? UNKNOWN : { type: object.class_fqn, meta: null, symbol: "" };
}

/** `float32 [s0, 32]` */
export function tensorType(meta: TensorMeta): string {
  return `${dtypeName(meta)} ${sizesText(meta.sizes)}`;
}

/** `[s0, 32]` */
export function sizesText(sizes: readonly SymInt[]): string {
  return `[${sizes.map(symbolText).join(", ")}]`;
}

export function deviceText(device: Device): string {
  return device.index === null ? device.type : `${device.type}:${device.index}`;
}

/** A piece of an argument's text; `value` names the value that the piece refers to, `graph` the subgraph. */
export interface Piece {
  readonly text: string;
  readonly value?: string;
  readonly node?: string;
  readonly graph?: string;
}

function reference(name: string): Piece {
  return { text: name, value: name };
}

function listed(open: string, items: readonly (readonly Piece[])[], close: string): Piece[] {
  const inside = items.flatMap((item, index) => (index === 0 ? item : [{ text: ", " }, ...item]));
  return [{ text: open }, ...inside, { text: close }];
}

function quoted(text: string): Piece {
  return { text: JSON.stringify(text) };
}

/** Returns an argument as Python would write it, in pieces. */
export function argumentPieces(argument: Argument): Piece[] {
  const { variant, value } = argument;
  switch (variant) {
    case "as_none":
      return [{ text: "None" }];
    case "as_tensor":
    case "as_custom_obj":
      return [reference(value.name)];
    case "as_tensors":
      return listed("[", value.map((each) => [reference(each.name)]), "]");
    case "as_nested_tensors":
      return listed("[", value.map((row) => listed("[", row.map((each) => [reference(each.name)]), "]")), "]");
    case "as_optional_tensor":
      return [value.variant === "as_tensor" ? reference(value.value.name) : { text: "None" }];
    case "as_optional_tensors":
      return listed("[", value.map((each) => [each.variant === "as_tensor" ? reference(each.value.name) : { text: "None" }]), "]");
    case "as_sym_int":
    case "as_sym_float":
    case "as_sym_bool":
      return [value.variant === "as_name" ? reference(value.value) : { text: literalText(value.value) }];
    case "as_sym_ints":
    case "as_sym_floats":
    case "as_sym_bools":
      return listed("[", value.map((each) => [each.variant === "as_name" ? reference(each.value) : { text: literalText(each.value) }]), "]");
    case "as_string":
      return [quoted(value)];
    case "as_strings":
      return listed("[", value.map((each) => [quoted(each)]), "]");
    case "as_scalar_type":
      return [{ text: dtypeName({ dtype: value, dtype_name: null }) }];
    case "as_dtype_name":
    case "as_layout_name":
    case "as_operator":
      return [{ text: value }];
    case "as_memory_format":
    case "as_layout":
      return [{ text: value.toLowerCase() }];
    case "as_device":
      return [{ text: deviceText(value) }];
    case "as_graph":
      return [{ text: value.name, graph: value.name }];
    case "as_complex":
      return [{ text: `(${floatLiteral(value.real)}, ${floatLiteral(value.imag)}j)` }];
    case "as_sequence":
      return listed(value.kind === "list" ? "[" : "(", value.items.map(argumentPieces), value.kind === "list" ? "]" : ")");
    case "as_mapping":
      return listed("{", value.map((each) => [...argumentPieces(each.key), { text: ": " }, ...argumentPieces(each.value)]), "}");
    case "as_string_to_argument":
      return listed("{", Array.from(value, ([key, each]) => [quoted(key), { text: ": " }, ...argumentPieces(each)]), "}");
    case "as_slice":
      return listed("slice(", argumentsIn(argument).map(argumentPieces), ")");
    case "as_range":
      return [{ text: `range(${value.start}, ${value.stop}, ${value.step})` }];
    case "as_results":
      return [{ text: `all results of ${value}`, node: value }];
    case "as_constant":
      return [{ text: typeof value === "string" ? value : value.name }];
    case "as_treespec":
      return [{ text: typeof value === "string" ? value : value.name }];
    default:
      return [{ text: literalText(value) }];
  }
}

/** Returns an argument as text. */
export function argumentText(argument: Argument): string {
  return argumentPieces(argument).map(({ text }) => text).join("");
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** `472 MFLOP`: a number with a prefix of SI; empty for none. */
export function scaledText(number: number, unit: string): string {
  if (Number.isNaN(number)) return "";
  let value = Math.abs(number);
  let power = 0;
  while (value >= 999.5 && power < PREFIXES.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${number < 0 ? "−" : ""}${power === 0 || value >= 99.5 ? Math.round(value) : value.toPrecision(2)} ${PREFIXES[power] ?? ""}${unit}`;
}

/** `1.5 MB` */
export function bytesText(bytes: number | bigint): string {
  return scaledText(Number(bytes), "B");
}

/** `1,234,567` */
export function countText(count: number | bigint): string {
  return count.toLocaleString("en");
}

/** A number with four digits, such as `0.1235` or `1.235e+12`. */
export function numberText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return countText(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e6 ? Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 }) : value.toExponential(3);
}

/** `3 nodes`, `1 node` */
export function plural(count: number | bigint, word: string): string {
  return `${countText(count)} ${word}${Number(count) === 1 ? "" : "s"}`;
}

/** Returns the integers of an argument; none if it is something else. */
export function intsOf({ node }: { readonly node: Node | null }, name: string): number[] {
  const given = node?.inputs.find((input) => input.name === name)?.arg;
  return given?.variant === "as_ints" ? given.value.map(Number) : given?.variant === "as_int" ? [Number(given.value)] : [];
}
