/** Files on a disk, for Node. */

import { constants } from "node:fs";
import { lstat, open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

import { openFile, type GraphwireFile, type OpenOptions } from "./files.js";
import { GraphwireError } from "./errors.js";
import type { ByteSource } from "./source.js";
import type { Resolver } from "./stores.js";

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

/**
 * Opens files below a folder, for weights that are not in the program's file. It follows no symbolic links. The files are read into
 * memory in parts, and opened for each part.
 */
export function folderResolver(folder: string): Resolver {
  return async (location) => {
    let path = folder;
    let stat = null;
    for (const name of location.split("/")) {
      path = join(path, name);
      stat = await lstat(path).catch(() => null);
      if (stat === null || stat.isSymbolicLink()) return null;
    }
    if (stat?.isFile() !== true) return null;
    const { dev, ino, size } = stat;
    return {
      size,
      read: async (offset, length) => {
        const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
        try {
          const now = await handle.stat();
          if (now.dev !== dev || now.ino !== ino) throw new GraphwireError("source", "the file was replaced while it was read", location);
          return await (await handleSource(handle)).read(offset, length);
        } finally {
          await handle.close();
        }
      },
    };
  };
}
