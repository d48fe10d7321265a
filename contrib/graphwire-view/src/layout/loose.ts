/** Loose boxes, which no edge reaches: they stand just above the next box that is made from others. What is too much goes in rows below, or beside the others, where wires leave at the bottom. */

import { BOX_GAP, RANK_GAP, type Arrangement, type Connection, type Point, type Sized } from "./places.js";

type Layout = (boxes: readonly Sized[], connections: readonly Connection[]) => Arrangement;

/** The rows of loose boxes are at least this wide; loose boxes above one box are together no wider. */
const LEAST_WIDTH = 700;

/** Lays out boxes in the order of the program: time runs down for those without edges, too. */
export function withLoose(layout: Layout, boxes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  const ties = tiesOf(boxes, connections);
  const { bends, cut, ...made } = withRows(layout, boxes, [...connections, ...ties]);
  const drawn = { ...made, bends: bends.slice(0, connections.length) };
  return cut === undefined ? drawn : { ...drawn, cut: new Set([...cut].filter((index) => index < connections.length)) };
}

/** Returns a connection that is not drawn from each loose box to the next one that is made from others. */
function tiesOf(boxes: readonly Sized[], connections: readonly Connection[]): Connection[] {
  const tied = new Set(connections.flatMap(({ from, to }) => [from, to]));
  if (tied.size === 0) return [];
  const made = new Set(connections.map(({ to }) => to));
  const ties: Connection[] = [];
  let [next, taken] = [-1, 0];
  for (let box = boxes.length - 1; box >= 0; box--) {
    if (boxes[box]?.rank !== null) continue;
    if (made.has(box)) [next, taken] = [box, 0];
    if (next < 0 || tied.has(box)) continue;
    taken += (boxes[box]?.width ?? 0) + BOX_GAP;
    if (taken <= LEAST_WIDTH) ties.push({ from: box, to: next });
  }
  return ties;
}

/** Lays out boxes that have edges, and puts the others below them, or beside them in a frame with ports. */
function withRows(layout: Layout, boxes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  const tied = new Set(connections.flatMap(({ from, to }) => [from, to]));
  const kept = boxes.map((_, index) => index).filter((index) => tied.has(index));
  if (kept.length === boxes.length) return layout(boxes, connections);
  const position = new Map(kept.map((index, at) => [index, at]));
  const at = (index: number): number => position.get(index) ?? 0;
  const empty: Arrangement = { places: [], bends: [], width: 0, height: 0 };
  const inner = kept.length === 0 ? empty : layout(kept.map((index) => boxes[index] as Sized), connections.map((each) => ({ ...each, from: at(each.from), to: at(each.to) })));
  const isBeside = boxes.some(({ rank }, index) => rank === "last" && tied.has(index));
  const left = isBeside ? inner.width + BOX_GAP : 0;
  const limit = isBeside ? left + LEAST_WIDTH / 2 : Math.max(inner.width, LEAST_WIDTH);
  const places: Point[] = boxes.map((_, index) => inner.places[at(index)] ?? { x: 0, y: 0 });
  let [x, y, row, width] = [left, isBeside || inner.height === 0 ? 0 : inner.height + RANK_GAP, 0, inner.width];
  boxes.forEach((box, index) => {
    if (tied.has(index)) return;
    if (x > left && x + box.width > limit) {
      x = left;
      y += row + BOX_GAP;
      row = 0;
    }
    places[index] = { x, y };
    x += box.width + BOX_GAP;
    row = Math.max(row, box.height);
    width = Math.max(width, x - BOX_GAP);
  });
  return { ...inner, places, width, height: Math.max(inner.height, y + row) };
}
