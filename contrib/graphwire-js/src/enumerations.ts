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

/** What an element consists of: one or two numbers, or bytes without a type in JavaScript. */
export type NumberKind = "int" | "uint" | "float" | "bool" | "raw";

interface Dtype {
  readonly name: string;
  readonly bytes: number;
  readonly kind: NumberKind;
  /** How many numbers of this kind an element has: 2 for complex ones. */
  readonly numbers: 1 | 2;
}

function dtype(name: string, bytes: number, kind: NumberKind, numbers: 1 | 2 = 1): Dtype {
  return { name, bytes, kind, numbers };
}

const DTYPES: Readonly<Record<ScalarType, Dtype>> = {
  UNKNOWN: dtype("unknown", 0, "raw"),
  BYTE: dtype("uint8", 1, "uint"),
  CHAR: dtype("int8", 1, "int"),
  SHORT: dtype("int16", 2, "int"),
  INT: dtype("int32", 4, "int"),
  LONG: dtype("int64", 8, "int"),
  HALF: dtype("float16", 2, "float"),
  FLOAT: dtype("float32", 4, "float"),
  DOUBLE: dtype("float64", 8, "float"),
  COMPLEXHALF: dtype("complex32", 4, "float", 2),
  COMPLEXFLOAT: dtype("complex64", 8, "float", 2),
  COMPLEXDOUBLE: dtype("complex128", 16, "float", 2),
  BOOL: dtype("bool", 1, "bool"),
  BFLOAT16: dtype("bfloat16", 2, "float"),
  UINT16: dtype("uint16", 2, "uint"),
  FLOAT8E4M3FN: dtype("float8_e4m3fn", 1, "float"),
  FLOAT8E5M2: dtype("float8_e5m2", 1, "float"),
  FLOAT8E4M3FNUZ: dtype("float8_e4m3fnuz", 1, "float"),
  FLOAT8E5M2FNUZ: dtype("float8_e5m2fnuz", 1, "float"),
  FLOAT8E8M0FNU: dtype("float8_e8m0fnu", 1, "float"),
  UINT32: dtype("uint32", 4, "uint"),
  UINT64: dtype("uint64", 8, "uint"),
};

/** The element types that have a name only (`dtype_name`), by the bytes of an element. */
const NAMED_DTYPES: readonly (readonly [bytes: number, names: string])[] = [
  [1, "float4_e2m1fn_x2 qint8 quint8 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8"],
  [1, "int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7"],
  [2, "bits16"],
  [4, "qint32"],
];

const BY_NAME: ReadonlyMap<string, Dtype> = new Map([
  ...Object.values(DTYPES).map((each) => [each.name, each] as const),
  ...NAMED_DTYPES.flatMap(([bytes, names]) => names.split(" ").map((name) => [name, dtype(name, bytes, "raw")] as const)),
]);

const NUMBERED: ReadonlyMap<string, ScalarType> = new Map(
  (Object.entries(DTYPES) as [ScalarType, Dtype][]).map(([type, { name }]) => [name, type]),
);

/** The element type with a name of torch's, such as `FLOAT` for `float32`; undefined if it has no number. */
export function scalarType(name: string): ScalarType | undefined {
  return NUMBERED.get(name);
}

/** torch's name of an element type, such as `float32`. */
export function dtypeName(meta: { readonly dtype: ScalarType; readonly dtype_name: string | null }): string {
  return meta.dtype_name ?? DTYPES[meta.dtype].name;
}

/** The element type with a name of torch's; undefined if it is not known. */
export function dtypeOf(name: string): Dtype | undefined {
  return BY_NAME.get(name);
}

/** The bytes of one element of a type, by torch's name; 0 if unknown. */
export function itemSize(name: string): number {
  return BY_NAME.get(name)?.bytes ?? 0;
}
