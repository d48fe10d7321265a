/** Values of a document as plain trees again, and as the text that a diff shows. */

import { dtypeName, SCALAR_TYPE, type ScalarType } from "../enumerations.js";
import { jsonText } from "../canonical/arguments.js";
import type { Argument, TensorMeta } from "../schema.js";
import { floatLiteral } from "../summary.js";
import type { Tree } from "../trees.js";

/** Returns a value of a record as a tree, as a document contains it: unions are dicts of one variant, None is left out of records. */
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

const MAX_TEXT = 120;

/** Returns an argument as readable text: names of values, literals as Python writes them, except that text has no quotes. */
export function argumentText(argument: Argument): string {
  if (argument.variant === "as_graph") return `graph ${argument.value.name}`;
  const text = treeText(documentTree(argument));
  const characters = Array.from(text);
  return characters.length <= MAX_TEXT ? text : `${characters.slice(0, MAX_TEXT).join("")}…`;
}

function treeText(tree: Tree): string {
  if (typeof tree === "string") return tree;
  if (typeof tree === "boolean") return tree ? "True" : "False";
  if (Array.isArray(tree)) return `[${(tree as readonly Tree[]).map(treeText).join(", ")}]`;
  if (!(tree instanceof Map)) return jsonText(tree);
  const known = Array.from(tree as ReadonlyMap<string, Tree>).filter(([, value]) => value !== null);
  const [key, held] = known[0] ?? ["", null];
  const variant = known.length === 1 ? VARIANTS.get(key) : undefined;
  if (variant !== undefined) return variant(held);
  const name = known.find(([each]) => each === "name") ?? (known.length === 1 ? known[0] : undefined);
  return name === undefined ? `{${known.map(([each, value]) => `${each}: ${treeText(value)}`).join(", ")}}` : treeText(name[1]);
}

const NOT_FINITE: ReadonlyMap<Tree, string> = new Map([
  ["Infinity", "inf"],
  ["-Infinity", "-inf"],
  ["NaN", "nan"],
]);

function floatText(tree: Tree): string {
  return Array.isArray(tree) ? `[${(tree as readonly Tree[]).map(floatText).join(", ")}]` : (NOT_FINITE.get(tree) ?? treeText(tree));
}

function sequenceText(tree: Tree): string {
  const fields = tree as ReadonlyMap<string, Tree>;
  const items = (fields.get("items") as readonly Tree[]).map(treeText);
  return fields.get("kind") === "list" ? `[${items.join(", ")}]` : `(${items.join(", ")}${items.length === 1 ? "," : ""})`;
}

function mappingText(tree: Tree): string {
  const pairs = (tree as readonly ReadonlyMap<string, Tree>[]).map((entry) => `${treeText(entry.get("key") ?? null)}: ${treeText(entry.get("value") ?? null)}`);
  return `{${pairs.join(", ")}}`;
}

function called(name: string, part: (tree: Tree) => string): (tree: Tree) => string {
  return (tree) => `${name}(${Array.from((tree as ReadonlyMap<string, Tree>).values(), part).join(", ")})`;
}

/** The text of variants whose values are not their own text. */
const VARIANTS: ReadonlyMap<string, (tree: Tree) => string> = new Map([
  ["as_none", () => "None"],
  ["as_float", floatText],
  ["as_floats", floatText],
  ["as_float_lists", floatText],
  ["as_scalar_type", (tree) => dtypeName({ dtype: tree as ScalarType, dtype_name: null })],
  ["as_complex", called("complex", floatText)],
  ["as_range", called("range", treeText)],
  ["as_slice", called("slice", treeText)],
  ["as_sequence", sequenceText],
  ["as_mapping", mappingText],
]);
