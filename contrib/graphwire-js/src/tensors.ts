/** The elements of tensors, as bytes and as typed arrays. */

import { dtypeName, dtypeOf } from "./enumerations.js";
import { GraphwireError } from "./errors.js";
import type { PayloadMeta, SymInt, TensorMeta } from "./schema.js";

const MAX_DIMENSIONS = 64;
const MAX_ELEMENTS = 1n << 59n;

/** The place of a tensor's elements in its record. */
export interface TensorPlace {
  readonly dtype: string;
  readonly itemSize: number;
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
  readonly count: number;
  /** The bytes of the record that the tensor needs. */
  readonly needs: number;
}

function known(value: SymInt, what: string, place: string): bigint {
  if (value.variant !== "as_int" || value.value < 0n) throw new GraphwireError("document", `${what} is not a size`, place);
  return value.value;
}

/** Returns where the elements of a tensor are in its record, and throws if its description is not that of a strided tensor. */
export function placeOf(meta: TensorMeta, place: string): TensorPlace {
  const dtype = dtypeName(meta);
  const itemSize = dtypeOf(dtype)?.bytes ?? 0;
  if (itemSize === 0) throw new GraphwireError("unsupported", `the size of the element type ${dtype} is not known`, place);
  if (meta.layout !== "Strided" || meta.layout_name !== null) {
    throw new GraphwireError("document", "a payload's layout is not Strided", place);
  }
  const sizes = meta.sizes.map((size) => known(size, "a size", place));
  const strides = meta.strides.map((stride) => known(stride, "a stride", place));
  const offset = known(meta.storage_offset, "the offset", place);
  const product = sizes.reduce((all, size) => all * (size === 0n ? 1n : size), 1n);
  const reach = sizes.reduce((sum, size, index) => sum + (size > 1n ? (size - 1n) * (strides[index] ?? 0n) : 0n), offset);
  if (strides.length !== sizes.length || sizes.length > MAX_DIMENSIONS || product > MAX_ELEMENTS || reach >= MAX_ELEMENTS) {
    throw new GraphwireError("document", "sizes, strides and offset do not describe a tensor", place);
  }
  const empty = sizes.includes(0n);
  return {
    dtype,
    itemSize,
    sizes: sizes.map(Number),
    strides: strides.map(Number),
    offset: Number(offset),
    count: empty ? 0 : Number(product),
    needs: empty ? 0 : Number(reach + 1n) * itemSize,
  };
}

/** Returns the elements of a payload, contiguous in row-major order and little-endian, given the bytes of its record. */
export function elementsOf(payload: PayloadMeta, storage: Uint8Array, place: string, bigEndian = false): Uint8Array {
  if (payload.use_pickle || payload.tensor_meta === null) {
    throw new GraphwireError("unsupported", "the payload is pickled, which is not read because reading it would run code", place);
  }
  const where = placeOf(payload.tensor_meta, place);
  if (where.needs > storage.length) throw new GraphwireError("missing", "the record is too short for the tensor", place);
  const found = gather(where, storage);
  const { kind = "raw", numbers = 1 } = dtypeOf(where.dtype) ?? {};
  if (bigEndian) swap(found, where.itemSize / numbers);
  if (payload.conj || payload.neg) {
    if (kind !== "float" || (payload.conj && numbers === 1)) {
      throw new GraphwireError("unsupported", `a pending conjugation or negation of ${where.dtype} is not supported`, place);
    }
    negate(found, where.itemSize / numbers, (index) => payload.neg !== (payload.conj && index % 2 === 1));
  }
  return found;
}

function gather({ itemSize, sizes, strides, offset, count }: TensorPlace, storage: Uint8Array): Uint8Array {
  const found = new Uint8Array(count * itemSize);
  if (count === 0) return found;
  // The trailing dimensions that are contiguous in the record are copied at once.
  let run = itemSize;
  let outer = sizes.length;
  while (outer > 0 && (sizes[outer - 1] === 1 || (strides[outer - 1] ?? 0) * itemSize === run)) {
    outer -= 1;
    run *= sizes[outer] ?? 1;
  }
  const index = new Array<number>(outer).fill(0);
  let from = offset;
  for (let at = 0; at < found.length; at += run) {
    found.set(storage.subarray(from * itemSize, from * itemSize + run), at);
    for (let dimension = outer - 1; dimension >= 0; dimension--) {
      const next = (index[dimension] ?? 0) + 1;
      from += strides[dimension] ?? 0;
      if (next < (sizes[dimension] ?? 0)) {
        index[dimension] = next;
        break;
      }
      from -= next * (strides[dimension] ?? 0);
      index[dimension] = 0;
    }
  }
  return found;
}

function swap(bytes: Uint8Array, size: number): void {
  if (size > 1) for (let at = 0; at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
}

function negate(bytes: Uint8Array, size: number, chosen: (index: number) => boolean): void {
  for (let at = size - 1, index = 0; at < bytes.length; at += size, index++) {
    if (chosen(index)) bytes[at] = (bytes[at] ?? 0) ^ 0x80;
  }
}

export type TypedArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** The elements of a tensor in row-major order. */
export interface TensorData {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** A complex number is two numbers, its real part and its imaginary part. */
  readonly data: TypedArray;
  /**
   * How `data` represents the elements: `exact` (the type that JavaScript has), `converted` (float16, bfloat16 and the types of
   * 8 bits as float32, which keeps every value), or `raw` (the bytes of types without a number in JavaScript).
   */
  readonly form: "exact" | "converted" | "raw";
}

type ArrayOf = new (buffer: ArrayBuffer, offset: number, length: number) => TypedArray;

const EXACT: Readonly<Record<string, ArrayOf>> = {
  int1: Int8Array, int2: Int16Array, int4: Int32Array, int8: BigInt64Array,
  uint1: Uint8Array, uint2: Uint16Array, uint4: Uint32Array, uint8: BigUint64Array,
  float4: Float32Array, float8: Float64Array, bool1: Uint8Array, raw1: Uint8Array,
};

/** Returns contiguous little-endian elements as a typed array. */
export function typedArray(elements: Uint8Array, dtype: string, shape: readonly number[]): TensorData {
  const { bytes = 1, kind = "raw", numbers = 1 } = dtypeOf(dtype) ?? {};
  const size = bytes / numbers;
  const small = kind === "float" ? FLOATS[dtype] : undefined;
  if (small !== undefined) return { dtype, shape, data: convert(elements, small), form: "converted" };
  const raw = kind === "raw";
  const type = EXACT[raw ? "raw1" : `${kind}${size}`] ?? Uint8Array;
  const copy = elements.slice(); // aligned, and independent of the record
  if (size > 1 && !raw && !isLittleEndian()) swap(copy, size);
  return { dtype, shape, data: new type(copy.buffer, 0, raw ? copy.length : copy.length / size), form: raw ? "raw" : "exact" };
}

function isLittleEndian(): boolean {
  return new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
}

/** The layout of the bits of a float that JavaScript lacks. */
interface FloatBits {
  readonly exponent: number;
  readonly fraction: number;
  readonly bias: number;
  /** Which bits are special: as in IEEE 754, NaN only if all are set (`fn`), or NaN only for the sign alone (`fnuz`). */
  readonly special: "ieee" | "fn" | "fnuz";
}

const FLOATS: Readonly<Record<string, FloatBits>> = {
  float16: { exponent: 5, fraction: 10, bias: 15, special: "ieee" },
  complex32: { exponent: 5, fraction: 10, bias: 15, special: "ieee" },
  bfloat16: { exponent: 8, fraction: 7, bias: 127, special: "ieee" },
  float8_e4m3fn: { exponent: 4, fraction: 3, bias: 7, special: "fn" },
  float8_e5m2: { exponent: 5, fraction: 2, bias: 15, special: "ieee" },
  float8_e4m3fnuz: { exponent: 4, fraction: 3, bias: 8, special: "fnuz" },
  float8_e5m2fnuz: { exponent: 5, fraction: 2, bias: 16, special: "fnuz" },
  float8_e8m0fnu: { exponent: 8, fraction: 0, bias: 127, special: "fn" },
};

function convert(elements: Uint8Array, bits: FloatBits): Float32Array {
  const width = bits.exponent + bits.fraction > 8 ? 2 : 1;
  const table = Float32Array.from({ length: width === 1 ? 256 : 65536 }, (_, code) => floatValue(code, bits));
  return Float32Array.from({ length: elements.length / width }, (_, index) => {
    const low = elements[index * width] ?? 0;
    return table[width === 1 ? low : low | ((elements[index * 2 + 1] ?? 0) << 8)] ?? NaN;
  });
}

function floatValue(code: number, { exponent, fraction, bias, special }: FloatBits): number {
  if (fraction === 0) return code === 0xff ? NaN : 2 ** (code - bias); // float8_e8m0fnu has no sign and no zero
  const top = (1 << exponent) - 1;
  const sign = code >> (exponent + fraction) === 0 ? 1 : -1;
  const power = (code >> fraction) & top;
  const part = code & ((1 << fraction) - 1);
  if (special === "ieee" && power === top) return part === 0 ? sign * Infinity : NaN;
  if (special === "fn" && power === top && part === (1 << fraction) - 1) return NaN;
  if (special === "fnuz" && sign < 0 && power === 0 && part === 0) return NaN;
  return power === 0 ? sign * part * 2 ** (1 - bias - fraction) : sign * (1 + part / 2 ** fraction) * 2 ** (power - bias);
}
