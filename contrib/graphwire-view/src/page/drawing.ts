/** Draws a scene as SVG. Only what is near the seen part exists as elements, so that size does not matter. */

import { curvesOf, withGaps } from "../layout/curves.js";
import { FONT, HEADER, SIGN, hasSign, titleOf } from "../layout/boxes.js";
import { labelBox, passedBox } from "../layout/labels.js";
import type { Box, Scene, Wire } from "../layout/scene.js";
import { textWidth } from "../layout/text.js";
import { contains, meets, type Point, type Rectangle } from "../layout/places.js";
import { categoryOf, isPassing } from "../model/categories.js";
import { MARK_SIGNS } from "../model/difference.js";
import type { Item, Link } from "../model/items.js";
import { valueFacts } from "../model/values.js";
import { Camera } from "./camera.js";
import { shownText, svg, withoutIsolates } from "./elements.js";
import { Minimap } from "./minimap.js";
import type { WeightBadge } from "./reweighted.js";
import { signOf } from "./signs.js";

/** What decorates boxes and wires. */
export interface Decoration {
  readonly selected: Item | null;
  /** How many found items a box is or contains. */
  readonly found: ReadonlyMap<Item, number>;
  /** The colours of an overlay, with the value as text. */
  readonly colours: ReadonlyMap<Item, { readonly fill: string; readonly ink: string; readonly text: string }>;
  /** In a difference: what boxes say about the weights that they use. */
  readonly weights: ReadonlyMap<Item, WeightBadge>;
}

export interface DrawingEvents {
  select(item: Item | null): void;
  toggle(item: Item): void;
  /** The camera moved, or another scene is shown. */
  moved(): void;
}

/** Below this scale texts are too small to read, and are dropped. */
const READABLE = 0.28;
/** With more boxes and wires than this in sight, boxes become one shape without texts. */
const MOST = 3000;

/** The nodes that are not drawn, which the text over what stands for them tells. */
const MOST_PASSED = 12;

/** The least size of what is touched: 24 pixels at the least scale at which a drawing is read as a whole. */
const TOUCHED = 27;

/** The new elements that one frame makes. */
const PORTION = 200;

/** Something drawn: what it belongs to, and a text that changes when it looks different. */
interface Sprite {
  readonly key: object;
  readonly state: string;
  readonly isFirst: boolean;
  readonly make: () => SVGElement[];
}

export class Drawing {
  readonly camera: Camera;
  private readonly layer = svg("g");
  private scene: Scene | null = null;
  private decoration: Decoration = { selected: null, found: new Map(), colours: new Map(), weights: new Map() };
  private extents: readonly Rectangle[] = [];
  private kept = new Map<object, { readonly state: string; readonly elements: readonly SVGElement[] }>();
  private drawn: Rectangle | null = null;
  private drawnReadable = true;
  /** The frame that draws again; 0 for none. */
  private pending = 0;

  readonly map: Minimap;

  constructor(
    host: SVGSVGElement,
    map: SVGSVGElement,
    private readonly events: DrawingEvents,
  ) {
    host.append(svg("defs", {}, arrow("arrow", "wire-end"), arrow("arrow-near", "wire-end near")), this.layer);
    this.camera = new Camera(host, () => { this.moved(); });
    this.map = new Minimap(map, this.camera);
    host.addEventListener("click", (event) => { this.click(event); });
    new ResizeObserver(() => {
      if (this.camera.size.width === 0) return; // on a phone another part is shown: this one stays as it is
      this.camera.measure();
      const box = this.decoration.selected === null ? undefined : this.scene?.boxOf.get(this.decoration.selected);
      if (this.camera.isFitted && this.scene !== null && this.camera.holds(this.scene)) this.camera.fit(this.scene);
      else if (box !== undefined) this.camera.include(box, "unseen"); // the details beside it take place
      this.refresh();
    }).observe(host);
  }

  show(scene: Scene, decoration: Decoration): void {
    this.scene = scene;
    this.extents = scene.wires.map(extent);
    this.decoration = decoration;
    this.map.show(scene);
    this.refresh();
  }

  decorate(decoration: Decoration): void {
    this.decoration = decoration;
    this.refresh();
  }

  /** Draws again what is near the seen part. New elements are made in portions, one a frame, so that nothing waits for them. */
  refresh(): void {
    const { scene } = this;
    if (scene === null) return;
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    const near = grown(this.camera.seen, 0.5);
    this.drawn = near;
    this.drawnReadable = this.camera.scale >= READABLE;
    this.layer.classList.toggle("far", !this.drawnReadable);
    this.layer.setAttribute("transform", this.camera.transform);
    this.map.move();
    this.map.spare(this.decoration.selected === null ? undefined : scene.boxOf.get(this.decoration.selected));
    this.events.moved();
    const boxes = scene.boxes.filter((box) => meets(box, near));
    const wires = scene.wires.filter((_, index) => meets(this.extents[index] as Rectangle, near));
    if (boxes.length + wires.length > MOST) {
      this.kept.clear();
      this.layer.replaceChildren(...outlines(boxes));
      return;
    }
    const before = this.kept;
    this.kept = new Map();
    let left = PORTION;
    const sprites = this.sprites(boxes, wires, this.drawnReadable);
    for (const wanted of [true, false]) { // the selected box does not wait for others
      for (const { key, state, isFirst, make } of sprites) {
        if (isFirst !== wanted) continue;
        const known = before.get(key);
        if (known?.state !== state && left > 0) {
          left -= 1;
          this.kept.set(key, { state, elements: make() });
        } else if (known !== undefined) this.kept.set(key, known);
      }
    }
    place(this.layer, sprites.flatMap(({ key }) => this.kept.get(key)?.elements ?? []));
    if (left === 0) this.soon();
  }

  /** Returns every element of the scene, seen or not, for a picture. */
  everything(): SVGElement[] {
    const { scene } = this;
    return scene === null ? [] : this.sprites(scene.boxes, scene.wires, true).flatMap(({ make }) => make());
  }

  /** Returns what is drawn, from the back to the front. */
  private sprites(boxes: readonly Box[], wires: readonly Wire[], texts: boolean): Sprite[] {
    const { selected, found, colours, weights } = this.decoration;
    const isNear = (wire: Wire): boolean => selected !== null && wire.links.some(({ from, to, via = [] }) => from === selected || to === selected || via.includes(selected));
    const told = new Set<Item>();
    const open = boxes.filter((box) => box.open);
    const labels = wires.filter(({ label }) => label !== "").map(labelBox);
    const whole = (box: Box): Sprite => {
      const { item } = box;
      const colour = colours.get(item);
      const state = `${texts} ${colours.size > 0} ${selected === item} ${found.get(item) ?? 0} ${colour?.fill ?? ""} ${colour?.text ?? ""} ${weights.get(item)?.text ?? ""}`;
      return { key: box, state, isFirst: item === selected, make: () => [this.box(box, texts, labels)] };
    };
    const path = (wire: Wire, near: boolean): Sprite => ({ key: wire, state: String(near), isFirst: near, make: () => [wirePath(wire, near)] });
    const [near, far] = [wires.filter(isNear), wires.filter((wire) => !isNear(wire))];
    return [
      ...open.map(whole),
      ...far.map((wire) => path(wire, false)),
      ...near.map((wire) => path(wire, true)),
      ...(texts ? open.map((box): Sprite => ({ key: box.caption, state: "", isFirst: false, make: () => boxTexts(box, null) })) : []),
      ...(texts ? [...far, ...near].filter(({ passed }) => passed !== "").map((wire): Sprite => {
        const item = passedItem(wire);
        const isFirst = !told.has(item);
        told.add(item);
        const isSelected = wire.links.some(({ via = [] }) => selected !== null && via.includes(selected));
        return { key: wire.links, state: `${isFirst} ${isSelected}`, isFirst: false, make: () => [passedMark(wire, item, isFirst, isSelected)] };
      }) : []),
      ...boxes.filter((box) => !box.open).map(whole),
      ...(texts ? [...far, ...near].filter(({ label }) => label !== "").map((wire): Sprite => ({ key: wire.points, state: "", isFirst: false, make: () => wireText(wire) })) : []),
    ];
  }

  private box(box: Box, texts: boolean, labels: readonly Rectangle[]): SVGElement {
    const { item, x, y, width, height, open, depth } = box;
    const { selected, found, colours, weights } = this.decoration;
    const colour = colours.get(item);
    const count = found.get(item) ?? 0;
    const small = isPassing(item);
    const classes = ["box", item.kind, item.kind === "node" ? categoryOf(item) : "", small ? "small" : "", item.kind === "input" && item.users.length === 0 ? "unused" : "", open ? `open depth-${depth % 3}` : "", item.isGroup ? "group" : "", item.mark ?? "", item.isDerived ? "derived" : "", selected === item ? "selected" : "", count > 0 ? "found" : "", colours.size > 0 && colour === undefined && !open ? "bare" : ""];
    const group = svg("g", {
      class: classes.filter((each) => each !== "").join(" "),
      id: `box-${item.id}`,
      "data-item": item.id,
      role: "button",
      ...(item.isGroup ? { "aria-expanded": String(open) } : {}),
    });
    const isRound = item.kind === "input" || item.kind === "output" || item.kind === "weight";
    const shape = svg("rect", { x, y, width, height, rx: open ? 8 : isRound ? Math.min(18, height / 2) : 5 });
    if (colour !== undefined && !open) shape.style.fill = colour.fill;
    if (height < TOUCHED) group.append(touchArea(box));
    group.append(shape);
    const sign = { x: x + 14, y: y + (open ? HEADER / 2 + 1 : 13) };
    if (item.isGroup) group.append(toggleSign(sign, open));
    else if (texts && hasSign(item)) group.append(inked(signOf(categoryOf(item), sign.x, sign.y), "stroke", colour?.ink));
    if (texts && !open) group.append(...boxTexts(box, colour?.ink ?? null));
    if (item.mark !== null && texts && !item.isDerived) group.append(badge(x + 2, y + 1, MARK_SIGNS[item.mark], `mark ${item.mark}`));
    if (count > 0 && !open && texts) group.append(badge(x + width, y, item.isGroup ? String(count) : "●", "hits"));
    const taken: Rectangle[] = [...labels];
    const beside = (text: string, className: string, sides: readonly Corner[], edge = 0): SVGElement => {
      const place = badgePlace(box, text, sides, taken, edge);
      taken.push(place);
      return badge(place.x + place.width / 2, place.y + place.height / 2, text, className);
    };
    if (colour !== undefined && texts && colour.text !== "") group.append(beside(colour.text, "number", ["top right", "bottom right", "bottom left"], count > 0 ? 24 : 0));
    const reweighted = weights.get(item);
    if (reweighted !== undefined && texts) {
      const made = beside(reweighted.text, "number weights", open ? ["top right"] : ["bottom right", "bottom left", "top right"]);
      const [shape, text] = [made.querySelector("rect"), made.querySelector("text")];
      if (shape !== null) shape.style.fill = reweighted.fill;
      if (text !== null) text.style.fill = reweighted.ink;
      group.append(made);
    }
    group.append(svg("title", {}, (box.caption.title.includes("…") ? `${titleOf(item)}\n${item.label}` : item.label) + (item.kind === "run" ? "\nA group of this page, not of the program" : "")));
    for (const text of group.querySelectorAll("text, title")) text.before(" "); // a label begins with all that is seen
    const seen = texts && !open ? group.textContent : `${titleOf(item)} ${group.textContent}`;
    const label = [seen.replace(/\s+/g, " ").trim(), item.kind, item.mark ?? "", item.isGroup ? (open ? "open" : "folded") : ""];
    group.setAttribute("aria-label", shownText(withoutIsolates(label.filter((each) => each !== "").join(", "))));
    return group;
  }

  private moved(): void {
    this.layer.setAttribute("transform", this.camera.transform);
    this.map.move();
    this.events.moved();
    const readable = this.camera.scale >= READABLE;
    if (this.drawn !== null && contains(this.drawn, this.camera.seen) && readable === this.drawnReadable) return;
    this.soon();
  }

  private soon(): void {
    if (this.pending === 0) this.pending = requestAnimationFrame(() => { this.refresh(); });
  }

  private click(event: MouseEvent): void {
    if (this.camera.wasDrag) return;
    const box = event.target instanceof Element ? event.target.closest("[data-item]") : null;
    const id = box?.getAttribute("data-item") ?? null;
    const item = this.scene?.boxes.find((each) => String(each.item.id) === id)?.item ?? this.scene?.wires.map(passedItem).find((each) => String(each.id) === id) ?? null;
    const onSign = event.target instanceof Element && event.target.closest(".sign") !== null;
    if (item !== null && item.isGroup && (onSign || event.detail === 2)) this.events.toggle(item);
    else this.events.select(item);
  }
}

function arrow(id: string, className: string): SVGElement {
  const shape = svg("path", { d: "M0,0L8,4L0,8z", class: className });
  return svg("marker", { id, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, shape);
}

/** Gives an element some children, in order, and leaves those in place that it has. */
function place(layer: SVGElement, wanted: readonly SVGElement[]): void {
  const kept = new Set(wanted);
  for (const child of [...layer.childNodes]) if (!kept.has(child as SVGElement)) child.remove();
  let at = layer.firstChild;
  for (const element of wanted) {
    if (element === at) at = at.nextSibling;
    else layer.insertBefore(element, at);
  }
}

function toggleSign({ x, y }: Point, open: boolean): SVGElement {
  const bar = open ? "M-3.5,0H3.5" : "M-3.5,0H3.5M0,-3.5V3.5";
  const area = svg("rect", { x: -14, y: -14, width: 28, height: 28, class: "area" });
  return svg("g", { class: "sign", transform: `translate(${x},${y})` }, area, svg("rect", { x: -6, y: -6, width: 12, height: 12, rx: 3 }), svg("path", { d: bar }));
}

function inked(made: SVGElement, part: "fill" | "stroke", ink: string | null | undefined): SVGElement {
  if (ink !== null && ink !== undefined) made.style[part] = ink;
  return made;
}

function boxTexts({ item, x, y, width, open, caption }: Box, ink: string | null): SVGElement[] {
  const { title, aside, lines } = caption;
  const more = aside === "" ? null : svg("tspan", { class: "aside", dx: 4 }, ` ${aside}`);
  if (open) return [svg("text", { x: x + 26, y: y + HEADER / 2 + 5, class: `group-title${item.kind === "run" ? " made" : ""}` }, title, more)];
  const small = isPassing(item);
  const middle = x + width / 2;
  const first = svg("text", { x: middle + (hasSign(item) ? SIGN / 2 - 1 : 0), y: y + (small ? FONT.small : FONT.first), class: small ? "text" : "title", "text-anchor": "middle" }, title, more);
  const others = lines.map((line, index) => svg("text", { x: middle, y: y + FONT.first + (index + 1) * FONT.line, class: "text", "text-anchor": "middle" }, line));
  return [first, ...others].map((made) => inked(made, "fill", ink) as SVGTextElement);
}

type Corner = "top right" | "bottom right" | "bottom left";

/** Returns where a badge stands: at the first corner of a box where it is on no text of a wire; `edge` is left free at the side. */
function badgePlace({ x, y, width, height }: Box, text: string, corners: readonly Corner[], taken: readonly Rectangle[], edge: number): Rectangle {
  const size = { width: badgeWidth(text), height: BADGE };
  const at = (corner: Corner): Rectangle => ({ ...size, x: corner.endsWith("right") ? x + width + 6 - edge - size.width : x - 6, y: corner.startsWith("top") ? y - 12 : y + height - 6 });
  return corners.map(at).find((place) => !taken.some((each) => meets(each, place))) ?? at(corners[0] ?? "top right");
}

const BADGE = 16;

function badgeWidth(text: string): number {
  return Math.max(16, 10 + textWidth(text, 12));
}

function badge(x: number, y: number, text: string, className: string): SVGElement {
  const width = badgeWidth(text);
  return svg(
    "g",
    { class: `badge ${className}` },
    svg("rect", { x: x - width / 2, y: y - 8, width, height: BADGE, rx: 8 }),
    svg("text", { x, y: y + 4, "text-anchor": "middle" }, text),
  );
}

/** Returns the line of a wire: a curve that does not begin where the one before ends begins beside a text. */
function pathOf({ points, gaps }: Wire): string {
  let last: Point | null = null;
  return withGaps(curvesOf(points), gaps).map(([start, a, b, end]) => {
    const move = last?.x === start.x && last.y === start.y ? "" : `M${start.x},${start.y}`;
    last = end;
    return move + (start.x === end.x ? `V${end.y}` : `C${a.x},${a.y} ${b.x},${b.y} ${end.x},${end.y}`);
  }).join("");
}

function wirePath(wire: Wire, near: boolean): SVGElement {
  const { links, arrives, cut } = wire;
  const marks = new Set(links.map(({ from, to, mark }) => mark ?? [from, to].map((item) => item.mark).find((each) => each === "added" || each === "removed") ?? ""));
  const [mark = ""] = marks.size === 1 ? marks : [];
  return svg("path", { d: pathOf(wire), class: `wire ${mark}${near ? " near" : ""}${cut ? " cut" : ""}`, "marker-end": !arrives ? null : near ? "url(#arrow-near)" : "url(#arrow)" });
}

function wireText(wire: Wire): SVGElement[] {
  const { x, y } = labelBox(wire);
  return [svg("text", { x, y: y + 10, class: "wire-label" }, wire.label)];
}

/** The node that is selected at what says that a wire passes some: the last. */
function passedItem({ links }: Wire): Item {
  return links.findLast(({ via }) => via !== undefined)?.via?.at(-1) ?? (links[0] as Link).to;
}

/** Returns what says that a wire passes nodes that are not drawn, with their names and what each makes. */
/** What is touched of something that is drawn smaller than a finger needs. */
function touchArea({ x, y, width, height }: Rectangle): SVGElement {
  const [across, along] = [Math.max(0, TOUCHED - width) / 2, Math.max(0, TOUCHED - height) / 2];
  return svg("rect", { x: x - across, y: y - along, width: width + 2 * across, height: height + 2 * along, class: "area" });
}

function passedMark(wire: Wire, item: Item, isFirst: boolean, isSelected: boolean): SVGElement {
  const { x, y, width, height } = passedBox(wire);
  const nodes = [...new Set(wire.links.flatMap(({ via = [] }) => via))];
  const lines = nodes.slice(0, MOST_PASSED).map((node) => `${node.label} · ${node.title}: ${valueFacts(node.scope.graph, node.values[0] ?? "").type}`);
  if (nodes.length > MOST_PASSED) lines.push(`and ${nodes.length - MOST_PASSED} more`);
  const label = shownText(`passes ${lines.join("; ")}`);
  return svg(
    "g",
    { class: `passed${isSelected ? " selected" : ""}`, "data-item": item.id, role: "button", "aria-label": `${wire.passed} ${label}`, ...(isFirst ? { id: `box-${item.id}` } : {}) },
    touchArea({ x, y, width, height }),
    svg("rect", { x, y, width, height, rx: height / 2 }),
    svg("text", { x: x + width / 2, y: y + 12, "text-anchor": "middle" }, wire.passed),
    svg("title", {}, lines.join("\n")),
  );
}

/** Returns boxes as a shape for each colour. */
export function outlines(boxes: readonly Box[]): SVGElement[] {
  const shapes = new Map<string, string>([["open", ""]]);
  for (const { item, open, x, y, width, height } of boxes) {
    const colour = open ? "open" : (item.mark ?? (item.kind === "node" ? categoryOf(item) : ""));
    shapes.set(colour, `${shapes.get(colour) ?? ""}M${x},${y}h${width}v${height}h${-width}z`);
  }
  return [
    ...Array.from(shapes, ([colour, d]) => svg("path", { class: `outline ${colour}`, d })),
    svg("title", {}, `${boxes.length.toLocaleString("en")} boxes: zoom in to read them`),
  ];
}

function extent({ points }: Wire): Rectangle {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

function grown({ x, y, width, height }: Rectangle, by: number): Rectangle {
  return { x: x - by * width, y: y - by * height, width: width * (1 + 2 * by), height: height * (1 + 2 * by) };
}
