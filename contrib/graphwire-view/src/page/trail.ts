/** The frames that the middle of the drawing is in, above it once their titles are out of sight. */

import { titleOf } from "../layout/boxes.js";
import { titleBox } from "../layout/labels.js";
import { contains } from "../layout/places.js";
import { clipped } from "../layout/text.js";
import type { Box, Scene } from "../layout/scene.js";
import type { Item } from "../model/items.js";
import type { Camera } from "./camera.js";
import { textButton } from "./elements.js";

/** The most characters of the title of one frame. */
const MOST = 36;

export class Trail {
  private scene: Scene | null = null;
  private frames: readonly Box[] = [];
  private shown: readonly Item[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly camera: Camera,
    private readonly go: (item: Item) => void,
  ) {}

  show(scene: Scene): void {
    this.scene = scene;
    this.frames = scene.boxes.filter(({ open }) => open);
    this.move();
  }

  /** Follows the camera. */
  move(): void {
    if (this.scene === null) return;
    const { seen } = this.camera;
    const middle = { x: seen.x + seen.width / 2, y: seen.y + seen.height / 2, width: 0, height: 0 };
    const around = this.frames.filter((frame) => contains(frame, middle));
    const isHidden = around.every((frame) => contains(seen, titleBox(frame)));
    this.host.hidden = isHidden;
    const items = isHidden ? [] : around.map(({ item }) => item);
    if (items.length === this.shown.length && items.every((item, index) => item === this.shown[index])) return;
    this.shown = items;
    this.host.replaceChildren(...items.map((item) => textButton(clipped(titleOf(item), MOST), () => { this.go(item); }, `${item.path}: show this frame`)));
    this.host.scrollLeft = this.host.scrollWidth; // the innermost is seen
  }
}
