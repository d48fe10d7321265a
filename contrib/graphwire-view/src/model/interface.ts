/** The interface of a program as its user wrote it: the trees of inputs and outputs, by name. */

import {
  namesIn, parseTreespec, splitVersion, targetOf,
  type Argument, type Graph, type Program, type TreeSpec,
} from "graphwire-js";

import { argumentText, valueFacts } from "./values.js";

/** A value, or a container of values. */
export interface Branch {
  /** The name of the argument, the key, the field, or `[0]`. */
  readonly name: string;
  /** The kind of a container, such as `dict`; empty for a value. */
  readonly container: string;
  /** The type of a value, such as `float32 [s0, 10]`, or the literal that it must be. */
  readonly type: string;
  /** The name of the value in the graph. */
  readonly value: string;
  readonly children: readonly Branch[];
}

export interface Interface {
  readonly inputs: readonly Branch[];
  /** One branch: what the call returns. */
  readonly outputs: readonly Branch[];
  /** What the call changes besides: buffers, inputs. */
  readonly effects: readonly { readonly what: string; readonly target: string; readonly value: string }[];
  /** The name of each user input, by its position among the inputs of the graph, such as `extra.a[0]`. */
  readonly inputNames: ReadonlyMap<number, string>;
  readonly outputNames: ReadonlyMap<number, string>;
}

interface Leaf {
  readonly position: number;
  readonly type: string;
  readonly value: string;
}

/** Returns the interface of a program. */
export function interfaceOf(program: Program): Interface {
  const { graph, signature, module_call_graph: calls, treespec_namedtuple_fields: fields } = program.graph_module;
  const called = calls.find(({ fqn }) => fqn === "")?.signature ?? null;
  const inputs = signature.input_specs.flatMap((spec, position): Leaf[] => {
    if (spec.arm === "user_input") return [leafOf(graph, position, spec.value.arg)];
    return spec.arm === "constant_input" ? [leafOf(graph, position, spec.value.value)] : [];
  });
  const outputs = signature.output_specs.flatMap((spec, position): Leaf[] => {
    return spec.arm === "user_output" ? [leafOf(graph, position, spec.value.arg)] : [];
  });
  const inSpec = called === null ? undefined : specOf(called.in_spec);
  const outSpec = called === null ? undefined : specOf(called.out_spec);
  const named = namedFields(fields);
  const trees = {
    inputs: inSpec === undefined ? flat(inputs, "input") : argumentsOf(inSpec, inputs, called?.forward_arg_names ?? [], named),
    outputs: outSpec === undefined ? flat(outputs, "output") : [branchOf("result", outSpec, queue(outputs), named)],
  };
  const effects = signature.output_specs.flatMap((spec) => {
    const what = EFFECTS[spec.arm];
    if (what === undefined || !("arg" in spec.value)) return [];
    return [{ what, target: targetOf(spec.value), value: (spec.value.arg as { readonly name: string }).name }];
  });
  return {
    ...trees,
    effects,
    inputNames: namesOf(trees.inputs, inputs),
    outputNames: namesOf(trees.outputs[0]?.container === "" ? trees.outputs : (trees.outputs[0]?.children ?? []), outputs),
  };
}

const EFFECTS: Readonly<Record<string, string>> = {
  buffer_mutation: "changes the buffer",
  parameter_mutation: "changes the parameter",
  user_input_mutation: "changes the input",
  gradient_to_parameter: "returns the gradient of the parameter",
  gradient_to_user_input: "returns the gradient of the input",
  loss_output: "returns the loss",
};

function specOf(text: string): TreeSpec | undefined {
  try {
    return parseTreespec(text);
  } catch {
    return undefined;
  }
}

function leafOf(graph: Graph, position: number, argument: Argument | { readonly arm: string; readonly value: unknown }): Leaf {
  const [value = ""] = namesIn(argument as Argument);
  if (value === "") return { position, value, type: argumentText(argument as Argument) };
  const facts = valueFacts(graph, value);
  return { position, value, type: facts.symbol === "" ? facts.type : `${facts.type} ${facts.symbol}` };
}

function flat(leaves: readonly Leaf[], word: string): Branch[] {
  return leaves.map((leaf, index) => ({ name: leaf.value === "" ? `${word} ${index}` : leaf.value, container: "", type: leaf.type, value: leaf.value, children: [] }));
}

type Queue = () => Leaf | undefined;
type Fields = (type: string) => readonly string[];

function queue(leaves: readonly Leaf[]): Queue {
  let at = 0;
  return () => leaves[at++];
}

/** The arguments of a call: a tuple of the positional ones, and a dict of those by name. */
function argumentsOf(spec: TreeSpec, leaves: readonly Leaf[], names: readonly string[], fields: Fields): Branch[] {
  const next = queue(leaves);
  const [positional, keywords] = spec?.children ?? [];
  if (spec?.children.length !== 2 || positional === undefined || keywords === undefined || positional === null || keywords === null) {
    return [branchOf("input", spec, next, fields)];
  }
  const byPosition = positional.children.map((child, index) => branchOf(names[index] ?? `argument ${index}`, child, next, fields));
  const keys = childNames(keywords, fields);
  return [...byPosition, ...keywords.children.map((child, index) => branchOf(keys[index] ?? "", child, next, fields))];
}

function branchOf(name: string, spec: TreeSpec, next: Queue, fields: Fields): Branch {
  if (spec === null) {
    const leaf = next();
    return { name, container: "", type: leaf?.type ?? "", value: leaf?.value ?? "", children: [] };
  }
  const names = childNames(spec, fields);
  const [type] = splitVersion(spec.type);
  const children = spec.children.map((child, index) => branchOf(names[index] ?? `[${index}]`, child, next, fields));
  if (children.length === 0 && type.endsWith("NoneType")) return { name, container: "", type: "None", value: "", children };
  return { name, container: type.slice(type.lastIndexOf(".") + 1), type: "", value: "", children };
}

/** The names of a container's children: its keys, the fields of a namedtuple, or nothing. */
function childNames(spec: NonNullable<TreeSpec>, fields: Fields): (string | undefined)[] {
  const context = typeof spec.context === "string" ? parsed(spec.context) : spec.context;
  const known = fields(typeof context === "string" ? context : spec.type);
  if (known.length === spec.children.length) return [...known];
  const keys = keysIn(context, spec.children.length);
  return keys ?? [];
}

function keysIn(context: unknown, count: number): string[] | undefined {
  if (!Array.isArray(context)) return undefined;
  const rows: readonly unknown[] = context;
  if (rows.length === count && rows.every((each) => typeof each !== "object" || each === null)) return rows.map(keyText);
  // A defaultdict has its factory first, an ordered container may have its keys last.
  for (const row of rows) {
    const found = keysIn(row, count);
    if (found !== undefined) return found;
  }
  return undefined;
}

function keyText(key: unknown): string {
  return typeof key === "string" ? key : `[${String(key)}]`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function namedFields(table: ReadonlyMap<string, { readonly field_names: readonly string[] }>): Fields {
  return (type) => table.get(type)?.field_names ?? [];
}

/** Returns the name of each value from the outside, such as `extra.a[0]`, by position in the graph. */
function namesOf(branches: readonly Branch[], leaves: readonly Leaf[]): Map<number, string> {
  const found: string[] = [];
  const visit = (branch: Branch, path: string): void => {
    const name = path === "" || branch.name.startsWith("[") ? `${path}${branch.name}` : `${path}.${branch.name}`;
    if (branch.container === "" && branch.children.length === 0) {
      if (branch.type !== "None" || branch.value !== "") found.push(name);
      return;
    }
    for (const child of branch.children) visit(child, name);
  };
  for (const branch of branches) visit(branch, "");
  if (found.length !== leaves.length) return new Map();
  return new Map(leaves.map(({ position }, index) => [position, found[index] ?? ""]));
}
