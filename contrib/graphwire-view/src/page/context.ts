/** What panels know, and what they can ask the page to do. */

import type { WeightChange } from "../facts.js";
import type { Difference } from "../model/difference.js";
import type { Item } from "../model/items.js";
import type { Side } from "../model/shown.js";
import type { Reweighted } from "./reweighted.js";

export interface Context {
  /** The method that is shown; in a difference that of the second file. */
  readonly side: Side;
  /** In a difference: that of the first file. */
  readonly before: Side | null;
  readonly difference: Difference | null;
  /** The weights that differ, and how much; null if nobody compared them. */
  readonly weightChanges: ReadonlyMap<string, WeightChange> | null;
  /** In a difference: the weights with other elements that each item uses, or something inside it. */
  readonly reweighted: ReadonlyMap<Item, readonly Reweighted[]>;
  /** What was compared of weights, in words; empty if nobody says. */
  readonly compared: string;
  /** The side that an item is of: in a difference, what was removed is of the first one. */
  sideOf(item: Item): Side;
  /** Shows an item in the drawing, and its details. */
  reveal(item: Item): void;
  toggle(item: Item): void;
  isOpen(item: Item): boolean;
  search(text: string): void;
  /** Goes to the next thing that differs, or the previous one. */
  nextChange(step: number): void;
  /** Assumes another value of a symbol, at which costs are estimated. */
  assume(name: string, value: number): void;
}
