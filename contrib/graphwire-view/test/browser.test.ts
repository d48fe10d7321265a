/** The page in Chromium shows what `graphwire inspect --json` prints. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { expected, openBrowser } from "./browser.js";

const browser = await openBrowser();

if (browser === null) {
  console.log("test-web: the tests in a browser are skipped, since there is no Chromium (CHROMIUM is its path)");
} else {
  test("a program is shown", async () => {
    const page = await browser.show("transformer.pt2");
    assert.ok((await page.locator("#panel").innerText()).includes("logits"));
    assert.ok((await page.locator(".box.module").count()) > 0);
    const [method] = expected("transformer.pt2").methods;
    await page.getByRole("tab", { name: "Weights" }).click();
    assert.equal(await page.locator("#panel tbody tr").count(), Number(method?.summary.parameters.count));
    await page.close();
    assert.deepEqual(browser.messages, []);
  });

  test.after(() => browser.close());
}
