/** Values of a document as plain trees again, and as the text that a diff shows. */

import { LAYOUT, MEMORY_FORMAT, SCALAR_TYPE } from "../enumerations.js";
import { jsonText } from "../canonical/arguments.js";
import type { Argument, TensorMeta } from "../schema.js";
import { floatLiteral } from "../summary.js";
import type { Tree } from "../trees.js";

/** Returns a value of a record as a tree, as a document contains it: unions are dicts of one arm, None is left out of records. */
export function documentTree(value: unknown): Tree {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" && !Number.isFinite(value)) return floatLiteral(value);
  if (typeof value !== "object") return value as Tree;
  if (Array.isArray(value)) return value.map(documentTree);
  if (value instanceof Map) return new Map(Array.from(value as Map<string, unknown>, ([key, each]) => [key, documentTree(each)]));
  const record = value as Readonly<Record<string, unknown>>;
  const { arm } = record;
  if (typeof arm === "string") return new Map([[arm, documentTree(record["value"])]]);
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

/** Returns an argument as readable text: names of values, literals as JSON. */
export function argumentText(argument: Argument): string {
  if (argument.arm === "as_graph") return `graph ${argument.value.name}`;
  const text = treeText(documentTree(numbered(argument)));
  const characters = Array.from(text);
  return characters.length <= MAX_TEXT ? text : `${characters.slice(0, MAX_TEXT).join("")}…`;
}

/** Returns the content of an argument, with the number of an enumeration's member in place of its name. */
function numbered(argument: Argument): unknown {
  switch (argument.arm) {
    case "as_scalar_type":
      return SCALAR_TYPE.numberOf(argument.value);
    case "as_layout":
      return LAYOUT.numberOf(argument.value);
    case "as_memory_format":
      return MEMORY_FORMAT.numberOf(argument.value);
    default:
      return argument.value;
  }
}

function treeText(tree: Tree): string {
  if (typeof tree === "string") return tree;
  if (Array.isArray(tree)) return `[${(tree as readonly Tree[]).map(treeText).join(", ")}]`;
  if (!(tree instanceof Map)) return jsonText(tree);
  const known = Array.from(tree as ReadonlyMap<string, Tree>).filter(([, value]) => value !== null);
  const name = known.find(([key]) => key === "name") ?? (known.length === 1 ? known[0] : undefined);
  return name === undefined ? `{${known.map(([key, value]) => `${key}: ${treeText(value)}`).join(", ")}}` : treeText(name[1]);
}
