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
  const place = String(url);
  /** Asks for a range, and returns the bytes, where they begin, and the size of the file. No more than `most` bytes are read. */
  const request = async (range: string, most: number): Promise<Answer> => {
    let answer: Response;
    try {
      answer = await send(url, { headers: { Range: range } });
    } catch (error) {
      throw new GraphwireError("source", `the request failed: ${messageOf(error)}`, place, { cause: error });
    }
    if (answer.status !== 206) {
      await answer.body?.cancel();
      const what = answer.ok ? "the server does not support range requests" : `the server answers ${answer.status}`;
      throw new GraphwireError("source", what, place);
    }
    const [, ...stated] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.headers.get("Content-Range") ?? "") ?? [];
    const [start = 0, end = 0, size = 0] = stated.map(Number);
    if (stated.length === 0 || start > end || end >= size || !Number.isSafeInteger(size)) {
      await answer.body?.cancel();
      throw new GraphwireError("source", "the server does not state the size of the file", place);
    }
    return { bytes: await bodyOf(answer, most, place), start, size, tag: answer.headers.get("ETag") };
  };
  const most = options.tail ?? 4096;
  const { bytes: tail, start: tailStart, size, tag } = await request(`bytes=-${most}`, most);
  if (tail.length !== size - tailStart) throw new GraphwireError("source", "the server sends other bytes than it states", place);
  return {
    size,
    read: async (offset, length) => {
      if (length === 0) return new Uint8Array(0);
      if (offset >= tailStart) return tail.subarray(offset - tailStart, offset - tailStart + length);
      const found = await request(`bytes=${offset}-${offset + length - 1}`, length);
      if (found.size !== size || found.tag !== tag) throw new GraphwireError("source", "the file changed while it was read", place);
      if (found.start !== offset || found.bytes.length !== length) {
        throw new GraphwireError("source", `the server sent ${found.bytes.length} bytes instead of ${length}`, place);
      }
      return found.bytes;
    },
  };
}

/** What a server answers to the request for a range. */
interface Answer {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly size: number;
  /** What changes with the file; null if the server does not tell. */
  readonly tag: string | null;
}

/** Reads the body of an answer, and stops where it has more bytes than were asked for. */
async function bodyOf(answer: Response, most: number, place: string): Promise<Uint8Array> {
  const reader = answer.body?.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true as const, value: undefined };
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > most) {
      await reader?.cancel();
      throw new GraphwireError("source", `the server sends more than the ${most} bytes that were asked for`, place);
    }
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
