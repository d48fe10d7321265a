/** The panel with everything that differs between two programs. */

import { ABSENT, type Change } from "graphwire-js";

import { layersTexts, MARK_NAMES, MARK_SIGNS, tallyText, type Difference, type Tally } from "../../model/difference.js";
import { classText, modulesOf, withoutCall, type Item, type Mark } from "../../model/items.js";
import { overLayers, type OverLayers } from "../../model/layers.js";
import { numberText, plural } from "../../model/values.js";
import type { Context } from "../context.js";
import { shareText } from "../reweighted.js";
import { html, longTable, section, table, textButton, type Child } from "../elements.js";

export function changesPanel(context: Context, difference: Difference): HTMLElement {
  const nodes = context.side.items.all.filter((item) => item.kind === "node" && item.mark !== null && !item.isDerived);
  const derived = context.side.items.all.filter((item) => item.kind === "node" && item.isDerived);
  return html(
    "div",
    {},
    html("p", { class: "paper-only" }, differenceSentence(context, difference)),
    legend(),
    html("p", { class: "more" }, html("button", { type: "button", title: "Key p", click: () => { context.nextChange(-1); } }, "‹ Previous"), " ", html("button", { type: "button", title: "Key n", click: () => { context.nextChange(1); } }, "Next ›")),
    classes(context),
    ...modules(context, difference),
    itemSection(context, "Nodes", nodes),
    weights(context, difference),
    methods(context),
    ...others(difference),
    derived.length === 0 ? null : html("details", {}, html("summary", {}, `${plural(derived.length, "node")} whose results changed because their operands did`), itemTable(context, derived)),
  );
}

function legend(): HTMLElement {
  const words: Readonly<Record<Mark, string>> = { added: "only after", removed: "only before", changed: "changed", moved: "moved" };
  return html("p", { class: "marks" }, ...MARK_NAMES.map((mark) => html("span", {}, sign(mark), ` ${words[mark]}  `)));
}

export function sign(mark: Mark): HTMLElement {
  return html("span", { class: `sign-of ${mark}` }, MARK_SIGNS[mark]);
}

function total(tally: Tally): number {
  return MARK_NAMES.reduce((sum, mark) => sum + tally[mark], 0);
}

/** The layers with other numbers, and the innermost modules with changes, in the order of the program; what is inside one that is new or gone is part of it. */
function modules(context: Context, { layers }: Difference): HTMLElement[] {
  const before = new Map(Array.from(layers.numbers, ([one, other]) => [other, one] as const));
  const rows: { readonly item: Item; readonly title: string; readonly what: string }[] = [];
  const visit = (item: Item): void => {
    const own = { added: 0, removed: 0, changed: 0, moved: 0 };
    const direct = (each: Item): void => {
      if (each.kind === "module") return;
      if (each.kind === "node" && each.mark !== null && !each.isDerived) own[each.mark] += 1;
      each.children.forEach(direct);
    };
    item.children.forEach(direct);
    const isWhole = item.mark === "added" || item.mark === "removed";
    if (item.kind === "module" && (isWhole || total(own) > 0 || item.isMoved)) {
      const earlier = item.mark === "removed" ? undefined : before.get(item.name);
      const name = earlier === undefined || earlier === item.name ? item.name : `${earlier} → ${item.name}`;
      const what = isWhole ? `${plural(item.nodes, "node")} ${item.mark}` : item.isMoved ? ["moved", tallyText(own)].join(" ").trim() : tallyText(own);
      const title = `${name}${item.type === "" ? "" : ` · ${item.type}`}`;
      rows.push({ item, title, what });
    }
    if (!isWhole) item.children.forEach(visit);
  };
  visit(context.side.items.root);
  const texts = layersTexts(layers);
  return [
    ...(texts.length === 0 ? [] : [section("Layers", html("ul", {}, ...texts.map((text) => html("li", {}, text))))]),
    ...(rows.length === 0 ? [] : [section("Modules", longTable(["Module", "#Changes"], overLayers(rows, ({ title }) => title.split(" · ")[0] ?? "", ({ item, what }) => `${item.type} ${what}`), (row) => {
      const [{ item, title, what }] = row.items;
      return [rowName(context, row, row.items.length === 1 ? title : `${row.name}${item.type === "" ? "" : ` · ${item.type}`}`, (each) => each.item, (each) => each.title), what];
    }, { first: 20, text: rowText(({ title }) => title) }))]),
  ];
}

/** The modules that have another class, with the classes. */
function classes(context: Context): HTMLElement | null {
  const rows = context.side.items.all.filter(({ was }) => was !== "");
  return rows.length === 0 ? null : section("Classes", longTable(["Module", "Before", "After"], overLayers(rows, ({ name }) => name, classText), (row): Child[] => [rowName(context, row, row.name, (item) => item, ({ name }) => name), html("del", {}, row.items[0].was), html("ins", {}, row.items[0].type)], { first: 20, text: rowText(({ name, was, type }) => `${name} ${was} ${type}`) }));
}

/** Returns the first cell of a row: what it leads to, or, if it stands for several layers, a list of that which opens. */
function rowName<T>(context: Context, { items: [first, ...others] }: OverLayers<T>, title: string, itemOf: (row: T) => Item, text: (row: T) => string): HTMLElement {
  const button = (row: T, label: string): HTMLElement => textButton(label, () => { context.reveal(itemOf(row)); });
  if (others.length === 0) return button(first, title);
  return html("details", { class: "layers" }, html("summary", {}, title, html("span", { class: "quiet" }, ` · ${others.length + 1}`)), html("ul", {}, ...[first, ...others].map((row) => html("li", {}, button(row, text(row))))));
}

function rowText<T>(text: (row: T) => string): (row: OverLayers<T>) => string {
  return ({ name, items }) => [name, ...items.map(text)].join(" ");
}

function itemSection(context: Context, title: string, items: readonly Item[]): HTMLElement | null {
  return items.length === 0 ? null : section(title, itemTable(context, items));
}

function itemTable(context: Context, items: readonly Item[]): HTMLElement {
  const told = (item: Item): string => (context.difference?.changeOf.get(item)?.details ?? []).map(({ what, a, b }) => `${what}: ${a === "" ? "nothing" : a} → ${b === "" ? "nothing" : b}`).join("; ");
  const moduleOf = (item: Item): string => withoutCall(modulesOf(item).at(-1)?.name ?? "");
  const numberless = (text: string): string => text.replaceAll(/_\d+\b/g, ""); // nodes are numbered through all layers
  const rows = overLayers(items, moduleOf, (item) => `${item.mark ?? ""} ${item.title} ${numberless(told(item))}`);
  return longTable(["Node", "What"], rows, (row): Child[] => {
    const [item] = row.items;
    const isOne = row.items.length === 1;
    const name = rowName(context, row, isOne ? item.path : row.name, (each) => each, ({ path }) => path);
    return [html("div", { class: "signed" }, item.mark === null ? null : sign(item.mark), html("div", {}, name, html("div", { class: "quiet" }, item.title))), isOne ? told(item) : numberless(told(item))];
  }, { text: rowText(({ path, title }) => `${path} ${title}`) });
}

/** Weights of which the page knows more than their metadata: how much their elements differ. */
function weights(context: Context, { diff }: Difference): HTMLElement | null {
  const known = context.weightChanges;
  const structural = diff.changes.filter(({ section: name }) => name === "weight" || name === "constant");
  const different = [...(known ?? [])].filter(([, { equal }]) => equal === false);
  const parts: Child[] = [];
  if (structural.length > 0) parts.push(changeTable(structural));
  if (known === null) parts.push(html("p", { class: "quiet" }, "Elements of weights are not compared: graphwire view --weights A B makes a page that does."));
  if (context.compared !== "") parts.push(html("p", {}, `Compared: ${context.compared}.`));
  if (different.length > 0) {
    const rows = [...different].sort(([, a], [, b]) => (b.norm ?? b.maxAbs ?? 0) - (a.norm ?? a.maxAbs ?? 0));
    const items = new Map(context.side.items.all.flatMap((item) => (item.kind === "weight" ? item.title.split(" = ").map((name) => [name, item] as const) : [])));
    parts.push(longTable(["Weight", "#Norm", "#Largest", "#Cosine"], rows, ([name, { maxAbs, cosine, norm }]): Child[] => {
      const item = items.get(name);
      return [item === undefined ? name : textButton(name, () => { context.reveal(item); }), shareText(norm), maxAbs === null ? "" : numberText(maxAbs), cosine === null ? "" : numberText(cosine)];
    }, { first: 50, text: ([name]) => name }), html("p", { class: "quiet" }, "Norm: that of the difference, as a share of the one before."));
  }
  return section("Weights", ...parts);
}

/** The methods that only one of the files has. */
function methods({ side, before }: Context): HTMLElement | null {
  const [earlier, later] = [before?.opened.file.programNames ?? [], side.opened.file.programNames];
  if (earlier.length === 1 && later.length === 1) return null;
  const rows: Child[][] = [
    ...earlier.filter((name) => !later.includes(name)).map((name) => [sign("removed"), name]),
    ...later.filter((name) => !earlier.includes(name)).map((name) => [sign("added"), name]),
  ];
  return rows.length === 0 ? null : section("Methods", table(["Change", "Name"], rows));
}

/** The other sections of a difference, such as inputs and versions. */
function others({ diff }: Difference): HTMLElement[] {
  const names = [...new Set(diff.changes.map(({ section: name }) => name))].filter((name) => !["layer", "weight", "constant"].includes(name));
  return names.map((name) => section(`${name.charAt(0).toUpperCase()}${name.slice(1)}s`, changeTable(diff.changes.filter((change) => change.section === name))));
}

interface ChangeRow {
  readonly change: Mark;
  readonly name: string;
  readonly what: string;
  readonly a: string;
  readonly b: string;
  readonly isFirst: boolean;
}

/** One row for what only one program has, else one for each thing that differs. */
function rowsOf({ change, name, details = [] }: Change): ChangeRow[] {
  const whole = (side: "a" | "b"): string => details.flatMap((each) => (each[side] === "" ? [] : [`${each.what} ${each[side]}`])).join(", ");
  if (details.length === 0 || change === "added" || change === "removed") return [{ change, name, what: "", a: whole("a"), b: whole("b"), isFirst: true }];
  return details.map(({ what, a, b }, index) => ({ change, name, what, a, b, isFirst: index === 0 }));
}

function changeTable(changes: readonly Change[]): HTMLElement {
  const side = (tag: "del" | "ins", text: string): Child => (text === "" ? "" : html(tag, {}, text));
  return longTable(["Name", "Before", "After"], changes.flatMap(rowsOf), ({ change, name, what, a, b, isFirst }): Child[] => [html("div", { class: isFirst ? "signed" : "signed more-of" }, isFirst ? sign(change) : null, html("div", {}, isFirst ? html("span", { class: "name" }, name) : null, what === "" ? null : html("div", { class: "quiet" }, what))), side("del", a), side("ins", b)], { first: 50, text: ({ name, what, a, b }) => `${name} ${what} ${a} ${b}` });
}

/** Says in one sentence what differs. */
export function differenceSentence(context: Context, { diff, tallies, items, layers, weights: changed }: Difference): string {
  const all = context.side.items.all;
  const classesChanged = all.filter(({ was }) => was !== "");
  const kinds = [...new Set(classesChanged.map(classText))];
  const renumbered = new Set(layers.numbers.values());
  const whole = all.filter(({ isMoved, name }) => isMoved && !renumbered.has(name));
  const sections = new Map<string, number>();
  const gone = [...layers.added, ...Array.from(layers.numbers, ([one, other]) => (other === one + ABSENT ? one : "")).filter((each) => each !== "")];
  const isTold = (name: string): boolean => gone.some((path) => name === path || name.startsWith(`${path}.`));
  for (const { section: name, change, name: of } of diff.changes) if (name !== "layer" && (change === "changed" || !isTold(of.slice(of.lastIndexOf(" ") + 1)))) sections.set(name, (sections.get(name) ?? 0) + 1);
  const norms = [...(context.weightChanges ?? [])].flatMap(([, { equal, norm }]) => (equal === false && norm !== null ? [norm] : []));
  const most = norms.length === 0 ? "" : `, by up to ${shareText(Math.max(...norms))}`;
  const unknown = [...(context.weightChanges ?? [])].filter(([, { equal }]) => equal === false).length;
  const count = changed.length === 0 ? unknown : changed.length; // a weight that no graph uses has no item
  const parts = [
    ...(kinds.length === 0 ? [] : [`the class of ${plural(classesChanged.length, "module")} (${kinds.slice(0, 2).join(", ")}${kinds.length > 2 ? ", …" : ""})`]),
    ...(whole.length === 0 ? [] : [`the place of ${plural(whole.length, "module")} (${whole.slice(0, 3).map(({ name }) => name).join(", ")}${whole.length > 3 ? ", …" : ""})`]),
    ...Array.from(sections, ([name, found]) => plural(found, name)),
    ...(count === 0 ? [] : [`the elements of ${plural(count, "weight")}${most}`]),
  ];
  const tally = tallies.get(items.root);
  if (tally === undefined) {
    if (parts.length > 0) return `Nothing changed but ${joined(parts)}: all nodes are the same.`;
    return `The programs have the same graph${context.compared === "" ? "; elements of weights are not compared" : `; ${context.compared}`}.`;
  }
  const words = MARK_NAMES.filter((mark) => tally[mark] > 0).map((mark) => `${tally[mark].toLocaleString("en")} ${mark}`);
  const where = [...tallies].filter(([item]) => item.kind === "module").map(([item]) => item);
  const innermost = where.filter((item) => !item.children.some((child) => where.includes(child)));
  const [only] = innermost;
  const place = innermost.length === 1 && only !== undefined && total(tallies.get(only) as Tally) === total(tally) ? `, all in ${only.name}` : innermost.length > 1 ? `, in ${plural(innermost.length, "module")}` : "";
  const lists = layersTexts(layers);
  const first = lists.length === 0 ? "" : `${lists.slice(0, MOST_TEXTS).join(", ")}${lists.length > MOST_TEXTS ? ", …" : ""}. `;
  return `${first}Of ${plural(diff.nodes_b, "node")}: ${words.join(", ")}${place}${parts.length === 0 ? "" : `; also ${joined(parts)}`}.`;
}

const MOST_TEXTS = 5;

function joined(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1) ?? ""}`;
}
