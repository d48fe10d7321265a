/** The panel about the program: its interface, sizes, origin, readers, problems. */

import type { InterfaceTree } from "graphwire-js";

import { visibleText } from "../../layout/text.js";
import { shortType } from "../../model/metadata.js";
import { dynamicSizes, guardText, withSymbols } from "../../model/mathematics.js";
import { bytesText, countText, plural, valueFacts } from "../../model/values.js";
import type { Weight } from "../../model/weights.js";
import type { Context } from "../context.js";
import { facts, html, longList, section, table, textButton, word } from "../elements.js";

export function programPanel(context: Context): HTMLElement {
  return html(
    "div",
    {},
    problems(context),
    interfaceSection(context),
    sizes(context),
    about(context),
    targets(context),
    plugins(context),
  );
}

function interfaceSection(context: Context): HTMLElement {
  const { inputs, keywords, output, effects } = context.side.items.interface;
  const effectRows = effects.map(({ what, target, value }) => html("li", {}, `${what} `, html("code", {}, target), " (", valueLink(context, value, value), ")"));
  return section(
    "Interface",
    html("h4", {}, "Takes"),
    inputs.length + keywords.length === 0 ? html("p", {}, "nothing") : branches(context, [...inputs, ...keywords], (tree) => (keywords.includes(tree) ? "by name" : "")),
    html("h4", {}, "Returns"),
    html("ul", { class: "interface" }, branch(context, { ...output, name: output.name === "" ? "result" : output.name })),
    effectRows.length === 0 ? null : html("h4", {}, "Also"),
    effectRows.length === 0 ? null : html("ul", {}, ...effectRows),
  );
}

function branches(context: Context, trees: readonly InterfaceTree[], note: (tree: InterfaceTree) => string = () => ""): HTMLElement {
  return longList("interface", trees, (tree) => branch(context, tree, note(tree)), ({ name, leaf, value }) => `${name} ${leaf} ${value}`);
}

function branch(context: Context, { name, container, leaf, value, children }: InterfaceTree, note = ""): HTMLElement {
  const shown = html("span", { class: "name" }, /^\d+$/.test(name) ? `[${name}]` : visibleText(name));
  const notes = [container === "?" ? "" : shortType(container), note, container !== "" && children.length === 0 ? "empty" : ""].filter((each) => each !== "").join(", ");
  const quiet = notes === "" ? null : html("span", { class: "quiet" }, ` (${notes})`);
  if (container !== "") return html("li", {}, shown, quiet, branches(context, children));
  return html("li", {}, shown, quiet, ": ", valueLink(context, value, withSymbols(leaf, dynamicSizes(context.side.summary)), leaf));
}

function valueLink(context: Context, value: string, label: string, title = label): HTMLElement {
  const item = context.side.items.root.scope.makers.get(value);
  return item === undefined ? html("code", {}, label) : textButton(label, () => { context.reveal(item); }, title === label ? `Show ${value} in the drawing` : title);
}

function sizes(context: Context): HTMLElement {
  const { program, summary } = context.side;
  const found = dynamicSizes(summary);
  const rows = found.map(({ symbol, label, range }) => [html("div", {}, word(symbol), label === symbol ? origin(context, symbol) : html("div", { class: "quiet" }, `= ${label}`)), range]);
  const guards = program.guards_code.map((guard) => html("li", { title: guard }, guardText(guard, found)));
  return section(
    "Sizes and conditions",
    rows.length === 0
      ? html("p", {}, "All sizes are fixed: the program takes inputs of the sizes above, and no others.")
      : table(["Symbol", "Range"], rows),
    guards.length === 0 ? null : html("h4", {}, "Conditions on the inputs"),
    guards.length === 0 ? null : html("ul", { class: "guards" }, ...guards),
  );
}

/** Where a size comes from that no input has: the node that makes the first value with it. */
function origin(context: Context, symbol: string): HTMLElement | null {
  const isPart = (text: string): boolean => text.split(/\W+/).includes(symbol);
  const item = context.side.items.all.find(({ kind, scope, values }) => kind === "node" && values.some((value) => {
    const { type, symbol: own } = valueFacts(scope.graph, value);
    return isPart(type) || isPart(own);
  }));
  return item === undefined ? null : html("div", { class: "quiet" }, "from ", textButton(item.path, () => { context.reveal(item); }, `Show ${item.path} in the drawing`));
}

function about({ side }: Context): HTMLElement {
  const { summary, opened, program } = side;
  const { inspection } = opened.facts;
  const opsets = Array.from(summary.opset_versions, ([library, version]) => `${library} ${version}`).join(", ");
  const tensors = (sizes: { count: number; elements: bigint; bytes: bigint }, role: Weight["role"]): string => {
    const held = side.weights.filter((weight) => weight.role === role);
    const tied = held.filter(({ tiedTo }) => tiedTo !== "").map(({ name, tiedTo }) => `${name} is tied to ${tiedTo}`);
    const ties = tied.length === 0 ? "" : `; ${tied.slice(0, 3).join(", ")}${tied.length > 3 ? `, and ${plural(tied.length - 3, "other")}` : ""}`;
    return sizes.count === 0 ? "" : `${countText(sizes.count)} (${plural(sizes.elements, "element")}, ${bytesText(sizes.bytes)}${ties})`;
  };
  return section(
    "About",
    facts([
      ["File", `${opened.facts.name}, ${bytesText(opened.size)}`],
      ["Made by", program.producer ?? `torch ${program.torch_version}`],
      ["torch", summary.torch_version],
      ["Schema", summary.schema_version],
      ["Layout", inspection?.text("layout") ?? opened.file.layout.title],
      ["Operator sets", opsets],
      ["Dialects", summary.dialects.join(", ")],
      ["Nodes", `${countText(summary.nodes)}${summary.subgraphs === 0 ? "" : `, in ${plural(summary.subgraphs + 1, "graph")}`}`],
      ["Parameters", tensors(summary.parameters, "parameter")],
      ["Buffers", tensors(summary.buffers, "buffer")],
      ["Constants", tensors(summary.constants, "constant")],
      ["Extensions", summary.features.join(", ")],
    ]),
  );
}

function targets({ side }: Context): HTMLElement {
  const known = side.opened.facts.targets;
  if (known === null) {
    const from = side.program.readable_from;
    const text = from === null ? "" : ` The file says that ${from} and later can.`;
    return section("Who can read it", html("p", {}, `graphwire finds this out: make the page with graphwire view --targets.${text}`));
  }
  const rows = known.map(({ target, readable, whyNot }) => [word(target), html("span", { class: "nowrap" }, readable ? "✓ yes" : "✗ no"), whyNot]);
  return section("Who can read it", table(["Reader", "Reads", "What keeps it from it"], rows));
}

function plugins({ side }: Context): HTMLElement | null {
  const { plugins: needed } = side.summary;
  if (needed.length === 0) return null;
  return section("Needs", table(["Package", "Version", "For"], needed.map((each) => [each.distribution, each.version, each.provides.join(", ")])));
}

function problems({ side }: Context): HTMLElement | null {
  const known = side.opened.facts.problems;
  if (known === null || known.length === 0) return null;
  const rows = known.map(({ place, problem, remedy }) => html("li", {}, html("strong", {}, problem), place === "" ? null : html("code", {}, ` ${place}`), remedy === "" ? null : html("p", {}, remedy)));
  const made = section(plural(rows.length, "problem"), html("ul", {}, ...rows));
  made.className = "problems";
  return made;
}
