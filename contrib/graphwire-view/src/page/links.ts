/** Links to items: `#node=linear_3`, `#method=decode&node=true_graph_0/add`. */

import type { Item } from "../model/items.js";

export interface LinkedItem {
  /** Null if the link names no method. */
  readonly method: string | null;
  readonly node: string;
}

/** Returns the link of an item. */
export function linkOf(method: string, item: Item): string {
  const encode = (text: string): string => encodeURIComponent(text).replaceAll("%2F", "/");
  return `#method=${encode(method)}&node=${encode(item.path)}`;
}

/** Reads a link; null if it leads to no item. */
export function readLink(hash: string): LinkedItem | null {
  const given = new URLSearchParams(hash.replace(/^#/, "").replaceAll("+", "%2B"));
  const node = given.get("node");
  return node === null ? null : { method: given.get("method"), node };
}

/** Shows a link in the address, if the page has one: a page inside a notebook has none. What is opened is one step of the history, so that Back closes it. */
export function showLink(link: string): void {
  if (location.protocol === "about:" || link === (location.hash || "#")) return;
  if (history.state === null && link !== "#") history.pushState("opened", "", link);
  else history.replaceState(history.state, "", link);
}
