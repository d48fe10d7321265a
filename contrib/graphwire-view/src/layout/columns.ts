/** Columns: what is much too tall is cut, and its pieces stand side by side. Time runs down in each, and to the right. */

import { TURN } from "./curves.js";
import { BOX_GAP, RANK_GAP, type Arrangement, type Connection, type Point, type Sized } from "./places.js";

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
/** The distance of wires beside each other between columns, and how many there are; further ones are cut. */
const LANE = 11;
const MOST_LANES = 12;
/** The distance of wires below columns. */
const BUS = 7;

/** Lays out some of the boxes, with some of the connections between them; both by their positions. */
export type Arrange = (boxes: readonly number[], edges: readonly number[]) => Arrangement;

/** Lays out boxes in as many columns as they need. Wires lead from one column to another as long as there are few. With a screen, the columns fit it, if they can. */
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
    let found = sideBySide(columns, columnOf, leaves, arrange, sizes, connections);
    if (screen !== undefined && found.width > screen.width) {
      connections.forEach(({ from, to }, index) => {
        if ((places[to]?.y ?? 0) - (places[from]?.y ?? 0) > LONG) leaves.add(index);
      });
      found = sideBySide(columns, columnOf, leaves, arrange, sizes, connections);
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

/** Lays out each column by itself; then the wires that leave it. */
function sideBySide(columns: readonly (readonly number[])[], columnOf: readonly number[], leaves: ReadonlySet<number>, arrange: Arrange, sizes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  const inside = columns.map((): number[] => []);
  const cut = new Set(leaves);
  connections.forEach(({ from }, index) => {
    if (!leaves.has(index)) inside[columnOf[from] ?? 0]?.push(index);
  });
  const lanes = columns.map(() => new Map<string, number>());
  const across = new Map<number, string>();
  for (const index of leaves) {
    const { from, to, startsAt = 0, brings = 0 } = connections[index] as Connection;
    const [here, there] = [columnOf[from] ?? 0, columnOf[to] ?? 0];
    if (there <= here) continue;
    const key = `${from} ${startsAt} ${brings}`;
    const used = [...new Set([here, there - 1])].map((column) => lanes[column] as Map<string, number>);
    if (used.some((lane) => lane.size >= MOST_LANES && !lane.has(key))) continue;
    for (const lane of used) if (!lane.has(key)) lane.set(key, lane.size);
    across.set(index, key);
    cut.delete(index);
  }
  const places: Point[] = [];
  const bends: (readonly Point[])[] = connections.map(() => []);
  const gaps: Point[] = []; // where the lanes at the right of each column begin
  let [left, width, height] = [0, 0, 0];
  columns.forEach((boxes, column) => {
    const edges = inside[column] ?? [];
    const made = arrange(boxes, edges);
    const moved = ({ x, y }: Point): Point => ({ x: x + left, y });
    boxes.forEach((box, at) => { places[box] = moved(made.places[at] as Point); });
    edges.forEach((edge, at) => {
      bends[edge] = (made.bends[at] ?? []).map(moved);
      if (made.cut?.has(at) === true) cut.add(edge);
    });
    width = left + made.width;
    const room = LANE * Math.max(0, (lanes[column]?.size ?? 0) - 1);
    const gap = Math.max(GAP, room + 2 * BOX_GAP);
    gaps.push({ x: width + (gap - room) / 2, y: 0 });
    left = width + gap;
    height = Math.max(height, made.height);
  });
  if (across.size === 0) return { places, bends, cut, width, height };
  return withAcross({ places, bends, cut, width, height }, sizes, connections, across, (column, key) => (gaps[column]?.x ?? 0) + LANE * (lanes[column]?.get(key) ?? 0), columnOf);
}

/** Leads wires from one column to another: through the lane beside the first, below what is between, and up or down through that before the last. */
function withAcross(given: Arrangement, sizes: readonly Sized[], connections: readonly Connection[], across: ReadonlyMap<number, string>, lane: (column: number, key: string) => number, columnOf: readonly number[]): Arrangement {
  const rows = new Map<string, { top: number; bottom: number }>();
  const rowOf = (box: number): string => `${columnOf[box] ?? 0} ${Math.round((given.places[box]?.y ?? 0) + (sizes[box]?.height ?? 0) / 2)}`;
  given.places.forEach(({ y }, box) => {
    const known = rows.get(rowOf(box)) ?? { top: y, bottom: y };
    rows.set(rowOf(box), { top: Math.min(known.top, y), bottom: Math.max(known.bottom, y + (sizes[box]?.height ?? 0)) });
  });
  const middle = (box: number): number => (given.places[box]?.x ?? 0) + (sizes[box]?.width ?? 0) / 2;
  const buses = new Map<string, number>();
  const bends = [...given.bends];
  let [least, most] = [0, given.height];
  for (const [index, key] of across) {
    const { from, to, startsAt = 0, endsAt = 0 } = connections[index] as Connection;
    const [here, there] = [columnOf[from] ?? 0, columnOf[to] ?? 0];
    const [{ bottom } = { bottom: 0 }, { top } = { top: 0 }] = [rows.get(rowOf(from)), rows.get(rowOf(to))];
    const [first, last] = [lane(here, key), lane(there - 1, key)];
    const points: Point[] = [];
    if (bottom > (given.places[from]?.y ?? 0) + (sizes[from]?.height ?? 0) + 1) points.push({ x: middle(from) + startsAt, y: bottom }); // past the boxes beside it
    const isLast = sizes[to]?.rank === "last"; // at the border below all columns
    if (isLast || there > here + 1) {
      const level = buses.get(key) ?? buses.size;
      buses.set(key, level);
      const y = Math.max(given.height, bottom + RANK_GAP) + BUS * level;
      points.push({ x: first, y: bottom + RANK_GAP }, { x: first, y }, ...(isLast ? [{ x: middle(to) + endsAt, y }] : [{ x: last, y }, { x: last, y: top }]));
    } else if (top < bottom - 1) points.push({ x: first, y: bottom }, { x: first, y: top });
    else if (top < bottom + RANK_GAP) points.push({ x: first, y: (top + bottom) / 2 + 1 }, { x: first, y: (top + bottom) / 2 - 1 }); // not along the border of a box
    else if (top < bottom + 2 * RANK_GAP) points.push({ x: first, y: (top + bottom) / 2 });
    else points.push({ x: first, y: bottom + RANK_GAP }, { x: first, y: top - RANK_GAP });
    if (!isLast && top < (given.places[to]?.y ?? 0) - 1) points.push({ x: middle(to) + endsAt, y: top });
    bends[index] = points;
    least = Math.min(least, ...points.map(({ y }) => (y <= top ? y - TURN : y)));
    most = Math.max(most, ...points.map(({ y }) => (y >= bottom ? y + TURN : y)));
  }
  const moved = ({ x, y }: Point): Point => ({ x, y: y - least });
  return { ...given, places: given.places.map(moved), bends: bends.map((points) => points.map(moved)), across: new Set(across.keys()), height: most - least };
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
