/** A server of files that supports range requests, and notes what it sends. */

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A range of bytes that the server sent. */
export type Sent = readonly [path: string, start: number, end: number];

export interface Server {
  readonly url: string;
  readonly sent: Sent[];
  close(): void;
}

const TYPES: Readonly<Record<string, string>> = { js: "text/javascript", html: "text/html" };

/** Serves what `find` returns for a path: bytes, or the path of a file. */
export async function serve(find: (path: string) => Uint8Array | string, ranges = true): Promise<Server> {
  const sent: Sent[] = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "", "http://localhost").pathname;
    const found = find(path);
    if (typeof found === "string" && !existsSync(found)) {
      response.writeHead(404).end();
      return;
    }
    const bytes = typeof found === "string" ? readFileSync(found) : found;
    const [, from = "", to = ""] = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
    response.setHeader("Content-Type", TYPES[path.slice(path.lastIndexOf(".") + 1)] ?? "application/octet-stream");
    if (!ranges || (from === "" && to === "")) {
      response.end(bytes);
      return;
    }
    const start = from === "" ? Math.max(0, bytes.length - Number(to)) : Number(from);
    const end = from === "" || to === "" ? bytes.length : Math.min(bytes.length, Number(to) + 1);
    sent.push([path, start, end]);
    response.statusCode = 206;
    response.setHeader("Content-Range", `bytes ${start}-${end - 1}/${bytes.length}`);
    response.end(bytes.subarray(start, end));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, sent, close: () => server.close() };
}
