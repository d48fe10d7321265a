/** What the page shows of one method of a file. */

import { summarizeProgram, type Payloads, type Program, type Summary } from "graphwire-js";

import type { MethodFacts } from "../facts.js";
import type { OpenedFile } from "../opened.js";
import { itemsOf, type ProgramItems } from "./build.js";
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
}

const NO_FACTS: MethodFacts = { costSource: "", costs: new Map(), operators: new Map() };

/** Returns one method of a file. Reads the document and the tables of weights, and no elements. */
export async function sideOf(opened: OpenedFile, name: string, index: 0 | 1 = 0): Promise<Side> {
  const { file, facts } = opened;
  const program = await file.program(name);
  const payloads: Payloads | null = file.archive === null ? null : await file.payloads(name);
  const items = itemsOf(program, name, index);
  const weights = await weightsOf(program, payloads, file);
  addBytes(items.root, weights);
  return { opened, name, program, summary: await summarizeProgram(file, name), items, weights, facts: facts.methods.get(name) ?? NO_FACTS };
}
