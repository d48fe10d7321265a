/**
 * Items: everything of a program that can be drawn. They form a tree: the program contains modules, modules contain nodes, a node with
 * subgraphs contains those. Runs contain neighbours that are drawn as one box at first. Links lead from the item that makes a value to the item that uses it.
 */

import { namesIn, nodeName, type Argument, type Graph, type Node } from "graphwire-js";

export type Kind = "program" | "module" | "node" | "subgraph" | "input" | "output" | "weight" | "run";
/** What a difference says about an item. Only `changed` also applies to items that contain others. */
export type Mark = "added" | "removed" | "changed" | "moved";

export interface Link {
  readonly from: Item;
  readonly to: Item;
  /** The name of the value. */
  readonly value: string;
  /** The name of the argument that receives it. */
  readonly argument: string;
  /** In a difference: whether only one of the programs has it. */
  mark?: Mark;
  /** The nodes that are not drawn, and pass the value on: they reshape, copy or cast it. From the first to the last. */
  readonly via?: readonly Item[];
}

/** A graph of the program, with the items of its values. */
export interface Scope {
  readonly graph: Graph;
  /** The names of the subgraphs around its nodes, each followed by a slash. */
  readonly prefix: string;
  /** What makes each value. */
  readonly makers: Map<string, Item>;
  /** Each node, by its name. */
  readonly nodes: Map<string, Item>;
  /** In a difference: the side that the graph is of. */
  readonly side: 0 | 1;
}

export class Item {
  readonly children: Item[] = [];
  readonly users: Link[] = [];
  readonly operands: Link[] = [];
  /** The nodes inside, or 1 for a node. */
  nodes = 0;
  mark: Mark | null = null;
  /** Whether it only changed because its operands did. */
  isDerived = false;
  /** In a difference: how many nodes inside changed, such as `+3 ≠1`. */
  tally = "";
  /** For a node: whether it only passes a value on, once somebody asked. */
  passing: boolean | null = null;
  /** In a difference: the class that a module had. */
  was = "";
  /** In a difference: whether it is a module that runs before or after others than before. */
  isMoved = false;
  /** In a difference: how many of the weights that it uses have other elements. */
  changedWeights = 0;
  /** For a weight: its bytes. For what holds weights: those of their storages, each once. */
  bytes = 0;
  /** For what holds weights: the bytes of each storage. */
  storages: ReadonlyMap<string, number> = new Map();
  /** For a module: another one before it, with the same weights. */
  sharesWith: Item | null = null;
  /** For a module that is called more than once: which call it is, from 1. */
  call: number | null = null;
  /** For a node: the modules, outermost first, of which it is all. */
  calls: readonly Item[] = [];
  /** The item that is drawn in its place: the only one inside it. */
  shownAs: Item | null = null;

  constructor(
    /** The position in `Items.all`: the order of the program. */
    readonly id: number,
    readonly kind: Kind,
    /** What links and people call it: the name of a node, the qualified name of a module. */
    public name: string,
    /** What its box is titled. */
    public title: string,
    /** The class of a module, the type of a value, the operator of a node. */
    readonly type: string,
    public parent: Item | null,
    readonly scope: Scope,
    readonly node: Node | null,
    /** The values that it makes. */
    readonly values: readonly string[],
  ) {
    parent?.children.push(this);
  }

  /** The name in links: `true_graph_0/add` for a node of a subgraph. */
  get path(): string {
    return this.scope.prefix + this.name;
  }

  /** What people read: as `path`, but with the call in words, as titles have it. */
  get label(): string {
    if (this.kind === "run") return this.title;
    return this.call === null ? this.path : withCall(withoutCall(this.path), this.call);
  }

  /** Whether it contains other items, so that it can be opened. */
  get isGroup(): boolean {
    return this.children.length > 0;
  }

  /** The items around it, outermost first. */
  get around(): Item[] {
    const found: Item[] = [];
    for (let at = this.parent; at !== null; at = at.parent) found.unshift(at);
    return found;
  }
}

/** All items of a program. */
export interface Items {
  readonly root: Item;
  /** In the order of the program. */
  readonly all: readonly Item[];
}

/** Yields an item and everything inside it. */
export function* within(item: Item): Generator<Item> {
  yield item;
  for (const child of item.children) yield* within(child);
}

/** Returns the modules that an item is in, outermost first, and those of which it is all. */
export function modulesOf(item: Item): Item[] {
  return [...item.around, item, ...item.calls].filter(({ kind }) => kind === "module");
}

/** `Block`, or `Block → Other` in a difference. */
export function classText({ was, type }: Item): string {
  return was === "" ? type : `${was} → ${type}`;
}

/** Yields an item, what is around it, and the nodes that use its value, also through nodes that only pass it on. */
export function* reached(item: Item, passes: (node: Item) => boolean): Generator<Item> {
  const seen = new Set<Item>([item]);
  for (const each of seen) {
    for (let at: Item | null = each; at !== null; at = at.parent) yield at;
    if (each === item || passes(each)) for (const { to } of each.users) seen.add(to);
  }
}

/** Returns the qualified name of a module without the number of the call. */
export function withoutCall(path: string): string {
  return path.split("@")[0] ?? "";
}

/** `relu, call 2` */
export function withCall(name: string, call: number): string {
  return `${name}, call ${call}`;
}

/** Returns the item of a node, by its path or that of one of its results, or null. */
export function itemOfPath(items: Items, path: string): Item | null {
  const named = items.all.filter((item) => item.path === path || item.calls.some((call) => call.path === path));
  const found = named.length > 0 ? named : items.all.filter((item) => item.values.some((value) => item.scope.prefix + value === path));
  return found.find(({ kind }) => kind === "node") ?? found[0] ?? null;
}

/** Returns the name of the operator without its library: `linear` for `torch.ops.aten.linear.default`. */
export function shortOperator(target: string): string {
  const name = target.replace(/^torch\.ops\./, "");
  const parts = name.split(".");
  if (parts.length < 2) return name;
  const [library = "", ...rest] = parts;
  const kept = rest.at(-1) === "default" && rest.length > 1 ? rest.slice(0, -1) : rest;
  return ["aten", "higher_order", "prims", "prim", "_operator"].includes(library) ? kept.join(".") : [library, ...kept].join(".");
}

/** Links an item to the items that make the values of an argument. */
export function linkArgument(scope: Scope, to: Item, argument: Argument, name: string): void {
  for (const value of new Set(namesIn(argument))) {
    const from = scope.makers.get(value);
    if (from !== undefined) connect({ from, to, value: from.values.includes(value) ? value : (from.values[0] ?? value), argument: name }); // a weight that the graph is given has its name outside
  }
  const results = argument.variant === "as_results" ? scope.nodes.get(argument.value) : undefined;
  if (results !== undefined) connect({ from: results, to, value: results.values[0] ?? "", argument: name });
}

export function connect(link: Link): void {
  link.from.users.push(link);
  link.to.operands.push(link);
}

export { nodeName };
