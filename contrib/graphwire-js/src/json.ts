/** The wire format `json`: JSON whose integers keep all digits, with `$bytes` and `$float` for what JSON lacks. */

import { GraphwireError, type ErrorKind } from "./errors.js";
import { DEFAULT_LIMITS, type Limits } from "./limits.js";
import { addKey, decodeText, MAX_DIGITS, TreeMeter, type Tree } from "./trees.js";

/** The words of JSON, and those that releases of torch up to 2.6 write, which are not JSON. */
const WORDS: ReadonlyMap<string, Tree> = new Map<string, Tree>([
  ["null", null],
  ["true", true],
  ["false", false],
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
]);
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t",
};
/** Shorter integers are numbers without loss. */
const SHORT = 15;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const WORD = /-?[A-Za-z]+/y;
const HEX4 = /[0-9a-fA-F]{4}/y;
const LONE_SURROGATE = /\p{Surrogate}/u;
const SPACE = /[ \t\r\n]*/y;
const WRAPPED = /^\$+(?:bytes|float)$/;
/** Without a group that repeats: for a long text, such a one exhausts the stack of regular expressions. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Codes of characters. */
const [QUOTE, COMMA, MINUS, ZERO, NINE, COLON, LIST, BACKSLASH, LIST_END, OPEN, CLOSE, FIRST_SURROGATE] = [34, 44, 45, 48, 57, 58, 91, 92, 93, 123, 125, 0xd800] as const;

export interface JsonOptions {
  /** Whether `{"$bytes": …}` and `{"$float": …}` are bytes and floats. Configs and other records of an archive have none. */
  readonly wrapped?: boolean;
  /** Whether text may contain lone surrogates, as in treespecs. */
  readonly loneSurrogates?: boolean;
  /** Whether `NaN`, `Infinity` and `-Infinity` are floats, as in documents and treespecs. */
  readonly words?: boolean;
  /** Whether the last of equal keys counts, and large floats are infinite, where Python's parser reads the text. */
  readonly lastKeyCounts?: boolean;
}

/** Reads a JSON document as a tree. */
export function readJson(data: Uint8Array, limits: Limits = DEFAULT_LIMITS, options: JsonOptions = {}): Tree {
  return parseJson(decodeText(data), limits, options);
}

/** Parses JSON text as a tree. */
export function parseJson(text: string, limits: Limits = DEFAULT_LIMITS, options: JsonOptions = {}): Tree {
  return new JsonParser(text, new TreeMeter(limits), options).document();
}

class JsonParser {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly meter: TreeMeter,
    private readonly options: JsonOptions,
  ) {}

  document(): Tree {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) throw this.fault("text follows the document");
    return value;
  }

  private fault(what: string): GraphwireError {
    return new GraphwireError("document", `not JSON: ${what} at character ${this.at}`);
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at += found[0].length;
    return found;
  }

  private space(): void {
    const code = this.text.charCodeAt(this.at);
    if (code <= 32) this.match(SPACE);
  }

  private take(character: number): boolean {
    if (this.text.charCodeAt(this.at) !== character) return false;
    this.at += 1;
    return true;
  }

  private value(): Tree {
    this.space();
    switch (this.text.charCodeAt(this.at)) {
      case OPEN:
        return this.object();
      case LIST:
        return this.array();
      case QUOTE:
        this.meter.leaf();
        return this.string();
      default:
        this.meter.leaf();
        return this.number() ?? this.word();
    }
  }

  private number(): bigint | number | undefined {
    const first = this.text.charCodeAt(this.at);
    if (!(first === MINUS || (first >= ZERO && first <= NINE))) return undefined;
    const found = this.match(NUMBER);
    if (found === null) return undefined;
    const [digits, fraction, exponent] = found;
    if (fraction === undefined && exponent === undefined) {
      if (digits.length > MAX_DIGITS) {
        throw new GraphwireError("limit", `an integer has more than ${MAX_DIGITS} digits`);
      }
      return BigInt(digits.length < SHORT ? Number(digits) : digits);
    }
    const value = Number(digits);
    if (!Number.isFinite(value) && this.options.lastKeyCounts !== true) throw this.fault("a float out of range");
    return value;
  }

  private word(): Tree {
    const start = this.at;
    const found = this.match(WORD)?.[0];
    const value = found === undefined ? undefined : WORDS.get(found);
    if (value !== undefined && (typeof value !== "number" || this.options.words === true)) return value;
    this.at = start;
    throw this.fault(start < this.text.length ? "an unexpected character" : "an unexpected end");
  }

  /** Returns a text. Most have no escapes: a loop reads these faster than a pattern. */
  private string(): string {
    const start = ++this.at;
    for (let at = start; ; at++) {
      const code = this.text.charCodeAt(at);
      if (code === QUOTE) {
        this.at = at + 1;
        return this.text.slice(start, at);
      }
      if (!(code >= 32 && code < FIRST_SURROGATE) || code === BACKSLASH) return this.escaped(); // at the end it is NaN
    }
  }

  private escaped(): string {
    let found = "";
    for (;;) {
      const start = this.at;
      let end = this.text.charCodeAt(start);
      while (end >= 32 && end !== QUOTE && end !== BACKSLASH) end = this.text.charCodeAt(++this.at);
      found += this.text.slice(start, this.at);
      this.at += 1;
      if (end === QUOTE) {
        if (this.options.loneSurrogates !== true && LONE_SURROGATE.test(found)) throw this.fault("a lone surrogate");
        return found;
      }
      if (end !== BACKSLASH) throw this.fault("an unfinished text");
      const escape = this.text[this.at] ?? "";
      this.at += 1;
      if (escape === "u") {
        const digits = this.match(HEX4)?.[0];
        if (digits === undefined) throw this.fault("a wrong escape");
        found += String.fromCharCode(parseInt(digits, 16));
      } else {
        const plain = ESCAPES[escape];
        if (plain === undefined) throw this.fault("a wrong escape");
        found += plain;
      }
    }
  }

  private array(): Tree {
    this.meter.enter();
    this.at += 1;
    const found: Tree[] = [];
    this.space();
    if (!this.take(LIST_END)) {
      do {
        found.push(this.value());
        this.space();
      } while (this.take(COMMA));
      if (!this.take(LIST_END)) throw this.fault("an unfinished list");
    }
    this.meter.leave();
    return found;
  }

  private object(): Tree {
    this.meter.enter();
    this.at += 1;
    const found = new Map<string, Tree>();
    this.space();
    if (!this.take(CLOSE)) {
      do {
        this.space();
        if (this.text.charCodeAt(this.at) !== QUOTE) throw this.fault("a key that is not text");
        const key = this.string();
        this.space();
        if (!this.take(COLON)) throw this.fault("a key without a value");
        if (this.options.lastKeyCounts === true) found.set(key, this.value());
        else addKey(found, key, this.value());
        this.space();
      } while (this.take(COMMA));
      if (!this.take(CLOSE)) throw this.fault("an unfinished dict");
    }
    this.meter.leave();
    return this.options.wrapped === true && found.size === 1 ? unwrapped(found) : found;
  }
}

/** Returns what a dict with one key stands for: bytes, a float, or a dict. */
function unwrapped(dict: Map<string, Tree>): Tree {
  for (const [key, value] of dict) {
    if (!WRAPPED.test(key)) break;
    if (key.startsWith("$$")) return new Map([[key.slice(1), value]]);
    if (typeof value !== "string") throw new GraphwireError("document", `${key} needs text`);
    return key === "$bytes" ? fromBase64(value) : specialFloat(value);
  }
  return dict;
}

const SPECIAL: ReadonlyMap<string, number> = new Map([
  ["inf", Infinity],
  ["-inf", -Infinity],
  ["nan", NaN],
]);

function specialFloat(text: string): number {
  const value = SPECIAL.get(text);
  if (value === undefined) throw new GraphwireError("document", `${JSON.stringify(text)} is not a $float`);
  return value;
}

function fromBase64(text: string): Uint8Array {
  if (text.length % 4 !== 0 || !BASE64.test(text)) throw new GraphwireError("document", "$bytes is not base64");
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Reads the JSON of a record or file, which errors name. */
export function jsonOf(bytes: Uint8Array, place: string, limits: Limits, kind: ErrorKind = "document"): Tree {
  try {
    return readJson(bytes, limits);
  } catch (error) {
    if (error instanceof GraphwireError && error.place === "") throw new GraphwireError(kind, error.message, place);
    throw error;
  }
}
