/** The canonical order of nodes, and the new names of values. */

import { subgraphsOf } from "../programs.js";
import type { Argument, Graph, GraphArgument, NamedArgument, Node } from "../schema.js";
import { compareText } from "../summary.js";
import { argumentContent, referencesOf, resultsOf, type References } from "./arguments.js";
import { compareBytes, contentBytes, digest, type Content, type ContentDict } from "./content.js";
import { effectOf, FIXED, ORDERED, PURE, type Effect } from "./effects.js";

/** What decides the place of a node. */
export interface Step {
  readonly node: Node;
  readonly effect: Effect;
  /** The names that it reads, in order. */
  readonly uses: readonly string[];
  /** The names that it makes, in order; last that of all its results, if something refers to them. */
  readonly makes: readonly string[];
  /** The bytes of all that it computes but for names. */
  readonly shape: Uint8Array;
}

/** A graph whose nodes have their canonical order. */
export interface OrderedGraph {
  readonly graph: Graph;
  readonly inputs: readonly Argument[];
  readonly outputs: readonly Argument[];
  /** The steps of the nodes in the order of the document. */
  readonly steps: readonly Step[];
  /** The positions of the nodes in the document, in canonical order. */
  readonly order: readonly number[];
  /** The new names of values, by name. */
  readonly names: ReadonlyMap<string, string>;
  /** Returns the digest of the graph, for the shape of the node that has it. */
  readonly digest: () => Uint8Array;
  readonly effect: Effect;
}

/** The inputs and outputs of a program's graph in their canonical order, and the names of literal inputs. */
export interface Interface {
  readonly inputs: readonly Argument[];
  readonly outputs: readonly Argument[];
  readonly literals: readonly (string | null)[];
}

/** Orders graphs, each once. */
export class Ordering {
  private readonly known = new Map<Graph, OrderedGraph>();

  /** Orders a graph and all graphs in it. Without `face`, its inputs and outputs keep their order. */
  ordered(graph: Graph, face?: Interface): OrderedGraph {
    const known = this.known.get(graph);
    if (known !== undefined) return known;
    const { inputs, outputs, literals } = face ?? { inputs: graph.inputs, outputs: graph.outputs, literals: graph.input_names ?? [] };
    const steps = this.steps(graph);
    const inputNames = inputs.flatMap(referencesOf);
    const outputNames = outputs.flatMap(referencesOf);
    const order = orderOf(steps, inputNames, once(() => usesDigests(steps, inputNames, outputNames)));
    const names = newNames(inputs, literals, order.map((index) => steps[index] as Step));
    const digest = once(() => digest16(graphContent({ graph, inputs, outputs, steps, order, names }, this.digests(names))));
    const effect = steps.reduce<Effect>((most, step) => (step.effect > most ? step.effect : most), PURE);
    const found = { graph, inputs, outputs, steps, order, names, digest, effect };
    this.known.set(graph, found);
    return found;
  }

  /** Returns the steps of a graph's nodes, in the order of the document. */
  steps(graph: Graph): Step[] {
    const read = resultsIn(graph);
    const blank: References = {
      value: () => ["value", null],
      results: () => ["results", null],
      object: (_, className) => ["object", className, null],
      graph: (held) => ["graph", this.ordered(held.graph).digest()],
    };
    return graph.nodes.map((node): Step => {
      const makes = node.outputs.flatMap(referencesOf);
      const tuple = isTuple(node);
      if (node.name !== null && read.has(node.name)) makes.push(resultsOf(node.name));
      const inner = subgraphsOf(node).map((held) => this.ordered(held.graph).effect);
      return {
        node,
        effect: inner.reduce<Effect>((most, each) => (each > most ? each : most), effectOf(node.target, node.outputs.length > 0)),
        uses: sortedInputs(node).flatMap(({ arg }) => referencesOf(arg)),
        makes,
        shape: contentBytes([inputsContent(node, blank), tuple, BigInt(makes.length)]),
      };
    });
  }

  private digests(names: ReadonlyMap<string, string>): References {
    return {
      value: (name) => ["value", names.get(name) ?? name],
      results: (name) => ["results", names.get(resultsOf(name)) ?? name],
      object: (name, className) => ["object", className, names.get(name) ?? name],
      graph: (held) => ["graph", this.ordered(held.graph).digest()],
    };
  }
}

/** Returns a function that computes a value when it is first called, and returns it again later. */
function once<T>(compute: () => T): () => T {
  let found: { readonly value: T } | null = null;
  return () => (found ??= { value: compute() }).value;
}

function digest16(content: Content): Uint8Array {
  return digest(contentBytes(content));
}

/** Returns the names of nodes all whose results something in the graph refers to. */
function resultsIn(graph: Graph): Set<string> {
  const found = new Set<string>();
  const ignore = (): Content => null;
  const note: References = { value: ignore, results: (name) => (found.add(name), null), object: ignore, graph: ignore };
  for (const node of graph.nodes) for (const { arg } of node.inputs) argumentContent(arg, note);
  for (const output of graph.outputs) argumentContent(output, note);
  return found;
}

function isTuple(node: Node): boolean {
  const [only, ...others] = node.outputs;
  if (node.is_hop_single_tensor_return !== false || only === undefined || others.length > 0) return false;
  return referencesOf(only).length > 0;
}

/** Returns the inputs of a node, sorted by name if the last one has a name. */
function sortedInputs({ inputs }: Node): readonly NamedArgument[] {
  if (inputs.at(-1)?.name === "" || inputs.length === 0) return inputs;
  return [...inputs].sort((a, b) => compareText(a.name, b.name));
}

function inputsContent(node: Node, on: References): Content {
  return sortedInputs(node).map(({ name, arg }): Content => [name, argumentContent(arg, on)]);
}

/** Returns the content of a graph without its values. */
export function graphContent(ordered: Omit<OrderedGraph, "digest" | "effect">, on: References): ContentDict {
  const { graph, inputs, outputs, steps, order, names } = ordered;
  const each = (argument: Argument): Content => argumentContent(argument, on);
  // Names are given out in the order of use: nodes, then inputs and outputs.
  const nodes = order.map((index): Content => {
    const { node, makes } = steps[index] as Step;
    const results = node.name !== null && makes.length > node.outputs.flatMap(referencesOf).length ? node.name : null;
    return {
      inputs: inputsContent(node, on),
      operator: node.target,
      outputs: node.outputs.map(each),
      ...(results === null ? {} : { results: names.get(resultsOf(results)) ?? results }),
      ...(isTuple(node) ? { tuple: true } : {}),
    };
  });
  const single: ContentDict = graph.is_single_tensor_return ? { single: true } : {};
  return { nodes, inputs: inputs.map(each), outputs: outputs.map(each), ...single };
}

/** Returns the subgraphs of a graph, in the canonical order of its nodes. */
export function subgraphsInOrder({ steps, order }: OrderedGraph): GraphArgument[] {
  return order.flatMap((index) =>
    sortedInputs((steps[index] as Step).node).flatMap((named) => subgraphsOf({ inputs: [named] })),
  );
}

function newNames(inputs: readonly Argument[], literals: readonly (string | null)[], steps: readonly Step[]): Map<string, string> {
  const found = new Map<string, string>();
  const name = (old: string, given: string): void => {
    if (!found.has(old)) found.set(old, given);
  };
  inputs.forEach((input, index) => {
    const references = referencesOf(input);
    for (const each of references) name(each, `in_${index}`);
    const literal = literals[index] ?? "";
    if (references.length === 0 && literal !== "") name(literal, `in_${index}`);
  });
  let count = 0;
  for (const { makes } of steps) for (const each of makes) name(each, `v_${count++}`);
  return found;
}

// ------------------------------------------------------------------------------------------------------------ order

const EMPTY = new Uint8Array();

/** Returns the digest of the uses of each node; empty for one that nothing reads. */
function usesDigests(steps: readonly Step[], inputs: readonly string[], outputs: readonly string[]): Uint8Array[] {
  const digests = new Map<string, Uint8Array>();
  const note = (name: string, value: Uint8Array): void => {
    if (!digests.has(name)) digests.set(name, value);
  };
  inputs.forEach((name, index) => {
    note(name, digest("input", String(index)));
  });
  let turn = 0;
  const nodes = steps.map(({ node, effect, shape, uses, makes }) => {
    if (effect !== PURE) turn += 1;
    const read = uses.map((name) => digests.get(name) ?? "constant");
    const own = digest(node.target, shape, effect === PURE ? "" : String(turn), ...read);
    makes.forEach((name, index) => {
      note(name, digest(own, String(index)));
    });
    return own;
  });
  const uses = new Map<string, Uint8Array[]>();
  const use = (name: string, value: Uint8Array): void => {
    const known = uses.get(name);
    if (known === undefined) uses.set(name, [value]);
    else known.push(value);
  };
  outputs.forEach((name, index) => {
    use(name, digest("output", String(index)));
  });
  const found = new Array<Uint8Array>(steps.length).fill(EMPTY);
  for (let index = steps.length - 1; index >= 0; index--) {
    const step = steps[index] as Step;
    const parts = step.makes.map((name) => digest(...(uses.get(name) ?? []).sort(compareBytes)));
    const own = step.makes.some((name) => uses.has(name)) ? digest(...parts) : EMPTY;
    found[index] = own;
    step.uses.forEach((name, position) => {
      use(name, digest(digest(nodes[index] ?? EMPTY, own), String(position)));
    });
  }
  return found;
}

interface Ready {
  readonly index: number;
  readonly target: string;
  readonly ranks: readonly number[];
  readonly shape: Uint8Array;
}

/** Returns the digests of the uses of all nodes. Only nodes that are equal in all else need them, so most graphs never do. */
type Uses = () => readonly Uint8Array[];

function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (let index = 0; index < Math.min(a.length, b.length); index++) {
    const difference = (a[index] ?? 0) - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function compareReady(a: Ready, b: Ready, uses: Uses): number {
  return (
    compareText(a.target, b.target) ||
    compareRanks(a.ranks, b.ranks) ||
    compareBytes(a.shape, b.shape) ||
    compareBytes(uses()[a.index] ?? EMPTY, uses()[b.index] ?? EMPTY) ||
    a.index - b.index
  );
}

function orderOf(steps: readonly Step[], inputs: readonly string[], uses: Uses): number[] {
  const ranks = new Map<string, number>();
  const rank = (name: string): void => {
    if (!ranks.has(name)) ranks.set(name, ranks.size);
  };
  inputs.forEach(rank);
  const order: number[] = [];
  const place = (index: number): void => {
    order.push(index);
    steps[index]?.makes.forEach(rank);
  };
  let start = 0;
  steps.forEach((step, index) => {
    if (step.effect !== FIXED) return;
    orderSegment(steps, start, index, ranks, uses, place);
    place(index);
    start = index + 1;
  });
  orderSegment(steps, start, steps.length, ranks, uses, place);
  return order;
}

function orderSegment(
  steps: readonly Step[],
  start: number,
  stop: number,
  ranks: ReadonlyMap<string, number>,
  uses: Uses,
  place: (index: number) => void,
): void {
  const makers = new Map<string, number>();
  for (let index = start; index < stop; index++) for (const name of steps[index]?.makes ?? []) {
    if (!makers.has(name)) makers.set(name, index);
  }
  const waiting = new Map<number, number>();
  const readers = new Map<number, number[]>();
  const after = (index: number, maker: number): void => {
    waiting.set(index, (waiting.get(index) ?? 0) + 1);
    readers.set(maker, [...(readers.get(maker) ?? []), index]);
  };
  let last = -1;
  for (let index = start; index < stop; index++) {
    const step = steps[index] as Step;
    const needed = new Set(step.uses.map((name) => makers.get(name)).filter((maker) => maker !== undefined && maker !== index));
    for (const maker of needed) after(index, maker as number);
    if (step.effect === ORDERED) {
      if (last >= 0) after(index, last);
      last = index;
    }
  }
  const heap = new Heap(uses);
  const offer = (index: number): void => {
    const { node, uses: read, shape } = steps[index] as Step;
    heap.push({ index, target: node.target, ranks: read.map((name) => ranks.get(name) ?? -1), shape });
  };
  for (let index = start; index < stop; index++) if (!waiting.has(index)) offer(index);
  for (let next = heap.pop(); next !== undefined; next = heap.pop()) {
    place(next.index);
    for (const reader of readers.get(next.index) ?? []) {
      const left = (waiting.get(reader) ?? 0) - 1;
      waiting.set(reader, left);
      if (left === 0) offer(reader);
    }
  }
}

/** The nodes that are ready, of which the smallest is taken first. */
class Heap {
  private readonly items: Ready[] = [];

  constructor(private readonly uses: Uses) {}

  push(item: Ready): void {
    let at = this.items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (compareReady(this.items[parent] as Ready, item, this.uses) <= 0) break;
      this.items[at] = this.items[parent] as Ready;
      at = parent;
    }
    this.items[at] = item;
  }

  pop(): Ready | undefined {
    const first = this.items[0];
    const last = this.items.pop();
    if (first === undefined || last === undefined || this.items.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.items.length) break;
      const right = this.items[child + 1];
      if (right !== undefined && compareReady(right, this.items[child] as Ready, this.uses) < 0) child += 1;
      if (compareReady(last, this.items[child] as Ready, this.uses) <= 0) break;
      this.items[at] = this.items[child] as Ready;
      at = child;
    }
    this.items[at] = last;
    return first;
  }
}
