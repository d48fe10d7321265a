/**
 * Makes items fewer, so that the first drawing is an overview: a module of one operator becomes that operator, a container of one module
 * that module, and neighbours become runs: equal ones (the layers of a transformer), or just many.
 */

import { isPassing, withoutUnderscores } from "./categories.js";
import { classText, Item, withCall, within, withoutCall } from "./items.js";
import { holdStorages } from "./weights.js";

/** This many equal modules in a row are one box; so are modules, or modules and nodes, that take turns. */
const EQUAL = 3;
/** Nodes alone that take turns are one box if they are this many, and have this many turns. */
const EQUAL_NODES = { members: 12, turns: 4 };
/** The members of a turn. */
const TURN = 16;
/** Long rows of members are steps where at least some members in a row come again and again, at about the same distance. */
const STEPS = { members: 24, times: 4, gram: 4, uneven: 1.6, share: 0.5 };
/** A group with more members than this has them in runs, */
const MOST = 40;
/** or more than this share of it, if modules are among them, */
const AMONG_MODULES = 0.4;
/** of about this number. */
const RUNS = 8;
/** Where operators between modules are runs, more inputs than a quarter of this are one box. */
const MOST_ENDS = 24;

/** Arranges everything in an item. Adds the runs to `all`. */
export function arrange(root: Item, all: Item[]): void {
  simplify(root);
  const numbers = new Map<string, number>();
  const kinds = new Map<Item, number>();
  number(root, numbers, kinds);
  for (const item of [...within(root)]) {
    if (item.kind === "node") continue;
    ends(item, all, MOST);
    equalRuns(item, kinds, all);
    unrolledRuns(item, kinds, all);
    manyRuns(item, all);
  }
}

/** Makes one box of many inputs, and one of many outputs. */
function ends(group: Item, all: Item[], most: number): void {
  for (const kind of ["input", "output"] as const) {
    const members = group.children.filter((child) => child.kind === kind && child.mark === null);
    if (members.length > most / 4) inOne(group, members, all);
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
  const key = JSON.stringify([item.kind, item.type, item.was, item.isMoved, item.bytes, item.mark, item.isDerived, item.calls.map(({ type, bytes }) => [type, bytes]), inside]);
  const found = numbers.get(key) ?? numbers.size;
  numbers.set(key, found);
  kinds.set(item, found);
  return found;
}

function equalRuns(group: Item, kinds: ReadonlyMap<Item, number>, all: Item[]): void {
  for (const { members, turn } of repeated([...group.children], kinds)) {
    const run = inOne(group, members, all, turn);
    const isOneClass = members.every(({ kind, type }) => kind === "module" && type === members[0]?.type);
    if (turn > 1 && members.length > MOST && !isOneClass) inSteps(run, Array.from({ length: members.length / turn }, (_, at) => members.slice(at * turn, (at + 1) * turn)), all);
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

/** Makes boxes of the steps of long rows, such as those of a loop that is unrolled, and one box of these. */
function unrolledRuns(group: Item, kinds: ReadonlyMap<Item, number>, all: Item[]): void {
  const rows: Item[][] = [[]];
  for (const child of group.children) {
    if ((child.kind === "node" || child.kind === "module") && child.mark === null) rows.at(-1)?.push(child);
    else rows.push([]);
  }
  for (const row of rows) {
    const steps = stepsIn(row, kinds);
    if (steps.length === 0) continue;
    const run = inOne(group, steps.flat(), all, steps[0]?.length, steps.length);
    inSteps(run, steps, all);
    manyRuns(run, all);
  }
}

function inSteps(run: Item, steps: readonly (readonly Item[])[], all: Item[]): void {
  steps.forEach((members, index) => {
    const step = inOne(run, members, all);
    step.title = `${STEP}${index + 1} · ${step.title}`;
  });
}

/** What the title of a step begins with. */
const STEP = "step ";

/** Returns the steps of a row, none if it has no such: each begins with the same few members, which come from as early as possible to as late as possible. */
function stepsIn(row: readonly Item[], kinds: ReadonlyMap<Item, number>): Item[][] {
  if (row.filter((item) => !isPassing(item)).length < STEPS.members) return [];
  const grams = new Map<string, number[]>();
  for (let at = 0; at + STEPS.gram <= row.length; at++) {
    const gram = row.slice(at, at + STEPS.gram).map((item) => kinds.get(item)).join();
    const known = grams.get(gram);
    if (known === undefined) grams.set(gram, [at]);
    else known.push(at);
  }
  let best = { starts: [] as number[], length: 0, covered: STEPS.share * row.length };
  for (const starts of grams.values()) {
    const lengths = starts.slice(1).map((at, index) => at - (starts[index] ?? 0)).sort((a, b) => a - b);
    const [shortest = 0, middle = 0, longest = 0] = [lengths[0], lengths[lengths.length >> 1], lengths.at(-1)];
    if (starts.length < STEPS.times || shortest < STEPS.gram || longest > STEPS.uneven * shortest) continue;
    const [first = 0, last = 0] = [starts[0], starts.at(-1)];
    const covered = Math.min(row.length, last + middle) - first;
    if (covered > best.covered) best = { starts, length: middle, covered };
  }
  const steps = best.starts.slice(0, -1).map((start, index) => row.slice(start, best.starts[index + 1]));
  const rest = row.slice(best.starts.at(-1) ?? row.length);
  const alike = (step: readonly Item[]): number => {
    const other = step.findIndex((item, at) => rest[at] === undefined || kinds.get(item) !== kinds.get(rest[at]));
    return other < 0 ? step.length : other;
  };
  const whole = steps.filter((step) => alike(step) === step.length); // the last step is as long as one before it, of which nothing is missing
  return rest.length === 0 ? steps : [...steps, rest.slice(0, Math.max(...(whole.length > 0 ? whole : steps).map(alike)))];
}

/** Returns neighbours that are alike, or take turns in the same order, and how many of them are one turn. */
function repeated(given: readonly Item[], kinds: ReadonlyMap<Item, number>): { readonly members: readonly Item[]; readonly turn: number }[] {
  const kindAt = given.map((item) => kinds.get(item));
  const most = Math.min(TURN, Math.floor(given.length / EQUAL));
  const again = Array.from({ length: most }, (_, before) => { // how many members from here on are like those one turn later
    const counts = new Array<number>(given.length).fill(0);
    for (let at = given.length - before - 2; at >= 0; at--) if (kindAt[at] === kindAt[at + before + 1]) counts[at] = (counts[at + 1] ?? 0) + 1;
    return counts;
  });
  const found: { members: readonly Item[]; turn: number }[] = [];
  for (let at = 0; at < given.length; at++) {
    let best = { count: 0, turn: 1 };
    for (let turn = 1; turn <= most; turn++) {
      const turns = 1 + Math.floor((again[turn - 1]?.[at] ?? 0) / turn);
      if (turns < EQUAL || turns * turn <= best.count) continue;
      const first = given.slice(at, at + turn);
      if (!first.every(({ kind, mark }) => kind === "module" || (kind === "node" && mark === null))) continue;
      const isLong = turns >= EQUAL_NODES.turns && turns * first.filter((item) => !isPassing(item)).length >= EQUAL_NODES.members;
      if (isLong || first.some(({ kind }) => kind === "module")) best = { count: turns * turn, turn };
    }
    if (best.count === 0) continue;
    found.push({ members: given.slice(at, at + best.count), turn: best.turn });
    at += best.count - 1;
  }
  return found;
}

/** Divides members among runs, and those again. Among modules, many nodes in a row are one run. `isStrict` groups only what belongs together. */
function manyRuns(group: Item, all: Item[], most = MOST, isStrict = false, runs = RUNS): void {
  const isPlain = (child: Item): boolean => isLeaf(child) && child.calls.length === 0;
  const isMixed = group.children.some((child) => isMember(child) && !isPlain(child));
  if (group.children.filter(isSeen).length <= (isMixed ? AMONG_MODULES : 1) * most) return;
  for (const row of isMixed ? rowsOf(group, isPlain) : []) if (row.filter(isSeen).length >= RUNS) manyRuns(inOne(group, row, all), all);
  const count = group.children.filter(isSeen).length;
  if (count <= most) return;
  const crossing = crossings(group.children);
  const size = Math.ceil(count / Math.min(runs, most - 1));
  let [held, seen]: [Item[], number] = [[], 0];
  const close = (end: number): void => {
    const [members, rest] = [held.slice(0, end), held.slice(end)];
    for (const part of isStrict ? stretches(members) : [members]) if (part.filter(isSeen).length > 1) manyRuns(inOne(group, part, all), all);
    [held, seen] = [rest, rest.filter(isSeen).length];
  };
  for (const child of [...group.children]) {
    if (child.nodes === 0 || child.kind === "weight") continue;
    if (child.mark !== null) close(held.length); // marked members stay where they are: a run is of neighbours alone
    else held.push(child);
    seen += Number(isSeen(child));
    if (seen < size) continue;
    const late = held.map((item, index) => [index + 1, crossing.get(item) ?? 0] as const).slice(Math.floor(held.length * 0.7));
    close(late.reduce((best, each) => (each[1] <= best[1] ? each : best), late[0] ?? [size, 0])[0]);
  }
  close(held.length);
}

function isMember({ kind, mark, nodes }: Item): boolean {
  return nodes > 0 && mark === null && kind !== "input" && kind !== "output";
}

function isSeen(item: Item): boolean {
  return isMember(item) && !isPassing(item);
}

/** Whether an item is an operator, alone or in a module of its own. */
function isLeaf(item: Item): boolean {
  return isMember(item) && item.kind === "node" && !item.isGroup;
}

/** Returns neighbours of a kind, in rows. */
function rowsOf(group: Item, isWanted: (child: Item) => boolean): Item[][] {
  const rows: Item[][] = [[]];
  for (const child of group.children) {
    if (isWanted(child)) rows.at(-1)?.push(child);
    else if (child.kind !== "weight") rows.push([]);
  }
  return rows;
}

/** Makes runs of the operators between modules, each of a few. `isStrict` groups only what belongs together. */
function leafRuns(group: Item, all: Item[], isStrict: boolean): void {
  if (!group.children.some((child) => isMember(child) && !isLeaf(child))) return;
  for (const row of rowsOf(group, isLeaf).flatMap((each) => (isStrict ? stretches(each) : [each]))) {
    const count = row.filter(isSeen).length;
    const parts = Array.from({ length: Math.ceil(count / RUNS) }, (): Item[] => []);
    let seen = 0;
    for (const item of row) {
      parts[Math.min(parts.length - 1, Math.floor((seen * parts.length) / count))]?.push(item);
      seen += Number(isSeen(item));
    }
    for (const part of parts) if (part.filter(isSeen).length > 1) inOne(group, part, all);
  }
}

/** Divides neighbours: control flow stands alone, and what follows belongs to what is before it if it uses some of that. */
function stretches(members: readonly Item[]): Item[][] {
  const found: Item[][] = [];
  let held = new Set<Item>();
  for (const member of members) {
    const inside = [...within(member)];
    const isControl = member.kind === "node" && member.isGroup;
    if (isControl || !inside.some(({ operands }) => operands.some(({ from }) => held.has(from)))) {
      found.push([]);
      held = new Set();
    }
    found.at(-1)?.push(member);
    if (!isControl) for (const item of inside) held.add(item);
  }
  return found;
}

/** Makes one run of neighbours in a difference that are as before. */
function unchangedRuns(group: Item, all: Item[]): void {
  let held: Item[] = [];
  for (const child of [...group.children, null]) {
    if (child?.kind === "weight") continue;
    if (child !== null && child.nodes > 0 && child.mark === null && child.tally === "" && child.changedWeights === 0) held.push(child);
    else {
      if (held.filter((item) => !isPassing(item)).length > 1) inOne(group, held, all);
      held = [];
    }
  }
}

/** Returns what gives a group its members of now again. */
function restorer(group: Item, all: Item[]): () => void {
  const [before, count] = [[...group.children], all.length];
  return () => {
    group.children.splice(0, Infinity, ...before);
    for (const item of within(group)) for (const child of item.children) child.parent = item;
    all.length = count;
  };
}

/**
 * Makes runs of the members of a group until it is seen as a whole, or they are few: first of operators between modules, then of what
 * belongs together. Returns whether it is seen. `isTried`: otherwise all stays as it was.
 */
export function shorten(group: Item, all: Item[], fits: () => boolean, isTried = false): boolean {
  const restore = restorer(group, all);
  const tries = [true, false].map((isStrict) => () => {
    ends(group, all, MOST_ENDS);
    leafRuns(group, all, isStrict);
  });
  tries.push(...[true, false].flatMap((isStrict) => (isTried ? [9, 6, 4] : [24, 16, 12, 9, 6, 4]).map((most) => () => {
    ends(group, all, most);
    manyRuns(group, all, most, isStrict, most);
  })));
  if (group.children.some(({ tally }) => tally !== "")) tries.unshift(() => { unchangedRuns(group, all); });
  if (fits()) return true;
  for (const attempt of tries) {
    restore();
    attempt();
    if (fits()) return true;
  }
  if (isTried) restore();
  return false;
}

/** Puts the first of modules or steps that are alike beside one box of the others, if it is seen then. Returns whether it is; otherwise all stays as it was. */
export function exemplify(run: Item, all: Item[], fits: (first: Item) => boolean): boolean {
  const isStep = ({ kind, title }: Item): boolean => kind === "run" && title.startsWith(STEP);
  const flat = (item: Item): Item[] => (item.kind === "run" && !isStep(item) ? item.children.flatMap(flat) : [item]);
  const [first, ...others] = flat(run);
  if (first === undefined || others.length < 2 || ![first, ...others].every((each) => each.kind === "module" || isStep(each))) return false;
  const restore = restorer(run, all);
  run.children.splice(0, Infinity, first, ...others);
  first.parent = run;
  manyRuns(inOne(run, others, all), all);
  if (fits(first)) return true;
  restore();
  return false;
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
function inOne(group: Item, members: readonly Item[], all: Item[], turn = 1, turns = members.length / turn): Item {
  const [first, last] = [members[0] as Item, members.at(-1) as Item];
  const place = group.children.indexOf(first);
  const name = `${first.name}…${last.name}`;
  const run = new Item(all.length, "run", name, titleOf(members, turn, turns), "", null, first.scope, null, []);
  all.push(run);
  run.parent = group;
  run.nodes = members.reduce((sum, { nodes }) => sum + nodes, 0);
  holdStorages(run, new Map(members.flatMap((member) => [member, ...member.calls].flatMap(({ storages }) => [...storages]))));
  run.children.push(...members);
  for (const member of members) member.parent = run;
  const moved = new Set(members);
  const kept = group.children.flatMap((child, index) => (index === place ? [run] : moved.has(child) ? [] : [child]));
  group.children.splice(0, group.children.length, ...kept);
  return run;
}

/** `0–31 · 32 × Block`, `12 × (select, lstm_cell, linear)`, `relu, add, …` */
function titleOf(members: readonly Item[], turn: number, turns: number): string {
  const count = turns.toLocaleString("en");
  const seen = members.some((item) => !isPassing(item)) ? members.filter((item) => !isPassing(item)) : members;
  const [first, last] = [seen[0] as Item, seen.at(-1) as Item];
  if (first.kind === "run" && first.title.startsWith(STEP)) return `${STEP.trim()}s ${nameOf(first).slice(STEP.length)}–${nameOf(last).slice(STEP.length)}`;
  if (first.kind === "input" || first.kind === "output") return `${count} ${first.kind}s`;
  const areNodes = members.every(({ kind }) => kind === "node");
  const shown = turn > 1 ? members.slice(0, turn).filter((item) => seen.includes(item)) : seen;
  const types = [...new Set(shown.map((item) => (item.kind === "module" ? classText(item) || "module" : turn > 1 ? operatorOf(item) : nameOf(item))))];
  const most = turn > 1 ? 3 : 2;
  const named = types.slice(0, most).join(", ") + (types.length > most ? ", …" : "");
  const ends = nameOf(first) === nameOf(last) ? nameOf(first) : `${nameOf(first)}–${nameOf(last)}`;
  const isOne = turn === 1 && new Set(members.map((item) => withoutCall((item.calls.at(-1) ?? item).name))).size === 1; // one module, called again and again
  if (isOne && (!areNodes || first.calls.length > 0)) return `${nameOf(first)} · ${count} calls${areNodes ? "" : ` of ${named}`}`;
  if (types.length > 1 && turn === 1) return areNodes ? named : nameOf(first) === nameOf(last) ? [...new Set(seen.map(nameOf))].slice(0, most).join(", ") : ends;
  const what = types.length > 1 ? `${count} × (${named})` : `${seen.length.toLocaleString("en")} × ${named}`;
  return areNodes ? what : `${ends} · ${what}`;
}

function operatorOf({ title }: Item): string {
  return withoutUnderscores(title.split(".")[0] ?? "");
}

/** What people call a member: the module that it is all of, its operator, or its first part. */
function nameOf(item: Item): string {
  const { kind, title, calls } = item;
  const plain = ({ title: text, call }: Item): string => (call !== null && text.endsWith(withCall("", call)) ? text.slice(0, -withCall("", call).length) : text);
  return calls.length > 0 ? calls.map(plain).join(".") : kind === "node" ? operatorOf(item) : (plain(item).split(" · ")[0] ?? title);
}
