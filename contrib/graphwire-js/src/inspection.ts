/** Inspections: the JSON that `graphwire inspect --json` prints. */

import type { GraphwireFile } from "./files.js";
import { nodeName, graphsIn } from "./programs.js";
import type { Node, Program } from "./schema.js";
import { summarizeProgram, type Summary } from "./summary.js";

/** What `graphwire` would change when it loads a program. */
export interface LoadReport {
  readonly method: string;
  readonly producer: string;
  readonly schema_version: string;
  readonly layout: string;
  readonly format: string;
  readonly readable_from: string;
  readonly steps: readonly { readonly step: string; readonly nodes: readonly string[] }[];
  readonly derived: readonly string[];
  readonly absent: readonly string[];
  readonly dropped: readonly { readonly what: string; readonly reason: string; readonly method: string }[];
}

export interface MethodInspection {
  readonly name: string;
  readonly format: string;
  /** The size of the document, uncompressed. */
  readonly program_bytes: number;
  /** The size of the document in the file. */
  readonly stored_bytes: number;
  readonly summary: Summary;
  readonly report: LoadReport;
}

export interface Inspection {
  readonly file: string;
  readonly size: number;
  readonly layout: string;
  readonly producer: string;
  readonly methods: readonly MethodInspection[];
  readonly payload_bytes: number;
  readonly records: readonly string[];
}

/** Returns the summary of a file and its programs. Reads the documents and payload tables, and no weights. */
export async function inspect(file: GraphwireFile, path: string): Promise<Inspection> {
  const methods: MethodInspection[] = [];
  for (const name of file.programNames) {
    const { format, programBytes, storedBytes } = file.facts(name);
    const summary = await summarizeProgram(file, name);
    const report = await loadReport(file, name, format);
    methods.push({ name, format, program_bytes: programBytes, stored_bytes: storedBytes, summary, report });
  }
  return {
    file: path,
    size: file.source.size,
    layout: file.layout.title,
    producer: methods[0]?.report.producer ?? "",
    methods,
    payload_bytes: payloadBytes(file),
    records: [...(file.archive?.records.keys() ?? [])],
  };
}

const PAYLOAD = /^(data\/(weights|constants|sample_inputs)\/(?!.*\.json$)|serialized_(state_dict|constants|example_inputs)\.)/s;

function payloadBytes(file: GraphwireFile): number {
  const records = [...(file.archive?.records.values() ?? [])];
  return records.filter(({ name }) => PAYLOAD.test(name)).reduce((sum, { size }) => sum + size, 0);
}

/** The minor versions of schema 8 that torch's releases wrote, with the first release, and what the step to each adds. */
const VERSIONS: readonly {
  readonly minor: bigint;
  readonly release: string;
  readonly derived?: readonly string[];
  readonly absent?: readonly string[];
}[] = [
  { minor: 2n, release: "torch-2.6" },
  {
    minor: 7n,
    release: "torch-2.7",
    derived: [
      "how arguments of higher-order operators are passed, from their names",
      "whether higher-order operators return a bare value, from their results",
    ],
    absent: ["the fields of namedtuples"],
  },
  { minor: 8n, release: "torch-2.8" },
  { minor: 14n, release: "torch-2.9", absent: ["guards"] },
  { minor: 15n, release: "torch-2.10" },
  { minor: 17n, release: "torch-2.11", derived: ["names of nodes, from the values that they make"] },
  { minor: 20n, release: "torch-2.12" },
];

/** The operators whose inputs had another form before a minor version, and how to tell the older form. */
const FORMS: readonly { readonly minor: bigint; readonly operator: string; readonly isOlder: (node: Node) => boolean }[] = [
  { minor: 7n, operator: "higher_order.scan", isOlder: (node) => node.inputs.length === 6 },
  { minor: 8n, operator: "higher_order.invoke_subgraph", isOlder: (node) => node.inputs[2]?.arg.variant === "as_tensors" },
];

async function loadReport(file: GraphwireFile, method: string, format: string): Promise<LoadReport> {
  const program = await file.program(method);
  const { major, minor } = program.schema_version;
  const later = VERSIONS.filter((version) => version.minor > minor);
  let from = minor;
  const steps = later.flatMap((version) => {
    const step = { step: `schema ${major}.${from} → ${major}.${version.minor}`, nodes: [] };
    from = version.minor;
    return [step, ...formSteps(program, version.minor)];
  });
  const derived = later.flatMap((version) => version.derived ?? []);
  for (const node of nodesOf(program)) {
    if (node.propagate) derived.push(`what ${node.name ?? node.target} makes, by running it on metadata`);
  }
  const unread = file.archive === null ? "" : (await file.partialPayloads(method)).unread;
  const absent = later.flatMap((version) => version.absent ?? []);
  if (program.example_inputs === null && unread === "" && !file.hasPickledInputs(method)) absent.push("example inputs");
  const reason = `the example inputs are dropped: ${unread}`;
  return {
    method,
    producer: program.producer ?? `torch ${program.torch_version}`,
    schema_version: `${major}.${minor}`,
    layout: file.layout.title,
    format,
    readable_from: program.readable_from ?? firstReader(minor),
    steps,
    derived,
    absent,
    dropped: unread === "" ? [] : [{ what: "example inputs", reason, method: "" }],
  };
}

function firstReader(minor: bigint): string {
  return VERSIONS.find((version) => version.minor >= minor)?.release ?? "";
}

/** Returns the steps that change inputs of operators to their form in a minor version. */
function formSteps(program: Program, minor: bigint): { step: string; nodes: string[] }[] {
  const nodes = nodesOf(program);
  return FORMS.filter((form) => form.minor === minor).flatMap((form) => {
    const older = nodes.filter((node) => node.target === `torch.ops.${form.operator}` && form.isOlder(node));
    if (older.length === 0) return [];
    return [{ step: `operator ${form.operator} in the form of 8.${form.minor}`, nodes: older.map(nodeName) }];
  });
}

function nodesOf(program: Program): Node[] {
  return [...graphsIn(program.graph_module.graph)].flatMap((graph) => graph.nodes);
}
