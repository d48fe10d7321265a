/** Rows over layers: what is the same in each of several layers, but for its number, is one row. */

/** Fewer than this stand alone. */
const LEAST = 3;

export interface OverLayers<T> {
  /** In their order; a single one stands alone. */
  readonly items: readonly [T, ...T[]];
  /** `layers.0–31.mlp.act` */
  readonly name: string;
}

/** Returns rows in the order of their first items. Items are in one row if their paths differ in numbers alone, and what is told of them is the same. */
export function overLayers<T>(items: readonly T[], pathOf: (item: T) => string, told: (item: T) => string): OverLayers<T>[] {
  const rows = new Map<string, [T, ...T[]]>();
  for (const item of items) {
    const key = JSON.stringify([pathOf(item).split(".").map((part) => (isNumber(part) ? 0 : part)), told(item)]);
    const known = rows.get(key);
    if (known === undefined) rows.set(key, [item]);
    else known.push(item);
  }
  return [...rows.values()].flatMap((row): OverLayers<T>[] =>
    row.length < LEAST || new Set(row.map(pathOf)).size === 1 ? row.map((item) => ({ items: [item], name: pathOf(item) })) : [{ items: row, name: nameOf(row.map(pathOf)) }]);
}

function isNumber(part: string): boolean {
  return /^\d{1,9}$/.test(part);
}

/** Returns paths that differ in numbers as one: `layers.0–31.mlp`, `layers.0–3, 7.mlp`. */
function nameOf(paths: readonly string[]): string {
  const parts = paths.map((path) => path.split("."));
  return (parts[0] ?? []).map((part, at) => (isNumber(part) ? rangesText([...new Set(parts.map((each) => Number(each[at])))].sort((a, b) => a - b)) : part)).join(".");
}

const MOST_RANGES = 3;

function rangesText(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last?.[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const texts = ranges.slice(0, MOST_RANGES).map(([first, last]) => (first === last ? String(first) : `${first}–${last}`));
  return texts.join(", ") + (ranges.length > MOST_RANGES ? ", …" : "");
}
