/**
 * Frames: which nodes are drawn inside which module. A frame is one call of a module, or a part of it: where values leave a frame and
 * enter it again, so that the drawing would point up, the frame ends, and another one begins.
 */

import { withCall, withoutCall } from "./items.js";
import type { ModuleStep } from "./metadata.js";

/** A module around a node. */
export interface FrameStep {
  /** The qualified name, with `@1` and so on for further calls. */
  readonly name: string;
  readonly title: string;
  /** The class; empty for a container that nobody calls. */
  readonly type: string;
  /** Which call of the module it is, from 1; null if there is only one. */
  readonly call: number | null;
}

export interface Framed {
  /** The modules around the node, outermost first. */
  readonly steps: readonly FrameStep[];
  /** The positions of the nodes that make what it uses. */
  readonly operands: readonly number[];
}

export interface Frame {
  readonly step: FrameStep;
  readonly content: readonly (Frame | number)[];
}

interface Segment {
  readonly step: FrameStep | null;
  readonly position: number;
  readonly nodes: number[];
  readonly operands: Set<Segment>;
}

/** The segments that are looked at, in all, to find out whether frames can be one. Beyond, every interrupted frame ends. */
const MOST_STEPS = 200_000;

/** Returns nodes in their frames. What is in a frame is in an order in which everything comes after what it uses. */
export function framesOf(nodes: readonly Framed[]): (Frame | number)[] {
  let left = MOST_STEPS;

  /** Whether one of some segments is, or uses something that uses, another one. */
  const reach = (from: Iterable<Segment>, wanted: Segment): boolean => {
    const seen = new Set(from);
    for (const segment of seen) {
      if (segment === wanted || left-- <= 0) return true;
      for (const operand of segment.operands) seen.add(operand);
    }
    return false;
  };

  const inside = (indices: readonly number[], depth: number): (Frame | number)[] => {
    const segments: Segment[] = [];
    const segmentOf = new Map<number, Segment>();
    const latest = new Map<string, Segment>();
    let isSorted = true;
    for (const index of indices) {
      const { steps, operands } = nodes[index] as Framed;
      const step = steps[depth] ?? null;
      const used = new Set(operands.flatMap((each) => segmentOf.get(each) ?? []));
      let segment = step === null ? undefined : latest.get(step.name);
      if (segment !== undefined) {
        used.delete(segment);
        if (segment !== segments.at(-1) || !isSorted) {
          if (reach(used, segment)) segment = undefined;
          else isSorted = false;
        }
      }
      if (segment === undefined) {
        segment = { step, position: segments.length, nodes: [], operands: new Set() };
        segments.push(segment);
        if (step !== null) latest.set(step.name, segment);
      }
      segment.nodes.push(index);
      segmentOf.set(index, segment);
      for (const each of used) if (each !== segment) segment.operands.add(each);
    }
    return (isSorted ? segments : sorted(segments)).map(({ step, nodes: held }) => (step === null ? (held[0] ?? 0) : { step, content: inside(held, depth + 1) }));
  };
  return inside(nodes.map((_, index) => index), 0);
}

/** Returns segments in an order in which each comes after those that it uses, near the order that they have. */
function sorted(segments: readonly Segment[]): Segment[] {
  const found = new Set<Segment>();
  for (const segment of segments) {
    const waiting = [segment];
    for (let at = waiting.at(-1); at !== undefined; at = waiting.at(-1)) {
      const missing = found.has(at) ? [] : [...at.operands].filter((each) => !found.has(each));
      if (missing.length > 0) waiting.push(...missing.sort((a, b) => b.position - a.position));
      else {
        found.add(at);
        waiting.pop();
      }
    }
  }
  return [...found];
}

/** The modules that are called more than once: in the whole graph, by their names; and in one call of the module around them, after its path. */
export function repeatedCalls(nodes: readonly (readonly ModuleStep[])[]): ReadonlySet<string> {
  const first = new Map<string, string>();
  const found = new Set<string>();
  for (const steps of nodes) {
    steps.forEach(({ path }, index) => {
      const plain = withoutCall(path);
      for (const key of [plain, `${steps[index - 1]?.path ?? ""}/${plain}`]) if ((first.get(key) ?? path) === path) first.set(key, path);
      else found.add(key);
    });
  }
  return found;
}

/** Returns the frames around a node: those of the modules that called it, and of containers between them. Titles say which call it is of those of one call around it. */
export function frameSteps(steps: readonly ModuleStep[], repeated: ReadonlySet<string>): FrameStep[] {
  let around = "";
  let outer = "";
  return steps.flatMap(({ path, type }) => {
    const plain = withoutCall(path);
    const isAgain = repeated.has(`${outer}/${plain}`);
    outer = path;
    if (around !== "" && plain === around) return [];
    const start = plain.startsWith(`${around}.`) ? around.length + 1 : 0;
    const parts = plain.slice(start).split(".");
    const suffix = path.slice(plain.length);
    const call = repeated.has(plain) ? Number(suffix.slice(1)) + 1 : null;
    around = plain;
    return parts.map((part, index): FrameStep => {
      const isLast = index === parts.length - 1;
      const name = plain.slice(0, start) + parts.slice(0, index + 1).join(".");
      if (!isLast) return { name: name + suffix, title: part, type: "", call };
      return { name: path, title: isAgain && call !== null ? withCall(part, call) : part, type, call };
    });
  });
}
