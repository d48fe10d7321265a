/** Files behind a URL, in memory and in a browser: what is read of them, and what is not. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { inspect, openFile, urlSource } from "graphwire-js";
import { chromium } from "playwright-core";

import { references } from "./references.js";
import { serve } from "./server.js";

const rows = (): { path: string; inspection: unknown }[] => references("inspections");

test("a summary of a file behind a URL reads no weights, and a tensor only its own record", async () => {
  const path = references<string>("large")[0] ?? "";
  const bytes = readFileSync(path);
  const server = await serve(() => bytes);
  try {
    const file = await openFile(await urlSource(`${server.url}/large.pt2`));
    const { methods } = await inspect(file, path);
    assert.equal(methods[0]?.summary.parameters.count, 3);
    const weights = [...(file.archive?.records.values() ?? [])].filter(({ name }) => /weight_\d+$/.test(name) && name.startsWith("data/"));
    assert.ok(weights.length > 1 && weights.every(({ size }) => size >= 1 << 20));
    const overlaps = (offset: number, size: number): boolean =>
      server.sent.some(([, start, end]) => start < offset + size && end > offset + 200);
    assert.ok(weights.every(({ headerOffset, size }) => !overlaps(headerOffset, size)));
    const read = server.sent.reduce((sum, [, start, end]) => sum + end - start, 0);
    assert.ok(read < 64 << 10, `${read} bytes of ${bytes.length}`);
    assert.ok(server.sent.length <= 8, `${server.sent.length} requests`);
    const [name = ""] = (await file.payloads()).weights.keys();
    const { data, form } = await file.tensor(name);
    assert.equal(form, "exact");
    assert.equal(data.byteLength, 1 << 20);
    assert.equal(weights.filter(({ headerOffset, size }) => overlaps(headerOffset, size)).length, 1);
  } finally {
    server.close();
  }
});

test("a server without range requests is refused", async () => {
  const server = await serve(() => new Uint8Array(100), false);
  try {
    await assert.rejects(urlSource(`${server.url}/x.pt2`), { kind: "source" });
  } finally {
    server.close();
  }
});

const LIES: Readonly<Record<string, (start: number, end: number) => Partial<{ body: number; range: string; tag: string }>>> = {
  "more bytes than were asked for": (start, end) => ({ body: end - start + 1 }),
  "bytes without end": () => ({ body: Infinity }),
  "fewer bytes": (start, end) => ({ body: end - start - 1 }),
  "another range": (start, end) => ({ range: `bytes ${start + 1}-${end}/9000` }),
  "no range": () => ({ range: "" }),
  "a file of another size": (start, end) => ({ range: `bytes ${start}-${end - 1}/9001` }),
  "a size that no number has": (start, end) => ({ range: `bytes ${start}-${end - 1}/9007199254740993000` }),
  "another file": () => ({ tag: "other" }),
};

for (const [lie, told] of Object.entries(LIES)) {
  for (const when of [0, 1]) {
    if (when === 0 && ["another file", "a file of another size"].includes(lie)) continue;
    test(`a server that sends ${lie} in its answer ${when} is refused`, async () => {
      let answers = 0;
      const send = (_: unknown, options?: RequestInit): Promise<Response> => {
        const [, from = "", to = ""] = /^bytes=(\d*)-(\d*)$/.exec(new Headers(options?.headers).get("Range") ?? "") ?? [];
        const [start, end] = from === "" ? [9000 - Number(to), 9000] : [Number(from), Number(to) + 1];
        const { body = end - start, range = `bytes ${start}-${end - 1}/9000`, tag = "one" } = answers++ === when ? told(start, end) : {};
        let left = body;
        const stream = new ReadableStream<Uint8Array>({
          pull(controller) {
            const size = Math.min(left, 1 << 10);
            if (size > 0) controller.enqueue(new Uint8Array(size));
            left -= size;
            if (left <= 0) controller.close();
          },
        });
        return Promise.resolve(new Response(stream, { status: 206, headers: { "Content-Range": range, ETag: tag } }));
      };
      await assert.rejects(
        async () => (await urlSource("http://x.example/", { fetch: send })).read(100, 1000),
        { name: "GraphwireError", kind: "source" },
      );
    });
  }
}

test("buffers and blobs are opened like files", async () => {
  const { path } = rows()[0] ?? { path: "" };
  const bytes = readFileSync(path);
  const inspections = [bytes, new Blob([bytes]), bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)].map(
    async (what) => inspect(await openFile(what), path),
  );
  const [one, ...others] = await Promise.all(inspections);
  for (const other of others) assert.deepStrictEqual(other, one);
});

const BROWSER = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const PAGE = `<!doctype html><script type="importmap">{"imports": {
  "cborg": "/node_modules/cborg/cborg.js",
  "@noble/hashes/": "/node_modules/@noble/hashes/"}}</script>
<pre id="found"></pre>
<script type="module">
  import { openFile } from "/dist/index.js";
  const bytes = await (await fetch("/model.pt2")).blob();
  const file = await openFile(new File([bytes], "model.pt2"));
  const { graph } = (await file.program()).graph_module;
  document.getElementById("found").textContent = graph.nodes.map((node) => node.target).join(" ");
</script>`;

test("a page in a browser opens a File and lists its nodes", { skip: existsSync(BROWSER) ? false : `no ${BROWSER}` }, async () => {
  const { path } = rows().find((row) => row.path.endsWith("2.13.0/linear.pt2")) ?? { path: "" };
  const server = await serve((name) => (name === "/index.html" ? Buffer.from(PAGE) : name === "/model.pt2" ? path : `.${name}`));
  const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const page = await browser.newPage();
    await page.goto(`${server.url}/index.html`);
    await page.waitForFunction(() => document.getElementById("found")?.textContent !== "");
    assert.match((await page.textContent("#found")) ?? "", /^torch\.ops\.aten\.linear\.default/);
  } finally {
    await browser.close();
    server.close();
  }
});
