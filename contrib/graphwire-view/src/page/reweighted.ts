/** In a difference: by how much the weights changed that an item uses, itself or something inside it. */

import type { WeightChange } from "../facts.js";
import { isPassing } from "../model/categories.js";
import { weightChange, type Difference } from "../model/difference.js";
import { reached, type Item } from "../model/items.js";
import { colourAt } from "../model/overlay.js";
import { numberText } from "../model/values.js";

export interface Reweighted {
  readonly weight: Item;
  /** Null if nobody compared elements. */
  readonly change: WeightChange | null;
}

/** What stands at a box. */
export interface WeightBadge {
  readonly text: string;
  readonly fill: string;
  readonly ink: string;
}

/** From this share of the norm on, a change has the last colour: as much as the weight itself. */
const WHOLE = 1;
/** A change of less than this share has the first colour. */
const LITTLE = 1e-4;

/** Returns the changed weights of each item that uses any, those that changed most first. */
export function reweightedOf({ weights }: Difference, changes: ReadonlyMap<string, WeightChange> | null): ReadonlyMap<Item, readonly Reweighted[]> {
  const all = weights.map((weight): Reweighted => ({ weight, change: weightChange(weight, changes ?? new Map<string, WeightChange>()) ?? null }));
  const found = new Map<Item, Reweighted[]>();
  for (const each of all.sort((a, b) => (b.change?.norm ?? 0) - (a.change?.norm ?? 0))) {
    for (const item of new Set(reached(each.weight, isPassing))) {
      const known = found.get(item);
      if (known === undefined) found.set(item, [each]);
      else known.push(each);
    }
  }
  return found;
}

/** Returns the norm of a difference in words: `25 %`; empty if nobody measured it. */
export function shareText(norm: number | null | undefined): string {
  return norm == null ? "" : `${numberText(Number((100 * norm).toPrecision(2)))} %`;
}

/** `weights ≠ 25 %`, by the weight that changed most. */
export function weightBadge([most]: readonly Reweighted[]): WeightBadge {
  const norm = most?.change?.norm ?? null;
  const share = norm === null ? 0.3 : Math.log(Math.max(norm, LITTLE) / LITTLE) / Math.log(WHOLE / LITTLE);
  return { text: `≠ ${norm === null ? "weights" : shareText(norm)}`, ...colourAt(share, false) };
}
