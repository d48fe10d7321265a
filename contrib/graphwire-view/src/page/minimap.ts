/** The map of a drawing that is not seen as a whole: its boxes, and the part that is seen. */

import { contains, type Rectangle } from "../layout/places.js";
import type { Scene } from "../layout/scene.js";
import type { Camera } from "./camera.js";
import { outlines } from "./drawing.js";
import { svg } from "./elements.js";

/** The largest size of the map, in pixels. */
const MOST = { width: 150, height: 110 };

/** What is around the boxes of a scene need not be seen. */
const MARGIN = 14;

export class Minimap {
  private readonly frame = svg("rect", { class: "seen" });
  private scene: Scene | null = null;
  private scale = 1;

  constructor(
    private readonly host: SVGSVGElement,
    private readonly camera: Camera,
  ) {
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
    this.frame.style.strokeWidth = `${1.5 / this.scale}px`;
    this.host.replaceChildren(...outlines(boxes.filter((box) => box.width * box.height * this.scale ** 2 >= 1)), this.frame);
    this.move();
  }

  /** Shows which part is seen. */
  move(): void {
    if (this.scene === null) return;
    const { width, height } = this.scene;
    const { seen } = this.camera;
    const [left, top] = [Math.max(0, seen.x), Math.max(0, seen.y)];
    const part: Rectangle = { x: left, y: top, width: Math.max(0, Math.min(width, seen.x + seen.width) - left), height: Math.max(0, Math.min(height, seen.y + seen.height) - top) };
    this.host.toggleAttribute("hidden", contains({ x: seen.x - MARGIN, y: seen.y - MARGIN, width: seen.width + 2 * MARGIN, height: seen.height + 2 * MARGIN }, { x: 0, y: 0, width, height }));
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
