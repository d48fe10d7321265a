/** Guards: conditions on a program's inputs, parsed and printed, never evaluated. */

import { GraphwireError } from "./errors.js";
import { KEYWORDS } from "./expressions.js";
import { FUNCTION_ROWS } from "./operations.js";

/** A step from the mapping of inputs, `L`, to a value. */
export type SourceStep =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "index"; readonly index: bigint }
  | { readonly kind: "attribute" | "call"; readonly name: string };

export type Guard =
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "float"; readonly value: number }
  | { readonly kind: "truth"; readonly value: boolean }
  | { readonly kind: "constant"; readonly name: string }
  | { readonly kind: "source"; readonly steps: readonly SourceStep[] }
  | { readonly kind: "operation"; readonly head: string; readonly operands: readonly Guard[] };

const MAX_TEXT = 100_000;
const MAX_NESTING = 200;
const MAX_STEPS = 200;
const MAX_INTEGER = 1n << 64n;
const MAX_EXPONENT = 64;

/** The smallest and largest number of arguments of each function. */
const FUNCTIONS: ReadonlyMap<string, readonly [number, number]> = new Map(
  FUNCTION_ROWS.map(([name, least, most]) => [name, [least, most]] as const),
);
const NAMED: ReadonlySet<string> = new Set(["inf", "math.inf", "math.nan"]);
const METHODS: ReadonlySet<string> = new Set(["size", "stride", "storage_offset", "item", "__neg__"]);

const NUMBER = /((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.])/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*/y;
const WORD = /[A-Za-z_][A-Za-z0-9_]*/y;
const SIGN = /\*\*|\/\/|<=|>=|==|!=|[-+*/%<>&^|(),]/y;
const INDEX = /\[ *(- *)?(0|[1-9][0-9]*) *\]/y;
const KEY = /\['([^'"\\]*)'\]/y;
const STEP_NAME = / *\. *([A-Za-z_][A-Za-z0-9_]*)/y;
const NO_ARGUMENTS = / *\( *\)/y;
const SPACES = / */y;
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/u;

/** The chains of operators that group to the left, from loose to tight. */
const CHAINS: readonly (readonly string[])[] = [["|"], ["^"], ["&"], ["+", "-"], ["*", "/", "//", "%"]];
const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">="]);

/** Parses a guard, such as `L['x'].size()[0] <= 10`. */
export function parseGuard(text: string): Guard {
  if (text.length > MAX_TEXT) refuse("too many characters", text);
  return new GuardParser(text).whole();
}

function refuse(what: string, text: string): never {
  throw new GraphwireError("document", `${what} in the guard ${JSON.stringify(text.slice(0, 80))}`);
}

class GuardParser {
  private at = 0;
  private depth = 0;
  /** How deep each operation is. A deeper one than the limit is never made, so that functions may call themselves for its parts. */
  private readonly depths = new WeakMap<Guard, number>();

  constructor(private readonly text: string) {}

  whole(): Guard {
    const found = this.choice();
    if (this.at !== this.text.length) refuse("more text than one condition", this.text);
    return found;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at += found[0].length;
    return found;
  }

  private peek(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text)?.[0] ?? "";
  }

  /** Goes past a sign or word, and the spaces after it, if it is next. */
  private take(pattern: RegExp, word: string): boolean {
    if (this.peek(pattern) !== word) return false;
    this.at += word.length;
    this.match(SPACES);
    return true;
  }

  private nested(run: () => Guard): Guard {
    if (++this.depth > 3 * MAX_NESTING) refuse("too deep a nest", this.text);
    const found = run();
    this.depth -= 1;
    return found;
  }

  private operation(head: string, operands: readonly Guard[]): Guard {
    const depth = operands.reduce((most, each) => Math.max(most, this.depths.get(each) ?? 0), 0) + 1;
    if (depth > MAX_NESTING) refuse("too deep a nest", this.text);
    const made: Guard = { kind: "operation", head, operands };
    this.depths.set(made, depth);
    return made;
  }

  private choice(): Guard {
    return this.nested(() => {
      const value = this.words("or");
      if (!this.take(WORD, "if")) return value;
      const condition = this.words("or");
      if (!this.take(WORD, "else")) refuse("an if without an else", this.text);
      return this.operation("if", [condition, value, this.choice()]);
    });
  }

  private words(word: "or" | "and"): Guard {
    const operand = (): Guard => (word === "or" ? this.words("and") : this.negation());
    const operands = [operand()];
    while (this.take(WORD, word)) operands.push(operand());
    return operands.length === 1 ? (operands[0] as Guard) : this.operation(word, operands);
  }

  private negation(): Guard {
    return this.nested(() => {
      if (!this.take(WORD, "not")) return this.comparison();
      return this.operation("not", [this.negation()]);
    });
  }

  private comparison(): Guard {
    const left = this.chain(0);
    const sign = this.peek(SIGN);
    if (!COMPARISONS.has(sign)) return left;
    this.take(SIGN, sign);
    return this.operation(sign, [left, this.chain(0)]);
  }

  private chain(level: number): Guard {
    const signs = CHAINS[level];
    if (signs === undefined) return this.factor();
    let found = this.chain(level + 1);
    for (;;) {
      const sign = this.peek(SIGN);
      if (!signs.includes(sign)) return found;
      this.take(SIGN, sign);
      found = this.operation(sign, [found, this.chain(level + 1)]);
    }
  }

  private factor(): Guard {
    return this.nested(() => {
      if (this.take(SIGN, "-")) return this.operation("-", [this.factor()]);
      const base = this.atom();
      if (!this.take(SIGN, "**")) return base;
      const exponent = this.factor();
      checkPower(base, exponent, this.text);
      return this.operation("**", [base, exponent]);
    });
  }

  private atom(): Guard {
    if (this.take(SIGN, "(")) {
      const found = this.choice();
      if (!this.take(SIGN, ")")) refuse("no ) where one is expected", this.text);
      return found;
    }
    const number = this.match(NUMBER)?.[1];
    if (number !== undefined) {
      this.match(SPACES);
      return numberOf(number, this.text);
    }
    if (this.take(WORD, "L")) return this.source();
    const name = this.match(NAME)?.[0] ?? refuse("no operand where one is expected", this.text);
    this.match(SPACES);
    if (name === "True" || name === "False") return { kind: "truth", value: name === "True" };
    if (NAMED.has(name)) return { kind: "constant", name };
    return this.call(name);
  }

  private call(name: string): Guard {
    const arity = FUNCTIONS.get(name) ?? refuse(`the unknown name ${name}`, this.text);
    if (!this.take(SIGN, "(")) refuse("a function that is not called", this.text);
    const operands: Guard[] = [];
    if (!this.take(SIGN, ")")) {
      do operands.push(this.choice());
      while (this.take(SIGN, ","));
      if (!this.take(SIGN, ")")) refuse("an unfinished call", this.text);
    }
    if (operands.length < arity[0] || operands.length > arity[1]) refuse("a wrong number of arguments", this.text);
    return this.operation(name, operands);
  }

  private source(): Guard {
    const steps: SourceStep[] = [];
    for (let step = this.step(); step !== undefined; step = this.step()) {
      if (steps.length === 0 && step.kind !== "key" && step.kind !== "index") refuse("a source that is no input", this.text);
      steps.push(step);
    }
    if (steps.length === 0) refuse("a source that is no input", this.text);
    if (steps.length > MAX_STEPS) refuse("a source of too many steps", this.text);
    return { kind: "source", steps };
  }

  private step(): SourceStep | undefined {
    this.match(SPACES);
    const key = this.match(KEY)?.[1];
    if (key !== undefined) {
      if (UNPRINTABLE.test(key)) refuse("a key that cannot be printed", this.text);
      return { kind: "key", key };
    }
    const index = this.match(INDEX);
    if (index !== null) {
      const value = integerOf(index[2] ?? "", this.text);
      return { kind: "index", index: index[1] === undefined ? value : -value };
    }
    const name = this.match(STEP_NAME)?.[1];
    if (name === undefined) return undefined;
    if (this.match(NO_ARGUMENTS) !== null) {
      if (!METHODS.has(name)) refuse(`the unknown method ${name}`, this.text);
      return { kind: "call", name };
    }
    if ((name.startsWith("_") && name !== "_base") || KEYWORDS.has(name)) refuse(`the attribute ${name}`, this.text);
    return { kind: "attribute", name };
  }
}

function integerOf(digits: string, text: string): bigint {
  const value = digits.length > 20 ? MAX_INTEGER + 1n : BigInt(digits);
  if (value > MAX_INTEGER || /^0[0-9]/.test(digits)) refuse("an integer out of range", text);
  return value;
}

function numberOf(digits: string, text: string): Guard {
  if (/^[0-9]+$/.test(digits)) return { kind: "integer", value: integerOf(digits, text) };
  return { kind: "float", value: Number(digits) };
}

function* parts(guard: Guard): Generator<Guard> {
  yield guard;
  if (guard.kind === "operation") for (const operand of guard.operands) yield* parts(operand);
}

function checkPower(base: Guard, exponent: Guard, text: string): void {
  for (const operand of [base, exponent]) {
    for (const part of parts(operand)) {
      if (part.kind === "operation" && part.head === "**") refuse("a power inside another", text);
    }
  }
  const inner = exponent.kind === "operation" && exponent.head === "-" ? (exponent.operands[0] as Guard) : exponent;
  if (inner.kind === "integer" || inner.kind === "float") {
    if (inner.value > MAX_EXPONENT) refuse("too large an exponent", text);
  } else if (!Array.from(parts(exponent)).some((part) => part.kind === "source")) {
    refuse("an exponent that is neither a number nor from a source", text);
  }
}
