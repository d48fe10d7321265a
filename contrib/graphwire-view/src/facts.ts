/** Facts: what Python adds about the files, as JSON in the page. Each part is optional. */

import type { Renumbering } from "graphwire-js";

export interface Problem {
  readonly kind: string;
  readonly place: string;
  readonly problem: string;
  readonly remedy: string;
}

export interface Target {
  readonly target: string;
  readonly readable: boolean;
  readonly whyNot: string;
}

export interface MethodFacts {
  /** The schema of each operator. */
  readonly operators: ReadonlyMap<string, string>;
}

export interface WeightFacts {
  /** Where the elements are, such as `in the file`; empty if nobody says. */
  readonly where: string;
  readonly mean: number | null;
  readonly std: number | null;
  /** How many elements are infinite, or not a number. */
  readonly notFinite: number;
  readonly histogram: { readonly min: number; readonly max: number; readonly counts: readonly number[] } | null;
}

export interface FileFacts {
  readonly name: string;
  /** Null if nobody looked for problems. */
  readonly problems: readonly Problem[] | null;
  /** Null if nobody tried. */
  readonly targets: readonly Target[] | null;
  readonly methods: ReadonlyMap<string, MethodFacts>;
  readonly weights: ReadonlyMap<string, WeightFacts>;
  /** What `graphwire inspect --json` prints of the original file; null if the file itself is here. */
  readonly inspection: Bag | null;
}

export interface Overlay {
  readonly name: string;
  readonly file: number;
  readonly method: string | null;
  /** By the path of the node. */
  readonly values: ReadonlyMap<string, number>;
}

export interface WeightChange {
  readonly maxAbs: number | null;
  readonly cosine: number | null;
  /** The norm of the difference, as a share of that of the first weight. */
  readonly norm: number | null;
  readonly equal: boolean | null;
}

export interface Facts {
  readonly files: readonly FileFacts[];
  readonly overlays: readonly Overlay[];
  /** By method, then by the name of the weight; null if nobody compared. */
  readonly weightChanges: ReadonlyMap<string, ReadonlyMap<string, WeightChange>> | null;
  /** What was compared of weights, in words, by method. */
  readonly compared: ReadonlyMap<string, string>;
  /** Which layers have other numbers, by method. */
  readonly layers: ReadonlyMap<string, Renumbering>;
}

/** An object of JSON. Keys are looked up in a map, so that no key is special. */
export class Bag {
  private readonly held: ReadonlyMap<string, unknown>;

  constructor(value: unknown) {
    this.held = new Map(typeof value === "object" && value !== null ? Object.entries(value) : []);
  }

  has(key: string): boolean {
    return this.held.has(key);
  }

  text(key: string): string {
    const value = this.held.get(key);
    return typeof value === "string" ? value : "";
  }

  number(key: string): number | null {
    const value = this.held.get(key);
    return typeof value === "number" ? value : null;
  }

  truth(key: string): boolean | null {
    const value = this.held.get(key);
    return typeof value === "boolean" ? value : null;
  }

  bag(key: string): Bag {
    return new Bag(this.held.get(key));
  }

  list(key: string): readonly unknown[] {
    const value = this.held.get(key);
    return Array.isArray(value) ? (value as readonly unknown[]) : [];
  }

  map<T>(read: (value: Bag) => T): Map<string, T> {
    return new Map(Array.from(this.held, ([key, value]) => [key, read(new Bag(value))] as const));
  }

  numbers(): Map<string, number> {
    return new Map([...this.held].filter((entry): entry is [string, number] => typeof entry[1] === "number"));
  }

  texts(): Map<string, string> {
    return new Map([...this.held].filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  }
}

/** Reads the facts of a page; a page without any has none. */
export function readFacts(json: string | null): Facts {
  const facts = new Bag(json === null ? null : JSON.parse(json));
  return {
    files: facts.list("files").map((each) => fileFacts(new Bag(each))),
    overlays: facts.list("overlays").map((each) => overlayOf(new Bag(each))),
    weightChanges: facts.has("weight_changes") ? facts.bag("weight_changes").map((method) => method.map(weightChange)) : null,
    compared: facts.bag("compared").texts(),
    layers: facts.bag("layers").map((each) => ({ numbers: each.bag("0").texts(), added: each.list("1").map(String) })),
  };
}

/** The facts of a file of which nobody told any. */
export function noFacts(name: string): FileFacts {
  return fileFacts(new Bag({ name }));
}

function fileFacts(bag: Bag): FileFacts {
  return {
    name: bag.text("name"),
    problems: bag.has("problems") ? bag.list("problems").map((each) => problemOf(new Bag(each))) : null,
    targets: bag.has("targets") ? bag.list("targets").map((each) => targetOf(new Bag(each))) : null,
    methods: bag.bag("methods").map(methodFacts),
    weights: bag.bag("weights").map(weightFacts),
    inspection: bag.has("inspection") ? bag.bag("inspection") : null,
  };
}

function problemOf(bag: Bag): Problem {
  return { kind: bag.text("kind"), place: bag.text("place"), problem: bag.text("problem"), remedy: bag.text("remedy") };
}

function targetOf(bag: Bag): Target {
  return { target: bag.text("target"), readable: bag.truth("readable") ?? false, whyNot: bag.text("why_not") };
}

function methodFacts(bag: Bag): MethodFacts {
  return { operators: bag.bag("operators").texts() };
}

function weightFacts(bag: Bag): WeightFacts {
  const histogram = bag.bag("histogram");
  const [min, max] = [histogram.number("min"), histogram.number("max")];
  const counts = histogram.list("counts").filter((count) => typeof count === "number");
  return {
    where: bag.text("where"),
    mean: bag.number("mean"),
    std: bag.number("std"),
    notFinite: bag.number("not_finite") ?? 0,
    histogram: min === null || max === null || counts.length === 0 ? null : { min, max, counts },
  };
}

function overlayOf(bag: Bag): Overlay {
  return {
    name: bag.text("name"),
    file: bag.number("file") ?? 0,
    method: bag.text("method") === "" ? null : bag.text("method"),
    values: bag.bag("values").numbers(),
  };
}

function weightChange(bag: Bag): WeightChange {
  return { maxAbs: bag.number("max_abs"), cosine: bag.number("cosine"), norm: bag.number("norm"), equal: bag.truth("equal") };
}
