/** Places: what a layout of one level takes and returns. Lengths are in pixels. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A box to be placed. The graph flows from the top to the bottom. */
export interface Sized {
  readonly width: number;
  readonly height: number;
  /** Ports stay on the border: `first` at the top, `last` at the bottom. */
  readonly rank: "first" | "last" | null;
}

/** An edge between two boxes, by their positions in the list of boxes. */
export interface Connection {
  readonly from: number;
  readonly to: number;
}

/** The places of boxes (their upper left corners), and the points that edges go through between their ends. */
export interface Arrangement {
  readonly places: readonly Point[];
  readonly bends: readonly (readonly Point[])[];
  /** The edges that would cross too much: only their last piece is drawn. */
  readonly cut?: ReadonlySet<number>;
  readonly width: number;
  readonly height: number;
}

export const RANK_GAP = 34;
export const BOX_GAP = 22;
