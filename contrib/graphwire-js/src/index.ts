/** Reads graphwire files and PyTorch's .pt2 files in browsers and Node. */

export { GraphwireError, type ErrorKind } from "./errors.js";
export { DEFAULT_LIMITS, type Limits } from "./limits.js";
export { blobSource, bufferSource, urlSource, type ByteSource } from "./source.js";
export { openFile, GraphwireFile, type Kind, type Layout, type Openable, type OpenOptions, type Payloads, type PayloadTable } from "./files.js";
export type { Archive, ArchiveRecord } from "./archive.js";
export type { Tree, TreeMap } from "./trees.js";
export * from "./schema.js";
export { dtypeName, itemSize, type ArgumentKind, type Layout as TensorLayout, type MemoryFormat, type ScalarType } from "./enumerations.js";
export { argumentsIn, graphsIn, namesIn, nodeName, subgraphsOf } from "./programs.js";
export { formatExpression, parseExpression, type Expression } from "./expressions.js";
export { formatInfix, parseInfix } from "./infix.js";
export { parseGuard, type Guard, type SourceStep } from "./guards.js";
export { leafCount, parseTreespec, splitVersion, type TreeSpec } from "./treespecs.js";
export { modulesOfMetadata, type ModuleRow } from "./metadata.js";
export { floatLiteral, literalText, summarize, summarizeProgram, symbolText, targetOf, type Summary, type ValueSummary } from "./summary.js";
export { inspect, type Inspection } from "./inspection.js";
export { interfaceOf, type Interface, type InterfaceTree } from "./interface.js";
export { Labels } from "./labels.js";
export { contentHash } from "./canonical/program.js";
export { diffFiles, diffPrograms, type Change, type Diff, type FileDiff } from "./diff/program_diff.js";
export { increasingRun } from "./diff/matching.js";
export type { Compared, RecordFacts } from "./diff/weights.js";
export type { ChangeKind, Detail, NodeChange, OnMatch } from "./diff/nodes.js";
export { neutral } from "./neutral.js";
export { typedArray, type TensorData, type TypedArray } from "./tensors.js";
export type { Resolver } from "./stores.js";
export type { Neutral } from "./types.js";
