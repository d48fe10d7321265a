/**
 * Layers that have other numbers in the other program, since some before them were removed or added, or since they moved. They are
 * matched by what they are, so that a diff compares each layer with itself.
 */

import { dtypeName } from "../enumerations.js";
import { targetOf } from "../summary.js";
import type { Program } from "../schema.js";
import { modulePath } from "./nodes.js";
import { match } from "./matching.js";

/** The end of the path of a layer that side B lacks, so that it is no path of B. */
export const ABSENT = "\0";

/** The layers in lists where numbers differ. */
export interface Renumbering {
  /** The path on side B of each layer of A. */
  readonly numbers: ReadonlyMap<string, string>;
  /** The paths of layers that A lacks. */
  readonly added: readonly string[];
}

export const SAME_NUMBERS: Renumbering = { numbers: new Map(), added: [] };

/** Returns the name on side B of a module or weight of A. */
export function renamed({ numbers }: Renumbering, name: string): string {
  for (let end = numbers.size === 0 ? 0 : name.length; end > 0; end = name.lastIndexOf(".", end - 1)) {
    const later = numbers.get(name.slice(0, end));
    if (later !== undefined) return later + name.slice(end);
  }
  return name;
}

/** Returns entries of side A by their names on side B. Before the name of a weight may be what it is: `parameter layers.3.bias`. */
export function renamedEntries<T>(layers: Renumbering, entries: ReadonlyMap<string, T>): Map<string, T> {
  return new Map(Array.from(entries, ([name, each]) => {
    const start = name.lastIndexOf(" ") + 1;
    return [name.slice(0, start) + renamed(layers, name.slice(start)), each] as const;
  }));
}

interface Layer {
  /** The module, inside the layer, and the operator of each node. */
  readonly nodes: (readonly [module: string, operator: string])[];
  /** The name, inside the layer, the type and shape, and the checksum of each weight. */
  readonly weights: (readonly [name: string, form: string, checksum: string])[];
}

type Layers = ReadonlyMap<string, ReadonlyMap<string, Layer>>;
export type Checksums = ReadonlyMap<string, string>;

/**
 * Returns which numbers of layers differ: those of lists in which more layers are equal with other numbers than with their own.
 *
 * @param checksums for both sides, by the name of a weight, a text that is equal if its elements are, where files list one
 */
export function renumberingOf(a: Program, b: Program, checksums: readonly [Checksums, Checksums] = [new Map(), new Map()]): Renumbering {
  const [listsA, listsB] = [layersOf(a, checksums[0]), layersOf(b, checksums[1])];
  const numbers = new Map<string, string>();
  const added: string[] = [];
  const depth = (path: string): number => path.split(".").length;
  for (const path of [...listsA.keys()].sort((one, other) => depth(one) - depth(other) || (one < other ? -1 : 1))) {
    const start = path === "" ? "" : `${renamed({ numbers, added }, path.slice(0, -1))}.`;
    const [ours, theirs] = [listsA.get(path) ?? new Map<string, Layer>(), listsB.get(start) ?? new Map<string, Layer>()];
    const pairs = pairsOf(ours, theirs);
    if (pairs === null) continue;
    for (const own of ours.keys()) {
      const later = pairs.get(own);
      numbers.set(path + own, later === undefined ? path + own + ABSENT : start + later);
    }
    const taken = new Set(pairs.values());
    added.push(...[...theirs.keys()].filter((number) => !taken.has(number)).map((number) => start + number));
  }
  return { numbers, added };
}

const NUMBERED = /(?:^|(?<=\.))[0-9]+(?=\.|$)/g;

/** Returns the layers of each list of modules, by what is before their numbers, and by these, in the order in which they run. */
function layersOf({ graph_module: { graph, signature } }: Program, checksums: Checksums): Layers {
  const found = new Map<string, Map<string, Layer>>();
  const around = (path: string): (readonly [Layer, string])[] => Array.from(path.matchAll(NUMBERED), (at) => {
    const start = path.slice(0, at.index);
    const list = found.get(start) ?? new Map<string, Layer>();
    const layer = list.get(at[0]) ?? { nodes: [], weights: [] };
    found.set(start, list.set(at[0], layer));
    return [layer, path.slice(at.index + at[0].length)] as const;
  });
  for (const node of graph.nodes) for (const [layer, module] of around(modulePath(node))) layer.nodes.push([module, node.target]);
  for (const variant of ["parameter", "buffer"]) {
    for (const spec of signature.input_specs) {
      if (spec.variant !== variant) continue;
      const name = targetOf(spec.value);
      const meta = graph.tensor_values.get((spec.value as { readonly arg: { readonly name: string } }).arg.name);
      const form = meta === undefined ? "" : `${dtypeName(meta)} ${meta.sizes.map((size) => (size.variant === "as_int" ? String(size.value) : "?")).join()}`;
      const end = name.lastIndexOf(".");
      for (const [layer, inside] of around(name.slice(0, Math.max(0, end)))) layer.weights.push([`${inside}.${name.slice(end + 1)}`, form, checksums.get(name) ?? ""]);
    }
  }
  return found;
}

/** Returns what equal layers have in common, the most specific first. */
function keysOf({ nodes, weights }: Layer): string[] {
  const sorted = [...weights].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  const modules = [...new Set(nodes.map(([module]) => module))];
  return [[nodes, sorted], [nodes, sorted.map(([name, form]) => [name, form])], [modules, sorted.map(([name]) => name)]].map((each) => JSON.stringify(each));
}

/** Returns the number on side B of each layer that both have; null if no more are equal in this way than by their own numbers. */
function pairsOf(a: ReadonlyMap<string, Layer>, b: ReadonlyMap<string, Layer>): Map<string, string> | null {
  const [keysA, keysB] = [a, b].map((side) => new Map(Array.from(side, ([number, layer]) => [number, keysOf(layer)] as const))) as [Map<string, string[]>, Map<string, string[]>];
  const equal = (pairs: Iterable<readonly [string, string]>): number => {
    let count = 0;
    for (const [one, other] of pairs) for (const level of [0, 1]) if (keysA.get(one)?.[level] === keysB.get(other)?.[level]) count += 1;
    return count;
  };
  const own = [...a.keys()].filter((number) => b.has(number)).map((number) => [number, number] as const);
  const hasSameGraphs = own.length === a.size && a.size === b.size && own.every(([each]) => keysA.get(each)?.[1] === keysB.get(each)?.[1]);
  if (b.size === 0 || hasSameGraphs) return null; // weights that changed places are another difference
  const [numbersA, numbersB] = [[...a.keys()], [...b.keys()]];
  const found = new Map(match([...keysA.values()], [...keysB.values()], 2).map(([one, other]) => [numbersA[one] ?? "", numbersB[other] ?? ""] as const));
  return equal(found) > equal(own) ? found : null;
}
