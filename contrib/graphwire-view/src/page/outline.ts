/** What is drawn, as text for readers of the screen. */

import { titleOf } from "../layout/boxes.js";
import type { Scene } from "../layout/scene.js";
import type { Item } from "../model/items.js";
import { plural, valueFacts } from "../model/values.js";
import { html } from "./elements.js";

/** The most boxes, and the most names of one box, that are told. */
const MOST = 400;
const MOST_NAMES = 4;

/** Returns a list of the boxes in sight or not, in the order of the program, and inside each open box another list. */
export function outlineOf(root: Item, { boxOf }: Scene): HTMLElement {
  let left = MOST;
  const listed = (group: Item): HTMLElement => {
    const rows = [];
    for (const item of group.children) {
      const box = boxOf.get(item);
      if (box === undefined) continue;
      if (left-- <= 0) break;
      rows.push(html("li", {}, told(item), box.open ? listed(item) : null));
    }
    return html("ol", {}, ...rows);
  };
  return html("div", {}, html("h2", {}, "Outline"), listed(root), left < 0 ? html("p", {}, `and ${plural(boxOf.size - MOST, "other")}: fold modules, or search`) : null);
}

function told(item: Item): string {
  const from = names(item.operands.map((link) => link.from).filter((each) => each.kind !== "weight"));
  const to = names(item.users.map((link) => link.to));
  const types = item.values.map((value) => valueFacts(item.scope.graph, value).type).filter((type) => type !== "");
  return [`${item.kind} ${titleOf(item)}`, item.mark ?? "", from === "" ? "" : `from ${from}`, types.slice(0, 2).join(" and "), to === "" ? "" : `to ${to}`].filter((each) => each !== "").join(", ");
}

function names(items: readonly Item[]): string {
  const unique = [...new Set(items)];
  const first = unique.slice(0, MOST_NAMES).map(({ name }) => name).join(" and ");
  return unique.length > MOST_NAMES ? `${first} and ${unique.length - MOST_NAMES} more` : first;
}
