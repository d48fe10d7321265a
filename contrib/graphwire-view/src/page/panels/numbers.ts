/** The panel and the legend of the numbers that colour the drawing. */

import type { Item } from "../../model/items.js";
import { colourAt, type Measure, type Numbers, type Scale } from "../../model/overlay.js";
import { countText, plural } from "../../model/values.js";
import type { Context } from "../context.js";
import { html, longTable, section, svg, table, textButton, type Child } from "../elements.js";

/** What chooses the numbers. */
export interface Chooser extends Context {
  readonly measures: readonly Measure[];
  readonly chosen: Measure | null;
  choose(measure: Measure | null): void;
}

export function numbersPanel(chooser: Chooser): HTMLElement {
  const { measures, chosen } = chooser;
  const options = [html("option", { value: "" }, "nothing"), ...measures.map((measure, index) => html("option", { value: index, selected: measure === chosen }, measure.name))];
  const select = html("select", { id: "measure" }, ...options);
  select.addEventListener("change", () => { chooser.choose(select.value === "" ? null : (measures[Number(select.value)] ?? null)); });
  return html("div", {}, html("p", { class: "field" }, html("label", { for: "measure" }, "Colour by "), select), chosen === null ? choices(chooser) : sums(chooser, chosen, chosen.numbers()));
}

/** Everything that can be chosen, with what it is in all. */
function choices(chooser: Chooser): HTMLElement {
  const rows = chooser.measures.map((measure): Child[] => [textButton(measure.name, () => { chooser.choose(measure); }), measure.text(measure.numbers().of.get(chooser.side.items.root) ?? 0)]);
  return html("div", {}, rows.length === 0 ? null : table(["Numbers", "#In all"], rows), html("p", { class: "quiet" }, "graphwire view --overlay FILE adds numbers of your own: a CSV file with names of nodes or modules, a JSON file, or the trace of a profiler."));
}

function sums(context: Context, measure: Measure, { of, unknown, nodes }: Numbers): HTMLElement {
  const total = of.get(context.side.items.root) ?? 0;
  const order = ([, a]: readonly [Item, number], [, b]: readonly [Item, number]): number => Math.abs(b) - Math.abs(a);
  const modules = [...of].filter(([item]) => item.kind === "module" || item.kind === "run").sort(order);
  const each = [...of].filter(([item]) => item.kind === "node").sort(order);
  const share = (value: number): string => (measure.isChange || measure.combined !== "sum" || total === 0 ? "" : `${((100 * value) / total).toFixed(1)} %`);
  const row = ([item, value]: readonly [Item, number]): Child[] => [textButton(item.label, () => { context.reveal(item); }), measure.text(value), share(value)];
  const heads = ["Name", "#Number", "#Share"];
  const text = ([{ label, title }]: readonly [Item, number]): string => `${label} ${title}`;
  return html(
    "div",
    {},
    html("p", {}, `${measure.text(total)} ${measure.combined === "sum" ? "in all, of" : "at most, of"} ${plural(nodes, "node")}.`),
    measure.source === "" ? null : html("p", { class: "quiet" }, measure.source),
    unknown.length === 0 ? null : html("p", { class: "problem" }, `${countText(unknown.length)} of the names are not in this program: ${unknown.slice(0, 5).join(", ")}`),
    modules.length === 0 ? null : section("By module", longTable(heads, modules, row, { first: 50, text })),
    each.length === 0 ? null : section("By node", longTable(heads, each, row, { first: 50, text })),
  );
}

const STEPS = 40;

/** Returns the legend: the name of the numbers, their colours and their range. */
export function legendOf(measure: Measure, { least, most, isLogarithmic }: Scale): HTMLElement {
  const bars = Array.from({ length: STEPS }, (_, index) => svg("rect", { x: index * 5, width: 5, height: 12, fill: colourAt(index / (STEPS - 1), measure.isChange).fill }));
  const label = `Colours from ${measure.text(least)} to ${measure.text(most)}`;
  const note = `Of the boxes in sight; modules are ${measure.combined === "sum" ? "sums" : "the largest inside"}${measure.isChange ? "; the middle is 0" : ""}`;
  return html("ul", { title: note }, html("li", {}, html("strong", {}, measure.name)), html("li", {}, measure.text(least), svg("svg", { width: STEPS * 5, height: 12, role: "img", "aria-label": label }, ...bars), `${measure.text(most)}${isLogarithmic ? ", logarithmic" : ""}`));
}
