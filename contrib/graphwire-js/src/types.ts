/**
 * Types of the values of a document. Each type reads a value from a tree, and prints it as neutral JSON.
 *
 * The table of records in `schema.ts` consists of these types, so that a record's fields are listed once.
 */

import { toHex } from "./checksums.js";
import { GraphwireError } from "./errors.js";
import type { Tree, TreeMap } from "./trees.js";

/** A value of neutral JSON, which has neither numbers nor null. */
export type Neutral = boolean | string | readonly Neutral[] | { readonly [key: string]: Neutral };

/** A type of values: how a tree contains one, and how neutral JSON prints it. */
export interface Type<T> {
  read(tree: Tree): T;
  neutral(value: T): Neutral;
}

/** The type that a descriptor describes. */
export type Of<D> = D extends Type<infer T> ? T : never;

export const NONE: Neutral = { none: true };

// ------------------------------------------------------------------------------------------------------------- faults

/** A fault in a document, with the steps from the document to it. */
class Fault extends Error {
  readonly steps: string[] = [];
}

/** Returns an error to throw again, with the step to where it happened. Readers make steps only then: making all of them takes longer than reading. */
function after(step: string, error: unknown): Error {
  if (error instanceof Fault) error.steps.unshift(step);
  return error as Error;
}

/** Reads a tree as a type, and throws a `GraphwireError` with the place of the first fault. */
export function readAs<T>(type: Type<T>, tree: Tree, place: string): T {
  try {
    return type.read(tree);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const where = error.steps.join("").replace(/^\./, "");
    throw new GraphwireError("document", error.message, where === "" ? place : `${place}: ${where}`);
  }
}

function kindOf(tree: Tree): string {
  if (tree === null) return "None";
  if (typeof tree === "boolean") return "a truth value";
  if (typeof tree === "bigint") return "an integer";
  if (typeof tree === "number") return "a float";
  if (typeof tree === "string") return "text";
  if (tree instanceof Uint8Array) return "bytes";
  return tree instanceof Map ? "a dict" : "a list";
}

function wrong(expected: string, tree: Tree): Fault {
  return new Fault(`${expected} is expected, not ${kindOf(tree)}`);
}

/** Throws the fault of a value that has the right form and a wrong content. */
export function faulty(message: string): never {
  throw new Fault(message);
}

function isMap(tree: Tree): tree is TreeMap {
  return tree instanceof Map;
}

function isList(tree: Tree): tree is readonly Tree[] {
  return Array.isArray(tree);
}

// -------------------------------------------------------------------------------------------------------------- leaves

export const integer: Type<bigint> = {
  read(tree) {
    if (typeof tree !== "bigint") throw wrong("an integer", tree);
    return tree;
  },
  neutral: (value) => ({ int: value.toString() }),
};

export const text: Type<string> = {
  read(tree) {
    if (typeof tree !== "string") throw wrong("text", tree);
    return tree;
  },
  neutral: (value) => value,
};

export const truth: Type<boolean> = {
  read(tree) {
    if (typeof tree !== "boolean") throw wrong("a truth value", tree);
    return tree;
  },
  neutral: (value) => value,
};

const SPELLED: ReadonlyMap<Tree, number> = new Map([
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
  ["NaN", NaN],
]);

/** A float, which a document may also contain as an integer or as one of three texts. */
export const float: Type<number> = {
  read(tree) {
    if (typeof tree === "number") return tree;
    if (typeof tree === "bigint" && Number.isFinite(Number(tree))) return Number(tree);
    const value = SPELLED.get(tree);
    if (value === undefined) throw wrong("a float", tree);
    return value;
  },
  neutral: (value) => ({ float: floatText(value) }),
};

/** The hexadecimal text of a float, as C prints it. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  if (!Number.isFinite(value)) return `${sign}inf`;
  if (value === 0) return `${sign}0x0p+0`;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(value));
  const bits = view.getBigUint64(0);
  let exponent = Number(bits >> 52n) - 1023;
  let fraction = bits & ((1n << 52n) - 1n);
  if (exponent === -1023) {
    exponent = -1022;
    while (fraction >> 52n === 0n) {
      fraction <<= 1n;
      exponent -= 1;
    }
    fraction &= (1n << 52n) - 1n;
  }
  const digits = fraction.toString(16).padStart(13, "0").replace(/0+$/, "");
  return `${sign}0x1${digits === "" ? "" : "."}${digits}p${exponent < 0 ? "-" : "+"}${Math.abs(exponent)}`;
}

/** A tree as it is, with tags. */
export const tree: Type<Tree> = {
  read: (value) => value,
  neutral: taggedTree,
};

/** Prints a tree as neutral JSON. */
export function taggedTree(value: Tree): Neutral {
  if (value === null) return NONE;
  if (typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "bigint") return integer.neutral(value);
  if (typeof value === "number") return float.neutral(value);
  if (value instanceof Uint8Array) return { bytes: toHex(value) };
  if (isList(value)) return value.map(taggedTree);
  return { dict: Array.from(value, ([key, each]) => [key, taggedTree(each)]) };
}

/** An enumeration type, with its numbers. */
export interface EnumerationType<N extends string> extends Type<N> {
  numberOf(name: N): bigint;
}

/** A member of an enumeration: a number in the document, a name for programs. */
export function enumeration<N extends string>(members: Readonly<Record<N, number>>): EnumerationType<N> {
  const names = new Map((Object.entries(members) as [N, number][]).map(([name, number]) => [BigInt(number), name]));
  return {
    read(value) {
      const name = names.get(integer.read(value));
      if (name === undefined) throw new Fault(`${integer.read(value)} is not a member of the enumeration`);
      return name;
    },
    neutral: (name) => name,
    numberOf: (name) => BigInt(members[name]),
  };
}

/** The content of a variant without content: a truth value without meaning, which is read as true. */
export const present: Type<true> = {
  read(value) {
    truth.read(value);
    return true;
  },
  neutral: () => true,
};

/** One of several texts. */
export function oneOf<N extends string>(...members: readonly N[]): Type<N> {
  return {
    read(value) {
      const found = members.find((member) => member === value);
      if (found === undefined) throw new Fault(`one of ${members.join(", ")} is expected`);
      return found;
    },
    neutral: (value) => value,
  };
}

// ---------------------------------------------------------------------------------------------------------- containers

export function list<T>(item: Type<T>): Type<readonly T[]> {
  return {
    read(value) {
      if (!isList(value)) throw wrong("a list", value);
      let index = 0;
      try {
        const found: T[] = [];
        for (; index < value.length; index++) found.push(item.read(value[index] as Tree));
        return found;
      } catch (error) {
        throw after(`[${index}]`, error);
      }
    },
    neutral: (values) => values.map((each) => item.neutral(each)),
  };
}

export function dict<T>(item: Type<T>, key: (text: string) => Neutral = (name) => name): Type<ReadonlyMap<string, T>> {
  return {
    read(value) {
      if (!isMap(value)) throw wrong("a dict", value);
      const found = new Map<string, T>();
      for (const [name, each] of value) {
        try {
          found.set(name, item.read(each));
        } catch (error) {
          throw after(`[${JSON.stringify(name)}]`, error);
        }
      }
      return found;
    },
    neutral: (values) => ({ dict: Array.from(values, ([name, each]) => [key(name), item.neutral(each)]) }),
  };
}

export function nullable<T>(item: Type<T>): Type<T | null> {
  return {
    read: (value) => (value === null ? null : item.read(value)),
    neutral: (value) => (value === null ? NONE : item.neutral(value)),
  };
}

/** A type that is defined later, because it contains itself. */
export function later<T>(type: () => Type<T>): Type<T> {
  return {
    read: (value) => type().read(value),
    neutral: (value) => type().neutral(value),
  };
}

/** One of two types, by the form of the tree. */
export function textOr<T>(other: Type<T>): Type<string | T> {
  return {
    read: (value) => (typeof value === "string" ? value : other.read(value)),
    neutral: (value) => (typeof value === "string" ? value : other.neutral(value)),
  };
}

// ------------------------------------------------------------------------------------------------------------- records

/** A field of a record. */
export interface Field<T> {
  readonly type: Type<T>;
  /** The value of an absent field; without it, the field is required. */
  readonly fallback?: T;
  /** Whether neutral JSON prints the field among those that a reader may ignore. */
  readonly ignorable: boolean;
  /** Whether neutral JSON prints the field also if it is None. */
  readonly always: boolean;
}

/** A field that a record must have. */
export function required<T>(type: Type<T>): Field<T> {
  return { type, ignorable: false, always: false };
}

/** A field that has a value if it is absent. */
export function optional<T>(type: Type<T>, fallback: T): Field<T> {
  return { type, fallback, ignorable: false, always: false };
}

/** A field that is None if it is absent. */
export function orNone<T>(type: Type<T>): Field<T | null> {
  return optional<T | null>(nullable(type), null);
}

/** A field that a reader may ignore. */
export function ignorable<T>(field: Field<T>): Field<T> {
  return { ...field, ignorable: true };
}

/** A field that is printed even if it is None. */
export function always<T>(field: Field<T>): Field<T> {
  return { ...field, always: true };
}

type Fields<R> = { readonly [K in keyof R]: Field<R[K]> };

/** A record type, with its table of fields. */
export interface RecordType<R> extends Type<R> {
  readonly fields: ReadonlyMap<string, Field<unknown>>;
}

export function record<R>(fields: Fields<R>): RecordType<R> {
  const rows = new Map(Object.entries<Field<unknown>>(fields));
  return {
    fields: rows,
    read(value) {
      if (!isMap(value)) throw wrong("a dict", value);
      const found: Record<string, unknown> = {};
      for (const [name, field] of rows) {
        const given = value.get(name);
        if (given === undefined) {
          if (!("fallback" in field)) throw new Fault(`the field ${name} is absent`);
          found[name] = field.fallback;
          continue;
        }
        try {
          found[name] = field.type.read(given);
        } catch (error) {
          throw after(`.${name}`, error);
        }
      }
      return found as R;
    },
    neutral(values) {
      const found: Record<string, Neutral> = {};
      const ignored: Record<string, Neutral> = {};
      for (const [name, field] of rows) {
        const value = (values as Record<string, unknown>)[name];
        if ((value === null || isFallback(value, field)) && !field.always) continue;
        (field.ignorable ? ignored : found)[name] = field.type.neutral(value);
      }
      return Object.keys(ignored).length > 0 ? { ...found, optional: ignored } : found;
    },
  };
}

function isFallback(value: unknown, field: Field<unknown>): boolean {
  if (!("fallback" in field)) return false;
  const { fallback } = field;
  if (Array.isArray(fallback)) return Array.isArray(value) && value.length === 0 && fallback.length === 0;
  if (fallback instanceof Map) return value instanceof Map && value.size === 0;
  return value === fallback;
}

/** A value of a union: the variant, and what it contains. */
export type Union<A> = { readonly [K in keyof A]: { readonly variant: K; readonly value: A[K] } }[keyof A];

/** A union type, with its table of variants. */
export interface UnionType<A> extends Type<Union<A>> {
  readonly variants: ReadonlyMap<string, Type<unknown>>;
}

export function union<A>(variants: { readonly [K in keyof A]: Type<A[K]> }): UnionType<A> {
  const rows = new Map(Object.entries<Type<unknown>>(variants));
  const rowOf = (variant: string): Type<unknown> => rows.get(variant) ?? faulty(`the union has no variant ${JSON.stringify(variant)}`);
  return {
    variants: rows,
    read(value) {
      if (!isMap(value)) throw wrong("a dict", value);
      let set: { readonly variant: string; readonly row: Type<unknown>; readonly content: Tree } | null = null;
      let count = 0;
      for (const [variant, content] of value) {
        const row = rowOf(variant);
        if (content === null) continue;
        set = { variant, row, content };
        count += 1;
      }
      if (set === null || count > 1) throw new Fault("a union has exactly one variant");
      try {
        return { variant: set.variant, value: set.row.read(set.content) } as Union<A>;
      } catch (error) {
        throw after(`.${set.variant}`, error);
      }
    },
    neutral(value) {
      const variant = value.variant as string;
      return { [variant]: rowOf(variant).neutral(value.value) };
    },
  };
}
