/** Measures how long pages take until their program is drawn, from the start of the navigation. */

import { expected, made, openBrowser } from "./browser.js";

const RUNS = 5;
const PAGES = { transformer: "transformer.pt2", chain: "chain.pt2", large: "large.json" } as const;

const browser = await openBrowser();
if (browser === null) throw new Error("there is no Chromium (CHROMIUM is its path)");
for (const [name, file] of Object.entries(PAGES)) {
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const { page } = await browser.open(made(`${name}.html`));
    times.push(await page.evaluate(() => performance.getEntriesByName("graphwire shown")[0]?.startTime ?? NaN));
    await page.close();
  }
  const [median = NaN] = times.sort((a, b) => a - b).slice(Math.floor(RUNS / 2));
  console.log(`${(expected(file)[0]?.nodes ?? 0).toLocaleString("en")} nodes: ${Math.round(median)} ms (median of ${RUNS})`);
}
await browser.close();
