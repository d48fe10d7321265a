/** The interface of a program as its author wrote it, and what a call changes besides. */

import { interfaceOf, namesIn, targetOf, type Interface, type InterfaceTree, type Program } from "graphwire-js";

export interface Effect {
  readonly what: string;
  readonly target: string;
  /** The name of the value in the graph. */
  readonly value: string;
}

export interface Face extends Interface {
  readonly effects: readonly Effect[];
  /** How a user reaches each input, such as `extra["a"][0]`, by its position among the inputs of the graph. */
  readonly inputNames: ReadonlyMap<number, string>;
  readonly outputNames: ReadonlyMap<number, string>;
}

const EFFECTS: Readonly<Partial<Record<string, string>>> = {
  buffer_mutation: "changes the buffer",
  parameter_mutation: "changes the parameter",
  user_input_mutation: "changes the input",
  gradient_to_parameter: "returns the gradient of the parameter",
  gradient_to_user_input: "returns the gradient of the input",
  loss_output: "returns the loss",
};

/** Returns the interface of a program. */
export function faceOf(program: Program): Face {
  const { interface: face } = interfaceOf(program);
  const { input_specs: inputs, output_specs: outputs } = program.graph_module.signature;
  const effects = outputs.flatMap((spec): Effect[] => {
    const what = EFFECTS[spec.variant];
    if (what === undefined || !("arg" in spec.value)) return [];
    return [{ what, target: targetOf(spec.value), value: (spec.value.arg as { readonly name: string }).name }];
  });
  effects.push(...inPlace(program));
  const positions = (specs: readonly { readonly variant: string }[], variants: readonly string[]): number[] =>
    specs.flatMap(({ variant }, index) => (variants.includes(variant) ? [index] : []));
  const given = [...face.inputs, ...face.keywords].flatMap((tree) => leafNames(tree, tree.name));
  const made = leafNames(face.output, "result");
  return {
    ...face,
    effects,
    inputNames: new Map(positions(inputs, ["user_input", "constant_input"]).map((position, index) => [position, given[index] ?? ""])),
    outputNames: new Map(positions(outputs, ["user_output"]).map((position, index) => [position, made[index] ?? ""])),
  };
}

const HELD: Readonly<Partial<Record<string, string>>> = { buffer: "buffer", parameter: "parameter", user_input: "input" };

/** Returns what nodes of the graph change in place, each once: PyTorch ends the names of such operators with `_`. */
function inPlace({ graph_module: { graph, signature } }: Program): Effect[] {
  const held = new Map(signature.input_specs.flatMap(({ variant, value }) => {
    const what = HELD[variant];
    if (what === undefined || !("arg" in value)) return [];
    const name = "name" in value.arg ? value.arg.name : (namesIn(value.arg)[0] ?? "");
    return [[name, { what: `changes the ${what}`, target: targetOf(value) || name }] as const];
  }));
  return graph.nodes.flatMap(({ target, inputs: [first], outputs }): Effect[] => {
    const changed = first !== undefined && /[^_]_(\.\w+)?$/.test(target) ? (namesIn(first.arg)[0] ?? "") : "";
    const found = held.get(changed);
    held.delete(changed);
    return found === undefined ? [] : [{ ...found, value: outputs.flatMap(namesIn)[0] ?? changed }];
  });
}

const KEYED: ReadonlySet<string> = new Set(["builtins.dict", "collections.OrderedDict", "collections.defaultdict"]);

/** Returns how a user reaches each leaf. */
function leafNames({ container, children }: InterfaceTree, path: string): string[] {
  if (container === "") return [path];
  return children.flatMap((child) => {
    if (/^\d+$/.test(child.name)) return leafNames(child, `${path}[${child.name}]`);
    return leafNames(child, KEYED.has(container) ? `${path}[${JSON.stringify(child.name)}]` : `${path}.${child.name}`);
  });
}
