/** Weights outside of a file: records made of regions of tensors in stores, which the caller lets this reader open. */

import { sha256Bytes, toHex } from "./checksums.js";
import { itemSize } from "./enumerations.js";
import { GraphwireError } from "./errors.js";
import { jsonOf } from "./json.js";
import { DEFAULT_LIMITS } from "./limits.js";
import type { RecordReference, Region, StoreReference, WeightReferences } from "./schema.js";
import type { ByteSource } from "./source.js";
import type { Tree, TreeMap } from "./trees.js";

/** Opens a file that references name, relative to the folder of the program's file; null if there is none. */
export type Resolver = (location: string) => Promise<ByteSource | null>;

const MAX_DIMENSIONS = 64;
const MAX_INDEX = 1n << 59n;
const MAX_RECORD = 1n << 62n;
const MAX_HEADER = 100_000_000;
export const CHUNK = 1 << 24;
const DIGEST = /^(?:[0-9a-f]{64})?$/;
const RESERVED = /^(con|prn|aux|nul|com[1-9]|lpt[1-9])$/;

/** Throws unless a text is a plain location: names with `/` between them that no system takes for anything else. */
export function checkLocation(location: string): void {
  const plain = (name: string): boolean =>
    name !== "" &&
    name !== "." &&
    name !== ".." &&
    new TextEncoder().encode(name).length <= 255 &&
    !/[\\:*?"<>|]|[^\P{C} ]|[^\P{Z} ]/u.test(name) &&
    !/[. ]$/.test(name) &&
    !RESERVED.test((name.split(".")[0] ?? "").toLowerCase());
  if (location.length > 4096 || location.includes("://") || !location.split("/").every(plain)) {
    throw new GraphwireError("weights", `${JSON.stringify(location)} is not a plain location`, "data/weights/references.json");
  }
}

function refuse(message: string, place: string): never {
  throw new GraphwireError("weights", message, place);
}

/** Checks references as far as they alone tell. */
export function checkReferences(references: WeightReferences): void {
  for (const { kind, location, folder, files } of references.stores) {
    if (!/^[a-z][a-z0-9_]*$/.test(kind)) refuse(`${JSON.stringify(kind)} is not a kind of store`, "data/weights/references.json");
    for (const [name, facts] of files) {
      if (facts.nbytes < 0n || facts.nbytes > MAX_RECORD || !DIGEST.test(facts.index_sha256)) refuse("a wrong size or digest", name);
    }
    for (const each of [location, folder ?? "", ...files.keys()]) if (each !== "") checkLocation(each);
  }
  for (const table of [references.records, ...references.ranks]) {
    for (const [name, reference] of table) {
      checkLocation(name);
      if (!name.startsWith("data/weights/") || name === "data/weights/references.json") refuse("no record of weights", name);
      checkReference(reference, references.stores.length, name);
    }
  }
  const shapes = references.ranks.map((rank) => Array.from(rank, ([name, { nbytes }]) => `${name}\n${nbytes}`).sort().join("\n"));
  if (new Set(shapes).size > 1) refuse("the ranks have different records", "data/weights/references.json");
}

function checkReference({ nbytes, regions, sha256 }: RecordReference, stores: number, place: string): void {
  if (nbytes < 0n || nbytes > MAX_RECORD) refuse("a size out of range", place);
  if (!DIGEST.test(sha256)) refuse("a digest that is none", place);
  let total = 0n;
  const dense: [bigint, bigint][] = [];
  for (const region of regions) {
    const [bytes, first, end] = extentOf(region, stores, place);
    if (bytes > 0n && end > nbytes) refuse("a region beyond the record", place);
    total += bytes;
    if (end - first === bytes && bytes > 0n) dense.push([first, end]);
  }
  if (regions.length > 0 && total !== nbytes) refuse("regions that do not cover the record", place);
  dense.sort(([a], [b]) => (a < b ? -1 : 1));
  if (dense.some(([first], index) => first < (dense[index - 1]?.[1] ?? 0n))) refuse("regions that overlap", place);
}

interface Axis {
  readonly first: bigint;
  readonly count: bigint;
  readonly step: bigint;
  readonly stride: bigint;
}

/** Returns the dimensions of a region's box, with their strides in the record. */
function axesOf({ shape, box, strides }: Region, place: string): Axis[] {
  if (shape.length > MAX_DIMENSIONS || shape.some((size) => size < 0n)) refuse("a shape out of range", place);
  if (shape.reduce((all, size) => all * (size === 0n ? 1n : size), 1n) > MAX_INDEX) refuse("a shape out of range", place);
  if ((box ?? shape).length !== shape.length || (strides ?? shape).length !== shape.length) refuse("a box of another shape", place);
  let contiguous = 1n;
  const found = shape.map((size, index): Axis => {
    const [first = 0n, count = size, step = 1n, ...more] = box?.[index] ?? [0n, size, 1n];
    const wrong = first < 0n || count < 0n || step < 1n || more.length > 0 || (box !== null && box[index]?.length !== 3);
    if (wrong || (count > 0n && first + (count - 1n) * step >= size) || first > size) refuse("a box beyond its tensor", place);
    return { first, count, step, stride: strides?.[index] ?? 0n };
  });
  for (let index = found.length - 1; index >= 0 && strides === null; index--) {
    const axis = found[index] as Axis;
    found[index] = { ...axis, stride: contiguous };
    contiguous *= axis.count;
  }
  if (found.some(({ stride, count }) => stride < 0n || stride > MAX_INDEX || (stride === 0n && count > 1n))) {
    refuse("a stride out of range", place);
  }
  return found;
}

/** Returns the bytes of a region, and where the first begins and the last ends in the record. */
function extentOf(region: Region, stores: number, place: string): readonly [bytes: bigint, first: bigint, end: bigint] {
  const item = BigInt(itemSize(region.dtype));
  if (item === 0n) refuse(`the unknown element type ${region.dtype}`, place);
  if (region.store < 0n || region.store >= BigInt(stores)) refuse("a store that is not there", place);
  if (region.offset < 0n || region.offset > MAX_INDEX) refuse("an offset out of range", place);
  const axes = axesOf(region, place);
  const count = axes.reduce((all, axis) => all * axis.count, 1n);
  const reach = axes.reduce((sum, axis) => sum + (axis.count > 1n ? (axis.count - 1n) * axis.stride : 0n), region.offset);
  return [count * item, region.offset * item, count === 0n ? region.offset * item : (reach + 1n) * item];
}

// --------------------------------------------------------------------------------------------------------------- reading

/** A stored tensor: where its elements are, row-major and little-endian. */
interface Stored {
  readonly source: ByteSource;
  readonly offset: number;
  readonly dtype: string;
  readonly shape: readonly bigint[];
}

/** Finds the tensors of a store by name. */
type OpenStore = (name: string) => Promise<Stored>;

/** The opened stores of a file's references. */
export class Stores {
  private readonly opened = new Map<number, Promise<OpenStore>>();

  constructor(
    private readonly references: WeightReferences,
    private readonly resolve: Resolver,
  ) {}

  /** Reads a record from the stores, and compares it with its digest. */
  async read(name: string): Promise<Uint8Array> {
    const reference = this.references.records.get(name);
    if (reference === undefined) throw new GraphwireError("missing", "the file has no such record", name);
    if (reference.nbytes > BigInt(Number.MAX_SAFE_INTEGER)) throw new GraphwireError("limit", "the record is too large", name);
    if (reference.nbytes > 0n && reference.regions.length === 0) {
      throw new GraphwireError("missing", "the weights were not written; whoever loads the file gives them", name);
    }
    const found = new Uint8Array(Number(reference.nbytes));
    for (const region of reference.regions) await this.copy(region, found, name);
    if (reference.sha256 !== "" && digestOf(found) !== reference.sha256) {
      throw new GraphwireError("weights", "the weights differ from their digest", name);
    }
    return found;
  }

  private async copy(region: Region, record: Uint8Array, place: string): Promise<void> {
    const stored = await (await this.store(Number(region.store)))(region.tensor);
    const same = stored.shape.length === region.shape.length && stored.shape.every((size, index) => size === region.shape[index]);
    if (stored.dtype !== region.dtype || !same) {
      throw new GraphwireError("weights", `the stored tensor ${region.tensor} has another type or shape`, place);
    }
    const item = itemSize(region.dtype);
    const bytes = Number(region.shape.reduce((all, size) => all * size, 1n)) * item;
    if (bytes > stored.source.size - stored.offset) throw new GraphwireError("missing", "the store is too short", place);
    const tensor = await stored.source.read(stored.offset, bytes);
    scatter(axesOf(region, place), region, tensor, record, item);
  }

  private store(index: number): Promise<OpenStore> {
    const known = this.opened.get(index);
    if (known !== undefined) return known;
    const made = this.open(this.references.stores[index] as StoreReference);
    this.opened.set(index, made);
    return made;
  }

  private async open(store: StoreReference): Promise<OpenStore> {
    const open = KINDS.get(store.kind);
    if (open === undefined) {
      const provider = this.references.providers.get(store.kind)?.distribution;
      const remedy = provider === undefined ? "" : `; ${provider} provides it`;
      throw new GraphwireError("unsupported", `the store ${store.kind} is not supported${remedy}`, "data/weights/references.json");
    }
    if (store.folder === null) throw new GraphwireError("missing", "whoever loads the file gives the place of its weights");
    const folder = store.folder === "" ? "" : `${store.folder}/`;
    const file = async (location: string): Promise<ByteSource> => {
      checkLocation(`${folder}${location}`);
      const found = await this.resolve(`${folder}${location}`);
      if (found === null) throw new GraphwireError("missing", `there is no file ${folder}${location} with weights`);
      const facts = store.files.get(location);
      if (facts !== undefined && BigInt(found.size) !== facts.nbytes) {
        throw new GraphwireError("weights", `${folder}${location} has another size than when the file was written`);
      }
      return found;
    };
    for (const location of store.files.keys()) await file(location);
    return open(store, file);
  }
}

function scatter(axes: readonly Axis[], region: Region, tensor: Uint8Array, record: Uint8Array, item: number): void {
  const plain = axes.map(({ first, count, step, stride }) => [first, count, step, stride].map(Number) as [number, number, number, number]);
  const pitches = region.shape.map((_, index) => Number(region.shape.slice(index + 1).reduce((all, size) => all * size, 1n)));
  const walk = (dimension: number, from: number, to: number): void => {
    const axis = plain[dimension];
    if (axis === undefined) {
      record.set(tensor.subarray(from * item, (from + 1) * item), to * item);
      return;
    }
    const [first, count, step, stride] = axis;
    const pitch = pitches[dimension] ?? 1;
    if (dimension === plain.length - 1 && step === 1 && stride === 1) {
      record.set(tensor.subarray((from + first) * item, (from + first + count) * item), to * item);
      return;
    }
    for (let index = 0; index < count; index++) walk(dimension + 1, from + (first + index * step) * pitch, to + index * stride);
  };
  walk(0, 0, Number(region.offset));
}

/** The digest of a record: its SHA-256, or of more than 16 MiB that of the digests of its chunks. */
function digestOf(bytes: Uint8Array): string {
  if (bytes.length <= CHUNK) return toHex(sha256Bytes(bytes));
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += CHUNK) chunks.push(sha256Bytes(bytes.subarray(at, at + CHUNK)));
  return toHex(sha256Bytes(...chunks));
}

// ----------------------------------------------------------------------------------------------------------------- kinds

type OpenFile = (location: string) => Promise<ByteSource>;

const KINDS: ReadonlyMap<string, (store: StoreReference, file: OpenFile) => Promise<OpenStore>> = new Map([
  ["safetensors", openSafetensors],
  ["blobs", openBlobs],
]);

const SAFETENSORS: ReadonlyMap<string, string> = new Map(Object.entries({
  U64: "uint64", I64: "int64", F64: "float64", C64: "complex64", F32: "float32", U32: "uint32", I32: "int32", BF16: "bfloat16",
  F16: "float16", U16: "uint16", I16: "int16", F8_E5M2FNUZ: "float8_e5m2fnuz", F8_E4M3FNUZ: "float8_e4m3fnuz",
  F8_E8M0: "float8_e8m0fnu", F8_E4M3: "float8_e4m3fn", F8_E5M2: "float8_e5m2", I8: "int8", U8: "uint8", F4: "float4_e2m1fn_x2",
  BOOL: "bool",
}));
const INDEX_SUFFIX = ".safetensors.index.json";

async function openSafetensors(store: StoreReference, file: OpenFile): Promise<OpenStore> {
  const headers = new Map<string, Promise<ReadonlyMap<string, Stored>>>();
  const header = (location: string): Promise<ReadonlyMap<string, Stored>> => {
    const known = headers.get(location) ?? file(location).then((source) => readSafetensors(source, store, location));
    headers.set(location, known);
    return known;
  };
  const index = store.location.endsWith(INDEX_SUFFIX) ? await readIndex(await file(store.location), store.location) : null;
  for (const [name, location] of index ?? []) {
    if (!(await header(location)).has(name)) refuse(`${location} lacks the tensor ${JSON.stringify(name)}`, store.location);
  }
  return async (name) => {
    const location = index === null ? store.location : index.get(name);
    const found = location === undefined ? undefined : (await header(location)).get(name);
    if (found === undefined) throw new GraphwireError("missing", `the store has no tensor ${JSON.stringify(name)}`, store.location);
    return found;
  };
}

function mapOf(tree: Tree | undefined, place: string): TreeMap {
  return tree instanceof Map ? (tree as TreeMap) : refuse("not a JSON object", place);
}

async function readIndex(source: ByteSource, location: string): Promise<Map<string, string>> {
  if (source.size > MAX_HEADER) refuse("the index is too large", location);
  const tree = mapOf(jsonOf(await source.read(0, source.size), location, DEFAULT_LIMITS, "weights"), location);
  const folder = location.slice(0, location.lastIndexOf("/") + 1);
  return new Map(
    Array.from(mapOf(tree.get("weight_map"), location), ([name, file]) => {
      if (typeof file !== "string") return refuse("a file that is not text", location);
      return [name, `${folder}${file}`] as const;
    }),
  );
}

async function readSafetensors(source: ByteSource, store: StoreReference, location: string): Promise<Map<string, Stored>> {
  const head = source.size < 8 ? refuse("not a safetensors file", location) : await source.read(0, 8);
  const length = new DataView(head.buffer, head.byteOffset, 8).getBigUint64(0, true);
  if (length > BigInt(Math.min(MAX_HEADER, source.size - 8))) refuse("a header beyond the end of the file", location);
  const bytes = await source.read(0, 8 + Number(length));
  const facts = store.files.get(location);
  if (facts !== undefined && toHex(sha256Bytes(bytes)) !== facts.index_sha256) {
    throw new GraphwireError("weights", "the tensors are not those that the file was written for", location);
  }
  const found = new Map<string, Stored>();
  const ranges: (readonly [number, number])[] = [];
  for (const [name, entry] of mapOf(jsonOf(bytes.subarray(8), location, DEFAULT_LIMITS, "weights"), location)) {
    if (name === "__metadata__") {
      const texts = entry === null ? [] : [...mapOf(entry, location).values()];
      if (!texts.every((text) => typeof text === "string")) refuse("metadata that are no texts", location);
      continue;
    }
    const [stored, begin, end] = storedTensor(mapOf(entry, location), source, bytes.length, location);
    found.set(name, stored);
    ranges.push([begin, end]);
  }
  let reached = 0;
  for (const [begin, end] of ranges.sort(([a, c], [b, d]) => a - b || c - d)) {
    if (begin !== reached) refuse("ranges that overlap or leave a gap", location);
    reached = end;
  }
  if (bytes.length + reached !== source.size) refuse("ranges that do not end with the file", location);
  return found;
}

function storedTensor(entry: TreeMap, source: ByteSource, start: number, location: string): readonly [Stored, number, number] {
  const type = entry.get("dtype");
  const dtype = typeof type === "string" ? SAFETENSORS.get(type) : undefined;
  const integers = (tree: Tree | undefined): bigint[] => {
    const items = Array.isArray(tree) ? (tree as readonly Tree[]) : refuse("not a list", location);
    return items.map((item) => (typeof item === "bigint" && item >= 0n && item < 1n << 63n ? item : refuse("no size", location)));
  };
  const sizes = integers(entry.get("shape"));
  const [begin, end, ...more] = integers(entry.get("data_offsets"));
  if (begin === undefined || end === undefined || more.length > 0) return refuse("offsets that are not two", location);
  if (dtype === undefined) return refuse("a tensor of an unknown type", location);
  if (sizes.reduce((all, size) => all * (size === 0n ? 1n : size), 1n) >= 1n << 63n) refuse("a shape out of range", location);
  if (dtype === "float4_e2m1fn_x2" && (sizes.at(-1) ?? 1n) % 2n === 1n) refuse("numbers that are no pairs", location);
  const shape = dtype === "float4_e2m1fn_x2" ? sizes.map((size, index) => (index === sizes.length - 1 ? size / 2n : size)) : sizes;
  const bytes = shape.reduce((all, size) => all * size, 1n) * BigInt(itemSize(dtype));
  if (end - begin !== bytes || end > BigInt(source.size - start)) refuse("a range of another length than its tensor", location);
  return [{ source, offset: start + Number(begin), dtype, shape }, Number(begin), Number(end)];
}

async function openBlobs(store: StoreReference, file: OpenFile): Promise<OpenStore> {
  const folder = store.location === "" ? "" : `${store.location}/`;
  const marker = await file(`${folder}blobs.json`);
  const facts = mapOf(jsonOf(await marker.read(0, Math.min(marker.size, MAX_HEADER)), "blobs.json", DEFAULT_LIMITS, "weights"), "blobs.json");
  if (facts.get("format") !== "graphwire-blobs" || facts.get("version") !== 1n || facts.size !== 2) refuse("another version of blobs", "blobs.json");
  return async (name) => {
    if (!/^[0-9a-f]{64}$/.test(name)) refuse("a blob that has no digest as its name", name);
    const source = await file(`${folder}${name.slice(0, 2)}/${name.slice(2)}`);
    return { source, offset: 0, dtype: "uint8", shape: [BigInt(source.size)] };
  };
}
