/** The rules of metadata: texts that are JSON, and stack traces. */

import { parseJson } from "../json.js";
import type { Tree } from "../trees.js";
import { integer, list, nullable, readAs, record, required, text, type Type } from "../types.js";
import { parsed, refuse } from "./places.js";

/** A list of lists of so many texts. */
function rowsOf(length: number): Type<unknown> {
  const rows = list(list(text));
  return {
    read(tree) {
      const found = rows.read(tree);
      if (found.some((row) => row.length !== length)) refuse(`rows of ${length} texts are expected`, "");
      return found;
    },
    neutral: () => true,
  };
}

const ORIGIN: Type<unknown> = record({
  name: required(text),
  target: required(text),
  graph_id: required(integer),
  pass_name: required(text),
  action: required(text),
  from_node: required({ read: (tree: Tree) => list(ORIGIN).read(tree), neutral: () => true }),
});
const ANY: Type<unknown> = { read: (tree) => tree, neutral: () => true };

const GRAMMARS: ReadonlyMap<string, Type<unknown>> = new Map([
  ["custom", ANY],
  ["from_node", nullable(list(ORIGIN))],
  ["graphwire.nn_module_stack", rowsOf(3)],
  ["graphwire.source_fn_stack", rowsOf(2)],
  ["graphwire.torch_fn", list(text)],
]);
/** The text of any JSON is read as by Python; that of the others is RFC 8259. */
const AS_PYTHON = { loneSurrogates: true, words: true, lastKeyCounts: true };

/** The last text of each key that was right: neighbours are in the same module. */
const RIGHT = new Map<string, string>();

/** Checks the texts of a node, a value or a module that have a grammar. */
export function checkMetadata(metadata: ReadonlyMap<string, string>, place: string): void {
  checkTrace(metadata.get("stack_trace") ?? "", place);
  for (const [key, type] of GRAMMARS) {
    const given = metadata.get(key);
    if (given === undefined || given === RIGHT.get(key)) continue;
    const at = `${place}.metadata[${JSON.stringify(key)}]`;
    parsed(at, () => readAs(type, parseJson(given, undefined, type === ANY ? AS_PYTHON : { lastKeyCounts: true }), ""));
    RIGHT.set(key, given);
  }
}

/** Checks the text of a stack trace. */
export function checkTrace(text: string, place: string): void {
  if (text.includes("\r") || text.includes("\0")) refuse("a stack trace with a carriage return or NUL", place);
}
