/** Content trees: what counts of a program, with exactly one sequence of bytes for each tree. */

import { blake2b16 } from "../checksums.js";

/** A tree of the content hash. Unlike a document, it is compared and sorted by its bytes. */
export type Content = null | boolean | bigint | number | string | Uint8Array | readonly Content[] | ContentDict;
export interface ContentDict {
  readonly [key: string]: Content;
}

const encoder = new TextEncoder();
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Returns the bytes of text; a lone surrogate has its three-byte form. */
export function textBytes(text: string): Uint8Array {
  if (!LONE_SURROGATE.test(text)) return encoder.encode(text);
  return Uint8Array.from(
    Array.from(text).flatMap((character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code < 0xd800 || code > 0xdfff) return [...encoder.encode(character)];
      return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)];
    }),
  );
}

/** Compares byte strings, byte by byte. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const difference = (a[index] ?? 0) - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Returns whether two trees have the same bytes. */
export function sameContent(a: Content, b: Content): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b)) return false;
    const [ones, others] = [a as readonly Content[], b as readonly Content[]];
    return ones.length === others.length && ones.every((one, index) => sameContent(one, others[index] as Content));
  }
  return compareBytes(contentBytes(a), contentBytes(b)) === 0;
}

/** Returns BLAKE2b, with 16 bytes, of parts that are each preceded by their length. */
export function digest(...parts: readonly (Uint8Array | string)[]): Uint8Array {
  const bytes = parts.map((part) => (typeof part === "string" ? textBytes(part) : part));
  const whole = new Uint8Array(bytes.reduce((sum, part) => sum + 8 + part.length, 0));
  const view = new DataView(whole.buffer);
  let at = 0;
  for (const part of bytes) {
    view.setBigUint64(at, BigInt(part.length), true);
    whole.set(part, at + 8);
    at += 8 + part.length;
  }
  return blake2b16(whole);
}

/** Returns the bytes of a content tree: MessagePack with the shortest heads and sorted keys. */
export function contentBytes(content: Content): Uint8Array {
  const writer = new Writer();
  writer.write(content);
  return writer.bytes();
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0x7f) return false;
  return true;
}

/** Compares texts by their bytes. */
function compareKeys(a: string, b: string): number {
  if (isAscii(a) && isAscii(b)) return a < b ? -1 : a > b ? 1 : 0;
  return compareBytes(textBytes(a), textBytes(b));
}

class Writer {
  private buffer = new Uint8Array(256);
  private view = new DataView(this.buffer.buffer);
  private at = 0;

  bytes(): Uint8Array {
    return this.buffer.slice(0, this.at);
  }

  /** Makes room for more bytes, and returns where they begin. */
  private room(count: number): number {
    const start = this.at;
    this.at += count;
    if (this.at > this.buffer.length) {
      const larger = new Uint8Array(Math.max(this.at, 2 * this.buffer.length));
      larger.set(this.buffer);
      this.buffer = larger;
      this.view = new DataView(larger.buffer);
    }
    return start;
  }

  private byte(value: number): void {
    const at = this.room(1);
    this.view.setUint8(at, value);
  }

  private raw(bytes: Uint8Array): void {
    const at = this.room(bytes.length);
    this.buffer.set(bytes, at);
  }

  /** Writes a head with a length: in the head itself below `small`, else in 1 (if there is such a head), 2 or 4 bytes. */
  private head(length: number, fixed: number, small: number, heads: readonly [number | null, number, number]): void {
    if (length < small) this.byte(fixed | length);
    else if (length < 0x100 && heads[0] !== null) this.sized(heads[0], 1, BigInt(length));
    else if (length < 0x10000) this.sized(heads[1], 2, BigInt(length));
    else this.sized(heads[2], 4, BigInt(length));
  }

  private sized(head: number, bytes: 1 | 2 | 4 | 8, value: bigint): void {
    this.byte(head);
    for (let shift = 8 * (bytes - 1); shift >= 0; shift -= 8) this.byte(Number((value >> BigInt(shift)) & 255n));
  }

  write(content: Content): void {
    if (content === null) this.byte(0xc0);
    else if (typeof content === "boolean") this.byte(content ? 0xc3 : 0xc2);
    else if (typeof content === "bigint") this.integer(content);
    else if (typeof content === "number") this.float(content);
    else if (typeof content === "string") this.text(content);
    else if (content instanceof Uint8Array) this.binary(content);
    else if (Array.isArray(content)) this.list(content as readonly Content[]);
    else this.dict(content as ContentDict);
  }

  private integer(value: bigint): void {
    const small = Number(value);
    if (small >= -32 && small < 0x80) this.byte(small & 0xff);
    else if (value >= 0n) {
      if (value < 1n << 8n) this.sized(0xcc, 1, value);
      else if (value < 1n << 16n) this.sized(0xcd, 2, value);
      else if (value < 1n << 32n) this.sized(0xce, 4, value);
      else if (value < 1n << 64n) this.sized(0xcf, 8, value);
      else this.list(["integer", value.toString(16)]);
    } else if (value >= -(1n << 7n)) this.sized(0xd0, 1, value);
    else if (value >= -(1n << 15n)) this.sized(0xd1, 2, value);
    else if (value >= -(1n << 31n)) this.sized(0xd2, 4, value);
    else if (value >= -(1n << 63n)) this.sized(0xd3, 8, value);
    else this.list(["integer", value.toString(16)]);
  }

  private float(value: number): void {
    this.byte(0xcb);
    const at = this.room(8);
    this.view.setFloat64(at, value);
    if (Number.isNaN(value)) this.view.setBigUint64(at, 0x7ff8000000000000n);
  }

  private text(value: string): void {
    if (isAscii(value)) {
      this.head(value.length, 0xa0, 32, [0xd9, 0xda, 0xdb]);
      const at = this.room(value.length);
      for (let index = 0; index < value.length; index++) this.buffer[at + index] = value.charCodeAt(index);
      return;
    }
    const bytes = textBytes(value);
    if (LONE_SURROGATE.test(value)) {
      this.binary(bytes);
      return;
    }
    this.head(bytes.length, 0xa0, 32, [0xd9, 0xda, 0xdb]);
    this.raw(bytes);
  }

  private binary(bytes: Uint8Array): void {
    this.head(bytes.length, 0, 0, [0xc4, 0xc5, 0xc6]);
    this.raw(bytes);
  }

  private list(items: readonly Content[]): void {
    this.head(items.length, 0x90, 16, [null, 0xdc, 0xdd]);
    for (const item of items) this.write(item);
  }

  private dict(dict: ContentDict): void {
    const rows = Object.entries(dict);
    this.head(rows.length, 0x80, 16, [null, 0xde, 0xdf]);
    for (const [key, value] of rows.sort(([a], [b]) => compareKeys(a, b))) {
      this.text(key);
      this.write(value);
    }
  }
}
