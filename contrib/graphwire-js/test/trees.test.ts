/** Trees in each wire format: the examples of the specification. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { FORMATS } from "#dist/formats.js";
import { DEFAULT_LIMITS } from "#dist/limits.js";
import { taggedTree, type Neutral } from "#dist/types.js";

const PAGE = "../../docs/spec/trees.md";

/** The lines of a block of the page: a wire format, a document, and its value, or that it is refused. */
function examples(): [format: string, document: Uint8Array, expected: string][] {
  const [, block = ""] = /```tree\n(.*?)```/s.exec(readFileSync(PAGE, "utf8")) ?? [];
  const lines = block.trim().split("\n");
  return lines.map((line) => {
    const [, format = "", document = "", expected = ""] = /^(\w+) (.*) => (.*)$/.exec(line) ?? [];
    const hex = document.replaceAll(" ", "");
    const bytes = format === "json" ? Buffer.from(document) : Buffer.from(hex, "hex");
    return [format, bytes, expected];
  });
}

function read(name: string, document: Uint8Array): Neutral {
  const format = FORMATS.find((each) => each.name === name);
  assert.ok(format, name);
  return taggedTree(format.read(document, DEFAULT_LIMITS));
}

test("the specification's examples of trees are read or refused as it says", () => {
  const rows = examples();
  assert.ok(rows.length > 60);
  for (const [format, document, expected] of rows) {
    const message = `${format} ${Buffer.from(document).toString()}`;
    if (expected.startsWith("refused")) assert.throws(() => read(format, document), { name: "GraphwireError" }, message);
    else assert.deepStrictEqual(read(format, document), JSON.parse(expected) as unknown, message);
  }
});

test("documents beyond the limits are refused before memory is used", () => {
  const deep = Buffer.from(`${"[".repeat(401)}${"]".repeat(401)}`);
  assert.throws(() => read("json", deep), { kind: "limit" });
  assert.throws(() => read("msgpack", Buffer.alloc(401, 0x91)), { kind: "limit" });
  assert.throws(() => read("msgpack", Buffer.from("ddffffffff", "hex")), { kind: "document" });
  assert.throws(() => read("cbor", Buffer.from("d9d9f79b000000ffffffffff", "hex")), { kind: "document" });
});
