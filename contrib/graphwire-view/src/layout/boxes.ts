/** What boxes say, and how large they are. */

import type { Item } from "../model/items.js";
import { bytesText, plural, valueFacts, type ValueFacts } from "../model/values.js";
import { clipped, textWidth } from "./text.js";

/** The height of the title of an open group. */
export const HEADER = 24;
const LINE = 15;
const TITLE = 12.5;
const TEXT = 11;
const MOST = 40;
const MARGIN = 22;

/** Returns the lines of a box: its title first. */
export function captionOf(item: Item, open = false): string[] {
  const lines = linesOf(item, open);
  return lines.filter((line) => line !== "").map((line) => clipped(line, MOST));
}

function linesOf(item: Item, open: boolean): string[] {
  switch (item.kind) {
    case "module":
    case "program":
      return open ? [titleOf(item)] : [titleOf(item), contentsOf(item)];
    case "subgraph":
      return open ? [item.title] : [item.title, plural(item.nodes, "node")];
    case "node":
      if (open) return [item.title === item.name ? item.title : `${item.title} · ${item.name}`];
      return [item.title, item.name === item.title ? "" : item.name, ...weightLines(item)];
    default:
      return [item.title, item.type];
  }
}

/** `layers.0 · Block` */
export function titleOf(item: Item): string {
  return item.type === "" || item.kind !== "module" ? item.title : `${item.title} · ${item.type}`;
}

function contentsOf(item: Item): string {
  return [plural(item.nodes, "node"), item.bytes > 0 ? bytesText(item.bytes) : "", item.tally].filter((each) => each !== "").join(" · ");
}

const MOST_WEIGHTS = 3;

/** The weights that a node uses, since they have no boxes of their own. */
function weightLines(item: Item): string[] {
  const weights = item.operands.filter(({ from }) => from.kind === "weight");
  const lines = weights.slice(0, MOST_WEIGHTS).map(({ argument, from }) => `${argument} ${shapeOf(from.type)}`);
  return weights.length > MOST_WEIGHTS ? [...lines, `and ${plural(weights.length - MOST_WEIGHTS, "more weight")}`] : lines;
}

function shapeOf(type: string): string {
  return type.slice(type.indexOf(" ") + 1);
}

/** Returns the size of a closed box. It is wide enough for the label of what leaves it. */
export function sizeOf(item: Item): { width: number; height: number } {
  const lines = captionOf(item);
  const label = item.values[0] === undefined ? "" : wireLabel(valueFacts(item.scope.graph, item.values[0]));
  const widths = lines.map((line, index) => textWidth(line, index === 0 ? TITLE : TEXT, index === 0) + (index === 0 && item.isGroup ? 20 : 0));
  const width = Math.max(56, textWidth(label, 10) - MARGIN + 8, ...widths) + MARGIN;
  return { width: Math.round(width), height: 11 + LINE * lines.length };
}

/** Returns the label of a wire. */
export function wireLabel({ type, symbol }: ValueFacts): string {
  return clipped(symbol === "" ? type : `${type} ${symbol}`, MOST);
}

/** The height of a line of a box, and the sizes of its fonts. */
export const FONT = { line: LINE, title: TITLE, text: TEXT } as const;
