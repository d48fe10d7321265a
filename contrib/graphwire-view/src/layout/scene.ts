/** Scenes: every box and wire of what is visible, with its place. */

import type { Item, Link } from "../model/items.js";
import { levelsOf, type Edge, type End, type Folding, type Level, type Port } from "../model/levels.js";
import { plural, valueFacts } from "../model/values.js";
import { captionOf, HEADER, passedText, sizeOf, titleWidth, wireLabel, type Caption } from "./boxes.js";
import { inColumns, type Arrange } from "./columns.js";
import { layeredLayout } from "./layered.js";
import { labelBox, labelled } from "./labels.js";
import { withLoose } from "./loose.js";
import { clipped, textWidth } from "./text.js";
import { inOrder, MOST_WIDTH, upright, type Arrangement, type Connection, type Point, type Rectangle, type Sized } from "./places.js";

export interface Box extends Rectangle {
  readonly item: Item;
  readonly open: boolean;
  readonly caption: Caption;
  /** How many frames are around it. */
  readonly depth: number;
}

export interface Wire {
  readonly links: readonly Link[];
  readonly points: readonly Point[];
  /** The types of its values; empty where the label stands on another wire with the same beginning, or has no place. */
  readonly label: string;
  /** The upper left corner of the label, once it has a place. */
  readonly labelAt: Point;
  /** What stands on it where nodes that are not drawn reshape or cast what arrives; empty if none do. */
  readonly passed: string;
  /** The upper left corner of that, once it has a place. */
  readonly passedAt: Point;
  /** Whether it ends at the item that uses the values, not at a port on the way. */
  readonly arrives: boolean;
  /** The texts that it passes, where it is not drawn. */
  readonly gaps: readonly Rectangle[];
  /** Whether it is the last piece of one that is cut; the label then names where it, and others that end at the box, come from. */
  readonly cut: boolean;
}

export interface Scene {
  /** Groups come before what is inside them. */
  readonly boxes: readonly Box[];
  readonly wires: readonly Wire[];
  readonly boxOf: ReadonlyMap<Item, Box>;
  readonly width: number;
  readonly height: number;
}

const PADDING = 14;
const PORT = { width: 10, height: 1 };
/** The distance of wires beside each other that enter beside a title, that of the first from it, and how much wider a frame becomes so that they stay straight. */
const ENTRY = 10;
const BESIDE_TITLE = 6;
const MOST_WIDER = 32;
const FAN = 16;
/** What is in a group that is too tall for the screen stands in columns, if they have this height. */
const LEAST_ROOM = 160;
/** The length of the last piece of a wire that is cut. */
const STUB = 16;
/** The sources of cut wires that a label names. */
const NAMED = 2;
/** The most that a rank of ports needs less distance from the border than a rank of boxes. */
const PORT_GAP = 16;

interface Placed {
  readonly level: Level;
  readonly arrangement: Arrangement;
  readonly sizes: readonly Sized[];
  readonly inner: ReadonlyMap<Item, Placed>;
  /** How far from the left of its group the arrangement begins, and each port is. */
  readonly inset: number;
  readonly portsAt: readonly number[];
  readonly width: number;
  readonly height: number;
}

/** Returns how large the scene of what is visible is, and whether wires in it are cut. */
export function extentOf(root: Item, folding: Folding): { readonly width: number; readonly height: number; readonly isCut: boolean } {
  const placed = placeLevel(root, levelsOf(root, folding), folding.screen);
  const isCut = ({ arrangement: { cut }, inner }: Placed): boolean => (cut?.size ?? 0) > 0 || [...inner.values()].some(isCut);
  return { width: placed.width, height: placed.height, isCut: isCut(placed) };
}

/** Returns the scene of what is visible. Labels of wires may stand beside the boxes, as far as it is not wider than `room` with them. */
export function sceneOf(root: Item, folding: Folding, room = 0): Scene {
  const placed = placeLevel(root, levelsOf(root, folding), folding.screen);
  const boxes: Box[] = [];
  const wires: Wire[] = [];
  collect(placed, { x: 0, y: 0, depth: 0 }, boxes, wires);
  const beside = Math.max(0, (room - placed.width) / 2);
  const texts = { boxes, wires: labelled(boxes, wires, placed.width, beside) };
  const out = texts.wires.reduce((most, wire) => {
    const { x, width } = labelBox(wire);
    return wire.label === "" ? most : Math.max(most, -x, x + width - placed.width);
  }, 0);
  const drawn = out === 0 ? texts : movedRight(texts, out);
  return { ...drawn, boxOf: new Map(drawn.boxes.map((box) => [box.item, box])), width: placed.width + 2 * out, height: placed.height };
}

function movedRight({ boxes, wires }: Pick<Scene, "boxes" | "wires">, by: number): Pick<Scene, "boxes" | "wires"> {
  const moved = <P extends Point>(point: P): P => ({ ...point, x: point.x + by });
  return { boxes: boxes.map(moved), wires: wires.map((wire) => ({ ...wire, points: wire.points.map(moved), labelAt: moved(wire.labelAt), passedAt: moved(wire.passedAt), gaps: wire.gaps.map(moved) })) };
}

function placeLevel(group: Item, levels: ReadonlyMap<Item, Level>, screen?: Folding["screen"]): Placed {
  const level = levels.get(group) as Level;
  const inner = new Map<Item, Placed>();
  for (const member of level.members) if (levels.has(member)) inner.set(member, placeLevel(member, levels));
  const placed = placeMembers(level, inner, screen);
  const [tallest, { height = 0 } = {}] = [...inner].sort(([, a], [, b]) => b.height - a.height)[0] ?? [];
  const tooTall = placed.height - (screen?.height ?? Infinity) - 2 * PADDING;
  const room = height - tooTall - HEADER - 2 * PADDING;
  if (tallest === undefined || screen === undefined || tooTall <= 0 || room < LEAST_ROOM) return placed;
  inner.set(tallest, placeLevel(tallest, levels, { width: screen.width - 2 * PADDING, height: room })); // in columns, too
  return placeMembers(level, inner, screen);
}

/** Returns how far from the middle of its frame an end is; 0 for one at another box. */
function endOf({ member, port }: End, inner: ReadonlyMap<Item, Placed>): number {
  const within = member === null || port === null ? undefined : inner.get(member);
  return within === undefined ? 0 : Math.round(within.portsAt[within.level.ports.indexOf(port as Port)] ?? 0) - Math.round(within.width / 2);
}

/** Arrangements by what they are made of: most frames are the same in every drawing that is tried. */
const ARRANGED = new Map<string, Arrangement>();
const MOST_ARRANGED = 1000;

function placeMembers(level: Level, inner: ReadonlyMap<Item, Placed>, screen?: Folding["screen"]): Placed {
  const members = level.members.map((member): Sized => ({ ...(inner.get(member) ?? sizeOf(member)), rank: null }));
  const ports = level.ports.map(({ side }): Sized => ({ ...PORT, rank: side === "in" ? "first" : "last" }));
  const sizes = [...members, ...ports];
  const positions = new Map<Item | Port, number>([...level.members, ...level.ports].map((each, index) => [each, index]));
  const at = ({ member, port }: End): number => positions.get(member ?? (port as Port)) ?? 0;
  const [numbers, counts] = [new Map<string, number>(), new Map<number, number>()];
  const brings = (edge: Edge): number => { // the values of each box, counted
    const box = at(edge.from);
    const key = `${box} ${valueOf(edge)}`;
    const found = numbers.get(key) ?? counts.get(box) ?? 0;
    if (!numbers.has(key)) counts.set(box, found + 1);
    numbers.set(key, found);
    return found;
  };
  const connections = level.edges.map((edge): Connection => ({ from: at(edge.from), to: at(edge.to), startsAt: endOf(edge.from, inner), endsAt: endOf(edge.to, inner), brings: edge.from.port === null ? brings(edge) : 0 }));
  const labels = level.edges.map((edge) => (isLabelled(edge.from) ? textWidth(labelOf(edge), 12) : 0));
  const wide = screen?.width ?? MOST_WIDTH;
  const arrange: Arrange = (indices, edges) => {
    const own = new Map(indices.map((index, at) => [index, at]));
    const some = indices.map((index) => sizes[index] as Sized);
    const tied = edges.map((edge): Connection => ({ ...connections[edge], from: own.get(connections[edge]?.from ?? 0) ?? 0, to: own.get(connections[edge]?.to ?? 0) ?? 0 }));
    const arranged = inOrder(withLoose((each, edges) => layeredLayout(each, edges, wide), some, tied), some, tied);
    const width = edges.reduce((most, edge, at) => { // labels stand at the right of where their wires begin
      const { from } = tied[at] as Connection;
      const label = labels[edge] ?? 0;
      return label === 0 ? most : Math.max(most, (arranged.places[from]?.x ?? 0) + (some[from]?.width ?? 0) / 2 + 8 + label);
    }, arranged.width);
    return { ...upright(arranged, some, tied), width };
  };
  const key = JSON.stringify([sizes.map(({ width, height, rank }) => [width, height, rank]), connections.map(({ from, to, startsAt, endsAt, brings: value }) => [from, to, startsAt, endsAt, value]), labels, screen]);
  const arrangement = ARRANGED.get(key) ?? inColumns(arrange, sizes, connections, screen);
  if (ARRANGED.size > MOST_ARRANGED) ARRANGED.clear();
  ARRANGED.set(key, arrangement);
  const { above, below } = margins(level, arrangement, sizes);
  return { level, arrangement, sizes, inner, ...across(level, arrangement), height: arrangement.height + above + below };
}

/** Returns what is where across a level. Wires enter at the right of the title, so that none crosses it: the frame is a little wider for that; what that does not do, a bend does below the title. */
function across({ group, members, ports }: Level, arrangement: Arrangement): Pick<Placed, "inset" | "portsAt" | "width"> {
  const place = (port: number): number => (arrangement.places[members.length + port]?.x ?? 0) + PORT.width / 2;
  const entries = [...ports.keys()].filter((port) => ports[port]?.side === "in").sort((a, b) => place(a) - place(b));
  const title = group.parent === null ? 0 : titleWidth(captionOf(group, true)) + BESIDE_TITLE;
  const least = Math.max(title + ENTRY * entries.length, arrangement.width + 2 * PADDING);
  const middle = (least - arrangement.width) / 2;
  const inset = middle + Math.min(MOST_WIDER, Math.max(0, title - middle - (entries[0] === undefined ? Infinity : place(entries[0]))));
  const width = Math.max(least, inset + arrangement.width + PADDING);
  const portsAt = [...ports.keys()].map((port) => inset + place(port));
  entries.reduce((limit, port) => (portsAt[port] = Math.max(limit, portsAt[port] ?? 0)) + ENTRY, title);
  entries.reduceRight((limit, port) => (portsAt[port] = Math.min(limit, portsAt[port] ?? 0)) - ENTRY, width - ENTRY);
  return { inset, portsAt, width };
}

/** Returns the lengths between the border of a level and its arrangement, from whose ends boxes are further away than ports. */
function margins({ group, members }: Level, { cut, places, height }: Arrangement, sizes: readonly Sized[]): { above: number; below: number } {
  const top = members.reduce((least, _, index) => Math.min(least, places[index]?.y ?? 0), PORT_GAP);
  const bottom = members.reduce((least, _, index) => Math.min(least, height - (places[index]?.y ?? 0) - (sizes[index]?.height ?? 0)), PORT_GAP);
  return {
    above: PADDING + (group.parent === null ? 0 : HEADER) + (cut !== undefined && cut.size > 0 ? STUB : 0) - top,
    below: PADDING - bottom,
  };
}

function collect(placed: Placed, { x, y, depth }: Point & { readonly depth: number }, boxes: Box[], wires: Wire[]): void {
  const { level, arrangement, sizes, inner } = placed;
  const left = x + placed.inset;
  const top = y + margins(level, arrangement, sizes).above;
  const own = new Map<Item, Box>();
  const ports = new Map<Port, number>();
  level.members.forEach((item, index) => {
    const place = arrangement.places[index] as Point;
    const { width, height } = sizes[index] as Sized;
    const within = inner.get(item);
    const box = { item, x: left + place.x, y: top + place.y, width, height, open: within !== undefined, caption: captionOf(item, within !== undefined), depth };
    boxes.push(box);
    own.set(item, box);
    if (within === undefined) return;
    collect(within, { x: box.x, y: box.y, depth: depth + 1 }, boxes, wires);
    within.level.ports.forEach((port, at) => ports.set(port, box.x + (within.portsAt[at] ?? 0)));
  });
  level.ports.forEach((port, at) => ports.set(port, x + (placed.portsAt[at] ?? 0)));
  const border = { top: y, bottom: y + placed.height };
  wires.push(...wiresOf(level, arrangement, { own, ports, border, left, top }));
}

interface Frame {
  readonly own: ReadonlyMap<Item, Box>;
  readonly ports: ReadonlyMap<Port, number>;
  readonly border: { readonly top: number; readonly bottom: number };
  readonly left: number;
  readonly top: number;
}

function wiresOf(level: Level, arrangement: Arrangement, frame: Frame): Wire[] {
  const bends = arrangement.bends.map((points) => points.map(({ x, y }) => ({ x: frame.left + x, y: frame.top + y })));
  const starts = startsOf(level.edges, frame, bends);
  level.edges.forEach(({ from }, index) => { if (from.member === null) bends[index]?.unshift({ x: starts[index]?.x ?? 0, y: frame.border.top + HEADER }); }); // straight past the title
  const stops = stopsOf(level.edges, frame, bends, starts);
  const labelled = new Set<string>();
  const cut = new Set(arrangement.cut);
  level.edges.forEach((_, index) => { if (arrangement.across?.has(index) !== true && (stops[index]?.y ?? 0) < (starts[index]?.y ?? 0)) cut.add(index); }); // a difference may have both orders
  const sources = sourcesOf(level.edges, cut, stops);
  return level.edges.flatMap((edge, index): Wire[] => {
    const start = starts[index] as Point;
    const label = isLabelled(edge.from) ? labelOf(edge) : "";
    const key = `${start.x} ${start.y} ${label}`;
    const shown = labelled.has(key) ? "" : label;
    labelled.add(key);
    const stop = stops[index] as Point;
    const arrives = edge.to.member !== null && edge.to.port === null;
    const { links } = edge;
    const ends = { passed: arrives ? passedText(links) : "", passedAt: stop, labelAt: stop, gaps: [] };
    if (!cut.has(index)) return [{ ...ends, links, points: [start, ...(bends[index] ?? []), stop], label: shown, arrives, cut: false }];
    const last: Wire = { ...ends, links, points: [{ x: stop.x, y: stop.y - STUB }, stop], label: sources.get(index) ?? "", arrives, cut: true };
    const isFirst = !labelled.has(`${start.x} ${start.y}`);
    labelled.add(`${start.x} ${start.y}`);
    return isFirst ? [{ ...ends, links, points: [start, { x: start.x, y: start.y + STUB + (edge.from.member === null ? HEADER : 0) }], label: shown === "" ? "⤵" : shown, passed: "", arrives: true, cut: false }, last] : [last];
  });
}

/** Returns where the cut edges that end at each box come from, by the last of them from the left: `relu, relu_1 +5 ⤵`. */
function sourcesOf(edges: readonly Edge[], cut: ReadonlySet<number>, stops: readonly Point[]): Map<number, string> {
  const ends = new Map<Item | Port | null, number[]>();
  for (const index of cut) {
    const { member, port } = (edges[index] as Edge).to;
    const known = ends.get(port ?? member);
    if (known === undefined) ends.set(port ?? member, [index]);
    else known.push(index);
  }
  return new Map(Array.from(ends.values(), (indices) => {
    indices.sort((a, b) => (stops[a]?.x ?? 0) - (stops[b]?.x ?? 0));
    const names = [...new Set(indices.map((index) => nameOf(edges[index] as Edge)))];
    const more = names.length > NAMED ? ` +${names.length - NAMED}` : "";
    return [indices.at(-1) ?? 0, `${names.slice(0, NAMED).map((name) => clipped(name, 16)).join(", ")}${more} ⤵`] as const;
  }));
}

function nameOf({ from: { member }, links }: Edge): string {
  if (member === null) return links[0]?.from.title ?? "";
  return member.kind === "node" ? member.name : member.title;
}

/** Whether an edge begins at an item whose box does not already say its type. */
function isLabelled({ member, port }: End): boolean {
  return member !== null && port === null && member.kind !== "input" && member.kind !== "weight";
}

/** Returns what an edge brings: a value, or several. */
function valueOf({ links }: Edge): string {
  return links.length === 1 ? (links[0]?.value ?? "") : [...new Set(links.map(({ value }) => value))].join("\0");
}

/** Returns where each edge begins: each value of a box has a place of its own at its lower border, in the order of where they go. */
function startsOf(edges: readonly Edge[], frame: Frame, bends: readonly (readonly Point[])[]): Point[] {
  const goals = new Map<Item, Map<string, number[]>>();
  edges.forEach((edge, index) => {
    const { member, port } = edge.from;
    if (member === null || port !== null) return;
    const box = edge.to.member === null ? undefined : frame.own.get(edge.to.member);
    const goal = bends[index]?.[0]?.x ?? (edge.to.port === null ? undefined : frame.ports.get(edge.to.port)) ?? (box === undefined ? 0 : box.x + box.width / 2);
    const known = goals.get(member) ?? new Map<string, number[]>();
    goals.set(member, known.set(valueOf(edge), [...(known.get(valueOf(edge)) ?? []), goal]));
  });
  const mean = (all: readonly number[]): number => all.reduce((sum, each) => sum + each, 0) / all.length;
  const orders = new Map(Array.from(goals, ([item, values]) => [item, [...values].sort(([, a], [, b]) => mean(a) - mean(b)).map(([value]) => value)]));
  return edges.map((edge) => {
    const start = startOf(edge.from, frame);
    const { member, port } = edge.from;
    const order = member === null || port !== null ? [] : (orders.get(member) ?? []);
    const box = member === null ? undefined : frame.own.get(member);
    if (order.length < 2 || box === undefined) return start;
    return { x: box.x + (box.width * (order.indexOf(valueOf(edge)) + 1)) / (order.length + 1), y: start.y };
  });
}

function startOf({ member, port }: End, { own, ports, border }: Frame): Point {
  const box = member === null ? undefined : own.get(member);
  const x = port === null ? undefined : ports.get(port);
  if (box === undefined) return { x: x ?? 0, y: border.top };
  return { x: x ?? box.x + box.width / 2, y: box.y + box.height };
}

/** Returns where each edge ends: those that end at one box are spread over its upper border, in the order of where they come from. */
function stopsOf(edges: readonly Edge[], { own, ports, border }: Frame, bends: readonly (readonly Point[])[], starts: readonly Point[]): Point[] {
  const stops: Point[] = [];
  const spread = new Map<Box, number[]>();
  edges.forEach(({ to: { member, port } }, index) => {
    const box = member === null ? undefined : own.get(member);
    const x = port === null ? undefined : ports.get(port);
    if (box === undefined) stops[index] = { x: x ?? 0, y: border.bottom };
    else if (x !== undefined) stops[index] = { x, y: box.y };
    else {
      const known = spread.get(box);
      if (known === undefined) spread.set(box, [index]);
      else known.push(index);
    }
  });
  for (const [box, ends] of spread) {
    const from = (index: number): number => (bends[index]?.at(-1) ?? starts[index])?.x ?? 0;
    ends.sort((a, b) => from(a) - from(b));
    const gap = Math.min(FAN, (box.width - 12) / Math.max(1, ends.length - 1));
    ends.forEach((index, at) => {
      stops[index] = { x: box.x + box.width / 2 + (at - (ends.length - 1) / 2) * gap, y: box.y };
    });
  }
  return stops;
}

function labelOf({ links }: Edge): string {
  const values = new Map(links.map((link) => [link.value, link]));
  if (values.size > 1) return plural(values.size, "value");
  const [link] = values.values();
  if (link === undefined) return "";
  return wireLabel(valueFacts(link.from.scope.graph, link.value));
}
