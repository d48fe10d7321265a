/**
 * Matching of the elements of two sequences by keys ("patience" diff).
 *
 * Every element has several keys, the most specific first. Keys that occur once in each sequence are anchors: the longest run of
 * anchors with the same order on both sides is matched. The parts between anchors are matched in the same way, then by the next key.
 */

/** The largest number of pairs for which a part is compared thoroughly, in quadratic time. */
const QUICK = 10_000;

export type Pair = readonly [a: number, b: number];
type Keys = readonly string[];

interface Gap {
  readonly startA: number;
  readonly stopA: number;
  readonly startB: number;
  readonly stopB: number;
  readonly level: number;
}

/** Returns the pairs of matching indices, sorted by the first. Elements that moved are matched by the first `movedLevels` keys. */
export function match(a: readonly Keys[], b: readonly Keys[], movedLevels = 0): Pair[] {
  const levels = a[0]?.length ?? 0;
  const pairs: Pair[] = [];
  const pending: Gap[] = [{ startA: 0, stopA: a.length, startB: 0, stopB: b.length, level: 0 }];
  for (let given = pending.pop(); given !== undefined; given = pending.pop()) {
    const gap = trimmed(given, a, b, pairs);
    const { level } = gap;
    if (gap.startA === gap.stopA || gap.startB === gap.stopB || level >= levels) continue;
    const found = anchors(gap, a, b);
    if (found.length === 0) {
      if (level + 1 < levels) pending.push({ ...gap, level: level + 1 });
      else pairs.push(...inTurn(gap, a, b));
      continue;
    }
    pairs.push(...found);
    let [lastA, lastB] = [gap.startA, gap.startB];
    for (const [atA, atB] of [...found, [gap.stopA, gap.stopB] as const]) {
      pending.push({ startA: lastA, stopA: atA, startB: lastB, stopB: atB, level });
      [lastA, lastB] = [atA + 1, atB + 1];
    }
  }
  matchMoved(a, b, pairs, movedLevels);
  return pairs.sort(([one], [other]) => one - other);
}

/** Matches equal elements at both ends of a gap, and returns the rest of it. */
function trimmed(gap: Gap, a: readonly Keys[], b: readonly Keys[], pairs: Pair[]): Gap {
  let { startA, stopA, startB, stopB } = gap;
  const { level } = gap;
  const same = (one: number, other: number): boolean => a[one]?.[level] === b[other]?.[level];
  while (startA < stopA && startB < stopB && same(startA, startB)) pairs.push([startA++, startB++]);
  while (startA < stopA && startB < stopB && same(stopA - 1, stopB - 1)) pairs.push([--stopA, --stopB]);
  return { startA, stopA, startB, stopB, level };
}

function range(start: number, stop: number): number[] {
  return Array.from({ length: stop - start }, (_, index) => start + index);
}

/** Returns the longest run of keys that occur once on each side, in the same order on both. */
function anchors({ startA, stopA, startB, stopB, level }: Gap, a: readonly Keys[], b: readonly Keys[]): Pair[] {
  const places = (side: readonly Keys[], start: number, stop: number): Map<string, number[]> => {
    const found = new Map<string, number[]>();
    for (const index of range(start, stop)) {
      const key = side[index]?.[level] ?? "";
      const known = found.get(key);
      if (known === undefined) found.set(key, [index]);
      else known.push(index);
    }
    return found;
  };
  const inB = places(b, startB, stopB);
  const alone: Pair[] = [];
  for (const [key, [index, ...others]] of places(a, startA, stopA)) {
    const [other, ...more] = inB.get(key) ?? [];
    if (index !== undefined && other !== undefined && others.length === 0 && more.length === 0) alone.push([index, other]);
  }
  return increasingRun(alone.map(([, atB]) => atB)).map((place) => alone[place] as Pair);
}

/** Returns the positions of a longest increasing subsequence of distinct numbers. */
export function increasingRun(values: readonly number[]): number[] {
  const ends: number[] = [];
  const places: number[] = [];
  const before: number[] = [];
  values.forEach((value, place) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle] ?? 0) < value) low = middle + 1;
      else high = middle;
    }
    before.push(low > 0 ? (places[low - 1] ?? -1) : -1);
    ends[low] = value;
    places[low] = place;
  });
  const run: number[] = [];
  for (let place = places.at(-1) ?? -1; place >= 0; place = before[place] ?? -1) run.push(place);
  return run.reverse();
}

/** Matches repeated keys: by longest common runs in small gaps, otherwise each with the next equal key after the last match. */
function inTurn(gap: Gap, a: readonly Keys[], b: readonly Keys[]): Pair[] {
  const { startA, stopA, startB, stopB, level } = gap;
  if ((stopA - startA) * (stopB - startB) <= QUICK) {
    const keysA = range(startA, stopA).map((index) => a[index]?.[level] ?? "");
    const keysB = range(startB, stopB).map((index) => b[index]?.[level] ?? "");
    return commonRuns(keysA, keysB).map(([one, other]) => [startA + one, startB + other] as const);
  }
  const places = new Map<string, number[]>();
  for (const index of range(startB, stopB)) {
    const key = b[index]?.[level] ?? "";
    places.set(key, [...(places.get(key) ?? []), index]);
  }
  const pairs: Pair[] = [];
  let reached = startB;
  for (const index of range(startA, stopA)) {
    const waiting = places.get(a[index]?.[level] ?? "") ?? [];
    while (waiting.length > 0 && (waiting[0] ?? 0) < reached) waiting.shift();
    const next = waiting.shift();
    if (next === undefined) continue;
    reached = next + 1;
    pairs.push([index, next]);
  }
  return pairs;
}

/** Returns the pairs of the longest common run, and in the same way of the parts before and after it. */
function commonRuns(a: readonly string[], b: readonly string[]): Pair[] {
  const places = new Map<string, number[]>();
  b.forEach((key, index) => {
    places.set(key, [...(places.get(key) ?? []), index]);
  });
  const pairs: Pair[] = [];
  const pending: (readonly [number, number, number, number])[] = [[0, a.length, 0, b.length]];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    const [startA, stopA, startB, stopB] = part;
    let best = { a: startA, b: startB, size: 0 };
    let lengths = new Map<number, number>();
    for (let index = startA; index < stopA; index++) {
      const next = new Map<number, number>();
      for (const other of places.get(a[index] ?? "") ?? []) {
        if (other < startB || other >= stopB) continue;
        const size = (lengths.get(other - 1) ?? 0) + 1;
        next.set(other, size);
        if (size > best.size) best = { a: index - size + 1, b: other - size + 1, size };
      }
      lengths = next;
    }
    if (best.size === 0) continue;
    for (let step = 0; step < best.size; step++) pairs.push([best.a + step, best.b + step]);
    pending.push([startA, best.a, startB, best.b], [best.a + best.size, stopA, best.b + best.size, stopB]);
  }
  return pairs.sort(([one], [other]) => one - other);
}

/** Matches the remaining elements of both sides regardless of position. */
function matchMoved(a: readonly Keys[], b: readonly Keys[], pairs: Pair[], levels: number): void {
  for (let level = 0; level < levels; level++) {
    const matchedA = new Set(pairs.map(([one]) => one));
    const matchedB = new Set(pairs.map(([, other]) => other));
    const places = new Map<string, number[]>();
    b.forEach((keys, index) => {
      const key = keys[level] ?? "";
      if (!matchedB.has(index)) places.set(key, [...(places.get(key) ?? []), index]);
    });
    a.forEach((keys, index) => {
      const other = matchedA.has(index) ? undefined : places.get(keys[level] ?? "")?.shift();
      if (other !== undefined) pairs.push([index, other]);
    });
  }
}
