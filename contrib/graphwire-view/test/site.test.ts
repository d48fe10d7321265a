/** The documentation's site in Chromium, from a server as a reader has it: `make site` builds it before. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { after, test } from "node:test";

import { made, openBrowser } from "./browser.js";

const SITE = made("../../../../build/site");
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml" };
const PHONE = 360;

// The first one listed is the newest, to which the site's first page leads.
const [version = ""] = (JSON.parse(readFileSync(join(SITE, "versions.json"), "utf8")) as { version: string }[]).map((each) => each.version);
const names = readdirSync(join(SITE, version), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith("index.html"));

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname);
  try {
    const file = join(SITE, path.endsWith("/") ? `${path}index.html` : path);
    const content = readFileSync(file);
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`;

const browser = await openBrowser();
after(async () => {
  await browser?.close();
  server.close();
});

if (browser !== null) {
  test("the search of the site finds what is typed, and a result leads to it", async () => {
    const page = await browser.visit(address, 1280);
    await page.getByPlaceholder("Search").first().click();
    await page.keyboard.type("content hash");
    const found = page.locator(".md-search-result__item a", { has: page.getByRole("heading", { name: "Content hash", exact: true }) });
    await found.first().click();
    await page.waitForURL(`${address}${version}/content-hash/**`);
    assert.match(await page.locator("article h1").innerText(), /^Content hash/);
    await page.close();
  });

  test("no page of the site is wider than a phone", async () => {
    const page = await browser.visit(address, PHONE);
    const wide: string[] = [];
    for (const name of names) {
      await page.goto(`${address}${version}/${name}`);
      // Tables and code scroll in a container of their own; pictures are not cut at all.
      const widths = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("article img")].map((each) => each === document.documentElement ? each.scrollWidth : each.getBoundingClientRect().right));
      if (Math.max(...widths) > PHONE) wide.push(`${name}: ${String(Math.max(...widths))}`);
    }
    assert.ok(names.length > 50);
    assert.deepEqual(wide, []);
    await page.close();
  });
}
