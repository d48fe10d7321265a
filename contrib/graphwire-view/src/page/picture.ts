/** Pictures of the drawing: SVG and PNG files that look as the page does. */

import { svg } from "./elements.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "paint-order", "text-decoration-line"];
const PAGE_ONLY = ["class", "role", "id", "data-item", "aria-label", "aria-expanded"];
const MARGIN = 16;
/** The most pixels of a side of a PNG, since browsers refuse larger canvases. */
const MOST_PIXELS = 8000;

export interface Pictured {
  readonly width: number;
  readonly height: number;
  everything(): SVGElement[];
}

/** Returns a picture of a whole drawing, with its styles as attributes. */
export function pictureOf(drawing: Pictured, host: SVGSVGElement): SVGSVGElement {
  const { width, height } = drawing;
  const box = { width: Math.ceil(width + 2 * MARGIN), height: Math.ceil(height + 2 * MARGIN) };
  const picture = svg("svg", { ...box, viewBox: `${-MARGIN} ${-MARGIN} ${box.width} ${box.height}`, class: "drawing" });
  const markers = [...host.querySelectorAll("marker")].map((each) => each.cloneNode(true) as SVGMarkerElement);
  for (const each of markers) each.id = `picture-${each.id}`; // what is not displayed, as the drawing on paper, has no arrows for others
  picture.append(svg("defs", {}, ...markers), svg("rect", { x: -MARGIN, y: -MARGIN, ...box, class: "ground" }), ...drawing.everything());
  const holder = svg("svg", { class: "drawing", width: 0, height: 0 }, picture);
  host.after(holder);
  for (const each of [...picture.querySelectorAll<SVGElement>("path, rect, text, tspan")]) {
    const style = getComputedStyle(each);
    for (const name of STYLES) each.setAttribute(name, style.getPropertyValue(name));
  }
  for (const each of [...picture.querySelectorAll(":not(marker)"), picture]) for (const name of PAGE_ONLY) each.removeAttribute(name);
  for (const each of picture.querySelectorAll("[marker-end]")) each.setAttribute("marker-end", each.getAttribute("marker-end")?.replace("#", "#picture-") ?? "");
  holder.remove();
  picture.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return picture;
}

export function svgFile(picture: SVGSVGElement): Blob {
  return new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
}

/** Returns a picture as PNG, at twice its size if that is not too large. */
export async function pngFile(picture: SVGSVGElement): Promise<Blob> {
  const { width, height } = { width: Number(picture.getAttribute("width")), height: Number(picture.getAttribute("height")) };
  const scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
  const url = URL.createObjectURL(svgFile(picture));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => {
        if (blob === null) reject(new Error("the picture is too large"));
        else resolve(blob);
      });
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Saves a file as a download. */
export function save(file: Blob, name: string): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\w.-]+/g, "_").slice(0, 80);
  link.click();
  setTimeout(() => { URL.revokeObjectURL(url); }, 10_000);
}
