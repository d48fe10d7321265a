/**
 * The difference of two programs as the items of one: those of the second program, and between them what only the first one has.
 */

import { ABSENT, diffPrograms, increasingRun, renamed, renumberingOf, type Change, type Diff, type Graph, type NodeChange, type OnMatch, type Renumbering } from "graphwire-js";

import { Builder, countNodes, type ProgramItems } from "./build.js";
import type { WeightChange } from "../facts.js";
import { isPassing } from "./categories.js";
import { connect, nodeName, reached, within, type Item, type Link, type Mark, type Scope } from "./items.js";
import { arrange } from "./runs.js";
import type { Side } from "./shown.js";

export interface Difference {
  readonly items: ProgramItems;
  readonly diff: Diff;
  /** What a difference says about a node. */
  readonly changeOf: ReadonlyMap<Item, NodeChange>;
  /** The item of the first program that an item of the second one matches. */
  readonly earlier: ReadonlyMap<Item, Item>;
  readonly tallies: Map<Item, Tally>;
  /** The weights that have other elements. */
  readonly weights: readonly Item[];
  readonly layers: Renumbering;
}

/** How many nodes inside an item changed, by kind. */
export type Tally = Readonly<Record<Mark, number>>;

/** Returns the difference of two sides. The items of `b` become those of the difference. */
export async function differenceOf(a: Side, b: Side, elements: ReadonlyMap<string, WeightChange>, layers: Renumbering = renumberingOf(a.program, b.program)): Promise<Difference> {
  const pairs = new Map<Graph, { readonly other: Graph; readonly pairs: readonly (readonly [number, number])[] }>();
  const onMatch: OnMatch = (graphA, graphB, matched) => pairs.set(graphA, { other: graphB, pairs: matched });
  const payloads = a.opened.file.archive === null || b.opened.file.archive === null
    ? undefined
    : ([await a.opened.file.payloads(a.name), await b.opened.file.payloads(b.name)] as const);
  const diff = diffPrograms(a.program, b.program, payloads, onMatch, layers);
  const merger = new Merger(a, b, layers);
  for (const [graph, { other, pairs: matched }] of pairs) merger.match(graph, other, matched);
  merger.addRemoved();
  merger.addLinks();
  const changeOf = new Map<Item, NodeChange>();
  for (const change of diff.nodes) {
    const item = merger.itemOf(change);
    if (item === undefined) continue;
    changeOf.set(item, change);
    item.mark = change.change;
    item.isDerived = change.derived === true;
  }
  for (const [later, item] of merger.earlier) if ((later.kind === "module" || later.kind === "program") && later.type !== item.type) later.was = item.type;
  for (const item of [...merger.earlier.keys()]) moveModules(item, merger.earlier);
  markEntries(b.items.root, diff.changes);
  const weights = changedWeights(b.items.all, elements);
  for (const weight of weights) for (const item of new Set(reached(weight, isPassing))) item.changedWeights += 1;
  for (const weight of weights) weight.mark ??= "changed";
  countNodes(b.items.root);
  arrange(b.items.root, merger.all);
  const tallies = talliesOf(b.items.root);
  return { items: { ...b.items, all: merger.all }, diff, changeOf, earlier: merger.earlier, tallies, weights, layers };
}

class Merger {
  readonly all: Item[];
  /** For each item of B, that of A. */
  readonly earlier = new Map<Item, Item>();
  /** For each item of A, that of B, or the one made for it. */
  private readonly later = new Map<Item, Item>();
  private readonly builder: Builder;
  private readonly scopes: readonly [ReadonlyMap<Graph, Scope>, ReadonlyMap<Graph, Scope>];

  constructor(
    private readonly a: Side,
    private readonly b: Side,
    private readonly layers: Renumbering,
  ) {
    this.builder = new Builder(0, [...b.items.all]);
    this.all = this.builder.all;
    this.scopes = [scopesOf(a.items.root), scopesOf(b.items.root)];
    this.pair(a.items.root, b.items.root);
    this.pairOthers(a.items.root, b.items.root);
  }

  private pair(a: Item, b: Item): void {
    this.later.set(a, b);
    this.earlier.set(b, a);
  }

  /** Matches inputs, outputs and weights of a graph by name, else inputs and outputs by position. */
  private pairOthers(a: Item, b: Item): void {
    for (const kind of ["input", "output", "weight"] as const) {
      const [ones, others] = [a, b].map((item) => item.children.filter((child) => child.kind === kind)) as [Item[], Item[]];
      const named = new Map(others.map((other) => [other.title, other]));
      const alone = ones.filter((one) => {
        const other = named.get(kind === "weight" ? one.title.split(" = ").map((name) => renamed(this.layers, name)).join(" = ") : one.title);
        if (other !== undefined && !this.earlier.has(other)) this.pair(one, other);
        return !this.later.has(one);
      });
      if (kind === "weight") continue;
      const left = others.filter((other) => !this.earlier.has(other));
      alone.slice(0, left.length).forEach((one, index) => { this.pair(one, left[index] as Item); });
    }
  }

  match(graphA: Graph, graphB: Graph, pairs: readonly (readonly [number, number])[]): void {
    const [scopeA, scopeB] = [this.scopes[0].get(graphA), this.scopes[1].get(graphB)];
    if (scopeA === undefined || scopeB === undefined) return;
    for (const [one, other] of pairs) {
      const [itemA, itemB] = [nodeAt(scopeA, one), nodeAt(scopeB, other)];
      if (itemA === undefined || itemB === undefined) continue;
      this.pair(itemA, itemB);
      const subgraphs = itemB.children.filter(({ kind }) => kind === "subgraph");
      itemA.children.filter(({ kind }) => kind === "subgraph").forEach((child, index) => {
        const match = subgraphs[index];
        if (match === undefined) return;
        this.pair(child, match);
        this.pairOthers(child, match);
      });
    }
  }

  /** Adds the items that only A has, each after the one before it in A. */
  addRemoved(): void {
    for (const item of within(this.a.items.root)) {
      if (this.later.has(item)) continue;
      const around = item.parent === null ? undefined : this.later.get(item.parent);
      if (around === undefined) continue;
      const twin = item.kind === "module" ? around.children.find((child) => child.kind === "module" && child.name === this.nameOf(item) && !this.earlier.has(child)) : undefined;
      if (twin !== undefined) {
        this.pair(item, twin);
        continue;
      }
      if (item.kind === "module" && [...within(item)].every((each) => each.node === null || this.later.has(each))) {
        this.later.set(item, around); // its nodes are in another module now
        continue;
      }
      const { name, title, type, node, scope } = item;
      const made = this.builder.add(item.kind, { parent: around, scope }, { name, title, type, ...(node === null ? {} : { node }), values: item.values }, false);
      made.mark = "removed";
      [made.bytes, made.storages, made.sharesWith, made.call] = [item.bytes, item.storages, item.sharesWith, item.call];
      this.later.set(item, made);
      moveAfter(around.children, made, this.before(item));
    }
    for (const item of this.b.items.all) {
      if (!this.earlier.has(item) && item.kind !== "module") item.mark = "added";
    }
  }

  /** Returns the name of a module of A in B. */
  private nameOf({ name }: Item): string {
    const [path = "", ...call] = name.split("@");
    return [renamed(this.layers, path), ...call].join("@");
  }

  private before(item: Item): Item | undefined {
    const siblings = item.parent?.children ?? [];
    const previous = siblings[siblings.indexOf(item) - 1];
    return previous === undefined ? undefined : this.later.get(previous);
  }

  /** Adds the links that only A has, and marks those that only B has. */
  addLinks(): void {
    const key = (from: Item, to: Item, argument: string): string => `${from.id} ${to.id} ${argument}`;
    const known = new Map<string, Link>();
    for (const item of this.b.items.all) for (const link of item.users) known.set(key(link.from, link.to, link.argument), link);
    const seen = new Set<string>();
    for (const item of within(this.a.items.root)) {
      for (const { from, to, value, argument } of item.users) {
        const [laterFrom, laterTo] = [this.later.get(from), this.later.get(to)];
        if (laterFrom === undefined || laterTo === undefined) continue;
        const text = key(laterFrom, laterTo, argument);
        seen.add(text);
        if (!known.has(text)) connect({ from: laterFrom, to: laterTo, value, argument, mark: "removed" });
      }
    }
    for (const [text, link] of known) if (!seen.has(text)) link.mark = "added";
  }

  itemOf(change: NodeChange): Item | undefined {
    const path = change.graph === undefined ? change.name : `${change.graph}/${change.name}`;
    const side = change.change === "removed" ? 0 : 1;
    for (const scope of this.scopes[side].values()) {
      if (`${scope.prefix}${change.name}` !== path) continue;
      const item = scope.nodes.get(change.name);
      if (item !== undefined) return side === 0 ? this.later.get(item) : item;
    }
    return undefined;
  }
}

function nodeAt(scope: Scope, index: number): Item | undefined {
  const node = scope.graph.nodes[index];
  return node === undefined ? undefined : scope.nodes.get(nodeName(node) || node.target);
}

function scopesOf(root: Item): Map<Graph, Scope> {
  const found = new Map<Graph, Scope>();
  for (const { scope } of within(root)) found.set(scope.graph, scope);
  return found;
}

function moveAfter(children: Item[], item: Item, before: Item | undefined): void {
  const at = before === undefined ? -1 : children.indexOf(before);
  children.splice(children.indexOf(item), 1);
  children.splice(at + 1, 0, item);
}

/** Marks inputs, outputs and weights that differ. */
function markEntries(root: Item, changes: readonly Change[]): void {
  const names = new Map(changes.filter(({ change }) => change === "changed").map(({ section, name }) => [`${section} ${name}`, section]));
  for (const item of root.children) {
    if (item.kind === "weight" && (names.has(`weight ${item.name}`) || names.has(`constant ${item.name}`))) item.mark ??= "changed";
    else if (item.kind === "input" && (names.has(`input ${item.name}`) || names.has(`input ${item.title}`))) item.mark ??= "changed";
  }
}

/** Returns the items of weights with other elements; tied weights are one item. */
function changedWeights(all: readonly Item[], elements: ReadonlyMap<string, WeightChange>): Item[] {
  return all.filter((item) => item.kind === "weight" && weightChange(item, elements)?.equal === false);
}

export function weightChange({ title }: Item, elements: ReadonlyMap<string, WeightChange>): WeightChange | undefined {
  return title.split(" = ").map((name) => elements.get(name)).find((each) => each !== undefined);
}

/** Finds the modules in a group that run in another order than before: all but a longest part in the same order. */
function moveModules(group: Item, earlier: ReadonlyMap<Item, Item>): void {
  const places = new Map((earlier.get(group)?.children ?? []).map((child, index) => [child, index]));
  const held = group.children.flatMap((child): (readonly [Item, number])[] => {
    const place = child.kind === "module" ? places.get(earlier.get(child) as Item) : undefined;
    return place === undefined ? [] : [[child, place]];
  });
  const kept = new Set(increasingRun(held.map(([, place]) => place)));
  held.forEach(([child], index) => { child.isMoved = !kept.has(index); });
}

/** Counts the changes inside each item, and marks the groups that have any. */
export function talliesOf(root: Item, found = new Map<Item, Tally>()): Map<Item, Tally> {
  const visit = (item: Item): Tally => {
    const tally = { added: 0, removed: 0, changed: 0, moved: 0 };
    if (item.mark !== null && item.kind === "node") tally[item.mark] += 1;
    for (const child of item.children) {
      const inner = visit(child);
      for (const mark of MARK_NAMES) tally[mark] += inner[mark];
    }
    const total = MARK_NAMES.reduce((sum, mark) => sum + tally[mark], 0);
    if (total > 0) found.set(item, tally);
    if (item.isGroup) item.tally = [item.isMoved ? "moved" : "", total > 0 ? tallyText(tally) : ""].filter((each) => each !== "").join(" ");
    if (item.kind === "module" && item.mark === null) item.mark = MARK_NAMES.find((mark) => total > 0 && tally[mark] === item.nodes) ?? (total > 0 || item.was !== "" ? "changed" : item.isMoved ? "moved" : null);
    if ((item.kind === "subgraph" || item.kind === "run") && item.mark === null && (total > 0 || item.children.some(({ mark }) => mark !== null))) item.mark = "changed";
    return tally;
  };
  visit(root);
  return found;
}

/** Returns in words which layers have other numbers, such as `features.8 ↔ 9 swapped`, `features.14 removed`, `features.15–16 → 14–15`. */
export function layersTexts({ numbers, added }: Renumbering): string[] {
  const found: string[] = [];
  const [listOf, numberOf] = [(path: string): string => path.slice(0, path.lastIndexOf(".") + 1), (path: string): number => Number(path.slice(path.lastIndexOf(".") + 1))];
  const before = new Map(Array.from(numbers, ([one, other]) => [other, one] as const));
  const kept = [...numbers].filter(([, other]) => !other.endsWith(ABSENT));
  const runs = new Map<string, (readonly [string, string])[]>();
  for (const pair of kept) runs.set(listOf(pair[1]), [...(runs.get(listOf(pair[1])) ?? []), pair]);
  for (const [one, other] of numbers) if (other.endsWith(ABSENT)) found.push(`${one} removed`);
  found.push(...added.map((path) => `${path} added`));
  for (const pairs of runs.values()) {
    const inOrder = new Set(increasingRun(pairs.map(([, other]) => numberOf(other))));
    let run: (readonly [string, string])[] = [];
    const close = (): void => {
      const [first, last] = [run[0], run.at(-1)];
      if (first !== undefined && last !== undefined && first[0] !== first[1]) found.push(run.length === 1 ? `${first[0]} → ${numberOf(first[1])}` : `${first[0]}–${numberOf(last[0])} → ${numberOf(first[1])}–${numberOf(last[1])}`);
      run = [];
    };
    pairs.forEach(([one, other], index) => {
      if (!inOrder.has(index)) found.push(before.get(one) === other ? `${one} ↔ ${numberOf(other)} swapped` : `${one} moved to ${numberOf(other)}`);
      else if (before.get(one) !== other || one === other) {
        const last = run.at(-1);
        if (last !== undefined && (numberOf(one) !== numberOf(last[0]) + 1 || numberOf(other) !== numberOf(last[1]) + 1)) close();
        run.push([one, other]);
      }
    });
    close();
  }
  return found;
}

export const MARK_NAMES: readonly Mark[] = ["added", "removed", "changed", "moved"];
/** The sign of each mark, so that nobody has to see colours. */
export const MARK_SIGNS: Readonly<Record<Mark, string>> = { added: "+", removed: "−", changed: "≠", moved: "↕" };

/** `+3 −1 ≠2` */
export function tallyText(tally: Tally): string {
  return MARK_NAMES.filter((mark) => tally[mark] > 0).map((mark) => `${MARK_SIGNS[mark]}${tally[mark]}`).join(" ");
}
