/** CRC-32, SHA-256 and BLAKE2b of bytes. */

import { blake2b } from "@noble/hashes/blake2.js";
import { sha256 } from "@noble/hashes/sha2.js";

const TABLE = Int32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** Continues a CRC-32 (0 at the beginning) with more bytes. */
export function crc32(bytes: Uint8Array, before = 0): number {
  let value = ~before;
  for (let at = 0; at < bytes.length; at++) value = (TABLE[(value ^ (bytes[at] as number)) & 255] as number) ^ (value >>> 8); // an iterator takes six times as long at first
  return ~value >>> 0;
}

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Lower-case hexadecimal digits. */
export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += DIGITS[byte] as string;
  return text;
}

/** The SHA-256 of parts, one after the other. */
export function sha256Bytes(...parts: readonly Uint8Array[]): Uint8Array {
  const digest = sha256.create();
  for (const part of parts) digest.update(part);
  return digest.digest();
}

/** The SHA-256 of parts, one after the other, in hexadecimal. */
export function sha256Hex(...parts: readonly Uint8Array[]): string {
  return toHex(sha256Bytes(...parts));
}

/** BLAKE2b with 16 bytes. */
export function blake2b16(bytes: Uint8Array): Uint8Array {
  return blake2b(bytes, { dkLen: 16 });
}
