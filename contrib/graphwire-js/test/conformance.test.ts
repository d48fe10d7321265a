/** The conformance suite: every file of the parts that this reader claims. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { neutral } from "graphwire-js";
import { folderResolver, withPath } from "graphwire-js/node";
import { GraphwireError, refusalOf } from "#dist/errors.js";
import { FORMATS } from "#dist/formats.js";
import { DEFAULT_LIMITS } from "#dist/limits.js";
import { toCanonicalJson } from "#dist/printing.js";
import { taggedTree } from "#dist/types.js";

const SUITE = "../../conformance";
/** What a file may need of a reader so that this one is compared. */
const PARTS = new Set(["archive", "documents", "payloads", "references", "hash", "optional", "trees", "json", "msgpack", "cbor", "torch-save"]);

interface Case {
  readonly file: string;
  readonly needs: readonly string[];
  readonly rules: readonly string[];
  readonly classes?: readonly string[];
  readonly valid: boolean;
}

interface Vector {
  readonly name: string;
  readonly hex: string;
  readonly valid: boolean;
  readonly tree: unknown;
}

function read(path: string): unknown {
  return JSON.parse(readFileSync(join(SUITE, path), "utf8"));
}

async function outputOf(path: string): Promise<unknown> {
  const found = await withPath(path, neutral, { resolve: folderResolver(dirname(path)) });
  return JSON.parse(toCanonicalJson(found)) as unknown;
}

const { cases } = read("index.json") as { cases: readonly Case[] };
const own = cases.filter(({ needs }) => needs.every((part) => PARTS.has(part)));

test("valid files are read as the suite says", async () => {
  assert.ok(own.length > 200);
  const wrong: string[] = [];
  for (const { file } of own.filter(({ valid }) => valid)) {
    try {
      assert.deepStrictEqual(await outputOf(join(SUITE, file)), read(file.replace(/\.[^.]*$/, ".expected.json")));
    } catch (error) {
      wrong.push(`${file}: ${String(error).slice(0, 400)}`);
    }
  }
  assert.deepStrictEqual(wrong, []);
});

test("invalid files are refused", async () => {
  const wrong: string[] = [];
  for (const { file, rules, classes = [] } of own.filter(({ valid }) => !valid)) {
    try {
      await outputOf(join(SUITE, file));
      wrong.push(`${file}: ${rules.join(", ")}`);
    } catch (error) {
      if (!(error instanceof GraphwireError)) wrong.push(`${file}: ${String(error)}`);
      else if (!classes.includes(refusalOf(error))) wrong.push(`${file}: ${refusalOf(error)}, and not ${classes.join(", ")}: ${error.kind} ${String(error)}`);
    }
  }
  assert.deepStrictEqual(wrong, []);
});

test("trees are read or refused as the suite says", () => {
  for (const format of FORMATS) {
    const { vectors } = read(`trees/${format.name}.json`) as { vectors: readonly Vector[] };
    for (const { name, hex, valid, tree } of vectors) {
      const decode = (): unknown => taggedTree(format.read(Buffer.from(hex, "hex"), DEFAULT_LIMITS));
      if (valid) assert.deepStrictEqual(normal(decode()), normal(tree), `${format.name} ${name}`);
      else assert.throws(decode, { name: "GraphwireError" }, `${format.name} ${name}`);
    }
  }
});

/** Returns a tagged tree as one that can be compared: floats as numbers. */
function normal(tree: unknown): unknown {
  return JSON.parse(JSON.stringify(tree)) as unknown;
}

test("the command prints neutral JSON, and exits with 1 for a file that it refuses", () => {
  const run = (file: string): { status: number | null; stdout: string } =>
    spawnSync(process.execPath, ["dist/cli.js", "neutral", join(SUITE, file)], { encoding: "utf8" });
  const good = run("valid/documents/simple.pt2");
  assert.equal(good.status, 0);
  assert.deepStrictEqual(JSON.parse(good.stdout), read("valid/documents/simple.expected.json"));
  assert.equal(run("index.json").status, 0);
  assert.equal(run("README.md").status, 1);
});
