/** Opens pages with programs in Chromium. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { env } from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { deflateRawSync } from "node:zlib";

import { chromium, type Page } from "playwright-core";
import type { Inspection } from "graphwire-js";

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../pages");
const PAGE = join(FOLDER, "../../../../src/core/graphwire/viewer/page.html");
const CHROMIUM = env["CHROMIUM"] ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path)) ?? "";

/** Returns what `graphwire inspect --json` prints about a program. */
export function expected(name: string): Inspection {
  const found = (JSON.parse(readFileSync(join(FOLDER, "expected.json"), "utf8")) as Record<string, Inspection>)[name];
  if (found === undefined) throw new Error(`there is no program ${name}`);
  return found;
}

export interface Browser {
  /** What pages wrote to the console. */
  readonly messages: readonly string[];
  show(...names: string[]): Promise<Page>;
  close(): Promise<void>;
}

/** Starts Chromium; null if there is none. */
export async function openBrowser(): Promise<Browser | null> {
  if (!existsSync(CHROMIUM)) return null;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const messages: string[] = [];
  return {
    messages,
    show: async (...names) => {
      const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
      page.on("console", (message) => messages.push(message.text()));
      page.on("pageerror", (error) => messages.push(error.message));
      await page.goto(pathToFileURL(written(names)).href);
      await page.waitForSelector("body[data-state=shown]");
      return page;
    },
    close: () => browser.close(),
  };
}

/** Writes a page with programs, and returns its path. */
function written(names: readonly string[]): string {
  const blocks = names.map((name, index) => {
    const data = deflateRawSync(readFileSync(join(FOLDER, "programs", name))).toString("base64");
    return `<script type="application/octet-stream" id="graphwire-file-${index}">${data}</script>`;
  });
  const path = join(FOLDER, `${names.join("-")}.html`);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path, readFileSync(PAGE, "utf8").replace("<!-- graphwire:data -->", blocks.join("\n")));
  return path;
}
