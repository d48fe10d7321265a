/**
 * Archives: the records of a file by name, read on demand.
 *
 * The directory is checked strictly. Two readers must not see different files in the same bytes, so a name that occurs twice,
 * records that overlap, and headers that contradict each other are errors.
 */

import { crc32 } from "./checksums.js";
import { GraphwireError, messageOf } from "./errors.js";
import { DEFAULT_LIMITS, type Limits } from "./limits.js";
import type { ByteSource } from "./source.js";

/** A record of an archive, as the directory describes it. */
export interface ArchiveRecord {
  /** The name relative to the root folder. */
  readonly name: string;
  /** The name in the archive. */
  readonly fullName: string;
  /** The size of the content, in bytes. */
  readonly size: number;
  /** The size of what the file stores. */
  readonly storedSize: number;
  readonly deflated: boolean;
  readonly crc: number;
  /** The flags of the directory's entry. */
  readonly flags: number;
  /** Where the record's local header begins. */
  readonly headerOffset: number;
}

/** The records of an archive. */
export interface Archive {
  readonly source: ByteSource;
  readonly limits: Limits;
  /** The records by name, in the order of the directory. */
  readonly records: ReadonlyMap<string, ArchiveRecord>;
  /** Reads and checks the content of a record. */
  read(name: string): Promise<Uint8Array>;
  /** Reads several records, with one read for neighbours in the file. */
  readMany(names: readonly string[]): Promise<Map<string, Uint8Array>>;
}

const [LOCAL, CENTRAL, END, END64, LOCATOR64] = [0x04034b50, 0x02014b50, 0x06054b50, 0x06064b50, 0x07064b50];
const LOCAL_SIZE = 30;
const CENTRAL_SIZE = 46;
const END_SIZE = 22;
const END64_SIZE = 56;
const LOCATOR_SIZE = 20;
const TAIL = 4096;
const MAX_COMMENT = 0xffff;
const ZIP64_EXTRA = 1;
/** The flags that a record may have: the compressor's effort, a data descriptor, a name in UTF-8. */
const FLAGS = 0x080e;
const HAS_DESCRIPTOR = 0x0008;
const IS_UTF8 = 0x0800;
const [STORED, DEFLATED] = [0, 8];

const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function fault(message: string, name = ""): GraphwireError {
  return new GraphwireError("archive", message, name);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function safe(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw fault("a size or an offset is too large");
  return Number(value);
}

/** Returns whether bytes begin as a zip archive does. */
export function beginsAsArchive(head: Uint8Array): boolean {
  return head[0] === 0x50 && head[1] === 0x4b && ((head[2] === 3 && head[3] === 4) || (head[2] === 5 && head[3] === 6));
}

/** Reads the directory of an archive. */
export async function openArchive(source: ByteSource, limits: Limits = DEFAULT_LIMITS): Promise<Archive> {
  const directory = await findDirectory(source);
  if (directory.count > limits.records) {
    throw new GraphwireError("limit", `the archive has more than ${limits.records} records`);
  }
  if (directory.size > directory.count * (CENTRAL_SIZE + limits.nameBytes + 2 * 0xffff)) {
    throw fault("the directory is larger than its records");
  }
  const bytes = await source.read(directory.offset, directory.size);
  const entries = readDirectory(bytes, directory.count, limits);
  checkExtents(entries, directory.offset);
  const files = entries.filter((entry) => !(entry.fullName.endsWith("/") && entry.size === 0));
  const root = commonRoot(files);
  const records = new Map(
    files.map((entry): [string, ArchiveRecord] => {
      const name = entry.fullName.slice(root.length);
      return [name, { ...entry, name }];
    }),
  );
  const starts = entries.map((entry) => entry.headerOffset);
  return new ZipArchive(source, limits, records, [...starts, directory.offset].sort((a, b) => a - b));
}

// ---------------------------------------------------------------------------------------------------------- directory

interface Directory {
  readonly offset: number;
  readonly size: number;
  readonly count: number;
}

async function findDirectory(source: ByteSource): Promise<Directory> {
  let length = Math.min(source.size, TAIL);
  let tail = await source.read(source.size - length, length);
  let at = findEnd(tail);
  if (at < 0 && source.size > length) {
    length = Math.min(source.size, END_SIZE + MAX_COMMENT);
    tail = await source.read(source.size - length, length);
    at = findEnd(tail);
  }
  if (at < 0) throw fault("not a zip archive, or truncated: it has no end of central directory");
  const view = viewOf(tail);
  const endOffset = source.size - length + at;
  const disk = view.getUint16(at + 4, true);
  const onDisk = view.getUint16(at + 8, true);
  let count = view.getUint16(at + 10, true);
  let size = view.getUint32(at + 12, true);
  let offset = view.getUint32(at + 16, true);
  let limit = endOffset;
  if ((disk !== 0 && disk !== 0xffff) || view.getUint16(at + 6, true) !== disk || onDisk !== count) {
    throw fault("the archive has several disks");
  }
  const locator = at - LOCATOR_SIZE;
  if (locator >= 0 && view.getUint32(locator, true) === LOCATOR64) {
    const where = safe(view.getBigUint64(locator + 8, true));
    if (view.getUint32(locator + 4, true) !== 0 || view.getUint32(locator + 16, true) > 1) {
      throw fault("the archive has several disks");
    }
    if (where + END64_SIZE > endOffset - LOCATOR_SIZE) throw fault("the zip64 end of central directory is out of place");
    const end = viewOf(await source.read(where, END64_SIZE));
    const reach = safe(end.getBigUint64(4, true)) + 12;
    if (end.getUint32(0, true) !== END64 || where + reach !== endOffset - LOCATOR_SIZE) {
      throw fault("the zip64 end of central directory is out of place");
    }
    if (end.getUint32(16, true) !== 0 || end.getUint32(20, true) !== 0) throw fault("the archive has several disks");
    if (end.getBigUint64(24, true) !== end.getBigUint64(32, true)) throw fault("the archive has several disks");
    const replaced = (before: number, ones: number, at64: number): number => {
      const value = safe(end.getBigUint64(at64, true));
      if (before !== ones && before !== value) throw fault("the two ends of the central directory contradict each other");
      return value;
    };
    count = replaced(count, 0xffff, 32);
    size = replaced(size, 0xffffffff, 40);
    offset = replaced(offset, 0xffffffff, 48);
    limit = where;
  } else if (count === 0xffff || size === 0xffffffff || offset === 0xffffffff) {
    throw fault("the zip64 end of central directory is absent");
  }
  if (offset + size !== limit) throw fault("the central directory does not end where its end record begins");
  return { offset, size, count };
}

/** Returns where the end record begins: the last place whose comment reaches to the end of the file. */
function findEnd(tail: Uint8Array): number {
  const view = viewOf(tail);
  for (let at = tail.length - END_SIZE; at >= 0; at--) {
    if (view.getUint32(at, true) === END && at + END_SIZE + view.getUint16(at + 20, true) === tail.length) return at;
  }
  return -1;
}

function readDirectory(bytes: Uint8Array, count: number, limits: Limits): ArchiveRecord[] {
  const view = viewOf(bytes);
  const found: ArchiveRecord[] = [];
  const names = new Set<string>();
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (at + CENTRAL_SIZE > bytes.length || view.getUint32(at, true) !== CENTRAL) throw fault("the directory is truncated");
    const [nameLength, extraLength] = [view.getUint16(at + 28, true), view.getUint16(at + 30, true)];
    const end = at + CENTRAL_SIZE + nameLength + extraLength + view.getUint16(at + 32, true);
    if (end > bytes.length) throw fault("the directory is truncated");
    if (nameLength > limits.nameBytes) {
      throw new GraphwireError("limit", `a name has more than ${limits.nameBytes} bytes`);
    }
    const flags = view.getUint16(at + 8, true);
    const fullName = checkedName(bytes.subarray(at + CENTRAL_SIZE, at + CENTRAL_SIZE + nameLength), flags);
    const method = view.getUint16(at + 10, true);
    if (flags & ~FLAGS) throw fault("the record is encrypted, or has another flag that is not supported", fullName);
    if (method !== STORED && method !== DEFLATED) throw fault(`the compression method ${method} is not supported`, fullName);
    if (![0, 0xffff].includes(view.getUint16(at + 34, true))) throw fault("the record is on another disk", fullName);
    const extra = viewOf(bytes.subarray(at + CENTRAL_SIZE + nameLength, at + CENTRAL_SIZE + nameLength + extraLength));
    const [size, storedSize, headerOffset] = zip64Values(
      extra,
      [view.getUint32(at + 24, true), view.getUint32(at + 20, true), view.getUint32(at + 42, true)],
      fullName,
    ) as [number, number, number];
    if (method === STORED && size !== storedSize) throw fault("a stored record has two sizes", fullName);
    if (names.has(fullName)) throw fault("the name occurs twice", fullName);
    names.add(fullName);
    found.push({
      name: fullName,
      fullName,
      size,
      storedSize,
      deflated: method === DEFLATED,
      crc: view.getUint32(at + 16, true),
      flags,
      headerOffset,
    });
    at = end;
  }
  if (at !== bytes.length) throw fault("bytes follow the last entry of the directory");
  return found;
}

/** Returns the values, each replaced by that of the zip64 field if it is the largest number of 32 bits. */
function zip64Values(extra: DataView, values: readonly number[], name: string): number[] {
  if (!values.includes(0xffffffff)) return [...values];
  for (let at = 0; at + 4 <= extra.byteLength; at += 4 + extra.getUint16(at + 2, true)) {
    if (extra.getUint16(at, true) !== ZIP64_EXTRA) continue;
    let from = at + 4;
    const end = from + extra.getUint16(at + 2, true);
    return values.map((value) => {
      if (value !== 0xffffffff) return value;
      if (from + 8 > end || end > extra.byteLength) throw fault("the zip64 field is too short", name);
      from += 8;
      return safe(extra.getBigUint64(from - 8, true));
    });
  }
  throw fault("the zip64 field is absent", name);
}

function checkedName(bytes: Uint8Array, flags: number): string {
  let name: string;
  try {
    name = flags & IS_UTF8 ? text.decode(bytes) : codePage437(bytes);
  } catch (error) {
    throw new GraphwireError("archive", "a name is not UTF-8", "", { cause: error });
  }
  const parts = name.replaceAll("\\", "/").replace(/\/$/, "").split("/");
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f]/.test(name) || /^.:/su.test(name) || parts.some((part) => ["", ".", ".."].includes(part))) {
    throw fault("the name refers to a place outside the archive", JSON.stringify(name));
  }
  return name;
}

/** The characters 128 to 255 of code page 437, in which names without the flag of UTF-8 are. */
const CODE_PAGE =
  "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0";

function codePage437(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => (byte < 128 ? String.fromCharCode(byte) : CODE_PAGE.charAt(byte - 128))).join("");
}

function checkExtents(entries: readonly ArchiveRecord[], directoryOffset: number): void {
  const sorted = [...entries].sort((a, b) => a.headerOffset - b.headerOffset);
  const start = sorted[0]?.headerOffset ?? 0;
  if (start !== 0) throw fault("bytes precede the first record");
  let end = -1;
  for (const entry of sorted) {
    if (entry.headerOffset < end) throw fault("the record overlaps another", entry.fullName);
    const names = new TextEncoder().encode(entry.fullName).length;
    end = entry.headerOffset + LOCAL_SIZE + names + entry.storedSize;
    if (end > directoryOffset) throw fault("the record extends past the records of the file", entry.fullName);
  }
}

/** Returns the folder, with its slash, that all records are in; empty if some record is in no folder. */
function commonRoot(entries: readonly ArchiveRecord[]): string {
  const roots = new Set(entries.map(({ fullName }) => fullName.slice(0, fullName.indexOf("/") + 1)));
  const [root = ""] = roots;
  if (roots.size > 1 && !roots.has("")) throw fault("the records are in several folders");
  return roots.size === 1 ? root : "";
}

// ------------------------------------------------------------------------------------------------------------ content

class ZipArchive implements Archive {
  constructor(
    readonly source: ByteSource,
    readonly limits: Limits,
    readonly records: ReadonlyMap<string, ArchiveRecord>,
    /** The offsets at which headers begin, and that of the directory, ascending. */
    private readonly starts: readonly number[],
  ) {}

  async read(name: string): Promise<Uint8Array> {
    const found = (await this.readMany([name])).get(name);
    if (found === undefined) throw new GraphwireError("missing", "the file has no such record", name);
    return found;
  }

  async readMany(names: readonly string[]): Promise<Map<string, Uint8Array>> {
    const wanted = names.map((name) => {
      const record = this.records.get(name);
      if (record === undefined) throw new GraphwireError("missing", "the file has no such record", name);
      return record;
    });
    const found = new Map<string, Uint8Array>();
    for (const group of this.neighbours(wanted)) {
      const start = group[0]?.headerOffset ?? 0;
      const end = this.endOf(group.at(-1)?.headerOffset ?? 0);
      const bytes = await this.source.read(start, end - start);
      for (const record of group) {
        const from = record.headerOffset - start;
        const content = await this.content(record, bytes.subarray(from, this.endOf(record.headerOffset) - start));
        found.set(record.name, content);
      }
    }
    return found;
  }

  /** Returns where the next record, or the directory, begins. */
  private endOf(headerOffset: number): number {
    let [low, high] = [0, this.starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.starts[middle] ?? Infinity) > headerOffset) high = middle;
      else low = middle + 1;
    }
    return this.starts[low] ?? headerOffset;
  }

  /** Returns the records in groups; no other record is between those of a group. */
  private neighbours(wanted: readonly ArchiveRecord[]): ArchiveRecord[][] {
    const groups: ArchiveRecord[][] = [];
    let end = -1;
    for (const record of [...wanted].sort((a, b) => a.headerOffset - b.headerOffset)) {
      this.checkSize(record);
      if (record.headerOffset === end) groups.at(-1)?.push(record);
      else groups.push([record]);
      end = this.endOf(record.headerOffset);
    }
    return groups;
  }

  private checkSize(record: ArchiveRecord): void {
    const { programBytes, inflateRatio, inflateFreeBytes } = this.limits;
    if (record.deflated && record.size > Math.max(inflateFreeBytes, record.storedSize * inflateRatio)) {
      throw new GraphwireError("limit", "the record inflates to more than the limit for its size", record.fullName);
    }
    if (record.deflated && record.size > programBytes) {
      throw new GraphwireError("limit", `the record has more than ${programBytes} bytes`, record.fullName);
    }
  }

  /** Returns the content of a record, given the bytes from its header up to the next. */
  private async content(record: ArchiveRecord, bytes: Uint8Array): Promise<Uint8Array> {
    const stored = bytes.subarray(this.dataStart(record, bytes));
    if (record.storedSize > stored.length) throw fault("the record overlaps the next", record.fullName);
    const data = stored.subarray(0, record.storedSize);
    const content = record.deflated ? await inflate(data, record) : data;
    if (crc32(content) !== record.crc) {
      throw new GraphwireError("integrity", "the content differs from its CRC-32", record.fullName);
    }
    return content;
  }

  /** Checks the local header, and returns where the data begins after it. */
  private dataStart(record: ArchiveRecord, bytes: Uint8Array): number {
    const view = viewOf(bytes);
    if (bytes.length < LOCAL_SIZE || view.getUint32(0, true) !== LOCAL) throw fault("no header at its offset", record.fullName);
    const nameLength = view.getUint16(26, true);
    const start = LOCAL_SIZE + nameLength + view.getUint16(28, true);
    if (start > bytes.length) throw fault("the header is truncated", record.fullName);
    const flags = view.getUint16(6, true);
    const method = view.getUint16(8, true);
    const name = bytes.subarray(LOCAL_SIZE, LOCAL_SIZE + nameLength);
    const sameName = checkedName(name, record.flags) === record.fullName;
    if (!sameName || ((flags ^ record.flags) & ~IS_UTF8) !== 0 || method !== (record.deflated ? DEFLATED : STORED)) {
      throw fault("the header contradicts the directory", record.fullName);
    }
    if ((flags & HAS_DESCRIPTOR) === 0) {
      const same = (given: number, known: number): boolean => given === known || given === 0xffffffff;
      const sizes = same(view.getUint32(22, true), record.size) && same(view.getUint32(18, true), record.storedSize);
      if (!sizes || view.getUint32(14, true) !== record.crc) {
        throw fault("the header contradicts the directory", record.fullName);
      }
    }
    return start;
  }
}

/** Inflates data to exactly the size of its record. */
async function inflate(data: Uint8Array, record: ArchiveRecord): Promise<Uint8Array> {
  const found = new Uint8Array(record.size);
  let size: number;
  try {
    size = await inflateInto(found, data);
  } catch (error) {
    throw new GraphwireError("archive", `the data cannot be inflated: ${messageOf(error)}`, record.fullName, { cause: error });
  }
  if (size !== found.length) throw fault("it inflates to another size than its own", record.fullName);
  // Some platforms ignore bytes after the end of the stream. Then the stream is complete without the last byte, too.
  const complete = await inflateInto(found.slice(), data.subarray(0, -1)).then(
    (shorter) => shorter === found.length,
    () => false,
  );
  if (complete) throw fault("bytes follow the end of the deflate stream", record.fullName);
  return found;
}

/** Inflates data into a buffer, and returns how many bytes it has; more than the buffer has room for if there are more. */
async function inflateInto(found: Uint8Array, data: Uint8Array): Promise<number> {
  const stream = new Blob([data as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return at;
    if (at + value.length > found.length) {
      await reader.cancel();
      return at + value.length;
    }
    found.set(value, at);
    at += value.length;
  }
}
