/** Files on a disk, for Node. */

import { open, type FileHandle } from "node:fs/promises";

import { openFile, type GraphwireFile, type OpenOptions } from "./files.js";
import { GraphwireError } from "./errors.js";
import type { ByteSource } from "./source.js";

/** The bytes of an open file. */
export async function handleSource(handle: FileHandle): Promise<ByteSource> {
  const { size } = await handle.stat();
  return {
    size,
    read: async (offset, length) => {
      const found = new Uint8Array(length);
      for (let at = 0; at < length; ) {
        const { bytesRead } = await handle.read(found, at, length - at, offset + at);
        if (bytesRead === 0) throw new GraphwireError("source", "the file became shorter");
        at += bytesRead;
      }
      return found;
    },
  };
}

/** Opens a file on a disk, and calls `use` with it. The file is closed when the promise of `use` settles. */
export async function withPath<T>(path: string, use: (file: GraphwireFile) => Promise<T>, options: OpenOptions = {}): Promise<T> {
  const handle = await open(path);
  try {
    return await use(await openFile(await handleSource(handle), options));
  } finally {
    await handle.close();
  }
}
