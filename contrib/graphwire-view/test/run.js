/** Bundles the tests for Node, and runs them. */

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { execPath, exit } from "node:process";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../build/test");

const names = readdirSync(HERE).filter((name) => name.endsWith(".test.ts"));
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
exit(spawnSync(execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1);
