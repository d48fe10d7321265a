/** The interface of a program as its author wrote it: nested arguments and results, by name. */

import { valueFacts } from "./diff/facts.js";
import { argumentText } from "./diff/plain.js";
import { GraphwireError } from "./errors.js";
import { Labels, userInputs, valueName } from "./labels.js";
import type { Argument, Graph, Program } from "./schema.js";
import { literalText } from "./summary.js";
import type { Tree, TreeMap } from "./trees.js";
import { parsedContext, parseTreespec, splitVersion, type TreeSpec } from "./treespecs.js";

/** An argument, a result, or a part of one: a container with its children, or a leaf. */
export interface InterfaceTree {
  /** The parameter, key, field or index under which its container holds it; empty for the result as a whole. */
  readonly name: string;
  /** For a container: its serialized type, or the serialized name of a namedtuple's class; `?` if the structure is unknown. */
  readonly container: string;
  /** For a leaf: what it is, such as `float32 [tokens.shape[0], 100]`. */
  readonly leaf: string;
  /** For a leaf: the name of the value in the graph; empty for a literal. */
  readonly value: string;
  readonly children: readonly InterfaceTree[];
}

/** The arguments that a program takes, and its result. */
export interface Interface {
  readonly inputs: readonly InterfaceTree[];
  readonly keywords: readonly InterfaceTree[];
  readonly output: InterfaceTree;
}

/** A part of a structure: a container's type and its children, or a leaf (with a null container). */
interface Part {
  name: string;
  readonly container: string | null;
  readonly children: readonly Part[];
  /** How Python reaches it from its container: `["logits"]`, `[0]` or `.x`. */
  readonly step: string;
}

type Fields = Program["graph_module"]["treespec_namedtuple_fields"];

const UNKNOWN = "?";
const [TUPLE, DICT, NAMEDTUPLE] = ["builtins.tuple", "builtins.dict", "collections.namedtuple"];
/** The containers whose children are reached by key, not by attribute. */
const KEYED: ReadonlySet<string> = new Set([DICT, "collections.OrderedDict", "collections.defaultdict"]);

/** Returns the interface of a program, and names for its symbols that refer to it. Without usable treespecs, it is flat. */
export function interfaceOf(program: Program): { interface: Interface; labels: Labels } {
  const { graph, signature, module_call_graph: calls, treespec_namedtuple_fields: fields } = program.graph_module;
  const given = userInputs(program);
  const made = signature.output_specs.flatMap((spec) => (spec.variant === "user_output" ? [spec.value.arg] : []));
  const root = calls.find(({ fqn }) => fqn === "")?.signature ?? null;
  const called = root === null ? null : calledParts(root.in_spec, root.forward_arg_names, fields, given.length);
  const [inputs, keywords] = called ?? [given.map((each, index) => leafPart(valueName(each) ?? `args[${index}]`)), []];
  const output = (root === null ? null : structured(root.out_spec, fields, made.length)) ?? flatResult(made.length);
  nameLeaves(inputs, given);
  const labels = new Labels(program, new Map(), [...inputs, ...keywords].flatMap((part) => pathsOf(part, part.name)));
  const leaves = given.map((each) => leafOf(graph, each, labels)).values();
  const results = made.map((each) => leafOf(graph, each, labels)).values();
  return {
    interface: {
      inputs: inputs.map((part) => treeOf(part, leaves)),
      keywords: keywords.map((part) => treeOf(part, leaves)),
      output: treeOf(output, results),
    },
    labels,
  };
}

function leafPart(name: string, step = ""): Part {
  return { name, container: null, children: [], step };
}

function leavesOf(part: Part): number {
  return part.container === null ? 1 : part.children.reduce((sum, child) => sum + leavesOf(child), 0);
}

/** Returns the positional and the keyword arguments of `((args…), {name: …})`; null for another structure. */
function calledParts(text: string, names: readonly string[] | null, fields: Fields, leaves: number): [Part[], Part[]] | null {
  const whole = structured(text, fields, leaves);
  if (whole?.container !== TUPLE || whole.children.length !== 2) return null;
  const [positional, keywords] = whole.children as readonly [Part, Part];
  if (positional.container !== TUPLE || keywords.container !== DICT) return null;
  positional.children.forEach((part, index) => {
    part.name = names?.[index] ?? `args[${index}]`;
  });
  return [[...positional.children], [...keywords.children]];
}

/** Returns the structure that a treespec describes; null if it cannot be parsed, or has another number of leaves. */
function structured(text: string, fields: Fields, leaves: number): Part | null {
  try {
    const part = partOf("", parseTreespec(text), fields);
    return leavesOf(part) === leaves ? part : null;
  } catch (error) {
    if (error instanceof GraphwireError) return null;
    throw error;
  }
}

function partOf(name: string, spec: TreeSpec, fields: Fields, step = ""): Part {
  if (spec === null) return leafPart(name, step);
  const [container] = splitVersion(spec.type);
  const keys = childKeys(container, spec, fields);
  const children = spec.children.map((child, index) => {
    if (keys === null) return partOf(`${index}`, child, fields, `[${index}]`);
    const key = literalText(keys[index]);
    const quoted = typeof keys[index] === "string" ? JSON.stringify(key) : key;
    return partOf(key, child, fields, KEYED.has(container) ? `[${quoted}]` : `.${key}`);
  });
  const named = container === NAMEDTUPLE && typeof spec.context === "string" ? spec.context : container;
  return { name, container: named, children, step };
}

/** Returns the keys or fields of a container's children; null if it has only positions. */
function childKeys(container: string, spec: NonNullable<TreeSpec>, fields: Fields): readonly Tree[] | null {
  const listed = listedKeys(container, spec.context, fields);
  if (!isList(listed) || listed.length !== spec.children.length) return null;
  return KEYED.has(container) || listed.every((each) => typeof each === "string") ? listed : null;
}

function listedKeys(container: string, context: Tree, fields: Fields): Tree | undefined {
  if (container === NAMEDTUPLE && typeof context === "string") {
    const known = fields.get(context);
    return known === undefined ? undefined : [...known.field_names];
  }
  const loaded = typeof context === "string" ? parsedContext(context) : context;
  if (loaded instanceof Map) return ["fields", "dict_context", "keys"].map((name) => (loaded as TreeMap).get(name)).find(isList);
  if (isList(loaded) && !KEYED.has(container)) {
    const [listed, none] = loaded.slice(-2); // a dataclass: its fields, and those that are None
    if (isList(listed) && isList(none)) return listed;
  }
  return loaded;
}

function isList(tree: Tree | undefined): tree is readonly Tree[] {
  return Array.isArray(tree);
}

function flatResult(count: number): Part {
  if (count === 1) return leafPart("");
  return { name: "", container: UNKNOWN, children: Array.from({ length: count }, (_, index) => leafPart(`${index}`)), step: "" };
}

/** Gives the arguments whose names the document does not contain the names of their placeholders. */
function nameLeaves(parts: readonly Part[], values: readonly Argument[]): void {
  let position = 0;
  parts.forEach((part, index) => {
    const value = values[position];
    if (part.container === null && part.name === `args[${index}]` && value !== undefined) part.name = valueName(value) ?? part.name;
    position += leavesOf(part);
  });
}

/** Returns for each leaf how its value is reached from the argument, such as `batch["tokens"]`. */
function pathsOf(part: Part, path: string): string[] {
  return part.container === null ? [path] : part.children.flatMap((child) => pathsOf(child, path + child.step));
}

type Leaf = Pick<InterfaceTree, "leaf" | "value">;

function treeOf(part: Part, leaves: Iterator<Leaf>): InterfaceTree {
  const { name, container } = part;
  if (container !== null) return { name, container, leaf: "", value: "", children: part.children.map((child) => treeOf(child, leaves)) };
  const { leaf, value } = (leaves.next() as IteratorYieldResult<Leaf>).value;
  return { name, container: "", leaf, value, children: [] };
}

/** Returns what a leaf is as text, and the name of its value in the graph. */
function leafOf(graph: Graph, argument: Argument, labels: Labels): Leaf {
  const name = valueName(argument);
  if (name === null) return { leaf: argumentText(argument), value: "" };
  const facts = valueFacts(graph, name, labels);
  const [kind, value = ""] = [facts.get("kind"), facts.get("value")];
  if (kind === undefined) return { leaf: UNKNOWN, value: name };
  if (kind === "tensor") return { leaf: `${facts.get("dtype") ?? ""} ${facts.get("shape") ?? ""}`, value: name };
  return { leaf: kind === "object" ? (facts.get("class") ?? "") : `${kind} ${value}`, value: name };
}
