/** Texts of the drawing: their widths, and what is left of those that are too long or invisible. */

const NARROW = new Set("iljtfrI.,:;'|![](){}-/\\ ·");
const WIDE = new Set("mwMW@%—…");

/** The font of the drawing. */
export const FAMILY = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** Returns the width of a text in pixels. */
export function textWidth(text: string, size: number, bold = false): number {
  const widths = bold ? BOLD : PLAIN;
  let width = 0;
  for (const character of text) {
    let known = widths.get(character);
    if (known === undefined) {
      known = measured(character, bold);
      widths.set(character, known);
    }
    width += known;
  }
  return width * size;
}

const PLAIN = new Map<string, number>();
const BOLD = new Map<string, number>();
const CANVAS = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");

/** Returns the width of a character of size 1: measured in a browser, estimated elsewhere. */
function measured(character: string, bold: boolean): number {
  if (CANVAS === null) return estimated(character) * (bold ? 1.08 : 1);
  CANVAS.font = `${bold ? "600 " : ""}100px ${FAMILY}`;
  return CANVAS.measureText(character).width / 100;
}

function estimated(character: string): number {
  if (NARROW.has(character)) return 0.36;
  if (WIDE.has(character)) return 0.92;
  if (character >= "\u1100") return 1;
  return character >= "A" && character <= "Z" ? 0.7 : 0.58;
}

/** The invisible characters that reorder text, and control characters: shown as a mark, so that no name can disguise itself. */
// eslint-disable-next-line no-control-regex -- these are the characters in question
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Returns a text as one line in which nothing is invisible. */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, (each) => ESCAPES[each] ?? "\ufffd");
}

/** Returns a text of at most some characters, in one line: its beginning and its end. */
export function clipped(text: string, most: number): string {
  const [head, tail] = text.length > 8 * most ? [text.slice(0, 4 * most), text.slice(-4 * most)] : [text, ""];
  const characters = Array.from(visibleText(head + tail));
  if (characters.length <= most) return characters.join("");
  const end = Math.floor((most - 1) * 0.4);
  return `${characters.slice(0, most - 1 - end).join("")}…${end === 0 ? "" : characters.slice(-end).join("")}`;
}
