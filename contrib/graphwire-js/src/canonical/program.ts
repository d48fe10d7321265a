/** The content of programs, and its hash. */

import { sha256Hex } from "../checksums.js";
import { dtypeName } from "../enumerations.js";
import { parseExpression } from "../expressions.js";
import { parseInfix } from "../infix.js";
import type { Argument, Graph, InputSpec, OutputSpec, Program, SymBool, SymFloat, SymInt, TensorMeta } from "../schema.js";
import { compareText } from "../summary.js";
import { argumentContent, layoutName, referencesOf, resultsOf, structureContent, type References } from "./arguments.js";
import { compareBytes, contentBytes, textBytes, type Content, type ContentDict } from "./content.js";
import { graphContent, Ordering, subgraphsInOrder, type Interface, type OrderedGraph } from "./order.js";
import { expressionContent, parsedExpression, symbolNames } from "./symbols.js";

/** A program in its canonical order, with the new names of its symbols. */
export interface Arrangement {
  readonly program: Program;
  readonly root: OrderedGraph;
  readonly symbols: ReadonlyMap<string, string>;
  readonly ordering: Ordering;
}

/** Returns the content hash of a program, without its weights. */
export function contentHash(program: Program): string {
  return hashOf(contentBytes(programContent(arrangementOf(program))));
}

/** Returns the content hash of a program's content. */
export function hashOf(content: Uint8Array): string {
  return `gw1:${sha256Hex(textBytes("graphwire content gw1"), Uint8Array.of(0), content)}`;
}

/** Orders a program. */
export function arrangementOf(program: Program): Arrangement {
  const { graph } = program.graph_module;
  const ordering = new Ordering();
  const root = ordering.ordered(graph, interfaceOf(program));
  const symbols = symbolNames(textsOf(allGraphs(root, ordering)), program.range_constraints);
  return { program, root, symbols, ordering };
}

// ---------------------------------------------------------------------------------------------------------- interface

const INPUT_KINDS = ["token", "parameter", "buffer", "tensor_constant", "custom_obj"] as const;
const OUTPUT_KINDS = ["token", "buffer_mutation", "parameter_mutation", "user_input_mutation", "result"] as const;

function inputKey(spec: InputSpec): readonly [number, string] {
  const place = (INPUT_KINDS as readonly string[]).indexOf(spec.variant);
  switch (spec.variant) {
    case "parameter":
      return [place, spec.value.parameter_name];
    case "buffer":
      return [place, spec.value.buffer_name];
    case "tensor_constant":
      return [place, spec.value.tensor_constant_name];
    case "custom_obj":
      return [place, spec.value.custom_obj_name];
    default:
      return [place < 0 ? INPUT_KINDS.length : place, ""];
  }
}

function outputKey(spec: OutputSpec, places: ReadonlyMap<string, number>): readonly [number, number, string] {
  const place = (OUTPUT_KINDS as readonly string[]).indexOf(spec.variant);
  switch (spec.variant) {
    case "token":
      return [place, 0, ""];
    case "buffer_mutation":
      return [place, 0, spec.value.buffer_name];
    case "parameter_mutation":
      return [place, 0, spec.value.parameter_name];
    case "user_input_mutation":
      return [place, places.get(spec.value.user_input_name) ?? 0, ""];
    case "user_output":
    case "loss_output":
      return [OUTPUT_KINDS.length, 0, ""];
    case "gradient_to_parameter":
      return [OUTPUT_KINDS.length + 1, 0, spec.value.parameter_name];
    case "gradient_to_user_input":
      return [OUTPUT_KINDS.length + 2, places.get(spec.value.user_input_name) ?? 0, ""];
  }
}

interface Sorted {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** Returns the positions of a program's inputs and outputs in their canonical order. */
function sortedSpecs(program: Program): Sorted {
  const { input_specs, output_specs } = program.graph_module.signature;
  const places = new Map<string, number>();
  input_specs.forEach((spec, index) => {
    if (spec.variant !== "user_input") return;
    for (const name of referencesOf(spec.value.arg)) if (!places.has(name)) places.set(name, index);
  });
  const inputs = input_specs.map((spec, index) => [inputKey(spec), index] as const);
  inputs.sort(([[a, name], at], [[b, other], place]) => a - b || compareText(name, other) || at - place);
  const outputs = output_specs.map((spec, index) => [outputKey(spec, places), index] as const);
  outputs.sort(([[a, x, name], at], [[b, y, other], place]) => a - b || x - y || compareText(name, other) || at - place);
  return { inputs: inputs.map(([, index]) => index), outputs: outputs.map(([, index]) => index) };
}

function interfaceOf(program: Program): Interface {
  const { graph, signature } = program.graph_module;
  const { inputs, outputs } = sortedSpecs(program);
  const literal = (index: number): string | null => {
    if (graph.input_names !== null) return graph.input_names[index] ?? null;
    const spec = signature.input_specs[index];
    return spec?.variant === "constant_input" || spec?.variant === "user_input" ? spec.value.name : null;
  };
  return {
    inputs: inputs.map((index) => graph.inputs[index] as Argument),
    outputs: outputs.map((index) => graph.outputs[index] as Argument),
    literals: inputs.map(literal),
  };
}

function inputContent(spec: InputSpec): Content {
  switch (spec.variant) {
    case "token":
      return ["token"];
    case "parameter":
      return ["parameter", spec.value.parameter_name];
    case "buffer":
      return ["buffer", spec.value.buffer_name, spec.value.persistent];
    case "tensor_constant":
      return ["constant", spec.value.tensor_constant_name];
    case "custom_obj":
      return ["object", spec.value.custom_obj_name];
    case "user_input":
      return ["argument"];
    case "constant_input":
      return ["literal", spec.value.value.variant === "as_none" ? null : spec.value.value.value];
  }
}

function outputContent(spec: OutputSpec, names: ReadonlyMap<string, string>): Content {
  const renamed = (name: string): string => names.get(name) ?? name;
  switch (spec.variant) {
    case "token":
      return ["token"];
    case "buffer_mutation":
      return ["new buffer", spec.value.buffer_name];
    case "parameter_mutation":
      return ["new parameter", spec.value.parameter_name];
    case "user_input_mutation":
      return ["new argument", renamed(spec.value.user_input_name)];
    case "user_output":
      return ["result"];
    case "loss_output":
      return ["loss"];
    case "gradient_to_parameter":
      return ["gradient of parameter", spec.value.parameter_name];
    case "gradient_to_user_input":
      return ["gradient of argument", renamed(spec.value.user_input_name)];
  }
}

// ------------------------------------------------------------------------------------------------------------- graphs

/** Returns a graph, and then its subgraphs and theirs, in canonical order. */
function allGraphs(root: OrderedGraph, ordering: Ordering): OrderedGraph[] {
  return [root, ...subgraphsInOrder(root).flatMap((held) => allGraphs(ordering.ordered(held.graph), ordering))];
}

function* numbersOf(graph: Graph, name: string): Generator<SymInt | SymFloat | SymBool> {
  const meta = graph.tensor_values.get(name);
  if (meta !== undefined) yield* [...meta.sizes, ...meta.strides, meta.storage_offset];
  for (const table of [graph.sym_int_values, graph.sym_float_values, graph.sym_bool_values]) {
    const value = table.get(name);
    if (value !== undefined) yield value;
  }
}

function* textsOf(graphs: readonly OrderedGraph[]): Generator<string> {
  for (const { graph, names } of graphs) {
    for (const name of names.keys()) {
      for (const number of numbersOf(graph, name)) if (number.variant === "as_expr") yield number.value.expr_str;
    }
  }
}

/** Writes the contents of a program's graphs. */
class GraphWriter {
  /** The names of objects that are not values, by their name in the document. */
  private readonly objects = new Map<string, string>();
  private readonly expressions = new Map<string, Content>();

  constructor(
    private readonly symbols: ReadonlyMap<string, string>,
    private readonly ordering: Ordering,
  ) {}

  /** Names the objects of a graph and of those in it, in the order of use. */
  nameObjects(ordered: OrderedGraph): void {
    const { names } = ordered;
    const ignore = (): Content => null;
    graphContent(ordered, { value: ignore, results: ignore, object: (name) => (this.object(name, names), null), graph: ignore });
    for (const held of subgraphsInOrder(ordered)) this.nameObjects(this.ordering.ordered(held.graph));
  }

  private object(name: string, names: ReadonlyMap<string, string>): string {
    const known = names.get(name) ?? this.objects.get(name);
    if (known !== undefined) return known;
    const made = `object_${this.objects.size}`;
    this.objects.set(name, made);
    return made;
  }

  graph(ordered: OrderedGraph): ContentDict {
    const { graph, names } = ordered;
    const values = Array.from(names, ([old, name]) => this.values(graph, old, name)).flat();
    return { ...graphContent(ordered, this.references(names)), values };
  }

  references(names: ReadonlyMap<string, string>, missing: (name: string) => string = (name) => name): References {
    return {
      value: (name) => ["value", names.get(name) ?? missing(name)],
      results: (node) => ["results", names.get(resultsOf(node)) ?? missing(node)],
      object: (name, className) => ["object", className, this.object(name, names)],
      graph: (held) => ["graph", this.graph(this.ordering.ordered(held.graph))],
    };
  }

  private values(graph: Graph, old: string, name: string): Content[] {
    const found: Content[] = [];
    const meta = graph.tensor_values.get(old);
    if (meta !== undefined) found.push([name, "tensor", this.tensor(meta)]);
    const integer = graph.sym_int_values.get(old);
    if (integer !== undefined) found.push([name, "int", this.number(integer)]);
    const float = graph.sym_float_values.get(old);
    if (float !== undefined) found.push([name, "float", asFloat(this.number(float))]);
    const truth = graph.sym_bool_values.get(old);
    if (truth !== undefined) found.push([name, "bool", this.number(truth)]);
    const object = graph.custom_obj_values.get(old);
    if (object !== undefined) found.push([name, "object", object.class_fqn]);
    return found.slice(0, 1);
  }

  private tensor(meta: TensorMeta): Content {
    return {
      device: [meta.device.type, meta.device.index],
      dtype: dtypeName(meta),
      layout: meta.layout_name ?? layoutName(meta.layout),
      offset: this.number(meta.storage_offset),
      requires_grad: meta.requires_grad,
      sizes: meta.sizes.map((size) => this.number(size)),
      strides: meta.strides.map((stride) => this.number(stride)),
    };
  }

  private number(value: SymInt | SymFloat | SymBool): Content {
    return value.variant === "as_expr" ? this.expression(value.value.expr_str) : value.value;
  }

  private expression(text: string): Content {
    const known = this.expressions.get(text);
    if (known !== undefined) return known;
    const expression = parsedExpression(text, parseExpression);
    const made = expression === null ? text : expressionContent(expression, (name) => this.symbols.get(name) ?? name);
    this.expressions.set(text, made);
    return made;
  }
}

function asFloat(content: Content): Content {
  return typeof content === "bigint" && content > -(1n << 53n) && content < 1n << 53n ? Number(content) : content;
}

// ------------------------------------------------------------------------------------------------------------ program

/** Returns the content tree of a program. */
export function programContent({ program, root, symbols, ordering }: Arrangement): ContentDict {
  const { signature, module_call_graph, treespec_namedtuple_fields } = program.graph_module;
  const { inputs, outputs } = sortedSpecs(program);
  const writer = new GraphWriter(symbols, ordering);
  writer.nameObjects(root);
  const ranges = Array.from(program.range_constraints, ([text, { min_val, max_val }]): Content => {
    const expression = parsedExpression(text, parseInfix);
    const content = expression === null ? text : expressionContent(expression, (name) => symbols.get(name) ?? name);
    return [content, min_val, max_val];
  });
  const byBytes = ranges.map((range) => [contentBytes(range), range] as const).sort(([a], [b]) => compareBytes(a, b));
  return {
    graph: writer.graph(root),
    calls: callsContent(module_call_graph, root, writer),
    dialects: [...new Set(program.verifiers)].sort(compareText),
    guards: [...new Set(program.guards_code)].sort(compareText),
    inputs: inputs.map((index) => inputContent(signature.input_specs[index] as InputSpec)),
    outputs: outputs.map((index) => outputContent(signature.output_specs[index] as OutputSpec, root.names)),
    namedtuples: Array.from(treespec_namedtuple_fields)
      .sort(([a], [b]) => compareText(a, b))
      .map(([name, { field_names }]): Content => [name, field_names]),
    opsets: Array.from(program.opset_version)
      .sort(([a], [b]) => compareText(a, b))
      .filter(([, version]) => version !== 1n),
    ranges: byBytes.map(([, range]) => range),
  };
}

function callsContent(calls: Program["graph_module"]["module_call_graph"], root: OrderedGraph, writer: GraphWriter): Content {
  const absent = new Map<string, string>();
  const missing = (name: string): string => {
    const known = absent.get(name) ?? `absent_${absent.size}`;
    absent.set(name, known);
    return known;
  };
  const references = writer.references(root.names, missing);
  const on: References = {
    ...references,
    object: (name, className) => (root.names.has(name) ? references.object(name, className) : ["object", className, missing(name)]),
    graph: () => ["graph", null],
  };
  const each = (argument: Argument): Content => argumentContent(argument, on);
  return [...calls]
    .sort((a, b) => compareText(a.fqn, b.fqn))
    .map(({ fqn, signature }): Content => {
      if (signature === null) return [fqn];
      const [inputs, outputs] = [signature.inputs.map(each), signature.outputs.map(each)];
      const names = signature.forward_arg_names ?? [];
      return [fqn, inputs, outputs, structureContent(signature.in_spec), structureContent(signature.out_spec), names];
    });
}
