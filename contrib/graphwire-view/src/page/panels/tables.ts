/** The panels with the tables of operators and weights. */

import type { WeightFacts } from "../../facts.js";
import { operatorRows } from "../../model/operators.js";
import { bytesText, countText, numberText, plural } from "../../model/values.js";
import type { Weight } from "../../model/weights.js";
import { storedBytes } from "../../model/weights.js";
import type { Context } from "../context.js";
import { html, longTable, svg, textButton, type Child } from "../elements.js";

export function operatorsPanel(context: Context): HTMLElement {
  const { side } = context;
  const rows = operatorRows(side.items.root, side.facts);
  const { costSource } = side.facts;
  const hasCosts = side.facts.costs.size > 0;
  const heads = ["Operator", "#Count", ...(hasCosts ? ["#FLOPs", "#Bytes"] : [])];
  const note = hasCosts
    ? `FLOPs and bytes are estimates: ${costSource}.`
    : "graphwire estimates FLOPs and bytes with torch: make the page with graphwire view.";
  return html(
    "div",
    {},
    html("p", { class: "quiet" }, `${plural(rows.length, "operator")}. ${note}`),
    longTable(heads, rows, ({ target, name, count, flops, bytes }): Child[] => [
      textButton(name, () => { context.search(`op:${target}`); }, `Find ${target}`),
      countText(count),
      ...(hasCosts ? [flops === 0 ? "" : numberText(flops), bytesText(bytes)] : []),
    ]),
  );
}

export function weightsPanel(context: Context): HTMLElement {
  const { weights } = context.side;
  const isKnown = weights.some((weight) => whereIs(context, weight) !== "");
  return html(
    "div",
    {},
    html("p", { class: "quiet" }, `${plural(weights.length, "weight")}, ${bytesText(storedBytes(weights))}. Weights that share their elements count once.`),
    longTable(["Name", "Type", "#Bytes", ...(isKnown ? ["Where"] : [])], weights, (weight): Child[] => [nameCell(context, weight), `${weight.dtype} ${weight.shape}`, bytesText(weight.bytes), ...(isKnown ? [whereIs(context, weight)] : [])]),
  );
}

/** Where the elements of a weight are: in the words of Python, since the file in a page has no elements. */
export function whereIs({ side }: Context, { name, where }: Weight): string {
  const { inspection, weights } = side.opened.facts;
  const said = weights.get(name)?.where ?? "";
  return said !== "" || inspection !== null ? said : where;
}

function nameCell(context: Context, weight: Weight): HTMLElement {
  const item = context.side.items.root.scope.makers.get(weight.value);
  const name = item === undefined ? html("code", {}, weight.name) : textButton(weight.name, () => { context.reveal(item); });
  const known = context.side.opened.facts.weights.get(weight.name);
  return html(
    "div",
    {},
    name,
    html("span", { class: "quiet" }, ` ${weight.role}`),
    weight.shares.length === 0 ? null : html("div", { class: "quiet" }, `tied: the same elements as ${weight.shares.slice(0, 5).join(", ")}`),
    known === undefined || (known.histogram === null && known.mean === null) ? null : histogram(known),
  );
}

const HEIGHT = 24;

/** Returns a picture of how often values occur. */
function histogram({ histogram: known, mean, std, notFinite }: WeightFacts): HTMLElement {
  const text = [mean === null ? "" : `mean ${numberText(mean)}`, std === null ? "" : `deviation ${numberText(std)}`, notFinite === 0 ? "" : `${countText(notFinite)} not finite`].filter((each) => each !== "").join(", ");
  if (known === null) return html("div", { class: "quiet" }, text);
  const most = Math.max(1, ...known.counts);
  const bars = known.counts.map((count, index) => svg("rect", { x: index * 4, y: HEIGHT - (count / most) * HEIGHT, width: 3, height: (count / most) * HEIGHT }));
  const label = `from ${numberText(known.min)} to ${numberText(known.max)}${text === "" ? "" : `, ${text}`}`;
  const picture = svg("svg", { class: "histogram", width: known.counts.length * 4, height: HEIGHT, role: "img", "aria-label": `Histogram ${label}` }, ...bars);
  return html("div", {}, picture, html("div", { class: "quiet" }, label));
}
