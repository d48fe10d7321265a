/** Writes the page: one HTML file with its style and script, which a policy allows by their digests alone. */

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const PACKAGES = ["@noble/hashes", "cborg"];
const TARGET = ["chrome113", "firefox113", "safari16.4"];

/** Leaves out the modules of cborg of which nothing is used: they only define, but its package does not say so. */
const definitions = {
  name: "definitions",
  setup(build) {
    build.onResolve({ filter: /^(cborg$|\.)/ }, async ({ path, pluginData, ...from }) => {
      if (pluginData !== undefined || (path !== "cborg" && !from.importer.includes("/node_modules/cborg/"))) return undefined;
      return { ...(await build.resolve(path, { ...from, pluginData: "known" })), sideEffects: false };
    });
  },
};

/** Returns what esbuild makes of a file of the page. */
async function bundled(entry) {
  const { outputFiles } = await build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: "iife",
    legalComments: "none",
    target: TARGET,
    plugins: [definitions],
  });
  return outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

/** Returns the licenses of everything in the page. */
function licenses() {
  const own = readFileSync(join(HERE, "../../LICENSE"), "utf8").trim();
  const others = PACKAGES.map((name) => {
    const folders = [join(HERE, "node_modules", name), join(HERE, "../graphwire-js/node_modules", name)];
    const [text] = folders.flatMap((folder) => ["LICENSE", "LICENSE.md"].flatMap((file) => readIfThere(join(folder, file))));
    if (text === undefined) throw new Error(`${name} has no license`);
    return [name, text.trim()];
  });
  const texts = [...new Set(others.map(([, text]) => text))]; // packages of one text share it
  const named = texts.map((text) => [...others.filter(([, each]) => each === text).map(([name]) => name), text].join("\n\n"));
  return [`graphwire\n\n${own}`, ...named].join("\n\n\n");
}

function readIfThere(path) {
  try {
    return [readFileSync(path, "utf8")];
  } catch {
    return [];
  }
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function digest(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** Returns the page. */
export async function page() {
  const [script, style] = [await bundled("src/page/main.ts"), await bundled("src/page/style.css")];
  const policy = [
    "default-src 'none'",
    `script-src ${digest(script)}`,
    `style-src ${digest(style)}`,
    "img-src data: blob:",
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const notices = `<script type="text/plain" id="licenses">${escaped(licenses())}</script>`;
  const parts = { policy, style, script, licenses: notices };
  const template = readFileSync(join(HERE, "src/page/page.html"), "utf8");
  return template.replace(/<!-- (policy|style|script|licenses) -->/g, (_, part) => parts[part]);
}

if (argv[2] !== undefined) writeFileSync(argv[2], await page());
