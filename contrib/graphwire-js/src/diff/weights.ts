/** Which weights and constants of two programs are the same, by the checksums that their files list. */

import { dtypeName, itemSize } from "../enumerations.js";
import type { PayloadMeta, Program, TensorMeta } from "../schema.js";
import { compareText, targetOf } from "../summary.js";
import { integerOf } from "./facts.js";

/** What was compared of the weights, or of the constants, that both programs have. */
export interface Compared {
  /** How many are the same, by what says so: a kind of checksum, or `shape` for those without elements. */
  readonly same?: ReadonlyMap<string, number>;
  /** Those that differ in type, shape or elements, by name. */
  readonly differ?: ReadonlyMap<string, Readonly<Record<string, number>>>;
  /** The names of the others, by the reason. */
  readonly not_compared?: ReadonlyMap<string, readonly string[]>;
}

/** What a file says about a record without reading it: its size, and its checksums by kind. */
export interface RecordFacts {
  readonly nbytes: number;
  readonly checksums: ReadonlyMap<string, string>;
}

/** A weight or constant of one side; null if it is not read. */
export interface HeldPayload {
  readonly meta: PayloadMeta;
  /** Null if nobody says where its elements are. */
  readonly stored: RecordFacts | null;
}
export type HeldPayloads = ReadonlyMap<string, HeldPayload | null>;

/** Adds to the payloads of a program the names that its signature has and its file does not: they are not read. */
export function withUnread(held: HeldPayloads, kind: "weight" | "constant", { graph_module, encoded_values }: Program): HeldPayloads {
  const named = graph_module.signature.input_specs.flatMap((spec): string[] => {
    const section = spec.variant === "parameter" ? "weight" : spec.variant === "buffer" ? (spec.value.persistent ? "weight" : "constant") : ["tensor_constant", "custom_obj"].includes(spec.variant) ? "constant" : "";
    return section === kind ? [targetOf(spec.value)] : [];
  });
  const absent = [...new Set(named)].filter((name) => !held.has(name) && !encoded_values.has(name)).sort(compareText);
  return new Map([...held, ...absent.map((name) => [name, null] as const)]);
}

/** Compares weights or constants. Returns what was compared, and the texts of checksums that differ, by name. */
export function comparePayloads(a: HeldPayloads, b: HeldPayloads): { compared: Compared | null; texts: Map<string, readonly [string, string]> } {
  const [same, differ, unknown] = [new Map<string, number>(), new Map<string, Readonly<Record<string, number>>>(), new Map<string, string[]>()];
  const texts = new Map<string, readonly [string, string]>();
  for (const [name, one] of a) {
    const other = b.get(name);
    if (other === undefined) continue;
    const { what, says, checksums } = verdictOf(one, other);
    if (what === "same") same.set(says, (same.get(says) ?? 0) + 1);
    else if (what === "differ") differ.set(name, {});
    else unknown.set(says, [...(unknown.get(says) ?? []), name]);
    if (checksums !== undefined) texts.set(name, checksums);
  }
  const compared = {
    ...(same.size > 0 ? { same } : {}),
    ...(differ.size > 0 ? { differ } : {}),
    ...(unknown.size > 0 ? { not_compared: unknown } : {}),
  };
  return { compared: Object.keys(compared).length > 0 ? compared : null, texts };
}

interface Verdict {
  readonly what: "same" | "differ" | "unknown";
  readonly says: string;
  readonly checksums?: readonly [string, string];
}

function verdictOf(a: HeldPayload | null, b: HeldPayload | null): Verdict {
  if (a === null || b === null) return { what: "unknown", says: "not read" };
  if (formOf(a.meta) !== formOf(b.meta)) return { what: "differ", says: "" };
  if (a.meta.placement !== null || b.meta.placement !== null) {
    if (a.meta.placement !== null && b.meta.placement !== null) return { what: "same", says: "shape" };
    return { what: "unknown", says: `no elements in ${b.meta.placement === null ? "A" : "B"}` };
  }
  if (a.meta.tensor_meta?.sizes.some((size) => integerOf(size) === 0n) === true) return { what: "same", says: "shape" };
  const [ours, theirs] = [a.stored?.checksums ?? new Map<string, string>(), b.stored?.checksums ?? new Map<string, string>()];
  const kind = [...ours.keys()].find((each) => theirs.has(each));
  if (kind === undefined) {
    const lacking = [...(ours.size === 0 ? ["A"] : []), ...(theirs.size === 0 ? ["B"] : [])];
    const listed = `A lists ${[...ours.keys()].join(", ")} and B ${[...theirs.keys()].join(", ")}`;
    return { what: "unknown", says: lacking.length > 0 ? `no checksum in ${lacking.join(" and ")}` : listed };
  }
  if (arrangementOf(a.meta) !== arrangementOf(b.meta)) return { what: "unknown", says: "elements in another order" };
  const [one = "", other = ""] = [ours.get(kind), theirs.get(kind)];
  if (one === other && a.stored?.nbytes === b.stored?.nbytes) return { what: "same", says: kind };
  if (fillsItsRecord(a) && fillsItsRecord(b)) {
    return { what: "differ", says: "", checksums: [`${kind} ${one.slice(0, 16)}`, `${kind} ${other.slice(0, 16)}`] };
  }
  return { what: "unknown", says: "only parts of records that differ" };
}

function formOf({ tensor_meta: meta }: PayloadMeta): string {
  if (meta === null) return "";
  return JSON.stringify([dtypeName(meta), meta.layout_name ?? meta.layout, meta.sizes.map((size) => String(integerOf(size)))]);
}

function arrangementOf({ conj, neg, use_pickle, tensor_meta: meta }: PayloadMeta): string {
  return JSON.stringify([conj, neg, use_pickle, meta === null ? null : placeText(meta)]);
}

function placeText({ sizes, strides, storage_offset: offset }: TensorMeta): string[] {
  return [offset, ...strides.filter((_, index) => integerOf(sizes[index]) !== 1n)].map((each) => String(integerOf(each)));
}

/** Whether each byte of its record is one of its elements. */
function fillsItsRecord({ meta: { tensor_meta: meta, use_pickle }, stored }: HeldPayload): boolean {
  const item = meta === null || use_pickle ? 0 : itemSize(dtypeName(meta));
  if (meta === null || item === 0 || stored === null) return false;
  return meta.sizes.reduce((all, size) => all * integerOf(size), BigInt(item)) === BigInt(stored.nbytes);
}
