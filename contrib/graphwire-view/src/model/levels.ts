/**
 * Levels: what is visible when some groups are open. Each open group is a level of its own: its members, the edges between them, and
 * ports, where values enter and leave it. A value that is used elsewhere goes from port to port.
 */

import { isPassing, makesSizes } from "./categories.js";
import { within, type Item, type Link } from "./items.js";

/** A place on the border of an open group, where values enter (at the top) or leave (at the bottom). */
export interface Port {
  readonly group: Item;
  readonly side: "in" | "out";
}

/** An end of an edge: a member of the level, at one of its ports if it is open; or a port of the level's own group. */
export interface End {
  readonly member: Item | null;
  readonly port: Port | null;
}

export interface Edge {
  readonly from: End;
  readonly to: End;
  readonly links: Link[];
}

export interface Level {
  readonly group: Item;
  readonly members: readonly Item[];
  readonly ports: Port[];
  readonly edges: Edge[];
}

/** What is open and shown. */
export interface Folding {
  readonly open: ReadonlySet<Item>;
  /** Whether weights have boxes of their own. Otherwise the nodes that use them list them. */
  readonly weights: boolean;
  /** Whether nodes that only reshape, copy or check have boxes. Otherwise the wires go past them. */
  readonly reshapes: boolean;
  /** The size in pixels that the outermost level is made to fit, if it can be; absent if it need not. */
  readonly screen?: { readonly width: number; readonly height: number } | undefined;
}

/** Returns whether an item is drawn at all, if the group around it is open. */
export function isDrawn(item: Item, { weights, reshapes }: Folding): boolean {
  if (item.kind === "weight") return weights;
  return reshapes || item.mark !== null || !isPassing(item);
}

/** Returns a link that begins at something drawn: what a node that is not drawn passes on. Null if there is nothing such. */
export function drawnLink(link: Link, folding: Folding): Link | null {
  if (!isDrawn(link.to, folding)) return null;
  let { from, value } = link;
  const via: Item[] = [];
  while (!isDrawn(from, folding)) {
    const [first] = from.operands;
    if (first === undefined || makesSizes(from)) return null;
    via.unshift(from);
    ({ from, value } = first);
  }
  return from === link.from ? link : { ...link, from, value, via };
}

/** Returns the innermost visible item that is, or contains, an item. */
export function visibleItem(item: Item, folding: Folding): Item {
  let found = item;
  for (let at = item.parent; at !== null; at = at.parent) if (!folding.open.has(at)) found = at;
  return found;
}

/** Returns the levels of what is visible, by their groups. */
export function levelsOf(root: Item, folding: Folding): ReadonlyMap<Item, Level> {
  const levels = new Map<Item, Level>();
  const add = (group: Item): void => {
    const members = group.children.filter((child) => isDrawn(child, folding));
    levels.set(group, { group, members, ports: [], edges: [] });
    for (const member of members) if (folding.open.has(member) && member.isGroup) add(member);
  };
  add(root);
  const router = new Router(levels, folding);
  for (const link of drawnLinks(root, folding)) router.route(link);
  return levels;
}

const DRAWN = new WeakMap<Item, Map<string, readonly Link[]>>();

/** Returns the links that are drawn, however groups are folded. */
function drawnLinks(root: Item, folding: Folding): readonly Link[] {
  const known = DRAWN.get(root) ?? new Map<string, readonly Link[]>();
  DRAWN.set(root, known);
  const key = `${folding.weights} ${folding.reshapes}`;
  const found = known.get(key) ?? [...within(root)].flatMap(({ users }) => users.flatMap((link) => drawnLink(link, folding) ?? []));
  known.set(key, found);
  return found;
}

/** A group has no more ports at a side than this: what comes from further members shares the last. */
const MOST_PORTS = 40;

/** Leads links through the levels. Links between the same ends become one edge. */
class Router {
  private readonly edges = new Map<string, Edge>();
  private readonly ports = new Map<string, Port>();
  private readonly numbers = new Map<Port, number>();

  constructor(
    private readonly levels: ReadonlyMap<Item, Level>,
    private readonly folding: Folding,
  ) {}

  route(link: Link): void {
    const [from, to] = [visibleItem(link.from, this.folding), visibleItem(link.to, this.folding)];
    if (from === to) return;
    const [aroundFrom, aroundTo] = [from.around, to.around];
    let common = 0;
    while (common < aroundFrom.length && common < aroundTo.length && aroundFrom[common] === aroundTo[common]) common += 1;
    if (aroundFrom[common] === to || aroundTo[common] === from) return; // between a node and what is inside it
    let end: End = { member: from, port: null };
    for (const group of aroundFrom.slice(common).reverse()) {
      const port = this.port(group, "out", end);
      this.edge(group, end, { member: null, port }, link);
      end = { member: group, port };
    }
    let around = aroundFrom[common - 1] ?? from;
    for (const group of aroundTo.slice(common)) {
      const port = this.port(group, "in", end);
      this.edge(around, end, { member: group, port }, link);
      end = { member: null, port };
      around = group;
    }
    this.edge(around, end, { member: to, port: null }, link);
  }

  private key({ member, port }: End): string {
    return `${member === null ? "" : member.id}:${port === null ? "" : (this.numbers.get(port) ?? "")}`;
  }

  private port(group: Item, side: "in" | "out", source: End): Port {
    const key = `${group.id} ${side} ${this.key(source)}`;
    const ports = this.levels.get(group)?.ports ?? [];
    const known = this.ports.get(key) ?? (ports.length < MOST_PORTS ? undefined : ports.filter((each) => each.side === side)[MOST_PORTS - 1]);
    if (known !== undefined) return known;
    const made: Port = { group, side };
    this.ports.set(key, made);
    this.numbers.set(made, this.numbers.size);
    ports.push(made);
    return made;
  }

  private edge(group: Item, from: End, to: End, link: Link): void {
    const key = `${this.key(from)} ${this.key(to)} ${group.id}`;
    const known = this.edges.get(key);
    if (known !== undefined) {
      known.links.push(link);
      return;
    }
    const made: Edge = { from, to, links: [link] };
    this.edges.set(key, made);
    this.levels.get(group)?.edges.push(made);
  }
}

/** The number of boxes up to which groups are open at the start, where nobody says what fits. */
const FIRST_BOXES = 30;
/** No drawing with more boxes is tried at the start. */
const MOST_BOXES = 150;
/** If less than this would be shown, wires may be cut, and members made fewer. */
const FEW_BOXES = 8;
/** If less than this would be shown, single groups are opened, too. */
const SPARSE_BOXES = 12;

export interface FirstOpen {
  /** In a difference: what changed, or holds something that did. */
  readonly changed?: ReadonlyMap<Item, unknown>;
  readonly fits?: (open: ReadonlySet<Item>, isRich: boolean) => boolean;
  /** Makes the members of a group fewer until it fits. Returns whether it does; otherwise they stay as they were. */
  readonly shorten?: (group: Item, fits: () => boolean) => boolean;
  /** Puts the first of those that are alike beside the others, if it fits. Returns whether it does; otherwise they stay as they were. */
  readonly exemplify?: (run: Item, fits: (first: Item) => boolean) => boolean;
  readonly isShown?: (item: Item) => boolean;
}

/** Returns the groups that are open at the start: as many levels as fit, from the outside, once there are enough boxes without cutting wires. In a difference, those that changed come first. */
export function firstOpen(root: Item, { changed, fits, shorten = () => false, exemplify = () => false, isShown = () => true }: FirstOpen = {}): Set<Item> {
  const isDifference = changed !== undefined && changed.size > 0;
  const count = (group: Item): number => group.children.filter((child) => child.kind !== "weight" && isShown(child)).length;
  const isPlain = (child: Item): boolean => child.isGroup && child.kind !== "run" && count(child) > 0;
  const isCrowd = ({ kind, nodes }: Item): boolean => kind === "run" && nodes > 0;
  const inside = (groups: Iterable<Item>, isWanted: (child: Item) => boolean): Item[] => [...groups].flatMap(({ children }) => children.filter(isWanted));
  const below = (groups: Iterable<Item>): Item[] => [...groups].flatMap(({ children }) => {
    const most = children.reduce((found, child) => (isCrowd(child) ? Math.max(found, child.nodes) : found), 0);
    return children.filter((child) => (isDifference ? child.isGroup && changed.has(child) : isPlain(child) && child.nodes >= most)); // what is small beside a box of all layers says less than these
  });
  const total = (open: ReadonlySet<Item>): number => [...open].reduce((sum, group) => sum + count(group) - 1, 1);
  let open = new Set<Item>([root]);
  const accepts = (tried: ReadonlySet<Item>): boolean => {
    const boxes = total(tried);
    if (fits === undefined || (isDifference && boxes > 2 * FIRST_BOXES)) return boxes <= FIRST_BOXES;
    return boxes <= MOST_BOXES && fits(tried, total(open) >= FEW_BOXES);
  };
  let pending = below([root]);
  while (pending.length > 0) {
    const deeper = new Set([...open, ...pending]);
    if (!accepts(deeper)) break;
    open = deeper;
    pending = below(pending);
  }
  const openSingly = (groups: readonly Item[]): void => {
    for (let pending = groups; pending.length > 0;) {
      const next = pending.slice(0, FIRST_BOXES).filter((group) => {
        const isSeen = (): boolean => accepts(new Set([...open, group]));
        if (!isSeen() && (fits === undefined || total(open) >= FEW_BOXES || !shorten(group, isSeen))) return false;
        open.add(group);
        return true;
      });
      pending = below(next);
    }
  };
  if (isDifference) openSingly(pending);
  else if (total(open) < SPARSE_BOXES) openSingly(pending.sort((a, b) => b.nodes - a.nodes));
  if (isDifference && total(open) < FEW_BOXES) openSingly(inside(open, (child) => isPlain(child) && !open.has(child)));
  if (isDifference || fits === undefined) return open;
  for (const run of inside(open, isCrowd)) {
    if (total(open) >= FEW_BOXES) break;
    exemplify(run, (first) => {
      const isSeen = (): boolean => accepts(new Set([...open, run, first]));
      if (!isSeen() && !shorten(first, isSeen)) return false;
      open.add(run).add(first);
      return true;
    });
  }
  const control = inside(open, (child) => (child.kind === "subgraph" || (child.kind === "node" && child.isGroup)) && !open.has(child));
  openSingly(control.sort((a, b) => b.nodes - a.nodes));
  return open;
}
