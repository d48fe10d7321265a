/** Expressions, infix text, guards and treespecs: the examples of the specification. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { formatExpression, formatInfix, parseExpression, parseGuard, parseInfix, parseTreespec, type Expression } from "graphwire-js";

type Form = readonly unknown[];

/** Returns the rows of a block of a page of the specification. */
function block<T>(page: string, name: string): T[] {
  const text = readFileSync(`../../docs/spec/${page}.md`, "utf8");
  const [, json] = new RegExp(`\`\`\`json ${name}\n(.*?)\`\`\``, "s").exec(text) ?? [];
  assert.ok(json, `${page}.md has no block ${name}`);
  return JSON.parse(json) as T[];
}

/** Returns an expression as the pages write it. */
function form(expression: Expression): Form {
  switch (expression.kind) {
    case "integer":
      return ["Integer", Number(expression.value)];
    case "rational":
      return ["Rational", Number(expression.numerator), Number(expression.denominator)];
    case "float":
      return ["Float", expression.text, expression.bits];
    case "symbol":
      return ["Symbol", expression.name, ...expression.assumptions];
    case "constant":
      return [expression.name];
    case "operation":
      return [expression.head, ...expression.operands.map(form)];
  }
}

test("constructor and infix text are parsed as the specification says", () => {
  for (const [name, parse] of [["constructor", parseExpression], ["infix", parseInfix]] as const) {
    for (const [text, expected] of block<[string, Form | null]>("expressions", name)) {
      if (expected === null) assert.throws(() => parse(text), { name: "GraphwireError" }, text);
      else assert.deepStrictEqual(form(parse(text)), expected, text);
    }
  }
});

test("printed expressions are parsed to equal trees", () => {
  for (const [text, expected] of block<[string, Form | null]>("expressions", "infix")) {
    if (expected === null) continue;
    const expression = parseInfix(text);
    assert.deepStrictEqual(parseInfix(formatInfix(expression)), expression, text);
    assert.deepStrictEqual(parseExpression(formatExpression(expression)), expression, text);
  }
});

test("guards are parsed or refused as the specification says", () => {
  for (const [text, legal] of block<[string, boolean]>("expressions", "guard")) {
    if (legal) parseGuard(text);
    else assert.throws(() => parseGuard(text), { name: "GraphwireError" }, text);
  }
});

test("treespecs are parsed or refused as the specification says", () => {
  for (const spec of block<unknown>("treespecs", "treespec")) parseTreespec(JSON.stringify(spec));
  for (const spec of block<unknown>("treespecs", "treespec-refused")) {
    assert.throws(() => parseTreespec(JSON.stringify(spec)), { name: "GraphwireError" }, JSON.stringify(spec));
  }
});
