/** Summaries of files: what `graphwire inspect --json` prints, except what a load changes. */

import { argumentText } from "./diff/plain.js";
import { dtypeName, itemSize } from "./enumerations.js";
import { parseExpression } from "./expressions.js";
import { GraphwireError } from "./errors.js";
import type { GraphwireFile, PayloadTable } from "./files.js";
import { formatInfix } from "./infix.js";
import { interfaceOf, type Interface } from "./interface.js";
import { graphsIn, namesIn, nodeName, subgraphsOf } from "./programs.js";
import type { Argument, ConstantValue, Graph, Program, SymBool, SymFloat, SymInt, TensorMeta } from "./schema.js";

export interface ValueSummary {
  readonly name: string;
  /** The variant of its spec, such as `user_input` or `buffer_mutation`. */
  readonly role: string;
  /** The variant of its argument without `as_`, such as `tensor` or `sym_int`. */
  readonly kind: string;
  readonly dtype: string;
  /** The sizes as text, such as `[s77, 128]`. */
  readonly shape: string;
  readonly device: string;
  /** For a literal or symbol: its value. For a mutation or gradient: what is changed, or what it belongs to. */
  readonly value: string;
}

export interface SymbolSummary {
  readonly name: string;
  readonly min_val: bigint | null;
  readonly max_val: bigint | null;
  readonly range: string;
  /** Its readable name: the size of an argument, such as `tokens.shape[0]`, or an expression in such sizes. */
  readonly label: string;
}

export interface TensorSizes {
  readonly count: number;
  readonly elements: bigint;
  /** The size of the storages in bytes; each counts once. */
  readonly bytes: bigint;
}

export interface ModuleSummary {
  readonly name: string;
  readonly type: string;
  readonly nodes: number;
  readonly elements: bigint;
}

export interface ProcessGroup {
  readonly name: string;
  readonly sizes: readonly bigint[];
  readonly operators: ReadonlyMap<string, number>;
  readonly nodes: readonly string[];
  /** How many processes it had where the program was saved; null if it was saved outside of a job. */
  readonly saved_size: bigint | null;
}

/** The summary of one program. */
export interface Summary {
  readonly name: string;
  /** The arguments and the result, as the program's author wrote them. */
  readonly interface: Interface;
  readonly torch_version: string;
  readonly schema_version: string;
  readonly opset_versions: ReadonlyMap<string, bigint>;
  readonly dialects: readonly string[];
  readonly nodes: number;
  readonly operators: ReadonlyMap<string, number>;
  readonly subgraphs: number;
  readonly values: number;
  readonly inputs: readonly ValueSummary[];
  readonly outputs: readonly ValueSummary[];
  readonly symbols: readonly SymbolSummary[];
  readonly guards: readonly string[];
  readonly parameters: TensorSizes;
  readonly buffers: TensorSizes;
  readonly constants: TensorSizes;
  readonly features: readonly string[];
  readonly plugins: Program["plugins"];
  readonly modules: readonly ModuleSummary[];
  readonly process_groups: readonly ProcessGroup[];
  readonly metadata: readonly MetadataSummary[];
}

/** What a program keeps under one key of metadata that a plugin declares. */
export interface MetadataSummary {
  readonly key: string;
  /** The number of nodes that have it, in all graphs; the program's own value counts too. */
  readonly values: number;
  /** The distribution and version that declare it, as the file names them; empty if it does not. */
  readonly plugin: string;
  /** What the plugin tells of it, which this reader does not have. */
  readonly rows: readonly never[];
}

const DECLARED = "graphwire.meta.";
const UNKNOWN = "?";
/** The schema that programs of older minor versions are read as. */
const CURRENT_MINOR = 20n;
const TABLES = ["tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"] as const;

/** Returns the summary of a program of a file. Reads its document and its payload tables, and no weights. */
export async function summarizeProgram(file: GraphwireFile, name?: string): Promise<Summary> {
  const program = await file.program(name);
  const chosen = name ?? file.programNames[0] ?? "";
  if (file.archive === null) return summarize(program, chosen);
  const { weights, constants, features } = await file.partialPayloads(chosen);
  const summary = summarize(program, chosen, weights, constants);
  return { ...summary, features: [...summary.features, ...features] };
}

/** Returns the summary of a program. Without payload tables, sizes come from the graph's metadata of its inputs. */
export function summarize(program: Program, name: string, weights?: PayloadTable, constants?: PayloadTable): Summary {
  const module = program.graph_module;
  const graphs = [...graphsIn(module.graph)];
  const operators = new Map<string, number>();
  for (const graph of graphs) for (const { target } of graph.nodes) operators.set(target, (operators.get(target) ?? 0) + 1);
  const tensors =
    weights === undefined || constants === undefined ? tensorsOfGraph(program) : tensorsOfPayloads(program, weights, constants);
  const { major, minor } = program.schema_version;
  const { interface: called, labels } = interfaceOf(program);
  return {
    name,
    interface: called,
    torch_version: program.torch_version,
    schema_version: `${major}.${minor > CURRENT_MINOR ? minor : CURRENT_MINOR}`,
    opset_versions: program.opset_version,
    dialects: program.verifiers,
    nodes: graphs.reduce((sum, graph) => sum + graph.nodes.length, 0),
    operators: new Map([...operators].sort(([a, countA], [b, countB]) => countB - countA || compareText(a, b))),
    subgraphs: graphs.length - 1,
    values: graphs.reduce((sum, graph) => sum + TABLES.reduce((count, table) => count + graph[table].size, 0), 0),
    inputs: inputsOf(program),
    outputs: outputsOf(program),
    symbols: Array.from(program.range_constraints, ([text, { min_val, max_val }]) => {
      const low = min_val === null ? "(-∞" : `[${min_val}`;
      const high = max_val === null ? "∞)" : `${max_val}]`;
      return { name: text, min_val, max_val, range: `${low}, ${high}`, label: labels.range(text) };
    }),
    guards: program.guards_code,
    parameters: sumSizes(tensors.parameter),
    buffers: sumSizes(tensors.buffer),
    constants: sumSizes(tensors.constant),
    features: program.requires,
    plugins: program.plugins,
    modules: modulesOf(graphs, tensors.parameter),
    process_groups: processGroups(graphs, program.group_sizes),
    metadata: metadataOf(program),
  };
}

function metadataOf(program: Program): MetadataSummary[] {
  const places = new Map<string, Set<string>>();
  const note = (place: string, metadata: ReadonlyMap<string, string>): void => {
    for (const key of metadata.keys()) {
      if (!key.startsWith(DECLARED)) continue;
      const name = key.slice(DECLARED.length);
      places.set(name, (places.get(name) ?? new Set()).add(place));
    }
  };
  note("", program.graph_module.metadata);
  const rest: [string, Graph][] = [["", program.graph_module.graph]];
  for (const [inside, { nodes, value_metadata, output_metadata }] of rest) {
    for (const node of nodes) {
      note(inside + (node.name || node.outputs.flatMap(namesIn)[0] || node.target), node.metadata);
      for (const held of subgraphsOf(node)) rest.push([`${inside}${held.name}/`, held.graph]);
    }
    for (const [name, { metadata }] of value_metadata) note(inside + name, metadata);
    if (output_metadata !== null) note(`${inside}output`, output_metadata.metadata);
  }
  const by = new Map(program.plugins.flatMap(({ distribution, version, provides }) => provides.map((each) => [each, `${distribution} ${version}`] as const)));
  const rows = [...places].sort(([a], [b]) => compareText(a, b));
  return rows.map(([key, held]) => ({ key, values: held.size, plugin: by.get(`metadata_key:${key}`) ?? "", rows: [] }));
}

/** Compares texts by code points. */
export function compareText(a: string, b: string): number {
  for (let index = 0; index < Math.min(a.length, b.length); index++) {
    const [unit, other] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (unit === other) continue;
    // Units of surrogate pairs do not have the order of their code points.
    return unit < 0xd800 && other < 0xd800 ? unit - other : comparePoints(a, b);
  }
  return a.length - b.length;
}

function comparePoints(a: string, b: string): number {
  const [one, other] = [Array.from(a), Array.from(b)];
  for (let index = 0; index < Math.min(one.length, other.length); index++) {
    const difference = (one[index]?.codePointAt(0) ?? 0) - (other[index]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

// ---------------------------------------------------------------------------------------------------------- values

/** Returns a symbolic expression as infix text; `?` if it cannot be parsed. */
export function expressionInfix(text: string): string {
  try {
    return formatInfix(parseExpression(text));
  } catch (error) {
    if (error instanceof GraphwireError) return text;
    throw error;
  }
}

/** Returns a number or truth value, which may be symbolic, as text. */
export function symbolText(value: SymInt | SymFloat | SymBool): string {
  return value.variant === "as_expr" ? expressionInfix(value.value.expr_str) : literalText(value.value);
}

function deviceText({ device }: TensorMeta): string {
  return device.index === null ? device.type : `${device.type}:${device.index}`;
}

/** Returns a literal as Python prints it. */
export function literalText(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return floatLiteral(value).replace("Infinity", "inf").replace("NaN", "nan");
  if (value === null) return "None";
  return Array.isArray(value) ? `[${value.map(literalText).join(", ")}]` : UNKNOWN;
}

/** Returns a float as Python prints it. Infinities and nan have the texts of documents. */
export function floatLiteral(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [, sign = "", digits = "", fraction = "", exponent = ""] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(value.toExponential()) ?? [];
  const power = Number(exponent);
  if (power < -4 || power >= 16) {
    const tail = fraction === "" ? "" : `.${fraction}`;
    return `${sign}${digits}${tail}e${power < 0 ? "-" : "+"}${Math.abs(power).toString().padStart(2, "0")}`;
  }
  const all = digits + fraction;
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${all}`;
  return `${sign}${all.slice(0, power + 1).padEnd(power + 1, "0")}.${all.slice(power + 1) || "0"}`;
}

function tensorValue(graph: Graph, role: string, name: string, value = ""): ValueSummary {
  const meta = graph.tensor_values.get(name);
  if (meta === undefined) return { name, role, kind: "tensor", dtype: UNKNOWN, shape: UNKNOWN, device: UNKNOWN, value };
  const shape = `[${meta.sizes.map(symbolText).join(", ")}]`;
  return { name, role, kind: "tensor", dtype: dtypeName(meta), shape, device: deviceText(meta), value };
}

function plainValue(name: string, role: string, kind: string, value = ""): ValueSummary {
  return { name, role, kind, dtype: "", shape: "", device: "", value };
}

function valueOf(graph: Graph, role: string, argument: Argument | ConstantValue, name: string): ValueSummary {
  const kind = argument.variant.slice("as_".length);
  switch (argument.variant) {
    case "as_tensor":
      return tensorValue(graph, role, argument.value.name);
    case "as_sym_int":
    case "as_sym_float":
    case "as_sym_bool": {
      const held = argument.value;
      if (held.variant !== "as_name") return plainValue(name, role, kind, literalText(held.value));
      const table = { as_sym_int: graph.sym_int_values, as_sym_float: graph.sym_float_values, as_sym_bool: graph.sym_bool_values };
      const known = table[argument.variant].get(held.value);
      return plainValue(held.value, role, kind, known === undefined ? UNKNOWN : symbolText(known));
    }
    case "as_custom_obj":
      return plainValue(argument.value.name, role, kind, argument.value.class_fqn);
    default:
      return plainValue(name, role, kind, argumentText(argument));
  }
}

function inputsOf(program: Program): ValueSummary[] {
  const { graph, signature } = program.graph_module;
  return signature.input_specs.flatMap((spec, index) => {
    switch (spec.variant) {
      case "user_input":
        return [valueOf(graph, spec.variant, spec.value.arg, spec.value.name ?? graph.input_names?.[index] ?? "")];
      case "constant_input":
        return [valueOf(graph, spec.variant, spec.value.value, spec.value.name)];
      case "token":
        return [plainValue(spec.value.arg.name, spec.variant, "token")];
      default:
        return [];
    }
  });
}

function outputsOf(program: Program): ValueSummary[] {
  const { graph, signature } = program.graph_module;
  return signature.output_specs.map((spec) => {
    if (spec.variant === "user_output") return valueOf(graph, spec.variant, spec.value.arg, spec.value.name ?? "");
    return tensorValue(graph, spec.variant, spec.value.arg.name, targetOf(spec.value));
  });
}

/** Returns the name of what an output changes or belongs to; empty if its spec has none. */
export function targetOf(held: object): string {
  const field = Object.entries(held).find(([name]) => name.endsWith("_name"));
  return field === undefined ? "" : String(field[1]);
}

// --------------------------------------------------------------------------------------------------------- tensors

interface HeldTensor {
  readonly name: string;
  readonly storage: string;
  readonly elements: bigint;
  /** How many elements the storage has at least, for this tensor to be in it. */
  readonly reach: bigint;
  readonly bytes: bigint;
}
type Held = Record<"parameter" | "buffer" | "constant", HeldTensor[]>;

function number(value: SymInt | undefined): bigint {
  return value?.variant === "as_int" ? value.value : 0n;
}

function held(name: string, storage: string, meta: TensorMeta | null | undefined): HeldTensor {
  if (meta === null || meta === undefined) return { name, storage, elements: 0n, reach: 0n, bytes: 0n };
  let elements = 1n;
  let last = number(meta.storage_offset);
  meta.sizes.forEach((size, dimension) => {
    if (dimension >= meta.strides.length) return;
    const count = number(size);
    elements *= count;
    if (count > 1n) last += (count - 1n) * number(meta.strides[dimension]);
  });
  const item = BigInt(itemSize(dtypeName(meta)));
  const reach = elements === 0n ? 0n : last + 1n;
  return { name, storage, elements, reach, bytes: reach * item };
}

function tensorsOfGraph(program: Program): Held {
  const found: Held = { parameter: [], buffer: [], constant: [] };
  const { graph, signature } = program.graph_module;
  for (const spec of signature.input_specs) {
    const kind = spec.variant === "tensor_constant" ? "constant" : spec.variant;
    if (kind !== "parameter" && kind !== "buffer" && kind !== "constant") continue;
    const name = targetOf(spec.value);
    const value = (spec.value as { arg: { name: string } }).arg.name;
    found[kind].push(held(name, name, graph.tensor_values.get(value)));
  }
  return found;
}

function tensorsOfPayloads(program: Program, weights: PayloadTable, constants: PayloadTable): Held {
  const found: Held = { parameter: [], buffer: [], constant: [] };
  const specs = program.graph_module.signature.input_specs;
  const buffers = new Set(specs.flatMap((spec) => (spec.variant === "buffer" ? [spec.value.buffer_name] : [])));
  for (const [name, payload] of weights) {
    const kind = payload.is_param ? "parameter" : "buffer";
    found[kind].push(held(name, `weights/${payload.path_name}`, payload.tensor_meta));
  }
  for (const [name, payload] of constants) {
    const kind = buffers.has(name) ? "buffer" : "constant";
    found[kind].push(held(name, `constants/${payload.path_name}`, payload.tensor_meta));
  }
  return found;
}

function sumSizes(tensors: readonly HeldTensor[]): TensorSizes {
  const storages = new Map<string, { elements: bigint; reach: bigint; bytes: bigint }>();
  const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);
  for (const { storage, elements, reach, bytes } of tensors) {
    const known = storages.get(storage) ?? { elements: 0n, reach: 0n, bytes: 0n };
    storages.set(storage, { elements: known.elements + elements, reach: larger(known.reach, reach), bytes: larger(known.bytes, bytes) });
  }
  const held = [...storages.values()];
  return {
    count: tensors.length,
    elements: held.reduce((sum, { elements, reach }) => sum + (elements < reach ? elements : reach), 0n),
    bytes: held.reduce((sum, { bytes }) => sum + bytes, 0n),
  };
}

// ------------------------------------------------------------------------------------------------------- structure

function modulesOf(graphs: readonly Graph[], parameters: readonly HeldTensor[]): ModuleSummary[] {
  const nodes = new Map<string, number>();
  const types = new Map<string, string>();
  const elements = new Map<string, bigint>();
  for (const node of graphs.flatMap((graph) => graph.nodes)) {
    const inside = submodule(node.metadata.get("nn_module_stack") ?? "");
    if (inside === null) continue;
    const [name, type] = inside;
    nodes.set(name, (nodes.get(name) ?? 0) + 1);
    if (!types.has(name)) types.set(name, type);
  }
  for (const tensor of parameters) {
    const dot = tensor.name.indexOf(".");
    if (dot < 0) continue;
    const top = tensor.name.slice(0, dot);
    elements.set(top, (elements.get(top) ?? 0n) + tensor.elements);
  }
  return [...new Set([...nodes.keys(), ...elements.keys()])].map((name) => ({
    name,
    type: types.get(name) ?? "",
    nodes: nodes.get(name) ?? 0,
    elements: elements.get(name) ?? 0n,
  }));
}

/** Returns the root's submodule that a module stack (`KEY,PATH,CLASS;…` from the root inwards) leads into, and its class. */
function submodule(stack: string): readonly [name: string, type: string] | null {
  const level = stack.split(";")[1];
  if (level === undefined || !level.includes(",")) return null;
  const rest = level.slice(level.indexOf(",") + 1);
  const comma = rest.lastIndexOf(",");
  const path = comma < 0 ? "" : rest.slice(0, comma);
  const [plain = ""] = path.split("@");
  const dot = plain.indexOf(".");
  const top = dot < 0 ? plain : plain.slice(0, dot);
  return top === "" ? null : [top, dot < 0 ? rest.slice(comma + 1) : ""];
}

function processGroups(graphs: readonly Graph[], savedSizes: ReadonlyMap<string, bigint>): ProcessGroup[] {
  interface Group extends ProcessGroup {
    readonly sizes: bigint[];
    readonly operators: Map<string, number>;
    readonly nodes: string[];
  }
  const found = new Map<string, Group>();
  for (const node of graphs.flatMap((graph) => graph.nodes)) {
    for (const named of node.inputs) {
      if (named.name !== "group_name" || named.arg.variant !== "as_string") continue;
      const given = node.inputs.find((each) => each.arg.variant === "as_operator")?.arg;
      const operator = given?.variant === "as_operator" ? given.value : node.target;
      const name = named.arg.value;
      const known = found.get(name);
      const group = known ?? { name, sizes: [], operators: new Map<string, number>(), nodes: [], saved_size: savedSizes.get(name) ?? null };
      found.set(name, group);
      group.operators.set(operator, (group.operators.get(operator) ?? 0) + 1);
      group.nodes.push(nodeName(node) || node.target);
      const size = node.inputs.find((each) => each.name === "group_size")?.arg;
      if (size?.variant === "as_int" && !group.sizes.includes(size.value)) group.sizes.push(size.value);
    }
  }
  return [...found.values()];
}
