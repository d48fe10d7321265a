/** Which names a document may have, by their kind. */

import { KEYWORDS } from "../expressions.js";

const RESERVED = new Set(["__debug__", "self", "torch", "pytree", "fx_pytree", "NoneType"]);
const MAX_BYTES = 4096;
// eslint-disable-next-line no-control-regex -- white space is a closed list, and has control characters
const OPERATOR = /^(?:torch(?:\.[A-Za-z_][A-Za-z0-9_]*)*|(?!torch\.)[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*|#[A-Za-z0-9_.]+:[^:"'\\`\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)$/;
const LETTERS =
  "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0180-\u01c3" +
  "\u01cd-\u01f0\u01f4-\u024f\u1e00-\u1e99\u1e9c-\u1eff\u0386\u0388-\u038a\u038c\u038e-\u03a1" +
  "\u03a3-\u03ce\u0400-\u0481\u048a-\u052f\u0531-\u0556\u0561-\u0586\u05d0-\u05ea\u0620-\u064a" +
  "\u0679-\u06d3\u0904-\u0939\u0e01-\u0e30\u0e32\u0e40-\u0e46\u10d0-\u10fa\u1200-\u1248\u3041-\u3096" +
  "\u30a1-\u30fa\u30fc\u3400-\u4db5\u4e00-\u9fbb\uac00-\ud7a3";
const MARKS = "\u0660-\u0669\u0900-\u0903\u093e-\u094d\u0966-\u096f\u0e31\u0e34-\u0e37\u0e50-\u0e59";
// eslint-disable-next-line no-misleading-character-class -- the marks are listed for themselves
const IDENTIFIER = new RegExp(`^[A-Za-z_${LETTERS}][A-Za-z0-9_${LETTERS}${MARKS}]*$`, "u");
/** What objects, classes, functions and modules of Python have themselves. */
const OWN_ATTRIBUTES = new Set(
  `
  __abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __base__ __bases__
  __basicsize__ __call__ __class__ __closure__ __code__ __delattr__ __dict__ __dictoffset__ __dir__ __doc__ __eq__
  __firstlineno__ __flags__ __format__ __func__ __ge__ __getattr__ __getattribute__ __getstate__ __globals__ __gt__
  __hash__ __init__ __init_subclass__ __instancecheck__ __itemsize__ __le__ __lt__ __module__ __mro__ __name__ __ne__
  __new__ __or__ __prepare__ __qualname__ __reduce__ __reduce_ex__ __repr__ __ror__ __self__ __setattr__ __setstate__
  __sizeof__ __slots__ __static_attributes__ __str__ __subclasscheck__ __subclasses__ __subclasshook__
  __text_signature__ __type_params__ __weakref__ __weakrefoffset__ __wrapped__
  `.trim().split(/\s+/),
);

function isShort(name: string): boolean {
  return name.length * 3 <= MAX_BYTES || new TextEncoder().encode(name).length <= MAX_BYTES;
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
  const legal = isShort(name) && IDENTIFIER.test(name) && !isDunder(name);
  return legal && !(keyword && (KEYWORDS.has(name) || name === "__debug__"));
}

/** A qualified name, such as `layers.0.weight`. */
export function isPath(name: string): boolean {
  return isShort(name) && !/["\\]/.test(name) && name.split(".").every((part) => part !== "" && !OWN_ATTRIBUTES.has(part));
}

/** A namespace of operators. */
export function isNamespace(name: string): boolean {
  return isShort(name) && /^[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*$/.test(name);
}

/** A name of an operator. */
export function isOperatorName(name: string): boolean {
  return isShort(name) && OPERATOR.test(name);
}

/** A name of an attribute that a graph reads from its own module, with the number of its parts joined by points. */
export function isOwnPath(path: string): boolean {
  const parts = path.split(".");
  const isPlain = parts.every((part) => !isDunder(part) && !KEYWORDS.has(part) && part !== "__debug__");
  return isPlain && isValueName(path.replaceAll(".", "_"));
}

/** A qualified name of a class. */
export function isClassName(name: string): boolean {
  return name !== "" && isShort(name);
}

/** torch's name of an element type or layout. */
export function isTypeName(name: string): boolean {
  return isShort(name) && IDENTIFIER.test(name);
}
