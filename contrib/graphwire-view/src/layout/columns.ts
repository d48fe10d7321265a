/** Columns: what is much too tall is cut, and its pieces stand side by side. Time runs down in each, and to the right. */

import { BOX_GAP, type Arrangement, type Connection, type Point, type Sized } from "./places.js";

/** An arrangement that is less tall is not cut, unless it can be seen as a whole only that way. */
export const TALL = 6000;
/** How much wider than tall the columns together are. */
const RATIO = 1.6;
const GAP = 3 * BOX_GAP;
/** How many more columns are tried, so that each fits. */
const MORE = 2;
/** The room between rows where more does not fit. */
const TIGHT = 19;
/** Longer wires are cut, too, where columns are too wide with them. */
const LONG = 160;

/** Lays out some of the boxes, with some of the connections between them; both by their positions. */
export type Arrange = (boxes: readonly number[], edges: readonly number[]) => Arrangement;

/** Lays out boxes in as many columns as they need. Wires from one column to another are cut. With a screen, the columns fit it, if they can. */
export function inColumns(arrange: Arrange, sizes: readonly Sized[], connections: readonly Connection[], screen?: { readonly width: number; readonly height: number }): Arrangement {
  const tall = screen?.height ?? TALL;
  const given = arrange([...sizes.keys()], [...connections.keys()]);
  const { places, width, height } = given;
  if (height <= tall) return given;
  const tight = squeezed(given, sizes);
  if (screen !== undefined && tight.height <= tall) return tight;
  const taken = sizes.reduce((sum, size) => sum + size.width * (size.height + TIGHT), 0);
  const hasRoom = screen === undefined || taken <= screen.width * (screen.height + TIGHT);
  const least = screen !== undefined ? Math.ceil(height / tall) : Math.round(Math.sqrt((height * RATIO) / (width + GAP)));
  for (let count = Math.max(2, least); hasRoom && count <= least + MORE; count++) {
    const tops = cuts(given, sizes, count);
    const columnOf = places.map(({ y }) => tops.findLastIndex((top) => top <= y));
    const columns = tops.map((_, column) => columnOf.flatMap((own, box) => (own === column ? [box] : [])));
    const leaves = new Set([...connections.keys()].filter((index) => columnOf[connections[index]?.from ?? 0] !== columnOf[connections[index]?.to ?? 0]));
    let found = sideBySide(columns, columnOf, leaves, arrange, connections);
    if (screen !== undefined && found.width > screen.width) {
      connections.forEach(({ from, to }, index) => {
        if ((places[to]?.y ?? 0) - (places[from]?.y ?? 0) > LONG) leaves.add(index);
      });
      found = sideBySide(columns, columnOf, leaves, arrange, connections);
    }
    if (screen === undefined || (found.height <= tall && found.width <= screen.width)) return found;
  }
  return height <= TALL ? given : inColumns(arrange, sizes, connections); // what does not fit is read from the top
}

/** Returns an arrangement with less room between its rows: as much as the label of a wire needs. */
function squeezed(given: Arrangement, sizes: readonly Sized[]): Arrangement {
  const order = given.places.map(({ y }, index) => [y, y + (sizes[index]?.height ?? 0)] as const).sort(([a], [b]) => a - b);
  const rows: [top: number, bottom: number, saved: number][] = [];
  for (const [top, bottom] of order) {
    const last = rows.at(-1);
    if (last !== undefined && top <= last[1]) last[1] = Math.max(last[1], bottom);
    else rows.push([top, bottom, last === undefined ? 0 : last[2] + Math.max(0, top - last[1] - TIGHT)]);
  }
  const moved = ({ x, y }: Point): Point => { // in a gap a point is as far along as before
    const at = rows.findLastIndex(([top]) => top <= y);
    const [, bottom = 0, saved = 0] = rows[at] ?? [];
    const [top = bottom, , later = saved] = rows[at + 1] ?? [];
    return { x, y: y - saved - (y > bottom && top > bottom ? ((later - saved) * (y - bottom)) / (top - bottom) : 0) };
  };
  return { ...given, places: given.places.map(moved), bends: given.bends.map((points) => points.map(moved)), height: given.height - (rows.at(-1)?.[2] ?? 0) };
}

/** Lays out each column by itself, without the connections that leave it. */
function sideBySide(columns: readonly (readonly number[])[], columnOf: readonly number[], leaves: ReadonlySet<number>, arrange: Arrange, connections: readonly Connection[]): Arrangement {
  const inside = columns.map((): number[] => []);
  const cut = new Set(leaves);
  connections.forEach(({ from }, index) => {
    if (!leaves.has(index)) inside[columnOf[from] ?? 0]?.push(index);
  });
  const places: Point[] = [];
  const bends: (readonly Point[])[] = connections.map(() => []);
  let [left, height] = [0, 0];
  columns.forEach((boxes, column) => {
    const edges = inside[column] ?? [];
    const made = arrange(boxes, edges);
    const moved = ({ x, y }: Point): Point => ({ x: x + left, y });
    boxes.forEach((box, at) => { places[box] = moved(made.places[at] as Point); });
    edges.forEach((edge, at) => {
      bends[edge] = (made.bends[at] ?? []).map(moved);
      if (made.cut?.has(at) === true) cut.add(edge);
    });
    left += made.width + GAP;
    height = Math.max(height, made.height);
  });
  return { places, bends, cut, width: left - GAP, height };
}

/** Returns where columns of about the same height begin: at boxes with nothing beside them that began earlier. */
function cuts({ places, height }: Arrangement, sizes: readonly Sized[], count: number): number[] {
  const order = [...places.keys()].sort((a, b) => (places[a]?.y ?? 0) - (places[b]?.y ?? 0));
  const free: number[] = [];
  let bottom = 0;
  for (const index of order) {
    const { y } = places[index] ?? { y: 0 };
    if (y >= bottom && y > 0) free.push(y);
    bottom = Math.max(bottom, y + (sizes[index]?.height ?? 0));
  }
  const wanted = Array.from({ length: count - 1 }, (_, index) => ((index + 1) * height) / count);
  const nearest = wanted.map((y) => free.reduce((best, each) => (Math.abs(each - y) < Math.abs(best - y) ? each : best), 0));
  return [...new Set([0, ...nearest])];
}
