#!/usr/bin/env node
/** The command `graphwire-js`. */

import { dirname } from "node:path";

import { contentHash } from "./canonical/program.js";
import { diffFiles } from "./diff/program_diff.js";
import { GraphwireError, messageOf, refusalOf } from "./errors.js";
import { inspect } from "./inspection.js";
import { neutral } from "./neutral.js";
import { folderResolver, withPath } from "./node.js";
import { escaped, toCanonicalJson, toJson } from "./printing.js";

const USAGE = `usage: graphwire-js COMMAND FILE…

  inspect FILE    print the summary of a file, as graphwire inspect --json does
  neutral FILE    print all that the file contains, as neutral JSON
  diff A B        print the differences of two files, as graphwire diff --json does
  hash FILE       print the content hash of each program
  verify FILE     compare every record with its checksum and its digest

Exit codes: 0 success; 1 the file is refused, or differs; 2 the command failed, or its arguments are wrong.
`;

type Command = (paths: readonly string[]) => Promise<number>;

const COMMANDS: ReadonlyMap<string, readonly [files: number, run: Command]> = new Map<string, readonly [number, Command]>([
  [
    "inspect",
    [
      1,
      async ([path = ""]) => {
        print(toJson(await withPath(path, (file) => inspect(file, path)), "  "));
        return 0;
      },
    ],
  ],
  [
    "neutral",
    [
      1,
      async ([path = ""]) => {
        const resolve = folderResolver(dirname(path));
        process.stdout.write(toCanonicalJson(await withPath(path, neutral, { resolve })));
        return 0;
      },
    ],
  ],
  [
    "diff",
    [
      2,
      async ([a = "", b = ""]) => {
        const found = await withPath(a, (one) => withPath(b, (other) => diffFiles(one, other)));
        print(toJson({ a, b, ...found }, "  "));
        return found.same ? 0 : 1;
      },
    ],
  ],
  [
    "hash",
    [
      1,
      async ([path = ""]) => {
        await withPath(path, async (file) => {
          for (const name of file.programNames) print(`${contentHash(await file.program(name))}  ${escaped(name)}`);
        });
        return 0;
      },
    ],
  ],
  [
    "verify",
    [
      1,
      async ([path = ""]) => {
        const problems = await withPath(path, (file) => file.verify());
        for (const problem of problems) print(escaped(problem));
        return problems.length === 0 ? 0 : 1;
      },
    ],
  ],
]);

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function main([name = "", ...paths]: readonly string[]): Promise<number> {
  const [files, run] = COMMANDS.get(name) ?? [];
  if (run === undefined || files !== paths.length) {
    process.stderr.write(USAGE);
    return 2;
  }
  try {
    return await run(paths);
  } catch (error) {
    process.stderr.write(`graphwire-js: ${escaped(messageOf(error))}\n`);
    if (name === "neutral" && error instanceof GraphwireError) print(JSON.stringify({ refused: refusalOf(error) }));
    return error instanceof GraphwireError ? 1 : 2;
  }
}

process.exitCode = await main(process.argv.slice(2));
