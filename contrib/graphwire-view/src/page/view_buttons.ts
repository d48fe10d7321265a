/** The buttons above the drawing: what is drawn, and pictures of it. */

import type { App } from "./app.js";
import { html } from "./elements.js";
import { pngFile, save, svgFile } from "./picture.js";

export function viewButtons(current: () => App | null): HTMLElement[] {
  const button = (label: string, title: string, act: (app: App) => void): HTMLButtonElement =>
    html("button", {
      type: "button",
      title,
      click: () => {
        const app = current();
        if (app !== null) act(app);
      },
    }, label);
  const weights = button("Weights", "Draw weights as boxes", (app) => {
    app.showWeights(!app.showsWeights);
    weights.setAttribute("aria-pressed", String(app.showsWeights));
  });
  weights.setAttribute("aria-pressed", "false");
  return [
    button("Fold all", "Fold all modules", (app) => { app.toggleAll(false); }),
    button("Unfold all", "Unfold all modules, and graphs inside nodes", (app) => { app.toggleAll(true); }),
    weights,
    button("SVG", "Save a picture of the drawing as SVG", (app) => { save(svgFile(app.picture()), `${app.side.opened.facts.name}.svg`); }),
    button("PNG", "Save a picture of the drawing as PNG", (app) => {
      pngFile(app.picture()).then(
        (file) => { save(file, `${app.side.opened.facts.name}.png`); },
        (error: unknown) => { app.announce(`The picture cannot be made: ${String(error)}`); },
      );
    }),
  ];
}
