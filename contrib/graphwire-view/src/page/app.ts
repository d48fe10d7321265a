/** The page with a program: what is open, selected and searched for, and what follows from that. */

import { captionOf } from "../layout/boxes.js";
import { firstFolding } from "../layout/first.js";
import { sceneOf, type Scene } from "../layout/scene.js";
import { clipped } from "../layout/text.js";
import type { WeightChange } from "../facts.js";
import { categoryOf, isPassing } from "../model/categories.js";
import type { Difference } from "../model/difference.js";
import { itemOfPath, reached, within, type Item } from "../model/items.js";
import { isDrawn, visibleItem, type Folding } from "../model/levels.js";
import { Index } from "../model/search.js";
import type { Side, Shown } from "../model/shown.js";
import { colourAt, HEAT, measuresOf, scaleOf, type Measure } from "../model/overlay.js";
import { plural } from "../model/values.js";
import { Drawing, type Decoration } from "./drawing.js";
import type { Context } from "./context.js";
import { isNarrow, remember, remembered, shortened, showPlace, shownText } from "./elements.js";
import { categoryLegend } from "./signs.js";
import { listenToKeys } from "./keys.js";
import { linkOf, readLink, showStep, stepShown } from "./links.js";
import { differenceSentence } from "./panels/changes.js";
import { detailsPanel } from "./panels/details.js";
import { panelsOf, type Panel } from "./panels/all.js";
import { outlineOf } from "./outline.js";
import { legendOf, type Chooser } from "./panels/numbers.js";
import { pictureOf } from "./picture.js";
import { reweightedOf, weightBadge } from "./reweighted.js";
import { Tabs } from "./tabs.js";
import { Trail } from "./trail.js";

/** The parts of the page that an app fills. */
export interface Parts {
  readonly drawing: SVGSVGElement;
  readonly trail: HTMLElement;
  readonly map: SVGSVGElement;
  readonly view: HTMLElement;
  readonly tabs: HTMLElement;
  readonly panel: HTMLElement;
  readonly details: HTMLElement;
  readonly outline: HTMLElement;
  readonly search: HTMLInputElement;
  readonly found: HTMLElement;
  readonly legend: HTMLElement;
  readonly sentence: HTMLElement;
  readonly announcer: HTMLElement;
  readonly paper: HTMLElement;
}

/** A program of so few nodes is shown with those that only pass a value on. */
const FEW_NODES = 12;
/** The milliseconds of a part of a search. */
const SLICE = 5;

export class App implements Chooser {
  readonly side: Side;
  readonly before: Side | null;
  readonly difference: Difference | null;
  readonly weightChanges: ReadonlyMap<string, WeightChange> | null;
  readonly compared: string;
  readonly reweighted: Context["reweighted"];
  measures: readonly Measure[];
  readonly drawing: Drawing;
  /** How many nodes only pass on what they get. */
  readonly passing: number;
  private folding: Folding;
  private scene: Scene;
  private selected: Item | null = null;
  private measure: Measure | null = null;
  private hits: readonly Item[] = [];
  private hit = -1;
  private searching: ReturnType<typeof setTimeout> | undefined;
  private shownQuery = "";
  /** The step to take in what a search finds that is not done. */
  private waiting = 0;
  private outlining: ReturnType<typeof setTimeout> | undefined;
  private readonly index: Index;
  private readonly panels: readonly Panel[];
  private readonly tabs: Tabs;
  private readonly trail: Trail;

  constructor(
    readonly shown: Shown,
    readonly parts: Parts,
  ) {
    const { side, difference } = shown;
    this.side = side;
    this.before = shown.before;
    this.difference = difference;
    this.weightChanges = shown.facts.weightChanges === null ? null : (shown.facts.weightChanges.get(side.name) ?? new Map<string, WeightChange>());
    this.compared = shown.facts.compared.get(side.name) ?? "";
    parts.sentence.textContent = difference === null ? "" : shownText(differenceSentence(this, difference)); // takes its place before something is drawn

    this.index = new Index(side.items, (item) => this.sideOf(item).program.graph_module);
    this.drawing = new Drawing(parts.drawing, parts.map, { select: (item) => { this.select(item); }, toggle: (item) => { this.toggle(item); }, moved: () => { this.trail.move(); } });
    this.trail = new Trail(parts.trail, this.drawing.camera, (item) => { this.reveal(item); });
    this.passing = side.items.all.filter(isPassing).length;
    const choice = remembered("reshapes");
    this.folding = firstFolding(side.items, difference, choice === null ? side.items.root.nodes <= FEW_NODES : choice === "true", this.drawing.camera);
    this.scene = sceneOf(side.items.root, this.folding, this.drawing.camera.readable.width);
    this.reweighted = difference === null ? new Map<Item, never>() : reweightedOf(difference, this.weightChanges); // of the runs that are made with the first folding, too
    this.measures = measuresOf(shown);
    if (difference !== null && difference.tallies.size === 0) this.measure = this.measures.find(({ name }) => name === HEAT) ?? null;
    this.measure ??= this.measures.find(({ source }) => source === "") ?? null; // numbers that somebody gave
    this.panels = panelsOf(this);
    this.tabs = new Tabs(parts.tabs, parts.panel, this.panels, (name) => { showStep(name, this.selected !== null); });
    listenToKeys(this);
    this.trail.show(this.scene);
    this.drawing.show(this.scene, this.decoration());
    this.showToggles();
    this.drawing.camera.fit(this.scene);
    const changed = this.scene.boxes.find(({ item, open }) => !open && item.mark !== null);
    if (changed !== undefined) this.drawing.camera.include(changed);
    this.followLink();
  }

  get root(): Item {
    return this.side.items.root;
  }

  sideOf(item: Item): Side {
    return this.before !== null && item.scope.side === 0 ? this.before : this.side;
  }

  get current(): Item | null {
    return this.selected;
  }

  get shownScene(): Scene {
    return this.scene;
  }

  isOpen(item: Item): boolean {
    return this.folding.open.has(item);
  }

  // ------------------------------------------------------------------------------------------------------- what happens

  select(item: Item | null): void {
    this.setSelected(item);
    this.drawing.decorate(this.decoration());
  }

  private setSelected(item: Item | null): void {
    this.selected = item;
    this.showDetails();
    if (item !== null) this.announce(`${item.kind} ${item.label}`);
    showStep(this.tabs.name, item !== null, item === null || item.kind === "program" ? "#" : linkOf(this.side.name, item));
  }

  toggle(item: Item): void {
    const open = new Set(this.folding.open);
    if (open.has(item)) open.delete(item);
    else open.add(item);
    this.fold({ ...this.folding, open }, item);
    this.announce(`${item.title} ${open.has(item) ? "unfolded" : "folded"}`);
  }

  /** Unfolds everything in a group, or folds it. */
  toggleAll(open: boolean): void {
    const groups = this.side.items.all.filter((item) => item.isGroup);
    const chosen = open ? new Set(groups) : new Set([this.root]);
    this.fold({ ...this.folding, open: chosen }, null);
  }

  get chosen(): Measure | null {
    return this.measure;
  }

  /** Colours the drawing by some numbers. */
  choose(measure: Measure | null): void {
    this.measure = measure;
    this.drawing.decorate(this.decoration());
    this.tabs.refresh();
  }

  assume(name: string, value: number): void {
    for (const side of [this.side, ...(this.before === null ? [] : [this.before])]) side.work.assume(name, value);
    this.measures = measuresOf(this.shown);
    this.measure = this.measures.find((measure) => measure.name === this.measure?.name) ?? null;
    this.drawing.decorate(this.decoration());
    this.tabs.refresh();
    this.showDetails();
  }

  /** Returns a picture of the whole drawing as it is folded. */
  picture(): SVGSVGElement {
    const { width, height } = this.scene;
    return pictureOf({ width, height, everything: () => this.drawing.everything() }, this.parts.drawing);
  }

  showReshapes(reshapes: boolean): void {
    remember("reshapes", String(reshapes));
    this.fold({ ...this.folding, reshapes }, this.selected);
  }

  get showsReshapes(): boolean {
    return this.folding.reshapes;
  }

  showWeights(weights: boolean): void {
    this.fold({ ...this.folding, weights }, this.selected);
  }

  get showsWeights(): boolean {
    return this.folding.weights;
  }

  /** Returns what is marked in the drawing for an item: for a weight without a box the node that uses it. */
  private standIn(item: Item): Item {
    let found = item;
    if (item.kind === "weight" && !this.folding.weights) {
      const users = [...reached(item, isPassing)].filter(({ kind }) => kind === "node");
      found = users.find((user) => !isPassing(user)) ?? users[0] ?? item;
    }
    while (found.shownAs !== null) found = found.shownAs;
    return found;
  }

  /** Shows an item in the drawing: unfolds what is around it, and selects it. What is drawn of weights stays. */
  reveal(wanted: Item): void {
    let item = wanted;
    while (item.shownAs !== null) item = item.shownAs;
    const marked = this.standIn(item);
    const open = new Set([...this.folding.open, ...marked.around]);
    const isHidden = marked.kind === "node" && !isDrawn(marked, this.folding);
    if (open.size !== this.folding.open.size || isHidden) this.fold({ ...this.folding, open, reshapes: this.folding.reshapes || isHidden }, null, false);
    showPlace("drawing");
    this.setSelected(item);
    const box = this.scene.boxOf.get(marked);
    if (box !== undefined) this.drawing.camera.center(box);
    this.drawing.decorate(this.decoration());
  }

  search(query: string): void {
    if (this.parts.search.value !== query) this.parts.search.value = query;
    clearTimeout(this.searching);
    this.hits = [];
    this.hit = -1;
    this.continueSearch(query, this.index.search(query));
  }

  /** Searches for some milliseconds; the rest follows later, so that typing never waits. */
  private continueSearch(query: string, search: Generator<undefined, readonly Item[]>): void {
    this.searching = undefined;
    const end = performance.now() + SLICE;
    for (;;) {
      const { done, value } = search.next();
      if (done === true) {
        this.showHits(query, value);
        return;
      }
      if (performance.now() > end) break;
    }
    this.parts.found.textContent = "…";
    this.searching = setTimeout(() => { this.continueSearch(query, search); }, 0);
  }

  private showHits(query: string, hits: readonly Item[]): void {
    this.hits = hits;
    this.parts.found.textContent = query.trim() === "" ? "" : this.hits.length === 0 ? "nothing found" : plural(this.hits.length, "hit");
    this.drawing.decorate(this.decoration());
    this.tabs.showFound(this.hits, query, this);
    if (isNarrow() && query !== this.shownQuery) showPlace(query.trim() === "" ? "drawing" : "side"); // where what was found is listed
    this.shownQuery = query;
    const { waiting } = this;
    this.waiting = 0;
    this.nextHit(waiting);
  }

  /** Goes to the next thing found, or the previous one. */
  nextHit(step: number): void {
    if (this.searching !== undefined) this.waiting = step;
    if (this.hits.length === 0 || step === 0) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    const item = this.hits[this.hit];
    if (item === undefined) return;
    this.reveal(item);
    this.tabs.showHit(item);
    this.parts.found.textContent = `${this.hit + 1} of ${plural(this.hits.length, "hit")}`;
  }

  /** Goes to the next thing that differs, or the previous one, in the order of the program. */
  nextChange(step: number): void {
    const { difference } = this;
    if (difference === null) return;
    const weights = difference.weights.map((weight) => this.standIn(weight));
    const found = [...new Set([...this.side.items.all.filter((item) => item.was !== "" || item.isMoved || (item.mark !== null && !item.isDerived && ["node", "input", "output"].includes(item.kind))), ...weights])].filter((item) => item !== this.root);
    const order = new Map([...within(this.root)].map((item, index) => [item, index]));
    found.sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
    const at = this.selected === null ? -1 : (order.get(this.selected) ?? -1);
    const later = step > 0 ? found.find((item) => (order.get(item) ?? 0) > at) : found.findLast((item) => (order.get(item) ?? 0) < at);
    const item = later ?? (step > 0 ? found[0] : found.at(-1));
    if (item === undefined) return;
    this.reveal(item);
    this.announce(`Difference ${found.indexOf(item) + 1} of ${found.length}: ${item.label}`);
  }

  followLink(): void {
    const query = new URLSearchParams(location.hash.slice(1)).get("search");
    if (query !== null && query !== this.parts.search.value) this.search(query);
    const link = readLink(location.hash);
    this.tabs.open(stepShown()?.tab ?? "");
    showStep(this.tabs.name, stepShown()?.isOpen ?? link !== null);
    if (link === null) {
      if (this.selected !== null) this.select(null);
      return;
    }
    const item = itemOfPath(this.side.items, link.node);
    if (item === null) this.announce(`There is no node ${link.node}`);
    else if (item !== this.selected) this.reveal(item);
  }

  fit(): void {
    this.drawing.camera.fit(this.scene, 0.02);
    this.drawing.refresh();
  }

  announce(text: string): void {
    this.parts.announcer.textContent = shownText(text);
  }

  /** Fills what is printed: the overview, and what is open beside the drawing. */
  print(): void {
    document.body.classList.toggle("wide", this.scene.width > this.scene.height);
    const isPrinted = ({ name }: Panel): boolean => name === "changes" || name === "program" || name === this.tabs.shown || (name === "numbers" && this.measure !== null);
    const chosen = this.selected === null ? [] : [shortened(detailsPanel(this, this.selected))];
    this.parts.paper.replaceChildren(this.picture(), ...this.panels.filter(isPrinted).map(({ title, make }) => {
      const made = shortened(make());
      const head = document.createElement("h2");
      head.textContent = title;
      made.prepend(head);
      return made;
    }), ...this.tabs.found.map(shortened), ...chosen);
  }

  // ------------------------------------------------------------------------------------------------------- what follows

  /** Changes what is visible. `still` stays where it is on the screen. */
  private fold(folding: Folding, still: Item | null, keep = true): void {
    const before = still === null ? undefined : this.scene.boxOf.get(still);
    const { camera } = this.drawing;
    const wasFitted = camera.isFitted;
    this.folding = folding;
    this.scene = sceneOf(this.root, folding, camera.readable.width);
    const after = still === null ? undefined : this.scene.boxOf.get(still);
    if (before !== undefined && after !== undefined) {
      camera.x += (before.x + Math.min(before.width, after.width) / 2 - after.x - Math.min(before.width, after.width) / 2) * camera.scale;
      camera.y += (before.y - after.y) * camera.scale;
    }
    this.trail.show(this.scene);
    this.drawing.show(this.scene, this.decoration());
    if ((before === undefined && keep) || (wasFitted && camera.holds(this.scene))) camera.fit(this.scene);
    else if (after !== undefined) camera.include(after, wasFitted ? "always" : "unseen");
    this.tabs.refresh();
    this.showDetails();
    this.showToggles();
  }

  /** Shows in the buttons above the drawing, and in the outline, what is drawn. */
  private showToggles(): void {
    this.outlineSoon();
    const counts = { weights: this.side.weights.length, reshapes: this.passing };
    for (const button of this.parts.view.querySelectorAll<HTMLElement>("[data-toggle]")) {
      const name = button.dataset["toggle"] === "weights" ? "weights" : "reshapes";
      button.setAttribute("aria-pressed", String(this.folding[name]));
      button.hidden = counts[name] === 0;
    }
  }

  /** Writes what is drawn as text, for readers of the screen; later, since the drawing does not wait for it. */
  private outlineSoon(): void {
    clearTimeout(this.outlining);
    this.outlining = setTimeout(() => { this.parts.outline.replaceChildren(outlineOf(this.root, this.scene)); }, 200);
  }

  private decoration(): Decoration {
    const found = new Map<Item, number>();
    for (const item of this.hits) {
      const seen = visibleItem(item, this.folding);
      found.set(seen, (found.get(seen) ?? 0) + 1);
    }
    return { selected: this.selected === null ? null : this.standIn(this.selected), found, colours: this.colours(), weights: this.weightBadges() };
  }

  /** Returns the colours of the boxes in sight, and shows their legend. */
  private colours(): Decoration["colours"] {
    const { measure } = this;
    const { legend } = this.parts;
    if (measure === null) {
      const drawn = new Set(this.difference === null ? this.scene.boxes.flatMap(({ item, open }) => (open || item.kind !== "node" || isPassing(item) ? [] : [categoryOf(item)])) : []);
      legend.hidden = drawn.size < 2;
      legend.replaceChildren(categoryLegend(drawn));
      return new Map();
    }
    legend.hidden = false;
    const { of } = measure.numbers();
    const seen = this.scene.boxes.filter(({ item, open }) => !open && of.has(item)).map(({ item }) => [item, of.get(item) ?? 0] as const);
    const scale = scaleOf(seen.map(([, value]) => value), measure.isChange);
    legend.replaceChildren(legendOf(measure, scale));
    return new Map(seen.map(([item, value]) => [item, { ...colourAt(scale.share(value), measure.isChange), text: measure.text(value) }]));
  }

  /** Returns what the boxes in sight say about changed weights: closed ones about all that are below them. */
  private weightBadges(): Decoration["weights"] {
    if (this.reweighted.size === 0) return new Map();
    return new Map(this.scene.boxes.flatMap(({ item, open }) => {
      const known = open || this.measure?.name !== HEAT ? this.reweighted.get(item) : undefined; // otherwise the colour says it
      return known === undefined ? [] : [[item, weightBadge(known)] as const];
    }));
  }

  /** Shows the map of the drawing, or hides it. */
  toggleMap(): void {
    this.announce(this.drawing.map.toggle() ? "The map is shown where not all is seen" : "The map is hidden");
  }

  private showDetails(): void {
    const { details } = this.parts;
    const { selected } = this;
    details.hidden = selected === null;
    details.replaceChildren(...(selected === null ? [] : [detailsPanel(this, selected)]));
    const button = document.querySelector("[data-at=details]"); // on a phone, what says that there are some
    if (button !== null) button.textContent = selected === null ? "Details" : `Details: ${clipped(captionOf(selected).title, 24)}`;
  }
}
