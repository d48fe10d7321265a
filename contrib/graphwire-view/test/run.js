/** Bundles the tests for Node, and runs them; or another script of this folder: `node test/run.js benchmark.ts`. */

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv, execPath, exit } from "node:process";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../build/test");

const script = argv[2];
const names = script === undefined ? readdirSync(HERE).filter((name) => name.endsWith(".test.ts")) : [script];
mkdirSync(OUT, { recursive: true });
await build({
  entryPoints: names.map((name) => join(HERE, name)),
  bundle: true,
  outdir: OUT,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  external: ["playwright-core"],
  logLevel: "warning",
});
const files = names.map((name) => join(OUT, name.replace(/\.ts$/, ".mjs")));
exit(spawnSync(execPath, [...(script === undefined ? ["--test"] : []), ...files], { stdio: "inherit" }).status ?? 1);
