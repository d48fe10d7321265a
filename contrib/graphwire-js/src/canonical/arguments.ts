/** Contents of arguments and of container structures. */

import { dtypeName, type Layout, type MemoryFormat, type ScalarType } from "../enumerations.js";
import { GraphwireError } from "../errors.js";
import type { Argument, GraphArgument, OptionalTensorArgument, SymBoolArgument, SymFloatArgument, SymIntArgument } from "../schema.js";
import { compareText, floatLiteral } from "../summary.js";
import type { Tree, TreeMap } from "../trees.js";
import { parsedContext, parseTreespec, splitVersion, type TreeSpec } from "../treespecs.js";
import type { Content } from "./content.js";

/** The references of an argument: what stands in its content for each. */
export interface References {
  value(name: string): Content;
  results(name: string): Content;
  object(name: string, className: string): Content;
  graph(held: GraphArgument): Content;
}

const LAYOUTS: Readonly<Record<Layout, string>> = {
  Unknown: "unknown",
  SparseCoo: "sparse_coo",
  SparseCsr: "sparse_csr",
  SparseCsc: "sparse_csc",
  SparseBsr: "sparse_bsr",
  SparseBsc: "sparse_bsc",
  _mkldnn: "_mkldnn",
  Strided: "strided",
};
const MEMORY_FORMATS: Readonly<Record<MemoryFormat, string>> = {
  Unknown: "unknown",
  ContiguousFormat: "contiguous_format",
  ChannelsLast: "channels_last",
  ChannelsLast3d: "channels_last_3d",
  PreserveFormat: "preserve_format",
};

/** torch's name of a layout. */
export function layoutName(layout: Layout): string {
  return LAYOUTS[layout];
}

function dtypeContent(dtype: ScalarType): Content {
  return ["dtype", dtypeName({ dtype, dtype_name: null })];
}

function symbolic(given: SymIntArgument | SymFloatArgument | SymBoolArgument, on: References): Content {
  return given.variant === "as_name" ? on.value(given.value) : given.value;
}

function optionalTensor(given: OptionalTensorArgument, on: References): Content {
  return given.variant === "as_tensor" ? on.value(given.value.name) : null;
}

/** Returns the content of an argument. Calls `on` for its references, in order. */
export function argumentContent(argument: Argument, on: References): Content {
  const inner = (each: Argument): Content => argumentContent(each, on);
  const { variant, value } = argument;
  switch (variant) {
    case "as_none":
      return null;
    case "as_int":
    case "as_float":
    case "as_string":
    case "as_bool":
      return value;
    case "as_tensor":
      return on.value(value.name);
    case "as_tensors":
      return ["list", ...value.map((each) => on.value(each.name))];
    case "as_ints":
    case "as_floats":
    case "as_strings":
    case "as_bools":
      return ["list", ...value];
    case "as_sym_int":
    case "as_sym_float":
    case "as_sym_bool":
      return symbolic(value, on);
    case "as_sym_ints":
    case "as_sym_floats":
    case "as_sym_bools":
      return ["list", ...value.map((each) => symbolic(each, on))];
    case "as_scalar_type":
      return dtypeContent(value);
    case "as_memory_format":
      return ["memory format", MEMORY_FORMATS[value]];
    case "as_layout":
      return ["layout", LAYOUTS[value]];
    case "as_device":
      return ["device", value.type, value.index];
    case "as_graph":
      return on.graph(value);
    case "as_optional_tensor":
      return optionalTensor(value, on);
    case "as_optional_tensors":
      return ["list", ...value.map((each) => optionalTensor(each, on))];
    case "as_custom_obj":
      return on.object(value.name, value.class_fqn);
    case "as_operator":
      return ["operator", value];
    case "as_complex":
      return ["complex", value.real, value.imag];
    case "as_nested_tensors":
      return ["list", ...value.map((each): Content => ["list", ...each.map((item) => on.value(item.name))])];
    case "as_int_lists":
    case "as_float_lists":
      return ["list", ...value.map((each): Content => ["list", ...each])];
    case "as_string_to_argument":
      return ["mapping", ...Array.from(value, ([key, each]): Content => [key, inner(each)])];
    case "as_sequence":
      return ["list", ...value.items.map(inner)];
    case "as_mapping":
      return ["mapping", ...value.map((entry): Content => [inner(entry.key), inner(entry.value)])];
    case "as_slice":
      return ["slice", inner(value.start), inner(value.stop), inner(value.step)];
    case "as_dtype_name":
      return ["dtype", value];
    case "as_layout_name":
      return ["layout", value];
    case "as_constant":
      return ["constant", typeof value === "string" ? value : value.name];
    case "as_treespec":
      return ["treespec", structureContent(typeof value === "string" ? value : value.spec)];
    case "as_results":
      return on.results(value);
    case "as_range":
      return ["range", value.start, value.stop, value.step];
  }
}

/** The name of all results of a node together, which is no name of a value. */
export function resultsOf(node: string): string {
  return `all results of ${node}`;
}

/** Returns the names that an argument refers to, in order: of values, results and objects. */
export function referencesOf(argument: Argument): string[] {
  const found: string[] = [];
  const note = (name: string): Content => {
    found.push(name);
    return null;
  };
  argumentContent(argument, { value: note, results: (node) => note(resultsOf(node)), object: note, graph: () => null });
  return found;
}

// ---------------------------------------------------------------------------------------------------------- structures

/** Returns the content of a treespec, given its text. */
export function structureContent(text: string): Content {
  try {
    return specContent(parseTreespec(text));
  } catch (error) {
    if (error instanceof GraphwireError) return ["text", text];
    throw error;
  }
}

function specContent(spec: TreeSpec): Content {
  if (spec === null) return null;
  const [name, version] = splitVersion(spec.type);
  return [name, contextContent(name, version, spec.context), ...spec.children.map(specContent)];
}

function contextContent(name: string, version: number, given: Tree): Content {
  const parsed = parsedContext(given);
  if (typeof given === "string" && parsed === undefined) return ["text", given];
  let context = parsed === undefined ? given : parsed;
  if (typeof given !== "string" && isNamed(context)) context = context.slice(1);
  if (version >= 2) {
    context = name === "collections.defaultdict" ? defaultDict(context) : untagged(context);
  }
  return plainContent(context);
}

function isList(tree: Tree | undefined): tree is readonly Tree[] {
  return Array.isArray(tree);
}

function isMap(tree: Tree): tree is TreeMap {
  return tree instanceof Map;
}

function isText(tree: Tree): boolean {
  return typeof tree === "string";
}

/** Whether a context is the name of a class, and two lists of names of its fields. */
function isNamed(context: Tree): context is readonly Tree[] {
  if (!isList(context) || context.length !== 3 || typeof context[0] !== "string") return false;
  return context.slice(1).every((part) => isList(part) && part.every(isText));
}

function defaultDict(context: Tree): Tree {
  if (!isMap(context)) return untagged(context);
  const factory = context.get("factory");
  const text = typeof factory === "string" ? factory : "";
  const dot = text.lastIndexOf(".");
  return new Map<string, Tree>([
    ["default_factory_module", text.slice(0, Math.max(dot, 0))],
    ["default_factory_name", text.slice(dot + 1)],
    ["dict_context", untagged(context.get("keys") ?? null)],
  ]);
}

function untagged(tree: Tree): Tree {
  if (isList(tree)) return tree.map(untagged);
  if (!isMap(tree)) return tree;
  const dict = tree;
  const [first] = dict.keys();
  const content = dict.get(first ?? "") ?? null;
  if (first === "tuple" && isList(content)) return content.map(untagged);
  if (first === "float" && typeof content === "string") return FLOATS.get(content) ?? NaN;
  if (first === "bytes" && typeof content === "string") {
    return Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  }
  if (first === "enum") {
    return new Map<string, Tree>([["__enum__", true], ["fqn", content], ["name", dict.get("name") ?? null]]);
  }
  if (first === "dict" && isList(content)) {
    return new Map(
      content.map((pair) => {
        const [key = null, value = null] = isList(pair) ? pair.map(untagged) : [];
        return [typeof key === "string" ? key : jsonText(key), value] as const;
      }),
    );
  }
  return new Map(Array.from(dict, ([key, value]) => [key, untagged(value)]));
}

const FLOATS: ReadonlyMap<string, number> = new Map([
  ["inf", Infinity],
  ["-inf", -Infinity],
  ["nan", NaN],
]);

/** Returns JSON text as Python's module writes it. */
export function jsonText(tree: Tree): string {
  if (tree === null) return "null";
  if (typeof tree === "boolean") return tree ? "true" : "false";
  if (typeof tree === "bigint") return tree.toString();
  if (typeof tree === "number") return floatLiteral(tree);
  if (typeof tree === "string") return asciiJson(tree);
  if (tree instanceof Uint8Array) return asciiJson(bytesText(tree));
  if (isList(tree)) return `[${tree.map(jsonText).join(", ")}]`;
  return `{${Array.from(tree, ([key, value]) => `${asciiJson(key)}: ${jsonText(value)}`).join(", ")}}`;
}

function asciiJson(text: string): string {
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, escape).replace(/\\u([0-9A-F]{4})/g, (all) => all.toLowerCase());
}

/** Returns bytes as Python's `repr` prints them. */
function bytesText(bytes: Uint8Array): string {
  const single = !bytes.includes(39) || bytes.includes(34);
  const quote = single ? "'" : '"';
  const named: Readonly<Partial<Record<number, string>>> = { 9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\" };
  const text = Array.from(bytes, (byte) => {
    if (byte === 39 && single) return "\\'";
    const plain = byte >= 32 && byte < 127 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
    return named[byte] ?? plain;
  });
  return `b${quote}${text.join("")}${quote}`;
}

/** Returns plain data with lists and dicts as lists that begin with their kind. */
export function plainContent(tree: Tree): Content {
  if (isList(tree)) return ["list", ...tree.map(plainContent)];
  if (!isMap(tree)) return tree;
  const rows = Array.from(tree).sort(([a], [b]) => compareText(a, b));
  return ["mapping", ...rows.map(([key, value]): Content => [key, plainContent(value)])];
}
