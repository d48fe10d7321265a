/** The enumerations of the schema, with their numbers, and what element types are. */

import { enumeration, type Of } from "./types.js";

export const SCALAR_TYPE = enumeration({
  UNKNOWN: 0,
  BYTE: 1,
  CHAR: 2,
  SHORT: 3,
  INT: 4,
  LONG: 5,
  HALF: 6,
  FLOAT: 7,
  DOUBLE: 8,
  COMPLEXHALF: 9,
  COMPLEXFLOAT: 10,
  COMPLEXDOUBLE: 11,
  BOOL: 12,
  BFLOAT16: 13,
  UINT16: 28,
  FLOAT8E4M3FN: 29,
  FLOAT8E5M2: 30,
  FLOAT8E4M3FNUZ: 31,
  FLOAT8E5M2FNUZ: 32,
  FLOAT8E8M0FNU: 33,
  UINT32: 34,
  UINT64: 35,
});
export type ScalarType = Of<typeof SCALAR_TYPE>;

export const LAYOUT = enumeration({
  Unknown: 0,
  SparseCoo: 1,
  SparseCsr: 2,
  SparseCsc: 3,
  SparseBsr: 4,
  SparseBsc: 5,
  _mkldnn: 6,
  Strided: 7,
});
export type Layout = Of<typeof LAYOUT>;

export const MEMORY_FORMAT = enumeration({
  Unknown: 0,
  ContiguousFormat: 1,
  ChannelsLast: 2,
  ChannelsLast3d: 3,
  PreserveFormat: 4,
});
export type MemoryFormat = Of<typeof MEMORY_FORMAT>;

export const ARGUMENT_KIND = enumeration({ UNKNOWN: 0, POSITIONAL: 1, KEYWORD: 2 });
export type ArgumentKind = Of<typeof ARGUMENT_KIND>;

/** The name that torch gives each element type, and the bytes of one element (0 if unknown). */
const DTYPES: Readonly<Record<ScalarType, readonly [name: string, bytes: number]>> = {
  UNKNOWN: ["unknown", 0],
  BYTE: ["uint8", 1],
  CHAR: ["int8", 1],
  SHORT: ["int16", 2],
  INT: ["int32", 4],
  LONG: ["int64", 8],
  HALF: ["float16", 2],
  FLOAT: ["float32", 4],
  DOUBLE: ["float64", 8],
  COMPLEXHALF: ["complex32", 4],
  COMPLEXFLOAT: ["complex64", 8],
  COMPLEXDOUBLE: ["complex128", 16],
  BOOL: ["bool", 1],
  BFLOAT16: ["bfloat16", 2],
  UINT16: ["uint16", 2],
  FLOAT8E4M3FN: ["float8_e4m3fn", 1],
  FLOAT8E5M2: ["float8_e5m2", 1],
  FLOAT8E4M3FNUZ: ["float8_e4m3fnuz", 1],
  FLOAT8E5M2FNUZ: ["float8_e5m2fnuz", 1],
  FLOAT8E8M0FNU: ["float8_e8m0fnu", 1],
  UINT32: ["uint32", 4],
  UINT64: ["uint64", 8],
};

/** The bytes of one element of the types that have a name only (`dtype_name`). */
const NAMED_DTYPES: ReadonlyMap<string, number> = new Map([
  ["float4_e2m1fn_x2", 1],
  ...["quint8", "qint8", "bits8", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2"].map((name) => [name, 1] as const),
  ...[1, 2, 3, 4, 5, 6, 7].flatMap((bits) => [[`int${bits}`, 1], [`uint${bits}`, 1]] as const),
  ["bits16", 2],
  ["qint32", 4],
] as [string, number][]);

const ITEM_SIZES: ReadonlyMap<string, number> = new Map([...Object.values(DTYPES), ...NAMED_DTYPES]);

const NUMBERED: ReadonlyMap<string, ScalarType> = new Map(
  (Object.entries(DTYPES) as [ScalarType, readonly [string, number]][]).map(([type, [name]]) => [name, type]),
);

/** The element type with a name of torch's, such as `FLOAT` for `float32`; undefined if it has no number. */
export function scalarType(dtype: string): ScalarType | undefined {
  return NUMBERED.get(dtype);
}

/** torch's name of an element type, such as `float32`. */
export function dtypeName(meta: { readonly dtype: ScalarType; readonly dtype_name: string | null }): string {
  return meta.dtype_name ?? DTYPES[meta.dtype][0];
}

/** The bytes of one element of a type, by torch's name; 0 if unknown. */
export function itemSize(dtype: string): number {
  return ITEM_SIZES.get(dtype) ?? 0;
}
