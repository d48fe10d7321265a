/** The wire formats of documents, by suffix. */

import { beginsAsCbor, readCbor } from "./cbor.js";
import { GraphwireError } from "./errors.js";
import { readJson } from "./json.js";
import { readMsgpack } from "./msgpack.js";
import type { TreeReader } from "./trees.js";

export interface WireFormat {
  readonly name: string;
  readonly suffix: string;
  readonly read: TreeReader;
  /** Returns whether a document without an archive begins as one of this format. */
  readonly matches: (head: Uint8Array) => boolean;
}

const MAP_HEADS = [0xde, 0xdf];

export const FORMATS: readonly WireFormat[] = [
  {
    name: "json",
    suffix: ".json",
    read: (data, limits) => readJson(data, limits, { wrapped: true, words: true }),
    matches: (head) => {
      const first = head.find((byte) => ![0x20, 0x09, 0x0a, 0x0d].includes(byte));
      return first === 0x7b || first === 0x5b;
    },
  },
  {
    name: "msgpack",
    suffix: ".msgpack",
    read: readMsgpack,
    matches: ([first = 0]) => (first >= 0x81 && first <= 0x8f) || MAP_HEADS.includes(first),
  },
  { name: "cbor", suffix: ".cbor", read: readCbor, matches: beginsAsCbor },
];

/** Returns the format with a suffix, and throws if this reader has none. */
export function formatOf(suffix: string, place: string, provider = ""): WireFormat {
  const found = FORMATS.find((format) => format.suffix === suffix);
  if (found !== undefined) return found;
  const remedy = provider === "" ? "" : `; ${provider} provides it`;
  throw new GraphwireError("unsupported", `the wire format ${suffix} is not supported${remedy}`, place);
}
