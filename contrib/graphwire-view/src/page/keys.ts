/** Keys: everything that a mouse can do. */

import type { Box } from "../layout/scene.js";
import type { Item } from "../model/items.js";
import type { App } from "./app.js";
import { html } from "./elements.js";

/** Every key and what it does, as the help shows them. */
export const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ["↓ ↑", "go to what uses a value, or makes it"],
  ["← →", "go to the box beside it"],
  ["Enter", "unfold or fold a module, or a node with graphs inside"],
  ["Backspace", "go to the module around"],
  ["n p", "in a difference: go to the next thing that differs, or the previous one"],
  ["+ − 0", "zoom, and show everything"],
  ["m", "show or hide the map of the drawing"],
  ["/", "search; Enter goes to the next hit, Shift+Enter to the previous one"],
  ["Esc", "close the details, the search, the help"],
  ["?", "this help"],
];

const ACTS: Readonly<Record<string, (app: App) => void>> = {
  ArrowDown: (app) => { go(app, follow(app, "users")); },
  ArrowUp: (app) => { go(app, follow(app, "operands")); },
  ArrowRight: (app) => { go(app, beside(app, 1)); },
  ArrowLeft: (app) => { go(app, beside(app, -1)); },
  Backspace: (app) => { go(app, app.current?.parent ?? null); },
  Enter: (app) => {
    if (app.current?.isGroup === true && app.current !== app.root) app.toggle(app.current);
  },
  "+": (app) => { app.drawing.camera.zoom(1.25); },
  "=": (app) => { app.drawing.camera.zoom(1.25); },
  "-": (app) => { app.drawing.camera.zoom(0.8); },
  "0": (app) => { app.fit(); },
};

/** Listens to keys in the drawing and in the search field. */
export function listenToKeys(app: App): void {
  const { drawing, search } = app.parts;
  drawing.onkeydown = (event) => {
    const act = ACTS[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(app);
    const selected = app.current;
    if (selected === null || document.getElementById(`box-${selected.id}`) === null) drawing.removeAttribute("aria-activedescendant");
    else drawing.setAttribute("aria-activedescendant", `box-${selected.id}`);
  };
  search.oninput = () => { app.search(search.value); };
  search.onkeydown = (event) => {
    if (event.key === "Enter") app.nextHit(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      app.search("");
      drawing.focus();
    } else return;
    event.preventDefault();
  };
  document.onkeydown = (event) => {
    const inField = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "n" || event.key === "p") app.nextChange(event.key === "n" ? 1 : -1);
    else if (event.key === "m") app.toggleMap();
    else if (event.key === "?") showHelp();
    else if (event.key === "Escape") app.select(null);
  };
}

export function showHelp(): void {
  const dialog = document.getElementById("help");
  if (!(dialog instanceof HTMLDialogElement) || dialog.open) return;
  const rows = KEYS.flatMap(([keys, does]) => [html("dt", {}, html("kbd", {}, keys)), html("dd", {}, does)]);
  const licenses = html("details", {}, html("summary", {}, "Licenses of what this page contains"), html("pre", {}, licenseText()));
  dialog.replaceChildren(html("h2", { tabindex: -1, autofocus: true }, "Keys"), html("dl", { class: "keys" }, ...rows), licenses, html("button", { type: "button", click: () => { dialog.close(); } }, "Close"));
  dialog.showModal();
}

function licenseText(): string {
  const text = document.getElementById("licenses")?.textContent ?? "";
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function go(app: App, item: Item | null): void {
  if (item === null || item === app.root) return;
  app.select(item);
  const box = app.shownScene.boxOf.get(item);
  if (box !== undefined) app.drawing.camera.include(box);
}

/** Returns the visible box that uses what the selected one makes, or makes what it uses. */
function follow(app: App, direction: "users" | "operands"): Item | null {
  const boxes = app.shownScene.boxOf;
  const start = app.current ?? first(app);
  if (app.current === null || start === null) return start;
  const inside = app.isOpen(start) ? start.children : [];
  if (inside.length > 0 && direction === "users") return inside.find((item) => boxes.has(item)) ?? null;
  const wires = app.shownScene.wires.flatMap(({ links }) => links);
  for (const link of wires) {
    const last = link.via?.slice(-1) ?? []; // what stands on the wire for those that are not drawn
    const path = direction === "users" ? [link.from, ...last, link.to] : [link.to, ...last, link.from];
    const at = path.findLastIndex((item) => isIn(item, start));
    const far = at < 0 ? undefined : path[at + 1];
    if (far === undefined) continue;
    if (last.includes(far)) return far;
    for (let at: Item | null = far; at !== null; at = at.parent) if (boxes.has(at) && boxes.get(at)?.open === false) return at;
  }
  return null;
}

function isIn(item: Item, group: Item): boolean {
  for (let at: Item | null = item; at !== null; at = at.parent) if (at === group) return true;
  return false;
}

function first(app: App): Item | null {
  return app.shownScene.boxes.find(({ open }) => !open)?.item ?? null;
}

/** Returns the next box to the right or left, at about the same height. */
function beside(app: App, step: 1 | -1): Item | null {
  const box = app.current === null ? undefined : app.shownScene.boxOf.get(app.current);
  if (box === undefined) return first(app);
  const distance = (other: Box): number => step * (other.x + other.width / 2 - box.x - box.width / 2);
  const level = app.shownScene.boxes.filter((other) => other.item.parent === box.item.parent && distance(other) > 1);
  const overlaps = level.filter((other) => other.y < box.y + box.height && box.y < other.y + other.height);
  const nearest = overlaps.reduce<Box | null>((best, other) => (best === null || distance(other) < distance(best) ? other : best), null);
  return nearest?.item ?? null;
}
