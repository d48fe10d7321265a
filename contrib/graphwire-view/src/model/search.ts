/** Search over names, operators, shapes, modules, source files. */

import type { GraphModule } from "graphwire-js";

import { modulesOf, withoutCall, type Item, type Items } from "./items.js";
import { framesOf } from "./metadata.js";
import { valueFacts } from "./values.js";

/** What words are looked for in; `op:linear` looks in operators alone. */
const FIELDS: Readonly<Record<string, (item: Item, module: GraphModule) => readonly string[]>> = {
  name: (item) => [item.path, item.label, item.title],
  op: (item) => (item.kind === "node" ? [item.type] : []),
  dtype: (item) => dtypesOf(item),
  shape: (item) => (item.kind === "output" ? [item.type] : item.values.map((value) => valueFacts(item.scope.graph, value).type)),
  module: (item) => (item.kind === "module" ? [item.name, item.type] : item.kind === "weight" ? [] : [...modulesOf(item).map(({ name }) => withoutCall(name)), ...item.calls.map(({ type }) => type)]),
  file: (item, module) => (item.node === null ? [] : framesOf(item.node, module).map(({ file, line }) => `${file}:${line}`)),
  value: (item) => item.values,
};

/** The element types of what an item makes, also as people shorten them: `bf16`, `f32`, `i64`. */
function dtypesOf(item: Item): string[] {
  const names = (item.kind === "output" ? [item.type] : item.values.map((value) => valueFacts(item.scope.graph, value).type)).map((type) => type.split(" ")[0] ?? "");
  return names.flatMap((name) => [name, name.replace(/^bfloat/, "bf").replace(/^float/, "f"), name.replace(/^float/, "fp"), name.replace(/^int/, "i").replace(/^uint/, "u")]);
}

const UNITS: Readonly<Record<string, number>> = { "": 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 };

/** Whether the weights of an item satisfy `>1MB`; weights and nodes that use them have weights. */
function hasWeights(item: Item, text: string): boolean {
  const [, sign = "", number = "", unit = ""] = /^([<>]=?)([\d.]+)([a-z]*)$/.exec(text) ?? [];
  const limit = Number(number) * (UNITS[unit] ?? NaN);
  if (sign === "" || Number.isNaN(limit)) return item.kind === "weight" && item.path.toLowerCase().includes(text);
  if (item.kind !== "weight" || item.bytes === 0) return false;
  return sign.startsWith(">") ? item.bytes > limit || (sign === ">=" && item.bytes === limit) : item.bytes < limit || (sign === "<=" && item.bytes === limit);
}

export const FIELD_NAMES = Object.keys(FIELDS);

interface Word {
  readonly field: string | null;
  readonly text: string;
}

/** Splits a query: words that all must occur, `"quoted text"`, and `field:word`. */
function wordsOf(query: string): Word[] {
  return Array.from(query.matchAll(/(?:(\w+):)?(?:"([^"]*)"|(\S+))/g), ([whole, field, quoted, plain]): Word => {
    if (field === "weight" || (field !== undefined && Object.hasOwn(FIELDS, field))) return { field, text: (quoted ?? plain ?? "").toLowerCase() };
    return { field: null, text: (quoted === undefined || field !== undefined ? whole : quoted).toLowerCase() };
  }).filter(({ text }) => text !== "");
}

/** The items after which a search may pause. */
const STEP = 200;

/** A text of each item in which words are looked for; made once, since queries change with every key. */
export class Index {
  private readonly texts = new Map<string, string[]>();

  constructor(
    private readonly items: Items,
    private readonly moduleOf: (item: Item) => GraphModule,
  ) {}

  private text(name: string, item: Item): string {
    let known = this.texts.get(name);
    if (known === undefined) this.texts.set(name, (known = []));
    return (known[item.id] ??= ((Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined)?.(item, this.moduleOf(item)) ?? []).join("\n").toLowerCase());
  }

  /** Returns the items that a query finds, in the order of the program; weights come last. */
  find(query: string): Item[] {
    const search = this.search(query);
    for (;;) {
      const { done, value } = search.next();
      if (done === true) return value;
    }
  }

  /** Does what `find` does in short steps. */
  *search(query: string): Generator<undefined, Item[]> {
    const words = wordsOf(query);
    if (words.length === 0) return [];
    const everywhere = ["name", "op", "shape", "module", "file"];
    const found: Item[] = [];
    for (const [index, item] of this.items.all.entries()) {
      if (index % STEP === STEP - 1) yield;
      const { kind, shownAs } = item;
      if (kind === "program" || kind === "run" || shownAs !== null) continue;
      if (words.every(({ field, text }) => field === "weight" ? hasWeights(item, text) : (field === null ? everywhere : [field]).some((name) => this.text(name, item).includes(text)))) found.push(item);
    }
    const isWeight = (item: Item): number => (item.kind === "weight" ? 1 : 0);
    return found.sort((a, b) => isWeight(a) - isWeight(b));
  }
}
