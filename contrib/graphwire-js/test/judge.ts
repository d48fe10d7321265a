/**
 * Judges files for `two_readers.py`: for each path on standard input one line of JSON, the exit code of `graphwire-js neutral` and
 * what it prints, or its message.
 */

import { dirname } from "node:path";
import { createInterface } from "node:readline";

import { neutral } from "graphwire-js";
import { folderResolver, withPath } from "graphwire-js/node";
import { messageOf } from "#dist/errors.js";
import { toCanonicalJson } from "#dist/printing.js";

async function judged(path: string): Promise<readonly [number, string]> {
  try {
    return [0, toCanonicalJson(await withPath(path, neutral, { resolve: folderResolver(dirname(path)) }))];
  } catch (error) {
    return [(error as Error).name === "GraphwireError" ? 1 : 2, messageOf(error)];
  }
}

for await (const path of createInterface({ input: process.stdin })) process.stdout.write(`${JSON.stringify(await judged(path))}\n`);
