/** Weights: the parameters, buffers and constants of a program, with their sizes and where they are. */

import { dtypeName, itemSize, targetOf, type GraphwireFile, type Kind, type PayloadMeta, type Payloads, type Program, type TensorMeta } from "graphwire-js";

import { within, withoutCall, type Item } from "./items.js";
import { sizesText } from "./values.js";

export interface Weight {
  readonly name: string;
  readonly role: "parameter" | "buffer" | "constant" | "object";
  readonly dtype: string;
  readonly shape: string;
  readonly elements: number;
  readonly bytes: number;
  /** Where the elements are: `in the file`, and so on. */
  readonly where: string;
  /** Identifies the storage: tied weights have the same one. */
  readonly storage: string;
  /** The first weight in the same storage; empty if it is the first itself. */
  readonly tiedTo: string;
  /** The other weights in the same storage. */
  readonly shares: readonly string[];
  /** The name of its value in the graph; empty if the graph does not use it. */
  readonly value: string;
}

const PLACES: Readonly<Record<string, string>> = {
  file: "in the file",
  store: "beside the file",
  ranks: "differs by rank",
  caller: "given by the caller",
  nowhere: "nowhere: it has no elements",
};

const ROLES = { parameter: "parameter", buffer: "buffer", tensor_constant: "constant", custom_obj: "object" } as const;

/** Returns the weights of a method's program: those that its graph has as inputs, then the rest of the file. */
export async function weightsOf(method: string, program: Program, payloads: Payloads | null, file: GraphwireFile): Promise<Weight[]> {
  const { graph, signature } = program.graph_module;
  const found = new Map<string, Omit<Weight, "shares" | "tiedTo">>();
  for (const spec of signature.input_specs) {
    if (spec.variant === "user_input" || spec.variant === "constant_input" || spec.variant === "token") continue;
    const name = targetOf(spec.value);
    const value = spec.value.arg.name;
    const meta = graph.tensor_values.get(value);
    found.set(name, { ...sizesOf(meta ?? null), name, role: ROLES[spec.variant], where: "", storage: name, value });
  }
  for (const kind of ["weights", "constants"] as const) {
    for (const [name, payload] of payloads?.[kind] ?? []) {
      const known = found.get(name);
      const role = known?.role ?? (payload.is_param ? "parameter" : kind === "constants" ? "constant" : "buffer");
      const sizes = payload.tensor_meta === null ? (known ?? sizesOf(null)) : sizesOf(payload.tensor_meta);
      const { dtype, shape, elements, bytes } = sizes;
      const where = PLACES[await placeOf(file, kind, payload, method)] ?? "";
      const storage = `${kind}/${payload.path_name}`;
      found.set(name, { name, role, dtype, shape, elements, bytes, where, storage, value: known?.value ?? "" });
    }
  }
  const sharing = new Map<string, string[]>();
  for (const { name, storage } of found.values()) sharing.set(storage, [...(sharing.get(storage) ?? []), name]);
  return [...found.values()].map((weight) => {
    const [first = "", ...rest] = sharing.get(weight.storage) ?? [];
    return { ...weight, tiedTo: first === weight.name ? "" : first, shares: [first, ...rest].filter((name) => name !== weight.name) };
  });
}

/** The file may lack elements that its tables describe: a page has none. */
async function placeOf(file: GraphwireFile, kind: Kind, payload: PayloadMeta, method: string): Promise<string> {
  try {
    return await file.whereIs(kind, payload, method);
  } catch {
    return "";
  }
}

function sizesOf(meta: TensorMeta | null): Pick<Weight, "dtype" | "shape" | "elements" | "bytes"> {
  if (meta === null) return { dtype: "", shape: "", elements: 0, bytes: 0 };
  const elements = meta.sizes.reduce((product, size) => product * (size.variant === "as_int" ? Number(size.value) : 0), 1);
  const dtype = dtypeName(meta);
  return { dtype, shape: sizesText(meta.sizes), elements, bytes: elements * itemSize(dtype) };
}

/** Returns the bytes of some weights by their storages. */
function storagesOf(weights: readonly Weight[]): Map<string, number> {
  const storages = new Map<string, number>();
  for (const { storage, bytes } of weights) storages.set(storage, Math.max(bytes, storages.get(storage) ?? 0));
  return storages;
}

/** Returns the bytes of some weights; a storage that several of them share counts once. */
export function storedBytes(weights: readonly Weight[]): number {
  return total(storagesOf(weights));
}

function total(storages: ReadonlyMap<string, number>): number {
  return [...storages.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** Gives an item storages, and their bytes. */
export function holdStorages(item: Item, storages: ReadonlyMap<string, number>): void {
  item.storages = storages;
  item.bytes = total(storages);
}

/** Gives each module the bytes of the weights whose names begin with its own, and says with which one it shares them all. */
export function addBytes(root: Item, weights: readonly Weight[]): void {
  const held = new Map<string, Weight[]>();
  for (const weight of weights) {
    const parts = weight.name.split(".");
    for (let count = 0; count < parts.length; count++) {
      const prefix = parts.slice(0, count).join(".");
      const known = held.get(prefix);
      if (known === undefined) held.set(prefix, [weight]);
      else known.push(weight);
    }
  }
  const bytes = new Map(weights.map((weight) => [weight.name, weight.bytes]));
  const storages = new Map<string, ReadonlyMap<string, number>>();
  const owners = new Map<string, Item>();
  for (const item of within(root)) {
    if (item.kind === "weight") item.bytes = bytes.get(item.name) ?? 0;
    if (item.kind === "program") holdStorages(item, storagesOf(weights));
    if (item.kind !== "module") continue;
    const name = withoutCall(item.name);
    const known = storages.get(name) ?? storagesOf(held.get(name) ?? []);
    storages.set(name, known);
    holdStorages(item, known);
    if (item.bytes === 0) continue;
    const key = [...known.keys()].sort().join("\n");
    const first = owners.get(key);
    const isInside = first === undefined || name.startsWith(`${withoutCall(first.name)}.`); // that holds nothing else
    if (isInside) owners.set(key, item);
    else if (withoutCall(first.name) !== name) item.sharesWith = first;
  }
}
