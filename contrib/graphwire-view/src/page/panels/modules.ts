/** The panel with the tree of modules, which folds and unfolds the drawing. */

import { titleOf } from "../../layout/boxes.js";
import type { Item } from "../../model/items.js";
import { bytesText, countText } from "../../model/values.js";
import type { Context } from "../context.js";
import { html } from "../elements.js";

/** The most items that the tree lists, and one group of it. */
const MOST_ROWS = 600;
const MOST = 300;

/** Returns the tree of modules and nodes. Opening a group here opens it in the drawing. */
export function modulesPanel(context: Context): HTMLElement {
  const tree = html("ul", { role: "tree", class: "tree", "aria-label": "Modules" }, branch(context, context.side.items.root, 1, { left: MOST_ROWS }));
  tree.addEventListener("keydown", (event) => { moveInTree(tree, event); });
  const [first] = tree.querySelectorAll<HTMLElement>("[role=treeitem]");
  if (first !== undefined) first.tabIndex = 0;
  return html("div", {}, html("p", { class: "quiet" }, "Unfold a module here or in the drawing."), tree);
}

function branch(context: Context, item: Item, level: number, rowsOf: { left: number }): HTMLElement {
  const open = context.isOpen(item);
  const sign = html("span", { class: "twisty", "aria-hidden": "true" }, item.isGroup ? (open ? "▾" : "▸") : "");
  const details = item.kind === "module" || item.kind === "program" ? [countText(item.nodes), item.bytes > 0 ? bytesText(item.bytes) : ""] : [];
  const row = html(
    "div",
    { class: `row ${item.kind}` },
    sign,
    html("span", { class: "name" }, item.kind === "node" && item.calls.length === 0 ? item.name : titleOf(item)),
    html("span", { class: "quiet" }, item.kind === "node" ? (item.calls.length === 0 ? item.title : item.name) : details.filter((each) => each !== "").join(" · ")),
  );
  const made = html("li", { role: "treeitem", "aria-level": level, tabindex: -1, "data-tree": item.id, ...(item.isGroup ? { "aria-expanded": String(open) } : {}) }, row);
  sign.addEventListener("click", (event) => {
    event.stopPropagation();
    if (item.isGroup) context.toggle(item);
  });
  row.addEventListener("click", () => { context.reveal(item); });
  made.addEventListener("keydown", (event) => {
    if (event.target !== made) return;
    const isToggle = item.isGroup && ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open));
    if (isToggle) context.toggle(item);
    else if (event.key === "Enter" || event.key === " ") context.reveal(item);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  if (open && item.isGroup) {
    const shown = item.children.filter(({ kind }) => kind !== "weight");
    const rows: HTMLElement[] = [];
    for (const child of shown.slice(0, MOST)) if (rowsOf.left-- > 0) rows.push(branch(context, child, level + 1, rowsOf));
    if (shown.length > rows.length) rows.push(html("li", { role: "none", class: "quiet" }, `and ${countText(shown.length - rows.length)} more: search for them`));
    made.append(html("ul", { role: "group" }, ...rows));
  }
  return made;
}

const STEPS: Readonly<Record<string, (at: number, last: number) => number>> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  Home: () => 0,
  End: (_, last) => last,
};

function moveInTree(tree: HTMLElement, event: KeyboardEvent): void {
  const rows = [...tree.querySelectorAll<HTMLElement>("[role=treeitem]")];
  const at = rows.findIndex((row) => row === document.activeElement);
  const step = STEPS[event.key];
  if (step === undefined || at < 0) return;
  event.preventDefault();
  const next = rows[step(at, rows.length - 1)];
  if (next === undefined) return;
  for (const row of rows) row.tabIndex = row === next ? 0 : -1;
  next.focus();
}
