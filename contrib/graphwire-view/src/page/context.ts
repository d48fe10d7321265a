/** What panels know, and what they can ask the page to do. */

import type { Item } from "../model/items.js";
import type { Side } from "../model/shown.js";

export interface Context {
  /** The method that is shown; in a difference that of the second file. */
  readonly side: Side;
  /** In a difference: that of the first file. */
  readonly before: Side | null;
  /** Shows an item in the drawing, and its details. */
  reveal(item: Item): void;
  toggle(item: Item): void;
  isOpen(item: Item): boolean;
  search(text: string): void;
}
