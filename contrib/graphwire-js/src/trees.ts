/**
 * Trees: what a document consists of in every wire format.
 *
 * An integer is a `bigint`, a float a `number`, so that 1 and 1.0 differ and no integer loses digits. A dict is a `Map`, which
 * keeps the order of keys such as "10" and has no special key `__proto__`.
 */

import { GraphwireError } from "./errors.js";
import type { Limits } from "./limits.js";

export type Tree = null | boolean | bigint | number | string | Uint8Array | readonly Tree[] | TreeMap;
export type TreeMap = ReadonlyMap<string, Tree>;

/** Reads the bytes of a document in one wire format. */
export type TreeReader = (data: Uint8Array, limits: Limits) => Tree;

/** The digits of the longest integer that a document may contain. */
export const MAX_DIGITS = 4300;
const MAX_INTEGER_BYTES = 1786; // of 4,300 digits
const TOO_LARGE = 10n ** BigInt(MAX_DIGITS);

/** Returns the unsigned integer that bytes are, the most significant first. */
export function unsignedOf(bytes: Uint8Array): bigint {
  if (bytes.length > MAX_INTEGER_BYTES) throw tooLong();
  let found = 0n;
  for (const byte of bytes) found = (found << 8n) | BigInt(byte);
  return found;
}

/** Returns an integer, if a document may contain it. */
export function checkDigits(value: bigint): bigint {
  if (value >= TOO_LARGE || value <= -TOO_LARGE) throw tooLong();
  return value;
}

function tooLong(): GraphwireError {
  return new GraphwireError("limit", `an integer has more than ${MAX_DIGITS} digits`);
}

/** Counts the containers, values and depth of one document, and throws beyond the limits. */
export class TreeMeter {
  private containers = 0;
  private nodes = 0;
  private depth = 0;

  constructor(private readonly limits: Limits) {}

  /** Counts a value that contains no other. */
  leaf(): void {
    if (++this.nodes > this.limits.treeNodes) {
      throw new GraphwireError("limit", `the document has more than ${this.limits.treeNodes} values`);
    }
  }

  /** Counts a list or dict, and goes into it. */
  enter(): void {
    this.leaf();
    if (++this.containers > this.limits.containers) {
      throw new GraphwireError("limit", `the document has more than ${this.limits.containers} lists and dicts`);
    }
    if (++this.depth > this.limits.treeDepth) {
      throw new GraphwireError("limit", `lists and dicts are nested more than ${this.limits.treeDepth} deep`);
    }
  }

  leave(): void {
    this.depth -= 1;
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8 text, and throws if the bytes are not. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new GraphwireError("document", "text is not UTF-8", "", { cause: error });
  }
}

/** Adds a key to a dict under construction, and throws if it has the key. */
export function addKey(found: Map<string, Tree>, key: string, value: Tree): void {
  const before = found.size;
  found.set(key, value);
  if (found.size === before) {
    throw new GraphwireError("document", `the key ${JSON.stringify(key)} occurs twice in a dict`);
  }
}
