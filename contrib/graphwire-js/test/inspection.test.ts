/** The inspection of every real file equals graphwire's. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect } from "graphwire-js";
import { withPath } from "graphwire-js/node";
import { toJson } from "#dist/printing.js";

import { references } from "./references.js";

/** Files that graphwire changes more than their summary can show: it replaces a reverse scan by one between flips. */
const REWRITTEN = /2\.6\.0\/scan_tree\.pt2$/;

test("inspections equal those of graphwire", async () => {
  const rows = references<{ path: string; inspection: unknown }>("inspections");
  assert.ok(rows.length > 500);
  for (const { path, inspection } of rows) {
    const found: unknown = JSON.parse(toJson(await withPath(path, (file) => inspect(file, path))));
    if (REWRITTEN.test(path)) assert.notDeepStrictEqual(found, inspection, `${path} is no exception any more`);
    else assert.deepStrictEqual(found, inspection, path);
  }
});
