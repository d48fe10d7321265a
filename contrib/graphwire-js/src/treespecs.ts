/** Treespecs: the structure of nested containers, as text of torch's protocol 1. */

import { GraphwireError } from "./errors.js";
import { parseJson, type JsonOptions } from "./json.js";
import { DEFAULT_LIMITS } from "./limits.js";
import type { Tree } from "./trees.js";

/** A leaf (null), or a container with its serialized type, context and children. */
export type TreeSpec = null | {
  readonly type: string;
  readonly context: Tree;
  readonly children: readonly TreeSpec[];
};

const FIELDS = ["type", "context", "children_spec"];
/** A text nests lists and objects twice as deep as containers. */
const LIMITS = { ...DEFAULT_LIMITS, treeDepth: 2 * 400 + 16 };
const MAX_DEPTH = 400;

function refuse(what: string): never {
  throw new GraphwireError("document", `${what} in a treespec`);
}

/** Parses the text of a treespec. */
export function parseTreespec(text: string): TreeSpec {
  const tree = parseJson(text, LIMITS, { loneSurrogates: true, words: true });
  if (!Array.isArray(tree) || tree.length !== 2 || tree[0] !== 1n) refuse("another protocol than 1");
  return specOf(tree[1] as Tree, 0);
}

function specOf(tree: Tree, depth: number): TreeSpec {
  if (!(tree instanceof Map)) return refuse("a node that is not an object");
  const node = tree as ReadonlyMap<string, Tree>;
  if (node.size !== FIELDS.length || !FIELDS.every((field) => node.has(field))) refuse("a missing or an unknown field");
  const [type, context, children] = FIELDS.map((field) => node.get(field) ?? null);
  if (!Array.isArray(children)) return refuse("children that are not a list");
  if (type === null || type === undefined) {
    if (context !== null || children.length > 0) refuse("a leaf with a context or children");
    return null;
  }
  if (depth >= MAX_DEPTH) refuse("too deep a nest");
  if (typeof type !== "string") return refuse("a type that is not text");
  return { type, context: context ?? null, children: children.map((child: Tree) => specOf(child, depth + 1)) };
}

/** Returns the number of leaves of a structure. */
export function leafCount(spec: TreeSpec): number {
  return spec === null ? 1 : spec.children.reduce((sum, child) => sum + leafCount(child), 0);
}

/** Returns the name and version of a serialized type: `NAME@2` has version 2, others version 1. */
export function splitVersion(type: string): readonly [name: string, version: number] {
  const found = /^(.*)@([0-9]{1,9})$/s.exec(type);
  return found === null ? [type, 1] : [found[1] ?? "", Number(found[2])];
}

/** Returns the JSON that a context contains if it is text, or undefined; as Python reads it, or strictly. */
export function parsedContext(context: Tree, options: JsonOptions = { words: true, lastKeyCounts: true }): Tree | undefined {
  if (typeof context !== "string") return undefined;
  try {
    return parseJson(context, LIMITS, { ...options, loneSurrogates: true });
  } catch (error) {
    if (error instanceof GraphwireError) return undefined;
    throw error;
  }
}

/** Returns the names of the keyword arguments in a call's spec, `((args…), {name: …})`; none for other shapes. */
export function keywordsOf(spec: TreeSpec): readonly Tree[] {
  const [, keywords] = spec?.type === "builtins.tuple" && spec.children.length === 2 ? spec.children : [];
  if (keywords === undefined || keywords === null || splitVersion(keywords.type)[0] !== "builtins.dict") return [];
  const names = typeof keywords.context === "string" ? parsedContext(keywords.context) : keywords.context;
  return Array.isArray(names) ? (names as readonly Tree[]) : [];
}
