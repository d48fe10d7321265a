/** Files that attack this language: names of its own objects, texts that cost time, texts that exhaust the stack. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { diffFiles, inspect, neutral, openFile } from "graphwire-js";
import { parseExpression } from "#dist/expressions.js";
import { FORMATS } from "#dist/formats.js";
import { parseGuard } from "#dist/guards.js";
import { parseInfix } from "#dist/infix.js";
import { DEFAULT_LIMITS } from "#dist/limits.js";
import { parseTreespec } from "#dist/treespecs.js";
import { escaped, toJson } from "#dist/printing.js";
import { isClassName, isOperatorName, isParameterName, isPath, isTypeName, isValueName } from "#dist/validation/names.js";

const SUITE = "../../conformance";
/** The names that objects of this language have, or treat in a way of their own. */
const OWN = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__defineGetter__", "valueOf", "then"];

function read(path: string): Buffer {
  return readFileSync(join(SUITE, path));
}

const { cases } = JSON.parse(read("index.json").toString()) as { cases: readonly { file: string; needs: readonly string[]; valid: boolean }[] };

function isOurs(error: unknown): boolean {
  return (error as Error).name === "GraphwireError";
}

/** Runs everything that this reader does with a file, and returns how it ended. */
async function all(bytes: Uint8Array, files: ReadonlyMap<string, Uint8Array> = new Map()): Promise<"read" | "refused"> {
  const resolve = (location: string): Promise<Uint8Array | null> => Promise.resolve(files.get(location) ?? null);
  const works = [neutral, (file: Parameters<typeof neutral>[0]) => inspect(file, "x"), (file: Parameters<typeof neutral>[0]) => diffFiles(file, file)];
  let ended: "read" | "refused" = "read";
  for (const work of works) {
    try {
      await work(await openFile(bytes, { resolve: async (location) => sourceOf(await resolve(location)) }));
    } catch (error) {
      if (!isOurs(error)) throw error;
      ended = "refused";
    }
  }
  return ended;
}

function sourceOf(bytes: Uint8Array | null): { size: number; read: (offset: number, length: number) => Promise<Uint8Array> } | null {
  return bytes && { size: bytes.length, read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)) };
}

test("documents whose names are those of objects change no object", async () => {
  const before = Object.getOwnPropertyNames(Object.prototype).sort();
  const plain = cases.filter(({ valid, needs }) => valid && needs.length === 1 && needs[0] === "json");
  for (const { file } of plain.filter((_, index) => index % 5 === 0)) {
    const text = await documentOf(read(file));
    for (const name of OWN) await all(replaced(text, name));
  }
  assert.deepEqual(Object.getOwnPropertyNames(Object.prototype).sort(), before);
  assert.equal(({} as Record<string, unknown>)["x"], undefined);
});

/** The document of a file, as text. */
async function documentOf(bytes: Uint8Array): Promise<string> {
  const file = await openFile(bytes);
  const [record = ""] = file.documentRecords;
  return Buffer.from((await file.archive?.read(record)) ?? new Uint8Array()).toString();
}

/** A bare document in which some texts and keys are another name. */
function replaced(text: string, name: string): Uint8Array {
  const names = [...new Set(text.match(/"[a-z_0-9]+"/g) ?? [])];
  const chosen = new Set(names.filter((_, index) => index % 3 === name.length % 3));
  return Buffer.from(text.replace(/"[a-z_0-9]+"/g, (each) => (chosen.has(each) && !each.startsWith('"as_') ? JSON.stringify(name) : each)));
}

test("kinds of stores and element types that are names of objects are refused", async () => {
  const [good, beside] = [read("valid/references/without_a_digest.pt2"), read("valid/references/without_a_digest.safetensors")];
  assert.equal(await all(good, new Map([["without_a_digest.safetensors", beside]])), "read");
  for (const name of OWN) {
    for (const text of ["F32", "first"]) {
      const length = Number(beside.readBigUInt64LE());
      const header = beside.toString("utf8", 8, 8 + length).replaceAll(`"${text}"`, JSON.stringify(name)).padEnd(length);
      const changed = Buffer.concat([Buffer.alloc(8), Buffer.from(header), beside.subarray(8 + length)]);
      changed.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
      await all(good, new Map([["without_a_digest.safetensors", changed]]));
    }
  }
});

const PIECES = [
  ...Array.from("a_0 ([-+.\\'\"\n:$,=é\u0301"), "a.", "s0+", "a**", "not ", "L['x']", ".a", "[0]", "Add(", "Symbol('s0'", ", integer=True", "1 if ", "a if a else ", "True and ",
  "math.", "//", "0.", "1e", "::", '{"a":', "[],", "Integer(", "torch.",
];
const READERS = { parseExpression, parseInfix, parseGuard, parseTreespec, isClassName, isOperatorName, isPath, isTypeName, isValueName, keyword: (text: string) => isParameterName(text, true) };

test("texts that repeat anything take time in proportion to their length", () => {
  for (const [name, reader] of Object.entries(READERS)) {
    for (const head of ["", "a", "L", "Symbol('s0'", "#"]) {
      for (const piece of PIECES) {
        const text = `${head}${piece.repeat(20_000)}!`;
        const started = process.cpuUsage();
        try {
          reader(text);
        } catch (error) {
          assert.ok(isOurs(error), `${name} ${piece}: ${String(error)}`);
        }
        const { user } = process.cpuUsage(started);
        assert.ok(user < 2_000_000, `${name} ${JSON.stringify(head)} ${JSON.stringify(piece)}: ${user} microseconds`);
      }
    }
  }
});

const LITERAL = /(?<=[=(,:;!&|?{}[]\s*|return\s)\/(?![*/\s])((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+)\/([dgimsuvy]*)(?![\w/])/g;

test("every pattern of this package and of the page takes time in proportion to the length of a text", () => {
  const slow: string[] = [];
  const secondsOf = (pattern: RegExp, text: string): number => {
    const started = process.cpuUsage();
    if (pattern.global && !pattern.sticky) text.replace(pattern, "");
    else pattern.exec(text);
    pattern.lastIndex = 0;
    return process.cpuUsage(started).user / 1e6;
  };
  const texts = ["a", "1", "_", " ", ".", "a.", "[0]", "-", "/", ","].flatMap((piece) => ["", "a", "models/"].map((head) => `${head}${piece.repeat(4000)}!\n!`));
  for (const folder of ["src", "../graphwire-view/src"]) {
    for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((each) => each.endsWith(".ts"))) {
      for (const [whole, source = "", flags = ""] of readFileSync(`${folder}/${path}`, "utf8").matchAll(LITERAL)) {
        const pattern = new RegExp(source, flags);
        const isSlow = texts.some((text) => secondsOf(pattern, text) > 0.008 && secondsOf(pattern, text) > 0.008);
        if (isSlow) slow.push(`${path}: ${whole}`);
      }
    }
  }
  assert.deepStrictEqual(slow, []);
});

test("long and deep documents end in an error of this package, and not in one of the stack", () => {
  const long = "AAAA".repeat(6_000_000);
  const texts = [`{"$bytes":"${long}"}`, `{"$bytes":"${long}!"}`, `"${long}"`, "[".repeat(1_000_000), '{"a":'.repeat(1_000_000), `1${"0".repeat(5_000_000)}`, `1e${"1".repeat(5_000_000)}`];
  const [json] = FORMATS;
  for (const text of texts) {
    try {
      json?.read(Buffer.from(text), DEFAULT_LIMITS);
    } catch (error) {
      assert.ok(isOurs(error), `${text.slice(0, 20)}: ${String(error)}`);
    }
  }
  for (const bytes of [Buffer.alloc(1_000_000, 0x91), Buffer.alloc(1_000_000, 0x81), Buffer.alloc(1_000_000, 0xdd), Buffer.alloc(1_000_000, 0x9f), Buffer.alloc(1_000_000, 0xc1)]) {
    for (const format of FORMATS) assert.throws(() => format.read(bytes, DEFAULT_LIMITS), isOurs, format.name);
  }
});

test("chains of any length exhaust no stack", () => {
  const parsers = [parseGuard, parseExpression, parseInfix, parseTreespec] as const;
  for (const sign of ["+", "*", "//", "|", " and ", " or ", "==", "**", "-", "if x else", ".a", "[0]", ",", "("]) {
    for (const operand of ["1", "s0", "L['x'].a", "(1)", "-1", "not 1"]) {
      for (const count of [150, 1000, 16_000]) {
        const text = Array(count).fill(operand).join(sign).slice(0, 99_000);
        for (const parse of parsers) {
          try {
            parse(text);
          } catch (error) {
            assert.ok(isOurs(error), `${String(error)}: ${text.slice(0, 40)}`);
          }
        }
      }
    }
  }
});

test("what is printed controls no terminal", () => {
  const text = "a\u202eb\u001b[2Jc\u2028d\u{e0001}e\u0085\n\u00a0 é😀";
  const shown = escaped(text);
  assert.equal(shown, "a\\u202eb\\x1b[2Jc\\u2028d\\U000e0001e\\x85\\n\\xa0 é😀");
  const json = toJson({ [text]: [text, 1n] }, "  ");
  assert.doesNotMatch(json.replaceAll("\n", ""), /(?! )[\p{C}\p{Z}]/u);
  assert.deepEqual(JSON.parse(json), { [text]: [text, 1] });
});
