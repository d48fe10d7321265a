/**
 * A layered layout in linear time: ranks by longest paths, order in a rank by a few sweeps of barycenters,
 * positions by averages. Edges over many ranks go through lanes at the right. What brings one value of a box to several goes together at first.
 */

import { orderOf } from "./order.js";
import { BOX_GAP, MOST_WIDTH, RANK_GAP, type Arrangement, type Connection, type Point, type Sized } from "./places.js";

/** Edges over more ranks than this go through a lane. */
const LONG = 10;
const SWEEPS = 4;
const VERY_WIDE = 0.6 * MOST_WIDTH;
const LANE = 14;
/** The lanes, and the edges that pass a rank; how many edges one lane leads from its box. Further edges are cut. */
const MAX_LANES = 40;
const MAX_OF_LANE = 40;
/** The trunks of a place where edges begin: further values share the last. */
const TRUNKS = 4;

interface Cell {
  readonly rank: number;
  readonly width: number;
  readonly above: Neighbour[];
  readonly below: Neighbour[];
  x: number;
}

/** A cell at the other end of an edge: how far at the right of the middles of both cells the edge ends. */
interface Neighbour {
  readonly cell: number;
  readonly there: number;
  readonly here: number;
}

export function layeredLayout(boxes: readonly Sized[], connections: readonly Connection[], wide = MOST_WIDTH): Arrangement {
  const ranks = ranksOf(boxes, connections, wide);
  const cells: Cell[] = boxes.map((box, index) => ({ rank: ranks[index] ?? 0, width: box.width, above: [], below: [], x: 0 }));
  const trunks = new Map<string, number[]>();
  const passing: number[] = []; // no edge passes beside what is very wide
  boxes.forEach(({ width }, index) => { if (width > VERY_WIDE) passing[ranks[index] ?? 0] = MAX_LANES; });
  const chains = connections.map((connection) => chain(cells, { trunks, passing }, connection));
  const rows = rowsOf(cells);
  let best = { crossed: Infinity, rows: rows.map((row) => [...row]) };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    orderRows(cells, rows, sweep % 2 === 0);
    const crossed = crossings(cells, rows);
    if (crossed <= best.crossed) best = { crossed, rows: rows.map((row) => [...row]) };
  }
  best.rows.forEach((row, rank) => {
    rows[rank] = row;
    spread(cells, row);
  });
  placeCells(cells, rows, boxes.length);
  const [leftmost, rightmost] = [smallest(cells.map((cell) => cell.x - cell.width / 2)), largest(cells.map((cell) => cell.x + cell.width / 2))];
  if (rightmost - leftmost > wide) { // less straight, but less wide
    for (const row of rows) spread(cells, row);
    placeCells(cells, rows, 0);
  }
  const heights = rows.map((row) => Math.max(0, ...row.map((cell) => boxes[cell]?.height ?? 0)));
  const tops: number[] = [];
  let height = 0;
  for (const each of heights) {
    tops.push(height);
    height += each + RANK_GAP;
  }
  height = Math.max(0, height - RANK_GAP);
  const left = smallest(cells.map((cell) => cell.x - cell.width / 2));
  const right = largest(cells.map((cell) => cell.x + cell.width / 2)) - left;
  const middle = (cell: Cell): Point => ({ x: cell.x - left, y: (tops[cell.rank] ?? 0) + (heights[cell.rank] ?? 0) / 2 });
  const upright = (cell: Cell): Point[] => {
    const { x, y } = middle(cell);
    const half = (heights[cell.rank] ?? 0) / 2;
    return half < 1 ? [{ x, y }] : [{ x, y: y - half }, { x, y: y + half }];
  };
  const places = boxes.map((box, index) => {
    const { x, y } = middle(cells[index] as Cell);
    return { x: x - box.width / 2, y: y - box.height / 2 };
  });
  const lanes = new Lanes();
  const cut = new Set<number>();
  const begun = new Map<string, { readonly lane: number; readonly edges: number }>();
  const reach = new Map<string, number>();
  connections.forEach((connection, index) => {
    const key = trunkOf(connection);
    if (chains[index] === null) reach.set(key, Math.max(reach.get(key) ?? 0, ranks[connection.to] ?? 0));
  });
  const bends = connections.map((connection, index) => {
    const { from, to } = connection;
    const key = trunkOf(connection);
    const passed = chains[index];
    if (passed !== null && passed !== undefined) return passed.flatMap((index) => upright(cells[index] as Cell));
    const first = begun.get(key);
    if (first !== undefined && first.edges >= MAX_OF_LANE) {
      cut.add(index);
      return [];
    }
    const lane = first?.lane ?? lanes.take(ranks[from] ?? 0, reach.get(key) ?? 0);
    begun.set(key, { lane, edges: (first?.edges ?? 0) + 1 });
    const [start, stop] = [middle(cells[from] as Cell), middle(cells[to] as Cell)];
    const [top, bottom] = [start.y + (heights[ranks[from] ?? 0] ?? 0) / 2, stop.y - (heights[ranks[to] ?? 0] ?? 0) / 2];
    const x = right + BOX_GAP + LANE * lane;
    return [{ x, y: top + RANK_GAP }, { x, y: bottom - RANK_GAP }];
  });
  const width = lanes.used === 0 ? right : right + BOX_GAP + LANE * lanes.used;
  return { places, bends, cut, width, height };
}

function smallest(values: readonly number[]): number {
  return values.reduce((least, value) => Math.min(least, value), values[0] ?? 0);
}

function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), values[0] ?? 0);
}

/** Returns the rank of each box: one more than the largest rank above it; ports stay at the borders. Edges that would close a cycle are ignored. */
function ranksOf(boxes: readonly Sized[], connections: readonly Connection[], wide: number): number[] {
  const order = orderOf(boxes.length, connections);
  const below = boxes.map((): number[] => []);
  for (const connection of connections) if (!order.isBack(connection)) below[connection.from]?.push(connection.to);
  const ranks = boxes.map(({ rank }): number => (rank === "first" ? -1 : 0));
  const widths: number[] = [];
  for (const box of order.boxes) {
    const width = (boxes[box]?.width ?? 0) + BOX_GAP;
    let rank = ranks[box] ?? 0;
    if (boxes[box]?.rank === null) {
      while ((widths[rank] ?? 0) > 0 && (widths[rank] ?? 0) + width > wide) rank += 1;
      widths[rank] = (widths[rank] ?? 0) + width;
    }
    ranks[box] = rank;
    for (const other of below[box] ?? []) ranks[other] = Math.max(ranks[other] ?? 0, (ranks[box] ?? 0) + 1);
  }
  return settled(boxes, order.boxes, below, ranks, { widths, wide });
}

/** Moves sources down to their first users, and ports to the borders. */
function settled(boxes: readonly Sized[], order: readonly number[], below: readonly (readonly number[])[], given: readonly number[], { widths, wide }: { readonly widths: number[]; readonly wide: number }): number[] {
  const ranks = [...given];
  const sources = new Set(order);
  for (const users of below) for (const user of users) sources.delete(user);
  for (const box of sources) {
    const first = smallest((below[box] ?? []).map((user) => ranks[user] ?? 0));
    const width = (boxes[box]?.width ?? 0) + BOX_GAP;
    const rank = Math.max(0, first - 1);
    if ((below[box]?.length ?? 0) === 0 || rank <= (ranks[box] ?? 0) || (widths[rank] ?? 0) + width > wide) continue;
    widths[rank] = (widths[rank] ?? 0) + width;
    ranks[box] = rank;
  }
  const hasFirst = boxes.some(({ rank }) => rank === "first");
  const last = largest(ranks.filter((_, index) => boxes[index]?.rank === null)) + (hasFirst ? 2 : 1);
  return boxes.map(({ rank }, index) => {
    if (rank === "first") return 0;
    return rank === "last" ? last : (ranks[index] ?? 0) + (hasFirst ? 1 : 0);
  });
}

/** Returns what edges have in common that go together at first. */
function trunkOf({ from, startsAt = 0, brings = 0 }: Connection): string {
  return `${from} ${startsAt} ${Math.min(brings, TRUNKS - 1)}`;
}

/**
 * Returns the cells that an edge passes, one in each rank between its ends; null if the edge goes through a lane, or back. All edges of
 * a box that bring the same value pass the same cells, its trunk. `passing` counts them by rank.
 */
function chain(cells: Cell[], { trunks, passing }: { readonly trunks: Map<string, number[]>; readonly passing: number[] }, { from, to, startsAt = 0, endsAt = 0, brings = 0 }: Connection): number[] | null {
  const [start, stop] = [cells[from]?.rank ?? 0, cells[to]?.rank ?? 0];
  if (stop <= start || stop - start > LONG) return null;
  const key = trunkOf({ from, to, startsAt, brings });
  const trunk = trunks.get(key) ?? [];
  for (let rank = start + trunk.length + 1; rank < stop; rank++) if ((passing[rank] ?? 0) >= MAX_LANES) return null;
  trunks.set(key, trunk);
  while (trunk.length < stop - start - 1) {
    const rank = start + trunk.length + 1;
    passing[rank] = (passing[rank] ?? 0) + 1;
    const above = trunk.at(-1) ?? from;
    trunk.push(cells.length);
    cells.push({ rank: start + trunk.length, width: 8, above: [], below: [], x: 0 });
    tie(cells, above, above === from ? startsAt : 0, cells.length - 1, 0);
  }
  const passed = trunk.slice(0, stop - start - 1);
  const above = passed.at(-1) ?? from;
  tie(cells, above, above === from ? startsAt : 0, to, endsAt);
  return passed;
}

function tie(cells: readonly Cell[], above: number, startsAt: number, below: number, endsAt: number): void {
  cells[above]?.below.push({ cell: below, there: endsAt, here: startsAt });
  cells[below]?.above.push({ cell: above, there: startsAt, here: endsAt });
}

function rowsOf(cells: readonly Cell[]): number[][] {
  const rows: number[][] = Array.from({ length: largest(cells.map(({ rank }) => rank)) + 1 }, () => []);
  cells.forEach(({ rank }, index) => rows[rank]?.push(index));
  if (cells.length === 0) return [];
  for (const row of rows) spread(cells, row);
  return rows;
}

/** Places the cells of a row side by side, in order. */
function spread(cells: readonly Cell[], row: readonly number[]): void {
  let x = 0;
  for (const index of row) {
    const cell = cells[index] as Cell;
    cell.x = x + cell.width / 2;
    x += cell.width + BOX_GAP;
  }
  for (const index of row) (cells[index] as Cell).x -= (x - BOX_GAP) / 2;
}

/** Returns where a cell wants to be because of its neighbours: the mean of where they are. */
function average(cells: readonly Cell[], neighbours: readonly Neighbour[], where = ({ cell }: Neighbour): number => (cells[cell] as Cell).x): number | null {
  return neighbours.length === 0 ? null : neighbours.reduce((sum, each) => sum + where(each), 0) / neighbours.length;
}

function orderRows(cells: readonly Cell[], rows: readonly number[][], down: boolean): void {
  for (const row of down ? rows : [...rows].reverse()) {
    if (row.length < 2) continue;
    const wanted = new Map(row.map((index) => {
      const cell = cells[index] as Cell;
      return [index, average(cells, down ? cell.above : cell.below, ({ cell: other, there }) => (cells[other] as Cell).x + there) ?? cell.x] as const;
    }));
    row.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
    spread(cells, row);
  }
}

/** Returns how often edges cross between rows, each of them a straight line. */
function crossings(cells: readonly Cell[], rows: readonly (readonly number[])[]): number {
  let count = 0;
  for (const row of rows) {
    const ends = row.flatMap((index) => (cells[index] as Cell).below.map(({ cell, here, there }) => [(cells[index] as Cell).x + here, (cells[cell] as Cell).x + there] as const));
    const seen: number[] = []; // where edges that begin further left end, sorted
    for (const [, end] of ends.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
      let [low, high] = [0, seen.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((seen[middle] ?? 0) > end) high = middle;
        else low = middle + 1;
      }
      count += seen.length - low;
      seen.splice(low, 0, end);
    }
  }
  return count;
}

/** Moves each cell towards its neighbours, without changing the order in its row: boxes towards boxes, and what only passes towards what passes, so that chains, and long wires beside them, are straight. The first `count` cells are boxes. */
function placeCells(cells: readonly Cell[], rows: readonly (readonly number[])[], count: number): void {
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const wanted = row.map((index) => {
        const cell = cells[index] as Cell;
        const sides = down ? [cell.above, cell.below] : [cell.below, cell.above];
        const alike = sides.map((side) => side.filter((other) => (other.cell < count) === (index < count)));
        return [...alike, ...sides].reduce<number | null>((found, side) => found ?? average(cells, side), null) ?? cell.x;
      });
      place(cells, row, wanted);
    }
  }
}

/** Places the cells of a row as near as possible to where they want to be: the middle of the two tightest packings. */
function place(cells: readonly Cell[], row: readonly number[], wanted: readonly number[]): void {
  const gap = (a: number, b: number): number => ((cells[a] as Cell).width + (cells[b] as Cell).width) / 2 + BOX_GAP;
  const rightwards: number[] = [];
  row.forEach((index, at) => {
    const before = rightwards[at - 1];
    const least = before === undefined ? -Infinity : before + gap(row[at - 1] ?? 0, index);
    rightwards.push(Math.max(wanted[at] ?? 0, least));
  });
  let limit = Infinity;
  for (let at = row.length - 1; at >= 0; at--) {
    const index = row[at] ?? 0;
    const leftwards = Math.min(wanted[at] ?? 0, limit);
    limit = leftwards - (at > 0 ? gap(row[at - 1] ?? 0, index) : 0);
    (cells[index] as Cell).x = ((rightwards[at] ?? 0) + leftwards) / 2;
  }
}

/** Lanes beside the boxes, each free for a range of ranks. */
class Lanes {
  private readonly free: number[] = [];

  get used(): number {
    return this.free.length;
  }

  take(from: number, to: number): number {
    const [start, stop] = from < to ? [from, to] : [to, from];
    const found = this.free.findIndex((until) => until < start);
    const lane = found >= 0 ? found : this.free.length < MAX_LANES ? this.free.length : start % MAX_LANES;
    this.free[lane] = Math.max(stop, this.free[lane] ?? 0);
    return lane;
  }
}
