/** Operators of a program by count, and by estimated work. */

import type { Cost } from "./costs.js";
import { shortOperator, within, type Item } from "./items.js";

export interface OperatorRow {
  readonly target: string;
  readonly name: string;
  readonly count: number;
  readonly flops: number;
  readonly bytes: number;
}

/** Returns the operators, the most frequent first. */
export function operatorRows(root: Item, costs: ReadonlyMap<string, Cost>): OperatorRow[] {
  const found = new Map<string, { count: number; flops: number; bytes: number }>();
  for (const item of within(root)) {
    if (item.kind !== "node") continue;
    const row = found.get(item.type) ?? { count: 0, flops: 0, bytes: 0 };
    const cost = costs.get(item.path);
    found.set(item.type, { count: row.count + 1, flops: row.flops + (cost?.flops ?? NaN), bytes: row.bytes + (cost?.bytes ?? NaN) });
  }
  const rows = Array.from(found, ([target, row]) => ({ target, name: shortOperator(target), ...row }));
  return rows.sort((a, b) => b.count - a.count || (a.target < b.target ? -1 : 1));
}
