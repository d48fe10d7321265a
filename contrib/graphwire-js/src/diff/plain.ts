/** Values of a document as plain trees again, and as the text that a diff shows. */

import { dtypeName, SCALAR_TYPE, type ScalarType } from "../enumerations.js";
import { jsonText } from "../canonical/arguments.js";
import type { Argument, ConstantValue, TensorMeta } from "../schema.js";
import { floatLiteral } from "../summary.js";
import type { Tree } from "../trees.js";

/** Returns a value of a record as a tree, as a document contains it: unions are dicts of one variant, None is dropped from records. */
export function documentTree(value: unknown): Tree {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" && !Number.isFinite(value)) return floatLiteral(value);
  if (typeof value !== "object") return value as Tree;
  if (Array.isArray(value)) return value.map(documentTree);
  if (value instanceof Map) return new Map(Array.from(value as Map<string, unknown>, ([key, each]) => [key, documentTree(each)]));
  const record = value as Readonly<Record<string, unknown>>;
  const { variant } = record;
  if (typeof variant === "string") return new Map([[variant, documentTree(record["value"])]]);
  return new Map(
    Object.entries(record)
      .filter(([, each]) => each !== null)
      .map(([key, each]) => [key, documentTree(each)]),
  );
}

/** Returns the details of a sparse layout as a document contains them, without those that have their default. */
export function sparseTree(sparse: NonNullable<TensorMeta["sparse"]>): Tree {
  const rows: [string, Tree, boolean][] = [
    ["dense_dim", sparse.dense_dim, sparse.dense_dim !== 0n],
    ["coalesced", sparse.coalesced, sparse.coalesced],
    ["index_dtype", SCALAR_TYPE.numberOf(sparse.index_dtype), sparse.index_dtype !== "LONG"],
    ["block", sparse.block, sparse.block !== null],
  ];
  return new Map(rows.filter(([, , stated]) => stated).map(([name, value]) => [name, value]));
}

/** Returns a tree as JSON without spaces. */
export function compactJson(tree: Tree): string {
  if (tree === null) return "null";
  if (typeof tree === "bigint") return tree.toString();
  if (typeof tree === "number") return Number.isFinite(tree) ? jsonText(tree).replace("e+", "e") : "null";
  if (tree instanceof Uint8Array) return JSON.stringify(btoa(String.fromCharCode(...tree)));
  if (Array.isArray(tree)) return `[${(tree as readonly Tree[]).map(compactJson).join(",")}]`;
  if (tree instanceof Map) {
    const rows = Array.from(tree as ReadonlyMap<string, Tree>, ([key, each]) => `${JSON.stringify(key)}:${compactJson(each)}`);
    return `{${rows.join(",")}}`;
  }
  return JSON.stringify(tree);
}

const MAX_CHARACTERS = 200;
const MAX_ITEMS = 64;
const MAX_LEVELS = 8;

/** Returns an argument as readable text: names of values and subgraphs, and literals as Python writes them. */
export function argumentText(argument: Argument | ConstantValue): string {
  const text = argument.variant === "as_graph" ? argument.value.name : treeText(documentTree(argument), 0);
  const characters = Array.from(text);
  return characters.length <= MAX_CHARACTERS ? text : `${characters.slice(0, MAX_CHARACTERS).join("")}…`;
}

function treeText(tree: Tree, level: number): string {
  if (level > MAX_LEVELS) return "…";
  if (tree === null) return "None";
  if (typeof tree === "string") return tree;
  if (typeof tree === "boolean") return tree ? "True" : "False";
  if (Array.isArray(tree)) return `[${itemsText(tree as readonly Tree[], (each) => treeText(each, level + 1))}]`;
  if (!(tree instanceof Map)) return jsonText(tree);
  const known = Array.from(tree as ReadonlyMap<string, Tree>).filter(([, value]) => value !== null);
  const [key, held] = known[0] ?? ["", null];
  const variant = known.length === 1 ? VARIANTS.get(key) : undefined;
  if (variant !== undefined) return variant(held, level + 1);
  const name = known.find(([each]) => each === "name");
  if (name !== undefined) return treeText(name[1], level);
  if (known.length === 1 && key.startsWith("as_")) return treeText(held, level + 1);
  return `{${itemsText(known, ([each, value]) => `${each}: ${treeText(value, level + 1)}`)}}`;
}

function itemsText<T>(items: readonly T[], textOf: (item: T) => string): string {
  const texts = items.slice(0, MAX_ITEMS).map(textOf);
  return `${texts.join(", ")}${items.length > MAX_ITEMS ? ", …" : ""}`;
}

const NOT_FINITE: ReadonlyMap<Tree, string> = new Map([
  ["Infinity", "inf"],
  ["-Infinity", "-inf"],
  ["NaN", "nan"],
]);

function floatText(tree: Tree): string {
  return Array.isArray(tree) ? `[${itemsText(tree as readonly Tree[], floatText)}]` : (NOT_FINITE.get(tree) ?? treeText(tree, 0));
}

function complexText(tree: Tree): string {
  const fields = tree as ReadonlyMap<string, Tree>;
  const [real, imaginary] = [fields.get("real") ?? null, fields.get("imag") ?? null].map((each) => floatText(each).replace(/\.0$/, "")) as [string, string];
  if (real === "0") return `${imaginary}j`;
  return `(${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}j)`;
}

function rangeText(tree: Tree): string {
  const numbers = Array.from((tree as ReadonlyMap<string, Tree>).values(), (each) => treeText(each, 0));
  return `range(${(numbers[2] === "1" ? numbers.slice(0, 2) : numbers).join(", ")})`;
}

function deviceText(tree: Tree): string {
  return Array.from((tree as ReadonlyMap<string, Tree>).values()).filter((each) => each !== null).map((each) => treeText(each, 0)).join(":");
}

function sequenceText(tree: Tree, level: number): string {
  if (level > MAX_LEVELS) return "…";
  const fields = tree as ReadonlyMap<string, Tree>;
  const items = fields.get("items") as readonly Tree[];
  const text = treeText(items, level + 1);
  return fields.get("kind") === "list" ? text : `(${text.slice(1, -1)}${items.length === 1 ? "," : ""})`;
}

function mappingText(tree: Tree, level: number): string {
  const entries = tree as readonly ReadonlyMap<string, Tree>[];
  return `{${itemsText(entries, (entry) => `${treeText(entry.get("key") ?? null, level)}: ${treeText(entry.get("value") ?? null, level)}`)}}`;
}

function sliceText(tree: Tree, level: number): string {
  if (level > MAX_LEVELS) return "…";
  return `slice(${Array.from((tree as ReadonlyMap<string, Tree>).values(), (each) => treeText(each, level + 1)).join(", ")})`;
}

/** Returns text in quotes as Python writes it. */
function textLiteral(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const characters = Array.from(text, (each) => {
    if ("\\\n\r\t".includes(each)) return JSON.stringify(each).slice(1, -1);
    if (each === quote) return `\\${each}`;
    if (each === " " || !/[\p{C}\p{Z}]/u.test(each)) return each;
    const code = each.codePointAt(0) ?? 0;
    const [kind, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${kind}${code.toString(16).padStart(digits, "0")}`;
  });
  return `${quote}${characters.join("")}${quote}`;
}

/** The text of variants whose values are not their own text. */
const VARIANTS: ReadonlyMap<string, (tree: Tree, level: number) => string> = new Map<string, (tree: Tree, level: number) => string>([
  ["as_none", () => "None"],
  ["as_string", (tree) => textLiteral(tree as string)],
  ["as_strings", (tree) => `[${itemsText(tree as readonly string[], textLiteral)}]`],
  ["as_float", floatText],
  ["as_floats", floatText],
  ["as_float_lists", floatText],
  ["as_scalar_type", (tree) => dtypeName({ dtype: tree as ScalarType, dtype_name: null })],
  ["as_complex", complexText],
  ["as_device", deviceText],
  ["as_range", rangeText],
  ["as_slice", sliceText],
  ["as_sequence", sequenceText],
  ["as_mapping", mappingText],
]);
