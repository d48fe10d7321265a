/** The map of a drawing that is not seen as a whole: its boxes, and the part that is seen. */

import { contains, type Rectangle } from "../layout/places.js";
import type { Box, Scene } from "../layout/scene.js";
import type { Camera } from "./camera.js";
import { outlines } from "./drawing.js";
import { remember, remembered, svg } from "./elements.js";

/** The largest size of the map, in pixels. */
const MOST = { width: 150, height: 110 };

/** What is around the boxes of a scene need not be seen. */
const MARGIN = 14;

/** The corners in which it can be, the usual one first. */
const CORNERS = ["bottom right", "bottom left", "top right", "top left"] as const;
/** The pixels between the map and the border of the drawing; at the top there is room for the names of frames. */
const GAP = 10;
const TOP = 40;
/** The milliseconds without movement after which it looks for a corner. */
const REST = 150;

export class Minimap {
  private readonly frame = svg("rect", { class: "seen" });
  private selected: Box | undefined;
  private corner: string = CORNERS[0];
  private resting: ReturnType<typeof setTimeout> | undefined;
  private isWanted = remembered("map") !== "false";
  private scene: Scene | null = null;
  private scale = 1;

  constructor(
    private readonly host: SVGSVGElement,
    private readonly camera: Camera,
  ) {
    host.dataset["corner"] = this.corner;
    host.onpointerdown = (event): void => {
      host.setPointerCapture(event.pointerId);
      this.go(event);
    };
    host.onpointermove = (event): void => { if (event.buttons > 0) this.go(event); };
  }

  show(scene: Scene): void {
    const { width, height, boxes } = scene;
    this.scene = scene;
    this.scale = Math.min(MOST.width / width, MOST.height / height);
    this.host.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.host.style.width = `${Math.max(12, width * this.scale)}px`;
    this.host.style.height = `${Math.max(12, height * this.scale)}px`;
    this.selected = undefined;
    this.frame.style.strokeWidth = `${1.5 / this.scale}px`;
    const [large, small] = [[] as Box[], new Map<string, Box>()];
    for (const box of boxes) {
      if (box.width * box.height * this.scale ** 2 >= 1) large.push(box);
      else if (!box.open) { // what is smaller than a pixel has that pixel
        const [x, y] = [Math.floor(box.x * this.scale), Math.floor(box.y * this.scale)];
        small.set(`${x} ${y}`, { ...box, x: x / this.scale, y: y / this.scale, width: 1 / this.scale, height: 1 / this.scale });
      }
    }
    this.host.replaceChildren(...outlines([...large, ...small.values()]), this.frame);
    this.move();
  }

  /** Tells which box must not be covered. */
  spare(selected: Box | undefined): void {
    if (selected === this.selected) return;
    this.selected = selected;
    this.settle();
  }

  /** Shows it, or hides it until it is wanted again; which is remembered. */
  toggle(): boolean {
    this.isWanted = !this.isWanted;
    remember("map", String(this.isWanted));
    this.move();
    return this.isWanted;
  }

  /** Goes to the corner in which it covers least, and is pale where it covers boxes all the same. What is selected it never covers. */
  private settle(): void {
    const { scene } = this;
    if (scene === null || this.host.hasAttribute("hidden")) return;
    const { seen, scale, size } = this.camera;
    const [width, height] = [this.host.clientWidth + 2, this.host.clientHeight + 2];
    const covered = (corner: string): { readonly corner: string; readonly area: number; readonly isBad: boolean } => {
      const [x, y] = [corner.endsWith("left") ? GAP : size.width - GAP - width, corner.startsWith("top") ? TOP : size.height - GAP - height];
      const place: Rectangle = { x: seen.x + x / scale, y: seen.y + y / scale, width: width / scale, height: height / scale };
      const area = scene.boxes.reduce((sum, box) => sum + (box.open ? 0 : common(box, place)), 0);
      return { corner, area, isBad: this.selected !== undefined && common(this.selected.open ? { ...this.selected, height: 24 } : this.selected, place) > 0 };
    };
    const all = [this.corner, ...CORNERS].map(covered);
    const best = all.reduce((found, each) => (Number(each.isBad) - Number(found.isBad) || each.area - found.area) < 0 ? each : found);
    this.corner = best.corner;
    this.host.dataset["corner"] = best.corner;
    this.host.classList.toggle("pale", best.area > 0);
    this.host.classList.toggle("gone", best.isBad);
  }

  /** Shows which part is seen. */
  move(): void {
    if (this.scene === null) return;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => { this.settle(); }, REST);
    const { width, height } = this.scene;
    const { seen } = this.camera;
    const [left, top] = [Math.max(0, seen.x), Math.max(0, seen.y)];
    const part: Rectangle = { x: left, y: top, width: Math.max(0, Math.min(width, seen.x + seen.width) - left), height: Math.max(0, Math.min(height, seen.y + seen.height) - top) };
    this.host.toggleAttribute("hidden", !this.isWanted || contains({ x: seen.x - MARGIN, y: seen.y - MARGIN, width: seen.width + 2 * MARGIN, height: seen.height + 2 * MARGIN }, { x: 0, y: 0, width, height }));
    for (const [name, value] of Object.entries(part)) this.frame.setAttribute(name, String(value));
  }

  private go({ clientX, clientY }: PointerEvent): void {
    const { left, top, width, height } = this.host.getBoundingClientRect();
    const { seen, scale } = this.camera;
    if (this.scene === null) return;
    const [x, y] = [((clientX - left) / width) * this.scene.width, ((clientY - top) / height) * this.scene.height];
    this.camera.shift((seen.x + seen.width / 2 - x) * scale, (seen.y + seen.height / 2 - y) * scale);
  }
}

/** Returns the area that two rectangles share. */
function common(a: Rectangle, b: Rectangle): number {
  const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const along = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return Math.max(0, across) * Math.max(0, along);
}
