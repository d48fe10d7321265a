/** Where bytes come from: a buffer, a `Blob` or `File`, a URL that supports range requests, or anything with `size` and `read`. */

import { GraphwireError, messageOf } from "./errors.js";

/** Bytes that can be read in parts. */
export interface ByteSource {
  /** The number of bytes. */
  readonly size: number;
  /** Reads `length` bytes from `offset` on. The range is within the size. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** The bytes of a buffer. */
export function bufferSource(buffer: ArrayBuffer | Uint8Array): ByteSource {
  const bytes = buffer instanceof Uint8Array ? buffer : new Uint8Array(buffer);
  return {
    size: bytes.length,
    read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
  };
}

/** The bytes of a `Blob`, such as a `File` that a user chose. */
export function blobSource(blob: Blob): ByteSource {
  return {
    size: blob.size,
    read: async (offset, length) => new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer()),
  };
}

/**
 * The bytes behind a URL, whose server must support range requests. The first request fetches the end of the file, where the
 * directory of an archive is.
 */
export async function urlSource(url: string | URL, options: { fetch?: typeof fetch; tail?: number } = {}): Promise<ByteSource> {
  const send = options.fetch ?? fetch;
  const request = async (range: string): Promise<Response> => {
    let answer: Response;
    try {
      answer = await send(url, { headers: { Range: range } });
    } catch (error) {
      throw new GraphwireError("source", `the request failed: ${messageOf(error)}`, String(url), { cause: error });
    }
    if (answer.status !== 206) {
      await answer.body?.cancel();
      const what = answer.ok ? "the server does not support range requests" : `the server answers ${answer.status}`;
      throw new GraphwireError("source", what, String(url));
    }
    return answer;
  };
  const first = await request(`bytes=-${options.tail ?? 4096}`);
  const [, start = "", end = "", total = ""] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(first.headers.get("Content-Range") ?? "") ?? [];
  const tail = new Uint8Array(await first.arrayBuffer());
  const size = Number(total);
  const tailStart = Number(start);
  if (total === "" || Number(end) + 1 !== size || tail.length !== size - tailStart) {
    throw new GraphwireError("source", "the server does not state the size of the file", String(url));
  }
  return {
    size,
    read: async (offset, length) => {
      if (length === 0) return new Uint8Array(0);
      if (offset >= tailStart) return tail.subarray(offset - tailStart, offset - tailStart + length);
      const answer = await request(`bytes=${offset}-${offset + length - 1}`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (bytes.length !== length) {
        throw new GraphwireError("source", `the server sent ${bytes.length} bytes instead of ${length}`, String(url));
      }
      return bytes;
    },
  };
}
