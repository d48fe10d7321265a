/**
 * The wire format `msgpack`.
 *
 * A reader of its own, because the packages for MessagePack return a float such as 1.0 and the integer 1 as the same number.
 */

import { GraphwireError } from "./errors.js";
import type { Limits } from "./limits.js";
import { addKey, checkDigits, decodeText, TreeMeter, type Tree, unsignedOf } from "./trees.js";

/** The extension type of integers beyond 64 bits: big-endian two's complement. */
const BIG_INTEGER = 1;

/** Reads a MessagePack document as a tree. */
export function readMsgpack(data: Uint8Array, limits: Limits): Tree {
  const reader = new MsgpackReader(data, new TreeMeter(limits));
  return reader.document();
}

class MsgpackReader {
  private at = 0;
  private readonly view: DataView;

  constructor(
    private readonly data: Uint8Array,
    private readonly meter: TreeMeter,
  ) {
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  document(): Tree {
    const value = this.value();
    if (this.at !== this.data.length) throw new GraphwireError("document", "bytes follow the document");
    return value;
  }

  /** Goes past `count` bytes, and returns where they begin. */
  private skip(count: number): number {
    const start = this.at;
    if (count > this.data.length - start) throw new GraphwireError("document", "the document is truncated");
    this.at += count;
    return start;
  }

  private unsigned(bytes: 1 | 2 | 4): number {
    const at = this.skip(bytes);
    return bytes === 1 ? this.view.getUint8(at) : bytes === 2 ? this.view.getUint16(at) : this.view.getUint32(at);
  }

  private bytes(count: number): Uint8Array {
    const start = this.skip(count);
    return this.data.subarray(start, start + count);
  }

  private text(count: number): string {
    this.meter.leaf();
    return decodeText(this.bytes(count));
  }

  private list(count: number): Tree {
    this.meter.enter();
    if (count > this.data.length - this.at) throw new GraphwireError("document", "the document is truncated");
    const found: Tree[] = [];
    for (let index = 0; index < count; index++) found.push(this.value());
    this.meter.leave();
    return found;
  }

  private dict(count: number): Tree {
    this.meter.enter();
    if (count > (this.data.length - this.at) / 2) throw new GraphwireError("document", "the document is truncated");
    const found = new Map<string, Tree>();
    for (let index = 0; index < count; index++) {
      const key = this.value();
      if (typeof key !== "string") throw new GraphwireError("document", "a key is not text");
      addKey(found, key, this.value());
    }
    this.meter.leave();
    return found;
  }

  private extension(count: number): bigint {
    const type = this.view.getInt8(this.skip(1));
    if (type !== BIG_INTEGER) throw new GraphwireError("document", `the extension type ${type} has no meaning`);
    if (count === 0) throw new GraphwireError("document", "an integer without bytes");
    const value = checkDigits(BigInt.asIntN(8 * count, unsignedOf(this.bytes(count))));
    const small = value >= -(1n << 63n) && value < 1n << 64n;
    // graphwire writes -2⁷¹, -2⁷⁹ … with one byte more than they need.
    const needless = BigInt.asIntN(8 * (count - 1), value) === value && -value !== 1n << BigInt(8 * count - 9);
    if (small || needless) {
      throw new GraphwireError("document", "an integer of extension type 1 is small, or has needless bytes");
    }
    return value;
  }

  private value(): Tree {
    const head = this.unsigned(1);
    if (head >= 0x80 && head <= 0x8f) return this.dict(head & 15);
    if (head >= 0x90 && head <= 0x9f) return this.list(head & 15);
    if (head >= 0xa0 && head <= 0xbf) return this.text(head & 31);
    switch (head) {
      case 0xd9:
        return this.text(this.unsigned(1));
      case 0xda:
        return this.text(this.unsigned(2));
      case 0xdb:
        return this.text(this.unsigned(4));
      case 0xdc:
        return this.list(this.unsigned(2));
      case 0xdd:
        return this.list(this.unsigned(4));
      case 0xde:
        return this.dict(this.unsigned(2));
      case 0xdf:
        return this.dict(this.unsigned(4));
      default:
        this.meter.leaf();
        return this.leaf(head);
    }
  }

  private leaf(head: number): Tree {
    if (head < 0x80) return BigInt(head);
    if (head >= 0xe0) return BigInt(head - 0x100);
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return this.bytes(this.unsigned(1));
      case 0xc5:
        return this.bytes(this.unsigned(2));
      case 0xc6:
        return this.bytes(this.unsigned(4));
      case 0xc7:
        return this.extension(this.unsigned(1));
      case 0xc8:
        return this.extension(this.unsigned(2));
      case 0xc9:
        return this.extension(this.unsigned(4));
      case 0xca:
        return this.view.getFloat32(this.skip(4));
      case 0xcb:
        return this.view.getFloat64(this.skip(8));
      case 0xcc:
        return BigInt(this.unsigned(1));
      case 0xcd:
        return BigInt(this.unsigned(2));
      case 0xce:
        return BigInt(this.unsigned(4));
      case 0xcf:
        return this.view.getBigUint64(this.skip(8));
      case 0xd0:
        return BigInt(this.view.getInt8(this.skip(1)));
      case 0xd1:
        return BigInt(this.view.getInt16(this.skip(2)));
      case 0xd2:
        return BigInt(this.view.getInt32(this.skip(4)));
      case 0xd3:
        return this.view.getBigInt64(this.skip(8));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.extension(1 << (head - 0xd4));
      default:
        throw new GraphwireError("document", `the byte 0x${head.toString(16)} begins no value`);
    }
  }
}
