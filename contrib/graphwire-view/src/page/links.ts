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

/** A step of the history: the tab that is shown, and whether details are open. Other details take the place of those before. */
interface Step {
  readonly tab: string;
  readonly isOpen: boolean;
  /** Whether the step before is the same without details. */
  readonly opens: boolean;
}

/** Shows a link in the address, if the page has one: a page inside a notebook has none. What is shown beside the drawing is a step of the history; to close details is to go back, if that is what went before. */
export function showStep(tab: string, isOpen: boolean, link = location.href): void {
  if (location.protocol === "about:") return;
  const step = stepShown();
  const url = link === "#" && location.hash === "" ? location.href : link;
  if (step === null || (step.tab === tab && step.isOpen === isOpen)) history.replaceState({ tab, isOpen, opens: step?.opens === true }, "", url);
  else if (step.opens && step.tab === tab) goBack();
  else history.pushState({ tab, isOpen, opens: isOpen && step.tab === tab }, "", url);
}

let isGoingBack = false;

/** Goes back once: the browser takes its time, and whoever presses Esc twice meanwhile would leave the page. */
function goBack(): void {
  if (isGoingBack) return;
  isGoingBack = true;
  window.addEventListener("popstate", () => { isGoingBack = false; }, { once: true });
  history.back();
}

/** Returns the step of the history that the browser is at; null for one that begins with an address. */
export function stepShown(): Step | null {
  return history.state as Step | null;
}
