/** Infix text of expressions, such as `2*s0 - 1`: the keys of ranges, and what people read. */

import {
  checkWhole,
  CONSTANTS,
  equalExpressions,
  floatOf,
  formatExpression,
  integerOf,
  MAX_NESTING,
  MAX_TEXT,
  operationOf,
  rationalOf,
  refuse,
  symbolOf,
  type Expression,
} from "./expressions.js";
import { OPERATION_ROWS } from "./operations.js";

const TOKEN = new RegExp(
  String.raw`[ \t\n\r\f\v]*(?:([A-Za-z_][A-Za-z0-9_]*)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|('[^'\\]*')` +
    String.raw`|(\*\*|//|<=|>=|==|!=|[-+*/<>=()~&|^,]))[ \t\n\r\f\v]*`,
  "y",
);
const DECIMAL = /^-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?$/;

/** Each relation as a sign, as a call, and as the head of its tree. */
const RELATIONS = OPERATION_ROWS.filter(([, , , , call]) => call !== "").map(
  ([head, , , sign, call]) => [sign, call, head] as const,
);
const RELATED: ReadonlyMap<string, string> = new Map(RELATIONS.map(([sign, , head]) => [sign, head]));
const CALLED: ReadonlyMap<string, string> = new Map(RELATIONS.map(([, name, head]) => [name, head]));
/** The chains from loose to tight, below relations. */
const CHAINS = OPERATION_ROWS.filter(([, , , sign, call]) => sign !== "" && call === "").map(
  ([head, , , sign]) => [sign, head] as const,
);

type Operation = Extract<Expression, { kind: "operation" }>;
type NumberLeaf = Extract<Expression, { kind: "integer" | "rational" | "float" }>;

const MINUS_ONE: Expression = { kind: "integer", value: -1n };

function isMinusOne(expression: Expression | undefined): boolean {
  return expression?.kind === "integer" && expression.value === -1n;
}

function isNumber(expression: Expression): expression is NumberLeaf {
  return expression.kind === "integer" || expression.kind === "rational" || expression.kind === "float";
}

function isOperation(expression: Expression, head: string): expression is Operation {
  return expression.kind === "operation" && expression.head === head;
}

function isNegative(number: NumberLeaf): boolean {
  if (number.kind === "float") return number.text.startsWith("-");
  return (number.kind === "integer" ? number.value : number.numerator) < 0n;
}

// ------------------------------------------------------------------------------------------------------------- parsing

interface Token {
  readonly kind: "name" | "number" | "text" | "sign" | "end";
  readonly word: string;
}

function tokensOf(text: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  for (let at = 0; at < text.length; at = TOKEN.lastIndex) {
    const [, name, number, quoted, sign] = TOKEN.exec(text) ?? refuse("an unexpected character", text);
    if (name !== undefined) found.push({ kind: "name", word: name });
    else if (number !== undefined) found.push({ kind: "number", word: number });
    else if (quoted !== undefined) found.push({ kind: "text", word: quoted.slice(1, -1) });
    else found.push({ kind: "sign", word: sign ?? "" });
  }
  return found;
}

/** Parses infix text, such as `2*s0 - 1`. */
export function parseInfix(text: string): Expression {
  if (text.length > MAX_TEXT) refuse("too many characters", text);
  return checkWhole(new InfixParser(text, tokensOf(text)).whole(), text);
}

class InfixParser {
  private at = 0;
  private depth = 0;

  constructor(
    private readonly text: string,
    private readonly tokens: readonly Token[],
  ) {}

  whole(): Expression {
    const found = this.relation();
    if (this.at !== this.tokens.length) refuse("more text than one expression", this.text);
    return found;
  }

  private get next(): Token {
    return this.tokens[this.at] ?? { kind: "end", word: "" };
  }

  private take(sign: string): boolean {
    if (this.next.kind !== "sign" || this.next.word !== sign) return false;
    this.at += 1;
    return true;
  }

  private expect(sign: string): void {
    if (!this.take(sign)) refuse(`no ${sign} where one is expected`, this.text);
  }

  private nested<T>(run: () => T): T {
    // The whole text is one level, around no operation.
    if (++this.depth > MAX_NESTING + 1) refuse("too deep a nest", this.text);
    const found = run();
    this.depth -= 1;
    return found;
  }

  private relation(): Expression {
    return this.nested(() => {
      const left = this.chain(0);
      const head = this.next.kind === "sign" ? RELATED.get(this.next.word) : undefined;
      if (head === undefined) return left;
      this.at += 1;
      return operationOf(head, [left, this.chain(0)]);
    });
  }

  private chain(level: number): Expression {
    const row = CHAINS[level];
    if (row === undefined) return this.sum();
    const operands = [this.chain(level + 1)];
    while (this.take(row[0])) operands.push(this.chain(level + 1));
    return one(row[1], operands);
  }

  private sum(): Expression {
    const terms = [this.product()];
    for (;;) {
      if (this.take("+")) terms.push(this.product());
      else if (this.take("-")) terms.push(negation(this.product()));
      else return one("Add", terms);
    }
  }

  private product(): Expression {
    let negative = this.take("-");
    let factors = [this.tight()];
    const whole = (): Expression => productOf(factors, negative);
    for (;;) {
      if (this.take("*")) {
        factors.push(this.signed());
      } else if (this.take("//")) {
        const divisor = this.signed();
        factors = [operationOf("FloorDiv", [whole(), divisor])];
        negative = false;
      } else if (this.take("/")) {
        factors = divided(factors, inverse(this.signed()));
      } else {
        return whole();
      }
    }
  }

  private signed(): Expression {
    return this.nested(() => (this.take("-") ? negation(this.signed()) : this.tight()));
  }

  private tight(): Expression {
    const base = this.operand();
    return this.take("**") ? operationOf("Pow", [base, this.signed()]) : base;
  }

  private operand(): Expression {
    const { kind, word } = this.next;
    if (this.take("~")) return operationOf("Not", [this.signed()]);
    if (this.take("-")) return negation(this.signed());
    if (this.take("(")) {
      const found = this.relation();
      this.expect(")");
      return found;
    }
    this.at += 1;
    if (kind === "number") return /^[0-9]+$/.test(word) ? integerOf(word) : floatOf(lowered(word), 53);
    if (kind !== "name") return refuse("no operand where one is expected", this.text);
    return this.take("(") ? this.call(word) : named(word);
  }

  private call(name: string): Expression {
    if (name === "Float") return this.float();
    const operands: Expression[] = [];
    if (!this.take(")")) {
      do operands.push(name === "Piecewise" ? this.pair() : this.relation());
      while (this.take(","));
      this.expect(")");
    }
    const [first, second] = operands;
    if (name === "ExprCondPair") refuse("a pair of value and condition out of place", this.text);
    if (name === "sqrt" && first !== undefined && operands.length === 1) {
      return operationOf("Pow", [first, { kind: "rational", numerator: 1n, denominator: 2n }]);
    }
    if (name === "Rational" && first?.kind === "integer" && second?.kind === "integer" && operands.length === 2) {
      return rationalOf(first.value.toString(), second.value.toString());
    }
    return operationOf(CALLED.get(name) ?? name, operands);
  }

  private pair(): Expression {
    this.expect("(");
    const value = this.relation();
    this.expect(",");
    const condition = this.relation();
    this.expect(")");
    return operationOf("ExprCondPair", [value, condition]);
  }

  private float(): Expression {
    const text = this.next;
    this.at += 1;
    this.expect(",");
    const key = this.next;
    this.at += 1;
    this.expect("=");
    const bits = this.next;
    this.at += 1;
    this.expect(")");
    if (text.kind !== "text" || !DECIMAL.test(text.word) || key.word !== "precision" || !/^[0-9]{1,5}$/.test(bits.word)) {
      refuse("a wrong float", this.text);
    }
    return floatOf(text.word, Number(bits.word));
  }
}

function lowered(number: string): string {
  const text = number.toLowerCase();
  return text.startsWith(".") ? `0${text}` : text;
}

function named(word: string): Expression {
  const name = word === "True" ? "true" : word === "False" ? "false" : word;
  return CONSTANTS.has(name) ? { kind: "constant", name } : symbolOf(name);
}

function one(head: string, operands: readonly Expression[]): Expression {
  return operands.length === 1 && operands[0] !== undefined ? operands[0] : operationOf(head, operands);
}

function negatedNumber(number: NumberLeaf): NumberLeaf {
  if (number.kind === "integer") return { ...number, value: -number.value };
  if (number.kind === "rational") return { ...number, numerator: -number.numerator };
  return { ...number, text: `-${number.text}` };
}

function negation(operand: Expression): Expression {
  if (isNumber(operand) && !isNegative(operand)) return negatedNumber(operand);
  if (operand.kind === "constant" && (operand.name === "oo" || operand.name === "int_oo")) {
    return { kind: "constant", name: `-${operand.name}` };
  }
  if (isOperation(operand, "Mul") && !isMinusOne(operand.operands[0])) {
    return operationOf("Mul", [MINUS_ONE, ...operand.operands]);
  }
  return operationOf("Mul", [MINUS_ONE, operand]);
}

function productOf(factors: readonly Expression[], negative: boolean): Expression {
  const [first] = factors;
  if (factors.length > 1 || first === undefined) return operationOf("Mul", negative ? [MINUS_ONE, ...factors] : factors);
  if (!negative) return first;
  return isOperation(first, "Mul") ? operationOf("Mul", [MINUS_ONE, first]) : negation(first);
}

interface Inverse {
  readonly integer: bigint;
  readonly powers: readonly Expression[];
}

function inverse(divisor: Expression): Inverse {
  if (divisor.kind === "integer" && divisor.value > 0n) return { integer: divisor.value, powers: [] };
  if (isOperation(divisor, "Mul")) {
    const parts = divisor.operands.map(inverse);
    if (parts.slice(1).every((part) => part.integer === 1n)) {
      return { integer: parts[0]?.integer ?? 1n, powers: parts.flatMap((part) => part.powers) };
    }
  }
  if (isOperation(divisor, "Pow")) {
    const [base, exponent] = divisor.operands as [Expression, Expression];
    if ((exponent.kind === "integer" || exponent.kind === "rational") && !isNegative(exponent)) {
      return { integer: 1n, powers: [operationOf("Pow", [base, negatedNumber(exponent)])] };
    }
  }
  return { integer: 1n, powers: [operationOf("Pow", [divisor, MINUS_ONE])] };
}

function divided(factors: readonly Expression[], by: Inverse): Expression[] {
  let found = [...factors];
  const [first] = found;
  if (by.powers.length > 0 && found.length === 1 && first?.kind === "integer" && first.value === 1n) found = [];
  if (by.integer !== 1n) {
    const [lead] = found;
    if (lead?.kind === "integer" && lead.value >= 0n) {
      found[0] = { kind: "rational", numerator: lead.value, denominator: by.integer };
    } else {
      found.unshift({ kind: "rational", numerator: 1n, denominator: by.integer });
    }
  }
  found.push(...by.powers);
  return found;
}

// ------------------------------------------------------------------------------------------------------------ printing

const ATOM = 9;
/** How tightly text binds that sympy prints as a call, but puts in parentheses like an operator. */
const BINDINGS: ReadonlyMap<string, number> = new Map(OPERATION_ROWS.map(([head, , , , , binding]) => [head, binding]));
const SIGNS: ReadonlyMap<string, string> = new Map(
  RELATIONS.filter(([sign]) => sign !== "==" && sign !== "!=").map(([sign, , head]) => [head, sign]),
);
const CALLS: ReadonlyMap<string, string> = new Map(RELATIONS.map(([, name, head]) => [head, name]));
const CONNECTIVES: ReadonlyMap<string, readonly [sign: string, binding: number]> = new Map(
  CHAINS.map(([sign, head], index) => [head, [sign, index + 2]]),
);

/** Prints infix text as sympy does, if that text parses back to an equal tree; otherwise it prints a call. */
export function formatInfix(expression: Expression): string {
  return infix(expression, 0);
}

function infix(expression: Expression, power: number): string {
  const [text, binding] = spelled(expression);
  return binding < power ? `(${text})` : text;
}

function spelled(expression: Expression): readonly [text: string, binding: number] {
  switch (expression.kind) {
    case "symbol":
      return [expression.name, ATOM];
    case "integer":
      return [expression.value.toString(), expression.value < 0n ? 5 : ATOM];
    case "float": {
      const plain = expression.bits === 53 && !/^-*[0-9]+$/.test(expression.text);
      return plain ? [expression.text, isNegative(expression) ? 5 : ATOM] : [formatExpression(expression), ATOM];
    }
    case "rational": {
      const { numerator, denominator } = expression;
      if (denominator === 1n || numerator === 0n) return [formatExpression(expression), ATOM];
      return [`${numerator}/${denominator}`, numerator < 0n ? 5 : 6];
    }
    case "constant":
      return [CONSTANT_WORDS[expression.name] ?? expression.name, expression.name.startsWith("-") ? 5 : ATOM];
    case "operation":
      return spelledOperation(expression);
  }
}

const CONSTANT_WORDS: Readonly<Record<string, string>> = { true: "True", false: "False" };

function spelledOperation({ head, operands }: Operation): readonly [string, number] {
  const [first, second] = operands;
  if (head === "Add" && operands.length > 1) return [sumText(operands), 5];
  if (head === "Mul") {
    const text = productText(operands);
    if (text !== "") return [text, text.startsWith("-") ? 5 : 6];
  }
  if (first !== undefined && second !== undefined && operands.length === 2) {
    const power = head === "Pow" ? powerText(first, second) : undefined;
    if (power !== undefined) return power;
    if (head === "FloorDiv") return [`(${infix(first, ATOM)}//${infix(second, ATOM)})`, 4];
    const sign = SIGNS.get(head);
    if (sign !== undefined) return [`${infix(first, 5)} ${sign} ${infix(second, 5)}`, 1];
  }
  const connective = CONNECTIVES.get(head);
  if (connective !== undefined && operands.length > 1) {
    const [sign, binding] = connective;
    return [operands.map((operand) => infix(operand, binding + 1)).join(` ${sign} `), binding];
  }
  if (head === "Not" && first !== undefined) return [`~${infix(first, 8)}`, 7];
  if (head === "Piecewise") {
    const pairs = operands.map((pair) => `(${(pair as Operation).operands.map((part) => infix(part, 0)).join(", ")})`);
    return [`Piecewise(${pairs.join(", ")})`, ATOM];
  }
  const listed = operands.map((operand) => infix(operand, 0)).join(", ");
  return [`${CALLS.get(head) ?? head}(${listed})`, BINDINGS.get(head) ?? ATOM];
}

function sumText(terms: readonly Expression[]): string {
  const texts = terms.map((term) => infix(term, isOperation(term, "Add") ? 6 : 5));
  return texts.reduce((sum, text) => (text.startsWith("-") ? `${sum} - ${text.slice(1)}` : `${sum} + ${text}`));
}

/** Returns a product's text, or no text if only a call parses back to it. */
function productText(factors: readonly Expression[]): string {
  const negative = isMinusOne(factors[0]);
  let rest = negative ? factors.slice(1) : [...factors];
  let divisor = "";
  const [lead] = rest;
  if (rest.length > 1 && lead?.kind === "rational" && !isNegative(lead)) {
    if (lead.numerator === 0n || lead.denominator === 1n) return "";
    divisor = `/${lead.denominator}`;
    rest = lead.numerator === 1n ? rest.slice(1) : [{ kind: "integer", value: lead.numerator }, ...rest.slice(1)];
  }
  const [first, ...others] = rest;
  if (first === undefined || (others.length === 0 && !negative && divisor === "")) return "";
  if (isNumber(first) && (first.kind === "rational" || isNegative(first) || (first.kind === "integer" && first.value === 1n))) {
    return "";
  }
  if (others.some(isNumber) || (others.length === 0 && (isNumber(first) || isOperation(first, "Mul")))) return "";
  const [head = "", ...texts] = rest.map((factor) => infix(factor, isOperation(factor, "Pow") ? 6 : 7));
  const words = texts.map((text) => (text.startsWith("1/") ? text.slice(1) : `*${text}`));
  return `${negative ? "-" : ""}${head}${words.join("")}${divisor}`;
}

function powerText(base: Expression, exponent: Expression): readonly [string, number] | undefined {
  const simple = !isOperation(base, "Mul") && !isOperation(base, "Pow") && !isNumber(base);
  if (isMinusOne(exponent) && simple) return [`1/${infix(base, ATOM)}`, 6];
  if (equalExpressions(exponent, { kind: "rational", numerator: 1n, denominator: 2n })) return [`sqrt(${infix(base, 0)})`, ATOM];
  return [`${infix(base, ATOM)}**${infix(exponent, ATOM)}`, 8];
}
