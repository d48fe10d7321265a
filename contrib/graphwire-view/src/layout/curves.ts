/** Curves: how wires are drawn through their points. They leave and arrive downwards; between columns they may go up, and turn around. */

import type { Point } from "./places.js";

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
