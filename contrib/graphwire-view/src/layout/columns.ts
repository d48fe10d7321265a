/** Columns: an arrangement that is much too tall is cut, and its pieces stand side by side. Time runs down in each, and to the right. */

import { BOX_GAP, RANK_GAP, type Arrangement, type Connection, type Sized } from "./places.js";

/** An arrangement that is less tall is not cut, unless it can be seen as a whole only that way. */
export const TALL = 6000;
/** How much wider than tall the columns together are. */
const RATIO = 1.6;
const GAP = 4 * BOX_GAP;

/** Returns an arrangement in as many columns as it needs. Wires from one column to another are cut. */
export function inColumns(given: Arrangement, sizes: readonly Sized[], connections: readonly Connection[], tall = TALL): Arrangement {
  const { places, bends, width, height } = given;
  if (height <= tall) return given;
  const count = tall < TALL ? Math.ceil(height / tall) : Math.round(Math.sqrt((height * RATIO) / (width + GAP)));
  if (count < 2) return given;
  const tops = cuts(given, sizes, height / count - (tall < TALL ? RANK_GAP : 0));
  const columnOf = (y: number): number => {
    let [low, high] = [0, tops.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const columns = places.map(({ y }) => columnOf(y));
  const cut = new Set(given.cut);
  connections.forEach(({ from, to }, index) => {
    if (columns[from] !== columns[to]) cut.add(index);
  });
  const bottoms = tops.map((top, column) => (tops[column + 1] ?? height + RANK_GAP) - RANK_GAP - top);
  const moved = ({ x, y }: { readonly x: number; readonly y: number }, column: number): { x: number; y: number } => ({ x: x + column * (width + GAP), y: y - (tops[column] ?? 0) });
  return {
    places: places.map((place, index) => moved(place, columns[index] ?? 0)),
    bends: bends.map((points, index) => (cut.has(index) ? [] : points.map((point) => moved(point, columns[connections[index]?.from ?? 0] ?? 0)))),
    cut,
    width: tops.length * (width + GAP) - GAP,
    height: Math.max(...bottoms),
  };
}

/** Returns where columns begin: at boxes with nothing beside them that began earlier. */
function cuts({ places }: Arrangement, sizes: readonly Sized[], tall: number): number[] {
  const order = places.map((_, index) => index).sort((a, b) => (places[a]?.y ?? 0) - (places[b]?.y ?? 0));
  const tops = [0];
  let bottom = 0;
  for (const index of order) {
    const { y } = places[index] ?? { y: 0 };
    if (y >= bottom && y - (tops.at(-1) ?? 0) >= tall) tops.push(y);
    bottom = Math.max(bottom, y + (sizes[index]?.height ?? 0));
  }
  return tops;
}
