/** Overlays: numbers of nodes, summed by module, that colour the drawing. */

import { isPassing } from "./categories.js";
import { weightChange } from "./difference.js";
import { reached, within, type Item } from "./items.js";
import type { Shown, Side } from "./shown.js";
import { bytesText, countText, numberText, scaledText } from "./values.js";

/** Numbers that can be shown. */
export interface Measure {
  readonly name: string;
  /** For a difference of two programs: after minus before. */
  readonly isChange: boolean;
  /** What the number of a group is, of those inside it. */
  readonly combined: "sum" | "largest";
  /** Where the numbers come from; empty if somebody gave them. */
  readonly source: string;
  readonly text: (value: number) => string;
  numbers(): Numbers;
}

export interface Numbers {
  /** The number of each item; that of a group is its own, or the sum of what is inside. */
  readonly of: ReadonlyMap<Item, number>;
  /** The names that no item has. */
  readonly unknown: readonly string[];
  readonly nodes: number;
}

type Given = ReadonlyMap<string, number>;

/** Returns everything that can colour what is shown. */
export function measuresOf(shown: Shown): Measure[] {
  const { side, before, difference } = shown;
  const last = seriesOf(shown, side, before === null ? 0 : 1);
  const own = last.map(({ values, ...series }): Measure => ({ ...series, isChange: false, combined: "sum", numbers: once(() => numbersOf(side.items.root, values())) }));
  if (before === null || difference === null) return own;
  const changed = seriesOf(shown, before, 0).flatMap(({ values, ...series }): Measure[] => {
    const other = last.find(({ name }) => name === series.name);
    return other === undefined ? [] : [{ ...series, combined: "sum", name: `${series.name}: after − before`, isChange: true, numbers: once(() => changes(side.items.root, difference.earlier, values(), other.values())) }];
  });
  return [...weightHeat(shown), ...own, ...changed];
}

export const HEAT = "Changed weights";

/** Returns how much the weights changed that each item uses; none without changed weights. */
function weightHeat({ side, difference, facts }: Shown): Measure[] {
  const changes = facts.weightChanges?.get(side.name);
  if (difference === null || changes === undefined || difference.weights.length === 0) return [];
  const norms = difference.weights.map((weight) => weightChange(weight, changes)?.norm ?? null);
  const isMeasured = norms.some((norm) => norm !== null);
  const numbers = once((): Numbers => {
    const of = new Map<Item, number>();
    difference.weights.forEach((weight, index) => {
      const norm = norms[index] ?? 0;
      for (const item of new Set(reached(weight, isPassing))) of.set(item, isMeasured ? Math.max(norm, of.get(item) ?? 0) : (of.get(item) ?? 0) + 1);
    });
    return { of, unknown: [], nodes: [...of.keys()].filter(({ kind }) => kind === "node").length };
  });
  return [{
    name: HEAT,
    isChange: false,
    combined: isMeasured ? "largest" : "sum",
    source: isMeasured ? "The norm of the difference, as a share of the norm before." : "How many weights differ; graphwire view --weights measures by how much.",
    text: isMeasured ? (value): string => `${numberText(Number((100 * value).toPrecision(2)))} %` : countText,
    numbers,
  }];
}

interface Series extends Pick<Measure, "name" | "source" | "text"> {
  readonly values: () => Given;
}

/** Returns the numbers of a side: overlays, and what its nodes cost. */
function seriesOf({ facts }: Shown, side: Side, file: number): Series[] {
  const overlays = facts.overlays.filter((overlay) => overlay.file === file && (overlay.method === null || overlay.method === side.name));
  const costs = (part: "flops" | "bytes") => (): Given => new Map(Array.from(side.work.costs, ([name, cost]) => [name, cost[part]] as const).filter(([, cost]) => !Number.isNaN(cost)));
  return [
    ...overlays.map(({ name, values }): Series => ({ name, source: "", text: numberText, values: () => values })),
    { name: "FLOPs (estimate)", source: side.work.source, text: (value) => scaledText(value, "FLOP"), values: costs("flops") },
    { name: "Bytes moved (estimate)", source: side.work.source, text: bytesText, values: costs("bytes") },
  ];
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** Returns the numbers of items that are given by path, for nodes or for modules. */
export function numbersOf(root: Item, given: Given): Numbers {
  const left = new Set(given.keys());
  const paths = new Set<string>();
  for (const { kind, path } of within(root)) if (kind === "node") paths.add(path);
  return collected(root, (item) => {
    if (item.kind !== "node" && paths.has(item.path)) return null;
    for (const name of namesOf(item)) left.delete(name);
    return sumOf(item, given);
  }, left);
}

/** The names by which numbers mean an item: its path, and those of its results, which are nodes of their own in torch. */
function namesOf(item: Item): string[] {
  const results = item.kind === "node" ? item.values.map((value) => item.scope.prefix + value) : [];
  return [...new Set([item.path, ...item.calls.map(({ path }) => path), ...results])];
}

/** Returns by how much the number of each item changed. What only one program has counts there alone. */
function changes(root: Item, earlier: ReadonlyMap<Item, Item>, before: Given, after: Given): Numbers {
  return collected(root, (item) => {
    if (item.kind !== "node") return null;
    const isRemoved = item.mark === "removed";
    const was = sumOf(isRemoved ? item : earlier.get(item), before);
    const is = isRemoved ? null : sumOf(item, after);
    return was === null && is === null ? null : (is ?? 0) - (was ?? 0);
  }, new Set());
}

function sumOf(item: Item | undefined, given: Given): number | null {
  const found = (item === undefined ? [] : namesOf(item)).filter((name) => given.has(name));
  return found.length === 0 ? null : found.reduce((sum, name) => sum + (given.get(name) ?? 0), 0);
}

function collected(root: Item, own: (item: Item) => number | null, left: ReadonlySet<string>): Numbers {
  const found = new Map<Item, number>();
  let nodes = 0;
  const visit = (item: Item): number | null => {
    const given = own(item);
    const inside = item.children.map(visit).filter((each) => each !== null);
    const value = given ?? (inside.length === 0 ? null : inside.reduce((sum, each) => sum + each, 0));
    if (value !== null) found.set(item, value);
    if (given !== null && item.kind === "node") nodes += 1;
    return value;
  };
  visit(root);
  return { of: found, unknown: [...left], nodes };
}

/** A colour of a scale, and one for the text on it. */
export interface Colour {
  readonly fill: string;
  readonly ink: string;
}

type Triple = readonly [number, number, number];
/** From little to much: pale yellow to dark blue, which people without red or green see too. */
const SEQUENCE: readonly Triple[] = [[255, 247, 214], [199, 228, 190], [110, 188, 194], [37, 121, 180], [18, 53, 110]];
/** From less to more: blue, white, orange. */
const DIVERGENCE: readonly Triple[] = [[20, 82, 150], [146, 190, 226], [247, 247, 247], [246, 190, 120], [176, 84, 8]];

/** Returns the colour of a number between 0 and 1. */
export function colourAt(share: number, isChange: boolean): Colour {
  const scale = isChange ? DIVERGENCE : SEQUENCE;
  const place = Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0)) * (scale.length - 1);
  const at = Math.min(scale.length - 2, Math.floor(place));
  const [low, high] = [scale[at] as Triple, scale[at + 1] as Triple];
  const mixed = low.map((value, index) => Math.round(value + ((high[index] ?? 0) - value) * (place - at)));
  const [red = 0, green = 0, blue = 0] = mixed;
  return { fill: `rgb(${mixed.join(",")})`, ink: luminance(red, green, blue) > MIDDLE ? "#000000" : "#ffffff" };
}

/** The luminance on which black and white have the same contrast. */
const MIDDLE = 0.179;

/** The relative luminance of a colour, as WCAG defines it. */
function luminance(...parts: readonly [number, number, number]): number {
  const [red = 0, green = 0, blue = 0] = parts.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Where numbers are on a scale of colours: between its ends, from 0 to 1. */
export interface Scale {
  readonly least: number;
  readonly most: number;
  readonly isLogarithmic: boolean;
  readonly share: (value: number) => number;
}

/** Numbers further apart than this have a logarithmic scale, so that one of them does not make all others the same. */
const FAR = 100;

/** Returns the scale that numbers span. */
export function scaleOf(values: readonly number[], isChange: boolean): Scale {
  const most = values.reduce((found, value) => Math.max(found, isChange ? Math.abs(value) : value), values.length === 0 ? 1 : -Infinity);
  const least = isChange ? -most : values.reduce((found, value) => Math.min(found, value), 0);
  const smallest = values.reduce((found, value) => (value > 0 ? Math.min(found, value) : found), Infinity);
  const isLogarithmic = !isChange && least >= 0 && most / smallest > FAR;
  const share = (value: number): number => (most <= least ? 0.5 : isLogarithmic ? (value <= 0 ? 0 : Math.log(value / smallest) / Math.log(most / smallest)) : (value - least) / (most - least));
  return { least: isLogarithmic ? smallest : least, most, isLogarithmic, share };
}
