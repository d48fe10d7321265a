/** Reads the texts in a node's metadata: the modules that called it, its stack trace, its provenance. */

import { modulesOfMetadata, type GraphModule, type ModuleRow, type Node } from "graphwire-js";

/** A module on the way from the program to a node. */
export interface ModuleStep {
  /** The qualified name, with `@1` and so on for further calls. */
  readonly path: string;
  readonly type: string;
}

/** The steps of rows that neighbours share. */
const STEPS = new WeakMap<readonly ModuleRow[], readonly ModuleStep[]>();

/** Returns the modules around a node, outermost first, without the program itself. */
export function moduleSteps(node: Pick<Node, "metadata">): readonly ModuleStep[] {
  const rows = modulesOfMetadata(node.metadata);
  const known = STEPS.get(rows);
  if (known !== undefined) return known;
  const steps = rows.flatMap(([key, path, type]) => {
    const [call] = path.includes("@") ? [] : (/@\d+$/.exec(key) ?? []); // torch says in the key alone which call it is
    return path === "" ? [] : [{ path: `${path}${call ?? ""}`, type }];
  });
  STEPS.set(rows, steps);
  return steps;
}

/** Returns the class of the program's own module; empty if it is not known. */
export function rootType(nodes: readonly Node[]): string {
  for (const { metadata } of nodes) {
    const [first] = modulesOfMetadata(metadata);
    if (first !== undefined && first[1] === "") return first[2];
  }
  return "";
}

/** Returns a class without its modules: `Linear` for `torch.nn.modules.linear.Linear`. */
export function shortType(type: string): string {
  return type.slice(type.lastIndexOf(".") + 1);
}

/** A call in a stack trace. */
export interface Frame {
  readonly file: string;
  readonly line: string;
  readonly name: string;
  readonly source: string;
}

const FRAME = /^\s*File "(.*)", line (\d+)(?:, in (.*))?$/;

/** Returns the calls that led to a node, outermost first. Lines that are no calls become the source of the call before them. */
export function framesOf(node: Pick<Node, "metadata" | "stack">, module: GraphModule): Frame[] {
  if (node.stack !== null) {
    return node.stack.flatMap((index) => {
      const frame = module.stack_frames[Number(index)];
      return frame === undefined ? [] : [{ file: frame.file, line: frame.line.toString(), name: frame.name, source: frame.source.trim() }];
    });
  }
  const frames: Frame[] = [];
  for (const line of (node.metadata.get("stack_trace") ?? "").split("\n")) {
    const [, file, number = "", name = ""] = FRAME.exec(line) ?? [];
    const last = frames.at(-1);
    if (file !== undefined) frames.push({ file, line: number, name, source: "" });
    else if (last !== undefined && line.trim() !== "") frames[frames.length - 1] = { ...last, source: `${last.source}\n${line.trim()}`.trim() };
  }
  return frames;
}

/** A node of an earlier graph that a node was made from, by a pass. */
export interface Origin {
  readonly name: string;
  readonly target: string;
  readonly pass: string;
  readonly action: string;
  readonly from: readonly Origin[];
}

const MAX_ORIGINS = 200;

/** Returns the nodes that a node was made from. */
export function originsOf(node: Pick<Node, "metadata" | "from_node">, module: GraphModule): Origin[] {
  if (node.from_node === null) return originsOfText(node.metadata.get("from_node") ?? "");
  let left = MAX_ORIGINS;
  const at = (index: bigint): Origin[] => {
    const row = module.node_sources[Number(index)];
    if (row === undefined || left-- <= 0) return [];
    return [{ name: row.name, target: row.target, pass: row.pass_name, action: row.action, from: row.from_node.flatMap(at) }];
  };
  return node.from_node.flatMap(at);
}

function originsOfText(text: string): Origin[] {
  let rows: unknown;
  try {
    rows = JSON.parse(text === "" ? "[]" : text);
  } catch {
    return [];
  }
  let left = MAX_ORIGINS;
  const read = (row: unknown): Origin[] => {
    if (typeof row !== "object" || row === null || left-- <= 0) return [];
    const held = new Map(Object.entries(row));
    const texts = ["name", "target", "pass_name", "action"].map((key) => String(held.get(key) ?? ""));
    const [name = "", target = "", pass = "", action = ""] = texts;
    const from: unknown = held.get("from_node");
    return [{ name, target, pass, action, from: Array.isArray(from) ? from.flatMap(read) : [] }];
  };
  return Array.isArray(rows) ? rows.flatMap(read) : [];
}

const SHOWN_ELSEWHERE = new Set([
  "nn_module_stack", "graphwire.nn_module_stack", "stack_trace", "from_node",
]);

/** Returns the texts of a node's metadata that no other part of the page shows. */
export function otherMetadata(node: Pick<Node, "metadata">): [key: string, text: string][] {
  return [...node.metadata].filter(([key]) => !SHOWN_ELSEWHERE.has(key));
}
