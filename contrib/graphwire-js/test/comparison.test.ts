/** Content hashes and diffs equal those of graphwire. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { contentHash, diffFiles } from "graphwire-js";
import { withPath } from "graphwire-js/node";
import { toJson } from "#dist/printing.js";

import { references } from "./references.js";

test("content hashes equal those of graphwire", async () => {
  const rows = references<{ path: string; hashes: Record<string, string> }>("hashes");
  assert.ok(rows.length > 100);
  for (const { path, hashes } of rows) {
    await withPath(path, async (file) => {
      assert.deepStrictEqual(file.programNames, Object.keys(hashes), path);
      for (const name of file.programNames) assert.equal(contentHash(await file.program(name)), hashes[name], path);
    });
  }
});

test("diffs equal those of graphwire", async () => {
  const rows = references<{ a: string; b: string; diff: unknown }>("diffs");
  assert.ok(rows.length > 200);
  for (const { a, b, diff } of rows) {
    const found = await withPath(a, (one) => withPath(b, (other) => diffFiles(one, other)));
    assert.deepStrictEqual(JSON.parse(toJson(found)), diff, `${a} ${b}`);
  }
});
