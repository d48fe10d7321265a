/** Which names a document may have, by their kind. */

import { KEYWORDS } from "../expressions.js";

const RESERVED = new Set(["__debug__", "self", "torch", "pytree", "fx_pytree", "NoneType"]);
const MAX_LENGTH = 1024;
const OPERATOR = /^(?:[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*|#[A-Za-z0-9_.]+:[^:\s"'\\`]+)$/;
const IDENTIFIER = /^[\p{XID_Start}_]\p{XID_Continue}*$/u;
/** Characters that a path or class name does not have: unprintable ones, quotes and backslashes. */
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]|["'\\`]/u;

function isShort(name: string): boolean {
  return name.length <= MAX_LENGTH || Array.from(name).length <= MAX_LENGTH;
}

function isDunder(name: string): boolean {
  return name.startsWith("__") && name.endsWith("__");
}

/** A name of a value, node, subgraph or device type. */
export function isValueName(name: string): boolean {
  return isShort(name) && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !isDunder(name) && !KEYWORDS.has(name) && !RESERVED.has(name);
}

/** A name of an operator's parameter. */
export function isParameterName(name: string, keyword: boolean): boolean {
  const legal = isShort(name) && IDENTIFIER.test(name) && name.normalize("NFKC") === name && !isDunder(name);
  return legal && !(keyword && (KEYWORDS.has(name) || name === "__debug__"));
}

/** A qualified name, such as `layers.0.weight`. */
export function isPath(name: string): boolean {
  return isShort(name) && name.split(".").every((part) => part !== "" && !UNPRINTABLE.test(part) && !isDunder(part));
}

/** A name of an operator. */
export function isOperatorName(name: string): boolean {
  return isShort(name) && OPERATOR.test(name);
}

/** A qualified name of a class. */
export function isClassName(name: string): boolean {
  return name !== "" && isShort(name) && !UNPRINTABLE.test(name);
}

/** torch's name of an element type or layout. */
export function isTypeName(name: string): boolean {
  return isShort(name) && IDENTIFIER.test(name);
}
