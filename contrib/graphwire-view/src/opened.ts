/** Opens what the page contains, and files that are dropped on it. */

import { bufferSource, openFile, type GraphwireError, type GraphwireFile, type Openable } from "graphwire-js";

import { noFacts, readFacts, type Facts, type FileFacts, type Problem } from "./facts.js";

export interface OpenedFile {
  readonly file: GraphwireFile;
  readonly facts: FileFacts;
  /** The file's size in bytes. */
  readonly size: number;
}

/** One file, or two whose difference is shown. */
export interface Opened {
  readonly files: readonly OpenedFile[];
  readonly facts: Facts;
}

/** Opens the files in the page; null if it has none. */
export async function openedInPage(page: Document): Promise<Opened | null> {
  const facts = readFacts(page.getElementById("graphwire-facts")?.textContent ?? null);
  const files: OpenedFile[] = [];
  for (let index = 0; index < 2; index++) {
    const block = page.getElementById(`graphwire-file-${index}`);
    if (block === null) break;
    const bytes = await inflated(block.textContent);
    const own = facts.files[index] ?? noFacts(`file ${index + 1}`);
    files.push({ ...(await opened(bufferSource(bytes), own)), size: own.inspection?.number("size") ?? bytes.length });
    block.remove(); // the text is not needed again
  }
  return files.length === 0 ? null : { files, facts };
}

/** Opens a file to be shown: what breaks a rule of the format is a problem, which the page lists. */
async function opened(what: Openable, facts: FileFacts): Promise<Omit<OpenedFile, "size">> {
  const problems: Problem[] = [...(facts.problems ?? [])];
  const onProblem = ({ kind, message, place }: GraphwireError): void => {
    if (facts.problems === null) problems.push({ kind, place, problem: message, remedy: "" }); // Python lists them better
  };
  return { file: await openFile(what, { onProblem }), facts: { ...facts, problems } };
}

async function inflated(base64: string): Promise<Uint8Array> {
  const text = atob(base64.trim());
  const packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) packed[at] = text.charCodeAt(at); // a callback for each takes seven times as long
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Opens files that somebody chose: the first two. */
export async function openedFiles(chosen: readonly File[]): Promise<Opened> {
  const files: OpenedFile[] = [];
  for (const each of chosen.slice(0, 2)) files.push({ ...(await opened(each, noFacts(each.name))), size: each.size });
  return { files, facts: readFacts(null) };
}
