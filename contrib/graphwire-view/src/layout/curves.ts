/** Curves: how wires are drawn through their points. They leave and arrive downwards; between columns they may go up, and turn around. */

import { grown, meets, type Point, type Rectangle } from "./places.js";

/** A cubic Bézier curve. */
export type Curve = readonly [start: Point, first: Point, second: Point, end: Point];

/** How far the handles of a turn are from its ends: it reaches three quarters of that. */
export const TURN = 28;

/** Returns the curves through points, one between each two. A piece straight up makes those beside it turn. */
export function curvesOf(points: readonly Point[]): Curve[] {
  const isUp = points.map(({ x, y }, index) => [points[index - 1], points[index + 1]].some((other, side) => other?.x === x && (side === 0 ? y < other.y : other.y < y)));
  return points.slice(1).map((end, index): Curve => {
    const start = points[index] as Point;
    const [leavesUp, arrivesUp] = [isUp[index] === true, isUp[index + 1] === true];
    const y = leavesUp === arrivesUp ? (start.y + end.y) / 2 : arrivesUp ? start.y + TURN : end.y - TURN;
    return [start, { x: start.x, y }, { x: end.x, y }, end];
  });
}

/** Returns a point on a curve. */
export function pointAt([a, b, c, d]: Curve, t: number): Point {
  const s = 1 - t;
  const of = (part: "x" | "y"): number => s ** 3 * a[part] + 3 * s * s * t * b[part] + 3 * s * t * t * c[part] + t ** 3 * d[part];
  return { x: of("x"), y: of("y") };
}

/** The distance of the points on a curve at which it is looked whether it is in a gap, and how much a gap is wider and higher than the text in it. */
const STEP = 3;
const AROUND = 1;

/** Returns what is left of curves beside gaps. */
export function withGaps(curves: readonly Curve[], gaps: readonly Rectangle[]): Curve[] {
  if (gaps.length === 0) return [...curves];
  const wide = gaps.map((gap) => grown(gap, AROUND));
  return curves.flatMap((curve) => {
    const [start, first, second, end] = curve;
    const count = Math.ceil((Math.abs(end.x - start.x) + Math.abs(first.y - start.y) + Math.abs(second.y - first.y) + Math.abs(end.y - second.y)) / STEP) + 1;
    const isFree = Array.from({ length: count + 1 }, (_, at) => !wide.some((gap) => meets(gap, { ...pointAt(curve, at / count), width: 0, height: 0 })));
    const pieces: Curve[] = [];
    for (let at = 0; at < count; at++) {
      const from = at;
      while (at < count && isFree[at] === true && isFree[at + 1] === true) at += 1;
      if (at > from) pieces.push(pieceOf(curve, from / count, at / count));
    }
    return pieces;
  });
}

/** Returns a part of a curve. */
function pieceOf(curve: Curve, from: number, to: number): Curve {
  const [a, b] = [pointAt(curve, from), pointAt(curve, to)];
  const [leaves, arrives] = [slopeAt(curve, from), slopeAt(curve, to)].map(({ x, y }) => ({ x: (x * (to - from)) / 3, y: (y * (to - from)) / 3 })) as [Point, Point];
  return [a, { x: a.x + leaves.x, y: a.y + leaves.y }, { x: b.x - arrives.x, y: b.y - arrives.y }, b];
}

/** Returns how fast a point on a curve moves. */
function slopeAt([a, b, c, d]: Curve, t: number): Point {
  const s = 1 - t;
  const of = (part: "x" | "y"): number => 3 * s * s * (b[part] - a[part]) + 6 * s * t * (c[part] - b[part]) + 3 * t * t * (d[part] - c[part]);
  return { x: of("x"), y: of("y") };
}
