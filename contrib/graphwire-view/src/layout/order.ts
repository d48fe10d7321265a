/** The order in which boxes depend on each other. */

import type { Connection } from "./places.js";

export interface Order {
  /** The boxes, each after those above it. */
  readonly boxes: readonly number[];
  /** Whether a connection goes back up, in a cycle. */
  isBack(connection: Connection): boolean;
}

/** Returns an order of boxes in linear time. A cycle begins with its first box. */
export function orderOf(count: number, connections: readonly Connection[]): Order {
  const below: number[][] = Array.from({ length: count }, () => []);
  const waiting = new Array<number>(count).fill(0);
  for (const { from, to } of connections) {
    below[from]?.push(to);
    waiting[to] = (waiting[to] ?? 0) + 1;
  }
  const position = new Array<number>(count).fill(-1);
  const boxes = waiting.flatMap((left, index) => (left === 0 ? [index] : []));
  for (let at = 0, next = 0; at < count; at++) {
    let box = boxes[at];
    if (box === undefined) {
      // Only cycles are left.
      while ((position[next] ?? -1) >= 0) next += 1;
      box = next;
      boxes.push(box);
    }
    position[box] = at;
    for (const other of below[box] ?? []) {
      if ((position[other] ?? -1) >= 0) continue;
      waiting[other] = (waiting[other] ?? 0) - 1;
      if (waiting[other] === 0) boxes.push(other);
    }
  }
  return { boxes, isBack: ({ from, to }) => (position[from] ?? 0) >= (position[to] ?? 0) };
}
