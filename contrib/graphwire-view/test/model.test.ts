/** What is shown, without a browser: layouts, levels, searches, sums, mathematics. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { bufferSource, openFile } from "graphwire-js";

import { noFacts, readFacts } from "../src/facts.js";
import { captionOf, titleOf } from "../src/layout/boxes.js";
import { inColumns, type Arrange } from "../src/layout/columns.js";
import { layeredLayout } from "../src/layout/layered.js";
import { inOrder, meets, type Arrangement, type Connection, type Point, type Sized } from "../src/layout/places.js";
import { withLoose } from "../src/layout/loose.js";
import { firstFolding } from "../src/layout/first.js";
import { curvesOf, pointAt, withGaps } from "../src/layout/curves.js";
import { labelBox, passedBox, pointsOn, titleBox } from "../src/layout/labels.js";
import { sceneOf } from "../src/layout/scene.js";
import { clipped, visibleText } from "../src/layout/text.js";
import { categoryOf, isPassing } from "../src/model/categories.js";
import { DEFAULTS, defaultsOf, schemaDefaults } from "../src/model/defaults.js";
import { framesOf, type Frame, type FrameStep } from "../src/model/frames.js";
import { within, type Item } from "../src/model/items.js";
import { overLayers } from "../src/model/layers.js";
import { firstOpen, levelsOf } from "../src/model/levels.js";
import { guardText, mathematics } from "../src/model/mathematics.js";
import { colourAt, measuresOf, numbersOf } from "../src/model/overlay.js";
import { shorten } from "../src/model/runs.js";
import { Index } from "../src/model/search.js";
import { shownOf, type Shown } from "../src/model/shown.js";
import { bytesText, scaledText, valueFacts } from "../src/model/values.js";
import { shownText, withoutIsolates } from "../src/page/elements.js";
import { readLink, linkOf } from "../src/page/links.js";
import { made } from "./browser.js";

async function shown(names: readonly string[], facts: unknown = null): Promise<Shown> {
  const files = await Promise.all(names.map(async (name) => {
    const bytes = readFileSync(made(`programs/${name}`));
    return { file: await openFile(bufferSource(new Uint8Array(bytes))), facts: noFacts(name), size: bytes.length };
  }));
  return shownOf({ files, facts: readFacts(JSON.stringify(facts)) }, null);
}

function groups(root: Item): Set<Item> {
  return new Set([...within(root)].filter((item) => item.isGroup));
}

function boxes(count: number): Sized[] {
  return Array.from({ length: count }, (_, index) => ({ width: 40 + (index % 7) * 10, height: 20 + (index % 3) * 12, rank: null }));
}

function overlaps(sizes: readonly Sized[], { places }: Arrangement): number {
  let found = 0;
  const rows = places.map(({ x, y }, index) => ({ x, y, right: x + (sizes[index]?.width ?? 0), bottom: y + (sizes[index]?.height ?? 0) })).sort((a, b) => a.y - b.y);
  rows.forEach((row, index) => {
    for (const other of rows.slice(index + 1, index + 200)) if (other.y < row.bottom && other.x < row.right && row.x < other.right) found += 1;
  });
  return found;
}

/** Programs whose layouts differ most. */
const PROGRAMS = ["twice", "transformer", "work", "loop", "convnet", "cond", "deep", "dense", "given", "calls", "casts", "guarded"].map((name) => `${name}.pt2`).concat("transformer.pt2 changed_transformer.pt2", "deep.pt2 changed_deep.pt2");

/** A screen of 1440 × 900, less what is beside and above the drawing. */
const SCREEN = { width: 1080, height: 750 };

/** Returns what lays out some of the boxes. */
function arranging(layout: (sizes: readonly Sized[], connections: readonly Connection[]) => Arrangement, sizes: readonly Sized[], connections: readonly Connection[]): Arrange {
  return (own, edges) => layout(own.map((index) => sizes[index] as Sized), edges.map((edge) => ({ from: own.indexOf(connections[edge]?.from ?? 0), to: own.indexOf(connections[edge]?.to ?? 0) })));
}

const DIAMONDS: Connection[] = Array.from({ length: 30 }, (_, index) => index * 3).flatMap((at) => [
  { from: at, to: at + 1 }, { from: at, to: at + 2 }, { from: at + 1, to: at + 3 }, { from: at + 2, to: at + 3 },
]);

test("the layout puts no box on another, and users below", () => {
  const sizes = boxes(91);
  const found = layeredLayout(sizes, DIAMONDS);
  assert.equal(overlaps(sizes, found), 0);
  for (const { from, to } of DIAMONDS) assert.ok((found.places[from]?.y ?? 0) < (found.places[to]?.y ?? 0));
  assert.ok(found.places.every(({ x, y }) => x >= -0.5 && y >= -0.5 && x <= found.width && y <= found.height));
});

test("boxes stand in the order of the ports of a frame that they lead to, or come from", () => {
  for (let count = 2; count < 12; count++) {
    for (const turn of [1, 5, 7]) {
      const ports = Array.from({ length: count }, (_, index) => 60 * ((index * turn) % 13) - 300);
      const sizes: Sized[] = [...boxes(count), { width: 800, height: 60, rank: null }];
      for (const connections of [ports.map((endsAt, from): Connection => ({ from, to: count, endsAt })), ports.map((startsAt, to): Connection => ({ from: count, to, startsAt }))]) {
        const { places } = layeredLayout(sizes, connections);
        const order = [...ports.keys()].sort((a, b) => (places[a]?.x ?? 0) - (places[b]?.x ?? 0));
        assert.deepEqual(order.map((index) => ports[index]), [...ports].sort((a, b) => a - b));
      }
    }
  }
});

test("the layout keeps ports at the borders, and bears cycles", () => {
  const sizes: Sized[] = [...boxes(4), { width: 10, height: 1, rank: "first" }, { width: 10, height: 1, rank: "last" }];
  const connections = [{ from: 4, to: 3 }, { from: 0, to: 1 }, { from: 1, to: 2 }, { from: 2, to: 0 }, { from: 0, to: 5 }, { from: 2, to: 3 }];
  const { places } = layeredLayout(sizes, connections);
  const middles = places.map(({ y }, index) => y + (sizes[index]?.height ?? 0) / 2);
  assert.equal(middles[4], Math.min(...middles));
  assert.equal(middles[5], Math.max(...middles));
});

test("the layout of any size ends, also of one box with many users", () => {
  const sizes = boxes(20_000);
  const chain = Array.from({ length: 19_999 }, (_, index) => ({ from: index, to: index + 1 }));
  const fan = Array.from({ length: 6000 }, (_, index) => ({ from: 0, to: 3 * index + 2 }));
  const found = layeredLayout(sizes, [...chain, ...fan]);
  assert.equal(overlaps(sizes, found), 0);
  assert.ok((found.cut?.size ?? 0) > 5000, "most of the long edges are cut");
});

test("every box is inside its group, and every wire ends at boxes", async () => {
  for (const name of ["transformer.pt2", "cond.pt2", "loop.pt2", "chain.pt2"]) {
    const { side } = await shown([name]);
    const { root } = side.items;
    for (const open of [firstOpen(root), groups(root), new Set([root])]) {
      for (const weights of [false, true]) {
        const scene = sceneOf(root, { open, weights, reshapes: true, screen: weights ? { width: 400, height: 300 } : undefined });
        for (const box of scene.boxes) {
          const around = box.item.parent === null ? undefined : scene.boxOf.get(box.item.parent);
          if (around === undefined) continue;
          assert.ok(box.x >= around.x && box.y >= around.y, `${name}: ${box.item.path}`);
          assert.ok(box.x + box.width <= around.x + around.width + 0.5 && box.y + box.height <= around.y + around.height + 0.5, `${name}: ${box.item.path}`);
        }
        for (const { points } of scene.wires) assert.ok(points.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)));
        const shownNodes = scene.boxes.filter(({ item, open: isOpen }) => !isOpen && item.kind === "node").length;
        const folded = scene.boxes.filter(({ item, open: isOpen }) => !isOpen && item.kind !== "node").reduce((sum, { item }) => sum + item.nodes, 0);
        const holders = scene.boxes.filter(({ item, open: isOpen }) => isOpen && item.kind === "node").length;
        const inside = scene.boxes.filter(({ item, open: isOpen }) => !isOpen && item.kind === "node").reduce((sum, { item }) => sum + item.nodes - 1, 0);
        assert.equal(shownNodes + folded + holders + inside, root.nodes, "every node is in sight, or in a folded box");
      }
    }
  }
});

/** A random program: modules, some called again or in turns, whose nodes use any of the values before them. */
function randomProgram(seed: number): { readonly steps: FrameStep[]; readonly operands: number[] }[] {
  let state = seed;
  const pick = (count: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % count;
  };
  return Array.from({ length: 5 + pick(60) }, (_, index) => {
    const names = Array.from({ length: pick(3) }, () => `m${pick(3)}`);
    const steps = names.map((title, depth): FrameStep => ({ name: names.slice(0, depth + 1).join("."), title, type: "T", call: null }));
    return { steps, operands: index === 0 ? [] : [...new Set(Array.from({ length: 1 + pick(2) }, () => Math.max(0, index - 1 - pick(12))))] };
  });
}

test("no frame uses what comes after it, whatever the calls of modules are", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const nodes = randomProgram(seed);
    const check = (content: readonly (Frame | number)[], known: Set<number>): void => {
      for (const each of content) {
        if (typeof each !== "number") check(each.content, known);
        else {
          assert.ok((nodes[each]?.operands ?? []).every((operand) => known.has(operand)), `seed ${seed}: ${each}`);
          known.add(each);
        }
      }
    };
    const known = new Set<number>();
    check(framesOf(nodes), known);
    assert.equal(known.size, nodes.length, `seed ${seed}`);
  }
});

test("time runs down: no wire goes up, however programs are folded", async () => {
  const names = Object.keys(JSON.parse(readFileSync(made("expected.json"), "utf8")) as object).filter((each) => each.endsWith(".pt2") && each !== "methods.pt2");
  for (const name of [...names, "deep.pt2 changed_deep.pt2", "transformer.pt2 changed_transformer.pt2"]) { // a difference, too, where modules run in another order
    const { side } = await shown(name.split(" "));
    const { root } = side.items;
    const all = [...groups(root)];
    const some = (part: number): Set<Item> => new Set([root, ...all.filter((_, index) => index % 3 !== part)]);
    for (const open of [new Set([root]), new Set(all), some(0), some(1), some(2)]) {
      for (const reshapes of [true, false]) {
        const scene = sceneOf(root, { open, weights: reshapes, reshapes, screen: reshapes ? undefined : SCREEN });
        for (const { points, links } of scene.wires) {
          const isRight = (points.at(-1)?.x ?? 0) > (points[0]?.x ?? 0) + 60; // in columns time runs to the right, too
          points.forEach(({ x, y }, index) => {
            const { x: before, y: above } = points[index - 1] ?? { x, y };
            assert.ok(y >= above - 0.5 || (isRight && (x === before || x > before)), `${name}: ${links[0]?.from.path} → ${links[0]?.to.path}`);
          });
        }
      }
    }
  }
});

test("a label of a wire stands on no box and on no other label", async () => {
  for (const name of ["twice.pt2", "transformer.pt2", "work.pt2", "loop.pt2", "dense.pt2", "cond.pt2"]) {
    const { side } = await shown([name]);
    for (const screen of [undefined, SCREEN]) {
      const { wires, boxes: all } = sceneOf(side.items.root, { open: groups(side.items.root), weights: false, reshapes: true, screen });
      const labels = wires.flatMap((wire) => (wire.label === "" ? [] : [{ ...labelBox(wire), label: wire.label }])).map((each) => ({ ...each, x: each.x - 1, width: each.width + 2 })); // with some room beside it
      assert.ok(labels.length > all.length / 4, `${name}: ${labels.length} labels of ${all.length} boxes`);
      labels.forEach((label, index) => {
        const closed = all.filter(({ open }) => !open);
        for (const other of [...closed, ...labels.slice(index + 1)]) assert.ok(!meets(label, other), `${name}: ${label.label}`);
      });
    }
  }
});

test("a wire past nodes that are not drawn says so, with the element type that arrives, and beside everything else", async () => {
  const names = Object.keys(JSON.parse(readFileSync(made("expected.json"), "utf8")) as object).filter((each) => each.endsWith(".pt2") && each !== "methods.pt2");
  const counts = { all: 0, on: 0 };
  for (const name of [...names, "transformer.pt2 changed_transformer.pt2"]) {
    const { side: { items: { root } } } = await shown(name.split(" "));
    for (const open of [new Set([root]), groups(root), firstOpen(root)]) {
      for (const screen of [undefined, SCREEN]) {
        const { wires, boxes: drawn } = sceneOf(root, { open, weights: false, reshapes: false, screen });
        const marks = wires.filter(({ passed }) => passed !== "").map(passedBox);
        for (const { links, arrives, passed } of wires) {
          for (const { from, to, value, argument, via } of arrives ? links : []) {
            const direct = to.operands.find((link) => link.argument === argument && (via === undefined ? link.from === from : link.from === via.at(-1)));
            const [made, used] = [valueFacts(from.scope.graph, value), valueFacts((direct?.from ?? from).scope.graph, direct?.value ?? value)].map(({ type }) => type.split(" ")[0] ?? "");
            if (used !== made && used !== "") assert.ok(passed.includes(used ?? "") || passed.includes("types"), `${name}: ${from.path} → ${to.path} is ${made}, then ${used}, not ${passed}`);
          }
        }
        for (const { links, passed, arrives } of wires) if (arrives && passed === "") assert.ok(links.every(({ via }) => via === undefined) || wires.some((wire) => wire.links === links && wire.passed !== ""), name);
        counts.all += marks.length;
        counts.on += marks.filter((mark, index) => [...drawn.filter((box) => !box.open), ...marks.slice(index + 1)].some((other) => meets(mark, other))).length;
      }
    }
  }
  assert.ok(counts.all > 50 && counts.on < counts.all / 100, JSON.stringify(counts));
});

test("no wire passes behind a box that is not its end", async () => {
  for (const name of PROGRAMS) {
    const { side: { items: { root } } } = await shown(name.split(" "));
    for (const open of [groups(root), firstOpen(root)]) {
      for (const reshapes of [true, false]) {
        const { wires, boxes: drawn } = sceneOf(root, { open, weights: false, reshapes, screen: reshapes ? undefined : SCREEN });
        const closed = drawn.filter((box) => !box.open);
        for (const wire of wires) {
          const ends = new Set(wire.links.flatMap(({ from, to }) => [from, to].flatMap((item) => [item, ...item.around])));
          const points = pointsOn(wire);
          const [top, bottom] = [Math.min(...points.map((point) => point.y)), Math.max(...points.map((point) => point.y))];
          for (const { item, x, y, width, height } of closed.filter((box) => box.y <= bottom && box.y + box.height >= top)) {
            const inside = { x: x + 1, y: y + 1, width: width - 2, height: height - 2 };
            if (!ends.has(item)) assert.ok(!points.some((point) => meets(inside, point)), `${name}: ${wire.links[0]?.from.path} → ${wire.links[0]?.to.path} behind ${item.path}`);
          }
        }
      }
    }
  }
});

/** A document of a random program, with a node for each step. */
function randomDocument(seed: number): Uint8Array {
  const tensor = (name: string): object => ({ as_tensor: { name } });
  const nodes = randomProgram(seed).map(({ steps, operands }, index) => ({
    target: operands.length > 1 ? "torch.ops.aten.add.Tensor" : "torch.ops.aten.relu.default",
    inputs: (operands.length === 0 ? ["x"] : operands.map((operand) => `n${operand}`)).map((value, at) => ({ name: at === 0 ? "self" : "other", arg: tensor(value), kind: 1 })),
    outputs: [tensor(`n${index}`)],
    metadata: { "graphwire.nn_module_stack": JSON.stringify(steps.map(({ name, type }) => [name, name, type])) },
    name: `n${index}`,
  }));
  const outputs = nodes.slice(-2).map(({ name }) => tensor(name));
  const leaf = { type: null, context: null, children_spec: [] as object[] };
  const tuple = (...children_spec: object[]): object => ({ type: "builtins.tuple", context: "null", children_spec });
  const called = { inputs: [], outputs: [], in_spec: JSON.stringify([1, tuple(tuple(leaf), { type: "builtins.dict", context: "[]", children_spec: [] })]), out_spec: JSON.stringify([1, tuple(...outputs.map(() => leaf))]), forward_arg_names: ["x"] };
  const values = Object.fromEntries(["x", ...nodes.map(({ name }) => name)].map((name) => [name, { dtype: 7, sizes: [{ as_int: 2 }], requires_grad: false, device: { type: "cpu", index: null }, strides: [{ as_int: 1 }], storage_offset: { as_int: 0 }, layout: 7 }]));
  return new TextEncoder().encode(JSON.stringify({
    graph_module: {
      graph: { inputs: [tensor("x")], outputs, nodes, tensor_values: values, sym_int_values: {}, sym_bool_values: {} },
      signature: { input_specs: [{ user_input: { arg: tensor("x") } }], output_specs: outputs.map((arg) => ({ user_output: { arg } })) },
      module_call_graph: [{ fqn: "", signature: called }],
    },
    opset_version: { aten: 10 }, range_constraints: {}, schema_version: { major: 8, minor: 20 }, verifiers: ["TRAINING"], torch_version: "2.13.0",
  }));
}

async function randomShown(seed: number): Promise<Shown> {
  const bytes = randomDocument(seed);
  return shownOf({ files: [{ file: await openFile(bufferSource(bytes)), facts: noFacts("random.json"), size: bytes.length }], facts: readFacts("null") }, null);
}

test("no wire meets a text: none crosses the title of a frame, those below a label have a gap there, few do, and each label tells what its box makes", async () => {
  const [counts, crossed] = [{ labels: 0, titles: 0 }, { labels: 0 }];
  const programs = [...[...PROGRAMS, "unrolled.pt2"].map((name) => shown(name.split(" "))), ...Array.from({ length: 40 }, (_, seed) => randomShown(seed + 1))];
  for (const { side, before } of await Promise.all(programs)) {
    const { root } = side.items;
    for (const [open, screen] of [[groups(root), undefined], [firstOpen(root), SCREEN]] as const) {
      const { wires, boxes: drawn } = sceneOf(root, { open, weights: false, reshapes: false, screen });
      const of = ({ x, y }: Point): string => `${side.name} of ${root.nodes} nodes: ${x}, ${y}`;
      const titles = drawn.filter((box) => box.open && box.item.parent !== null).map((box) => ({ ...titleBox(box), box }));
      for (const { x, width, box } of titles) assert.ok(x + width <= box.x + box.width, box.item.path);
      const labels = wires.filter(({ label }) => label !== "").map(labelBox);
      const texts = [...titles, ...labels];
      counts.labels += labels.length;
      counts.titles += titles.length;
      crossed.labels += new Set(wires.flatMap((wire) => (wire.gaps.length === 0 ? [] : wire.gaps.filter((gap) => pointsOn(wire).some((point) => meets(gap, point)))))).size;
      for (const wire of wires) {
        const pieces = withGaps(curvesOf(wire.points), wire.gaps);
        const ends = [pieces[0]?.[0], pieces.at(-1)?.[3]];
        if (wire.arrives) assert.deepEqual(ends[1], wire.points.at(-1), "an arrow is whole");
        for (const piece of pieces) {
          const [[left, right], [top, bottom]] = (["x", "y"] as const).map((part) => [Math.min(...piece.map((point) => point[part])), Math.max(...piece.map((point) => point[part]))]) as [[number, number], [number, number]];
          const near = texts.filter((text) => meets(text, { x: left, y: top, width: right - left, height: bottom - top }));
          if (near.length === 0) continue;
          for (let at = 0; at <= 40; at++) {
            const point = { ...pointAt(piece, at / 40), width: 0, height: 0 };
            for (const text of near) if (meets(text, point)) assert.fail(of(text));
          }
        }
      }
      if (before === null) for (const { links } of wires) for (const { from, value } of links) assert.ok(from.values.includes(value), `${from.path} does not make ${value}`);
    }
  }
  assert.ok(counts.titles > 500 && counts.labels > 1500 && crossed.labels < counts.labels / 5, JSON.stringify({ counts, crossed }));
});

test("a program that is too tall for the screen stands in columns that fit, also if everything uses everything", async () => {
  const { side } = await shown(["dense.pt2"]);
  const { width, height, wires } = sceneOf(side.items.root, { open: new Set([side.items.root]), weights: false, reshapes: false, screen: SCREEN });
  assert.ok(width <= SCREEN.width && height <= SCREEN.height + 40, `${width} × ${height}`);
  assert.ok(wires.some(({ points: [start, ...points] }) => (points.at(-1)?.y ?? 0) < (start?.y ?? 0)), "wires lead up to the next column");
  for (let seed = 1; seed <= 40; seed++) {
    const nodes = randomProgram(seed);
    const sizes = nodes.map(() => ({ width: 120, height: 40, rank: null }));
    const connections = nodes.flatMap(({ operands }, to) => operands.map((from) => ({ from, to })));
    const arrange = arranging(layeredLayout, sizes, connections);
    const found = inColumns(arrange, sizes, connections, SCREEN);
    assert.equal(overlaps(sizes, found), 0, `seed ${seed}`);
    if (found.cut !== undefined && found.cut.size > 0) assert.ok(found.height <= SCREEN.height && found.width <= SCREEN.width, `seed ${seed}: ${found.width} × ${found.height}`);
    assert.equal(overlaps(sizes, inColumns(arrange, sizes, connections, { width: 3000, height: 100 + 100 * (seed % 6) })), 0, `seed ${seed}`);
    const { width: most, height: tall } = inColumns(arrange, sizes, connections, { width: 60, height: 60 });
    assert.ok(most < 4000 && tall < 8000, "what fits no screen is as without one");
  }
});

test("wires from one column to another are whole while they are few, and pass no box", () => {
  const skips: Connection[] = Array.from({ length: 4 }, (_, level) => ({ from: 2 * level, to: 23 - 2 * level }));
  const chain: Connection[] = Array.from({ length: 23 }, (_, from) => ({ from, to: from + 1 }));
  for (const [connections, isFew] of [[[...chain, ...skips], true], ...Array.from({ length: 40 }, (_, seed) => [randomProgram(seed + 1).flatMap(({ operands }, to) => operands.map((from): Connection => ({ from, to }))), false] as const)] as const) {
    const sizes = boxes(Math.max(...connections.map(({ to }) => to)) + 1);
    for (const height of [SCREEN.height, 400]) {
      const { across, cut, ...found } = inColumns(arranging(layeredLayout, sizes, connections), sizes, connections, { width: 2000, height });
      if (isFew) assert.ok((cut?.size ?? 0) === 0 && (across?.size ?? 0) >= 4, `${cut?.size} of ${across?.size}`);
      for (const index of across ?? []) {
        const { from, to } = connections[index] as Connection;
        const end = (box: number, isBelow: boolean): Point => ({ x: (found.places[box]?.x ?? 0) + (sizes[box]?.width ?? 0) / 2, y: (found.places[box]?.y ?? 0) + (isBelow ? (sizes[box]?.height ?? 0) : 0) });
        const points = pointsOn({ points: [end(from, true), ...(found.bends[index] ?? []), end(to, false)] });
        assert.ok(points.every(({ x, y }) => x >= 0 && x <= found.width && y >= -1 && y <= found.height + 1));
        sizes.forEach(({ width, height: tall }, box) => {
          const inside = { x: (found.places[box]?.x ?? 0) + 1, y: (found.places[box]?.y ?? 0) + 1, width: width - 2, height: tall - 2 };
          if (box !== from && box !== to) assert.ok(!points.some((point) => meets(inside, point)), `${from} → ${to} behind ${box}`);
        });
      }
    }
  }
});

test("a chain beside long wires is straight", () => {
  const sizes: Sized[] = Array.from({ length: 12 }, () => ({ width: 120, height: 40, rank: null }));
  const connections: Connection[] = sizes.slice(1).flatMap((_, at) => [{ from: at, to: at + 1 }, ...(at > 0 && at < 9 ? [{ from: 0, to: at + 1 }] : [])]);
  const { places } = layeredLayout(sizes, connections);
  assert.ok(places.every(({ x }) => Math.abs(x - (places[2]?.x ?? 0)) < 60), JSON.stringify(places));
});

test("what nothing reaches stands above what comes later in the program", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const sizes = boxes(30);
    const isLoose = (index: number): boolean => index % ((seed % 5) + 3) === 2;
    const connections = randomProgram(seed).slice(0, 30).flatMap(({ operands }, to) => (isLoose(to) ? [] : operands.filter((from) => !isLoose(from)).map((from): Connection => ({ from, to }))));
    const found = withLoose(layeredLayout, sizes, connections);
    assert.equal(found.bends.length, connections.length);
    assert.equal(overlaps(sizes, found), 0, `seed ${seed}`);
    const top = (index: number): number => found.places[index]?.y ?? 0;
    for (const loose of sizes.keys()) {
      const later = connections.map(({ to }) => to).filter((to) => to > loose);
      const next = Math.min(...later);
      if (isLoose(loose) && later.length > 0) assert.ok(top(loose) + (sizes[loose]?.height ?? 0) < top(next), `seed ${seed}: ${loose} above ${next}`);
    }
  }
  const { side } = await shown(["counted.pt2"]);
  const { boxes: drawn } = sceneOf(side.items.root, { open: new Set([side.items.root]), weights: false, reshapes: true, screen: SCREEN });
  const below = new Map(drawn.map(({ item, y }) => [item.name, y]));
  for (const name of ["add_", "mul_"]) assert.ok((below.get(name) ?? Infinity) < (below.get("sin") ?? 0), name);
});

test("neighbours stand in the order of the program, rather than against it", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const nodes = randomProgram(seed);
    const sizes = nodes.map(() => ({ width: 60, height: 30, rank: null }));
    const given = layeredLayout(sizes, nodes.flatMap(({ operands }, to) => operands.map((from) => ({ from, to }))));
    const { places, bends } = inOrder(given, sizes, []);
    const rows = [...places.entries()].sort(([, a], [, b]) => a.y - b.y || a.x - b.x);
    const along = rows.reduce((sum, [index, { y }], at) => sum + (rows[at - 1]?.[1].y === y ? Math.sign(index - (rows[at - 1]?.[0] ?? 0)) : 0), 0);
    assert.ok(along >= 0, `seed ${seed}`);
    assert.ok([...places, ...bends.flat()].every(({ x }) => x >= -0.5 && x <= given.width + 0.5));
  }
});

test("graphs inside operators of control flow say what they are for", async () => {
  const titles = async (name: string): Promise<string[]> => [...within((await shown([name])).side.items.root)].filter(({ kind }) => kind === "subgraph").map(({ title }) => title);
  const found = await titles("cond.pt2");
  assert.deepEqual(found.map((title) => title.replace(/then, if \w+/, "then").split(" · ")[0]), ["then", "then", "else", "else"]);
  assert.deepEqual((await titles("loop.pt2")).map((title) => title.split(" · ")[0]), ["while", "do"]);
});

test("a module that is called twice has two frames, and one of a single operator is that operator", async () => {
  const { side } = await shown(["twice.pt2"]);
  const titles = [...within(side.items.root)].filter(({ kind }) => kind === "module").map(({ title }) => title);
  assert.deepEqual(titles.filter((title) => title.startsWith("shared")), ["shared, call 1", "shared, call 2", "shared, call 3"]);
  assert.deepEqual([...within(side.items.root)].filter(({ calls }) => calls.length > 0).map(titleOf).slice(0, 2), ["layers.0 · linear 8→8", "0 · layer_norm"]);
});

test("every call of a module has one frame, or is a node of its own", async () => {
  for (const name of ["twice.pt2", "transformer.pt2", "work.pt2", "loop.pt2", "convnet.pt2", "cond.pt2", "deep.pt2", "chain.pt2", "dense.pt2", "guarded.pt2"]) {
    const calls = [...within((await shown([name])).side.items.root)].flatMap((item) => [...(item.kind === "module" ? [item] : []), ...item.calls]).filter(({ type }) => type !== "");
    assert.deepEqual(calls.map(({ path }) => path).sort(), [...new Set(calls.map(({ path }) => path))].sort(), name);
  }
});

test("equal layers are one box at first, also many outputs", async () => {
  const { side } = await shown(["deep.pt2"]);
  const runs = [...within(side.items.root)].filter(({ kind }) => kind === "run");
  assert.deepEqual(runs.map(titleOf), ["layers 0–11 · 12 × Layer", "30 × mul", "30 outputs"]);
  const many = [...within((await shown(["dense.pt2"])).side.items.root)].filter(({ kind, parent }) => kind === "run" && parent?.kind === "program");
  assert.deepEqual(many.map(titleOf), ["60 × add", "60 outputs"]);
  assert.ok(sceneOf(side.items.root, { open: firstOpen(side.items.root), weights: false, reshapes: false }).boxes.length < 40);
});

test("what takes turns is one box", async () => {
  const runs = [...within((await shown(["chain.pt2"])).side.items.root)].filter(({ kind }) => kind === "run");
  assert.equal(runs.map(titleOf)[0], "120 × (add, relu, mul)");
  assert.deepEqual([...within((await shown(["twice.pt2"])).side.items.root)].filter(({ kind }) => kind === "run"), [], "two turns are none");
});

test("the steps of a loop that is unrolled are boxes, and nothing cuts through one, also if not all are equal", async () => {
  const { root } = (await shown(["unrolled.pt2"])).side.items;
  const [loop] = root.children.filter(({ kind }) => kind === "run");
  assert.equal(loop?.title, "50 × (select, matmul, add, …)");
  const steps = [...within(loop)].filter(({ title }) => /^step \d+ /.test(title));
  assert.deepEqual(steps.map(({ title }) => title), Array.from({ length: 50 }, (_, index) => `step ${index + 1} · select, matmul, …`));
  assert.deepEqual([...new Set(steps.map(({ nodes }) => nodes))].sort(), [7, 8]);
  for (const { children } of steps) assert.deepEqual(children.filter(({ title }) => title.startsWith("select")), [children[0]]);
  assert.equal(loop.children[0]?.title, "steps 1–7");
  const chain = [...within((await shown(["chain.pt2"])).side.items.root)].filter(({ title }) => title.startsWith("step "));
  assert.ok(chain.length === 120 && chain.every(({ children }) => children.map(({ title }) => title).join() === "add.Tensor,relu,mul.Tensor"), chain[0]?.children.map(({ title }) => title).join());
});

test("members are made fewer until they are seen, in their order, and none is lost", async () => {
  for (const name of ["dense.pt2", "work.pt2", "loop.pt2", "twice.pt2"]) {
    const { root, all } = (await shown([name])).side.items;
    const leaves = (): string[] => [...within(root)].filter(({ kind }) => kind !== "run").map(({ path }) => path);
    const [before, counts] = [leaves(), [] as number[]];
    shorten(root, all, () => counts.push(root.children.filter((item) => !isPassing(item) && item.kind !== "weight").length) === 0);
    const starts = [1, counts.length - 12, counts.length - 6]; // of the tries with operators between modules, with what belongs together, and with the rest
    assert.ok(counts.every((count, index) => index === 0 || count <= (starts.includes(index) ? counts[0] ?? 0 : counts[index - 1] ?? 0)) && root.children.filter((item) => item.kind !== "weight").length < 14, `${name}: ${counts.join()}`);
    assert.deepEqual(leaves(), before);
    for (const item of within(root)) for (const child of item.children) assert.ok(child.parent === item && all[child.id] === child);
    for (const run of within(root)) if (run.kind === "run") assert.ok(run.children.some((item) => !isPassing(item)), "a run that shows something");
  }
});

test("a box of a difference leaves out what it holds before what changed", async () => {
  for (const item of within((await shown(["deep.pt2", "changed_deep.pt2"])).side.items.root)) {
    if (!["module", "run"].includes(item.kind) || item.nodes === 0) continue;
    [item.tally, item.changedWeights, item.bytes] = ["moved +1234 −12 ≠345", 123, 1e9];
    assert.match(captionOf(item).lines.join(), /(^| · )moved \+1234 −12 ≠345 · 123 weights ≠$/);
  }
});

test("a small screen groups operators between modules before it groups modules", async () => {
  let groups = 0;
  for (const name of ["deep.pt2", "transformer.pt2", "work.pt2", "twice.pt2", "convnet.pt2"]) {
    for (const { path } of within((await shown([name])).side.items.root)) {
      const { root, all } = (await shown([name])).side.items;
      const group = [...within(root)].find((item) => item.path === path && item.children.some(({ kind }) => kind === "module"));
      if (group === undefined) continue;
      const known = new Set(within(root));
      let tries = 0;
      shorten(group, all, () => {
        for (const run of group.children.filter((item) => !known.has(item) && item.nodes > 0)) assert.ok(run.children.every(({ kind, isGroup }) => kind === "node" && !isGroup), `${name}: ${run.title}`);
        return tries++ === 2;
      }, true);
      groups += 1;
    }
  }
  assert.ok(groups > 5);
});

test("where little is to be seen, the first of many layers or steps is open, beside one box of the others", async () => {
  for (const name of ["deep.pt2", "large.json", "chain.pt2"]) {
    const { side } = await shown([name]);
    const { open } = firstFolding(side.items, null, false, { readable: SCREEN, holds: ({ width, height }) => width <= SCREEN.width && height <= SCREEN.height });
    const runs = [...open].filter(({ kind, nodes, title }) => kind === "run" && nodes > 0 && !title.startsWith("step "));
    assert.ok(runs.length > 0, name);
    for (const { title, children: [first, others, ...more] } of runs) assert.ok(first !== undefined && open.has(first) && others?.kind === "run" && more.length === 0, `${name}: ${title}`);
  }
});

test("the last step of a loop is as long as one before it", async () => {
  for (const name of ["chain.pt2", "loop.pt2", "dense.pt2", "work.pt2"]) {
    for (const { children } of within((await shown([name])).side.items.root)) {
      const steps = children.filter(({ kind, title }) => kind === "run" && title.startsWith("step "));
      const lengths = steps.map((step) => step.children.length);
      if (steps.length > 1) assert.ok(lengths.slice(0, -1).some((length) => length >= (lengths.at(-1) ?? 0)), lengths.join());
    }
  }
});

test("a small screen groups only what is tied, and leaves control flow alone", async () => {
  for (const name of ["cond.pt2", "loop.pt2", "work.pt2", "twice.pt2"]) {
    const { root, all } = (await shown([name])).side.items;
    const known = new Set(within(root));
    let tries = 0;
    shorten(root, all, () => {
      if (tries++ > 6) return true; // what follows groups all that it can
      for (const run of root.children.filter((item) => !known.has(item) && item.nodes > 0)) {
        const held = new Set<Item>(within(run.children[0] as Item));
        if (tries === 3 && run.children.every(({ kind, isGroup }) => kind === "node" && !isGroup)) continue; // operators between modules, tied or not
        assert.ok(run.children.every((item) => item.kind !== "node" || !item.isGroup), `${name}: ${run.title}`);
        for (const member of run.children.slice(1)) {
          assert.ok([...within(member)].some(({ operands }) => operands.some(({ from }) => held.has(from))), `${name}: ${member.path} in ${run.title}`);
          for (const item of within(member)) held.add(item);
        }
      }
      return false;
    });
  }
});

test("a first screen is used: what does not fit is opened with its members in runs, in a difference what changed stands alone", async () => {
  for (const names of [["deep.pt2"], ["deep.pt2", "changed_deep.pt2"], ["transformer.pt2", "changed_transformer.pt2"]]) {
    for (const screen of [SCREEN, { width: 420, height: 520 }]) {
      const { side, difference } = await shown(names);
      const { root } = side.items;
      const room = { readable: screen, holds: ({ width, height }: { readonly width: number; readonly height: number }): boolean => width <= screen.width && height <= screen.height };
      const before = new Map([...within(root)].map((item) => [item, item.children.length]));
      const folding = firstFolding(side.items, difference, false, room);
      const { open } = folding;
      assert.ok(room.holds(sceneOf(root, folding)) || open.size === 1, names.join());
      const seen = [...within(root)].filter((group) => before.has(group) && before.get(group) !== group.children.length && group !== root);
      assert.ok(seen.every((group) => open.has(group)));
      for (const group of seen) for (const { kind, children, parent } of within(group)) assert.ok(kind !== "run" || (parent !== null && children.every((child) => child.parent?.kind === "run")));
    }
  }
  const { side: { items: { root, all } } } = await shown(["deep.pt2", "changed_deep.pt2"]);
  const group = [...within(root)].find(({ children }) => children.filter(({ tally }) => tally !== "").length > 0 && children.length > 4) as Item;
  let tries = 0;
  assert.ok(shorten(group, all, () => tries++ === 1, true));
  for (const run of group.children) if (run.kind === "run") assert.ok(run.tally !== "" || run.children.every(({ mark, tally }) => mark === null && tally === ""), run.title);
});

test("a group has few ports, however many values leave it", async () => {
  const { root } = (await shown(["dense.pt2"])).side.items;
  for (const { ports, group } of levelsOf(root, { open: groups(root), weights: false, reshapes: true }).values()) {
    for (const side of ["in", "out"]) assert.ok(ports.filter((port) => port.side === side).length <= 40, group.path);
  }
  const wires = sceneOf(root, { open: groups(root), weights: false, reshapes: true }).wires.flatMap(({ links, arrives }) => (arrives ? links : []));
  for (const item of within(root)) if (item.kind === "output") assert.ok(wires.some(({ to }) => to === item), item.path);
});

test("a thousand boxes in a row stand in several, and a long chain in columns", () => {
  const sizes = boxes(1001);
  const fan = Array.from({ length: 1000 }, (_, index) => ({ from: 0, to: index + 1 }));
  const found = layeredLayout(sizes, fan);
  assert.ok(found.width < 4000, String(found.width));
  assert.equal(overlaps(sizes, found), 0);
  const chain = Array.from({ length: 1000 }, (_, index) => ({ from: index, to: index + 1 }));
  const tall = inColumns(arranging(layeredLayout, sizes, chain), sizes, chain);
  assert.ok(tall.width / tall.height > 1 && tall.width / tall.height < 3);
  assert.equal(overlaps(sizes, tall), 0);
});

test("texts on every colour of the drawing have contrast AA, in both themes", () => {
  const style = readFileSync(new URL(import.meta.url).pathname.replace(/build\/test\/.*/, "src/page/style.css"), "utf8");
  const themes = [/^:root \{[^}]+|^\.\w+ \{ --c.*/gm, /^(:root)?\[data-theme="dark"\] (\{[^}]+|\.\w+ \{ --c.*)/gm].map((blocks) => new Map([...style.matchAll(blocks)].flatMap(([block]) => {
    const [, category] = /\.(\w+) \{/.exec(block) ?? [];
    return [...block.matchAll(/--([\w-]+): (#\w{6});/g)].map(([, name = "", colour = ""]) => [category === undefined ? name : name.replace("c", `c-${category}`), colour] as const);
  })));
  for (const theme of themes) assert.equal([...theme.keys()].filter((name) => name.startsWith("c-")).length, 18);
  for (const theme of themes) {
    const light = (name: string): number => {
      const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => parseInt((theme.get(name) ?? "").slice(at, at + 2), 16) / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (a: string, b: string): number => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const fills = [...theme.keys()].filter((name) => /^(c-\w+|group-\w+|box|value|weight|found|ground|paper|\w+-fill)$/.test(name) && !name.endsWith("rule"));
    for (const fill of fills) for (const ink of ["ink", "soft"]) assert.ok(contrast(fill, ink) >= 4.5, `${ink} on ${fill}`);
    for (const rule of [...theme.keys()].filter((name) => /^c-\w+-rule$/.test(name))) assert.ok(contrast(rule, rule.replace(/-rule$/, "")) >= 3, rule);
    for (const ink of ["quiet", "accent", "added", "removed", "changed", "moved"]) for (const fill of ["paper", "ground"]) assert.ok(contrast(fill, ink) >= 4.5, `${ink} on ${fill}`);
  }
});

test("modules have the bytes of their weights, and tied weights count once", async () => {
  const { side } = await shown(["transformer.pt2"]);
  assert.equal(side.items.root.bytes, Number(side.summary.parameters.bytes));
  assert.deepEqual(side.weights.find(({ name }) => name === "head.weight")?.shares ?? [], ["embedding.weight"].filter(() => side.weights.some(({ name }) => name === "head.weight")));
  const parameters = side.weights.filter(({ role }) => role === "parameter");
  assert.equal(4 * Number(side.summary.parameters.elements), Number(side.summary.parameters.bytes)); // float32
  assert.deepEqual(parameters.filter(({ tiedTo }) => tiedTo !== "").map(({ name, tiedTo }) => [name, tiedTo]), [["head.weight", "embedding.weight"]]);
});

test("weights have their names inside loops and branches, in boxes and in searches, and are no inputs there", async () => {
  const { side } = await shown(["given.pt2"]);
  const { root } = side.items;
  const items = [...within(root)];
  const lines = new Map(items.flatMap((item) => (item.kind === "node" && !item.isGroup ? [[item.path, [titleOf(item), ...captionOf(item).lines].join("; ")] as const] : [])));
  assert.equal(lines.get("scan_combine_graph_0/linear"), "linear 12→8; cell.weight 8×12 · cell.bias 8");
  assert.equal(lines.get("while_loop_body_graph_0/linear"), "linear 8→8; refine.weight 8×8 · refine.bias 8");
  assert.equal(lines.get("false_graph_0/true_graph_0/linear"), "linear 8→8; b.weight 8×8 · b.bias 8");
  const inputs = items.flatMap(({ kind, scope, title }) => (kind === "input" && scope.prefix.startsWith("scan") ? [title] : []));
  assert.deepEqual(inputs, ["arg0_1 ← zeros", "arg1_1 ← x"]);
  assert.deepEqual(captionOf(items.find(({ name }) => name === "scan") as Item).lines, ["2 weights of cell"]);
  const found = new Index(side.items, () => side.program.graph_module).find("weight:cell.weight");
  assert.deepEqual(found.flatMap(({ users }) => users.map(({ to }) => to.path)), ["scan_combine_graph_0/linear", "scan"]);
  for (const open of [groups(root), firstOpen(root)]) for (const { links } of sceneOf(root, { open, weights: true, reshapes: true }).wires) for (const { from, value } of links) assert.ok(from.values.includes(value));
});

test("calls of one module are counted from the first, in the same words everywhere, and its weights once", async () => {
  const { side } = await shown(["calls.pt2"]);
  const items = [...within(side.items.root)];
  assert.deepEqual(items.filter(({ kind }) => kind === "run").map((item) => [titleOf(item), ...captionOf(item).lines]), [["layer · 4 calls of Layer", "24 nodes · 352 B shared"]]);
  const named = (pattern: RegExp): string[][] => items.flatMap((item) => (item.kind === "module" && pattern.test(item.label) ? [[titleOf(item), item.label]] : []));
  assert.deepEqual(named(/^layer, call [14]$/), [["layer, call 1 · Layer", "layer, call 1"], ["layer, call 4 · Layer", "layer, call 4"]]);
  const calls = items.flatMap((item) => item.calls.map(({ label }) => [titleOf(item), label]));
  assert.deepEqual(calls.filter(([, label]) => label?.startsWith("act")), [["act, call 1 · tanh", "act, call 1"], ["act, call 2 · tanh", "act, call 2"]]);
  assert.deepEqual(calls.filter(([, label]) => label === "layer.up, call 2"), [["up · linear 8→8", "layer.up, call 2"]]);
  for (const item of items) assert.ok(!titleOf(item).includes("@") && !item.label.includes("@"), item.path);
  const same = items.flatMap((item) => (item.kind === "module" && item.sharesWith !== null ? [[item.label, ...captionOf(item).lines]] : []));
  assert.deepEqual(same, [["other", "6 nodes · weights of layer, call 1"]]);
});

test("a search pauses after a few items, however many there are", async () => {
  const { side } = await shown(["large.json"]);
  const search = new Index(side.items, () => side.program.graph_module).search("relu module:layers.9 weight:>1GB");
  let steps = 0;
  while (search.next().done !== true) steps += 1;
  assert.ok(steps >= side.items.all.length / 200 - 1, `${steps} steps for ${side.items.all.length} items`);
});

test("a search needs all words, and knows fields", async () => {
  const { side } = await shown(["transformer.pt2"]);
  const index = new Index(side.items, () => side.program.graph_module);
  const paths = (query: string): string[] => index.find(query).map(({ path }) => path);
  assert.deepEqual(paths("op:layer_norm module:layers.1.norm"), ["layer_norm_2"]);
  assert.deepEqual(paths('"layer_norm_2"'), ["layer_norm_2"]);
  assert.deepEqual(paths("constructor __proto__"), []);
  assert.deepEqual(paths("   "), []);
  assert.deepEqual(paths("weight:>12.5kB"), ["embedding.weight"]);
  assert.ok(paths("dtype:f32 op:linear").length > 0 && paths("dtype:bf16").length === 0);
});

test("the difference has the items of both programs, each once", async () => {
  const { side, before, difference } = await shown(["transformer.pt2", "changed_transformer.pt2"]);
  assert.ok(before !== null && difference !== null);
  const nodes = [...within(side.items.root)].filter(({ kind }) => kind === "node");
  assert.equal(nodes.filter(({ mark }) => mark !== "removed").length, difference.diff.nodes_b);
  assert.equal(nodes.filter(({ mark }) => mark !== "added").length, difference.diff.nodes_a);
  assert.equal(nodes.filter(({ mark }) => mark !== null).length, difference.diff.nodes.length);
  assert.deepEqual(nodes.filter(({ mark }) => mark === "removed").map(({ name }) => name), ["gelu_1"]);
  assert.ok(nodes.every(({ id }) => difference.items.all[id]?.id === id));
  const same = await shown(["transformer.pt2", "transformer.pt2"]);
  assert.ok([...within(same.side.items.root)].every(({ mark }) => mark === null));
  assert.equal(same.difference?.diff.same, true);
});

test("numbers are summed by module, also as the change between two programs", async () => {
  const overlays = [
    { name: "ms", file: 0, values: { linear: 1, linear_1: 2, gelu_1: 8 } },
    { name: "ms", file: 1, values: { linear: 1, linear_1: 5, sigmoid: 3 } },
  ];
  const given = await shown(["transformer.pt2", "changed_transformer.pt2"], { overlays });
  const change = measuresOf(given).find(({ isChange }) => isChange)?.numbers();
  const named = new Map(Array.from(change?.of ?? [], ([item, value]) => [item.path, value]));
  assert.equal(named.get("layers.0"), 3);
  assert.equal(named.get("layers.1"), 3 - 8);
  const { of, unknown } = numbersOf(given.side.items.root, new Map([["layers.0", 7], ["getitem_1", 1], ["nobody", 1]]));
  assert.deepEqual(unknown, ["nobody"]);
  assert.equal([...of].find(([item]) => item.path === "layers")?.[1], 7);
});

test("operations are those that torch counts, at the sizes of the example and at others", async () => {
  const { operations } = JSON.parse(readFileSync(made("torch.json"), "utf8")) as { operations: Record<string, number> };
  for (const [key, counted] of Object.entries(operations)) {
    const [name = "", at = ""] = key.split(" at ");
    const { side } = await shown([`${name}.pt2`]);
    const { sizes } = side.work;
    const values = at === "" ? [] : at.split(", ").map(Number);
    assert.deepEqual([...sizes.assumed.values()], values.length === 0 ? [...sizes.assumed.values()] : [2, 7]);
    [...sizes.assumed.keys()].forEach((symbol, index) => { if (values[index] !== undefined) side.work.assume(symbol, values[index]); });
    assert.equal([...side.work.costs.values()].reduce((sum, { flops }) => sum + (flops || 0), 0), counted, key);
  }
});

test("bytes and operations have prefixes of SI", () => {
  assert.deepEqual([scaledText(472e6, "FLOP"), bytesText(7_700_000), bytesText(999), scaledText(-1.5e12, "FLOP"), scaledText(NaN, "B")], ["472 MFLOP", "7.7 MB", "999 B", "−1.5 TFLOP", ""]);
});

test("the defaults of arguments are those of torch", () => {
  const { schemas } = JSON.parse(readFileSync(made("torch.json"), "utf8")) as { schemas: Record<string, string> };
  for (const line of DEFAULTS.trim().split("\n")) {
    const [name = ""] = line.split(" ");
    assert.deepEqual(defaultsOf(`torch.ops.aten.${name}`, ""), schemaDefaults(schemas[name] ?? ""), name);
  }
});

test("guards and ranges are mathematics", () => {
  assert.equal(guardText("L['x'].size()[0] <= 1024"), "x.shape[0] ≤ 1,024");
  assert.equal(guardText("((3*L['x'].size()[0]) % 2) == 0"), "3 · x.shape[0] is divisible by 2");
  assert.equal(guardText("not (L['x'].size()[0] // 2) != L['y']['a'].size()[1] + 1"), 'not ⌊x.shape[0] / 2⌋ ≠ y["a"].shape[1] + 1');
  assert.equal(guardText("<img src=x>"), "<img src=x>");
  assert.equal(mathematics("2*s0 - 1"), "2·s0 - 1");
  assert.equal(mathematics("s0**2"), "s0^2");
});

test("what is the same in several layers is one row, and nothing else is", () => {
  const rows = (paths: readonly string[], told = (): string => ""): string[] => overLayers(paths, (path) => path, told).map(({ name, items }) => `${name} ${items.length}`);
  assert.deepEqual(rows(Array.from({ length: 32 }, (_, at) => [`layers.${at}.mlp`, `layers.${at}.attn`]).flat()), ["layers.0–31.mlp 32", "layers.0–31.attn 32"]);
  assert.deepEqual(rows(["a.0", "a.1", "b", "b", "b", "a.3", "a.7.x"]), ["a.0–1, 3 3", "b 1", "b 1", "b 1", "a.7.x 1"]);
  assert.deepEqual(rows(["a.0", "a.1"]), ["a.0 1", "a.1 1"]);
  assert.deepEqual(overLayers(["a.0", "a.1", "a.2", "a.3"], (path) => path, (path) => (path === "a.2" ? "other" : "")).map(({ name }) => name), ["a.0–1, 3", "a.2"]);
  const all = Array.from({ length: 200 }, (_, at) => `m${at % 3}.${at % 7}.${at % 5}.w`);
  assert.deepEqual(overLayers(all, (path) => path, () => "").flatMap(({ items }) => items).sort(), [...all].sort());
});

test("names from right to left do not reorder what is beside them", () => {
  assert.equal(shownText("שלום_1 · linear 4→8"), "\u2068שלום_1\u2069 · linear 4→8");
  assert.equal(shownText("שלום עולם, call 2"), "\u2068שלום עולם\u2069, call 2");
  assert.equal(shownText("plain · linear"), "plain · linear");
  assert.equal(withoutIsolates(shownText("שלום עולם, قالب")), "שלום עולם, قالب");
});

test("what only has spaces as a name is seen, and a box tells its name once", async () => {
  const names = ["a", "  ", "\t"];
  const bytes = new TextEncoder().encode(new TextDecoder().decode(randomDocument(3)).replaceAll(/"(\[\[\\"m.*?\]\])"/g, (_, stack: string) => `"${stack.replaceAll(/m(\d)/g, (__, at: string) => (names[Number(at)] ?? "").replace("\t", "\\\\t"))}"`));
  const { side } = await shownOf({ files: [{ file: await openFile(bufferSource(bytes)), facts: noFacts("spaces.json"), size: bytes.length }], facts: readFacts("null") }, null);
  const titles = [...within(side.items.root)].filter(({ kind }) => kind === "module" || kind === "run").map(titleOf);
  assert.ok(titles.some((title) => title.includes('"  "')) && titles.every((title) => !/^\s|–\s|^–|–$/.test(title)), titles.join("; "));
  const node = [...within(side.items.root)].find(({ kind, calls }) => kind === "node" && calls.length === 0);
  assert.ok(node !== undefined);
  Object.assign(node, { title: "quantized_decomposed.quantize_per_tensor", type: "torch.ops.quantized_decomposed.quantize_per_tensor.default", name: "quantize_per_tensor" });
  assert.deepEqual([captionOf(node).title, captionOf(node).aside, categoryOf(node)], ["quantized_decomposed.quantize_per_tensor", "", "shape"]);
});

test("texts show what is invisible, and end", () => {
  assert.equal(visibleText("a\u202eb\u200bc\x1b[31m"), "a\ufffdb\ufffdc\ufffd[31m");
  assert.equal(clipped(`${"x".repeat(10_000)}end`, 10), "xxxxxx…end");
});

test("colours have readable texts at every place", () => {
  for (let step = 0; step <= 20; step++) {
    for (const isChange of [false, true]) {
      const { fill, ink } = colourAt(step / 20, isChange);
      const light = (text: string): number => {
        const parts = text.startsWith("rgb") ? text.slice(4, -1).split(",").map(Number) : [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
        const [red = 0, green = 0, blue = 0] = parts.map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const [more = 0, less = 0] = [light(fill), light(ink)].sort((a, b) => b - a);
      assert.ok((more + 0.05) / (less + 0.05) >= 4.5, `${fill} with ${ink}`);
    }
  }
});

test("a link survives any name", async () => {
  const { side } = await shown(["cond.pt2"]);
  const item = [...within(side.items.root)].find(({ path }) => path === "true_graph_0/true_graph_0/sin");
  assert.ok(item);
  for (const method of ["model", "a b&node=x#%+ü"]) assert.deepEqual(readLink(linkOf(method, item)), { method, node: item.path });
  assert.deepEqual(readLink("#node=linear_3"), { method: null, node: "linear_3" });
  assert.equal(readLink(""), null);
});
