/** Texts of a document that have a grammar: they stay text in records, and are checked and printed by their trees. */

import { type Expression, parseExpression } from "./expressions.js";
import { parseGuard, type Guard, type SourceStep } from "./guards.js";
import { parseInfix } from "./infix.js";
import { parsedContext, parseTreespec, type TreeSpec } from "./treespecs.js";
import { float, integer, taggedTree, text, type Neutral, type Type } from "./types.js";

/** Constructor text of an expression. */
export const expressionText: Type<string> = {
  read: (tree) => text.read(tree),
  neutral: (value) => expressionNeutral(parseExpression(value)),
};

/** Infix text of an expression, as neutral JSON. */
export function infixText(value: string): Neutral {
  return expressionNeutral(parseInfix(value));
}

/** Text of a treespec. */
export const treespecText: Type<string> = {
  read: (tree) => text.read(tree),
  neutral: (value) => treespecNeutral(parseTreespec(value)),
};

/** A guard. */
export const guardText: Type<string> = {
  read: (tree) => text.read(tree),
  neutral: (value) => guardNeutral(parseGuard(value)),
};

function expressionNeutral(expression: Expression): Neutral {
  switch (expression.kind) {
    case "integer":
      return integer.neutral(expression.value);
    case "rational":
      return { op: "Rational", args: [integer.neutral(expression.numerator), integer.neutral(expression.denominator)] };
    case "float":
      return { decimal: expression.text, precision: { int: expression.bits.toString() } };
    case "symbol": {
      const assumptions = expression.assumptions.map(([name, value]): Neutral => [name, value]);
      return { symbol: expression.name, ...(assumptions.length > 0 ? { assumptions } : {}) };
    }
    case "constant":
      return { constant: expression.name };
    case "operation":
      return { op: expression.head, args: expression.operands.map(expressionNeutral) };
  }
}

function treespecNeutral(spec: TreeSpec): Neutral {
  if (spec === null) return { leaf: true };
  const parsed = parsedContext(spec.context, {});
  const context: Neutral = parsed === undefined ? { value: taggedTree(spec.context) } : { json: taggedTree(parsed) };
  return { type: spec.type, context, children: spec.children.map(treespecNeutral) };
}

function stepNeutral(step: SourceStep): Neutral {
  switch (step.kind) {
    case "key":
      return ["key", step.key];
    case "index":
      return ["index", integer.neutral(step.index)];
    default:
      return [step.kind, step.name];
  }
}

function guardNeutral(guard: Guard): Neutral {
  switch (guard.kind) {
    case "integer":
      return integer.neutral(guard.value);
    case "float":
      return float.neutral(guard.value);
    case "truth":
      return guard.value;
    case "constant":
      return { constant: guard.name };
    case "source":
      return { source: guard.steps.map(stepNeutral) };
    case "operation":
      return { op: guard.head, args: guard.operands.map(guardNeutral) };
  }
}
