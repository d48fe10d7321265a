/** Tabs: one panel of several is shown. A panel is made when it is first needed. */

import { titleOf } from "../layout/boxes.js";
import type { Item } from "../model/items.js";
import { plural } from "../model/values.js";
import type { Context } from "./context.js";
import { html, longTable, textButton } from "./elements.js";
import type { Panel } from "./panels/all.js";

export class Tabs {
  private current: Panel | undefined;

  constructor(
    private readonly list: HTMLElement,
    private readonly holder: HTMLElement,
    private readonly panels: readonly Panel[],
    private readonly chosen: (name: string) => void,
  ) {
    list.replaceChildren(...panels.map((panel) => html("button", { type: "button", role: "tab", id: `tab-${panel.name}`, "aria-controls": "panel", click: () => { this.choose(panel); } }, panel.title)));
    list.onkeydown = (event) => { this.move(event); };
    this.show(panels[0]);
  }

  /** The name of the chosen panel. */
  get name(): string {
    return this.current?.name ?? "";
  }

  /** The name of the panel that is shown; empty while what was found is in its place. */
  get shown(): string {
    return this.holder.querySelector(".hits") === null ? this.name : "";
  }

  /** Copies of what was found, if that is shown. */
  get found(): HTMLElement[] {
    return Array.from(this.holder.querySelectorAll<HTMLElement>(".hits"), (each) => each.cloneNode(true) as HTMLElement);
  }

  /** Shows the panel of a name, if there is one and another is chosen. */
  open(name: string): void {
    if (name !== this.name) this.show(this.panels.find((panel) => panel.name === name));
  }

  private choose(panel: Panel | undefined): void {
    this.show(panel);
    this.chosen(this.name);
  }

  private show(panel: Panel | undefined): void {
    if (panel === undefined) return;
    this.current = panel;
    for (const tab of this.list.querySelectorAll<HTMLElement>("[role=tab]")) {
      const chosen = tab.id === `tab-${panel.name}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.holder.setAttribute("aria-labelledby", `tab-${panel.name}`);
    this.fill(panel);
    this.holder.scrollTop = 0;
  }

  private fill(panel: Panel): void {
    this.holder.replaceChildren(html("h2", { class: "unseen" }, panel.title), panel.make());
  }

  /** Makes the panel again, if it shows what is folded. */
  refresh(): void {
    if (this.current?.showsFolding !== true || this.holder.querySelector(".hits") !== null) return;
    const { scrollTop } = this.holder;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["tree"] : undefined;
    this.fill(this.current);
    this.holder.scrollTop = scrollTop;
    if (focused === undefined) return;
    for (const row of this.holder.querySelectorAll<HTMLElement>("[role=treeitem]")) {
      const chosen = row.dataset["tree"] === focused;
      row.tabIndex = chosen ? 0 : -1;
      if (chosen) row.focus();
    }
  }

  /** Shows what was found in place of the panel; the panel again without a query. */
  showFound(hits: readonly Item[], query: string, context: Context): void {
    if (query.trim() === "") {
      this.show(this.current);
      return;
    }
    for (const tab of this.list.children) tab.setAttribute("aria-selected", "false"); // what was found is in none of them
    const rows = longTable(["Name", "Is", "In"], hits, (item) => [
      textButton(item.kind === "module" || item.kind === "node" ? item.label : item.title, () => { context.reveal(item); }, item.label, item.id),
      item.kind === "node" ? titleOf(item) : item.type === "" ? item.kind : item.type,
      item.around.at(-1)?.parent == null ? "" : (item.around.at(-1)?.label ?? ""),
    ], { first: 60, text: ({ label, title, type }) => `${label} ${title} ${type}` });
    this.holder.replaceChildren(html("div", { class: "hits" }, html("h2", {}, hits.length === 0 ? "Nothing found" : plural(hits.length, "hit")), hits.length === 0 ? html("p", {}, HELP) : rows));
  }

  /** Marks what the search is at, in the list of what it found. */
  showHit({ id }: Item): void {
    for (const button of this.holder.querySelectorAll<HTMLElement>("[data-id]")) {
      const isHit = button.dataset["id"] === String(id);
      if (isHit) button.scrollIntoView({ block: "nearest" });
      if (isHit) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  private move(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || this.current === undefined) return;
    const at = (this.panels.indexOf(this.current) + step + this.panels.length) % this.panels.length;
    this.choose(this.panels[at]);
    this.list.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
    event.preventDefault();
  }
}

const HELP = "All words must occur in an item’s name, operator, shape, module or source file. op:linear looks in operators alone; so do name:, shape:, dtype:, module:, file: and value:. weight:>1MB finds weights by their size.";
