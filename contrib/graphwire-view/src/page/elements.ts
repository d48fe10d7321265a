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
  const visible = text.split("\n").map((line) => isolated(visibleText(line))).join("\n");
  return visible.length <= MOST ? visible : `${visible.slice(0, MOST)}… (${visible.length} characters)`;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const [ISOLATE, END] = ["\u2068", "\u2069"] as const;

/** Returns a text in which names that are written from right to left do not reorder what is beside them. */
function isolated(text: string): string {
  if (!RIGHT_TO_LEFT.test(text)) return text;
  return text.replaceAll(/[^\s·→,()[\]]+/g, (word) => (RIGHT_TO_LEFT.test(word) ? ISOLATE + word + END : word)).replaceAll(`${END} ${ISOLATE}`, " ");
}

/** Returns a shown text as it is read aloud, or shown again. */
export function withoutIsolates(text: string): string {
  return text.replaceAll(/[\u2068\u2069]/g, "");
}

/** Returns a button that looks like a link. */
export function textButton(label: string, act: () => void, title = "", id: number | null = null): HTMLButtonElement {
  return html("button", { class: "link", type: "button", "data-id": id, title: title === "" ? null : shownText(title), click: act }, ...breakable(clipped(label, MOST_OF_LINK)));
}

/** Returns a name that is divided between lines after dots and underscores first. */
function breakable(name: string): Child[] {
  return name.split(/(?<=[._/])(?=\w)/).flatMap((part, index) => (index === 0 ? [part] : [document.createElement("wbr"), part]));
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

/** The rows that a long list shows at first, and adds on request. */
const FIRST_ROWS = 100;
/** Lists of more rows have a field that filters them. */
const FILTERED = 30;

interface Long<T> {
  /** The rows at first. */
  readonly first?: number;
  /** Where a filter looks for words; without it there is no filter. */
  readonly text?: (item: T) => string;
}

/** Returns a table that shows its first rows, more on request, and those with the words of a filter. */
export function longTable<T>(heads: readonly string[], items: readonly T[], row: (item: T) => readonly Child[], options: Long<T> = {}): HTMLElement {
  const made = table(heads, []);
  const [body] = made.tBodies;
  const rows = (some: readonly T[]): Element[] => [...(table(heads, some.map(row)).tBodies[0]?.rows ?? [])];
  return body === undefined ? made : long(made, body, items, rows, options);
}

/** Returns a list that shows its first items, more on request, and those with the words of a filter. */
export function longList<T>(className: string, items: readonly T[], row: (item: T) => HTMLElement, text: (item: T) => string): HTMLElement {
  const made = html("ul", { class: className });
  return long(made, made, items, (some) => some.map(row), { text });
}

function long<T>(made: HTMLElement, body: HTMLElement, items: readonly T[], rows: (some: readonly T[]) => readonly Element[], { first = FIRST_ROWS, text }: Long<T>): HTMLElement {
  let wanted = items;
  const more = html("button", { type: "button", class: "more" });
  const grow = (): void => {
    const at = body.childElementCount;
    body.append(...rows(wanted.slice(at, at + (at === 0 ? first : FIRST_ROWS))));
    body.dataset["rows"] = String(wanted.length);
    const left = wanted.length - body.childElementCount;
    more.textContent = `Show more (${left.toLocaleString("en")} left)`;
    more.hidden = left === 0;
  };
  more.addEventListener("click", grow);
  grow();
  if (items.length <= first && (text === undefined || items.length <= FILTERED)) return html("div", { class: "scroll" }, made);
  const count = html("span", { class: "quiet", role: "status" });
  const filter: HTMLInputElement = html("input", { type: "text", class: "filter", placeholder: `Filter ${items.length.toLocaleString("en")} rows`, "aria-label": "Filter the rows", autocomplete: "off", spellcheck: "false", input: () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter((each) => each !== "");
    wanted = words.length === 0 ? items : items.filter((item) => {
      const own = text?.(item).toLowerCase() ?? "";
      return words.every((each) => own.includes(each));
    });
    count.textContent = words.length === 0 ? "" : `${wanted.length.toLocaleString("en")} of ${items.length.toLocaleString("en")}`;
    body.replaceChildren();
    grow();
  } });
  return html("div", {}, text === undefined ? null : html("p", { class: "filters" }, filter, " ", count), html("div", { class: "scroll" }, made), more);
}

/** The rows of a list that are printed. */
const PRINTED = 40;

/** Leaves the first rows of long lists, and says how many there are more, for paper. */
export function shortened(made: HTMLElement): HTMLElement {
  for (const body of made.querySelectorAll<HTMLElement>("[data-rows]")) {
    [...body.children].slice(PRINTED).forEach((row) => { row.remove(); });
    const left = Number(body.dataset["rows"]) - body.childElementCount;
    if (left > 0) (body.closest("table") ?? body).after(html("p", { class: "quiet" }, `and ${left.toLocaleString("en")} more`));
  }
  return made;
}

/** Whether there is no room for all parts of the page. */
export function isNarrow(): boolean {
  return matchMedia("(max-width: 700px)").matches;
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
