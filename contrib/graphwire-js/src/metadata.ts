/** The modules around a node, as its metadata contains them. */

import { GraphwireError } from "./errors.js";
import { parseJson } from "./json.js";
import type { Tree } from "./trees.js";

/** A module around a node: its key, its qualified name (with `@1` for further calls), and its class. */
export type ModuleRow = readonly [key: string, path: string, type: string];

const EXACT = "graphwire.nn_module_stack";

/** What was read last: neighbours are in the same module. */
let last: { readonly text: string; readonly rows: readonly ModuleRow[] } = { text: "[]", rows: [] };

/** Returns the modules around a node, outermost first; none if the metadata has none, or wrong ones. */
export function modulesOfMetadata(metadata: ReadonlyMap<string, string>): readonly ModuleRow[] {
  const exact = metadata.get(EXACT);
  if (exact !== undefined) {
    if (exact !== last.text) last = { text: exact, rows: exactRows(exact) };
    return last.rows;
  }
  const rows = (metadata.get("nn_module_stack") ?? "").split(";").map(splitRow);
  return rows.every((row) => row !== null) ? rows : [];
}

/** Splits `KEY,PATH,TYPE`, where a comma inside brackets belongs to a part. */
function splitRow(text: string): ModuleRow | null {
  const commas: number[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "(" || character === "[") depth += 1;
    else if (character === ")" || character === "]") depth -= 1;
    else if (character === "," && depth === 0) commas.push(at);
  }
  const [first, second, ...more] = commas;
  if (first === undefined || second === undefined || more.length > 0) return null;
  const [key, path, type] = [text.slice(0, first), text.slice(first + 1, second), text.slice(second + 1)];
  const placeholder = key === path && path === type;
  return placeholder ? null : [key, path, type];
}

function exactRows(text: string): ModuleRow[] {
  let rows: Tree;
  try {
    rows = parseJson(text);
  } catch (error) {
    if (error instanceof GraphwireError) return [];
    throw error;
  }
  const lists = Array.isArray(rows) ? (rows as readonly Tree[]) : [];
  return lists.flatMap((row): ModuleRow[] => {
    const [key, path, type] = Array.isArray(row) ? (row as readonly Tree[]) : [];
    return typeof key === "string" && typeof path === "string" && typeof type === "string" ? [[key, path, type]] : [];
  });
}
