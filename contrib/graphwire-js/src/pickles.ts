/**
 * Data in pickles of `torch.save`, for files of torch 2.6 to 2.8, whose weights are pickled.
 *
 * The reader runs no code: it builds plain values and descriptions of tensors, and refuses every name that is not in its table.
 */

import { openArchive, type Archive, type ArchiveRecord } from "./archive.js";
import { dtypeOf, itemSize, scalarType } from "./enumerations.js";
import { GraphwireError } from "./errors.js";
import type { Limits } from "./limits.js";
import type { EncodedValue, PayloadMeta, SymInt } from "./schema.js";
import { bufferSource } from "./source.js";
import { decodeText, type Tree } from "./trees.js";

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
  /** The element type of the storage's class; empty if it has none. */
  readonly storageType: string;
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
  readonly isCoalesced: boolean | null;
  readonly isParameter: boolean;
  readonly requiresGrad: boolean;
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
  | Unknown
  | Storage
  | PickledTensor
  | OpaqueTensor;

export class Tuple {
  constructor(readonly items: readonly PickleValue[]) {}
}
export class Global {
  constructor(readonly name: string) {}
}
/** A value of a class that this reader does not know, of which only the name is kept. */
export class Unknown {
  constructor(readonly name: string) {}
}
class OrderedDict extends Map<PickleValue, PickleValue> {}
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
const MAX_INTEGER = 255;
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

const DEVICE = /^([a-z_]\w*)(?::(\d{1,4}))?$/;

type Call = (args: readonly PickleValue[]) => PickleValue;

const MAX_SIZE = 2n ** 63n - 1n;
const MAX_DIMENSIONS = 128;

function sizeOf(value: PickleValue | undefined): bigint {
  return typeof value === "bigint" && value >= 0n && value <= MAX_SIZE ? value : refuse("a size, stride or offset that is none");
}

function numbers(value: PickleValue | undefined): bigint[] {
  if (!(value instanceof Tuple) || value.items.length > MAX_DIMENSIONS) return refuse("a tensor without sizes");
  return value.items.map(sizeOf);
}

/** Whether a value is a dict, and no OrderedDict. */
function isDict(value: PickleValue | undefined): value is Map<PickleValue, PickleValue> {
  return value instanceof Map && !(value instanceof OrderedDict);
}

function flagOf(value: PickleValue | undefined): boolean {
  return typeof value === "boolean" ? value : refuse("a flag that is none");
}

function checkHooks(value: PickleValue | undefined): void {
  if (value !== null && !(value instanceof Map)) refuse("hooks that are none");
}

/** A tensor, whose element type is that of its storage, or is among the arguments. */
function tensorOf(args: readonly PickleValue[], isTyped: boolean): PickledTensor {
  const count = isTyped ? 6 : 7;
  const [storage, offset, sizes, strides, grad, hooks, dtype] = args;
  if (!(storage instanceof Storage) || args.length < count || args.length > count + 1) return refuse("a tensor without a storage");
  const named = isTyped ? storage.dtype : dtype instanceof Global ? dtype.name.replace("torch.", "") : "";
  const noted = args[count] ?? null;
  if (noted !== null && !(isDict(noted) && [...noted.keys()].every((key) => key === "conj" || key === "neg"))) {
    return refuse("a tensor with more than its elements");
  }
  checkHooks(hooks);
  const isNoted = (key: string): boolean => noted !== null && noted.has(key) && flagOf(noted.get(key));
  return {
    ...shapeOf(named, sizes, strides, grad),
    offset: sizeOf(offset),
    storage: storage.record,
    nbytes: storage.count * BigInt(storage.dtype === "" ? 1 : itemSize(storage.dtype)),
    storageType: storage.dtype,
    device: storage.device,
    conj: isNoted("conj"),
    neg: isNoted("neg"),
  };
}

/** A tensor without elements. */
function metaTensorOf(args: readonly PickleValue[]): PickledTensor {
  const [dtype, sizes, strides, grad] = args;
  if (!(dtype instanceof Global) || args.length !== 4) return refuse("a tensor without an element type");
  return shapeOf(dtype.name.replace("torch.", ""), sizes, strides, grad);
}

function shapeOf(dtype: string, sizes: PickleValue | undefined, strides: PickleValue | undefined, grad: PickleValue | undefined): PickledTensor {
  if (dtypeOf(dtype) === undefined) return refuse("a tensor without an element type");
  const found: PickledTensor = {
    kind: "tensor",
    dtype,
    sizes: numbers(sizes),
    strides: numbers(strides),
    offset: 0n,
    requiresGrad: flagOf(grad),
    isParameter: false,
    storage: "",
    nbytes: 0n,
    storageType: "",
    device: "meta",
    conj: false,
    neg: false,
  };
  return found.sizes.length === found.strides.length ? found : refuse("a tensor whose sizes and strides differ in number");
}

function isTensor(value: PickleValue | undefined): value is PickledTensor | OpaqueTensor {
  return typeof value === "object" && value !== null && "kind" in value;
}

function parameterOf(args: readonly PickleValue[], count: number): PickleValue {
  const [data, grad, hooks] = args;
  if (!isTensor(data) || args.length !== count) return refuse("a parameter without a tensor");
  checkHooks(hooks);
  return { ...data, isParameter: true, requiresGrad: flagOf(grad) };
}

const COMPRESSED: ReadonlySet<string> = new Set(["torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"]);
const LAYOUTS: ReadonlySet<string> = new Set(["torch.strided", "torch.sparse_coo", ...COMPRESSED]);

function sparseOf(args: readonly PickleValue[]): PickleValue {
  const [layout, data] = args;
  if (!(layout instanceof Global) || !(data instanceof Tuple) || args.length !== 2) return refuse("a sparse tensor without data");
  const count = layout.name === "torch.sparse_coo" ? 2 : COMPRESSED.has(layout.name) ? 3 : refuse("a sparse tensor without a layout");
  const [parts, [sizes, isCoalesced, ...more]] = [data.items.slice(0, count), data.items.slice(count)];
  const isFlag = isCoalesced === undefined || (count === 2 && (isCoalesced === null || typeof isCoalesced === "boolean"));
  if (!parts.every((part) => isTensor(part) && part.kind === "tensor") || !isFlag || more.length > 0) return refuse("a sparse tensor of other parts");
  const facts = { isCoalesced: typeof isCoalesced === "boolean" ? isCoalesced : null, isParameter: false, requiresGrad: false };
  return { kind: "opaque", layout: layout.name.replace("torch.", ""), sizes: numbers(sizes), parts, ...facts };
}

function layoutOf(args: readonly PickleValue[]): PickleValue {
  const [name] = args;
  return typeof name === "string" && LAYOUTS.has(name) && args.length === 1 ? new Global(name) : refuse("no layout");
}

function deviceOf(args: readonly PickleValue[]): PickleValue {
  const [type, index] = args;
  const isIndex = index === undefined || (typeof index === "bigint" && index >= 0n && index < 1n << 15n);
  if (typeof type !== "string" || !/^[A-Za-z_]\w*$/.test(type) || !isIndex || args.length > 2) return refuse("no device");
  return new Tuple([type, index ?? null]);
}

/** A tensor, or a parameter, with attributes that its user set, which are ignored. */
function typedOf(args: readonly PickleValue[]): PickleValue {
  const [callee, type, inner, state] = args;
  const make = callee instanceof Global ? TENSORS.get(callee.name) : undefined;
  const isState = state instanceof Map || state instanceof Tuple;
  if (make === undefined || !(type instanceof Global) || !(inner instanceof Tuple) || !isState || args.length !== 4) return refuse("no tensor");
  const made = make(inner.items);
  if (type.name === "torch.Tensor") return made;
  if (type.name !== "torch.nn.parameter.Parameter") return refuse("a tensor of another type");
  return isTensor(made) ? { ...made, isParameter: true } : made;
}

function emptyDict(args: readonly PickleValue[]): PickleValue {
  return args.length === 0 ? new OrderedDict() : refuse("a dict that is called with its items");
}

/** The functions that make tensors. */
const TENSORS: ReadonlyMap<string, Call> = new Map<string, Call>([
  ["torch._utils._rebuild_tensor_v2", (args) => tensorOf(args, true)],
  ["torch._utils._rebuild_tensor_v3", (args) => tensorOf(args, false)],
  ["torch._utils._rebuild_parameter", (args) => parameterOf(args, 3)],
  ["torch._utils._rebuild_parameter_with_state", (args) => parameterOf(args, 4)],
  ["torch._utils._rebuild_sparse_tensor", sparseOf],
  ["torch._utils._rebuild_meta_tensor_no_storage", metaTensorOf],
]);
/** What the functions that a pickle may name stand for. */
const CALLS: ReadonlyMap<string, Call> = new Map<string, Call>([
  ...TENSORS,
  ["collections.OrderedDict", emptyDict],
  ["torch._tensor._rebuild_from_type_v2", typedOf],
  ["torch.serialization._get_layout", layoutOf],
  ["torch.Size", (args) => (args.length === 1 ? new Tuple(numbers(args[0])) : refuse("no sizes"))],
  ["torch.device", deviceOf],
]);
const TYPES: ReadonlySet<string> = new Set(["torch.Tensor", "torch.nn.parameter.Parameter", "torch.storage.UntypedStorage"]);

function isKnown(name: string): boolean {
  const [, own = ""] = /^torch\.(\w+)$/.exec(name) ?? [];
  return CALLS.has(name) || TYPES.has(name) || Object.hasOwn(STORAGES, own) || dtypeOf(own) !== undefined;
}

/** Whether a dict may have a value as a key. */
function isKey(value: PickleValue): boolean {
  return typeof value === "bigint" ? value >= -MAX_SIZE - 1n && value <= MAX_SIZE : value === null || typeof value !== "object" || value instanceof Uint8Array;
}

const MARK = Symbol("mark");
type Slot = PickleValue | typeof MARK;

/** Reads the value of a pickle of protocol 2 to 5. */
function readPickle(data: Uint8Array, isForeign: boolean): PickleValue {
  if (data.length > MAX_BYTES) throw new GraphwireError("limit", "the pickle is too large");
  const value = new PickleReader(data, isForeign).run();
  checkSize(value);
  return value;
}

class PickleReader {
  private at = 0;
  private readonly stack: Slot[] = [];
  private readonly memo = new Map<number, PickleValue>();
  private readonly view: DataView;

  constructor(
    private readonly data: Uint8Array,
    /** Whether values of unknown classes are kept by name, or refused. */
    private readonly isForeign: boolean,
  ) {
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  run(): PickleValue {
    if (this.data[0] !== 0x80) refuse("no pickle of protocol 2 to 5");
    for (let step = 0; step < MAX_STEPS; step++) {
      const opcode = this.unsigned(1);
      if (opcode === 0x2e) {
        const value = this.pop();
        return this.stack.length === 0 && this.at === this.data.length ? value : refuse("the pickle does not end with one value");
      }
      const run = OPCODES.get(opcode) ?? refuse(`the pickle has the unsupported opcode 0x${opcode.toString(16)}`);
      run(this);
    }
    throw new GraphwireError("limit", "the pickle has too many steps");
  }

  protocol(): void {
    const version = this.unsigned(1);
    if (version < 2 || version > 5 || this.at !== 2) refuse(`the pickle is of protocol ${version}`);
  }

  frame(): void {
    if (this.long() > this.data.length - this.at) refuse("the pickle is truncated");
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
    if (count > MAX_INTEGER) throw new GraphwireError("limit", "the pickle has too long an integer");
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
    if (!isKnown(full) && !this.isForeign) throw new UnknownNameError(full);
    this.push(isKnown(full) ? new Global(full) : new Unknown(full));
  }

  named(): void {
    const [name, module] = [this.pop(), this.pop()];
    if (typeof module !== "string" || typeof name !== "string") return refuse("the name of a global is no text");
    this.global(module, name);
  }

  reduce(): void {
    const args = this.pop();
    const callee = this.pop();
    if (args instanceof Tuple && callee instanceof Unknown) {
      this.push(callee);
      return;
    }
    if (!(callee instanceof Global) || !(args instanceof Tuple)) return refuse("the pickle calls what is no function");
    const call = CALLS.get(callee.name);
    if (call === undefined) throw new UnknownNameError(callee.name);
    this.push(args.items.find((each) => each instanceof Unknown) ?? call(args.items));
  }

  /** Makes no object: only that of an unknown class is kept, by name. */
  object(count: number): void {
    for (let index = 0; index < count; index++) this.pop();
    if (!(this.top() instanceof Unknown)) refuse("the pickle makes an object of what is no class");
  }

  /** Ignores the state of a dict, which is the versions of modules, and of an unknown object. */
  build(): void {
    const state = this.pop();
    const target = this.top();
    if (target instanceof Unknown || (target instanceof OrderedDict && isDict(state))) return;
    refuse("the pickle sets the state of what has none");
  }

  append(items: readonly PickleValue[]): void {
    const list = this.top();
    if (list instanceof Unknown) return;
    if (!Array.isArray(list)) return refuse("the pickle appends to what is no list");
    for (const item of items) list.push(item);
  }

  setItems(items: readonly PickleValue[]): void {
    const dict = this.top();
    if (items.length % 2 !== 0) refuse("a key has no value");
    if (dict instanceof Unknown) return;
    if (!(dict instanceof Map)) return refuse("the pickle sets items of what is no dict");
    for (let index = 0; index + 1 < items.length; index += 2) {
      const key = items[index] as PickleValue;
      dict.set(isKey(key) ? key : refuse("a key that is none"), items[index + 1] as PickleValue);
    }
  }

  persistent(): void {
    const id = this.pop();
    const [tag, type, key, device, count] = id instanceof Tuple && id.items.length === 5 ? id.items : [];
    if (tag === "storage" && type instanceof Unknown) {
      this.push(type);
      return;
    }
    const name = type instanceof Global ? type.name.slice(type.name.lastIndexOf(".") + 1) : "";
    const isStorage = tag === "storage" && Object.hasOwn(STORAGES, name) && typeof count === "bigint" && count >= 0n && count <= MAX_SIZE;
    if (!isStorage || typeof key !== "string" || typeof device !== "string" || !/^[\w.-]+$/.test(key) || !DEVICE.test(device)) {
      return refuse("the pickle refers to what is no storage");
    }
    this.push(new Storage(STORAGES[name] ?? "", `data/${key}`, device, count));
  }
}

const OPCODES: ReadonlyMap<number, (reader: PickleReader) => void> = new Map<number, (reader: PickleReader) => void>([
  [0x80, (r) => { r.protocol(); }], // PROTO
  [0x95, (r) => { r.frame(); }], // FRAME
  [0x4e, (r) => { r.push(null); }],
  [0x88, (r) => { r.push(true); }],
  [0x89, (r) => { r.push(false); }],
  [0x4b, (r) => { r.push(BigInt(r.unsigned(1))); }],
  [0x4d, (r) => { r.push(BigInt(r.unsigned(2))); }],
  [0x4a, (r) => { r.push(r.int32()); }],
  [0x8a, (r) => { r.push(r.integer(r.unsigned(1))); }],
  [0x8b, (r) => { r.push(r.integer(r.unsigned(4))); }],
  [0x47, (r) => { r.push(r.double()); }],
  [0x58, (r) => { r.push(r.text(r.unsigned(4))); }],
  [0x8c, (r) => { r.push(r.text(r.unsigned(1))); }],
  [0x8d, (r) => { r.push(r.text(r.long())); }],
  [0x8e, (r) => { r.push(r.bytes(r.long())); }],
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
  [0x93, (r) => { r.named(); }],
  [0x81, (r) => { r.object(1); }],
  [0x92, (r) => { r.object(2); }],
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
  /** Its sparse tensors, whose parts are in `table`. */
  readonly encoded: ReadonlyMap<string, EncodedValue>;
  readonly isBigEndian: boolean;
  /** The storages, by the `path_name` of payloads. */
  readonly storages: ReadonlyMap<string, ArchiveRecord>;
  /** Reads the bytes of a storage. */
  read(path: string): Promise<Uint8Array>;
}

/** Reads the value of a file of `torch.save`, and none of its storages. */
export async function readTorchSave(bytes: Uint8Array, limits: Limits, isForeign = false): Promise<{ archive: Archive; value: PickleValue }> {
  const archive = await openArchive(bufferSource(bytes), limits);
  if (archive.records.has(BYTE_ORDER) && !["little", "big"].includes(await byteOrder(archive))) {
    throw new GraphwireError("archive", "the byte order is neither little nor big", BYTE_ORDER);
  }
  return { archive, value: readPickle(await archive.read("data.pkl"), isForeign) };
}

/** Reads a file of `torch.save` as payloads. `stem` is in front of the numbers of its storages. */
export async function readPickledTable(bytes: Uint8Array, stem: string, limits: Limits): Promise<PickledTable> {
  const { archive, value } = await readTorchSave(bytes, limits, true);
  if (!(value instanceof Map)) throw new GraphwireError("document", "a file of torch.save has no dict of tensors");
  const table = new Map<string, PayloadMeta>();
  const names: string[] = [];
  const encoded = new Map<string, EncodedValue>();
  const storages = new Map<string, ArchiveRecord>();
  const paths = new Map<string, string>();
  const types = new Map<string, string>();
  const isBig = await isBigEndian(archive);
  const first = new Map<PickleValue, string>();
  const pathOf = (tensor: PickledTensor): string => {
    const known = paths.get(tensor.storage);
    const { bytes: width = 1, numbers: per = 1 } = isBig ? dtypeOf(tensor.dtype) ?? {} : {};
    const type = `${tensor.storageType} ${width / per}`;
    if (known !== undefined) return types.get(known) === type ? known : refuse("a storage is used as two types of elements");
    const record = archive.records.get(tensor.storage);
    if (record === undefined) throw new GraphwireError("missing", "the file of torch.save has no such record", tensor.storage);
    if (BigInt(record.size) !== tensor.nbytes) throw new GraphwireError("archive", "the storage has another size than the pickle states", tensor.storage);
    const path = `${stem}${paths.size}`;
    paths.set(tensor.storage, path);
    types.set(path, type);
    storages.set(path, record);
    return path;
  };
  const add = (name: string, each: PickleValue): void => {
    if (!isTensor(each)) return;
    if (each.kind === "opaque") {
      each.parts.forEach((part, index) => { add(`${name}#${index}`, part); });
      encoded.set(name, encodedOf(each, name));
      return;
    }
    const isMeta = DEVICE.exec(each.device)?.[1] === "meta";
    table.set(name, { ...payloadOf(each, isMeta ? "" : pathOf(each)), same_as: first.get(each) ?? null, placement: isMeta ? "meta" : null });
    if (!first.has(each)) first.set(each, name);
  };
  for (const [name, each] of value) {
    if (typeof name !== "string") throw new GraphwireError("document", "a name in a file of torch.save is no text");
    names.push(name);
    add(name, each);
  }
  const read = (path: string): Promise<Uint8Array> => archive.read(storages.get(path)?.name ?? path);
  return { table, names, encoded, isBigEndian: isBig, storages, read };
}

async function byteOrder(archive: Archive): Promise<string> {
  return String.fromCharCode(...(await archive.read(BYTE_ORDER)).subarray(0, 7));
}

/** Whether the record `byteorder` of an archive says that elements are big-endian. */
export async function isBigEndian(archive: Archive): Promise<boolean> {
  return archive.records.has(BYTE_ORDER) && (await byteOrder(archive)) === "big";
}

const BYTE_ORDER = "byteorder";

function encodedOf({ layout, sizes, parts, isCoalesced, isParameter, requiresGrad }: OpaqueTensor, name: string): EncodedValue {
  const tree = new Map<string, Tree>([
    ["layout", layout], ["sizes", sizes], ["coalesced", isCoalesced], ["parameter", isParameter], ["requires_grad", requiresGrad],
  ]);
  const tensors = parts.map((_, index) => `${name}#${index}`);
  return { codec: "sparse", tree, tensors, buffer: null, is_param: null, requires_grad: null, same_as: null, is_weight: false, index: null };
}

function payloadOf(tensor: PickledTensor, path_name: string): PayloadMeta {
  const known = scalarType(tensor.dtype);
  const [, type = "cpu", index] = DEVICE.exec(tensor.device) ?? [];
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
