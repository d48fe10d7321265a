/** Readable names for the symbols of a program, and the texts of values with them. */

import { parsedExpression, UNORDERED } from "./canonical/symbols.js";
import { formatExpression, parseExpression, type Expression } from "./expressions.js";
import { formatInfix, parseInfix } from "./infix.js";
import type { Argument, Program, SymBool, SymFloat, SymInt } from "./schema.js";
import { compareText, literalText } from "./summary.js";

/** Readable names for the symbols of a program: `x.shape[0]` for a size of an input. */
export class Labels {
  private readonly labels: ReadonlyMap<string, string>;
  private readonly texts = new Map<string, string>();

  /**
   * @param numbers the name of each symbol in the canonical form, for symbols that are not the size of an input
   * @param inputs the names of the user inputs by position, and perhaps of more
   */
  constructor(program: Program, numbers: ReadonlyMap<string, string>, inputs: readonly string[]) {
    const own = new Map<string, string>();
    const note = (value: SymInt, label: string): void => {
      const expression = value.variant === "as_expr" ? parsedEither(value.value.expr_str) : null;
      if (expression?.kind === "symbol" && !own.has(expression.name)) own.set(expression.name, label);
    };
    const { graph } = program.graph_module;
    userInputs(program).forEach((argument, index) => {
      const label = inputs[index];
      const name = valueName(argument) ?? "";
      if (label === undefined) return;
      const meta = graph.tensor_values.get(name);
      const size = graph.sym_int_values.get(name);
      if (meta !== undefined) meta.sizes.forEach((each, dimension) => { note(each, `${label}.shape[${dimension}]`); });
      else if (size !== undefined) note(size, label);
    });
    this.labels = new Map([...numbers, ...own]);
  }

  private written(expression: Expression): string {
    return formatInfix(renamed(expression, (name) => this.labels.get(name) ?? name));
  }

  /** Returns an expression as readable text. */
  infix(text: string): string {
    const known = this.texts.get(text);
    if (known !== undefined) return known;
    const expression = parsedEither(text);
    const made = expression === null ? text : this.written(expression);
    this.texts.set(text, made);
    return made;
  }

  /** Returns the key of a range as readable text. */
  range(text: string): string {
    const expression = parsedExpression(text, parseInfix);
    return expression === null ? text : this.written(expression);
  }

  /** Returns a number or truth value, which may be symbolic, as readable text. */
  value(value: SymInt | SymFloat | SymBool): string {
    return value.variant === "as_expr" ? this.infix(value.value.expr_str) : literalText(value.value);
  }
}

function parsedEither(text: string): Expression | null {
  return parsedExpression(text, parseExpression) ?? parsedExpression(text, parseInfix);
}

/** Returns an expression with its symbols renamed, and with operands sorted if their order has no meaning. */
function renamed(expression: Expression, rename: (name: string) => string): Expression {
  if (expression.kind === "symbol") return { ...expression, name: rename(expression.name) };
  if (expression.kind !== "operation") return expression;
  const operands = expression.operands.map((operand) => renamed(operand, rename));
  if (UNORDERED.has(expression.head)) {
    const texts = operands.map((operand) => [sortingText(operand), operand] as const);
    return { ...expression, operands: texts.sort(([a], [b]) => compareText(a, b)).map(([, operand]) => operand) };
  }
  return { ...expression, operands };
}

function sortingText(expression: Expression): string {
  if (expression.kind === "symbol") {
    const assumptions = [...expression.assumptions].sort(([a], [b]) => compareText(a, b));
    return formatExpression({ ...expression, assumptions });
  }
  if (expression.kind !== "operation") return formatExpression(expression);
  return `${expression.head}(${expression.operands.map(sortingText).join(", ")})`;
}

/** Returns the arguments that the caller passes, in order. */
export function userInputs(program: Program): Argument[] {
  const { graph, signature } = program.graph_module;
  return graph.inputs.filter((_, index) => {
    const variant = signature.input_specs[index]?.variant;
    return variant === "user_input" || variant === "constant_input";
  });
}

/** Returns the name of the value that an argument refers to; null for a literal or a list. */
export function valueName(argument: Argument): string | null {
  switch (argument.variant) {
    case "as_tensor":
    case "as_custom_obj":
      return argument.value.name;
    case "as_sym_int":
    case "as_sym_float":
    case "as_sym_bool":
      return argument.value.variant === "as_name" ? argument.value.value : null;
    default:
      return null;
  }
}
