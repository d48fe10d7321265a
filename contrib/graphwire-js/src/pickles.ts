/**
 * Data in pickles of `torch.save`, for files of torch 2.6 to 2.8, whose weights are pickled.
 *
 * The reader runs no code: it builds plain values and descriptions of tensors, and refuses every name that is not in its table.
 */

import { openArchive, type Archive, type ArchiveRecord } from "./archive.js";
import { itemSize, scalarType } from "./enumerations.js";
import { GraphwireError } from "./errors.js";
import type { Limits } from "./limits.js";
import type { PayloadMeta, SymInt } from "./schema.js";
import { bufferSource } from "./source.js";
import { decodeText } from "./trees.js";

/** A tensor in a pickle. */
export interface PickledTensor {
  readonly kind: "tensor";
  /** torch's name of the element type. */
  readonly dtype: string;
  readonly sizes: readonly bigint[];
  readonly strides: readonly bigint[];
  readonly offset: bigint;
  readonly requiresGrad: boolean;
  readonly isParameter: boolean;
  /** The record with the storage's bytes. */
  readonly storage: string;
  /** The bytes of the storage, as the pickle states them. */
  readonly nbytes: bigint;
  readonly device: string;
  readonly conj: boolean;
  readonly neg: boolean;
}

/** A tensor that is not strided, such as a sparse one. */
export interface OpaqueTensor {
  readonly kind: "opaque";
  readonly layout: string;
  readonly sizes: readonly bigint[];
  readonly parts: readonly PickleValue[];
}

export type PickleValue =
  | null
  | boolean
  | bigint
  | number
  | string
  | Uint8Array
  | PickleValue[]
  | Tuple
  | Map<PickleValue, PickleValue>
  | Global
  | Storage
  | PickledTensor
  | OpaqueTensor;

export class Tuple {
  constructor(readonly items: readonly PickleValue[]) {}
}
export class Global {
  constructor(readonly name: string) {}
}
export class Storage {
  constructor(
    readonly dtype: string,
    readonly record: string,
    readonly device: string,
    /** How many elements it has, or bytes if it has no type. */
    readonly count: bigint,
  ) {}
}

const MAX_STEPS = 4_000_000;
const MAX_BYTES = 256 << 20;
const MAX_DEPTH = 400;
/** How many values a pickle may have, shared ones counted each time. */
const MAX_VALUES = 1 << 22;

const STORAGES: Readonly<Record<string, string>> = {
  ByteStorage: "uint8", CharStorage: "int8", ShortStorage: "int16", IntStorage: "int32", LongStorage: "int64",
  HalfStorage: "float16", FloatStorage: "float32", DoubleStorage: "float64", BoolStorage: "bool", BFloat16Storage: "bfloat16",
  ComplexFloatStorage: "complex64", ComplexDoubleStorage: "complex128", UntypedStorage: "",
};

function refuse(what: string): never {
  throw new GraphwireError("unsupported", what);
}

/** The error for a name that a pickle contains and this reader does not run. */
export class UnknownNameError extends GraphwireError {
  constructor(readonly unknown: string) {
    super("unsupported", `the pickle names '${unknown}', which is not read because reading it would run code`);
  }
}

type Call = (args: readonly PickleValue[]) => PickleValue;

function numbers(value: PickleValue | undefined): bigint[] {
  if (!(value instanceof Tuple)) return refuse("a tensor without sizes");
  return value.items.map((item) => (typeof item === "bigint" ? item : refuse("a size that is not an integer")));
}

function tensorOf(args: readonly PickleValue[], dtype?: PickleValue): PickledTensor {
  const [storage, offset, sizes, strides, grad] = args;
  const noted = args[dtype === undefined ? 6 : 7];
  const isNoted = (key: string): boolean => noted instanceof Map && noted.get(key) === true;
  if (!(storage instanceof Storage) || typeof offset !== "bigint") return refuse("a tensor without a storage");
  const named = dtype instanceof Global ? dtype.name.replace("torch.", "") : storage.dtype;
  return {
    kind: "tensor",
    dtype: named,
    sizes: numbers(sizes),
    strides: numbers(strides),
    offset,
    requiresGrad: grad === true,
    isParameter: false,
    storage: storage.record,
    nbytes: storage.count * BigInt(storage.dtype === "" ? 1 : itemSize(storage.dtype)),
    device: storage.device,
    conj: isNoted("conj"),
    neg: isNoted("neg"),
  };
}

function isTensor(value: PickleValue | undefined): value is PickledTensor | OpaqueTensor {
  return typeof value === "object" && value !== null && "kind" in value;
}

function parameterOf([data, grad]: readonly PickleValue[]): PickleValue {
  if (!isTensor(data)) return refuse("a parameter without a tensor");
  return data.kind === "tensor" ? { ...data, isParameter: true, requiresGrad: grad === true } : data;
}

function sparseOf([layout, data]: readonly PickleValue[]): PickleValue {
  if (!(data instanceof Tuple)) return refuse("a sparse tensor without data");
  const sizes = data.items.findLast((item) => item instanceof Tuple);
  return { kind: "opaque", layout: layout instanceof Global ? layout.name : "", sizes: numbers(sizes), parts: data.items };
}

/** What the functions that a pickle may name stand for. */
const CALLS: ReadonlyMap<string, Call> = new Map<string, Call>([
  ["collections.OrderedDict", ([items]) => dictOf(items)],
  ["torch._utils._rebuild_tensor_v2", (args) => tensorOf(args)],
  ["torch._utils._rebuild_tensor_v3", (args) => tensorOf(args, args[6])],
  ["torch._utils._rebuild_parameter", parameterOf],
  ["torch._utils._rebuild_parameter_with_state", parameterOf],
  ["torch._utils._rebuild_sparse_tensor", sparseOf],
  ["torch._tensor._rebuild_from_type_v2", ([, , args]) => (args instanceof Tuple ? tensorOf(args.items) : refuse("no tensor"))],
  ["torch.serialization._get_layout", ([name]) => (typeof name === "string" ? new Global(name) : refuse("no layout"))],
  ["torch.Size", ([items]) => (items instanceof Tuple ? items : new Tuple(Array.isArray(items) ? items : []))],
  ["torch.device", (args) => new Tuple(args)],
]);
const NAMES = /^torch\.(\w+Storage|storage\.\w+Storage|float\w*|bfloat16|u?int\d+|bool|complex\d+|Tensor|nn\.parameter\.Parameter)$/;

function dictOf(items: PickleValue | undefined): Map<PickleValue, PickleValue> {
  const found = new Map<PickleValue, PickleValue>();
  if (Array.isArray(items)) {
    for (const item of items) {
      const [key, value] = item instanceof Tuple ? item.items : Array.isArray(item) ? item : [];
      found.set(key ?? null, value ?? null);
    }
  }
  return found;
}

const MARK = Symbol("mark");
type Slot = PickleValue | typeof MARK;

/** Reads the value of a pickle of protocol 2 to 5. */
function readPickle(data: Uint8Array): PickleValue {
  if (data.length > MAX_BYTES) throw new GraphwireError("limit", "the pickle is too large");
  const value = new PickleReader(data).run();
  checkSize(value);
  return value;
}

class PickleReader {
  private at = 0;
  private readonly stack: Slot[] = [];
  private readonly memo = new Map<number, PickleValue>();
  private readonly view: DataView;

  constructor(private readonly data: Uint8Array) {
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  run(): PickleValue {
    for (let step = 0; step < MAX_STEPS; step++) {
      const opcode = this.unsigned(1);
      if (opcode === 0x2e) return this.pop();
      const run = OPCODES.get(opcode) ?? refuse(`the pickle has the unsupported opcode 0x${opcode.toString(16)}`);
      run(this);
    }
    throw new GraphwireError("limit", "the pickle has too many steps");
  }

  bytes(count: number): Uint8Array {
    if (count > this.data.length - this.at) refuse("the pickle is truncated");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  unsigned(count: 1 | 2 | 4): number {
    this.bytes(count);
    const at = this.at - count;
    return count === 1 ? this.view.getUint8(at) : count === 2 ? this.view.getUint16(at, true) : this.view.getUint32(at, true);
  }

  long(): number {
    this.bytes(8);
    return Number(this.view.getBigUint64(this.at - 8, true));
  }

  int32(): bigint {
    this.bytes(4);
    return BigInt(this.view.getInt32(this.at - 4, true));
  }

  double(): number {
    this.bytes(8);
    return this.view.getFloat64(this.at - 8);
  }

  integer(count: number): bigint {
    let found = 0n;
    for (const byte of this.bytes(count).toReversed()) found = (found << 8n) | BigInt(byte);
    return BigInt.asIntN(8 * count, found);
  }

  text(count: number): string {
    return decodeText(this.bytes(count));
  }

  line(): string {
    const end = this.data.indexOf(10, this.at);
    if (end < 0) refuse("the pickle is truncated");
    const found = this.text(end - this.at);
    this.at += 1;
    return found;
  }

  push(value: Slot): void {
    this.stack.push(value);
  }

  pop(): PickleValue {
    const value = this.stack.pop();
    if (value === undefined || value === MARK) return refuse("the pickle takes a value that is not there");
    return value;
  }

  top(): PickleValue {
    const value = this.pop();
    this.stack.push(value);
    return value;
  }

  popMark(): PickleValue[] {
    const mark = this.stack.lastIndexOf(MARK);
    if (mark < 0) refuse("the pickle takes a mark that is not there");
    const items = this.stack.splice(mark).slice(1);
    return items as PickleValue[];
  }

  tuple(items: readonly PickleValue[]): void {
    this.push(new Tuple(items));
  }

  put(index: number): void {
    this.memo.set(index, this.top());
  }

  memoize(): void {
    this.put(this.memo.size);
  }

  get(index: number): void {
    const value = this.memo.get(index);
    this.push(value === undefined ? refuse("the pickle takes a value that is not there") : value);
  }

  global(module: string, name: string): void {
    const full = `${module}.${name}`;
    if (!CALLS.has(full) && !NAMES.test(full)) throw new UnknownNameError(full);
    this.push(new Global(full));
  }

  reduce(): void {
    const args = this.pop();
    const callee = this.pop();
    if (!(callee instanceof Global) || !(args instanceof Tuple)) return refuse("the pickle calls what is no function");
    const call = CALLS.get(callee.name);
    if (call === undefined) throw new UnknownNameError(callee.name);
    this.push(call(args.items));
  }

  /** Ignores the state of an object, which is a hook or an attribute of a tensor. */
  build(): void {
    this.pop();
  }

  append(items: readonly PickleValue[]): void {
    const list = this.top();
    if (!Array.isArray(list)) return refuse("the pickle appends to what is no list");
    for (const item of items) list.push(item);
  }

  setItems(items: readonly PickleValue[]): void {
    const dict = this.top();
    if (!(dict instanceof Map)) return refuse("the pickle sets items of what is no dict");
    for (let index = 0; index + 1 < items.length; index += 2) dict.set(items[index] as PickleValue, items[index + 1] as PickleValue);
  }

  persistent(): void {
    const id = this.pop();
    const [tag, type, key, device, count] = id instanceof Tuple ? id.items : [];
    if (tag !== "storage" || !(type instanceof Global) || typeof key !== "string" || typeof device !== "string" || typeof count !== "bigint") {
      return refuse("the pickle refers to what is no storage");
    }
    const dtype = STORAGES[type.name.slice(type.name.lastIndexOf(".") + 1)] ?? "";
    this.push(new Storage(dtype, `data/${key}`, device, count));
  }
}

const OPCODES: ReadonlyMap<number, (reader: PickleReader) => void> = new Map<number, (reader: PickleReader) => void>([
  [0x80, (r) => void r.unsigned(1)], // PROTO
  [0x95, (r) => void r.long()], // FRAME
  [0x4e, (r) => { r.push(null); }],
  [0x88, (r) => { r.push(true); }],
  [0x89, (r) => { r.push(false); }],
  [0x4b, (r) => { r.push(BigInt(r.unsigned(1))); }],
  [0x4d, (r) => { r.push(BigInt(r.unsigned(2))); }],
  [0x4a, (r) => { r.push(r.int32()); }],
  [0x8a, (r) => { r.push(r.integer(r.unsigned(1))); }],
  [0x47, (r) => { r.push(r.double()); }],
  [0x58, (r) => { r.push(r.text(r.unsigned(4))); }],
  [0x8c, (r) => { r.push(r.text(r.unsigned(1))); }],
  [0x43, (r) => { r.push(r.bytes(r.unsigned(1))); }],
  [0x42, (r) => { r.push(r.bytes(r.unsigned(4))); }],
  [0x5d, (r) => { r.push([]); }],
  [0x7d, (r) => { r.push(new Map()); }],
  [0x29, (r) => { r.tuple([]); }],
  [0x28, (r) => { r.push(MARK); }],
  [0x74, (r) => { r.tuple(r.popMark()); }],
  [0x85, (r) => { r.tuple([r.pop()]); }],
  [0x86, (r) => { r.tuple([r.pop(), r.pop()].toReversed()); }],
  [0x87, (r) => { r.tuple([r.pop(), r.pop(), r.pop()].toReversed()); }],
  [0x61, (r) => { r.append([r.pop()]); }],
  [0x65, (r) => { r.append(r.popMark()); }],
  [0x73, (r) => { r.setItems([r.pop(), r.pop()].toReversed()); }],
  [0x75, (r) => { r.setItems(r.popMark()); }],
  [0x71, (r) => { r.put(r.unsigned(1)); }],
  [0x72, (r) => { r.put(r.unsigned(4)); }],
  [0x94, (r) => { r.memoize(); }],
  [0x68, (r) => { r.get(r.unsigned(1)); }],
  [0x6a, (r) => { r.get(r.unsigned(4)); }],
  [0x63, (r) => { r.global(r.line(), r.line()); }],
  [0x52, (r) => { r.reduce(); }],
  [0x62, (r) => { r.build(); }],
  [0x51, (r) => { r.persistent(); }],
]);

/** Throws unless a walk over a value ends soon: shared values count each time, since a walk visits them each time. */
function checkSize(value: PickleValue): void {
  let count = 0;
  const visit = (each: PickleValue, depth: number): void => {
    count += 1;
    if (depth > MAX_DEPTH) throw new GraphwireError("limit", "the pickle nests values too deep");
    if (count > MAX_VALUES) throw new GraphwireError("limit", "the pickle unfolds to too many values");
    for (const item of innerOf(each)) visit(item, depth + 1);
  };
  visit(value, 0);
}

function innerOf(value: PickleValue): Iterable<PickleValue> {
  if (value instanceof Map) return value.values();
  if (value instanceof Tuple) return value.items;
  if (Array.isArray(value)) return value;
  return isTensor(value) && value.kind === "opaque" ? value.parts : [];
}

/** A file of `torch.save` as the payloads of a program. */
export interface PickledTable {
  readonly table: ReadonlyMap<string, PayloadMeta>;
  /** All its names, also those of what is no tensor. */
  readonly names: readonly string[];
  readonly isBigEndian: boolean;
  /** The storages, by the `path_name` of payloads. */
  readonly storages: ReadonlyMap<string, ArchiveRecord>;
  /** Reads the bytes of a storage. */
  read(path: string): Promise<Uint8Array>;
}

/** Reads the value of a file of `torch.save`, and none of its storages. */
export async function readTorchSave(bytes: Uint8Array, limits: Limits): Promise<{ archive: Archive; value: PickleValue }> {
  const archive = await openArchive(bufferSource(bytes), limits);
  return { archive, value: readPickle(await archive.read("data.pkl")) };
}

/** Reads a file of `torch.save` as payloads. `stem` is in front of the numbers of its storages. */
export async function readPickledTable(bytes: Uint8Array, stem: string, limits: Limits): Promise<PickledTable> {
  const { archive, value } = await readTorchSave(bytes, limits);
  if (!(value instanceof Map)) throw new GraphwireError("document", "a file of torch.save has no dict of tensors");
  const table = new Map<string, PayloadMeta>();
  const names: string[] = [];
  const storages = new Map<string, ArchiveRecord>();
  const paths = new Map<string, string>();
  const first = new Map<PickleValue, string>();
  const pathOf = (tensor: PickledTensor): string => {
    const known = paths.get(tensor.storage);
    if (known !== undefined) return known;
    const record = archive.records.get(tensor.storage);
    if (record === undefined) throw new GraphwireError("missing", "the file of torch.save has no such record", tensor.storage);
    if (BigInt(record.size) !== tensor.nbytes) throw new GraphwireError("archive", "the storage has another size than the pickle states", tensor.storage);
    const path = `${stem}${paths.size}`;
    paths.set(tensor.storage, path);
    storages.set(path, record);
    return path;
  };
  const add = (name: string, each: PickleValue): void => {
    if (!isTensor(each)) return;
    if (each.kind === "opaque") {
      each.parts.forEach((part, index) => { add(`${name}#${index}`, part); });
      return;
    }
    const isMeta = each.device === "meta";
    table.set(name, { ...payloadOf(each, isMeta ? "" : pathOf(each)), same_as: first.get(each) ?? null, placement: isMeta ? "meta" : null });
    if (!first.has(each)) first.set(each, name);
  };
  for (const [name, each] of value) {
    if (typeof name !== "string") throw new GraphwireError("document", "a name in a file of torch.save is no text");
    names.push(name);
    add(name, each);
  }
  const read = (path: string): Promise<Uint8Array> => archive.read(storages.get(path)?.name ?? path);
  return { table, names, isBigEndian: await isBigEndian(archive), storages, read };
}

/** Whether the record `byteorder` of an archive says that elements are big-endian. */
export async function isBigEndian(archive: Archive): Promise<boolean> {
  return archive.records.has(BYTE_ORDER) && String.fromCharCode(...(await archive.read(BYTE_ORDER)).subarray(0, 4)) === "big";
}

const BYTE_ORDER = "byteorder";

function payloadOf(tensor: PickledTensor, path_name: string): PayloadMeta {
  const known = scalarType(tensor.dtype);
  const [, type = "cpu", index] = /^([a-z_]\w*)(?::(\d{1,4}))?$/.exec(tensor.device) ?? [];
  const integers = (numbers: readonly bigint[]): SymInt[] => numbers.map((each) => ({ variant: "as_int", value: each }));
  return {
    path_name,
    is_param: tensor.isParameter,
    use_pickle: false,
    tensor_meta: {
      dtype: known ?? "UNKNOWN",
      sizes: integers(tensor.sizes),
      requires_grad: tensor.requiresGrad,
      device: { type, index: index === undefined ? null : BigInt(index) },
      strides: integers(tensor.strides),
      storage_offset: { variant: "as_int", value: tensor.offset },
      layout: "Strided",
      dtype_name: known === undefined ? tensor.dtype : null,
      layout_name: null,
      sparse: null,
    },
    same_as: null,
    weight: null,
    shared: null,
    buffer: null,
    conj: tensor.conj,
    neg: tensor.neg,
    placement: null,
  };
}
