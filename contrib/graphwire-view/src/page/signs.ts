/** The signs of what operators do, which tell them apart without colour, and their legend. */

import { CATEGORIES, type Category } from "../model/categories.js";
import { html, svg } from "./elements.js";

/** The lines of each sign, in a square of 11 pixels around its middle. */
const SIGNS: Readonly<Record<Category, string>> = {
  linear: "M-5,-5H5V5H-5zM-5,0H5M0,-5V5",
  activation: "M-5,4H0L5,-5",
  norm: "M-5,4C-1,4 -2,-5 0,-5S1,4 5,4",
  attention: "M5,0A5,5 0 1 1 -5,0A5,5 0 1 1 5,0M1.5,0A1.5,1.5 0 1 1 -1.5,0A1.5,1.5 0 1 1 1.5,0",
  shape: "M-5,-2.5H5M2.5,-5L5,-2.5L2.5,0M5,2.5H-5M-2.5,0L-5,2.5L-2.5,5",
  arithmetic: "M-5,0H5M0,-5V5",
  control: "M0,-5.5L5.5,0L0,5.5L-5.5,0z",
  reduce: "M4,-5H-4L1,0L-4,5H4",
  lookup: "M-5,-4H5M-5,0H1M-5,4H5M3,0H5",
  other: "M-3,-3H3V3H-3z",
};

/** Returns the sign of a category. */
export function signOf(category: Category, x: number, y: number): SVGElement {
  return svg("path", { class: "what", d: SIGNS[category], transform: `translate(${x},${y})` });
}

/** Returns the legend of the categories that are drawn. */
export function categoryLegend(drawn: ReadonlySet<Category>): HTMLElement {
  const rows = CATEGORIES.filter(({ category }) => drawn.has(category)).map(({ category, title }) => {
    const picture = svg("svg", { class: "drawing", width: 20, height: 16, "aria-hidden": "true" }, svg("g", { class: `box node ${category}` }, svg("rect", { x: 0.5, y: 0.5, width: 19, height: 15, rx: 3 }), signOf(category, 10, 8)));
    return html("li", {}, picture, title);
  });
  return html("ul", {}, ...rows);
}
