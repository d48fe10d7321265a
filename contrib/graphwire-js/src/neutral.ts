/** Neutral JSON: everything that this reader finds in a file, in the form in which readers are compared. */

import { sha256Hex } from "./checksums.js";
import { contentHash } from "./canonical/program.js";
import { MANIFEST_RECORD, type GraphwireFile, type Kind } from "./files.js";
import { GraphwireError } from "./errors.js";
import { PAYLOAD_META, PROGRAM, WEIGHT_REFERENCES, type PayloadMeta } from "./schema.js";
import { taggedTree, type Neutral } from "./types.js";

/** Checks a whole file, and returns its neutral JSON. */
export async function neutral(file: GraphwireFile): Promise<Neutral> {
  if (file.archive === null) return { tree: taggedTree(await file.bareTree()) };
  const problems = await file.differences();
  if (problems.length > 0) throw new GraphwireError("integrity", problems.join("\n"));
  const references = await file.references();
  const rows = <T>(make: (name: string) => Promise<T>): Promise<(readonly [string, T])[]> =>
    Promise.all(file.programNames.map(async (name) => [name, await make(name)] as const));
  return {
    archive: await archiveNeutral(file),
    programs: { dict: await rows((name) => programNeutral(file, name)) },
    payloads: { dict: await rows((name) => payloadsNeutral(file, name)) },
    hash: { dict: await rows(async (name) => contentHash(await file.program(name))) },
    ...(references === null ? {} : { references: WEIGHT_REFERENCES.neutral(references) }),
  };
}

async function programNeutral(file: GraphwireFile, name: string): Promise<Neutral> {
  const [program, { features, encoded }] = [await file.program(name), await file.payloads(name)];
  const requires = [...program.requires, ...features.filter((each) => !program.requires.includes(each))];
  const encoded_values = new Map([...program.encoded_values, ...encoded, ...program.encoded_values]); // keeps the first place, and the last value
  return PROGRAM.neutral(features.length === 0 ? program : { ...program, requires: requires.sort(), encoded_values });
}

const DROPPED = new Set([MANIFEST_RECORD, "data/wire_formats.json"]);

async function archiveNeutral(file: GraphwireFile): Promise<Neutral> {
  const digests = await file.digests();
  const documents = new Set(file.documentRecords);
  const records = [...digests].filter(([name]) => !DROPPED.has(name) && !documents.has(name));
  return {
    layout: file.layout.name,
    manifest: digests.has(MANIFEST_RECORD),
    records: records.map(([name, sha256]) => {
      return { name, nbytes: { int: String(file.archive?.records.get(name)?.size ?? 0) }, sha256 };
    }),
  };
}

async function payloadsNeutral(file: GraphwireFile, program: string): Promise<Neutral> {
  const tables = await file.payloads(program);
  const table = async (kind: Kind): Promise<Neutral> => {
    const rows: Neutral[] = [];
    for (const [name, payload] of tables[kind]) rows.push([name, await payloadNeutral(file, kind, payload, program)]);
    return { dict: rows };
  };
  return { weights: await table("weights"), constants: await table("constants"), sample_inputs: await table("sample_inputs") };
}

async function payloadNeutral(file: GraphwireFile, kind: Kind, payload: PayloadMeta, program: string): Promise<Neutral> {
  const where = await file.whereIs(kind, payload, program);
  const fields = PAYLOAD_META.neutral(payload) as { readonly [key: string]: Neutral };
  if (where === "ranks") await file.checkRanks(kind, payload);
  if ((where !== "file" && where !== "store") || payload.use_pickle) return { ...fields, where };
  const own = await file.ownPayload(kind, payload, program);
  return { ...fields, where, sha256: sha256Hex(await file.elements(kind, { ...own, conj: false, neg: false }, program)) };
}
