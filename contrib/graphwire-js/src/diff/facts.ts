/** The facts that a diff compares besides nodes: the entries of each section of a program, each with its facts as text. */

import { dtypeName } from "../enumerations.js";
import { GraphwireError } from "../errors.js";
import { valueName, type Labels } from "../labels.js";
import type { Argument, Graph, PayloadMeta, Program, RangeConstraint, SymInt, TensorMeta } from "../schema.js";
import { targetOf } from "../summary.js";
import type { Tree } from "../trees.js";
import { parseTreespec, splitVersion, type TreeSpec } from "../treespecs.js";
import { argumentText, compactJson, sparseTree } from "./plain.js";

/** The facts about one entry: text by the name of the fact. */
export type Facts = Map<string, string>;
/** The entries of a section, by identifying name. */
export type Entries = Map<string, Facts>;

// -------------------------------------------------------------------------------------------------------------- values

/** Returns the facts about a value; none if the graph has no such value. */
export function valueFacts(graph: Graph, name: string, labels: Labels): Facts {
  const meta = graph.tensor_values.get(name);
  if (meta !== undefined) return tensorFacts(meta, labels);
  const tables = { int: graph.sym_int_values, float: graph.sym_float_values, bool: graph.sym_bool_values };
  for (const [kind, table] of Object.entries(tables)) {
    const value = table.get(name);
    if (value !== undefined) return new Map([["kind", kind], ["value", labels.value(value)]]);
  }
  const object = graph.custom_obj_values.get(name);
  return object === undefined ? new Map<string, string>() : new Map([["kind", "object"], ["class", object.class_fqn]]);
}

function yes(value: boolean): string {
  return value ? "yes" : "no";
}

/** The name that the document's enumeration has for a layout. */
function layoutText(meta: TensorMeta): string {
  return meta.layout_name ?? meta.layout;
}

function tensorFacts(meta: TensorMeta, labels: Labels): Facts {
  const index = meta.device.index === null ? "" : `:${meta.device.index}`;
  const listed = (values: readonly SymInt[]): string => `[${values.map((value) => labels.value(value)).join(", ")}]`;
  const facts: Facts = new Map([
    ["kind", "tensor"],
    ["dtype", dtypeName(meta)],
    ["shape", listed(meta.sizes)],
    ["device", `${meta.device.type}${index}`],
    ["requires grad", yes(meta.requires_grad)],
    ["layout", layoutText(meta)],
    ["offset", labels.value(meta.storage_offset)],
  ]);
  if (!isContiguous(meta)) facts.set("strides", listed(meta.strides));
  if (meta.sparse !== null) facts.set("sparse", compactJson([sparseTree(meta.sparse)]));
  return facts;
}

/** Returns whether two values are tensors of the same facts, and of sizes that are all known. Cheaper than the facts themselves. */
export function isSameTensor(a: TensorMeta | undefined, b: TensorMeta | undefined): boolean {
  if (a === undefined || b === undefined || a.sparse !== null || b.sparse !== null) return false;
  return (
    a.dtype === b.dtype &&
    a.dtype_name === b.dtype_name &&
    a.device.type === b.device.type &&
    a.device.index === b.device.index &&
    a.requires_grad === b.requires_grad &&
    a.layout === b.layout &&
    a.layout_name === b.layout_name &&
    isSameNumber(a.storage_offset, b.storage_offset) &&
    areSameNumbers(a.sizes, b.sizes) &&
    areSameNumbers(a.strides, b.strides)
  );
}

function isSameNumber(a: SymInt, b: SymInt | undefined): boolean {
  return a.variant === "as_int" && b?.variant === "as_int" && a.value === b.value;
}

function areSameNumbers(a: readonly SymInt[], b: readonly SymInt[]): boolean {
  return a.length === b.length && a.every((each, index) => isSameNumber(each, b[index]));
}

/** Returns whether the strides provably follow from the sizes, so that the diff need not show them. */
function isContiguous({ sizes, strides }: TensorMeta): boolean {
  if (sizes.length !== strides.length) return false;
  let expected = 1n;
  for (let index = sizes.length - 1; index >= 0; index--) {
    const [size, stride] = [sizes[index], strides[index]];
    if (size?.variant !== "as_int") return false;
    if (size.value !== 1n && (stride?.variant !== "as_int" || stride.value !== expected)) return false;
    expected *= size.value;
  }
  return true;
}

function argumentFacts(graph: Graph, argument: Argument, labels: Labels): Facts {
  const name = valueName(argument);
  if (name !== null) return valueFacts(graph, name, labels);
  return new Map([["kind", "literal"], ["value", argumentText(argument)]]);
}

// ------------------------------------------------------------------------------------------------------------ sections

type Section = (program: Program, labels: Labels) => Entries;

function inputs(program: Program, labels: Labels): Entries {
  const { graph, signature } = program.graph_module;
  const found: Entries = new Map();
  let position = 0;
  signature.input_specs.forEach((spec, index) => {
    const facts = argumentFacts(graph, graph.inputs[index] as Argument, labels);
    const target = targetOf(spec.value);
    let key: string;
    if (target !== "") {
      key = `${spec.variant.replaceAll("_", " ")} ${target}`;
      if (spec.variant === "buffer") facts.set("persistent", yes(spec.value.persistent));
    } else if (spec.variant === "token") {
      key = `token ${[...found.keys()].filter((name) => name.startsWith("token ")).length}`;
    } else {
      key = `argument ${position++}`;
    }
    found.set(key, facts);
  });
  return found;
}

function outputs(program: Program, labels: Labels): Entries {
  const { graph, signature } = program.graph_module;
  const found: Entries = new Map();
  let position = 0;
  signature.output_specs.forEach((spec, index) => {
    const target = spec.variant === "user_input_mutation" ? "" : targetOf(spec.value);
    const key = `${spec.variant.replaceAll("_", " ")} ${target === "" ? position++ : target}`;
    found.set(key, argumentFacts(graph, graph.outputs[index] as Argument, labels));
  });
  return found;
}

function rangeText({ min_val, max_val }: RangeConstraint): string {
  return `${min_val === null ? "(-∞" : `[${min_val}`}, ${max_val === null ? "∞)" : `${max_val}]`}`;
}

function ranges(program: Program, labels: Labels): Entries {
  return new Map(
    Array.from(program.range_constraints, ([text, limits]) => [labels.range(text), new Map([["range", rangeText(limits)]])] as const),
  );
}

function moduleCalls(program: Program): Entries {
  return new Map(
    program.graph_module.module_call_graph.map(({ fqn, signature }) => {
      const facts: Facts = new Map();
      if (signature !== null) {
        facts.set("inputs", structureText(signature.in_spec));
        facts.set("outputs", structureText(signature.out_spec));
        facts.set("argument names", (signature.forward_arg_names ?? []).join(", "));
      }
      return [fqn === "" ? "(root)" : fqn, facts] as const;
    }),
  );
}

/** Returns a container structure as readable text, such as `(*, {x: *})`; text that cannot be parsed stays unchanged. */
function structureText(text: string): string {
  try {
    return spelled(parseTreespec(text));
  } catch (error) {
    if (error instanceof GraphwireError) return text;
    throw error;
  }
}

function spelled(spec: TreeSpec): string {
  if (spec === null) return "*";
  const [name] = splitVersion(spec.type);
  const parts = spec.children.map(spelled).join(", ");
  if (name === "builtins.tuple") return `(${parts})`;
  if (name === "builtins.list") return `[${parts}]`;
  const context = typeof spec.context === "string" ? spec.context : compactJson(spec.context);
  return `${name.slice(name.lastIndexOf(".") + 1)}${context}(${parts})`;
}

function versions(program: Program): Entries {
  return new Map([
    ...Array.from(program.opset_version, ([name, version]) => [`opset ${name}`, new Map([["version", `${version}`]])] as const),
    ...program.verifiers.map((name) => [`dialect ${name}`, new Map<string, string>()] as const),
    ...program.requires.map((name) => [`requires ${name}`, new Map<string, string>()] as const),
  ]);
}

/** Returns the values that codecs encoded. */
export function encodedEntries(program: Program): Entries {
  return new Map(
    Array.from(program.encoded_values, ([name, { codec, tree, tensors }]) => {
      const data = compactJson([tree] as Tree);
      return [name, new Map([["codec", codec], ["data", data], ["tensors", tensors.join(", ")]])] as const;
    }),
  );
}

function namedtuples(program: Program): Entries {
  const fields = program.graph_module.treespec_namedtuple_fields;
  return new Map(Array.from(fields, ([name, { field_names }]) => [name, new Map([["fields", field_names.join(", ")]])] as const));
}

/** The sections of a program, in the order in which a diff lists them. Weights and constants come after them. */
export const SECTIONS: readonly (readonly [name: string, entries: Section])[] = [
  ["version", versions],
  ["input", inputs],
  ["output", outputs],
  ["range", ranges],
  ["guard", (program) => new Map(program.guards_code.map((text) => [text, new Map<string, string>()] as const))],
  ["module call", moduleCalls],
  ["namedtuple", namedtuples],
  ["encoded value", encodedEntries],
];

// ------------------------------------------------------------------------------------------------------------ payloads

export function integerOf(value: SymInt | undefined): bigint {
  return value?.variant === "as_int" ? value.value : 0n;
}

function numbersText(numbers: readonly (bigint | number | null)[]): string {
  return `[${numbers.map((number) => (number === null ? "None" : number.toString())).join(", ")}]`;
}

/** Returns the facts about a payload's metadata, independent of its position in the file. */
export function payloadFacts(payload: PayloadMeta): Facts {
  const facts: Facts = new Map([["parameter", yes(payload.is_param)]]);
  const meta = payload.tensor_meta;
  if (meta !== null) {
    facts.set("dtype", dtypeName(meta));
    facts.set("shape", numbersText(meta.sizes.map((size) => (size.variant === "as_int" ? size.value : null))));
    facts.set("layout", layoutText(meta));
    const strides = meta.strides.filter((_, index) => integerOf(meta.sizes[index]) !== 1n || meta.sizes[index]?.variant !== "as_int").map(integerOf);
    const order = strides.map((_, index) => index).sort((a, b) => Number((strides[b] ?? 0n) - (strides[a] ?? 0n)) || a - b);
    if (order.some((place, index) => place !== index)) facts.set("stride order", numbersText(order));
    if (strides.includes(0n)) facts.set("expanded", numbersText(meta.strides.map(integerOf)));
    facts.set("requires grad", yes(meta.requires_grad));
  }
  if (payload.conj) facts.set("conjugated", "yes");
  if (payload.neg) facts.set("negated", "yes");
  if (payload.use_pickle) facts.set("pickled", "yes");
  if (payload.placement !== null) facts.set("placement", payload.placement);
  return facts;
}
