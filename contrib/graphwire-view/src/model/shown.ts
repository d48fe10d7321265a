/** What the page shows of one method of a file. */

import { summarizeProgram, type Payloads, type Program, type Summary } from "graphwire-js";

import type { Facts, MethodFacts } from "../facts.js";
import type { Opened, OpenedFile } from "../opened.js";
import { itemsOf, type ProgramItems } from "./build.js";
import { arrange } from "./runs.js";
import { Work } from "./costs.js";
import { differenceOf, type Difference } from "./difference.js";
import { addBytes, weightsOf, type Weight } from "./weights.js";

/** One method of a file, and everything derived from it. */
export interface Side {
  readonly opened: OpenedFile;
  readonly name: string;
  readonly program: Program;
  readonly summary: Summary;
  readonly items: ProgramItems;
  readonly weights: readonly Weight[];
  readonly facts: MethodFacts;
  readonly work: Work;
}

/** What the page shows: one method, or the difference of two. */
export interface Shown {
  /** In a difference the second one, with the items of both. */
  readonly side: Side;
  readonly before: Side | null;
  readonly difference: Difference | null;
  readonly facts: Facts;
}

/** Returns the names of the methods that can be shown: those of the only file, or those that both files have. */
export function methodNames({ files: [first, second] }: Opened): string[] {
  const names = first?.file.programNames ?? [];
  if (second === undefined) return names;
  const others = second.file.programNames;
  return names.length === 1 && others.length === 1 ? others : others.filter((name) => names.includes(name));
}

/** Returns what the page shows of a method; of the first one if there is none of that name. */
export async function shownOf({ files, facts }: Opened, wanted: string | null): Promise<Shown> {
  const names = methodNames({ files, facts });
  const name = wanted !== null && names.includes(wanted) ? wanted : names[0];
  const [first, second] = files;
  if (first === undefined || name === undefined) throw new Error("the files have no method in common");
  if (second === undefined) {
    const side = await sideOf(first, name);
    arrange(side.items.root, side.items.all);
    return { side, before: null, difference: null, facts };
  }
  const earlier = first.file.programNames;
  const before = await sideOf(first, earlier.includes(name) ? name : (earlier[0] ?? name), 0);
  const after = await sideOf(second, name, 1);
  const difference = await differenceOf(before, after, facts.weightChanges?.get(name) ?? new Map(), facts.layers.get(name));
  return { side: { ...after, items: difference.items }, before, difference, facts };
}

const NO_FACTS: MethodFacts = { operators: new Map() };

/** Returns one method of a file. Reads the document and the tables of weights, and no elements. */
export async function sideOf(opened: OpenedFile, name: string, index: 0 | 1 = 0): Promise<Side> {
  const { file, facts } = opened;
  const program = await file.program(name);
  const payloads: Payloads | null = file.archive === null ? null : await file.payloads(name);
  const weights = await weightsOf(name, program, payloads, file);
  const items = itemsOf(program, name, weights, index);
  addBytes(items.root, weights);
  return { opened, name, program, summary: await summarizeProgram(file, name), items, weights, facts: facts.methods.get(name) ?? NO_FACTS, work: new Work(program) };
}
