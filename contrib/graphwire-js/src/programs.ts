/** Programs as their documents contain them: which versions and extensions this reader supports. */

import { GraphwireError } from "./errors.js";
import { PROGRAM, type Graph, type GraphArgument, type Argument, type Node, type Program } from "./schema.js";
import type { Tree } from "./trees.js";
import { readAs } from "./types.js";

/** The extensions that this reader supports: it can name what they represent, and does not call programs. */
export const EXTENSIONS: ReadonlySet<string> = new Set([
  "calls",
  "codecs",
  "constants",
  "containers",
  "dtypes",
  "external-weights",
  "layouts",
  "lazy-bits",
  "mappings",
  "outputs",
  "placement",
  "propagate",
  "ranges",
  "results",
  "sequences",
  "slices",
  "treespecs",
]);

const MAJOR = 8n;
const FIRST_MINOR = 2n;

/** Reads the tree of a document as a program. */
export function programOf(tree: Tree, place: string): Program {
  checkVersion(tree, place);
  const program = readAs(PROGRAM, tree, place);
  const unknown = program.requires.filter((name) => !EXTENSIONS.has(name));
  if (unknown.length > 0) {
    throw new GraphwireError("unsupported", `the program requires ${unknown.join(", ")}, which is not supported`, place);
  }
  return program;
}

function checkVersion(tree: Tree, place: string): void {
  if (!(tree instanceof Map)) throw new GraphwireError("document", "a program is a dict", place);
  const version = (tree as ReadonlyMap<string, Tree>).get("schema_version");
  const major = version instanceof Map ? (version as ReadonlyMap<string, Tree>).get("major") : version;
  if (typeof major !== "bigint") throw new GraphwireError("document", "the schema version is absent", place);
  const minor = version instanceof Map ? (version as ReadonlyMap<string, Tree>).get("minor") : null;
  const isBefore = typeof minor === "bigint" && minor < FIRST_MINOR; // no release wrote one (HIS-3)
  if (major !== MAJOR || isBefore) {
    const release = major <= MAJOR ? "an older torch than 2.6" : "a newer schema";
    throw new GraphwireError("unsupported", `schema ${major} (${release}) is not supported; 8 is`, place);
  }
}

/** Returns the arguments directly inside an argument. */
export function argumentsIn(argument: Argument): readonly Argument[] {
  switch (argument.variant) {
    case "as_sequence":
      return argument.value.items;
    case "as_mapping":
      return argument.value.flatMap(({ key, value }) => [key, value]);
    case "as_slice":
      return [argument.value.start, argument.value.stop, argument.value.step];
    case "as_string_to_argument":
      return [...argument.value.values()];
    default:
      return [];
  }
}

/** Returns the subgraphs in an argument, without those inside them. */
export function subgraphsIn(argument: Argument): GraphArgument[] {
  if (argument.variant === "as_graph") return [argument.value];
  return argumentsIn(argument).flatMap(subgraphsIn);
}

/** Returns the subgraphs among the inputs of a node. */
export function subgraphsOf(node: Pick<Node, "inputs">): GraphArgument[] {
  return node.inputs.flatMap((named) => subgraphsIn(named.arg));
}

/** Yields a graph and every graph inside it. */
export function* graphsIn(graph: Graph): Generator<Graph> {
  yield graph;
  for (const node of graph.nodes) for (const held of subgraphsOf(node)) yield* graphsIn(held.graph);
}

/** Returns the names of the values that an argument refers to, in order. */
export function namesIn(argument: Argument): string[] {
  const { variant, value } = argument;
  switch (variant) {
    case "as_tensor":
    case "as_custom_obj":
      return [value.name];
    case "as_tensors":
      return value.map((each) => each.name);
    case "as_nested_tensors":
      return value.flat().map((each) => each.name);
    case "as_optional_tensor":
      return value.variant === "as_tensor" ? [value.value.name] : [];
    case "as_optional_tensors":
      return value.flatMap((each) => (each.variant === "as_tensor" ? [each.value.name] : []));
    case "as_sym_int":
    case "as_sym_float":
    case "as_sym_bool":
      return value.variant === "as_name" ? [value.value] : [];
    case "as_sym_ints":
    case "as_sym_floats":
    case "as_sym_bools":
      return value.flatMap((each) => (each.variant === "as_name" ? [each.value] : []));
    default:
      return argumentsIn(argument).flatMap(namesIn);
  }
}

/** Returns the name of a node: its own, or that of its first result. */
export function nodeName(node: Node): string {
  return node.name ?? node.outputs.flatMap(namesIn)[0] ?? "";
}
