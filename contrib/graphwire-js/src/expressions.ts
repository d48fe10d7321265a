/** Symbolic expressions: their trees, and the constructor text that documents contain. Expressions are never evaluated. */

import { GraphwireError } from "./errors.js";
import { OPERATION_ROWS } from "./operations.js";

export type Expression =
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "rational"; readonly numerator: bigint; readonly denominator: bigint }
  | { readonly kind: "float"; readonly text: string; readonly bits: number }
  | { readonly kind: "symbol"; readonly name: string; readonly assumptions: readonly (readonly [string, boolean])[] }
  | { readonly kind: "constant"; readonly name: string }
  | { readonly kind: "operation"; readonly head: string; readonly operands: readonly Expression[] };

export const MAX_TEXT = 1_000_000;
export const MAX_NESTING = 200;
const MAX_NUMBER_TEXT = 4300;
const MAX_BITS = 4096;

/** The constants, which are the only names without a meaning of their own. */
export const CONSTANTS: ReadonlySet<string> = new Set(["true", "false", "oo", "-oo", "int_oo", "-int_oo", "zoo", "nan"]);

/** The smallest and largest number of operands of each operation. */
const ARITIES: ReadonlyMap<string, readonly [number, number]> = new Map(
  OPERATION_ROWS.map(([name, least, most]) => [name, [least, most]] as const),
);

const ASSUMPTIONS: ReadonlySet<string> = new Set(
  `algebraic antihermitian commutative complex composite even extended_negative extended_nonnegative extended_nonpositive
  extended_nonzero extended_positive extended_real finite hermitian imaginary infinite integer irrational negative noninteger
  nonnegative nonpositive nonzero odd polar positive prime rational real transcendental zero`.split(/\s+/),
);
/** Python's keywords, which name neither symbols nor attributes. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if import in
  is lambda nonlocal not or pass raise return try while with yield`.split(/\s+/),
);

/** Throws the error for text that is not an expression. */
export function refuse(what: string, text: string): never {
  throw new GraphwireError("document", `${what} in the expression ${JSON.stringify(text.slice(0, 80))}`);
}

export function integerOf(digits: string): Expression {
  if (digits.length > MAX_NUMBER_TEXT) refuse("a number of too many digits", digits);
  return { kind: "integer", value: BigInt(digits) };
}

export function rationalOf(numerator: string, denominator: string): Expression {
  if (Math.max(numerator.length, denominator.length) > MAX_NUMBER_TEXT) refuse("a number of too many digits", numerator);
  if (BigInt(denominator) <= 0n) refuse("a fraction whose denominator is not positive", denominator);
  return { kind: "rational", numerator: BigInt(numerator), denominator: BigInt(denominator) };
}

export function floatOf(text: string, bits: number): Expression {
  if (text.length > MAX_NUMBER_TEXT) refuse("a number of too many digits", text);
  if (bits < 1 || bits > MAX_BITS) refuse("a float of a width that does not exist", text);
  return { kind: "float", text, bits };
}

export function symbolOf(name: string, assumptions: readonly (readonly [string, boolean])[] = []): Expression {
  if (name.length > 1024 || name.startsWith("__") || CONSTANTS.has(name) || KEYWORDS.has(name)) {
    refuse("a name that no symbol has", name);
  }
  return { kind: "symbol", name, assumptions };
}

export function operationOf(head: string, operands: readonly Expression[]): Expression {
  const arity = ARITIES.get(head);
  if (arity === undefined) refuse("an unknown operation", head);
  if (operands.length < arity[0] || operands.length > arity[1]) refuse("a wrong number of operands", head);
  const pairs = operands.filter((each) => each.kind === "operation" && each.head === "ExprCondPair").length;
  if (pairs !== (head === "Piecewise" ? operands.length : 0)) refuse("a pair of value and condition out of place", head);
  return { kind: "operation", head, operands };
}

/** Throws if an expression is a pair, which only operands of Piecewise are. */
export function checkWhole(expression: Expression, text: string): Expression {
  if (expression.kind === "operation" && expression.head === "ExprCondPair") {
    refuse("a pair of value and condition out of place", text);
  }
  return expression;
}

const SPACE = String.raw`[ \t\n\r\f\v]*`;
const INTEGER = new RegExp(`Integer\\(${SPACE}(-?[0-9]+)${SPACE}\\)`, "y");
const RATIONAL = new RegExp(`Rational\\(${SPACE}(-?[0-9]+)${SPACE},${SPACE}([0-9]+)${SPACE}\\)`, "y");
const FLOAT = new RegExp(
  `Float\\(${SPACE}'(-?[0-9]+(?:\\.[0-9]*)?(?:e[+-]?[0-9]+)?)'${SPACE},${SPACE}precision${SPACE}=${SPACE}([0-9]{1,5})${SPACE}\\)`,
  "y",
);
const ASSUMPTION = `${SPACE},${SPACE}[a-z_]+${SPACE}=${SPACE}(?:True|False)`;
const SYMBOL = new RegExp(`Symbol\\(${SPACE}'([A-Za-z_][A-Za-z0-9_]*)'((?:${ASSUMPTION})*)${SPACE}\\)`, "y");
const ONE_ASSUMPTION = /\b([a-z_]+)\s*=\s*(True|False)/g;
const OPERATION = /([A-Za-z_][A-Za-z0-9_]*)\(/y;
const CONSTANT = /-?[a-z_]+/y;
const SPACES = new RegExp(SPACE, "y");

/** Parses constructor text, such as `Add(Symbol('s0', integer=True), Integer(1))`. */
export function parseExpression(text: string): Expression {
  if (text.length > MAX_TEXT) refuse("too many characters", text);
  const parser = new ConstructorParser(text);
  return checkWhole(parser.whole(), text);
}

class ConstructorParser {
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): Expression {
    const found = this.expression(0);
    if (this.at !== this.text.length) refuse("more text than one expression", this.text);
    return found;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at += found[0].length;
    return found;
  }

  private expression(depth: number): Expression {
    if (depth > MAX_NESTING) refuse("too deep a nest", this.text);
    this.match(SPACES);
    const found = this.leaf() ?? this.operation(depth);
    this.match(SPACES);
    return found;
  }

  private leaf(): Expression | null {
    const integer = this.match(INTEGER);
    if (integer !== null) return integerOf(integer[1] ?? "");
    const rational = this.match(RATIONAL);
    if (rational !== null) return rationalOf(rational[1] ?? "", rational[2] ?? "");
    const float = this.match(FLOAT);
    if (float !== null) return floatOf(float[1] ?? "", Number(float[2]));
    const symbol = this.match(SYMBOL);
    if (symbol === null) return null;
    const pairs = Array.from((symbol[2] ?? "").matchAll(ONE_ASSUMPTION), (each) => [each[1] ?? "", each[2] === "True"] as const);
    const known = new Set(pairs.map(([name]) => name));
    if (known.size !== pairs.length || pairs.some(([name]) => !ASSUMPTIONS.has(name))) {
      refuse("a wrong assumption", this.text);
    }
    return symbolOf(symbol[1] ?? "", pairs);
  }

  private operation(depth: number): Expression {
    const head = this.match(OPERATION)?.[1];
    if (head === undefined) {
      const constant = this.match(CONSTANT)?.[0] ?? "";
      if (!CONSTANTS.has(constant)) refuse("no number, symbol or operation", this.text);
      return { kind: "constant", name: constant };
    }
    const operands: Expression[] = [];
    this.match(SPACES);
    if (this.text[this.at] !== ")") {
      do operands.push(this.expression(depth + 1));
      while (this.take(","));
    }
    if (!this.take(")")) refuse("an unfinished operation", this.text);
    return operationOf(head, operands);
  }

  private take(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }
}

/** Prints constructor text. */
export function formatExpression(expression: Expression): string {
  switch (expression.kind) {
    case "integer":
      return `Integer(${expression.value})`;
    case "rational":
      return `Rational(${expression.numerator}, ${expression.denominator})`;
    case "float":
      return `Float('${expression.text}', precision=${expression.bits})`;
    case "symbol": {
      const pairs = expression.assumptions.map(([name, value]) => `, ${name}=${value ? "True" : "False"}`);
      return `Symbol('${expression.name}'${pairs.join("")})`;
    }
    case "constant":
      return expression.name;
    case "operation":
      return `${expression.head}(${expression.operands.map(formatExpression).join(", ")})`;
  }
}

/** Returns whether two expressions have equal heads and parts, in order. */
export function equalExpressions(a: Expression, b: Expression): boolean {
  return formatExpression(a) === formatExpression(b);
}
