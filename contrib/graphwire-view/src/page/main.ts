/** Starts the page: with the program that it contains, or with one that is dropped on it. */

import { methodNames, shownOf } from "../model/shown.js";
import { openedFiles, openedInPage, type Opened } from "../opened.js";
import { App, type Parts } from "./app.js";
import { foreignOf, type Foreign } from "../foreign.js";
import { facts, html, longTable, showPlace, shownText } from "./elements.js";
import { showHelp } from "./keys.js";
import { countText } from "../model/values.js";
import { viewButtons } from "./view_buttons.js";
import { readLink } from "./links.js";

function part<E extends Element>(id: string, type: new () => E): E {
  const found = document.getElementById(id);
  if (found instanceof type) return found;
  throw new Error(`the page lacks ${id}`);
}

/** Returns the parts of the page, without what an earlier program left in them. */
function freshParts(): Parts {
  const drawing = part("drawing", SVGSVGElement);
  const fresh = drawing.cloneNode(false) as SVGSVGElement;
  drawing.replaceWith(fresh);
  return {
    drawing: fresh,
    trail: part("trail", HTMLElement),
    map: part("map", SVGSVGElement),
    view: part("view", HTMLElement),
    tabs: part("tabs", HTMLElement),
    panel: part("panel", HTMLElement),
    details: part("details", HTMLElement),
    outline: part("outline", HTMLElement),
    search: part("search", HTMLInputElement),
    found: part("found", HTMLElement),
    legend: part("legend", HTMLElement),
    sentence: part("sentence", HTMLElement),
    announcer: part("announcer", HTMLElement),
    paper: part("paper", HTMLElement),
  };
}

let app: App | null = null;
let opened: Opened | null = null;

async function show(given: Opened, method?: string): Promise<void> {
  const shown = await shownOf(given, method ?? readLink(location.hash)?.method ?? null);
  const names = methodNames(given);
  const { name } = shown.side;
  opened = given;
  part("trouble", HTMLElement).replaceChildren();
  part("welcome", HTMLElement).hidden = true;
  part("search", HTMLInputElement).disabled = false;
  const title = shownText(given.files.map(({ facts }) => facts.name).join(" → "));
  part("title", HTMLElement).textContent = title;
  document.title = `${title.slice(0, 100)} · graphwire`;
  const select = part("method", HTMLSelectElement);
  part("method-label", HTMLElement).hidden = names.length < 2;
  select.replaceChildren(...names.map((each) => html("option", { value: each, selected: each === name }, each)));
  select.onchange = () => { attempt(() => show(given, select.value)); };
  part("sentence", HTMLElement).hidden = shown.difference === null;
  document.body.classList.toggle("difference", shown.difference !== null);
  document.body.dataset["state"] = "open"; // the parts take their places before something is drawn
  app = new App(shown, freshParts());
  document.body.dataset["state"] = "shown";
  performance.mark("graphwire shown");
}

const DARK = matchMedia("(prefers-color-scheme: dark)");
/** Whether somebody chose dark or light; null for that of the system. */
let isDark: boolean | null = null;

function showTheme(dark = isDark ?? DARK.matches): void {
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
}

/** Runs something that may fail on a wrong file, and says what is wrong. What is shown stays. */
function attempt(run: () => Promise<void>, name = "The file"): void {
  run().catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    const place = error instanceof Error && "place" in error && typeof error.place === "string" && error.place !== "" ? ` (in ${error.place})` : "";
    const problem = `${name} cannot be shown: ${message}${place}`;
    if (app !== null && document.body.dataset["state"] !== "open") {
      tellAbove(problem);
      return;
    }
    welcome(problem);
    document.body.dataset["state"] = "failed";
  });
}

/** Says something above the program that stays on the page, until somebody dismisses it. */
function tellAbove(problem: string): void {
  const holder = part("trouble", HTMLElement);
  const dismiss = (): void => {
    holder.replaceChildren();
    part("drawing", SVGSVGElement).focus();
  };
  holder.replaceChildren(html("p", { class: "problem", role: "alert" }, problem), html("button", { type: "button", click: dismiss }, "Dismiss"));
}

/** Says what a file is that has no program. */
function tellForeign(name: string, { what, remedy, facts: told, heads, rows }: Foreign): void {
  if (app !== null) {
    tellAbove(`${name} is ${what}. ${remedy}`);
    return;
  }
  document.body.dataset["state"] = "foreign";
  welcome();
  const [head] = part("welcome", HTMLElement).children;
  head?.replaceWith(html("h2", {}, `${name} is ${what}`), html("p", {}, remedy), facts(told), rows.length === 0 ? "" : longTable(heads, rows, (row) => row.map((cell) => (typeof cell === "number" ? countText(cell) : cell)), { text: (row) => row.join(" ") }));
}

function welcome(problem = ""): void {
  const file = part("file", HTMLInputElement);
  const holder = part("welcome", HTMLElement);
  holder.hidden = false;
  holder.replaceChildren(
    html("h2", {}, "See a PyTorch program"),
    problem === "" ? html("p", {}) : html("p", { class: "problem", role: "alert" }, problem),
    html("p", {}, "Drop a .pt2 file here: a program of torch.export, saved by graphwire or by PyTorch 2.6 or later. Drop two to see their difference."),
    html("p", {}, html("button", { type: "button", class: "primary", click: () => { file.click(); } }, "Choose a file")),
    html("p", { class: "quiet" }, "Nothing is uploaded: the page reads the file in this browser, and loads nothing from anywhere."),
  );
}

function start(): void {
  const file = part("file", HTMLInputElement);
  const openAll = (files: readonly File[]): void => {
    if (files.length > 0) attempt(async () => {
      for (const file of files.slice(0, 2)) {
        const foreign = await foreignOf(file, file.name);
        if (foreign === null) continue;
        tellForeign(file.name, foreign);
        return;
      }
      await show(await openedFiles(files));
    }, files.map(({ name }) => name).join(" → "));
  };
  file.addEventListener("change", () => {
    openAll([...(file.files ?? [])]);
    file.value = ""; // so that the same file can be chosen again
  });
  document.addEventListener("dragover", (event) => { event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    openAll([...(event.dataTransfer?.files ?? [])]);
  });
  const tools = part("tools", HTMLElement);
  tools.append(
    html("button", { type: "button", click: () => { file.click(); } }, "Open…"),
    html("button", { type: "button", click: () => { isDark = !(isDark ?? DARK.matches); showTheme(); }, "aria-label": "Dark or light", title: "Dark or light" }, "◐"),
    html("button", { type: "button", click: showHelp, "aria-label": "Help", title: "Keys and licenses" }, "?"),
  );
  part("view", HTMLElement).append(...viewButtons(() => app));
  const zoom = (label: string, title: string, act: () => void): HTMLElement => html("button", { type: "button", title, "aria-label": title, click: act }, label);
  part("zoom", HTMLElement).append(
    zoom("+", "Zoom in", () => app?.drawing.camera.zoom(1.25)),
    zoom("−", "Zoom out", () => app?.drawing.camera.zoom(0.8)),
    zoom("⤢", "Show everything", () => app?.fit()),
  );
  window.addEventListener("popstate", () => { // by the buttons of the browser, and by another address
    const method = readLink(location.hash)?.method ?? null;
    if (app !== null && opened !== null && method !== null && method !== app.side.name) {
      const given = opened;
      attempt(() => show(given));
    } else app?.followLink();
  });
  window.addEventListener("beforeprint", () => {
    showTheme(false); // paper is white
    app?.print();
  });
  window.addEventListener("afterprint", () => { showTheme(); });
  DARK.addEventListener("change", () => { showTheme(); });
  showTheme();
  part("skip", HTMLElement).addEventListener("click", () => { document.getElementById("drawing")?.focus(); });
  for (const [place, label] of [["drawing", "Drawing"], ["side", "Program"], ["details", "Details"]] as const) {
    part("places", HTMLElement).append(html("button", { type: "button", "data-at": place, click: () => { showPlace(place); } }, label));
  }
  showPlace("drawing");
  attempt(async () => {
    if (document.getElementById("graphwire-file-0") === null) {
      welcome();
      return;
    }
    part("welcome", HTMLElement).replaceChildren(html("p", {}, "Reading the program…"));
    await new Promise((resolve) => setTimeout(resolve, 10)); // so that this is seen
    const found = await openedInPage(document);
    if (found !== null) await show(found);
  });
}

start();
