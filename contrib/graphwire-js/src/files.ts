/** Files: the programs of an archive, their payloads, and where weights are, read on demand. */

import { beginsAsArchive, openArchive, type Archive } from "./archive.js";
import { sha256Hex } from "./checksums.js";
import { GraphwireError } from "./errors.js";
import type { RecordFacts } from "./diff/weights.js";
import { FORMATS, formatOf, type WireFormat } from "./formats.js";
import { jsonOf } from "./json.js";
import { DEFAULT_LIMITS, type Limits } from "./limits.js";
import { checkReferences, CHUNK, Stores, type Resolver } from "./stores.js";
import { elementsOf, placeOf, typedArray, type TensorData } from "./tensors.js";
import { dtypeName } from "./enumerations.js";
import { isBigEndian, readPickledTable, readTorchSave, type PickledTable } from "./pickles.js";
import { programOf } from "./programs.js";
import {
  MANIFEST,
  PAYLOAD_CONFIG,
  PLUGIN_REQUIREMENT,
  WEIGHT_REFERENCES,
  type EncodedValue,
  type PayloadMeta,
  type Program,
  type WeightReferences,
} from "./schema.js";
import { blobSource, bufferSource, urlSource, type ByteSource } from "./source.js";
import { checkHeld, checkListed, checkPayloads, extensionsOf } from "./validation/payloads.js";
import { checkProgram } from "./validation/programs.js";
import { type Tree } from "./trees.js";
import { dict, readAs, type Of } from "./types.js";

/** What `openFile` opens: a `File` or `Blob`, a buffer, a URL whose server supports range requests, or any source. */
export type Openable = Blob | ArrayBuffer | Uint8Array | URL | ByteSource;

export interface OpenOptions {
  readonly limits?: Partial<Limits>;
  /** Opens files beside the program's file that have its weights. Without it, only weights in the file can be read. */
  readonly resolve?: Resolver;
  /** The rank whose weights are read, of a program that runs on several. */
  readonly rank?: number;
  /** Gets what breaks a rule of the format, in a program that is only shown. Without it, such a program is refused. */
  readonly onProblem?: (problem: GraphwireError) => void;
}

interface Settings {
  readonly limits: Limits;
  readonly resolve: Resolver | null;
  readonly rank: number | null;
  readonly onProblem: ((problem: GraphwireError) => void) | null;
}

/** An arrangement of records in an archive. */
export interface Layout {
  readonly name: string;
  readonly title: string;
}

const LAYOUTS = {
  A4: { name: "A4", title: "A4 (torch 2.4 to 2.7)" },
  B1: { name: "B1", title: "B1 (torch 2.8)" },
  B2: { name: "B2", title: "B2 (torch 2.9 and later)" },
  none: { name: "", title: "" },
} as const satisfies Record<string, Layout>;

export type Kind = "weights" | "constants" | "sample_inputs";
const KINDS: readonly Kind[] = ["weights", "constants", "sample_inputs"];

/** Where the pickles of layout A4 are. */
const PICKLES: Readonly<Record<Kind, string>> = {
  weights: "serialized_state_dict.pt",
  constants: "serialized_constants.pt",
  sample_inputs: "serialized_example_inputs.pt",
};
const A4_DOCUMENT = "serialized_exported_program.json";
const REFERENCES = "data/weights/references.json";
const PROVIDERS = "data/wire_formats.json";
export const MANIFEST_RECORD = "manifest.json";

/** The payloads of a program, by qualified name in the order of the file. */
export type PayloadTable = ReadonlyMap<string, PayloadMeta>;
export type Payloads = Readonly<Record<Kind, PayloadTable>> & {
  /** Why the example inputs cannot be read; empty if they can. */
  readonly unread: string;
  /** The values of codecs that are in files of `torch.save`, which the document lacks. */
  readonly encoded: ReadonlyMap<string, EncodedValue>;
  /** The extensions that the program needs because of what torch wrote beside it, which its document does not list. */
  readonly features: readonly string[];
};

/** What the configs of a program list: all names, and the entries that are no pickles, as they are stated. */
interface Listed {
  readonly names: ReadonlySet<string>;
  readonly stated: readonly (readonly [string, PayloadMeta])[];
}

const NO_PAYLOADS: PayloadTable = new Map();

interface Document {
  readonly record: string;
  readonly suffix: string;
}

/** Opens a file: reads its directory, and no record. */
export async function openFile(what: Openable, options: OpenOptions = {}): Promise<GraphwireFile> {
  const settings: Settings = { resolve: null, rank: null, onProblem: null, ...options, limits: { ...DEFAULT_LIMITS, ...options.limits } };
  const { limits } = settings;
  const source = await sourceOf(what);
  const head = await source.read(0, Math.min(source.size, 8));
  if (beginsAsArchive(head)) return new GraphwireFile(source, await openArchive(source, limits), settings);
  const format = FORMATS.find((each) => each.matches(head));
  if (format === undefined) throw new GraphwireError("archive", "neither a zip archive nor a document");
  return new GraphwireFile(source, null, settings, format);
}

async function sourceOf(what: Openable): Promise<ByteSource> {
  if (what instanceof ArrayBuffer || what instanceof Uint8Array) return bufferSource(what);
  if (what instanceof Blob) return blobSource(what);
  return what instanceof URL ? urlSource(what) : what;
}

/** An open file. */
export class GraphwireFile {
  readonly layout: Layout;
  /** The document of each program, by the program's name. */
  private readonly documents: ReadonlyMap<string, Document>;
  private readonly programs = new Map<string, Promise<Program>>();
  private readonly tables = new Map<string, Promise<Payloads>>();
  /** The names in the configs that payloads were read from, those of pickled tensors included. */
  private readonly listed = new WeakMap<Payloads, Listed>();
  private readonly pickles = new Map<string, Promise<PickledTable | null>>();
  private readonly elsewhere = new Map<"", Promise<WeightReferences | null>>();
  private readonly limits: Limits;

  constructor(
    readonly source: ByteSource,
    /** The records; null if the file is a document alone. */
    readonly archive: Archive | null,
    private readonly settings: Settings,
    private readonly bare?: WireFormat,
  ) {
    this.limits = settings.limits;
    this.documents = archive === null ? new Map([["model", { record: "", suffix: bare?.suffix ?? "" }]]) : documentsOf(archive);
    this.layout = archive === null ? LAYOUTS.none : layoutOf(archive, this.documents);
  }

  /** The names of the programs, in the order of the file. */
  get programNames(): string[] {
    return [...this.documents.keys()];
  }

  /** The names of the records with the programs. */
  get documentRecords(): string[] {
    return Array.from(this.documents.values(), ({ record }) => record);
  }

  private document(name: string | undefined): readonly [name: string, document: Document] {
    const chosen = name ?? (this.documents.size === 1 ? this.programNames[0] : undefined);
    if (chosen === undefined) throw new GraphwireError("missing", `the file has several programs: ${this.programNames.join(", ")}`);
    const found = this.documents.get(chosen);
    if (found === undefined) throw new GraphwireError("missing", `the file has no program ${JSON.stringify(chosen)}`);
    return [chosen, found];
  }

  /** Returns the wire format of a program, and the sizes of its document in bytes: inflated, and in the file. */
  facts(name?: string): { format: string; programBytes: number; storedBytes: number } {
    const [, { record, suffix }] = this.document(name);
    const format = formatOf(suffix, record).name;
    if (this.archive === null) return { format, programBytes: this.source.size, storedBytes: this.source.size };
    const { size = 0, storedSize = 0 } = this.archive.records.get(record) ?? {};
    return { format, programBytes: size, storedBytes: storedSize };
  }

  /** Reads a program; without a name, the only one of the file. */
  program(name?: string): Promise<Program> {
    const [chosen, { record, suffix }] = this.document(name);
    return once(this.programs, chosen, async () => {
      const provider = this.archive === null ? "" : await this.provider(suffix);
      const format = formatOf(suffix, record, provider);
      const program = programOf(await this.tree(record, format), record);
      this.check(() => { checkProgram(program, record); });
      return program;
    });
  }

  private check(rule: () => void): void {
    const { onProblem } = this.settings;
    if (onProblem === null) {
      rule();
      return;
    }
    try {
      rule();
    } catch (error) {
      if (!(error instanceof GraphwireError)) throw error;
      onProblem(error);
    }
  }

  /** Reads the tree of a file that is a document alone, whether it is a program or not. */
  bareTree(): Promise<Tree> {
    if (this.bare === undefined) throw new GraphwireError("document", "the file is an archive");
    return this.tree("", this.bare);
  }

  private async tree(record: string, format: WireFormat): Promise<Tree> {
    const size = this.archive?.records.get(record)?.size ?? this.source.size;
    if (size > this.limits.programBytes) {
      throw new GraphwireError("limit", `the document has more than ${this.limits.programBytes} bytes`, record);
    }
    const bytes = this.archive === null ? await this.source.read(0, this.source.size) : await this.archive.read(record);
    try {
      return format.read(bytes, this.limits);
    } catch (error) {
      if (error instanceof GraphwireError && error.place === "") throw new GraphwireError(error.kind, error.message, record);
      throw error;
    }
  }

  private async provider(suffix: string): Promise<string> {
    if (FORMATS.some((format) => format.suffix === suffix) || this.archive?.records.has(PROVIDERS) !== true) return "";
    const providers = readAs(dict(PLUGIN_REQUIREMENT), await this.json(PROVIDERS), PROVIDERS);
    return providers.get(suffix)?.distribution ?? "";
  }

  private async json(record: string): Promise<Tree> {
    if (this.archive === null) throw new GraphwireError("missing", "a document alone has no records", record);
    return jsonOf(await this.archive.read(record), record, this.limits);
  }

  /** Reads the tables of a program's weights, constants and sample inputs, and none of their elements. */
  async payloads(name?: string): Promise<Payloads> {
    const [chosen] = this.document(name);
    const found = await this.partialPayloads(chosen);
    const listed = this.listed.get(found);
    if (listed !== undefined) {
      const program = await this.program(chosen);
      const elsewhere = await this.references();
      const names = new Set([elsewhere?.records, ...(elsewhere?.ranks ?? [])].flatMap((table) => [...(table?.keys() ?? [])]));
      const isElsewhere = (["weights", "constants"] as const).some((kind) =>
        !this.isPickled(kind, chosen) && [...found[kind].values()].some((payload) => names.has(this.recordOf(kind, payload))),
      );
      this.check(() => {
        if (isElsewhere && !program.requires.includes("external-weights")) {
          throw new GraphwireError("document", "the extension external-weights is used, but not in requires", chosen);
        }
        checkHeld(program, found.weights, found.constants, listed.names);
        checkListed(program, listed.stated);
      });
    }
    return found;
  }

  /** Reads the tables as `payloads`, also where the program has weights that they lack. */
  partialPayloads(name?: string): Promise<Payloads> {
    const [chosen] = this.document(name);
    return once(this.tables, chosen, () => this.tablesOf(chosen));
  }

  private async tablesOf(name: string): Promise<Payloads> {
    const archive = this.archive;
    const records = KINDS.map((kind) => (this.isPickled(kind, name) ? "" : `data/${kind}/${name}_${kind}_config.json`));
    const present = records.filter((record) => archive?.records.has(record));
    const found = (await archive?.readMany(present)) ?? new Map<string, Uint8Array>();
    const names = new Set<string>();
    const stated: [string, PayloadMeta][] = [];
    const features = new Set<string>();
    const encoded = new Map<string, EncodedValue>();
    const table = async (kind: Kind, index: number): Promise<PayloadTable> => {
      const record = records[index] ?? "";
      if (record === "") {
        this.forbidReferences(kind);
        const saved = await this.pickled(kind, name);
        for (const each of saved?.names ?? []) names.add(each);
        const held = saved?.table ?? NO_PAYLOADS;
        for (const [each, value] of saved?.encoded ?? []) encoded.set(each, value);
        for (const each of [...held.values()].flatMap(extensionsOf)) features.add(each);
        return held;
      }
      const bytes = found.get(record);
      if (bytes === undefined) {
        if (kind === "sample_inputs") return NO_PAYLOADS;
        throw new GraphwireError("missing", "the file has no such record, which describes payloads", record);
      }
      const plain = new Map<string, PayloadMeta>();
      for (const [each, payload] of readAs(PAYLOAD_CONFIG, jsonOf(bytes, record, this.limits), record).config) {
        names.add(each);
        if (payload.use_pickle) {
          this.forbidReferences(kind);
          continue;
        }
        stated.push([each, payload]);
        const isPlaced = this.isPlaced(kind, payload);
        if (isPlaced) features.add("placement");
        plain.set(each, isPlaced ? { ...payload, placement: "meta", path_name: "" } : payload);
      }
      return plain;
    };
    const weights = await table("weights", 0);
    const constants = await table("constants", 1);
    const sample_inputs = await table("sample_inputs", 2);
    const unread = present.includes(records[2] ?? "") ? "" : await this.unreadInputs(name);
    this.check(() => { checkPayloads(weights, constants, sample_inputs); });
    if (encoded.size > 0) features.add("codecs");
    const payloads = { weights, constants, sample_inputs, unread, encoded, features: [...features] };
    this.listed.set(payloads, { names, stated });
    return payloads;
  }

  /** Throws if there are references beside weights that are pickled. */
  private forbidReferences(kind: Kind): void {
    if (kind === "weights" && this.archive?.records.has(REFERENCES) === true) {
      throw new GraphwireError("archive", "references are beside weights that are pickled", REFERENCES);
    }
  }

  /** Whether torch wrote an entry of a tensor on its meta device, which has no elements. */
  private isPlaced(kind: Kind, payload: PayloadMeta): boolean {
    const meta = payload.tensor_meta;
    if (payload.placement !== null || meta?.device.type !== "meta" || payload.shared !== null) return false;
    const record = this.recordOf(kind, payload);
    return this.archive?.records.get(record)?.size === 0 && placeOf(meta, record).needs > 0;
  }

  /** Whether the payloads of a program are in a file of `torch.save`, in the archive, and not described by a config. */
  private isPickled(kind: Kind, program: string): boolean {
    if (this.layout.name === "A4") return kind !== "sample_inputs";
    return kind !== "sample_inputs" && this.archive?.records.has(this.pickleRecord(kind, program)) === true;
  }

  /** The file of `torch.save` that has a program's payloads of a kind; null if it is empty or absent. */
  private pickled(kind: Kind, program: string): Promise<PickledTable | null> {
    const record = this.pickleRecord(kind, program);
    return once(this.pickles, record, async () => {
      if ((this.archive?.records.get(record)?.size ?? 0) === 0) return null;
      const stem = `${kind === "weights" ? "weight" : "tensor"}_${this.documents.size > 1 ? `${program}_` : ""}`;
      const bytes = (await this.archive?.read(record)) ?? new Uint8Array();
      try {
        return await readPickledTable(bytes, stem, this.limits);
      } catch (error) {
        throw error instanceof GraphwireError ? new GraphwireError("weights", error.message, record, { cause: error }) : error;
      }
    });
  }

  private pickleRecord(kind: Kind, name: string): string {
    return this.layout.name === "A4" ? PICKLES[kind] : `data/${kind}/${name}.pt`;
  }

  private async unreadInputs(name: string): Promise<string> {
    if (!this.hasPickledInputs(name)) return "";
    try {
      await readTorchSave((await this.archive?.read(this.pickleRecord("sample_inputs", name))) ?? new Uint8Array(), this.limits);
      return "";
    } catch (error) {
      if (error instanceof GraphwireError) return error.message;
      throw error;
    }
  }

  /** Whether the file has the example inputs of a program as a pickle, which this reader does not return. */
  hasPickledInputs(name: string): boolean {
    if (this.archive === null) return false;
    return (this.archive.records.get(this.pickleRecord("sample_inputs", name))?.size ?? 0) > 0;
  }

  /**
   * Reads where weights are that the file does not contain; null if it contains all. Its records are those of the rank that the file
   * was opened for.
   */
  references(): Promise<WeightReferences | null> {
    return once(this.elsewhere, "", async () => {
      if (this.archive?.records.has(REFERENCES) !== true) return null;
      const found = readAs(WEIGHT_REFERENCES, await this.json(REFERENCES), REFERENCES);
      checkReferences(found);
      for (const table of [found.records, ...found.ranks]) {
        for (const name of table.keys()) {
          if (this.archive.records.has(name)) throw new GraphwireError("archive", "the record is in the archive and elsewhere", name);
        }
      }
      return found;
    });
  }

  /** The name of the record that contains a payload, which for a pickled one is in a file of `torch.save`. */
  private recordOf(kind: Kind, payload: PayloadMeta): string {
    return payload.shared ?? `data/${kind}/${payload.path_name}`;
  }

  /** Returns a payload whose elements are in its own record, if it has one besides that which it shares. */
  async ownPayload(kind: Kind, payload: PayloadMeta, program: string): Promise<PayloadMeta> {
    const own = { ...payload, shared: null };
    if (payload.shared === null || this.archive?.records.has(this.recordOf(kind, own)) !== true) return payload;
    await this.elements(kind, { ...payload, conj: false, neg: false }, program); // the shared record has as many bytes, too
    return own;
  }

  /**
   * Returns where the elements of a payload are: in the file, in a store, in records that differ between ranks, with the caller, or
   * nowhere (it has none).
   */
  async whereIs(kind: Kind, payload: PayloadMeta, program?: string): Promise<"file" | "store" | "ranks" | "caller" | "nowhere"> {
    const [chosen] = this.document(program);
    if (payload.placement !== null) return "nowhere";
    const record = this.recordOf(kind, payload);
    if (this.isPickled(kind, chosen) || this.archive?.records.has(record) === true) return "file";
    const references = await this.references();
    const reference = references?.records.get(record);
    const stated = reference ?? references?.ranks[0]?.get(record);
    if (stated === undefined) throw new GraphwireError("missing", "the file has no such record", record);
    if (payload.tensor_meta !== null && BigInt(placeOf(payload.tensor_meta, record).needs) > stated.nbytes) {
      throw new GraphwireError("document", "the record is too short for the tensor", record);
    }
    if (reference === undefined || references?.ranks.some((rank) => rank.has(record)) === true) return "ranks";
    return reference.regions.length > 0 || reference.nbytes === 0n ? "store" : "caller";
  }

  /** Reads the elements of a payload that differs between ranks, those of every rank. */
  async checkRanks(kind: Kind, payload: PayloadMeta): Promise<void> {
    const [references, { resolve }] = [await this.references(), this.settings];
    if (references === null || resolve === null) return;
    for (const rank of references.ranks.keys()) {
      const own = ofRank(references, rank);
      const record = this.recordOf(kind, payload);
      if ((own.records.get(record)?.regions.length ?? 0) > 0) await new Stores(own, resolve).read(record);
    }
  }

  /** Returns what the file says, without reading elements, about the records that contain payloads of a program. */
  async recordFacts(name?: string): Promise<(kind: Kind, payload: PayloadMeta) => RecordFacts | null> {
    const [program] = this.document(name);
    const isBigEndian = await this.isBigEndian();
    const references = await this.references();
    const elsewhere = references === null || (references.ranks.length > 1 && this.settings.rank === null) ? null : ofRank(references, this.settings.rank).records;
    const pickles = new Map<Kind, PickledTable | null>();
    for (const kind of KINDS) if (this.isPickled(kind, program)) pickles.set(kind, await this.pickled(kind, program));
    return (kind, payload) => {
      const saved = pickles.get(kind);
      if (saved?.isBigEndian ?? isBigEndian) return null;
      const record = this.recordOf(kind, payload);
      const held = saved === undefined ? this.archive?.records.get(record) : saved?.storages.get(payload.path_name);
      if (held !== undefined) {
        return { nbytes: held.size, checksums: new Map(held.crc === 0 ? [] : [["CRC-32", held.crc.toString(16).padStart(8, "0")]]) };
      }
      const { nbytes, sha256 } = elsewhere?.get(record) ?? { nbytes: 0n, sha256: "" };
      const digest = nbytes <= CHUNK ? "SHA-256" : "SHA-256 of chunks";
      return sha256 === "" ? null : { nbytes: Number(nbytes), checksums: new Map([[digest, sha256]]) };
    };
  }

  /** Reads the bytes of the record that contains a payload. */
  private async storage(kind: Kind, payload: PayloadMeta, program: string): Promise<Uint8Array> {
    const record = this.recordOf(kind, payload);
    if (this.archive === null) throw new GraphwireError("missing", "a document alone has no weights", record);
    if (this.isPickled(kind, program)) {
      const saved = await this.pickled(kind, program);
      if (saved === null || payload.placement !== null) throw new GraphwireError("missing", "the tensor has no elements", record);
      return saved.read(payload.path_name);
    }
    const where = await this.whereIs(kind, payload, program);
    if (where === "file") return this.archive.read(record);
    const references = await this.references();
    if (where === "nowhere" || references === null) throw new GraphwireError("missing", "the tensor has no elements", record);
    if (this.settings.resolve === null) throw new GraphwireError("missing", "the weights are not in the file", record);
    return new Stores(ofRank(references, this.settings.rank), this.settings.resolve).read(record);
  }

  /**
   * Reads the elements of a payload: contiguous in row-major order, little-endian. For the elements as they are stored, without a
   * pending conjugation or negation, pass a payload without these.
   */
  async elements(kind: Kind, payload: PayloadMeta, program?: string): Promise<Uint8Array> {
    const [chosen] = this.document(program);
    const place = `data/${kind}/${payload.path_name}`;
    const ofStore = (await this.whereIs(kind, payload, chosen)) !== "file";
    const saved = this.isPickled(kind, chosen) ? await this.pickled(kind, chosen) : null;
    const isBigEndian = saved?.isBigEndian ?? (!ofStore && (await this.isBigEndian()));
    return elementsOf(payload, await this.storage(kind, payload, chosen), place, isBigEndian);
  }

  /** Reads a payload as a typed array, by its qualified name. */
  async tensor(name: string, kind: Kind = "weights", program?: string): Promise<TensorData> {
    const payload = (await this.payloads(program))[kind].get(name);
    if (payload === undefined) throw new GraphwireError("missing", `no such tensor among the ${kind}`, name);
    const elements = await this.elements(kind, payload, program);
    if (payload.tensor_meta === null) throw new GraphwireError("missing", "the payload is no tensor", name);
    return typedArray(elements, dtypeName(payload.tensor_meta), placeOf(payload.tensor_meta, name).sizes);
  }

  private async isBigEndian(): Promise<boolean> {
    return this.archive !== null && isBigEndian(this.archive);
  }

  /**
   * Reads every record and compares it with its CRC-32 and its digest in the manifest. Returns the problems. That a file which graphwire
   * wrote has no manifest is one.
   */
  async verify(): Promise<string[]> {
    const { archive } = this;
    const lacks = archive !== null && !archive.records.has(MANIFEST_RECORD) && !archive.records.has(".data/serialization_id");
    const problems = lacks && this.layout.name === "B2" ? [`${MANIFEST_RECORD}: the file has no manifest`] : [];
    return [...problems, ...(await this.differences())];
  }

  /** Reads every record and compares it with its CRC-32, and with its digest if the file has a manifest. Returns the differences. */
  async differences(): Promise<string[]> {
    if (this.archive === null) return [];
    const digests = await this.digests();
    const problems: string[] = [];
    const manifest = await this.manifest();
    if (manifest === null) return [];
    const listed = new Set<string>();
    const list = (name: string): void => {
      if (listed.has(name)) problems.push(`${name}: the manifest lists it twice`);
      listed.add(name);
      if (!digests.has(name)) problems.push(`${name}: the manifest lists it, and the file lacks it`);
    };
    for (const [name, digest] of manifest.sha256) {
      list(name);
      const found = digests.get(name);
      if (found !== undefined && found !== digest.toLowerCase()) problems.push(`${name}: differs from its digest`);
    }
    for (const { sizes, sha256 } of manifest.together) {
      for (const name of sizes.keys()) list(name);
      const names = [...sizes.keys()].filter((name) => digests.has(name));
      const records = names.map((name) => this.archive?.records.get(name)?.size);
      const sized = names.filter((name, index) => BigInt(records[index] ?? 0) !== sizes.get(name));
      problems.push(...sized.map((name) => `${name}: differs from its size in the manifest`));
      const bytes = await this.archive.readMany(names);
      const found = sha256Hex(...names.map((name) => bytes.get(name) ?? new Uint8Array()));
      if (found !== sha256.toLowerCase()) problems.push(`${names.join(", ")}: differ from their digest`);
    }
    for (const name of digests.keys()) {
      if (name !== MANIFEST_RECORD && !listed.has(name)) problems.push(`${name}: the manifest lacks it`);
    }
    return problems;
  }

  /** Reads every record, and returns the SHA-256 of each, by name in the order of the directory. */
  async digests(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (const name of this.archive?.records.keys() ?? []) {
      found.set(name, sha256Hex((await this.archive?.read(name)) ?? new Uint8Array()));
    }
    return found;
  }

  /** Reads the manifest; null if the file has none. */
  async manifest(): Promise<Of<typeof MANIFEST> | null> {
    if (this.archive?.records.has(MANIFEST_RECORD) !== true) return null;
    return readAs(MANIFEST, await this.json(MANIFEST_RECORD), MANIFEST_RECORD);
  }
}

/** Returns references with the records of one rank. */
function ofRank(references: WeightReferences, rank: number | null): WeightReferences {
  const { ranks } = references;
  if (ranks.length === 0) return references;
  const own = ranks[rank ?? (ranks.length === 1 ? 0 : -1)];
  if (own === undefined) throw new GraphwireError("missing", `the weights are those of ${ranks.length} ranks; choose one`);
  return { ...references, records: new Map([...references.records, ...own]) };
}

function once<K, T>(cache: Map<K, Promise<T>>, key: K, make: () => Promise<T>): Promise<T> {
  const known = cache.get(key);
  if (known !== undefined) return known;
  const made = make();
  cache.set(key, made);
  return made;
}

function documentsOf(archive: Archive): Map<string, Document> {
  const found = new Map<string, Document>();
  for (const record of archive.records.keys()) {
    const [, name, suffix] = /^models\/(.*?)(\.[^./]*)$/s.exec(record) ?? [];
    if (name === undefined || suffix === undefined) continue;
    if (found.has(name)) throw new GraphwireError("archive", `two documents of the program ${JSON.stringify(name)}`, record);
    found.set(name, { record, suffix });
  }
  if (found.size === 0 && archive.records.has(A4_DOCUMENT)) found.set("model", { record: A4_DOCUMENT, suffix: ".json" });
  if (found.size === 0) throw new GraphwireError("archive", "the archive contains no program");
  return found;
}

function layoutOf(archive: Archive, documents: ReadonlyMap<string, Document>): Layout {
  if (archive.records.has(A4_DOCUMENT)) return LAYOUTS.A4;
  return [...documents.keys()].some((name) => archive.records.has(`data/weights/${name}.pt`)) ? LAYOUTS.B1 : LAYOUTS.B2;
}
