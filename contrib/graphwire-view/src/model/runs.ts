/**
 * Makes items fewer, so that the first drawing is an overview: a module of one operator becomes that operator, a container of one module
 * that module, and neighbours become runs: equal ones (the layers of a transformer), or just many.
 */

import { isPassing } from "./categories.js";
import { classText, Item, within } from "./items.js";

/** This many equal neighbours are one box. */
const EQUAL = 3;
/** A group with more members than this has them in runs, */
const MOST = 40;
/** of about this number. */
const RUNS = 8;

/** Arranges everything in an item. Adds the runs to `all`. */
export function arrange(root: Item, all: Item[]): void {
  simplify(root);
  const numbers = new Map<string, number>();
  const kinds = new Map<Item, number>();
  number(root, numbers, kinds);
  for (const item of [...within(root)]) {
    if (item.kind === "node") continue;
    const ends = (["input", "output"] as const).flatMap((kind) => item.children.filter((child) => child.kind === kind && child.mark === null).length > MOST / 4 ? [kind] : []);
    for (const kind of ends) inOne(item, item.children.filter((child) => child.kind === kind && child.mark === null), all);
    equalRuns(item, kinds, all);
    manyRuns(item, all);
  }
}

/** Removes groups that say nothing which their only member does not say. */
function simplify(group: Item): void {
  for (const child of [...group.children]) {
    simplify(child);
    const [only, ...others] = child.children;
    if (child.kind !== "module" || only === undefined || others.length > 0) continue;
    if (only.kind === "node" && !only.isGroup) only.calls = [child, ...only.calls];
    else if (only.kind === "module" && child.type === "") only.title = `${child.title}.${only.title}`;
    else continue;
    only.parent = group;
    child.shownAs = only;
    group.children.splice(group.children.indexOf(child), 1, only);
  }
}

/** Gives items that look alike the same number. */
function number(item: Item, numbers: Map<string, number>, kinds: Map<Item, number>): number {
  const inside = item.children.map((child) => `${child.kind === "module" ? child.title : child.calls.map(({ title }) => title).join()} ${number(child, numbers, kinds)}`);
  const key = JSON.stringify([item.kind, item.type, item.was, item.isMoved, item.bytes, item.mark, item.isDerived, item.calls.map(({ type }) => type), inside]);
  const found = numbers.get(key) ?? numbers.size;
  numbers.set(key, found);
  kinds.set(item, found);
  return found;
}

function equalRuns(group: Item, kinds: ReadonlyMap<Item, number>, all: Item[]): void {
  const runs: Item[][] = [];
  for (const child of group.children) {
    const last = runs.at(-1);
    if (child.kind === "module" && last !== undefined && kinds.get(last[0] as Item) === kinds.get(child)) last.push(child);
    else runs.push([child]);
  }
  for (const members of runs) {
    if (members.length < EQUAL) continue;
    const run = inOne(group, members, all);
    manyRuns(run, all);
    const isAll = group.kind === "module" && group.type === "" && group.children.length === 1;
    if (!isAll || group.parent === null) continue;
    run.title = `${group.title} ${run.title}`; // a container of nothing else
    run.name = group.name;
    run.parent = group.parent;
    group.shownAs = run;
    group.parent.children.splice(group.parent.children.indexOf(group), 1, run);
  }
}

/** Divides members among runs, and those again. Nodes of one operator in a row are one run, if they are many. */
function manyRuns(group: Item, all: Item[]): void {
  const isMember = ({ kind, mark, nodes }: Item): boolean => nodes > 0 && mark === null && kind !== "input" && kind !== "output";
  if (group.children.filter(isMember).length <= MOST) return;
  const rows: Item[][] = [];
  for (const child of group.children) {
    const last = rows.at(-1);
    if (isMember(child) && child.kind === "node" && !child.isGroup && !isPassing(child) && last?.[0]?.type === child.type) last.push(child);
    else rows.push([child]);
  }
  for (const row of rows) if (row.length >= MOST && row.length < group.children.length) manyRuns(inOne(group, row, all), all);
  const members = group.children.filter(isMember);
  if (members.length <= MOST) return;
  const crossing = crossings(group.children);
  const size = Math.ceil(members.length / RUNS);
  let held: Item[] = [];
  const close = (count: number): void => {
    const rest = held.slice(count);
    if (count > 1) manyRuns(inOne(group, held.slice(0, count), all), all);
    held = rest;
  };
  for (const child of [...group.children]) {
    if (child.nodes === 0 || child.kind === "weight") continue;
    if (child.mark !== null) close(held.length); // marked members stay where they are: a run is of neighbours alone
    else held.push(child);
    if (held.length < size) continue;
    const late = held.map((item, index) => [index + 1, crossing.get(item) ?? 0] as const).slice(Math.floor(size * 0.7));
    close(late.reduce((best, each) => (each[1] <= best[1] ? each : best), late[0] ?? [size, 0])[0]);
  }
  close(held.length);
}

/** Returns how many values go from each member, or one before it, to one after it. */
function crossings(members: readonly Item[]): Map<Item, number> {
  const positions = new Map<Item, number>();
  members.forEach((member, index) => { for (const item of within(member)) positions.set(item, index); });
  const changes = new Array<number>(members.length + 1).fill(0);
  for (const [item, from] of positions) {
    const last = item.users.reduce((most, { to }) => Math.max(most, positions.get(to) ?? -1), -1);
    if (last <= from) continue;
    changes[from] = (changes[from] ?? 0) + 1;
    changes[last] = (changes[last] ?? 0) - 1;
  }
  let open = 0;
  return new Map(members.map((member, index) => [member, (open += changes[index] ?? 0)]));
}

/** Makes a run of members of a group, in place of the first of them. */
function inOne(group: Item, members: readonly Item[], all: Item[]): Item {
  const [first, last] = [members[0] as Item, members.at(-1) as Item];
  const place = group.children.indexOf(first);
  const name = `${first.name}…${last.name}`;
  const run = new Item(all.length, "run", name, titleOf(members), "", null, first.scope, null, []);
  all.push(run);
  run.parent = group;
  run.nodes = members.reduce((sum, { nodes }) => sum + nodes, 0);
  run.bytes = members.reduce((sum, { bytes }) => sum + bytes, 0);
  run.children.push(...members);
  for (const member of members) member.parent = run;
  const moved = new Set(members);
  const kept = group.children.flatMap((child, index) => (index === place ? [run] : moved.has(child) ? [] : [child]));
  group.children.splice(0, group.children.length, ...kept);
  return run;
}

/** `0–31 · 32 × Block`, `relu, add, …` */
function titleOf(members: readonly Item[]): string {
  const [first, last] = [members[0] as Item, members.at(-1) as Item];
  const types = [...new Set(members.map(classText))];
  const count = members.length.toLocaleString("en");
  if (first.kind === "module" && types.length === 1) return `${first.title}–${last.title} · ${count} × ${types[0] === "" ? "module" : (types[0] ?? "")}`;
  if (first.kind === "input" || first.kind === "output") return `${count} ${first.kind}s`;
  if (members.some(({ kind }) => kind !== "node")) return `${first.title}–${last.title}`;
  const titles = [...new Set(members.map(({ title }) => title.split(".")[0] ?? title))];
  const named = titles.length <= 2 ? titles.join(", ") : `${titles.slice(0, 2).join(", ")}, …`;
  return titles.length === 1 ? `${count} × ${named}` : named;
}
