/** Differences between the nodes of two graphs: added, removed, moved and changed nodes, with details of each change. */

import { argumentContent, referencesOf, type References } from "../canonical/arguments.js";
import { sameContent, type Content } from "../canonical/content.js";
import { PURE } from "../canonical/effects.js";
import type { Ordering, Step } from "../canonical/order.js";
import { toHex } from "../checksums.js";
import { GraphwireError } from "../errors.js";
import { parseJson } from "../json.js";
import { namesIn, subgraphsOf } from "../programs.js";
import type { Argument, Graph, Node } from "../schema.js";
import type { Tree } from "../trees.js";
import type { Labels } from "../labels.js";
import { isSameTensor, valueFacts, type Facts } from "./facts.js";
import { increasingRun, match, type Pair } from "./matching.js";
import { argumentText } from "./plain.js";

/** One fact that differs between the two sides; the text is empty on a side without it. */
export interface Detail {
  readonly what: string;
  readonly a: string;
  readonly b: string;
}

export type ChangeKind = "added" | "removed" | "changed" | "moved";

/** A node that only one side has, or that differs between the two sides. Fields are absent if they say nothing. */
export interface NodeChange {
  readonly change: ChangeKind;
  readonly operator: string;
  /** The qualified name of the module that called it; empty for the root. */
  readonly module: string;
  /** The node's name in its own program (on side B if it has the node). */
  readonly name: string;
  /** The names of the subgraphs that contain it, joined by slashes. */
  readonly graph?: string;
  readonly index_a?: number;
  readonly index_b?: number;
  readonly details?: readonly Detail[];
  /** Whether only the type or shape of its results differs, because its inputs do. */
  readonly derived?: true;
}

/** One of the two graphs that are compared. */
export interface Side {
  readonly graph: Graph;
  /** For each input, by name, a text that identifies it and is the same on both sides. */
  readonly identities: ReadonlyMap<string, string>;
  readonly labels: Labels;
  readonly ordering: Ordering;
  /** Returns the path on side B of a module, where layers have other numbers there. */
  readonly renamed?: (path: string) => string;
}

/** Returns the facts about an entry that differ. */
export function factDetails(a: Facts, b: Facts, prefix = ""): Detail[] {
  return [...new Set([...a.keys(), ...b.keys()])]
    .map((fact) => ({ what: `${prefix}${fact}`, a: a.get(fact) ?? "", b: b.get(fact) ?? "" }))
    .filter((detail) => detail.a !== detail.b);
}

/** The name on side B of each value of side A. */
export type Names = ReadonlyMap<string, string>;

/** Receives the matching nodes of two graphs, by their positions. It is called for each pair of matching graphs. */
export type OnMatch = (a: Graph, b: Graph, pairs: readonly Pair[]) => void;

/** Returns the differences between two graphs and their subgraphs, in the order of side B, and the matched names. */
export function diffGraphs(a: Side, b: Side, onMatch?: OnMatch, place = ""): { readonly changes: NodeChange[]; readonly names: Names } {
  const [stepsA, stepsB] = [a.ordering.ordered(a.graph).steps, b.ordering.ordered(b.graph).steps];
  const numbers = new Numbers();
  const pairs = match(keysOf(a, stepsA, numbers), keysOf(b, stepsB, numbers), a.renamed === undefined ? 2 : 4);
  onMatch?.(a.graph, b.graph, pairs);
  const names = matchedNames(a, b, stepsA, stepsB, pairs);
  const matchedA = new Map(pairs);
  const matchedB = new Set(pairs.map(([, other]) => other));
  const moved = movedNodes(stepsA, stepsB, pairs);
  const found: (readonly [number, NodeChange])[] = [];
  const differing = differingInputs(a, b, names);
  for (const [one, other] of [...pairs].sort(([, x], [, y]) => x - y)) {
    const [nodeA, nodeB] = [a.graph.nodes[one] as Node, b.graph.nodes[other] as Node];
    const details = nodeDetails(a, b, nodeA, nodeB, names);
    const ofResults = details.filter((detail) => detail.what.startsWith("result")).length;
    if (details.length > 0 || moved.has(other)) {
      const step = stepsB[other] as Step;
      const derived = ofResults > 0 && ofResults === details.length && step.uses.some((name) => differing.has(name));
      if (ofResults > 0) for (const name of step.makes) differing.add(name);
      const kind = details.length > 0 ? "changed" : "moved";
      found.push([other, changeOf(kind, nodeB, place, { index_a: one, index_b: other }, details, derived)]);
    }
    for (const each of subgraphChanges(a, b, nodeA, nodeB, onMatch, place)) found.push([other, each]);
  }
  let last = -1;
  a.graph.nodes.forEach((node, index) => {
    const other = matchedA.get(index);
    if (other !== undefined) last = other;
    else found.push([last + 0.5, changeOf("removed", node, place, { index_a: index })]);
  });
  b.graph.nodes.forEach((node, index) => {
    if (!matchedB.has(index)) found.push([index, changeOf("added", node, place, { index_b: index })]);
  });
  return { changes: found.sort(([x], [y]) => x - y).map(([, change]) => change), names };
}

/** The inputs of side B that side A also has, of another type or shape. */
function differingInputs(a: Side, b: Side, names: Names): Set<string> {
  const matched = [...a.identities.keys()].map((name) => [name, names.get(name)] as const);
  return new Set(
    matched.flatMap(([name, other]) => {
      if (other === undefined) return [];
      return factDetails(valueFacts(a.graph, name, a.labels), valueFacts(b.graph, other, b.labels)).length > 0 ? [other] : [];
    }),
  );
}

function changeOf(
  change: ChangeKind,
  node: Node,
  place: string,
  indices: { index_a?: number; index_b?: number },
  details: readonly Detail[] = [],
  derived = false,
): NodeChange {
  return {
    change,
    operator: node.target,
    module: modulePath(node),
    name: node.name ?? node.outputs.flatMap(namesIn)[0] ?? "",
    ...(place === "" ? {} : { graph: place }),
    ...indices,
    ...(details.length === 0 ? {} : { details }),
    ...(derived ? { derived } : {}),
  };
}

/** Returns the qualified name of the module that called a node; empty for the root, or if it is not known. */
export function modulePath({ metadata }: Node): string {
  const exact = metadata.get("graphwire.nn_module_stack");
  if (exact !== undefined) return exactPath(exact);
  const stack = metadata.get("nn_module_stack") ?? "";
  const innermost = stack.slice(stack.lastIndexOf(";") + 1);
  const comma = innermost.indexOf(",");
  const rest = comma < 0 ? "" : innermost.slice(comma + 1);
  const last = rest.lastIndexOf(",");
  return (last < 0 ? "" : rest.slice(0, last)).split("@")[0] ?? "";
}

function exactPath(text: string): string {
  let rows: Tree;
  try {
    rows = parseJson(text);
  } catch (error) {
    if (error instanceof GraphwireError) return "";
    throw error;
  }
  const row: Tree | undefined = Array.isArray(rows) ? (rows as readonly Tree[]).at(-1) : undefined;
  const path: Tree | undefined = Array.isArray(row) ? (row as readonly Tree[])[1] : undefined;
  return typeof path === "string" ? path : "";
}

// ------------------------------------------------------------------------------------------------------------ matching

/** Gives each text a short one of its own, so that keys of keys stay short. */
class Numbers {
  private readonly known = new Map<string, string>();

  of(text: string): string {
    const known = this.known.get(text) ?? String(this.known.size);
    this.known.set(text, known);
    return known;
  }
}

/**
 * Returns the keys of each node, the most specific first: all that it computes from the inputs; the node and the operators that make
 * its arguments; the node alone; its module and operator.
 */
function keysOf({ identities, graph, renamed = (path) => path }: Side, steps: readonly Step[], numbers: Numbers): string[][] {
  const values = new Map<string, string>(Array.from(identities, ([name, identity]) => [name, `input ${identity}`]));
  const makers = new Map(values);
  let effects = 0;
  return steps.map((step, index) => {
    if (step.effect !== PURE) effects += 1;
    const turn = step.effect === PURE ? "" : String(effects);
    const shape = numbers.of(toHex(step.shape));
    const computed = numbers.of(JSON.stringify([step.node.target, shape, turn, ...step.uses.map((name) => values.get(name) ?? name)]));
    step.makes.forEach((name, position) => {
      values.set(name, `${computed} ${position}`);
      makers.set(name, step.node.target);
    });
    const place = [renamed(modulePath(graph.nodes[index] as Node)), step.node.target];
    const itself = [...place, shape];
    const sources = step.uses.map((name) => makers.get(name) ?? name);
    return [computed, JSON.stringify([itself, sources]), JSON.stringify(itself), JSON.stringify(place)];
  });
}

function matchedNames(a: Side, b: Side, stepsA: readonly Step[], stepsB: readonly Step[], pairs: readonly Pair[]): Names {
  const inputsB = new Map(Array.from(b.identities, ([name, identity]) => [identity, name] as const));
  const names = new Map<string, string>();
  for (const [name, identity] of a.identities) {
    const other = inputsB.get(identity);
    if (other !== undefined) names.set(name, other);
  }
  for (const [one, other] of pairs) {
    const makes = stepsB[other]?.makes ?? [];
    stepsA[one]?.makes.forEach((name, position) => {
      const match = makes[position];
      if (match !== undefined) names.set(name, match);
    });
  }
  return names;
}

/** Returns the indices on side B of nodes with effects whose relative order changed. Pure nodes never count as moved. */
function movedNodes(stepsA: readonly Step[], stepsB: readonly Step[], pairs: readonly Pair[]): Set<number> {
  const effects = pairs.filter(([one, other]) => stepsA[one]?.effect !== PURE && stepsB[other]?.effect !== PURE);
  const kept = new Set(increasingRun(effects.map(([, other]) => other)));
  return new Set(effects.filter((_, index) => !kept.has(index)).map(([, other]) => other));
}

// ------------------------------------------------------------------------------------------------------------ one node

function nodeDetails(a: Side, b: Side, nodeA: Node, nodeB: Node, names: Names): Detail[] {
  const found: Detail[] = [];
  if (nodeA.target !== nodeB.target) found.push({ what: "operator", a: nodeA.target, b: nodeB.target });
  const inputsOf = (node: Node): Map<string, Argument> =>
    new Map(node.inputs.map(({ name, arg }, index) => [name === "" ? `input ${index}` : name, arg] as const));
  const [inputsA, inputsB] = [inputsOf(nodeA), inputsOf(nodeB)];
  for (const name of new Set([...inputsA.keys(), ...inputsB.keys()])) {
    const [one, other] = [inputsA.get(name), inputsB.get(name)];
    if (one === undefined || other === undefined || !sameArgument(one, other, names)) {
      found.push({ what: name, a: one === undefined ? "" : argumentText(one), b: other === undefined ? "" : argumentText(other) });
    }
  }
  const [madeA, madeB] = [nodeA.outputs.flatMap(namesIn), nodeB.outputs.flatMap(namesIn)];
  if (madeA.length !== madeB.length) found.push({ what: "results", a: String(madeA.length), b: String(madeB.length) });
  madeA.slice(0, madeB.length).forEach((name, position) => {
    if (isSameTensor(a.graph.tensor_values.get(name), b.graph.tensor_values.get(madeB[position] ?? ""))) return;
    const [factsA, factsB] = [valueFacts(a.graph, name, a.labels), valueFacts(b.graph, madeB[position] ?? "", b.labels)];
    found.push(...factDetails(factsA, factsB, madeA.length > 1 ? `result ${position} ` : "result "));
  });
  return found;
}

/** Returns whether an argument of side A is that of side B, given the names on side B. Contents of subgraphs do not count. */
function sameArgument(a: Argument, b: Argument, names: Names): boolean {
  return sameContent(renamedContent(a, (name) => names.get(name) ?? `\0${name}`), renamedContent(b, (name) => name));
}

function renamedContent(argument: Argument, rename: (name: string) => string): Content {
  const on: References = {
    value: (name) => ["value", rename(name)],
    results: (node) => ["results", rename(referencesOf({ variant: "as_results", value: node })[0] ?? node)],
    object: (name, className) => ["object", className, rename(name)],
    graph: () => ["graph", null],
  };
  return argumentContent(argument, on);
}

function subgraphChanges(a: Side, b: Side, nodeA: Node, nodeB: Node, onMatch: OnMatch | undefined, place: string): NodeChange[] {
  const othersB = subgraphsOf(nodeB);
  return subgraphsOf(nodeA)
    .slice(0, othersB.length)
    .flatMap((one, index) => {
      const other = othersB[index] as (typeof othersB)[number];
      const inner = place === "" ? other.name : `${place}/${other.name}`;
      const sideOf = (side: Side, graph: Graph): Side => ({ ...side, graph, identities: positionsOf(graph) });
      const { changes, names } = diffGraphs(sideOf(a, one.graph), sideOf(b, other.graph), onMatch, inner);
      const [outputsA, outputsB] = [one.graph.outputs, other.graph.outputs];
      const same = outputsA.length === outputsB.length && outputsA.every((each, at) => sameArgument(each, outputsB[at] as Argument, names));
      if (same) return changes;
      const details = [{ what: "outputs", a: outputsA.map(argumentText).join(", "), b: outputsB.map(argumentText).join(", ") }];
      const change = { change: "changed", operator: nodeB.target, module: modulePath(nodeB), name: other.name, graph: inner, details } as const;
      return [...changes, change];
    });
}

function positionsOf(graph: Graph): Map<string, string> {
  return new Map(graph.inputs.flatMap(namesIn).map((name, position) => [name, String(position)] as const));
}
