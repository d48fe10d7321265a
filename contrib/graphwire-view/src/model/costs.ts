/** What the calls of nodes cost at some sizes: floating-point operations, as torch's flop counter counts them, and the bytes of operands and results. */

import { dtypeName, itemSize, namesIn, nodeName, parseExpression, subgraphsOf, type Argument, type Expression, type Graph, type Node, type Program, type SymInt, type TensorMeta } from "graphwire-js";

export interface Cost {
  /** NaN if a size is unknown, or nobody counts the operator. */
  readonly flops: number;
  readonly bytes: number;
}

/** The sizes that a program has at some values of its symbols. At first those are of the example inputs. */
export class Sizes {
  /** The value of each symbol; that of an unknown one is NaN. */
  readonly assumed = new Map<string, number>();
  private changed = false;
  private readonly known = new Map<string, Expression | null>();

  constructor(program: Program) {
    const hinted: (readonly [Expression, number])[] = [];
    for (const [graph] of graphsOf(program)) {
      const sizes = [...graph.tensor_values.values()].flatMap((meta) => meta.sizes);
      for (const size of [...sizes, ...graph.sym_int_values.values()]) {
        if (size.variant !== "as_expr" || this.known.has(size.value.expr_str)) continue;
        const expression = this.expression(size.value.expr_str);
        if (expression === null) continue;
        for (const name of symbolsOf(expression)) this.assumed.set(name, NaN);
        if (size.value.hint?.variant === "as_int") hinted.push([expression, Number(size.value.hint.value)]);
      }
    }
    for (const [expression, hint] of hinted) {
      const names = [...symbolsOf(expression)];
      const [name = ""] = names;
      if (names.length !== 1 || !Number.isNaN(this.assumed.get(name))) continue;
      const at = (value: number): number => evaluate(expression, new Map([[name, value]]));
      const solved = (hint - at(0)) / (at(1) - at(0)); // sizes are mostly linear: s0, 2*s0, s0 + 1
      if (Number.isInteger(solved) && at(solved) === hint) this.assumed.set(name, solved);
    }
  }

  /** Assumes another value of a symbol. */
  assume(name: string, value: number): void {
    this.assumed.set(name, value);
    this.changed = true;
  }

  /** `b = 2, s1 = 16`; empty if all sizes are fixed. */
  get text(): string {
    return Array.from(this.assumed, ([name, value]) => `${name} = ${Number.isNaN(value) ? "?" : value.toLocaleString("en")}`).join(", ");
  }

  /** Returns a size as a number; NaN if it is unknown before the program runs. */
  number(size: SymInt): number {
    if (size.variant === "as_int") return Number(size.value);
    const { expr_str: text, hint } = size.value;
    if (!this.changed && hint?.variant === "as_int") return Number(hint.value);
    const expression = this.expression(text);
    return expression === null ? NaN : evaluate(expression, this.assumed);
  }

  private expression(text: string): Expression | null {
    let found = this.known.get(text);
    if (found === undefined) {
      try {
        found = parseExpression(text);
      } catch {
        found = null;
      }
      this.known.set(text, found);
    }
    return found;
  }
}

function symbolsOf(expression: Expression, found = new Set<string>()): Set<string> {
  if (expression.kind === "symbol") found.add(expression.name);
  if (expression.kind === "operation") for (const operand of expression.operands) symbolsOf(operand, found);
  return found;
}

const OPERATIONS: Readonly<Record<string, (...given: number[]) => number>> = {
  Add: (...given) => given.reduce((sum, each) => sum + each, 0),
  Mul: (...given) => product(given),
  Pow: (a = NaN, b = NaN) => a ** b,
  FloorDiv: (a = NaN, b = NaN) => Math.floor(a / b),
  CeilDiv: (a = NaN, b = NaN) => Math.ceil(a / b),
  IntTrueDiv: (a = NaN, b = NaN) => a / b,
  Mod: (a = NaN, b = NaN) => ((a % b) + b) % b,
  ModularIndexing: (a = NaN, b = NaN, c = NaN) => Math.floor(a / b) % c,
  Max: Math.max,
  Min: Math.min,
  Abs: Math.abs,
  floor: Math.floor,
  ceiling: Math.ceil,
  Identity: (a = NaN) => a,
};
const SAME: Readonly<Record<string, string>> = { CleanDiv: "FloorDiv", PythonMod: "Mod", PowByNatural: "Pow", FloatPow: "Pow", FloatTrueDiv: "IntTrueDiv", FloorToInt: "floor", CeilToInt: "ceiling", TruncToInt: "floor", ToFloat: "Identity" };

/** Returns the value of an expression; NaN if an operation or a symbol is unknown. */
export function evaluate(expression: Expression, values: ReadonlyMap<string, number>): number {
  switch (expression.kind) {
    case "integer":
      return Number(expression.value);
    case "rational":
      return Number(expression.numerator) / Number(expression.denominator);
    case "float":
      return Number(expression.text);
    case "symbol":
      return values.get(expression.name) ?? NaN;
    case "operation": {
      const { head } = expression;
      const name = SAME[head] ?? head;
      const act = Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
      return act === undefined ? NaN : act(...expression.operands.map((operand) => evaluate(operand, values)));
    }
    default:
      return NaN;
  }
}

function product(numbers: readonly number[]): number {
  return numbers.reduce((found, each) => found * each, 1);
}

/** A call: the shapes of its tensors, by the name of the argument. */
interface Call {
  readonly node: Node;
  readonly shape: (argument: string) => readonly number[];
  readonly shapes: (argument: string) => readonly (readonly number[])[];
  readonly out: readonly number[];
}

/** `a` has the rows, as many columns are multiplied for each element of the result. */
const multiplied = (a: string) => ({ shape, out }: Call): number => 2 * product(out) * (shape(a).at(-1) ?? NaN);

function convolved({ node, shape, out }: Call): number {
  const isTransposed = node.target.includes("conv_transpose") || node.inputs.some(({ name, arg }) => name === "transposed" && arg.variant === "as_bool" && arg.value);
  const [input, weight] = [shape("input"), shape("weight")];
  const spatial = weight.length - 2;
  const places = isTransposed ? input : out;
  const batch = input.length > spatial + 1 ? (input[0] ?? NaN) : 1;
  return 2 * batch * product(places.slice(-spatial)) * product(weight);
}

function attended({ shape }: Call): number {
  const [query, key, value] = [shape("query"), shape("key"), shape("value")];
  return 2 * product(query) * (key.at(-2) ?? NaN) + 2 * product(query.slice(0, -1)) * (key.at(-2) ?? NaN) * (value.at(-1) ?? NaN);
}

function recurred({ shape, shapes }: Call): number {
  return 2 * product(shape("input").slice(0, -1)) * shapes("params").reduce((sum, weight) => sum + (weight.length === 2 ? product(weight) : 0), 0);
}

/** The product of all sizes that the letters of an equation name. */
function summed({ node, shapes }: Call): number {
  const equation = node.inputs.find(({ name }) => name === "equation")?.arg;
  const operands = shapes("tensors");
  if (equation?.variant !== "as_string" || operands.length !== 2 || equation.value.includes(".")) return operands.length < 2 ? 0 : NaN;
  const sizes = new Map<string, number>();
  (equation.value.split("->")[0] ?? "").split(",").forEach((letters, index) => {
    Array.from(letters.trim()).forEach((letter, at) => sizes.set(letter, operands[index]?.[at] ?? NaN));
  });
  return 2 * product([...sizes.values()]);
}

/** Formulas by the names of operators. What torch's flop counter does not count has none. */
const FORMULAS: Readonly<Record<string, (call: Call) => number>> = {
  linear: multiplied("input"), mm: multiplied("self"), bmm: multiplied("self"), matmul: multiplied("self"), _scaled_mm: multiplied("self"), _int_mm: multiplied("self"), mv: multiplied("self"),
  dot: multiplied("self"), addmm: multiplied("mat1"), addmv: multiplied("mat"), baddbmm: multiplied("batch1"), scaled_dot_product_attention: attended, flex_attention: attended,
  lstm: recurred, gru: recurred, rnn_tanh: recurred, rnn_relu: recurred, einsum: summed,
};
/** The libraries of torch. */
const OWN = new Set(["aten", "prims", "prim", "higher_order", "_operator"]);

/** What the nodes of a program cost, at sizes that can be changed. */
export class Work {
  readonly sizes: Sizes;
  private found: ReadonlyMap<string, Cost> | null = null;

  constructor(private readonly program: Program) {
    this.sizes = new Sizes(program);
  }

  /** By the path of the node. */
  get costs(): ReadonlyMap<string, Cost> {
    return (this.found ??= costsOf(this.program, this.sizes));
  }

  /** Where the numbers come from, and at which sizes. */
  get source(): string {
    const { text } = this.sizes;
    return `Estimates by the formulas of torch’s flop counter${text === "" ? "" : `, at ${text}`}. It counts products of matrices, convolutions and attention; a graph inside a node counts once.`;
  }

  assume(name: string, value: number): void {
    this.sizes.assume(name, value);
    this.found = null;
  }
}

/** Returns what each node costs, by its path. */
function costsOf(program: Program, sizes: Sizes): Map<string, Cost> {
  const found = new Map<string, Cost>();
  for (const [graph, prefix] of graphsOf(program)) {
    const shapes = new Map<string, number[]>();
    const shapeOf = (value: string): number[] => {
      const meta = graph.tensor_values.get(value);
      const known = shapes.get(value) ?? (meta?.sizes ?? []).map((size) => sizes.number(size));
      shapes.set(value, known);
      return known;
    };
    for (const node of graph.nodes) found.set(prefix + nodeName(node), { flops: flopsOf(node, shapeOf), bytes: bytesOf(node, graph.tensor_values, shapeOf) });
  }
  return found;
}

function flopsOf(node: Node, shapeOf: (value: string) => number[]): number {
  const [library = "", name = ""] = node.target.replace(/^torch\.ops\./, "").split(".");
  const formula = Object.hasOwn(FORMULAS, name) ? FORMULAS[name] : /^(_?conv(olution|[123]d|_transpose[123]d)|.*_attention(_for_cpu)?)$/.test(name) ? (name.includes("conv") ? convolved : attended) : undefined;
  if (formula === undefined || !OWN.has(library)) return NaN;
  const names = (argument: string): string[] => {
    const given: Argument | undefined = node.inputs.find((input) => input.name === argument)?.arg;
    return given === undefined ? [] : namesIn(given);
  };
  const shapes = (argument: string): number[][] => names(argument).map(shapeOf);
  const [out = ""] = node.outputs.flatMap(namesIn);
  return formula({ node, shapes, shape: (argument) => shapes(argument)[0] ?? [], out: shapeOf(out) });
}

function bytesOf({ inputs, outputs }: Node, metas: ReadonlyMap<string, TensorMeta>, shapeOf: (value: string) => number[]): number {
  let total = 0;
  for (const value of [...inputs.map(({ arg }) => arg), ...outputs].flatMap(namesIn)) {
    const meta = metas.get(value);
    if (meta !== undefined) total += product(shapeOf(value)) * itemSize(dtypeName(meta));
  }
  return total;
}

/** Returns the graphs of a program with the prefixes of their nodes. */
function graphsOf(program: Program): (readonly [graph: Graph, prefix: string])[] {
  const found: (readonly [Graph, string])[] = [[program.graph_module.graph, ""]];
  for (const [graph, prefix] of found) for (const node of graph.nodes) for (const held of subgraphsOf(node)) found.push([held.graph, `${prefix}${held.name}/`]);
  return found;
}
