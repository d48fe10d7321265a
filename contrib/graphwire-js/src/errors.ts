/** Errors of this package: every fault of a file is a `GraphwireError` with a kind and a place. */

/**
 * What is wrong: the archive, a document, the file's size, a feature that this reader lacks, a record that is absent, a record
 * that is not what was written, weights outside of the file, how the file is read. */
export type ErrorKind = "archive" | "document" | "limit" | "unsupported" | "missing" | "integrity" | "weights" | "source";

/** The error for a file that this reader refuses, or cannot read. */
export class GraphwireError extends Error {
  override readonly name = "GraphwireError";
  readonly kind: ErrorKind;
  /** Where the fault is, such as `models/model.json: graph_module.graph.nodes[3]`; empty if unknown. */
  readonly place: string;

  constructor(kind: ErrorKind, message: string, place = "", options?: ErrorOptions) {
    super(place === "" ? message : `${place}: ${message}`, options);
    this.kind = kind;
    this.place = place;
  }
}

/** Returns the message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns the class of a refusal (NEU-20 of the specification): `archive`, `document` or `weights`. */
export function refusalOf({ kind, place }: GraphwireError): "archive" | "document" | "weights" {
  if (["archive", "limit", "integrity"].includes(kind) || place.startsWith("manifest.json")) return "archive";
  if (kind === "weights" || kind === "missing" || /_config\.json|^data\//.test(place)) return "weights";
  return "document";
}
