/** The panel with everything that is known of one item. */

import { titleOf } from "../../layout/boxes.js";
import { defaultsOf } from "../../model/defaults.js";
import { framesOf, originsOf, otherMetadata, type Origin } from "../../model/metadata.js";
import { MARK_SIGNS, tallyText } from "../../model/difference.js";
import { within, withoutCall, type Item, type Mark } from "../../model/items.js";
import { argumentPieces, bytesText, countText, deviceText, numberText, scaledText, sizesText, valueFacts, type Piece } from "../../model/values.js";
import { histogram, whereIs } from "./tables.js";
import type { Context } from "../context.js";
import { shareText, type Reweighted } from "../reweighted.js";
import { facts, html, longList, longTable, section, table, textButton, word, type Child } from "../elements.js";

/** The users and operands that the panel lists. */
const MOST = 100;

const KIND_WORDS: Readonly<Record<string, string>> = {
  program: "The program", module: "A module", node: "A node", subgraph: "A graph inside a node", input: "An input", output: "An output", weight: "A weight", run: "A group of this page, not of the program",
};

export function detailsPanel(context: Context, item: Item): HTMLElement {
  const { node } = item;
  const made = html("div", {}, html("p", { class: "quiet" }, KIND_WORDS[item.kind] ?? "", where(context, item)), html("h2", {}, item.kind === "node" ? item.name : titleOf(item)));
  const parts = node === null ? [groupFacts(context, item), ...moduleParts(context, item), results(item)] : [operator(context, item), inputs(context, item), results(item), cost(context, item)];
  const changes = changesOf(context, item);
  if (changes !== null) made.append(changes);
  made.append(...[...parts, linksSection(context, "Used by", item.users.map(({ to }) => to)), ...(node === null ? [linksSection(context, "Made from", item.operands.map(({ from }) => from))] : [])].filter((part) => part !== null));
  if (node !== null) made.append(...[stack(context, item), provenance(context, item), metadata(item)].filter((part) => part !== null));
  return made;
}

const MARK_WORDS: Readonly<Record<Mark, string>> = {
  added: "Only the second program has it", removed: "Only the first program has it", changed: "Changed", moved: "Moved: it runs before or after other nodes than before",
};

/** In a difference: both sides of everything that changed. */
function changesOf(context: Context, item: Item): HTMLElement | null {
  const { difference } = context;
  if (difference === null || (item.mark === null && !context.reweighted.has(item))) return null;
  const weights = weightsOf(context, item);
  if (item.mark === null) return html("section", { class: "change changed" }, html("p", {}, signed("changed"), " Its weights changed"), weights);
  const change = difference.changeOf.get(item);
  const tally = difference.tallies.get(item);
  const words = item.isDerived ? "Its result changed because its operands did" : MARK_WORDS[item.mark];
  const rows = (change?.details ?? []).map(({ what, a, b }) => [word(what), html("del", {}, a), html("ins", {}, b)]);
  return html(
    "section",
    { class: `change ${item.mark}` },
    html("p", {}, signed(item.mark), ` ${words}`, item.isGroup && tally !== undefined ? `: ${tallyText(tally)}` : ""),
    rows.length === 0 ? null : table(["What", "Before", "After"], rows),
    weights,
  );
}

function signed(mark: Mark): HTMLElement {
  return html("span", { class: `sign-of ${mark}`, "aria-hidden": "true" }, MARK_SIGNS[mark]);
}

/** In a difference: how much the weights changed that an item uses, or something inside it. */
function weightsOf(context: Context, item: Item): HTMLElement | null {
  const found = item.kind === "program" ? [] : (context.reweighted.get(item) ?? []);
  if (found.length === 0) return null;
  const isMeasured = found.some(({ change }) => change?.norm != null);
  const rows = ({ weight, change }: Reweighted): Child[] => [weight === item ? word("elements") : textButton(weight.name, () => { context.reveal(weight); }), ...(isMeasured ? [shareText(change?.norm), change?.cosine == null ? "" : numberText(change.cosine)] : [])];
  const note = isMeasured ? "Norm: that of the difference, as a share of the one before." : "graphwire view --weights says by how much.";
  return html("div", {}, longTable(["Weight", ...(isMeasured ? ["#Norm", "#Cosine"] : [])], found, rows, { first: 20, text: ({ weight }) => weight.name }), html("p", { class: "quiet" }, note));
}

function where(context: Context, item: Item): HTMLElement {
  const around = item.around.slice(1).flatMap((each, index): Child[] => [index === 0 ? " in " : " › ", itemLink(context, each)]);
  return html("span", {}, ...around);
}

function itemLink(context: Context, item: Item): HTMLElement {
  return textButton(item.kind === "module" || item.kind === "program" ? titleOf(item) : item.kind === "node" || item.kind === "weight" ? item.name : item.title, () => { context.reveal(item); }, item.label);
}

function operator(context: Context, item: Item): HTMLElement {
  const schema = context.sideOf(item).facts.operators.get(item.type);
  return section("Operator", html("code", { class: "block" }, item.type), schema === undefined ? null : html("code", { class: "block quiet" }, schema));
}

function inputs(context: Context, item: Item): HTMLElement | null {
  const given = item.node?.inputs ?? [];
  if (given.length === 0) return null;
  const rows = given.map(({ name, arg }, index) => {
    const pieces = argumentPieces(arg).slice(0, 400);
    return [word(name === "" ? `input ${index}` : name), html("div", {}, ...pieces.map((piece) => pieceOf(context, item, piece)))];
  });
  const defaults = defaultsOf(item.type, context.sideOf(item).facts.operators.get(item.type) ?? "").filter(([name]) => !given.some((input) => input.name === name));
  rows.push(...defaults.map(([name, value]) => [html("span", { class: "quiet" }, name), html("span", { class: "quiet", title: "not given: the operator’s default" }, value)]));
  return section("Arguments", table(["Name", "Value"], rows));
}

function pieceOf(context: Context, item: Item, { text, value, node }: Piece): Child {
  const maker = value === undefined ? (node === undefined ? undefined : item.scope.nodes.get(node)) : item.scope.makers.get(value);
  if (maker === undefined) return html("code", {}, text);
  const { type, symbol } = value === undefined ? { type: "", symbol: "" } : valueFacts(item.scope.graph, value);
  const name = maker.kind === "weight" ? maker.name : text;
  return html("span", {}, textButton(name, () => { context.reveal(maker); }), html("span", { class: "quiet" }, ` ${type}${symbol === "" ? "" : ` = ${symbol}`}`));
}

function results(item: Item): HTMLElement | null {
  if (item.values.length === 0) return null;
  const rows = item.values.slice(0, MOST).map((value) => {
    const { type, meta, symbol } = valueFacts(item.scope.graph, value);
    const more = meta === null ? (symbol === "" ? "" : `= ${symbol}`) : [deviceText(meta.device), `strides ${sizesText(meta.strides)}`, meta.requires_grad ? "requires gradients" : ""].filter((each) => each !== "").join(", ");
    return [word(value), html("div", {}, type, html("div", { class: "quiet" }, more))];
  });
  return section(item.kind === "node" ? "Results" : "Value", table(["Name", "Type"], rows));
}

function groupFacts(context: Context, item: Item): HTMLElement | null {
  if (item.kind === "weight") {
    const weight = context.sideOf(item).weights.find(({ name }) => name === item.name);
    if (weight === undefined) return null;
    const known = context.sideOf(item).opened.facts.weights.get(weight.name);
    const told = facts([["Is a", weight.role], ["Type", `${weight.dtype} ${weight.shape}`], ["Elements", countText(weight.elements)], ["Size", bytesText(weight.bytes)], ["Where", whereIs(context, weight)], ["Tied to", weight.shares.join(", ")]]);
    const elements = known === undefined || (known.histogram === null && known.mean === null) ? html("p", { class: "quiet" }, "Elements were not read: graphwire view --weights reads them.") : histogram(known, 60);
    return html("div", {}, told, section("Elements", elements));
  }
  if (!item.isGroup) return null;
  const act = html("button", { type: "button", click: () => { context.toggle(item); } }, context.isOpen(item) ? "Fold" : "Unfold");
  return html("div", {}, facts([["Path", item.label], ["Class", item.type], ["Nodes", countText(item.nodes)], ["Weights", item.bytes === 0 ? "" : `${bytesText(item.bytes)}${item.sharesWith === null ? "" : `, those of ${item.sharesWith.label}`}`]]), item.kind === "program" ? null : act);
}

/** What a module, or a run of them, takes from outside and gives to it, and its weights. */
function moduleParts(context: Context, item: Item): (HTMLElement | null)[] {
  if (item.kind !== "module" && item.kind !== "run") return [];
  const inside = new Set(within(item));
  const [takes, gives] = [new Map<string, Item>(), new Map<string, Item>()];
  for (const each of inside) {
    for (const { from, value } of each.operands) if (!inside.has(from) && from.kind !== "weight") takes.set(value, from);
    for (const { to, value } of each.users) if (!inside.has(to)) gives.set(value, each);
  }
  const values = (title: string, found: ReadonlyMap<string, Item>): HTMLElement | null => found.size === 0 ? null : section(title, longList("links", [...found], ([value, from]) => html("li", {}, itemLink(context, from), html("span", { class: "quiet" }, ` ${valueFacts(from.scope.graph, value).type}`)), ([value]) => value));
  const owners = [...inside].filter((each) => each.kind === "module" && (each === item || each.parent?.kind !== "module")).map(({ name }) => `${withoutCall(name)}.`);
  const side = context.sideOf(item);
  const weights = side.weights.filter(({ name }) => owners.some((owner) => name.startsWith(owner)));
  const rows = longTable(["Name", "Type"], weights, ({ name, value, dtype, shape }) => {
    const made = item.scope.makers.get(value);
    return [made === undefined ? word(name) : textButton(name, () => { context.reveal(made); }), `${dtype} ${shape}`];
  }, { first: 20, text: ({ name }) => name });
  const parameters = weights.filter(({ role, tiedTo }) => role === "parameter" && tiedTo === "");
  const count = countText(parameters.reduce((sum, { elements }) => sum + elements, 0));
  return [values("Takes", takes), values("Gives", gives), weights.length === 0 ? null : section("Weights", html("p", { class: "quiet" }, `${count} elements of parameters`), rows)];
}

function cost(context: Context, item: Item): HTMLElement | null {
  const { work } = context.sideOf(item);
  const found = work.costs.get(item.path);
  return found === undefined ? null : section("Estimated work", facts([["Operations", Number.isNaN(found.flops) ? "not counted" : scaledText(found.flops, "FLOP")], ["Memory", bytesText(found.bytes)], ["At", work.sizes.text]]));
}

function linksSection(context: Context, title: string, items: readonly Item[]): HTMLElement | null {
  const unique = [...new Set(items)];
  if (unique.length === 0) return null;
  const row = (item: Item): HTMLElement => html("li", {}, itemLink(context, item), html("span", { class: "quiet" }, ` ${item.kind === "node" ? item.title : item.kind}`));
  return section(title, longList("links", unique, row, (item) => `${item.path} ${item.title}`));
}

function stack(context: Context, item: Item): HTMLElement | null {
  if (item.node === null) return null;
  const frames = framesOf(item.node, context.sideOf(item).program.graph_module);
  if (frames.length === 0) return null;
  const rows = frames.reverse().map(({ file, line, name, source }) =>
    html("li", {}, textButton(`${file}:${line}`, () => { context.search(`file:"${file}:${line}"`); }, "Find the nodes of this line"), name === "" ? null : html("span", { class: "quiet" }, ` in ${name}`), source === "" ? null : html("code", { class: "block" }, source)),
  );
  return section("Source", html("ol", { class: "frames" }, ...rows));
}

function provenance(context: Context, item: Item): HTMLElement | null {
  const origins = item.node === null ? [] : originsOf(item.node, context.sideOf(item).program.graph_module);
  return origins.length === 0 ? null : section("Made from", originList(origins));
}

function originList(origins: readonly Origin[]): HTMLElement {
  const rows = origins.map(({ name, target, pass, action, from }) => {
    const by = [action, pass === "" ? "" : `by ${pass}`].filter((each) => each !== "").join(" ");
    return html("li", {}, html("code", {}, name), ` ${target}`, html("span", { class: "quiet" }, ` ${by}`), from.length === 0 ? null : originList(from));
  });
  return html("ul", {}, ...rows);
}

function metadata(item: Item): HTMLElement | null {
  const rows = item.node === null ? [] : otherMetadata(item.node);
  return rows.length === 0 ? null : section("Other metadata", facts(rows.map(([key, text]) => [key, html("code", {}, text)] as const)));
}

