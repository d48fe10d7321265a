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
  const toggle = (label: string, title: string, name: "weights" | "reshapes", act: (app: App) => void): HTMLButtonElement => {
    const made = button(label, title, act);
    made.dataset["toggle"] = name;
    return made;
  };
  return [
    button("Fold all", "Fold all modules", (app) => { app.toggleAll(false); }),
    button("Unfold all", "Unfold all modules, and graphs inside nodes", (app) => { app.toggleAll(true); }),
    toggle("Weights", "Draw weights as boxes", "weights", (app) => { app.showWeights(!app.showsWeights); }),
    toggle("Reshaping", "Draw what only reshapes, copies or checks a value. Otherwise wires go past it", "reshapes", (app) => { app.showReshapes(!app.showsReshapes); }),
    button("SVG", "Save a picture of the drawing as SVG", (app) => { save(svgFile(app.picture()), `${app.side.opened.facts.name}.svg`); }),
    button("PNG", "Save a picture of the drawing as PNG", (app) => {
      pngFile(app.picture()).then(
        (file) => { save(file, `${app.side.opened.facts.name}.png`); },
        (error: unknown) => { app.announce(`The picture cannot be made: ${String(error)}`); },
      );
    }),
  ];
}
