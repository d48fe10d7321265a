/** The page in the package is what `make web` makes, small, and allows itself nothing. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { execPath } from "node:process";
import { test } from "node:test";

import { made, PAGE } from "./browser.js";

const page = readFileSync(PAGE, "utf8");

test("the page in the package is current", () => {
  const path = made("current.html");
  mkdirSync(dirname(path), { recursive: true });
  execFileSync(execPath, [join(made(""), "../../bundle.js"), path]);
  assert.ok(readFileSync(path, "utf8") === page, "make web makes another page: run it, and commit it");
});

test("the page without a program is below 400 kB", () => {
  assert.ok(page.length < 400_000);
});

test("a policy allows the page's own script and style alone, and there is one place for data", () => {
  const [, policy = ""] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
  const digest = (text = ""): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const [, style] = /<style>(.*?)<\/style>/s.exec(page) ?? [];
  const scripts = [...page.matchAll(/<script>(.*?)<\/script>/gs)].map(([, script]) => digest(script));
  assert.equal(scripts.length, 1);
  assert.deepEqual(policy.split("; "), [
    "default-src 'none'",
    `script-src ${scripts.join()}`,
    `style-src ${digest(style)}`,
    "img-src data: blob:",
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ]);
  assert.equal(page.split("\n<!-- graphwire:data -->\n").length, 2);
});

test("the page has the licenses of everything in it", () => {
  const [, licenses = ""] = /<script type="text\/plain" id="licenses">(.*?)<\/script>/s.exec(page) ?? [];
  for (const name of ["graphwire", "@noble/hashes", "cborg"]) assert.ok(licenses.includes(`${name}\n\n`), name);
});
