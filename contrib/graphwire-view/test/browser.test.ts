/** The page in Chromium shows what `graphwire inspect --json` prints, and does what its keys and buttons promise. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";

import type { Page } from "playwright-core";

import { expected, expectedChanges, made, openBrowser, PAGE, type Browser, type Expected, type ExpectedTree, type Shown } from "./browser.js";

const browser = await openBrowser();
if (browser === null) console.log("test-web: the tests in a browser are skipped, since there is no Chromium (CHROMIUM is its path)");
after(() => browser?.close());

/** A test with a page, which must not write to the console or ask for anything. */
function shown(title: string, name: string, use: (page: Page) => Promise<void>, options: Parameters<Browser["open"]>[1] = {}): void {
  if (browser === null) return;
  test(title, async () => {
    const { page, messages }: Shown = await browser.open(name === "" ? PAGE : made(`${name}.html`), options);
    try {
      await use(page);
      assert.deepEqual(messages, []);
    } finally {
      await page.close();
    }
  });
}

async function tab(page: Page, name: string): Promise<void> {
  await page.getByRole("tab", { name }).click();
}

async function panelText(page: Page, selector = "#panel"): Promise<string> {
  return (await page.locator(selector).first().innerText()).replace(/\s+/g, " ");
}

/** Waits until the drawing has a number of elements. */
async function elements(page: Page, selector: string, count: number): Promise<void> {
  await page.waitForFunction(([each, expected]) => document.querySelectorAll(each).length === expected, [selector, count] as const);
}

function leaves(tree: ExpectedTree): string[] {
  return tree.children.length === 0 ? [tree.leaf] : tree.children.flatMap(leaves);
}

/** Compares everything that the panels show with an inspection. */
async function compare(page: Page, summary: Expected): Promise<void> {
  await tab(page, "Program");
  const text = await panelText(page);
  const { inputs, keywords, output } = summary.interface;
  const named = (leaf: string): string => summary.symbols.reduce((found, { name, label }) => found.replaceAll(label, name), leaf);
  for (const leaf of [...inputs, ...keywords, output].flatMap(leaves)) assert.ok(text.includes(named(leaf)), `${named(leaf)} in ${text}`);
  for (const { name } of [...inputs, ...keywords]) assert.ok(text.includes(name), name);
  for (const { name } of summary.symbols) assert.equal(await page.locator("#panel td", { hasText: new RegExp(`^${name.replaceAll("*", "\\*")}(\\s*(from|=) .+)?$`) }).count(), 1, name);
  assert.equal(await page.locator("#panel .guards li").count(), summary.guards.length);
  assert.ok(text.includes(`Nodes ${summary.nodes.toLocaleString("en")}`));
  await tab(page, "Operators");
  const rows = await page.locator("#panel tbody tr").evaluateAll((found) => found.map((row) => [row.querySelector("button")?.title ?? "", row.children[1]?.textContent ?? ""]));
  const counts = Object.fromEntries(rows.map(([title = "", count = ""]) => [title.replace(/^Find /, ""), Number(count.replaceAll(",", ""))]));
  assert.deepEqual(counts, summary.operators);
  await tab(page, "Weights");
  const { parameters, buffers, constants } = summary;
  const names = await page.locator("#panel tbody tr").count();
  assert.ok(names >= parameters.count && names <= parameters.count + buffers.count + constants.count);
  await tab(page, "Modules");
  const tree = await panelText(page, "[role=tree]");
  for (const { name } of summary.modules) assert.ok(tree.includes(name), name);
}

for (const name of ["transformer.pt2", "convnet.pt2", "binary.pt2", "cond.pt2", "loop.pt2", "guarded.pt2", "chain.pt2", "large.json"]) {
  shown(`${name} is shown as it is inspected`, name.replace(/\..*/, ""), async (page) => {
    const [summary] = expected(name);
    assert.ok(summary);
    await compare(page, summary);
    assert.ok((await page.locator(".box").count()) > 1);
  });
}

shown("every method of a program can be chosen", "methods", async (page) => {
  for (const summary of expected("methods.pt2")) {
    await page.getByLabel("Method").selectOption(summary.name);
    await page.locator(`[role=tab]`).first().waitFor();
    await page.waitForFunction((method) => document.querySelector<HTMLSelectElement>("#method")?.value === method, summary.name);
    await compare(page, summary);
  }
});

shown("edges say the types of values", "transformer", async (page) => {
  const labels = await page.locator(".wire-label").allTextContents();
  assert.ok(labels.some((label) => /^float32 \[s\d+, s\d+, 32\]$/.test(label)), labels.join());
});

shown("subgraphs are inside their node, and modules fold", "cond", async (page) => {
  const inside = async (): Promise<string[]> => page.locator(".box.subgraph title").allTextContents();
  await page.getByRole("button", { name: "Unfold all" }).click();
  await page.getByTitle("Show everything").click();
  assert.deepEqual((await inside()).sort(), ["false_graph_0", "true_graph_0", "true_graph_0/false_graph_0", "true_graph_0/true_graph_0"]);
  await page.getByRole("button", { name: "Fold all", exact: true }).click();
  assert.deepEqual(await inside(), []);
  await page.getByRole("button", { name: "Unfold all" }).click();
  await page.getByTitle("Show everything").click();
  assert.equal((await inside()).length, 4);
});

shown("tied weights are one box", "transformer", async (page) => {
  await page.getByRole("button", { name: "Weights", exact: true }).click();
  await page.getByTitle("Show everything").click();
  const boxes = await page.locator(".box.weight title").allTextContents();
  assert.deepEqual(boxes.filter((name) => /head|embedding/.test(name)), ["embedding.weight"]);
  await tab(page, "Weights");
  const rows = await panelText(page);
  assert.ok(rows.includes("tied to embedding.weight") && rows.includes("shared by head.weight"), rows);
  await page.evaluate(() => { location.hash = "#node=embedding.weight"; });
  await page.locator("#details", { hasText: "Tied to" }).waitFor();
  assert.ok((await panelText(page, "#details")).includes("head.weight"));
});

shown("a node tells its operator, arguments, results, source and module", "overlay", async (page) => {
  const text = await panelText(page, "#details");
  for (const part of ["torch.ops.aten.layer_norm.default", "aten::layer_norm(Tensor input", "normalized_shape", "layers.1.norm.weight", "programs.py:", "self.norm(x)", "layers", "1 · Block"]) {
    assert.ok(text.includes(part), `${part} in ${text}`);
  }
  await page.locator("#details").getByRole("button", { name: "layers.1.norm.weight" }).click();
  assert.equal(await page.locator("#details h2").innerText(), "layers.1.norm.weight");
  assert.equal(new URL(page.url()).hash, "#method=model&node=layers.1.norm.weight");
}, { hash: "#node=layer_norm_2" });

shown("estimates follow the sizes that are assumed, and defaults stand below the arguments", "transformer", async (page) => {
  const details = page.locator("#details");
  assert.match(await panelText(page, "#details"), /is_causal False .* At s\d+ = 2, s\d+ = 7/);
  await tab(page, "Operators");
  assert.match(await panelText(page), /3[\d.]* kFLOP|\d+ kFLOP/);
  const before = await details.innerText();
  await page.locator("#panel .sizes input").first().fill("20");
  await page.keyboard.press("Tab");
  await details.getByText(/= 20, s\d+ = 7/).waitFor();
  assert.notEqual(await details.innerText(), before);
}, { hash: "#node=scaled_dot_product_attention" });

shown("a weight has its distribution where elements were read", "overlay", async (page) => {
  assert.match(await panelText(page, "#details"), /Elements from -?[\d.]+ to [\d.]+, mean/);
  assert.ok((await page.locator("#details .histogram rect").count()) > 10);
}, { hash: "#node=layers.1.qkv.weight" });

shown("a link leads into a subgraph", "cond", async (page) => {
  assert.equal(await page.locator("#details h2").innerText(), "sin");
  assert.equal(await page.locator(".box.selected title").textContent(), "true_graph_0/true_graph_0/sin");
}, { hash: "#method=model&node=true_graph_0/true_graph_0/sin" });

shown("a search finds names, operators, shapes, modules and source files", "transformer", async (page) => {
  const found: Readonly<Record<string, RegExp>> = { layer_norm_4: /^1 hit$/, "op:scaled_dot": /^3 hits$/, "shape:100]": /hits?$/, "module:layers.1 op:linear": /^4 hits$/, "file:programs.py": /hits$/, nothing_of_that_name: /^nothing found$/ };
  for (const [query, count] of Object.entries(found)) {
    await page.getByRole("searchbox").fill(query);
    assert.match(await page.locator("#found").innerText(), count, query);
  }
  await tab(page, "Modules"); // which is made anew when something unfolds
  await page.getByRole("searchbox").fill("layers.2.mlp.2");
  await page.getByRole("searchbox").press("Enter");
  assert.ok((await page.locator("#panel .hits [aria-current=true]").count()) === 1);
  assert.ok((await page.locator(".box.found").count()) > 0);
  assert.ok((await page.locator(".box.selected").count()) === 1);
  assert.equal(await page.locator("[role=tab][aria-selected=true]").count(), 0);
  await page.getByRole("searchbox").press("Escape");
  assert.equal(await page.locator("[role=tab][aria-selected=true]").count(), 1);
  assert.equal(await page.locator(".box.found").count(), 0);
});

shown("keys do what a mouse does", "transformer", async (page) => {
  await page.keyboard.press("Tab"); // to what skips all before the drawing
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "drawing");
  const selected = (): Promise<string | null> => page.locator(".box.selected title").textContent();
  await page.keyboard.press("ArrowDown");
  assert.match((await selected()) ?? "", /tokens|options/);
  for (let step = 0; step < 3; step++) await page.keyboard.press("ArrowDown");
  assert.ok(await page.locator("#drawing").getAttribute("aria-activedescendant"));
  await page.keyboard.press("Backspace");
  await page.keyboard.press("/");
  await page.keyboard.type("layers.0.mlp");
  await page.keyboard.press("Enter");
  const open = page.locator(".box.selected");
  const before = await open.getAttribute("aria-expanded");
  await page.locator("#drawing").focus();
  await page.keyboard.press("Enter");
  assert.notEqual(await open.getAttribute("aria-expanded"), before);
  await page.keyboard.press("?");
  assert.ok((await page.locator("dialog[open]").innerText()).includes("Licenses"));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".box.selected").count(), 0);
  await tab(page, "Modules");
  await page.locator("[role=treeitem]").first().focus();
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("role")), "treeitem");
});

shown("Esc twice at once closes the details once, and stays on the page", "transformer", async (page) => {
  await page.keyboard.press("/");
  await page.keyboard.type("layers.0.mlp");
  await page.keyboard.press("Enter");
  await page.locator(".box.selected").waitFor();
  const address = page.url().split("#")[0];
  await page.evaluate(() => {
    const target = document.querySelector("#drawing");
    for (let press = 0; press < 2; press++) target?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  });
  await page.waitForTimeout(300);
  assert.equal(page.url().split("#")[0], address);
  assert.equal(await page.locator(".box.selected").count(), 0);
  await tab(page, "Modules");
});

const AXE = readFileSync(made("../../node_modules/axe-core/axe.min.js"), "utf8");

/** Lists what axe has against a page. */
async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (what: Document, options: object) => Promise<{ violations: { id: string; nodes: { target: string[] }[] }[] }> } };
    const found = await axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target }) => target.join(" ")).join(", ")}`);
  });
}

for (const [name, options] of [
  ["", {}], ["overlay", { hash: "#node=layer_norm_2" }], ["moved", { dark: true }], ["difference", { hash: "#node=linear_7" }], ["cond", { width: 390, height: 844 }], ["methods", { dark: true, hash: "#search=op:linear" }],
] as const) {
  shown(`axe finds nothing on the page ${name === "" ? "without a program" : name}`, name, async (page) => {
    assert.deepEqual(await violations(page), []);
    for (const each of "width" in options ? [] : await page.getByRole("tab").all()) {
      await each.click();
      assert.deepEqual(await violations(page), [], (await each.textContent()) ?? "");
    }
    if (name === "") return;
    await page.evaluate(() => document.querySelector("[data-toggle=reshapes]")?.dispatchEvent(new MouseEvent("click")));
    await page.keyboard.press("?");
    assert.deepEqual(await violations(page), []);
  }, options);
}

shown("an outline tells what is drawn as text", "convnet", async (page) => {
  await page.locator("#outline li").first().waitFor({ state: "attached" });
  const lines = await page.locator("#outline li").allTextContents();
  assert.ok(lines.some((line) => line.startsWith("node 0 · conv2d 3×3, 8, from input, float32 [2, 8, 16, 16], to ")), lines.join("\n"));
  assert.equal(lines.length, await page.locator("#drawing .box").count());
});

for (const [width, height] of [[1440, 900], [390, 844]] as const) {
  shown(`texts of the drawing have 11 pixels or more at first, on a screen of ${width} × ${height}`, "deep", async (page) => {
    const sizes = await page.locator("#drawing text").evaluateAll((texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * ((text as SVGTextElement).getScreenCTM()?.a ?? 0)));
    assert.ok(sizes.length > 3 && Math.min(...sizes) >= 10.99, sizes.join());
  }, { width, height });
}

for (const [name, width, height] of ["convnet", "dense", "cond", "transformer", "work", "twice", "chain", "difference", "moved"].flatMap((each) => [[each, 1440, 900], [each, 390, 844]] as const)) {
  shown(`the whole program fits the first screen of ${width} × ${height}, and nothing stands on it: ${name}`, name, async (page) => {
    const stage = await page.locator("#drawing").boundingBox();
    assert.ok(stage !== null);
    for (const box of await page.locator("#drawing .box").all()) {
      const found = await box.boundingBox();
      assert.ok(found && found.x >= stage.x && found.x + found.width <= stage.x + stage.width && found.y >= stage.y && found.y + found.height <= stage.y + stage.height, (await box.getAttribute("aria-label")) ?? "");
    }
    const covering = await page.evaluate(() => [...document.querySelectorAll("#foot, #view")].filter((each) => each.getBoundingClientRect().bottom > (document.getElementById("drawing")?.getBoundingClientRect().top ?? 0) && each.getBoundingClientRect().top < (document.getElementById("drawing")?.getBoundingClientRect().bottom ?? 0)).length);
    assert.equal(covering, 0);
    assert.ok(await page.locator("#map").isHidden());
  }, { width, height });
}

shown("nodes that only reshape have boxes on request, which is remembered", "deep", async (page) => {
  const toggle = page.getByRole("button", { name: "Reshaping" });
  await page.evaluate(() => { location.hash = "#node=add"; });
  const boxes = page.locator(".box.small");
  assert.equal(await boxes.count(), 0);
  await toggle.click();
  assert.equal(await toggle.getAttribute("aria-pressed"), "true");
  assert.ok((await boxes.count()) > 0);
  await page.reload();
  await page.waitForSelector("body[data-state=shown]");
  assert.equal(await toggle.getAttribute("aria-pressed"), "true");
});

shown("a difference shows both sides", "difference", async (page) => {
  const changes = expectedChanges();
  const count = (kind: string): number => changes.filter(({ change }) => change === kind).length;
  const sentence = await page.locator("#sentence").innerText();
  for (const kind of ["added", "removed", "changed"]) assert.ok(sentence.includes(`${count(kind)} ${kind}`), sentence);
  const text = await panelText(page);
  for (const { name, details = [] } of changes) {
    assert.ok(text.includes(name), name);
    for (const { a, b } of details.filter(({ what }) => !what.startsWith("result"))) assert.ok(text.includes(`${a} → ${b}`), `${a} → ${b}`);
  }
  assert.ok(text.includes("embedding.weight") && text.includes("0.25"), "the largest difference of a weight");
  await page.getByRole("button", { name: "Unfold all" }).click();
  await page.getByTitle("Show everything").click();
  for (const kind of ["added", "removed"]) await elements(page, `.box:not(.group).${kind}`, count(kind));
  assert.deepEqual((await page.locator("#panel h3").allInnerTexts()).slice(0, 2), ["Classes", "Modules"]);
  await page.locator("#panel").getByRole("button", { name: "layer_norm_2" }).click();
  assert.ok((await panelText(page, "#details")).includes("eps 1e-05 0.001"));
});

shown("a difference tells classes, moved modules and weights, and keys go from one to the next", "moved", async (page) => {
  const sentence = await page.locator("#sentence").innerText();
  for (const part of ["the class of 1 module (Layer → Other)", "the place of 1 module (layers.5)", "the elements of 1 weight, by up to 25 %"]) assert.ok(sentence.includes(part), sentence);
  const text = await panelText(page);
  for (const part of ["layers.9 Layer Other", "layers.5 · Layer moved", "layers.7.up.weight 25 %"]) assert.ok(text.includes(part), text);
  const visited: string[] = [];
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press("n");
    const name = await page.locator("#details h2").innerText();
    if (visited.includes(name)) break;
    visited.push(name);
  }
  for (const part of ["5 · Layer", "9 · Layer → Other"]) assert.ok(visited.includes(part), visited.join("; "));
  await page.keyboard.press("p");
  assert.equal(await page.locator("#details h2").innerText(), visited.at(-1));
  await tab(page, "Numbers");
  await page.getByLabel("Colour by").selectOption({ label: "Changed weights" });
  await page.evaluate(() => { location.hash = "#node=layers.7.up"; });
  await page.locator(".box .number", { hasText: "25 %" }).first().waitFor();
});

for (const dark of [false, true]) {
  shown(`marks and hits are seen above the colours of operators, in the ${dark ? "dark" : "light"}`, "difference", async (page) => {
    await page.getByRole("button", { name: "Unfold all" }).click();
    await page.getByTitle("Show everything").click();
    await page.getByRole("searchbox").fill("op:layer_norm");
    const wrong = await page.evaluate(() => {
      const wanted = document.createElement("span");
      document.body.append(wanted);
      return ["added", "removed", "changed", "found"].flatMap((mark) => {
        wanted.style.color = `var(--${mark === "found" ? "found" : `${mark}-fill`})`;
        const boxes = [...document.querySelectorAll(`.box.node.${mark}:not(.derived, .open${mark === "found" ? ", .added, .removed, .changed" : ", .found"}) > rect`)];
        const fills = [...new Set(boxes.map((rect) => getComputedStyle(rect).fill))];
        return fills.length === 1 && fills[0] === getComputedStyle(wanted).color ? [] : [`${mark}: ${fills.join()}`];
      });
    });
    assert.deepEqual(wrong, []);
  }, { dark });
}

shown("an overlay colours nodes and sums modules, and what is not counted has no number", "overlay", async (page) => {
  await page.locator("#legend", { hasText: "latency [ms]" }).waitFor();
  await tab(page, "Numbers");
  await page.getByLabel("Colour by").selectOption({ label: "FLOPs (estimate)" });
  assert.doesNotMatch(await panelText(page), / 0 FLOP|layer_norm/);
  await page.getByLabel("Colour by").selectOption({ label: "latency [ms]" });
  assert.ok((await page.locator("#legend").innerText()).includes("latency [ms]"));
  const rows = await page.locator("#panel tbody tr").allInnerTexts();
  assert.ok(rows.some((row) => /^layers 0–2 · 3 × Block\s+6\.5\s/.test(row)), rows.join("\n"));
  await page.locator("#panel").getByRole("button", { name: "scaled_dot_product_attention", exact: true }).click();
  assert.ok((await page.locator(".box .number").allTextContents()).some((text) => text.trim() === "4"));
});

for (const [name, measure] of [["csv", "energy [mJ]"], ["json", "latency [ms]"], ["chrome", "chrome: GPU [ms]"], ["profiler", "profiler: CPU [ms]"]] as const) {
  shown(`numbers come from a file: ${name}`, `overlay_${name}`, async (page) => {
    await tab(page, "Numbers");
    await page.getByLabel("Colour by").selectOption({ label: measure });
    assert.match(await page.locator("#legend").innerText(), new RegExp(`${measure.replace(/[[\]]/g, "\\$&")}\\s+[\\d.]+`));
    await page.locator(".box .number").first().waitFor();
    const fills = await page.locator(".box.node > rect").evaluateAll((each) => each.map((rect) => (rect as SVGRectElement).style.fill).filter((fill) => fill !== ""));
    assert.ok(new Set(fills).size > 1, fills.join());
    assert.ok((await panelText(page)).includes("By node"));
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.equal((await page.locator("#paper h2").allTextContents()).at(-1), "Numbers");
  });
}

shown("numbers are of modules too, and names that are not there are listed", "overlay_modules", async (page) => {
  await page.locator("#legend", { hasText: "latency [ms]" }).waitFor();
  await tab(page, "Numbers");
  const text = await panelText(page);
  for (const part of ["1 of the names are not in this program: nowhere", "layers.1 7", "layer_norm 2"]) assert.ok(text.includes(part), `${part} in ${text}`);
}, { width: 1440, height: 900 });

shown("a box that the details would cover stays in sight", "convnet", async (page) => {
  await page.getByTitle("Zoom in").click();
  for (const id of await page.locator("#drawing .box.node").evaluateAll((boxes) => boxes.map((each) => each.id))) {
    await page.locator(`#${id}`).dispatchEvent("click");
    await page.waitForFunction(() => {
      const [box, stage] = [".box.selected > rect", "#drawing"].map((each) => document.querySelector(each)?.getBoundingClientRect());
      return box !== undefined && stage !== undefined && box.left >= stage.left - 1 && box.right <= stage.right + 1;
    });
    await page.locator("#drawing").focus();
    await page.keyboard.press("Escape");
  }
}, { width: 1120, height: 700 });

shown("the drawing has room beside the details, also in the frame of a notebook", "transformer", async (page) => {
  assert.ok(((await page.locator("#drawing").boundingBox())?.width ?? 0) >= 400);
  const [first, ...others] = await Promise.all((await page.getByRole("tab").all()).map((each) => each.boundingBox()));
  assert.ok(others.every((each) => each?.y === first?.y), "tabs stand in one row");
}, { hash: "#node=layer_norm_2", width: 1060, height: 640 });

shown("nothing moves by itself where less motion is wanted", "transformer", async (page) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.keyboard.press("/");
  await page.keyboard.type("linear");
  await page.keyboard.press("Enter");
  await page.getByTitle("Show everything").click();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((each) => {
    const style = getComputedStyle(each);
    return style.transitionDuration !== "0s" || style.animationName !== "none" || style.scrollBehavior !== "auto";
  }).length);
  assert.equal(moving, 0);
});

shown("pictures are saved as SVG and PNG", "transformer", async (page) => {
  for (const [button, start] of [["SVG", "<svg"], ["PNG", "\u0089PNG"]] as const) {
    const waiting = page.waitForEvent("download");
    await page.getByRole("button", { name: button }).click();
    const download = await waiting;
    const bytes = readFileSync(await download.path());
    assert.ok(bytes.subarray(0, 4).toString("latin1") === start, button);
    assert.ok(bytes.length > 10_000 && !bytes.includes("NaN"));
    if (button === "SVG") assert.match(bytes.toString(), /<tspan[^>]*font-weight="400"/);
  }
});

shown("ten thousand nodes stay few elements", "large", async (page) => {
  assert.ok((await page.locator("#drawing *").count()) < 3000);
  await page.getByRole("button", { name: "Unfold all" }).click();
  assert.ok((await page.locator("#drawing *").count()) < 6000);
  const seen = (): Promise<string | null> => page.locator("#drawing > g").getAttribute("transform");
  const before = await seen();
  await page.locator("#map").click({ position: { x: 20, y: 30 } });
  assert.notEqual(await seen(), before);
  await page.getByTitle("Show everything").click();
  assert.ok(await page.locator("#map").isHidden());
  assert.ok((await page.locator("#drawing *").count()) < 6000);
  await page.getByRole("searchbox").fill("node_9999");
  await page.getByRole("searchbox").press("Enter");
  assert.equal(await page.locator(".box.selected title").textContent(), "node_9999");
});

/** The milliseconds that `work` takes on two quiet cores. */
const QUIET = 8;

/** Returns how many times longer than on a quiet machine a page works now: the least time of some fixed work tells. */
function slowness(page: Page): Promise<number> {
  return page.evaluate((quiet) => {
    const work = (): number => {
      const start = performance.now();
      const numbers = Array.from({ length: 20_000 }, (_, index) => (index * 7919) % 20_011).sort((a, b) => a - b);
      const named = new Map(numbers.map((each) => [`key ${each}`, each]));
      const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
      for (const [key, value] of [...named].slice(0, 500)) {
        const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        rect.setAttribute("x", String(value));
        rect.setAttribute("class", key);
        group.append(rect);
      }
      return performance.now() - start;
    };
    return Math.max(1, Math.min(...Array.from({ length: 25 }, work)) / quiet);
  }, QUIET);
}

shown("ten thousand nodes are drawn in 1.5 s, and no key or movement takes 50 ms once they are unfolded", "large", async (page) => {
  assert.ok(browser !== null);
  const drawn = await browser.tasks(page, async () => {
    await page.reload();
    await page.waitForSelector("body[data-state=shown]");
  });
  const total = drawn.reduce((sum, each) => sum + each, 0);
  const slow = await slowness(page);
  assert.ok(total > 100 && total < slow * 1500, `drawn in ${total} ms, ${slow} times slower than a quiet machine`);
  await page.evaluate(() => {
    const most = { portion: 0 };
    Object.assign(window, { most });
    const layer = document.querySelector("#drawing > g");
    if (layer !== null) new MutationObserver((changes) => { most.portion = Math.max(most.portion, changes.reduce((sum, { addedNodes }) => sum + addedNodes.length, 0)); }).observe(layer, { childList: true });
  });
  await page.getByRole("button", { name: "Unfold all" }).click();
  await page.waitForTimeout(500);
  const longest: number[] = [];
  for (let run = 0; run < 2; run++) longest.push(Math.max(...await browser.tasks(page, async () => {
    await page.getByRole("searchbox").fill("");
    await page.keyboard.type("node_99", { delay: 30 });
    for (const query of ["op:relu", "shape:2", "dtype:f32", "module:layers.3", "weight:>1MB"]) await page.getByRole("searchbox").fill(query);
    for (let step = 0; step < 4; step++) await page.keyboard.press("Enter");
    await page.locator("#drawing").focus();
    for (let step = 0; step < 4; step++) await page.keyboard.press("ArrowDown");
    for (let step = 0; step < 5; step++) await page.mouse.wheel(0, 300);
    await page.waitForTimeout(300);
  })));
  const slower = Math.max(slow, await slowness(page));
  assert.ok(Math.min(...longest) < slower * 50, `the longest tasks took ${longest.join(" and ")} ms, ${slower} times slower than a quiet machine`);
  const portion = await page.evaluate(() => (window as unknown as { most: { portion: number } }).most.portion);
  assert.ok(portion > 20 && portion <= 400, `${portion} elements at once`);
});

shown("every kind of query is found from the address, too", "overlay", async (page) => {
  for (const [query, least] of [["op:linear", 10], ["shape:100", 1], ["dtype:f32", 20], ["module:layers.1", 8], ["weight:>10kB", 3]] as const) {
    await page.evaluate((text) => { location.hash = `#search=${encodeURIComponent(text)}`; }, query);
    await page.waitForFunction((text) => document.querySelector<HTMLInputElement>("#search")?.value === text, query);
    assert.ok(parseInt(await page.locator("#found").innerText()) >= least, `${query}: ${await page.locator("#found").innerText()}`);
  }
}, { hash: "#search=op:layer_norm" });

shown("a file is opened by hand, and a wrong one refused", "", async (page) => {
  await page.locator("#welcome").waitFor();
  await page.locator("#file").setInputFiles(made("programs/wrong.json"));
  await page.locator("[role=alert]").waitFor();
  assert.ok((await page.locator("[role=alert]").innerText()).includes("cannot be shown"));
  await page.locator("#file").setInputFiles(made("programs/refused.json")); // a name that no reader loads is shown, and listed
  await page.waitForSelector("body[data-state=shown]");
  assert.ok((await page.locator(".problems").innerText()).includes("problem"));
  await page.locator("#file").setInputFiles(made("programs/transformer.pt2"));
  await page.locator(".problems").waitFor({ state: "hidden" }); // of the file before
  await page.waitForSelector("body[data-state=shown]");
  const [summary] = expected("transformer.pt2");
  assert.ok(summary);
  await compare(page, summary);
  await page.locator("#file").setInputFiles(["transformer", "changed_transformer"].map((name) => made(`programs/${name}.pt2`)));
  await page.locator("#sentence").waitFor();
});

shown("files without a program tell what they are", "", async (page) => {
  for (const [name, parts] of [
    ["weights.safetensors", ["is a safetensors file", "Tensors 5", "layers.3.weight F32 [8, 4] 128"]],
    ["checkpoint.pt", ["is a checkpoint of torch.save"]],
    ["empty.pt2", ["is an empty file"]],
    ["numbers.csv", ["is a table", "--overlay"]],
    ["run.json", ["is a trace of a profiler", "--overlay"]],
    ["old.pkl", ["is a pickle"]],
    ["photo.png", ["is a picture"]],
    ["model.onnx", ["is an ONNX model", "Made by pytorch 2.13.0", "Operator sets 18", "Inputs x", "Conv 2"]],
  ] as const) {
    await page.locator("#file").setInputFiles(made(`programs/${name}`));
    await page.locator("#welcome h2", { hasText: name }).waitFor();
    const text = await panelText(page, "#welcome");
    for (const each of parts) assert.ok(text.includes(each), `${each} in ${text}`);
    assert.deepEqual(await violations(page), []);
  }
});

shown("a file that cannot be shown leaves the program on the page, and says so in a line that goes away", "convnet", async (page) => {
  const boxes = await page.locator("#drawing .box").count();
  for (const [name, message] of [["weights.safetensors", "weights.safetensors is a safetensors file"], ["notes.txt", "notes.txt cannot be shown"], ["photo.png", "photo.png is a picture"], ["wrong.json", "wrong.json cannot be shown"]] as const) {
    await page.locator("#file").setInputFiles(made(`programs/${name}`));
    await page.locator("#trouble [role=alert]", { hasText: message }).waitFor();
    for (const part of ["#panel", "#search", "#view", "#zoom"]) assert.ok(await page.locator(part).isVisible(), part);
    assert.ok(await page.locator("#welcome").isHidden());
    assert.equal(await page.locator("#drawing .box").count(), boxes);
    assert.deepEqual(await violations(page), []);
    await page.getByRole("button", { name: "Dismiss" }).click();
    assert.equal(await page.locator("[role=alert]").count(), 0);
  }
  await page.locator("#file").setInputFiles(made("programs/notes.txt"));
  await page.locator("#trouble [role=alert]").waitFor();
  await page.locator("#file").setInputFiles(made("programs/transformer.pt2"));
  await page.locator("#title", { hasText: "transformer.pt2" }).waitFor();
  assert.equal(await page.locator("[role=alert]").count(), 0);
});

shown("a weight that is found marks the node that uses it, and weights are not drawn for it", "transformer", async (page) => {
  await page.getByRole("searchbox").fill("weight:layers.1.norm.weight");
  await page.getByRole("searchbox").press("Enter");
  await page.locator("#details h2", { hasText: "layers.1.norm.weight" }).waitFor();
  assert.equal(await page.locator(".box.selected > title").textContent().then((text) => text?.split("\n")[0]), "layer_norm_2");
  assert.equal(await page.locator("[data-toggle=weights]").getAttribute("aria-pressed"), "false");
  await page.locator("#details").getByRole("button", { name: "layer_norm_2" }).click();
  assert.equal(await page.locator("#details h2").innerText(), "layer_norm_2");
});

shown("files are dropped on the page: right ones, wrong ones, and hostile ones", "", async (page) => {
  const drop = async (names: readonly string[], as = (name: string): string => name): Promise<void> => {
    const files = names.map((name) => ({ name: as(name), base64: readFileSync(made(`programs/${name}`)).toString("base64") }));
    const data = await page.evaluateHandle((given) => {
      const transfer = new DataTransfer();
      for (const { name, base64 } of given) transfer.items.add(new File([Uint8Array.from(atob(base64), (each) => each.charCodeAt(0))], name));
      return transfer;
    }, files);
    await page.evaluate(() => { document.body.dataset["state"] = "waiting"; });
    await page.dispatchEvent("body", "drop", { dataTransfer: data });
  };
  await drop(["notes.txt"]);
  await page.locator("#welcome [role=alert]", { hasText: "notes.txt cannot be shown" }).waitFor();
  await drop(["convnet.pt2"]);
  await page.waitForSelector("body[data-state=shown]");
  assert.equal(await page.locator("#title").innerText(), "convnet.pt2");
  for (const [name, message] of [["notes.txt", "neither a zip archive nor a document"], ["nested.json", "nested more than"], ["bomb.pt2", "more than the limit"], ["outside.pt2", "outside the archive"], ["wrong.json", "cannot be shown"]] as const) {
    await drop([name], (each) => `\u202e<img src=x onerror=alert(1)>${each}`);
    await page.locator("#trouble [role=alert]", { hasText: message }).waitFor();
  }
  await drop(["weights.safetensors", "convnet.pt2"], (name) => `__proto__\u202e<b>${name}`);
  await page.locator("#trouble", { hasText: "is a safetensors file" }).waitFor();
  assert.ok((await panelText(page, "#trouble")).startsWith("__proto__�<b>"));
  await drop(["transformer.pt2", "changed_transformer.pt2"]);
  await page.locator("#sentence", { hasText: "added" }).waitFor();
  assert.equal(await page.locator("img, b, [onerror]").count(), 0);
});

shown("hostile texts stay text", "", async (page) => {
  await page.locator("#file").setInputFiles(made("programs/hostile.json"));
  await page.waitForSelector("body[data-state=shown]");
  await page.getByRole("button", { name: "Unfold all" }).click();
  for (const name of ["Program", "Modules", "Operators", "Weights"]) {
    await tab(page, name);
    assert.ok((await page.locator("#panel *").count()) > 0);
  }
  for (let index = 0; index < 11; index++) {
    await page.evaluate((node) => { location.hash = `#node=${node}`; }, `node_${index}`);
    await page.locator("#details h2", { hasText: new RegExp(`^node_${index}$`) }).waitFor();
  }
  await page.getByRole("searchbox").fill("<img");
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator("img, iframe, object, embed, [onerror], [onload]").count(), 0);
  assert.equal(await page.locator("script:not([type])").count(), 1);
  const text = await page.evaluate(() => document.body.innerText);
  assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u200b]/);
  assert.equal(await page.evaluate(() => Object.hasOwn(Object.prototype, "weight")), false);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
});

shown("a phone shows one part at a time", "transformer", async (page) => {
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
  assert.ok(await page.locator("#drawing").isVisible());
  await page.locator("#places").getByRole("button", { name: "Program" }).click();
  assert.ok(await page.locator("#panel").isVisible());
  assert.ok(!(await page.locator("#drawing").isVisible()));
  await page.locator("#panel button.link").first().click();
  assert.ok(await page.locator("#drawing").isVisible());
  const details = page.locator("#places").getByRole("button", { name: /^Details: tokens/ });
  assert.equal(await page.locator("#places [aria-current=true]").innerText(), "Drawing");
  await details.click();
  assert.equal(await details.getAttribute("aria-current"), "true");
  assert.ok(await page.locator("#details h2").isVisible());
}, { width: 390, height: 844 });

/** Returns where the selected box is in the drawing, as shares of its width and height. */
async function selectedAt(page: Page): Promise<{ x: number; y: number }> {
  const [box, room] = [await page.locator("#drawing .box.selected").boundingBox(), await page.locator("#drawing").boundingBox()];
  assert.ok(box !== null && room !== null);
  return { x: (box.x + box.width / 2 - room.x) / room.width, y: (box.y + box.height / 2 - room.y) / room.height };
}

shown("a phone cuts no button and no colour at its border", "transformer", async (page) => {
  for (const each of await page.locator("#view button:visible, #legend li").all()) {
    const box = await each.boundingBox();
    assert.ok(box !== null && box.x >= 0 && box.x + box.width <= 390, await each.innerText());
  }
  assert.ok((await page.locator("#legend").evaluate((each) => each.scrollWidth - each.clientWidth)) <= 0);
}, { width: 390, height: 844 });

shown("a phone lists what a search finds, and shows the drawing with what is chosen", "transformer", async (page) => {
  await page.getByRole("searchbox").fill("op:layer_norm");
  await page.locator("#panel .hits button").first().click();
  assert.ok(await page.locator("#drawing .box.selected").isVisible());
  await page.getByRole("searchbox").fill("");
  assert.ok(await page.locator("#drawing").isVisible());
}, { width: 390, height: 844 });

shown("a step of the history is the tab and whether details are open: Back and Forward lead there, and no step does nothing", "transformer", async (page) => {
  const seen = (): Promise<string> => page.evaluate(() => {
    const details = document.getElementById("details");
    return `${document.querySelector("[role=tab][aria-selected=true]")?.textContent ?? ""} ${details?.hidden === false ? (details.querySelector("h2")?.textContent ?? "") : "-"}`;
  });
  const boxes = page.locator("#drawing .box.node");
  const [first, second] = await boxes.evaluateAll((all) => all.map((each) => each.querySelector(".title")?.textContent ?? ""));
  assert.ok(first !== undefined && second !== undefined);
  const acts: Readonly<Record<string, () => Promise<void>>> = {
    first: () => boxes.first().click(),
    second: () => boxes.nth(1).click(),
    close: () => page.keyboard.press("Escape"),
    weights: () => tab(page, "Weights"),
    modules: () => tab(page, "Modules"),
    arrow: async () => {
      await page.locator("[role=tab][aria-selected=true]").focus();
      await page.keyboard.press("ArrowRight");
    },
    ground: () => page.mouse.click(400, 690),
  };
  for (const row of ["first second close", "weights modules", "first weights close second", "first close first close", "weights first ground modules close", "first second ground arrow arrow close"]) {
    await page.goto(page.url().replace(/#.*/, `#${row.replaceAll(" ", "")}`)); // a step with no other before it
    await page.reload();
    await page.waitForSelector("body[data-state=shown]");
    const steps = [await seen()];
    for (const name of row.split(" ")) {
      await acts[name]?.();
      await page.waitForTimeout(150);
      const now = await seen();
      const kind = (text: string): string => text.replace(/ [^-].*/, " open");
      if (steps.length > 1 && now === steps.at(-2)) steps.pop();
      else if (kind(now) === kind(steps.at(-1) ?? "")) steps[steps.length - 1] = now;
      else steps.push(now);
    }
    for (const wanted of [...steps].reverse().slice(1)) {
      await page.goBack();
      await page.waitForTimeout(150);
      assert.equal(await seen(), wanted, `${row}: back`);
    }
    for (const wanted of steps.slice(1)) {
      await page.goForward();
      await page.waitForTimeout(150);
      assert.equal(await seen(), wanted, `${row}: forward`);
    }
  }
  await page.reload();
  await page.waitForSelector("body[data-state=shown]");
  assert.ok(!(await seen()).startsWith("Program"), "the tab stays");
});

shown("groups of the page look other than modules", "deep", async (page) => {
  const styles = await page.locator("#drawing .box.run .title").evaluateAll((all) => all.map((each) => getComputedStyle(each).fontStyle));
  assert.ok(styles.length > 0 && styles.every((style) => style === "italic"));
  await page.locator("#drawing .box.run").first().click({ position: { x: 60, y: 10 } });
  assert.match(await panelText(page, "#details"), /^A group of this page/);
});

shown("the weights of a difference are listed by how much they changed", "moved", async (page) => {
  await tab(page, "Weights");
  assert.match(await page.locator("#panel tbody tr", { hasText: "≠" }).first().innerText(), /layers\.7\.up\.weight[\s\S]*≠ 25 %/);
  const rows = await page.locator("#panel tbody tr").allInnerTexts();
  assert.ok(rows.findLastIndex((row) => /≠|\+/.test(row)) < rows.filter((row) => /≠|\+/.test(row)).length, "what changed is first");
});

shown("from far away boxes have strong colours, and the map shows them", "large", async (page) => {
  await page.getByRole("button", { name: "Unfold all" }).click();
  const drawn = (selector: string): Promise<number> => page.locator(selector).evaluateAll((all) => all.reduce((sum, each) => sum + (each.getAttribute("d") ?? "").length, 0));
  assert.ok((await drawn("#map .outline:not(.open)")) > 1000, "boxes smaller than a pixel are on the map");
  await page.getByTitle("Show everything").click();
  assert.ok((await drawn("#drawing .outline.arithmetic")) > 1000);
  const [fill, strong] = await page.evaluate(() => {
    const outline = document.querySelector("#drawing .outline.arithmetic");
    return [outline === null ? "" : getComputedStyle(outline).fill, outline === null ? "" : getComputedStyle(outline).getPropertyValue("--c-rule")];
  });
  assert.ok(fill !== "" && strong !== "", `${fill} ${strong}`);
});

shown("the interface says what a program changes in place", "counted", async (page) => {
  const text = await panelText(page);
  assert.match(text, /Also changes the buffer count \(add_\) changes the input seen \(mul_\)/);
  assert.match(text, /Buffers 1 \(1 element, 4 B\)/);
});

shown("the details of a module say what it takes, what it gives, and its weights", "transformer", async (page) => {
  await page.locator("#drawing .box.group").first().click();
  const text = await panelText(page, "#details");
  assert.match(text, /Takes .*float32 .*Gives .*float32 .*Weights [\d,]+ elements of parameters/);
  assert.ok(text.includes("qkv.weight float32 [96, 32]"), text);
});

shown("a phone shows the drawing as it was after another part", "transformer", async (page) => {
  for (const at of ["Details", "Program"]) {
    const before = await selectedAt(page);
    assert.ok(Math.abs(before.x - 0.5) < 0.01 && Math.abs(before.y - 0.5) < 0.2, JSON.stringify(before));
    await page.locator("#places").getByRole("button", { name: at }).click();
    await page.waitForTimeout(100);
    await page.locator("#places").getByRole("button", { name: "Drawing" }).click();
    await page.waitForTimeout(100);
    assert.deepEqual(await selectedAt(page), before);
  }
}, { width: 390, height: 844, hash: "#node=layer_norm_2" });

shown("what is opened first is in the middle once its details stand beside it", "transformer", async (page) => {
  await page.mouse.move(410, 700);
  await page.mouse.down();
  await page.mouse.move(700, 700, { steps: 4 }); // where the details will be
  await page.mouse.up();
  await page.locator("#drawing .box.group").first().dblclick();
  await page.locator("#details h2").waitFor();
  await page.waitForTimeout(200);
  const { x } = await selectedAt(page);
  assert.ok(Math.abs(x - 0.5) < 0.06, `${x}`);
}, { width: 1440, height: 900 });

if (browser !== null) {
  test("the output of a notebook shows a page in a frame, and other objects as tables", async () => {
    const { page, messages } = await browser.open(made("notebook.html"), { isFrame: true });
    const frame = page.frameLocator("iframe");
    await frame.locator(".box.input").first().click();
    assert.equal(await frame.locator("#details h2").innerText(), "tokens");
    await frame.getByRole("searchbox").fill("layer_norm_2");
    await frame.getByRole("searchbox").press("Enter");
    assert.equal(await frame.locator("#details h2").innerText(), "layer_norm_2");
    assert.ok((await page.locator("summary", { hasText: "Interface" }).count()) > 0);
    assert.deepEqual(messages, []);
    await page.close();
  });
}

shown("print is a report", "difference", async (page) => {
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const titles = await page.locator("#paper h2").allTextContents();
  assert.deepEqual(titles, ["Changes", "Program", "layer_norm_2"], "the overview, and what is open");
  const arrows = await page.locator("#paper > svg [marker-end]").evaluateAll((wires) => wires.map((wire) => wire.closest("svg")?.querySelector(wire.getAttribute("marker-end")?.slice(4, -1) ?? "") ?? null));
  assert.ok(arrows.length > 5 && !arrows.includes(null), "each wire has its arrow in the picture: that of the drawing is not displayed");
  assert.ok(await page.locator("#paper > svg").isVisible());
  assert.ok(!(await page.locator("#stage").isVisible()));
  const { width = 0, height = 0 } = (await page.locator("#paper > svg").boundingBox()) ?? {};
  const sheets = [...(await page.pdf({ preferCSSPageSize: true })).toString("latin1").matchAll(/MediaBox \[0 0 ([\d.]+) ([\d.]+)/g)].map(([, across, along]) => Number(across) > Number(along));
  assert.deepEqual([sheets[0], sheets.slice(1).includes(true)], [width > height, false], "a wide drawing lies on its sheet, beside the title");
}, { dark: true, hash: "#node=layer_norm_2" });

shown("paper has the first rows of long lists", "large", async (page) => {
  await page.getByRole("searchbox").fill("node");
  await page.locator("#panel .hits tbody tr").nth(50).waitFor();
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.ok((await page.locator("#paper tr").count()) < 50);
  assert.match(await panelText(page, "#paper"), /and [\d,]+ more/);
  const sheets = [...(await page.pdf()).toString("latin1").matchAll(/MediaBox/g)].length;
  assert.ok(sheets <= 6, `${sheets} sheets`);
});

shown("long lists show their first rows, more on request, and those that a filter leaves", "large", async (page) => {
  await page.getByRole("searchbox").fill("node");
  const rows = page.locator("#panel tbody tr");
  await rows.nth(59).waitFor();
  assert.equal(await rows.count(), 60);
  await page.locator("#panel").getByRole("button", { name: /^Show more/ }).click();
  assert.equal(await rows.count(), 160);
  await page.getByLabel("Filter the rows").fill("RELU 123");
  const left = await rows.allInnerTexts();
  assert.ok(left.length > 0 && left.length < 100 && left.every((row) => /123.*\srelu/s.test(row)), left.join("\n"));
  assert.match((await panelText(page, ".filters")).trim(), new RegExp(`^${left.length.toLocaleString("en")} of [\\d,]+$`));
  await page.getByLabel("Filter the rows").fill("no such node");
  assert.equal(await rows.count(), 0);
});

shown("boxes and frames say by how much the weights below them changed, and keys stop there", "moved", async (page) => {
  const badge = page.locator(".badge.weights", { hasText: "≠ 25 %" });
  await tab(page, "Numbers");
  await page.getByLabel("Colour by").selectOption({ label: "nothing" });
  await page.getByRole("button", { name: "Fold all", exact: true }).click();
  await badge.first().waitFor();
  assert.equal(await badge.count(), 1);
  await page.evaluate(() => { location.hash = "#node=layers.7.up"; });
  await page.locator("#details .change", { hasText: "layers.7.up.weight" }).waitFor();
  assert.match(await panelText(page, "#details .change"), /Norm Cosine layers\.7\.up\.weight 25 % 1 /);
  assert.ok((await badge.count()) >= 3, "the box, and the frames around it");
  const wanted = await page.locator("#details h2").innerText();
  await page.keyboard.press("Escape");
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press("n");
    if ((await page.locator("#details h2").innerText()) === wanted) return;
  }
  assert.fail(`no key leads to ${wanted}`);
}, { width: 1440, height: 900 });

for (const name of ["overlay", "overlay_csv", "moved", "difference"]) {
  shown(`no number stands on the text of a wire: ${name}`, name, async (page) => {
    for (const folding of ["Fold all", "Unfold all"]) {
      await page.getByRole("button", { name: folding, exact: true }).click();
      await page.waitForTimeout(200);
      const met = await page.evaluate(() => {
        const [badges, labels] = [".badge.number > rect", "text.wire-label"].map((each) => [...document.querySelectorAll(`#drawing ${each}`)].map((found) => found.getBoundingClientRect())) as [DOMRect[], DOMRect[]];
        return badges.filter((badge) => labels.some((label) => badge.left < label.right - 1 && label.left < badge.right - 1 && badge.top < label.bottom - 2 && label.top + 2 < badge.bottom)).length;
      });
      assert.equal(met, 0, folding);
    }
  }, { width: 1440, height: 900 });
}

for (const [width, height] of [[1440, 900], [390, 844]] as const) {
  shown(`the frames around what is seen are named on a screen of ${width} × ${height}, and the map spares what is selected`, "deep", async (page) => {
    const trail = page.locator("#trail");
    assert.ok(await trail.isHidden(), "all titles are seen at first");
    await page.getByRole("button", { name: "Unfold all" }).click();
    await page.evaluate(() => { location.hash = "#node=layers.7.up"; });
    await page.locator(".box.selected").waitFor();
    for (let step = 0; step < 4; step++) await page.getByTitle("Zoom in").click();
    await trail.locator("button").first().waitFor();
    const names = await trail.locator("button").allInnerTexts();
    assert.match(names.join(" › "), /layers.* › .*7 · Layer/);
    const map = page.locator("#map");
    for (let step = 0; step < 6; step++) {
      await page.locator("#drawing").focus();
      await page.keyboard.press("ArrowDown");
      await page.waitForTimeout(300);
      const covers = await page.evaluate(() => {
        const [box, cover] = [".box.selected > rect", "#map"].map((each) => document.querySelector(each)?.getBoundingClientRect());
        const isSeen = document.getElementById("map")?.matches(".gone, [hidden]") === false;
        return isSeen && box !== undefined && cover !== undefined && box.left < cover.right && cover.left < box.right && box.top < cover.bottom && cover.top < box.bottom;
      });
      assert.ok(!covers, `step ${step}`);
    }
    assert.ok(await map.isVisible());
    await page.keyboard.press("m");
    assert.ok(await map.isHidden());
    await page.keyboard.press("m");
    await trail.locator("button").first().click();
    assert.equal(await page.locator("#details h2").textContent(), names[0]);
  }, { width, height });
}

shown("what a finger touches on a phone is 24 pixels high or more", "difference", async (page) => {
  for (const place of ["Drawing", "Program", "Details"]) {
    await page.locator("#places").getByRole("button", { name: place }).click();
    const small = await page.locator("button:visible, select:visible, input:visible, [role=treeitem] .row:visible").evaluateAll((all) => all.flatMap((each) => {
      const { width, height } = each.getBoundingClientRect();
      return height < 24 || width < 12 ? [`${each.textContent}: ${width} × ${height}`] : [];
    }));
    assert.deepEqual(small, []);
  }
}, { width: 390, height: 844, hash: "#node=layer_norm_2" });

shown("what a finger touches in a drawing is 24 pixels high and wide or more", "work", async (page) => {
  for (let round = 0; round < 2; round++) {
    const sizes = await page.locator("#drawing .box, #drawing .passed").evaluateAll((all) => all.map((each) => {
      const { width, height } = each.getBoundingClientRect();
      return { name: each.getAttribute("aria-label"), width, height };
    }));
    assert.ok(sizes.length > 5);
    for (const { name, width, height } of sizes) assert.ok(height >= 24 && width >= 24, `${name}: ${width} × ${height}`);
    await page.getByRole("button", { name: "Reshaping" }).click();
  }
}, { width: 390, height: 844 });

for (const width of [1440, 1000, 720]) {
  shown(`tabs stand apart in a window of ${width} pixels`, "difference", async (page) => {
    const places = await page.locator("#tabs [role=tab]").evaluateAll((all) => all.map((each) => each.getBoundingClientRect().toJSON() as DOMRect));
    assert.ok(places.length === 6 && (width < 1200 || new Set(places.map(({ top }) => top)).size === 1), "in one row where there is room");
    places.slice(1).forEach(({ left, top }, index) => { assert.ok(top > (places[index]?.top ?? 0) || left >= (places[index]?.right ?? 0) + 6, `tab ${index + 1}`); });
  }, { width, height: width === 720 ? 450 : 900 });
}

shown("what is chosen is seen with few colours, too", "transformer", async (page) => {
  await page.emulateMedia({ forcedColors: "active" });
  for (const selector of ["#tabs [role=tab]", "#places [data-at]"]) {
    const colours = await page.locator(selector).evaluateAll((all) => all.map((each) => getComputedStyle(each).backgroundColor));
    assert.equal(new Set(colours).size, 2, colours.join());
  }
});
