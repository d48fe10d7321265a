/** Bounds on what a file may make a reader allocate. Each is checked before the resource is used. */

export interface Limits {
  /** The inflated size, in bytes, of one record that is read into memory. */
  readonly programBytes: number;
  /** Lists and dicts of one document. */
  readonly containers: number;
  /** Values of one document, including lists and dicts. */
  readonly treeNodes: number;
  /** Nesting of lists and dicts. */
  readonly treeDepth: number;
  /** Output bytes per input byte of a deflated record above `inflateFreeBytes`. */
  readonly inflateRatio: number;
  readonly inflateFreeBytes: number;
  /** Members of an archive. */
  readonly records: number;
  /** Bytes of a member's name. */
  readonly nameBytes: number;
}

export const DEFAULT_LIMITS: Limits = {
  programBytes: 1 << 30,
  containers: 8_388_608,
  treeNodes: 67_108_864,
  treeDepth: 400,
  inflateRatio: 500,
  inflateFreeBytes: 16 << 20,
  records: 1_000_000,
  nameBytes: 4096,
};
