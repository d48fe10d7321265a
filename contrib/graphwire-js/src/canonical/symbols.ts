/** Contents of symbolic expressions, and the names that symbols get by their use. */

import { GraphwireError } from "../errors.js";
import { parseExpression, type Expression } from "../expressions.js";
import { parseInfix } from "../infix.js";
import type { RangeConstraint } from "../schema.js";
import { compareText } from "../summary.js";
import { compareBytes, contentBytes, digest, type Content } from "./content.js";

/** The operations whose operands have no order. */
export const UNORDERED: ReadonlySet<string> = new Set(["Add", "And", "Max", "Min", "Mul", "Or", "Xor", "Equality", "Unequality"]);
const FLAT: ReadonlySet<string> = new Set(["Add", "And", "Max", "Min", "Mul", "Or", "Xor"]);
const EXCHANGED: Readonly<Partial<Record<string, string>>> = { GreaterThan: "LessThan", StrictGreaterThan: "StrictLessThan" };
const MAX_BITS = 256;

type ListContent = readonly Content[];

function isList(content: Content): content is ListContent {
  return Array.isArray(content);
}

/** Returns the content of an expression, with names for its symbols. */
export function expressionContent(expression: Expression, nameOf: (symbol: string) => string): Content {
  switch (expression.kind) {
    case "integer":
      return expression.value;
    case "rational":
      return fraction(expression.numerator, expression.denominator);
    case "float":
      return expression.bits === 53 ? Number(expression.text) : ["Float", expression.text, BigInt(expression.bits)];
    case "symbol":
      return ["symbol", nameOf(expression.name)];
    case "constant":
      return CONSTANTS.get(expression.name) ?? [expression.name];
    case "operation":
      return operationContent(
        expression.head,
        expression.operands.map((operand) => expressionContent(operand, nameOf)),
      );
  }
}

const CONSTANTS: ReadonlyMap<string, Content> = new Map<string, Content>([
  ["true", true],
  ["false", false],
  ["oo", Infinity],
  ["-oo", -Infinity],
  ["nan", NaN],
]);

function fraction(numerator: bigint, denominator: bigint): Content {
  let [a, b] = [numerator < 0n ? -numerator : numerator, denominator];
  while (b !== 0n) [a, b] = [b, a % b];
  const divisor = a === 0n ? 1n : a;
  return denominator === divisor ? numerator / divisor : ["Rational", numerator / divisor, denominator / divisor];
}

function operationContent(head: string, given: readonly Content[]): Content {
  let operands = [...given];
  if (FLAT.has(head)) operands = operands.flatMap((each) => (isList(each) && each[0] === head ? each.slice(1) : [each]));
  if (head === "Mul") operands = multiplied(operands);
  if (FLAT.has(head) && operands.length === 1) return operands[0] ?? null;
  if (UNORDERED.has(head)) operands = sortedByBytes(operands);
  const exchanged = EXCHANGED[head];
  return exchanged === undefined ? [head, ...operands] : [exchanged, ...operands.reverse()];
}

/** Returns factors with their integers and fractions multiplied into one, in front of the others. */
function multiplied(factors: readonly Content[]): Content[] {
  let [numerator, denominator] = [1n, 1n];
  const rest = factors.filter((factor) => {
    const [p, q] = isList(factor) && factor[0] === "Rational" ? [factor[1], factor[2]] : [factor, 1n];
    if (typeof p !== "bigint" || typeof q !== "bigint") return true;
    const product = [numerator * p, denominator * q] as const;
    if (product.some((number) => bits(number) > MAX_BITS)) return true;
    [numerator, denominator] = product;
    return false;
  });
  const number = fraction(numerator, denominator);
  return number === 1n && rest.length > 0 ? rest : [number, ...rest];
}

function bits(value: bigint): number {
  const digits = (value < 0n ? -value : value).toString(2);
  return digits === "0" ? 0 : digits.length;
}

function sortedByBytes(contents: readonly Content[]): Content[] {
  const rows = contents.map((content) => [contentBytes(content), content] as const);
  return rows.sort(([a], [b]) => compareBytes(a, b)).map(([, content]) => content);
}

/** Returns an expression in either syntax; null if it is not one. */
export function parsedExpression(text: string, parse: (text: string) => Expression = parseExpression): Expression | null {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof GraphwireError) return null;
    throw error;
  }
}

interface Key {
  readonly content: Content;
  readonly expression: Expression | null;
  readonly bounds: Content;
}

function keysOf(ranges: ReadonlyMap<string, RangeConstraint>): Key[] {
  return Array.from(ranges, ([text, { min_val, max_val }]) => {
    const expression = parsedExpression(text, parseInfix);
    const content = expression === null ? text : expressionContent(expression, (name) => name);
    return { content, expression, bounds: [min_val, max_val] };
  });
}

/**
 * Returns the new name of each symbol of a program.
 *
 * @param texts the constructor texts of its values, in the order of their first use
 * @param ranges its ranges, by infix text
 */
export function symbolNames(texts: Iterable<string>, ranges: ReadonlyMap<string, RangeConstraint>): Map<string, string> {
  const expressions = Array.from(new Set(texts), (text) => parsedExpression(text)).filter((each) => each !== null);
  const keys = keysOf(ranges);
  const first = new Map<string, number>();
  const note = (expression: Expression, index: number): void => {
    for (const name of symbolsIn(expression)) if (!first.has(name)) first.set(name, index);
  };
  expressions.forEach(note);
  for (const { expression } of keys) if (expression !== null) note(expression, expressions.length);
  const colours = coloursOf([...first.keys()], expressions, keys);
  const order = [...first].sort(([a, at], [b, other]) => {
    return at - other || compareBytes(colours.get(a) ?? EMPTY, colours.get(b) ?? EMPTY) || compareText(a, b);
  });
  const counts = new Map<string, number>();
  return new Map(
    order.map(([name]) => {
      const letters = lettersOf(name);
      const count = counts.get(letters) ?? 0;
      counts.set(letters, count + 1);
      return [name, `${letters}${count}`];
    }),
  );
}

const EMPTY = new Uint8Array();

function* symbolsIn(expression: Expression): Generator<string> {
  if (expression.kind === "symbol") yield expression.name;
  if (expression.kind === "operation") for (const operand of expression.operands) yield* symbolsIn(operand);
}

function lettersOf(name: string): string {
  return /^([a-z]+)[0-9]+$/.exec(name)?.[1] ?? "s";
}

function coloursOf(names: readonly string[], expressions: readonly Expression[], keys: readonly Key[]): Map<string, Uint8Array> {
  const own = new Map(keys.map(({ content, bounds }) => [symbolOf(content) ?? "", bounds]));
  let colours = new Map(names.map((name) => [name, digest(lettersOf(name), contentBytes(own.get(name) ?? [null, null]))]));
  const trees = new Map<string, Content>();
  for (const expression of expressions) {
    const content = expressionContent(expression, (name) => name);
    trees.set(contentBytes(content).join(), content);
  }
  const roots: [Uint8Array, Content][] = [...trees.values()].map((tree, index) => [digest("value", String(index)), tree]);
  roots.push(...keys.map(({ content, bounds }): [Uint8Array, Content] => [digest("range", contentBytes(bounds)), content]));
  for (let round = 0; round < 2; round++) {
    const ways = new Map<string, Uint8Array[]>(names.map((name) => [name, []]));
    const before = colours;
    for (const [way, tree] of roots) walk(tree, way, before, ways);
    colours = new Map(
      names.map((name) => [name, digest(before.get(name) ?? EMPTY, ...(ways.get(name) ?? []).sort(compareBytes))]),
    );
  }
  return colours;
}

function symbolOf(content: Content): string | null {
  return isList(content) && content[0] === "symbol" && typeof content[1] === "string" ? content[1] : null;
}

function walk(content: Content, way: Uint8Array, colours: ReadonlyMap<string, Uint8Array>, ways: Map<string, Uint8Array[]>): void {
  const symbol = symbolOf(content);
  if (symbol !== null) {
    ways.get(symbol)?.push(way);
  } else if (isList(content)) {
    const shape = shapeOf(content, colours);
    const [head, ...operands] = content;
    operands.forEach((operand, index) => {
      const step = isUnordered(head) ? shapeOf(operand, colours) : String(index);
      walk(operand, digest(way, shape, step), colours, ways);
    });
  }
}

function shapeOf(content: Content, colours: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const symbol = symbolOf(content);
  if (symbol !== null) return colours.get(symbol) ?? EMPTY;
  if (!isList(content)) return digest("number", contentBytes(content));
  const [head, ...operands] = content;
  const shapes = operands.map((operand) => shapeOf(operand, colours));
  return digest(typeof head === "string" ? head : "", ...(isUnordered(head) ? shapes.sort(compareBytes) : shapes));
}

function isUnordered(head: Content | undefined): boolean {
  return typeof head === "string" && UNORDERED.has(head);
}
