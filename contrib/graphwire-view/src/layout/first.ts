/** The first drawing: what is open at first, so that the whole program is seen and read. */

import { talliesOf, type Difference } from "../model/difference.js";
import type { Item, Items } from "../model/items.js";
import { firstOpen, isDrawn, type Folding } from "../model/levels.js";
import { exemplify, shorten } from "../model/runs.js";
import { extentOf } from "./scene.js";

/** What shows the drawing. */
export interface Room {
  /** The size of a drawing that is read as a whole, in pixels. */
  readonly readable: { readonly width: number; readonly height: number };
  holds(scene: { readonly width: number; readonly height: number }): boolean;
}

/** Returns what is open at first. Adds runs to the items where that makes them fit. */
export function firstFolding({ root, all }: Items & { readonly all: Item[] }, difference: Difference | null, reshapes: boolean, room: Room): Folding {
  const chosen = { weights: false, reshapes };
  const screen = room.readable;
  const fits = (open: ReadonlySet<Item>, isRich = false): boolean => {
    const extent = extentOf(root, { ...chosen, screen, open });
    return room.holds(extent) && !(isRich && extent.isCut);
  };
  const counted = (isSeen: () => boolean) => (): boolean => {
    if (difference !== null) talliesOf(root, difference.tallies); // of the new runs, too
    return isSeen();
  };
  shorten(root, all, counted(() => fits(new Set([root]))));
  const open = firstOpen(root, {
    ...(difference === null ? {} : { changed: difference.tallies }),
    fits,
    shorten: (group, isSeen) => shorten(group, all, counted(isSeen), true),
    exemplify: (run, isSeen) => exemplify(run, all, isSeen),
    isShown: (item) => isDrawn(item, { ...chosen, open: new Set() }),
  });
  return { ...chosen, screen: room.holds(extentOf(root, { ...chosen, open })) ? undefined : screen, open };
}
