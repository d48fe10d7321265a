/** Makes elements. Text always becomes text, never markup. */

import { clipped, visibleText } from "../layout/text.js";

export type Child = Node | string | null;
type Attributes = Readonly<Record<string, string | number | boolean | null | (() => void)>>;

const SVG = "http://www.w3.org/2000/svg";
/** The most characters of a text of a file that one place shows. */
const MOST = 2000;
const MOST_OF_LINK = 160;

/** Returns an HTML element. Attributes that are functions listen to the event of their name. */
export function html<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: readonly Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  decorate(made, attributes, children);
  return made;
}

/** Returns an SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: readonly Child[]): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  decorate(made, attributes, children);
  return made;
}

function decorate(made: Element, attributes: Attributes, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== false) made.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child === null) continue;
    made.append(typeof child === "string" ? shownText(child) : child);
  }
}

/** Returns a text as it is shown: nothing in it is invisible, and it ends somewhere. */
export function shownText(text: string): string {
  const visible = text.split("\n").map(visibleText).join("\n");
  return visible.length <= MOST ? visible : `${visible.slice(0, MOST)}… (${visible.length} characters)`;
}

/** Returns a button that looks like a link. */
export function textButton(label: string, act: () => void, title = "", id: number | null = null): HTMLButtonElement {
  return html("button", { class: "link", type: "button", "data-id": id, title: title === "" ? null : shownText(title), click: act }, clipped(label, MOST_OF_LINK));
}

/** Returns a table with a head and rows. Columns whose head begins with `#` have numbers. */
export function table(heads: readonly string[], rows: readonly (readonly Child[])[], caption = ""): HTMLTableElement {
  const isNumber = heads.map((head) => head.startsWith("#"));
  const head = html("tr", {}, ...heads.map((each) => html("th", { scope: "col", class: each.startsWith("#") ? "number" : null }, each.replace(/^#/, ""))));
  const body = rows.map((row) => html("tr", {}, ...row.map((cell, at) => html("td", { class: isNumber[at] === true ? "number" : null }, cell))));
  return html("table", {}, caption === "" ? null : html("caption", {}, caption), html("thead", {}, head), html("tbody", {}, ...body));
}

/** Returns a short name that is not divided between lines. */
export function word(text: string): HTMLElement {
  return html("span", { class: text.length <= MOST_OF_WORD ? "name nowrap" : "name" }, text);
}

const MOST_OF_WORD = 24;

/** Returns a list of terms and what they mean; rows without a meaning are dropped. */
export function facts(rows: readonly (readonly [term: string, meaning: Child])[]): HTMLDListElement {
  return html("dl", {}, ...rows.filter(([, meaning]) => meaning !== null && meaning !== "").flatMap(([term, meaning]) => [html("dt", {}, term), html("dd", {}, meaning)]));
}

/** Returns a titled part of a panel. */
export function section(title: string, ...children: readonly Child[]): HTMLElement {
  return html("section", {}, html("h3", {}, title), ...children);
}

/** The rows that a long table shows at first. */
const FIRST_ROWS = 200;

/** Returns a table that shows its first rows, and more on request. */
export function longTable<T>(heads: readonly string[], items: readonly T[], row: (item: T) => readonly Child[], first = FIRST_ROWS): HTMLElement {
  const made = table(heads, items.slice(0, first).map(row));
  const holder = html("div", { class: "scroll" }, made);
  let shown = first;
  if (items.length <= first) return holder;
  const more = html("button", { type: "button", class: "more" });
  const label = (): void => {
    more.textContent = `Show more (${(items.length - shown).toLocaleString("en")} left)`;
    more.hidden = shown >= items.length;
  };
  more.addEventListener("click", () => {
    const next = table(heads, items.slice(shown, shown + 5 * first).map(row));
    made.tBodies[0]?.append(...(next.tBodies[0]?.rows ?? []));
    shown += 5 * first;
    label();
  });
  label();
  holder.append(more);
  return holder;
}

/** Shows one part of the page, where there is no room for all. */
export function showPlace(place: "drawing" | "side" | "details"): void {
  document.body.dataset["place"] = place;
  for (const button of document.querySelectorAll<HTMLElement>("[data-at]")) button.setAttribute("aria-current", String(button.dataset["at"] === place));
}

/** Returns what the reader of the page chose before; null if nothing, or if the page may not remember. */
export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`graphwire ${name}`);
  } catch {
    return null;
  }
}

/** Remembers what the reader of the page chose, if the page may. */
export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`graphwire ${name}`, value);
  } catch {
    // A page inside a notebook remembers nothing.
  }
}
