/** What graphwire prints about the corpus and the golden files: `make test-js` writes it with make_references.py. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = process.env["GRAPHWIRE_JS_REFERENCES"] ?? "build/references";

/** Reads the rows of a file of references. */
export function references<T>(name: string): T[] {
  const path = join(FOLDER, `${name}.jsonl`);
  if (!existsSync(path)) throw new Error(`${path} is absent: run make test-js in the project's folder`);
  return readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T);
}
