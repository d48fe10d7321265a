/** Takes the pictures of the documentation. */

import { join } from "node:path";

import type { Page } from "playwright-core";

import { made, openBrowser, type Browser } from "./browser.js";

interface Picture {
  readonly name: string;
  readonly page: string;
  readonly options: Parameters<Browser["open"]>[1];
  readonly use?: (page: Page) => Promise<void>;
}

const PICTURES: readonly Picture[] = [
  { name: "view", page: "overlay", options: { hash: "#node=layer_norm_2", width: 1440, height: 760 }, use: async (page) => { await page.locator("#panel").evaluate((panel) => { panel.scrollTop = 0; }); } },
  { name: "difference", page: "difference", options: { hash: "#node=linear_7", width: 1320, scale: 2 } }, // the README's
  {
    name: "overlay",
    page: "overlay",
    options: { dark: true },
    use: async (page) => {
      await page.getByRole("tab", { name: "Numbers" }).click();
      await page.getByLabel("Colour by").selectOption({ label: "FLOPs (estimate)" });
    },
  },
  { name: "phone", page: "cond", options: { width: 390, height: 760 } },
];

const browser = await openBrowser();
if (browser === null) throw new Error("there is no Chromium (CHROMIUM is its path)");
for (const { name, page: file, options, use } of PICTURES) {
  const { page } = await browser.open(made(`${file}.html`), { width: 1180, height: 660, ...options });
  await use?.(page);
  await page.screenshot({ path: join(made(""), `../../../../docs/images/${name}.png`) });
  await page.close();
}
await browser.close();
