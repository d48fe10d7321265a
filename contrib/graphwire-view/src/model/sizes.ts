/** Finds which sizes of inputs the symbols of a program are. */

import { parseExpression, type Program } from "graphwire-js";

import { interfaceOf } from "./interface.js";

/** Returns for each symbol the first size of an input that it is, such as `tokens.shape[0]`. */
export function sizesOfInputs(program: Program): ReadonlyMap<string, string> {
  const { graph, signature } = program.graph_module;
  const { inputNames } = interfaceOf(program);
  const found = new Map<string, string>();
  const note = (text: string, origin: string): void => {
    const symbol = symbolIn(text);
    if (symbol !== "" && !found.has(symbol)) found.set(symbol, origin);
  };
  signature.input_specs.forEach((spec, index) => {
    if (spec.arm !== "user_input") return;
    const { arg } = spec.value;
    const value = arg.arm === "as_tensor" ? arg.value.name : arg.arm === "as_sym_int" && arg.value.arm === "as_name" ? arg.value.value : "";
    const name = inputNames.get(index) ?? value;
    graph.tensor_values.get(value)?.sizes.forEach((size, dimension) => {
      if (size.arm === "as_expr") note(size.value.expr_str, `${name}.shape[${dimension}]`);
    });
    const integer = graph.sym_int_values.get(value);
    if (integer?.arm === "as_expr") note(integer.value.expr_str, name);
  });
  return found;
}

function symbolIn(text: string): string {
  try {
    const expression = parseExpression(text);
    return expression.kind === "symbol" ? expression.name : "";
  } catch {
    return "";
  }
}
