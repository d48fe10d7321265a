/** The panels with the tables of operators and weights. */

import type { WeightFacts } from "../../facts.js";
import { scaleOf } from "../../model/overlay.js";
import { operatorRows } from "../../model/operators.js";
import { bytesText, countText, numberText, plural, scaledText } from "../../model/values.js";
import type { Weight } from "../../model/weights.js";
import { storedBytes } from "../../model/weights.js";
import type { Context } from "../context.js";
import { shareText } from "../reweighted.js";
import { html, longTable, svg, textButton, type Child } from "../elements.js";

export function operatorsPanel(context: Context): HTMLElement {
  const { side } = context;
  const rows = operatorRows(side.items.root, side.work.costs);
  const sum = (part: "flops" | "bytes"): number => rows.reduce((found, row) => found + (row[part] || 0), 0);
  return html(
    "div",
    {},
    html("p", {}, `${plural(rows.length, "operator")}, ${scaledText(sum("flops"), "FLOP")}, ${bytesText(sum("bytes"))} moved.`),
    html("p", { class: "quiet" }, side.work.source),
    assumedSizes(context),
    longTable(["Operator", "#Count", "#Work", "#Bytes"], rows, ({ target, name, count, flops, bytes }): Child[] => [
      textButton(name, () => { context.search(`op:${target}`); }, `Find ${target}`),
      countText(count),
      scaledText(flops, "FLOP"),
      bytesText(bytes),
    ], { text: ({ target }) => target }),
  );
}

/** Returns fields with the values of symbols at which costs are estimated; null if all sizes are fixed. */
function assumedSizes(context: Context): HTMLElement | null {
  const { work, summary } = context.side;
  const { assumed } = work.sizes;
  if (assumed.size === 0) return null;
  const fields = Array.from(assumed, ([name, value]) => {
    const { label = name, min_val: least = null, max_val: most = null } = summary.symbols.find((symbol) => symbol.name === name) ?? {};
    const field: HTMLInputElement = html("input", { type: "number", min: least === null ? null : String(least), max: most === null ? null : String(most), step: 1, value: Number.isNaN(value) ? "" : value, change: () => {
      if (field.value !== "" && field.reportValidity()) context.assume(name, field.valueAsNumber);
    } });
    return html("label", {}, html("span", { class: "name" }, name), label === name ? null : html("span", { class: "quiet" }, ` ${label}`), " ", field);
  });
  return html("div", { class: "sizes" }, ...fields);
}

export function weightsPanel(context: Context): HTMLElement {
  const changeOf = changesOfWeights(context);
  const order = (weight: Weight): number => changeOf(weight)?.order ?? -1;
  const weights = [...context.side.weights].sort((a, b) => order(b) - order(a));
  const isCompared = context.difference !== null && weights.some((weight) => changeOf(weight) !== null);
  const isKnown = weights.some((weight) => whereIs(context, weight) !== "");
  return html(
    "div",
    {},
    html("p", { class: "quiet" }, `${plural(weights.length, "weight")}, ${bytesText(storedBytes(weights))}. Weights that share their elements count once.${isCompared ? " Those that changed most are first." : ""}`),
    longTable(["Name", ...(isCompared ? ["#Change"] : []), "#Bytes", ...(isKnown ? ["Where"] : [])], weights, (weight): Child[] => [nameCell(context, weight), ...(isCompared ? [changeOf(weight)?.text ?? ""] : []), bytesText(weight.bytes), ...(isKnown ? [whereIs(context, weight)] : [])], { text: ({ name, dtype, shape, role }) => `${name} ${dtype} ${shape} ${role}` }),
  );
}

/** In a difference: what is told of a weight that changed, and its place among these; null for one that did not, or of which nobody knows. */
function changesOfWeights(context: Context): (weight: Weight) => { readonly text: string; readonly order: number } | null {
  const { weightChanges, difference, before } = context;
  const earlier = new Map(before?.weights.map((weight) => [weight.name, weight]));
  const renumbered = new Map(Array.from(difference?.layers.numbers ?? [], ([one, other]) => [other, one] as const));
  return ({ name, dtype, shape }) => {
    if (difference === null) return null;
    const known = weightChanges?.get(name);
    if (known?.equal === false) return { text: `≠ ${shareText(known.norm)}`.trim(), order: known.norm ?? known.maxAbs ?? 0 };
    const layer = [...renumbered].find(([path]) => name.startsWith(`${path}.`));
    const was = earlier.get(layer === undefined ? name : layer[1] + name.slice(layer[0].length));
    if (was === undefined) return { text: "+", order: Infinity };
    return was.dtype === dtype && was.shape === shape ? null : { text: `≠ ${was.dtype} ${was.shape}`, order: Number.MAX_VALUE };
  };
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
    html("div", { class: "quiet" }, `${weight.role} ${weight.dtype} ${weight.shape}`),
    weight.shares.length === 0 ? null : html("div", { class: "quiet" }, weight.tiedTo === "" ? `shared by ${weight.shares.slice(0, 5).join(", ")}` : `tied to ${weight.tiedTo}`),
    known === undefined || (known.histogram === null && known.mean === null) ? null : histogram(known),
  );
}

/** Returns a picture of how often values occur. */
export function histogram({ histogram: known, mean, std, notFinite }: WeightFacts, height = 24): HTMLElement {
  const text = [mean === null ? "" : `mean ${numberText(mean)}`, std === null ? "" : `deviation ${numberText(std)}`, notFinite === 0 ? "" : `${countText(notFinite)} not finite`].filter((each) => each !== "").join(", ");
  if (known === null) return html("div", { class: "quiet" }, text);
  const { share, isLogarithmic } = scaleOf(known.counts, false);
  const bars = known.counts.map((count, index) => {
    const tall = count === 0 ? 0 : Math.max(1, share(count) * height);
    return svg("rect", { x: index * 4, y: height - tall, width: 3, height: tall });
  });
  const label = `from ${numberText(known.min)} to ${numberText(known.max)}${text === "" ? "" : `, ${text}`}${isLogarithmic ? "; heights are logarithms" : ""}`;
  const picture = svg("svg", { class: "histogram", width: known.counts.length * 4, height, role: "img", "aria-label": `Histogram ${label}` }, ...bars);
  return html("div", {}, picture, html("div", { class: "quiet" }, label));
}
