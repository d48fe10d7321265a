/** The panels of the page. */

import { changesPanel } from "./changes.js";
import { modulesPanel } from "./modules.js";
import { numbersPanel, type Chooser } from "./numbers.js";
import { programPanel } from "./program.js";
import { operatorsPanel, weightsPanel } from "./tables.js";

export interface Panel {
  readonly name: string;
  readonly title: string;
  readonly make: () => HTMLElement;
  /** Whether it changes when something is folded. */
  readonly showsFolding?: boolean;
}

/** Returns the panels, in the order of their tabs. */
export function panelsOf(context: Chooser): Panel[] {
  const { difference } = context;
  const changes: Panel[] = difference === null ? [] : [{ name: "changes", title: "Changes", make: () => changesPanel(context, difference) }];
  return [
    ...changes,
    { name: "program", title: "Program", make: () => programPanel(context) },
    { name: "modules", title: "Modules", make: () => modulesPanel(context), showsFolding: true },
    { name: "operators", title: "Operators", make: () => operatorsPanel(context), showsFolding: true },
    { name: "weights", title: "Weights", make: () => weightsPanel(context) },
    { name: "numbers", title: "Numbers", make: () => numbersPanel(context), showsFolding: true },
  ];
}
