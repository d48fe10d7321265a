/** Makes the items of a program. */

import { namesIn, nodeName, subgraphsOf, type Argument, type Graph, type Node, type Program } from "graphwire-js";

import { faceOf, type Face } from "./interface.js";
import { framesOf, frameSteps, repeatedCalls, type Frame, type Framed } from "./frames.js";
import { Item, linkArgument, shortOperator, type Items, type Kind, type Scope } from "./items.js";
import { moduleSteps, rootType, shortType, type ModuleStep } from "./metadata.js";
import { valueFacts } from "./values.js";
import type { Weight } from "./weights.js";

/** Makes items, and numbers them. */
export class Builder {
  constructor(
    readonly side: 0 | 1,
    readonly all: Item[] = [],
  ) {}

  add(
    kind: Kind,
    place: { readonly parent: Item | null; readonly scope: Scope },
    given: { readonly name: string; readonly title?: string; readonly type?: string; readonly node?: Node; readonly values?: readonly string[] },
    makes = true,
  ): Item {
    const { name, title = name, type = "", node = null, values = [] } = given;
    const item = new Item(this.all.length, kind, name, title.trim() === "" ? `"${title}"` : title, type, place.parent, place.scope, node, values);
    this.all.push(item);
    if (makes) for (const value of values) place.scope.makers.set(value, item);
    return item;
  }
}

export function scopeOf(graph: Graph, prefix: string, side: 0 | 1): Scope {
  return { graph, prefix, makers: new Map(), nodes: new Map(), side };
}

/** A program as items, with its interface. */
export interface ProgramItems extends Items {
  readonly all: Item[];
  readonly interface: Face;
}

/** Returns the items of a program. */
export function itemsOf(program: Program, name: string, weights: readonly Weight[], side: 0 | 1 = 0): ProgramItems {
  const builder = new Builder(side);
  const { graph } = program.graph_module;
  const scope = scopeOf(graph, "", side);
  const type = shortType(rootType(graph.nodes));
  const root = builder.add("program", { parent: null, scope }, { name, title: name, type });
  const face = faceOf(program);
  addWeights(builder, root, scope, weights);
  addInputs(builder, root, scope, program, face);
  addNodes(builder, root, scope, []);
  addOutputs(builder, root, scope, program, face);
  countNodes(root);
  return { root, all: builder.all, interface: face };
}

/** Adds the weights that the graph uses. Weights with the same elements are one item. */
function addWeights(builder: Builder, root: Item, scope: Scope, weights: readonly Weight[]): void {
  const tied = new Map<string, Weight[]>();
  for (const weight of weights) {
    if (weight.value === "") continue;
    const key = `${weight.storage} ${weight.dtype} ${weight.shape}`;
    tied.set(key, [...(tied.get(key) ?? []), weight]);
  }
  for (const group of tied.values()) {
    const [{ name, value }] = group as [Weight];
    const title = group.map((weight) => weight.name).join(" = ");
    builder.add("weight", { parent: root, scope }, { name, title, type: valueFacts(scope.graph, value).type, values: group.map((weight) => weight.value) });
  }
}

function addInputs(builder: Builder, root: Item, scope: Scope, program: Program, face: Face): void {
  const { graph } = program.graph_module;
  graph.inputs.forEach((argument, index) => {
    const values = namesIn(argument);
    const [value = ""] = values;
    if (value === "" || scope.makers.has(value)) return; // a literal, which the interface shows, or a weight
    const name = graph.input_names?.[index] ?? value;
    const title = face.inputNames.get(index) ?? name;
    builder.add("input", { parent: root, scope }, { name, title, type: valueFacts(graph, value).type, values });
  });
}

function addOutputs(builder: Builder, root: Item, scope: Scope, program: Program, face: Face): void {
  const { graph, signature } = program.graph_module;
  graph.outputs.forEach((argument, index) => {
    const title = face.outputNames.get(index) ?? `output ${index}`;
    const [value = ""] = namesIn(argument);
    if (value === "") return; // a literal, which the interface shows
    const variant = signature.output_specs[index]?.variant ?? "user_output";
    const item = builder.add("output", { parent: root, scope }, { name: `output ${index}`, title, type: valueFacts(graph, value).type || variant.replaceAll("_", " ") });
    linkArgument(scope, item, argument, title);
  });
}

/** Adds the nodes of a graph. `known` are the modules around the graph itself. */
function addNodes(builder: Builder, parent: Item, scope: Scope, known: readonly ModuleStep[]): void {
  const { nodes } = scope.graph;
  const steps = nodes.map(moduleSteps);
  const add = (around: Item, content: readonly (Frame | number)[]): void => {
    for (const each of content) {
      if (typeof each !== "number") {
        const { name, title, type, call } = each.step;
        const module = builder.add("module", { parent: around, scope }, { name, title, type: shortType(type) });
        module.call = call;
        add(module, each.content);
        continue;
      }
      const node = nodes[each] as Node;
      const name = nodeName(node) || node.target;
      const item = builder.add("node", { parent: around, scope }, { name, title: shortOperator(node.target), type: node.target, node, values: node.outputs.flatMap(namesIn) });
      scope.nodes.set(name, item);
      addSubgraphs(builder, item, node, steps[each] ?? []);
    }
  };
  add(parent, framesOf(framed(nodes, steps.map((each) => each.slice(commonSteps(each, known))))));
  for (const node of nodes) {
    const item = scope.nodes.get(nodeName(node) || node.target);
    if (item !== undefined) for (const { name, arg } of node.inputs) linkArgument(scope, item, arg, name);
  }
}

function framed(nodes: readonly Node[], steps: readonly (readonly ModuleStep[])[]): Framed[] {
  const makers = new Map<string, number>();
  const repeated = repeatedCalls(steps);
  return nodes.map((node, index) => {
    const used = node.inputs.flatMap(({ arg }) => (arg.variant === "as_results" ? [`= ${arg.value}`] : namesIn(arg)));
    const operands = [...new Set(used.flatMap((value) => makers.get(value) ?? []))];
    for (const value of node.outputs.flatMap(namesIn)) makers.set(value, index);
    makers.set(`= ${nodeName(node) || node.target}`, index);
    return { steps: frameSteps(steps[index] ?? [], repeated), operands };
  });
}

/** Operators whose last operands are those of their graphs. */
const GIVES = /^torch\.ops\.higher_order\.(cond|while_loop|scan|associative_scan|map_impl|invoke_subgraph|wrap.*|.*checkpoint.*|hints_wrapper|strict_mode)$/;

/** Between the name of an input of a graph and that of what the call passes. */
const FROM = " ← ";

/** Returns the values that a node gives to a graph of some inputs, from the first one on; empty where nobody knows. */
function givenValues({ target, inputs }: Node, count: number): string[] {
  const values = GIVES.test(target) ? inputs.flatMap(({ arg }) => (arg.variant === "as_graph" ? [] : valuesIn(arg))) : [];
  return Array.from({ length: count }, (_, index) => values[values.length - count + index] ?? "");
}

/** Returns the values of an argument; an empty text for each literal. */
function valuesIn(argument: Argument): string[] {
  if (argument.variant === "as_sequence") return argument.value.items.flatMap(valuesIn);
  const names = namesIn(argument);
  return names.length === 0 ? [""] : names;
}

/** What the graphs of operators of control flow are for, in their order. */
const ROLES: Readonly<Record<string, readonly string[]>> = { cond: ["then", "else"], while_loop: ["while", "do"], scan: ["each"], associative_scan: ["each"], map_impl: ["each"] };

function addSubgraphs(builder: Builder, item: Item, node: Node, steps: readonly ModuleStep[]): void {
  const roles = ROLES[node.target.replace("torch.ops.higher_order.", "")] ?? [];
  const [condition = ""] = node.inputs.slice(0, 1).flatMap(({ arg }) => namesIn(arg));
  for (const [index, held] of subgraphsOf(node).entries()) {
    const argument = node.inputs.find(({ arg }) => arg.variant === "as_graph" && arg.value === held)?.name ?? "";
    const scope = scopeOf(held.graph, `${item.scope.prefix}${held.name}/`, builder.side);
    const role = roles[index] ?? (argument === held.name ? "" : argument);
    const title = [role === "then" && condition !== "" ? `then, if ${condition}` : role, held.name].filter((each) => each !== "").join(" · ");
    const group = builder.add("subgraph", { parent: item, scope: item.scope }, { name: held.name, title });
    const given = givenValues(node, held.graph.inputs.length);
    held.graph.inputs.forEach((input, index) => {
      const values = namesIn(input);
      const name = held.graph.input_names?.[index] ?? values[0] ?? `input ${index}`;
      const { type } = valueFacts(held.graph, values[0] ?? "");
      const outside = item.scope.makers.get(given[index] ?? "");
      if (outside?.kind === "weight" && outside.type === type) { // as at the outermost graph, no input
        for (const value of values) scope.makers.set(value, outside);
        return;
      }
      const source = outside === undefined ? "" : outside.kind === "input" ? (outside.title.split(FROM).at(-1) ?? "") : outside.kind === "weight" ? outside.name : (given[index] ?? "");
      builder.add("input", { parent: group, scope }, { name, title: source === "" || source === name ? name : name + FROM + source, type, values });
    });
    addNodes(builder, group, scope, steps);
    held.graph.outputs.forEach((output, index) => {
      const type = valueFacts(held.graph, namesIn(output)[0] ?? "").type;
      const made = builder.add("output", { parent: group, scope }, { name: `output ${index}`, type });
      linkArgument(scope, made, output, "output");
    });
  }
}

function commonSteps(steps: readonly ModuleStep[], known: readonly ModuleStep[]): number {
  let count = 0;
  while (count < known.length && count < steps.length && steps[count]?.path === known[count]?.path) count += 1;
  return count;
}

/** Counts the nodes in each item. */
export function countNodes(item: Item): number {
  item.nodes = item.children.reduce((sum, child) => sum + countNodes(child), item.kind === "node" ? 1 : 0);
  return item.nodes;
}
