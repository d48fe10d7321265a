/** Opens pages with programs in Chromium. */

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { env } from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium, type Page } from "playwright-core";
import type { Inspection } from "graphwire-js";

/** Where `make_pages.py` wrote. */
const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../pages");
export const PAGE = join(FOLDER, "../../../../src/core/graphwire/viewer.html");
const USUAL = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const CHROMIUM = env["CHROMIUM"] ?? USUAL.find((path) => existsSync(path)) ?? "";

export function made(name: string): string {
  return join(FOLDER, name);
}

function read(name: string): unknown {
  return JSON.parse(readFileSync(made(name), "utf8"));
}

/** A summary as JSON has it: integers are numbers, maps are objects. */
export interface Expected {
  readonly name: string;
  readonly nodes: number;
  readonly operators: Readonly<Record<string, number>>;
  readonly symbols: readonly { readonly name: string; readonly label: string }[];
  readonly guards: readonly string[];
  readonly parameters: { readonly count: number };
  readonly buffers: { readonly count: number };
  readonly constants: { readonly count: number };
  readonly modules: readonly { readonly name: string; readonly type: string }[];
  readonly interface: { readonly inputs: readonly ExpectedTree[]; readonly keywords: readonly ExpectedTree[]; readonly output: ExpectedTree };
}

export interface ExpectedTree {
  readonly name: string;
  readonly leaf: string;
  readonly children: readonly ExpectedTree[];
}

/** Returns what `graphwire inspect --json` prints about the methods of a program. */
export function expected(name: string): readonly Expected[] {
  const found = (read("expected.json") as Record<string, Inspection | undefined>)[name];
  if (found === undefined) throw new Error(`there is no program ${name}`);
  return found.methods.map(({ summary }) => summary as unknown as Expected);
}

export interface ExpectedChange {
  readonly change: string;
  readonly name: string;
  readonly module: string;
  readonly details?: readonly { readonly what: string; readonly a: string; readonly b: string }[];
}

/** Returns the nodes that `graphwire diff --json` lists. */
export function expectedChanges(): readonly ExpectedChange[] {
  const { programs } = read("differences.json") as { programs: Record<string, { nodes: readonly ExpectedChange[] }> };
  return Object.values(programs).flatMap(({ nodes }) => nodes);
}

export interface Shown {
  /** What the page wrote to the console, and what it asked for from elsewhere. */
  readonly messages: readonly string[];
  readonly page: Page;
}

export interface Browser {
  /** Opens a page that Python made, or the viewer without a program. */
  open(path: string, options?: { readonly hash?: string; readonly width?: number; readonly height?: number; readonly dark?: boolean; readonly scale?: number; readonly isFrame?: boolean }): Promise<Shown>;
  /** Returns the milliseconds of processor time of each task that a page runs while something is done. */
  tasks(page: Page, act: () => Promise<void>): Promise<number[]>;
  /** Opens an address, and waits until it is loaded. */
  visit(url: string, width: number): Promise<Page>;
  close(): Promise<void>;
}

/** Starts Chromium; null if there is none. */
export async function openBrowser(): Promise<Browser | null> {
  if (!existsSync(CHROMIUM)) return null;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  return {
    open: async (path, { hash = "", width = 1280, height = 720, dark = false, scale = 1, isFrame = false } = {}) => {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", deviceScaleFactor: scale });
      const messages: string[] = [];
      page.on("console", (message) => messages.push(message.text()));
      page.on("pageerror", (error) => messages.push(error.message));
      page.on("dialog", (dialog) => {
        messages.push(dialog.message());
        void dialog.dismiss();
      });
      page.on("request", (request) => {
        if (!/^(blob|data):/.test(request.url()) && !request.isNavigationRequest()) messages.push(request.url());
      });
      await page.goto(pathToFileURL(path).href + hash);
      if (isFrame) return { page, messages };
      await page.waitForSelector("body[data-place]");
      if (path !== PAGE) await page.waitForSelector("body[data-state=shown]");
      return { page, messages };
    },
    tasks: async (page, act) => {
      await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline"] });
      await act();
      const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: readonly { ph: string; name: string; tid: number; pid: number; ts: number; dur?: number; tdur?: number; args: { name?: string } }[] };
      const pages = new Set(traceEvents.flatMap(({ name, args, pid, tid }) => (name === "thread_name" && args.name === "CrRendererMain" ? [`${pid} ${tid}`] : [])));
      const threads = new Map<string, { readonly end: number; readonly tasks: number[] }>();
      for (const { pid, tid, ts, dur = 0, tdur = 0 } of traceEvents.filter(({ ph }) => ph === "X").sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0))) {
        const thread = `${pid} ${tid}`;
        const { end, tasks } = threads.get(thread) ?? { end: 0, tasks: [] };
        if (!pages.has(thread) || ts < end) continue; // what is inside another one is counted there
        threads.set(thread, { end: ts + dur, tasks: [...tasks, tdur / 1000] });
      }
      const sum = ({ tasks }: { readonly tasks: readonly number[] }): number => tasks.reduce((total, each) => total + each, 0);
      return [...threads.values()].sort((a, b) => sum(b) - sum(a))[0]?.tasks ?? []; // that of the page works most
    },
    visit: async (url, width) => {
      const page = await browser.newPage({ viewport: { width, height: 720 } });
      await page.goto(url);
      return page;
    },
    close: () => browser.close(),
  };
}
