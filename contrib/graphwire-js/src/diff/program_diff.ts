/**
 * Differences between two programs: nodes by module and operator, inputs, outputs, ranges, versions, weights.
 *
 * Two programs are the same if their contents are; then the diff is empty. Otherwise it lists all differences, with the names that the
 * programs themselves use. A node whose results differ only because its inputs differ is a derived change.
 */

import { compareBytes, contentBytes, type Content, type ContentDict } from "../canonical/content.js";
import { arrangementOf, hashOf, programContent, type Arrangement } from "../canonical/program.js";
import type { GraphwireFile, PayloadTable } from "../files.js";
import { namesIn } from "../programs.js";
import type { PayloadMeta, Program } from "../schema.js";
import { compareText, targetOf } from "../summary.js";
import { Labels, userInputs, valueName } from "../labels.js";
import { encodedEntries, payloadFacts, SECTIONS, type Entries } from "./facts.js";
import { diffGraphs, factDetails, type Detail, type Names, type NodeChange, type OnMatch, type Side } from "./nodes.js";
import { compactJson } from "./plain.js";
import { ABSENT, renamed, renamedEntries, renumberingOf, SAME_NUMBERS, type Renumbering } from "./renumbering.js";
import { comparePayloads, withUnread, type Compared, type HeldPayloads, type RecordFacts } from "./weights.js";

/** The largest number of differing places in the contents to list if no other change explains the difference. */
const MAX_OTHERS = 50;
const MAX_TEXT = 120;

/** An entry of a section that only one side has, or that differs between the two sides. */
export interface Change {
  readonly section: string;
  readonly change: "added" | "removed" | "changed";
  readonly name: string;
  readonly details?: readonly Detail[];
}

/** The differences between two programs, A and B. */
export interface Diff {
  readonly same: boolean;
  /** The content hash of A, without its weights. */
  readonly hash_a: string;
  readonly hash_b: string;
  /** The number of nodes in the top-level graph of A. */
  readonly nodes_a: number;
  readonly nodes_b: number;
  readonly changes: readonly Change[];
  /** The changed nodes in the order of B; removed nodes at their former position. */
  readonly nodes: readonly NodeChange[];
  /** What was compared of the weights and constants that both have, by section (`weight`, `constant`). */
  readonly compared?: ReadonlyMap<string, Compared>;
}

/** The tables of a program's payloads, whose metadata a diff compares. */
export interface PayloadTables {
  readonly weights: PayloadTable;
  readonly constants: PayloadTable;
  /** What the file says about the record of a payload; absent if checksums are not compared. */
  readonly facts?: (kind: "weights" | "constants", payload: PayloadMeta) => RecordFacts | null;
}

/**
 * Returns the differences between two programs.
 *
 * @param payloads without tables of both programs, payloads are not compared
 * @param onMatch receives the matching nodes of each graph, also of equal programs
 * @param renumbered which layers have other numbers, if that is known better than the payloads tell
 */
export function diffPrograms(a: Program, b: Program, payloads?: readonly [PayloadTables, PayloadTables], onMatch?: OnMatch, renumbered?: Renumbering): Diff {
  const forms = [arrangementOf(a), arrangementOf(b)] as const;
  const contents = forms.map(programContent) as [ContentDict, ContentDict];
  const [bytesA, bytesB] = contents.map(contentBytes) as [Uint8Array, Uint8Array];
  const equal = compareBytes(bytesA, bytesB) === 0;
  const layers = equal ? SAME_NUMBERS : (renumbered ?? renumberingOf(a, b, payloads === undefined ? undefined : [checksumsOf(payloads[0]), checksumsOf(payloads[1])]));
  const changes: Change[] = layerChanges(layers);
  const compared = new Map<string, Compared>();
  let nodes: readonly NodeChange[] = [];
  if (equal) {
    if (onMatch !== undefined) programChanges(forms, layers, onMatch);
    const encoded = entryChanges("encoded value", encodedEntries(a), encodedEntries(b));
    changes.push(...encoded.filter(({ change }) => change === "changed"));
  } else {
    const found = programChanges(forms, layers, onMatch);
    nodes = found.nodes;
    changes.push(...found.changes);
    if (changes.length === 0 && nodes.length === 0) changes.push(...otherChanges(contents[0], contents[1]).slice(0, MAX_OTHERS));
  }
  if (payloads !== undefined) {
    const [tablesA, tablesB] = payloads;
    for (const [section, kind] of [["weight", "weights"], ["constant", "constants"]] as const) {
      const found = comparePayloads(renamedEntries(layers, heldIn(tablesA, kind, section, a)), heldIn(tablesB, kind, section, b));
      if (found.compared !== null && tablesA.facts !== undefined) compared.set(section, found.compared);
      const entries = [renamedEntries(layers, payloadEntries(tablesA[kind])), payloadEntries(tablesB[kind])] as const;
      for (const [name, texts] of found.texts) entries.forEach((each, side) => each.get(name)?.set("elements", texts[side as 0 | 1]));
      changes.push(...entryChanges(section, ...entries));
    }
  }
  return {
    same: equal && changes.length === 0,
    hash_a: hashOf(bytesA),
    hash_b: hashOf(bytesB),
    nodes_a: a.graph_module.graph.nodes.length,
    nodes_b: b.graph_module.graph.nodes.length,
    changes,
    nodes,
    ...(compared.size > 0 ? { compared } : {}),
  };
}

function layerChanges({ numbers, added }: Renumbering): Change[] {
  const changes = Array.from(numbers, ([before, after]): Change[] => {
    if (after.endsWith(ABSENT)) return [changeOf("layer", "removed", before, [])];
    return before === after ? [] : [changeOf("layer", "changed", after, [{ what: "path", a: before, b: after }])];
  });
  return [...changes.flat(), ...added.map((path) => changeOf("layer", "added", path, []))];
}

/** Returns for each weight a text that is equal if its elements are, as far as the file lists what tells. */
function checksumsOf({ weights, constants, facts }: PayloadTables): Map<string, string> {
  const found = new Map<string, string>();
  for (const [kind, table] of [["weights", weights], ["constants", constants]] as const) {
    for (const [name, meta] of table) {
      const known = facts?.(kind, meta)?.checksums ?? new Map<string, string>();
      if (known.size > 0) found.set(name, JSON.stringify([...known].sort()));
    }
  }
  return found;
}

function heldIn(tables: PayloadTables, kind: "weights" | "constants", section: "weight" | "constant", program: Program): HeldPayloads {
  const held = Array.from(tables[kind], ([name, meta]) => [name, { meta, stored: tables.facts?.(kind, meta) ?? null }] as const);
  return withUnread(new Map(held), section, program);
}

/** The differences of the programs in two files, as `graphwire diff --json` prints them. */
export interface FileDiff {
  readonly same: boolean;
  readonly removed: readonly string[];
  readonly added: readonly string[];
  readonly programs: ReadonlyMap<string, Diff>;
}

/** Returns the differences of the programs in two files. Reads no weights. */
export async function diffFiles(a: GraphwireFile, b: GraphwireFile): Promise<FileDiff> {
  const [namesA, namesB] = [a.programNames, b.programNames];
  const alone = namesA.length === 1 && namesB.length === 1;
  const common = alone ? namesA : namesA.filter((name) => namesB.includes(name));
  const programs = new Map<string, Diff>();
  for (const name of common) {
    const other = alone ? (namesB[0] ?? name) : name;
    const tables = [await tablesOf(a, name), await tablesOf(b, other)] as const;
    programs.set(name, diffPrograms(await a.program(name), await b.program(other), tables));
  }
  const removed = alone ? [] : namesA.filter((name) => !namesB.includes(name));
  const added = alone ? [] : namesB.filter((name) => !namesA.includes(name));
  const same = removed.length === 0 && added.length === 0 && [...programs.values()].every((each) => each.same);
  return { same, removed, added, programs };
}

async function tablesOf(file: GraphwireFile, name: string): Promise<PayloadTables> {
  if (file.archive === null) return { weights: new Map(), constants: new Map(), facts: () => null };
  const { weights, constants } = await file.partialPayloads(name);
  return { weights, constants, facts: await file.recordFacts(name) };
}

function programChanges([formA, formB]: readonly [Arrangement, Arrangement], layers: Renumbering, onMatch?: OnMatch): { changes: Change[]; nodes: readonly NodeChange[] } {
  const [inputsA, inputsB] = [userInputNames(formA.program), userInputNames(formB.program)];
  const called = Array.from({ length: Math.max(inputsA.length, inputsB.length) }, (_, index) => {
    return inputsA[index] === undefined || inputsA[index] === "" ? (inputsB[index] ?? "") : inputsA[index];
  });
  const side = ({ program, symbols, ordering }: Arrangement): Side => ({
    graph: program.graph_module.graph,
    identities: identitiesOf(program),
    labels: new Labels(program, symbols, called),
    ordering,
  });
  const b = side(formB);
  const plain = { ...side(formA), identities: identitiesOf(formA.program, layers) };
  const a = layers.numbers.size === 0 ? plain : { ...plain, renamed: (path: string) => renamed(layers, path) };
  const { changes: nodes, names } = diffGraphs(a, b, onMatch);
  const changes = SECTIONS.flatMap(([section, entries]) => {
    const [entriesA, entriesB] = [renamedEntries(layers, entries(formA.program, a.labels)), entries(formB.program, b.labels)];
    if (section === "output") {
      noteSources(formA.program, entriesA, names);
      noteSources(formB.program, entriesB, null);
    }
    return entryChanges(section, entriesA, entriesB);
  });
  return { changes, nodes };
}

function userInputNames(program: Program): string[] {
  return program.graph_module.signature.input_specs.flatMap((spec) => {
    if (spec.variant === "user_input") return [valueName(spec.value.arg) ?? spec.value.name ?? ""];
    return spec.variant === "constant_input" ? [spec.value.name] : [];
  });
}

const HELD: Readonly<Partial<Record<string, string>>> = {
  parameter: "parameter",
  buffer: "buffer",
  tensor_constant: "constant",
  custom_obj: "object",
};

/** Returns for each input, by name, a text that identifies it and is the same in both programs. */
function identitiesOf(program: Program, layers = SAME_NUMBERS): Map<string, string> {
  const found = new Map<string, string>();
  let tokens = 0;
  for (const spec of program.graph_module.signature.input_specs) {
    const kind = HELD[spec.variant];
    if (spec.variant === "token") found.set(spec.value.arg.name, `token ${tokens++}`);
    else if (kind !== undefined) found.set((spec.value as { arg: { name: string } }).arg.name, `${kind} ${renamed(layers, targetOf(spec.value))}`);
  }
  userInputs(program).forEach((argument, position) => {
    for (const name of namesIn(argument)) found.set(name, `argument ${position}`);
  });
  return found;
}

/** Adds to the facts of each output the name on side B of the value that it returns. */
function noteSources(program: Program, outputs: Entries, names: Names | null): void {
  const facts = [...outputs.values()];
  program.graph_module.graph.outputs.forEach((argument, index) => {
    for (const name of namesIn(argument)) facts[index]?.set("value", names === null ? name : (names.get(name) ?? `${name} (of A only)`));
  });
}

function entryChanges(section: string, a: Entries, b: Entries): Change[] {
  return [...new Set([...a.keys(), ...b.keys()])].flatMap((name): Change[] => {
    const [one, other] = [a.get(name), b.get(name)];
    const listed = (facts: Entries, side: (text: string) => Detail): Detail[] =>
      Array.from(facts.get(name) ?? [], ([what, text]) => ({ ...side(text), what }));
    if (other === undefined) return [changeOf(section, "removed", name.replace(ABSENT, ""), listed(a, (text) => ({ what: "", a: text, b: "" })))];
    if (one === undefined) return [changeOf(section, "added", name, listed(b, (text) => ({ what: "", a: "", b: text })))];
    const details = factDetails(one, other);
    return details.length > 0 ? [changeOf(section, "changed", name, details)] : [];
  });
}

function changeOf(section: string, change: Change["change"], name: string, details: readonly Detail[]): Change {
  const ordered = details.map(({ what, a, b }) => ({ what, a, b }));
  return { section, change, name, ...(ordered.length > 0 ? { details: ordered } : {}) };
}

function payloadEntries(table: PayloadTable): Entries {
  return new Map(Array.from(table, ([name, payload]) => [name, payloadFacts(payload)] as const));
}

/** Returns the places in which two contents differ. */
function otherChanges(a: Content, b: Content, place = ""): Change[] {
  if (isDict(a) && isDict(b)) {
    const keys = new Set([...sortedKeys(a), ...sortedKeys(b)]);
    return [...keys].flatMap((key) => otherChanges(a[key] ?? null, b[key] ?? null, place === "" ? key : `${place}.${key}`));
  }
  if (isList(a) && isList(b) && a.length === b.length) {
    return a.flatMap((each, index) => otherChanges(each, b[index] ?? null, `${place}[${index}]`));
  }
  if (compareBytes(contentBytes(a), contentBytes(b)) === 0) return [];
  const text = (content: Content): string => Array.from(contentJson(content)).slice(0, MAX_TEXT).join("");
  return [changeOf("document", "changed", place, [{ what: "value", a: text(a), b: text(b) }])];
}

function isList(content: Content): content is readonly Content[] {
  return Array.isArray(content);
}

function isDict(content: Content): content is ContentDict {
  return typeof content === "object" && content !== null && !Array.isArray(content) && !(content instanceof Uint8Array);
}

function sortedKeys(dict: ContentDict): string[] {
  return Object.keys(dict).sort(compareText);
}

function contentJson(content: Content): string {
  if (isList(content)) return `[${content.map(contentJson).join(",")}]`;
  if (!isDict(content)) return compactJson(content);
  return `{${sortedKeys(content).map((key) => `${JSON.stringify(key)}:${contentJson(content[key] ?? null)}`).join(",")}}`;
}
