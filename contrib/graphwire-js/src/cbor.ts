/** The wire format `cbor`: the tokens of the package cborg, with the restrictions of the format. */

import { Tokenizer, Type, type Token } from "cborg";

import { GraphwireError, messageOf } from "./errors.js";
import type { Limits } from "./limits.js";
import { addKey, checkDigits, decodeText, TreeMeter, type Tree, unsignedOf } from "./trees.js";

/** Tag 55799, with which every document begins. */
const SELF_DESCRIBED = Uint8Array.of(0xd9, 0xd9, 0xf7);
const [POSITIVE_BIGNUM, NEGATIVE_BIGNUM] = [2, 3];

/** Returns whether bytes begin as a CBOR document does. */
export function beginsAsCbor(data: Uint8Array): boolean {
  return SELF_DESCRIBED.every((byte, index) => data[index] === byte);
}

/** Reads a CBOR document as a tree. */
export function readCbor(data: Uint8Array, limits: Limits): Tree {
  if (!beginsAsCbor(data)) throw new GraphwireError("document", "a CBOR document begins with tag 55799");
  return new CborReader(data.subarray(SELF_DESCRIBED.length), new TreeMeter(limits)).document();
}

class CborReader {
  private readonly tokens: Tokenizer;

  constructor(
    private readonly data: Uint8Array,
    private readonly meter: TreeMeter,
  ) {
    this.tokens = new Tokenizer(data, {
      allowIndefinite: false,
      allowUndefined: false,
      allowBigInt: true,
      retainStringBytes: true,
    });
  }

  document(): Tree {
    const value = this.value(this.next());
    if (!this.tokens.done()) throw new GraphwireError("document", "bytes follow the document");
    return value;
  }

  private next(): Token {
    if (this.tokens.done()) throw new GraphwireError("document", "the document is truncated");
    try {
      return this.tokens.next();
    } catch (error) {
      throw new GraphwireError("document", `not CBOR: ${messageOf(error)}`, "", { cause: error });
    }
  }

  private value(token: Token): Tree {
    const value: unknown = token.value;
    switch (token.type) {
      case Type.array:
        return this.list(Number(value));
      case Type.map:
        return this.dict(Number(value));
      case Type.uint:
      case Type.negint:
        this.meter.leaf();
        return BigInt(value as number | bigint);
      case Type.float:
        this.meter.leaf();
        return Number(value);
      case Type.string:
        this.meter.leaf();
        return this.text(token);
      case Type.bytes:
        this.meter.leaf();
        return value as Uint8Array;
      case Type.tag:
        this.meter.leaf();
        return this.bignum(Number(value));
      case Type.null:
      case Type.true:
      case Type.false:
        this.meter.leaf();
        return value as null | boolean;
      default:
        throw new GraphwireError("document", "a value of CBOR that documents do not have");
    }
  }

  private text(token: Token): string {
    return token.byteValue === undefined ? String(token.value) : decodeText(token.byteValue);
  }

  private room(count: number): void {
    if (count > this.data.length - this.tokens.pos()) {
      throw new GraphwireError("document", "the document is truncated");
    }
  }

  private list(count: number): Tree {
    this.meter.enter();
    this.room(count);
    const found: Tree[] = [];
    for (let index = 0; index < count; index++) found.push(this.value(this.next()));
    this.meter.leave();
    return found;
  }

  private dict(count: number): Tree {
    this.meter.enter();
    this.room(2 * count);
    const found = new Map<string, Tree>();
    for (let index = 0; index < count; index++) {
      const key = this.value(this.next());
      if (typeof key !== "string") throw new GraphwireError("document", "a key is not text");
      addKey(found, key, this.value(this.next()));
    }
    this.meter.leave();
    return found;
  }

  private bignum(tag: number): bigint {
    if (tag !== POSITIVE_BIGNUM && tag !== NEGATIVE_BIGNUM) {
      throw new GraphwireError("document", `tag ${tag} has no meaning in a document`);
    }
    const token = this.next();
    if (token.type !== Type.bytes) throw new GraphwireError("document", "a bignum that is not bytes");
    const found = unsignedOf(token.value as Uint8Array);
    return checkDigits(tag === POSITIVE_BIGNUM ? found : -1n - found);
  }
}
