/** Places: what a layout of one level takes and returns. Lengths are in pixels. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Rectangle extends Point {
  readonly width: number;
  readonly height: number;
}

export function meets(a: Rectangle, b: Rectangle): boolean {
  return a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= b.y + b.height && b.y <= a.y + a.height;
}

export function contains(outer: Rectangle, inner: Rectangle): boolean {
  return outer.x <= inner.x && outer.y <= inner.y && outer.x + outer.width >= inner.x + inner.width && outer.y + outer.height >= inner.y + inner.height;
}

export function grown({ x, y, width, height }: Rectangle, by: number): Rectangle {
  return { x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by };
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
  /** How far at the right of the middle of their boxes its ends are. */
  readonly startsAt?: number;
  readonly endsAt?: number;
  /** Which of the values of its first box it brings: edges with the same one go together at first. */
  readonly brings?: number;
}

/** The places of boxes (their upper left corners), and the points that edges go through between their ends. */
export interface Arrangement {
  readonly places: readonly Point[];
  readonly bends: readonly (readonly Point[])[];
  /** The edges that would cross too much: only their last piece is drawn. */
  readonly cut?: ReadonlySet<number>;
  /** The edges that lead from one column to another, to the right: they may go up. */
  readonly across?: ReadonlySet<number>;
  readonly width: number;
  readonly height: number;
}

export const RANK_GAP = 26;
/** No row of boxes is wider than this: what does not fit goes below. */
export const MOST_WIDTH = 2600;
export const BOX_GAP = 22;

/** Returns an arrangement as in a mirror, if more neighbours in its rows stand against the order that they have than along it. */
export function inOrder(given: Arrangement, sizes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  if (connections.some(({ startsAt = 0, endsAt = 0 }) => startsAt !== 0 || endsAt !== 0)) return given; // frames are no mirrors of themselves
  const middle = (index: number): Point => ({ x: (given.places[index]?.x ?? 0) + (sizes[index]?.width ?? 0) / 2, y: Math.round((given.places[index]?.y ?? 0) + (sizes[index]?.height ?? 0) / 2) });
  const order = [...given.places.keys()].filter((index) => sizes[index]?.rank === null).map((index) => ({ index, ...middle(index) })).sort((a, b) => a.y - b.y || a.x - b.x);
  const sum = order.reduce((total, { index, y }, at) => total + (order[at - 1]?.y === y ? Math.sign(index - (order[at - 1]?.index ?? 0)) : 0), 0);
  if (sum >= 0) return given;
  return {
    ...given,
    places: given.places.map(({ x, y }, index) => ({ x: given.width - x - (sizes[index]?.width ?? 0), y })),
    bends: given.bends.map((points) => points.map(({ x, y }) => ({ x: given.width - x, y }))),
  };
}

/** Leads connections straight down past the boxes beside their ends, whose middles are at the same height. */
export function upright(given: Arrangement, sizes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  const rows = new Map<number, { top: number; bottom: number }>();
  const boxes = given.places.map(({ x, y }, index) => {
    const { width, height } = sizes[index] as Sized;
    const middle = Math.round(y + height / 2);
    const row = rows.get(middle) ?? { top: y, bottom: y + height };
    rows.set(middle, { top: Math.min(row.top, y), bottom: Math.max(row.bottom, y + height) });
    return { middle, x: x + width / 2, top: y, bottom: y + height };
  });
  const bends = given.bends.map((points, index) => {
    const { from, to } = connections[index] as Connection;
    const [start, stop] = [boxes[from], boxes[to]];
    if (start === undefined || stop === undefined || given.cut?.has(index) === true || start.middle >= stop.middle) return points;
    const [{ bottom = 0 } = {}, { top = 0 } = {}] = [rows.get(start.middle), rows.get(stop.middle)];
    const isLow = bottom > start.bottom + 1 && (points[0]?.y ?? top) >= bottom;
    const isHigh = top < stop.top - 1 && (points.at(-1)?.y ?? bottom) <= top;
    return [...(isLow ? [{ x: start.x, y: bottom }] : []), ...points, ...(isHigh ? [{ x: stop.x, y: top }] : [])];
  });
  return { ...given, bends };
}
