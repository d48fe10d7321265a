/** The camera: which part of the drawing is seen, moved by mouse, touch and keys. */

import type { Point, Rectangle } from "../layout/places.js";
import type { Scene } from "../layout/scene.js";

const LEAST = 0.02;
/** At this scale the smallest texts of the drawing, of 12 pixels, have 11. */
export const READABLE = 11 / 12;
const MOST = 3;
/** The pixels between the border and a box that has just come into sight. */
const NEAR = 12;
/** The pixels that a pointer may move in a click. */
const SLIP = 4;

export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  /** Whether the drawing is seen as `fit` showed it. */
  isFitted = false;
  private readonly pointers = new Map<number, Point>();
  private moved = 0;

  constructor(
    private readonly host: SVGSVGElement,
    private readonly changed: () => void,
  ) {
    this.measure();
    host.addEventListener("wheel", (event) => { this.wheel(event); }, { passive: false });
    host.addEventListener("pointerdown", (event) => { this.down(event); });
    host.addEventListener("pointermove", (event) => { this.move(event); });
    for (const name of ["pointerup", "pointercancel"] as const) {
      host.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
  }

  /** The size when it was last read: reading it makes the browser wait for its layout. */
  private known = { width: 0, height: 0 };

  /** Reads the size anew. */
  measure(): void {
    this.known = this.size;
  }

  get size(): { readonly width: number; readonly height: number } {
    const { clientWidth, clientHeight } = this.host;
    return { width: clientWidth, height: clientHeight };
  }

  /** Whether the last press moved the drawing, so that it was no click. */
  get wasDrag(): boolean {
    return this.moved > SLIP;
  }

  /** The part of the drawing that is seen. */
  get seen(): Rectangle {
    const { width, height } = this.known;
    return { x: -this.x / this.scale, y: -this.y / this.scale, width: width / this.scale, height: height / this.scale };
  }

  get transform(): string {
    return `translate(${this.x},${this.y}) scale(${this.scale})`;
  }

  shift(dx: number, dy: number): void {
    if (dx !== 0 || dy !== 0) this.isFitted = false;
    this.x += dx;
    this.y += dy;
    this.changed();
  }

  /** Zooms around a point of the screen; without one, around the middle. */
  zoom(factor: number, around?: Point): void {
    const { width, height } = this.size;
    const point = around ?? { x: width / 2, y: height / 2 };
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = point.x - ((point.x - this.x) * scale) / this.scale;
    this.y = point.y - ((point.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.isFitted = false;
    this.changed();
  }

  /** Whether a whole scene is readable. */
  holds(scene: { readonly width: number; readonly height: number }): boolean {
    const { width, height } = this.size;
    return scene.width * READABLE <= width && scene.height * READABLE <= height;
  }

  /** The size of a drawing whose texts are readable if it is seen as a whole, less its margins. */
  get readable(): { readonly width: number; readonly height: number } {
    const { width, height } = this.size;
    return { width: width / READABLE - 60, height: height / READABLE - 60 };
  }

  /** Shows a whole scene, if its texts stay readable; otherwise its top: around the first input, or where a frame begins that is wider than the screen. */
  fit(scene: Pick<Scene, "width" | "height" | "boxes">, least?: number): void {
    const { width, height } = this.size;
    const readable = least ?? READABLE;
    const whole = Math.max(LEAST, Math.min(1.25, width / (scene.width + 4), height / (scene.height + 4)));
    this.scale = Math.max(whole, readable);
    const first = scene.boxes.find(({ item }) => item.kind === "input");
    const room = width - scene.width * this.scale;
    const wide = scene.boxes.find((box) => box.open && box.width * this.scale > width && box.y * this.scale < height / 2);
    if (room < 0 && wide !== undefined) this.x = 4 - wide.x * this.scale;
    else this.x = room >= 0 || first === undefined ? room / 2 : Math.min(4, Math.max(room - 4, width / 2 - (first.x + first.width / 2) * this.scale));
    this.y = whole >= readable ? (height - scene.height * this.scale) / 2 : 4;
    this.isFitted = true;
    this.changed();
  }

  /** Brings a box to the middle, and makes it readable. */
  center(box: Rectangle): void {
    const { width, height } = this.size;
    const inside = Math.min((width * 0.9) / box.width, (height * 0.8) / box.height);
    this.isFitted = false;
    this.scale = Math.min(Math.max(this.scale, 0.8), Math.max(inside, 0.35));
    this.x = width / 2 - (box.x + box.width / 2) * this.scale;
    this.y = inside < this.scale ? 40 - box.y * this.scale : height / 2 - (box.y + box.height / 2) * this.scale;
    this.changed();
  }

  /** Moves as little as possible so that a box is seen; its beginning, if it is larger than that. `amid` says whether it is brought to the middle across: always, or if it was not seen. */
  include(box: Rectangle, amid: "always" | "unseen" | "never" = "never"): void {
    const { width, height } = this.size;
    const by = (start: number, length: number, room: number): number => Math.max(Math.min(0, room - NEAR - start - length * this.scale), NEAR - start) * Number(start < 0 || start + length * this.scale > room);
    const across = by(box.x * this.scale + this.x, box.width, width);
    const isCentred = (amid === "always" || (amid === "unseen" && across !== 0)) && box.width * this.scale + 2 * NEAR <= width;
    this.shift(isCentred ? width / 2 - (box.x + box.width / 2) * this.scale - this.x : across, by(box.y * this.scale + this.y, box.height, height));
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.shiftKey) this.shift(-(event.deltaX + event.deltaY) * unit, 0);
    else this.zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0015)), this.at(event));
  }

  private at(event: MouseEvent): Point {
    const { left, top } = this.host.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  private down(event: PointerEvent): void {
    if (this.pointers.size === 0) this.moved = 0;
    this.pointers.set(event.pointerId, this.at(event));
  }

  private move(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = this.at(event);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    this.moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (!this.wasDrag) return;
    if (!this.host.hasPointerCapture(event.pointerId)) this.host.setPointerCapture(event.pointerId);
    if (other === undefined) this.shift(now.x - before.x, now.y - before.y);
    else {
      const distance = (point: Point): number => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
      this.zoom(distance(now) / distance(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    }
  }
}
