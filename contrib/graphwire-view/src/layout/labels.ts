/** Places of texts: labels beside their wires, where as little as possible crosses them. No wire crosses the title of a frame. */

import { HEADER, titleWidth } from "./boxes.js";
import { curvesOf, pointAt } from "./curves.js";
import { contains, grown, meets, type Point, type Rectangle } from "./places.js";
import type { Box, Wire } from "./scene.js";
import { textWidth } from "./text.js";

/** The height of the bands in which texts look for what is in their way. */
const BAND = 40;
const GAP = 5;
/** In a drawing with more wires than this, texts do not look for what crosses them. */
const MOST_CROSSING = 3000;
/** The distance of points on a wire, which are looked for under texts. */
const STEP = 9;
/** The points on a wire beside which its label is tried. */
const MOST_TRIED = 30;
const SIZE = 12;
const ARROW = 8;
/** The room at the sides of a label. */
const APART = 3;
/** As many crossings as this are as bad as one of its own wire, or of the first points of another, whose label it seems to be, */
const NEAR = 3;
const STARTS = 3;
/** or as a label below another box, */
const FOREIGN = 3;
/** to which it seems to belong up to this distance. */
const BELOW = 22;

/** The height of what says that a wire passes nodes that are not drawn, and the room that it leaves for the arrow. */
const PASSED = { height: 16, arrow: 9, tried: 40 };

/** Rectangles by their heights. Frames of which a text is inside are not in its way. */
class Bands<R extends Rectangle> {
  private readonly held = new Map<number, R[]>();

  add(each: R): void {
    for (const band of bandsOf(each)) {
      const known = this.held.get(band);
      if (known === undefined) this.held.set(band, [each]);
      else known.push(each);
    }
  }

  meeting(wanted: Rectangle): R[] {
    return bandsOf(wanted).flatMap((band) => this.held.get(band)?.filter((each) => meets(each, wanted)) ?? []);
  }
}

function bandsOf({ y, height }: Rectangle): number[] {
  const first = Math.floor(y / BAND);
  return Array.from({ length: Math.floor((y + height) / BAND) - first + 1 }, (_, at) => first + at);
}

/** The rectangle of the label of a wire. */
export function labelBox({ label, labelAt: { x, y } }: Wire): Rectangle {
  return { x, y, width: textWidth(label, SIZE), height: SIZE };
}

/** The rectangle of what says that a wire passes nodes that are not drawn. */
export function passedBox({ passed, passedAt: { x, y } }: Wire): Rectangle {
  return { x, y, width: textWidth(passed, SIZE) + 8, height: PASSED.height };
}

/** The rectangle of the title of an open frame. */
export function titleBox({ x, y, caption }: Box): Rectangle {
  return { x, y: y + 4, width: titleWidth(caption), height: HEADER - 8 };
}

/** Returns points on a wire, in texts, too. */
export function pointsOn({ points }: Pick<Wire, "points">): Rectangle[] {
  return curvesOf(points).flatMap((curve) => {
    const [from, handle, , to] = curve;
    const count = Math.ceil(Math.max(Math.abs(to.x - from.x), Math.abs(to.y - from.y), 2 * Math.abs(handle.y - from.y)) / STEP);
    return Array.from({ length: count }, (_, at): Rectangle => ({ ...(to.x === from.x ? { x: from.x, y: from.y + ((to.y - from.y) * at) / count } : pointAt(curve, at / count)), width: 0, height: 0 }));
  });
}

/**
 * Gives each label a place that no box, no arrow and no other label has: beside the beginning of its wire, or further along where fewer wires cross
 * it and it is not below another box; without one it is dropped. A label may stand as far beside the drawing as there is room. Wires that cross it have a gap there.
 */
export function labelled(boxes: readonly Box[], wires: readonly Wire[], width: number, beside = 0): Wire[] {
  const [taken, crossing] = [new Bands<Rectangle & { readonly open?: boolean }>(), new Bands<Rectangle & { readonly wire: Wire; readonly isStart: boolean }>()];
  for (const box of boxes) {
    taken.add(box);
    if (box.open && box.item.parent !== null) taken.add(titleBox(box));
  }
  for (const { arrives, points } of wires) {
    const { x, y } = points.at(-1) as Point;
    if (arrives) taken.add({ x: x - ARROW / 2, y: y - ARROW, width: ARROW, height: ARROW });
  }
  if (wires.length <= MOST_CROSSING) for (const wire of wires) pointsOn(wire).forEach((point, index) => { crossing.add({ ...point, wire, isStart: index < STARTS }); });
  const free = (wanted: Rectangle, point: Point): boolean => wanted.x >= -beside && wanted.x + wanted.width <= width + beside && taken.meeting(wanted).every((each) => each.open === true && contains(each, wanted) && contains(each, { ...point, width: 0, height: 1 }));
  const passed = new Map<Wire, Point>();
  for (const wire of wires.filter((each) => each.passed !== "")) {
    const found = passedPlace(wire, free, crossing);
    passed.set(wire, found);
    taken.add(found);
  }
  const start = ({ points }: Wire): Point => points[0] ?? { x: 0, y: 0 };
  const shadows = new Bands<Rectangle>();
  for (const box of boxes) if (!box.open) shadows.add({ x: box.x, y: box.y + box.height, width: box.width, height: BELOW });
  /** How much of a label is below boxes at which its wire does not begin, as if it were theirs. */
  const foreign = (wanted: Rectangle, { x, y }: Point): number => {
    const others = [...new Set(shadows.meeting(wanted))].filter((each) => Math.abs(each.y - y) > 1 || each.x > x || each.x + each.width < x);
    return others.reduce((sum, each) => sum + Math.min(each.x + each.width, wanted.x + wanted.width) - Math.max(each.x, wanted.x), 0) / wanted.width;
  };
  const places = new Map<Wire, Point>();
  const holes = new Map<Wire, Rectangle[]>();
  for (const wire of wires.filter(({ label }) => label !== "").sort((a, b) => start(a).y - start(b).y || start(a).x - start(b).x)) {
    const size = labelBox(wire);
    let [best, least] = [undefined as Rectangle | undefined, Infinity];
    const beside = passed.has(wire) ? passedBox(wire).width / 2 + 1 : 0;
    const isBest = (x: number, y: number, point: Point): boolean => {
      const wanted = { ...size, x, y };
      if (!free({ ...wanted, x: x - APART, width: size.width + 2 * APART }, point)) return false;
      const cost = crossing.meeting(wanted).reduce((sum, each) => sum + (each.wire === wire || each.isStart ? NEAR : 1), FOREIGN * foreign(wanted, start(wire)));
      if (cost < least) [best, least] = [wanted, cost];
      return cost === 0;
    };
    const gaps = beside === 0 ? [GAP] : [GAP, GAP + beside];
    const { x, y } = start(wire);
    const isFound = pointsOn(wire).slice(0, MOST_TRIED).some((point, index) => gaps.flatMap((gap) => [point.x + gap, point.x - gap - size.width]).some((left) => isBest(left, index > 0 ? point.y - SIZE / 2 : point.y + (wire.cut ? -2 : 5), point)));
    if (!isFound) isBest(x - size.width / 2, y + BELOW - SIZE + 3, start(wire)); // between wires that part
    if (best === undefined) continue;
    places.set(wire, best);
    taken.add(best);
    for (const crosses of new Set(crossing.meeting(grown(best, STEP)).map((each) => each.wire))) holes.set(crosses, [...(holes.get(crosses) ?? []), best]);
  }
  return wires.map((wire) => ({ ...wire, label: places.has(wire) ? wire.label : "", labelAt: places.get(wire) ?? wire.labelAt, passedAt: passed.get(wire) ?? wire.passedAt, gaps: holes.get(wire) ?? [] }));
}

/** Returns where it stands on a wire that it passes nodes that are not drawn: near its end, or further back or beside it where less is in the way. */
function passedPlace(wire: Wire, free: (wanted: Rectangle, point: Point) => boolean, crossing: Bands<Rectangle>): Rectangle {
  const size = passedBox(wire);
  const [end = { x: 0, y: 0 }, before = end] = [wire.points.at(-1), wire.points.at(-2)];
  const last = end.y - PASSED.arrow - size.height;
  const own = pointsOn(wire);
  const start = wire.points[0] as Point;
  const isUp = end.y < start.y; // to another column
  const places = own.filter(({ y }, index) => (isUp ? index > own.length / 3 : y >= start.y + size.height / 2 + 1) && y <= last + size.height / 2).reverse();
  const first = isUp ? (places[0] ?? end) : { x: end.x + (before.y > last && before.x !== end.x ? (before.x - end.x) / 3 : 0), y: Math.max(last, start.y + 1) + size.height / 2 };
  let [best, least] = [undefined as Rectangle | undefined, Infinity];
  [first, ...places].slice(0, PASSED.tried).some((point) => [-size.width / 2, GAP, -GAP - size.width].some((left) => {
    const wanted = { ...size, x: point.x + left, y: point.y - size.height / 2 };
    if (!free(wanted, point)) return false;
    const mine = left < -GAP && left > -size.width ? own.filter((each) => meets(each, wanted)).length : 0;
    const crossed = crossing.meeting(wanted).length - mine;
    if (crossed < least) [best, least] = [wanted, crossed];
    return crossed <= 0;
  }));
  return best ?? { ...size, x: first.x - size.width / 2, y: first.y - size.height / 2 }; // better on something else than not at all
}
