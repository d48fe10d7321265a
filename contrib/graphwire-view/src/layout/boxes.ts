/** What boxes say, and how large they are. */

import { argumentsText, isPassing, withoutUnderscores } from "../model/categories.js";
import { classText, modulesOf, withoutCall, type Item, type Link } from "../model/items.js";
import { bytesText, plural, valueFacts, type ValueFacts } from "../model/values.js";
import { clipped, textWidth } from "./text.js";

/** The height of the title of an open group. */
export const HEADER = 24;
const LINE = 16;
const TITLE = 13;
const TEXT = 12;
/** The height of a box of one line, and that of a node that only passes a value on. */
const LEAST = 27; // a finger needs 24 at the least scale at which a drawing is read as a whole
const SMALL = 20;
const MOST = 44;
const LINE_MOST = MOST + 6;
const MARGIN = 22;
/** The width of the sign at the left of a box: of what an operator does, or of a group. */
export const SIGN = 20;

/** What a box says. */
export interface Caption {
  readonly title: string;
  /** What stands after the title, in quieter letters. */
  readonly aside: string;
  readonly lines: readonly string[];
}

/** Returns what a box says. */
export function captionOf(item: Item, open = false): Caption {
  const known = open ? undefined : CAPTIONS.get(item);
  if (known !== undefined) return known;
  const made = written(item, open);
  if (!open) CAPTIONS.set(item, made);
  return made;
}

const CAPTIONS = new WeakMap<Item, Caption>();

function written(item: Item, open: boolean): Caption {
  const [title, aside, ...lines] = textsOf(item, open);
  return { title: clipped(title, MOST), aside: clipped(aside, MOST), lines: lines.filter((line) => line !== "").map((line) => clipped(line, LINE_MOST)) };
}

function textsOf(item: Item, open: boolean): [title: string, aside: string, ...lines: string[]] {
  switch (item.kind) {
    case "module":
    case "program":
    case "run":
      return open ? [titleOf(item), ""] : [titleOf(item), "", contentsOf(item)];
    case "subgraph":
      return [item.title, open ? "" : plural(item.nodes, "node")];
    case "node": {
      const name = `.${titleOf(item)}`.endsWith(`.${item.name}`) ? "" : item.name; // after the name of a library, too
      if (open || isPassing(item)) return [titleOf(item), open ? name : ""];
      return item.calls.length > 0 ? [titleOf(item), "", weightLine(item)] : [titleOf(item), name, weightLine(item)];
    }
    default:
      return [item.title, item.type];
  }
}

/** `layers.0 · Block`, `conv1 · conv2d 3×3, 64`, `add` */
export function titleOf(item: Item): string {
  if (item.kind === "node") {
    const called = item.calls.map(({ title }) => title).join(".");
    const operator = `${operatorTitle(item)} ${argumentsText(item)}`.trim();
    return called === "" ? operator : called === operator.replace(/_$/, "") ? called : `${called} · ${operator}`;
  }
  return item.type === "" || item.kind !== "module" ? item.title : `${item.title} · ${classText(item)}`;
}

/** The operator of a node without the overload, and without underscores around it: `and` for `__and__.Tensor`. */
function operatorTitle({ title, type }: Item): string {
  const isOwn = !type.startsWith(`torch.ops.${title.split(".")[0] ?? ""}.`);
  const [, name = "", overload = ""] = /^(\w+)(\.\w+)?$/.exec(title) ?? [];
  if (!isOwn || name === "") return title;
  return name.startsWith("__") ? withoutUnderscores(name) || name : title.slice(0, title.length - overload.length);
}

function contentsOf(item: Item): string {
  if (item.kind === "run" && item.nodes === 0) return [...new Set(item.children.map(({ type }) => type))].slice(0, 2).join(", ");
  const numbered = item.kind === "module" ? item.children.flatMap((child) => (child.kind === "run" ? child.children : [child])).filter(({ kind, title }) => kind === "module" && /^\d+/.test(title)) : [];
  const classes = [...new Set(numbered.map(classText))];
  const held = numbered.length > 1 && classes.length < 3 ? `${numbered.length} × ${classes.join(", ")}` : ""; // the members of a list of modules
  const isShared = item.kind === "run" && item.bytes > 0 && item.children.reduce((sum, { bytes }) => sum + bytes, 0) > item.bytes;
  const size = item.bytes === 0 ? "" : item.sharesWith !== null ? `weights of ${item.sharesWith.label}` : bytesText(item.bytes) + (isShared ? " shared" : "");
  const contents = held === "" ? plural(item.nodes, "node") : held;
  const changes = [item.tally, item.changedWeights === 0 ? "" : `${plural(item.changedWeights, "weight")} ≠`];
  const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join(" · ");
  const lines = [joined(contents, size, ...changes), joined(contents, ...changes), joined(...changes)]; // changes are never cut
  return (changes.join("") === "" ? undefined : lines.find((line) => line.length <= LINE_MOST)) ?? lines[0] ?? "";
}

const MOST_WEIGHTS = 3;

/** The weights that a node uses, since they have no boxes of their own: `weight 64×3×7×7 · bias 64`. */
function weightLine(item: Item): string {
  const weights = item.operands.flatMap(({ argument, from }) => {
    let maker = from;
    const via: Item[] = [];
    for (; isPassing(maker) && maker.operands[0] !== undefined; maker = maker.operands[0].from) via.unshift(maker);
    const cast = castText(maker.type, via).map((type) => ` ${maker.type.split(" ")[0] ?? ""} ⇄ ${type}`).join("");
    return maker.kind === "weight" ? [`${item.calls.length > 0 ? argument : nameInside(maker, item)} ${shapeOf(maker.type)}${cast}${maker.changedWeights > 0 ? " ≠" : maker.mark === "added" ? " +" : maker.mark === "removed" ? " −" : ""}`] : [];
  });
  if (item.isGroup) { // operands without names
    const modules = [...new Set(item.operands.flatMap(({ from: { kind, name } }) => (kind === "weight" ? [name.slice(0, Math.max(0, name.lastIndexOf("."))) || name] : [])))];
    return weights.length === 0 ? "" : `${plural(weights.length, "weight")} of ${modules.slice(0, 2).join(", ")}${modules.length > 2 ? ", …" : ""}`;
  }
  const line = (most: number): string => [...weights.slice(0, most), ...(weights.length > most ? [`${weights.length - most} more`] : [])].join(" · ");
  let most = weights.length > MOST_WEIGHTS ? MOST_WEIGHTS - 1 : MOST_WEIGHTS;
  while (most > 1 && line(most).length > LINE_MOST) most -= 1;
  return line(most);
}

/** Returns what a weight is called in the module around a node: `weight`, or `cell.weight` if it is that of another one. */
function nameInside({ name }: Item, node: Item): string {
  const around = withoutCall(modulesOf(node).at(-1)?.name ?? "");
  return name.startsWith(`${around}.`) ? name.slice(around.length + 1) : name;
}

/** `64×3×7×7` for `float32 [64, 3, 7, 7]` */
function shapeOf(type: string): string {
  const shape = type.slice(type.indexOf(" ") + 1);
  return shape === "[]" ? "scalar" : shape.replace(/^\[(.*)\]$/, "$1").replaceAll(", ", "×");
}

/** Returns the size of a closed box. */
export function sizeOf(item: Item): { width: number; height: number } {
  const { title, aside, lines } = captionOf(item);
  const isSmall = isPassing(item);
  const first = textWidth(title, isSmall ? TEXT : TITLE, !isSmall) + (aside === "" ? 0 : 8 + textWidth(aside, TEXT)) + (hasSign(item) ? SIGN : 0);
  const width = Math.max(isSmall ? 36 : 52, first, ...lines.map((line) => textWidth(line, TEXT))) + MARGIN - (isSmall ? 8 : 0);
  return { width: Math.round(width), height: isSmall ? SMALL : LEAST + LINE * lines.length };
}

/** The width of the title of an open frame, with its sign. */
export function titleWidth({ title, aside }: Caption): number {
  return SIGN + 10 + textWidth(title, TITLE, true) + (aside === "" ? 0 : 8 + textWidth(aside, TEXT));
}

/** Whether a box has a sign at its left. */
export function hasSign(item: Item): boolean {
  return item.isGroup || (item.kind === "node" && !isPassing(item));
}

/** What stands on a wire past nodes that are not drawn: `⇄`, as the sign of operators that reshape, with the element types that it has then. */
export function passedText(links: readonly Link[]): string {
  const passed = links.filter(({ via }) => via !== undefined);
  const casts = [...new Set(passed.flatMap(({ from, value, via = [] }) => castText(valueFacts(from.scope.graph, value).type, via)))];
  return passed.length === 0 ? "" : ["⇄", casts.length > 2 ? `${casts.length} types` : casts.join(", ")].join(" ").trim();
}

/** Returns the element types that a value becomes on its way past some nodes, such as `int8 → float32`; none if it stays as it is. */
function castText(before: string, via: readonly Item[]): string[] {
  const types = [before, ...via.map(({ scope, values }) => valueFacts(scope.graph, values[0] ?? "").type)].map((type) => type.split(" ")[0] ?? "");
  const become = types.filter((type, index) => index > 0 && type !== "" && type !== types[index - 1]);
  return become.length === 0 ? [] : [become.join(" → ")];
}

/** Returns the label of a wire. */
export function wireLabel({ type, symbol }: ValueFacts): string {
  return clipped(symbol === "" ? type : `${type} ${symbol}`, MOST);
}

/** The heights of the lines of a box. */
export const FONT = { line: LINE, first: 17.5, small: 14 } as const;
