/** Widths of texts, estimated, so that a layout needs no browser. */

const NARROW = new Set("iljtfrI.,:;'|![](){}-/\\ ·");
const WIDE = new Set("mwMW@%—…");

/** Returns the width of a text in pixels, in a sans-serif font of some size. */
export function textWidth(text: string, size: number): number {
  let width = 0;
  for (const character of text) {
    if (NARROW.has(character)) width += 0.36;
    else if (WIDE.has(character)) width += 0.92;
    else if (character >= "\u1100") width += 1;
    else if (character >= "A" && character <= "Z") width += 0.7;
    else width += 0.58;
  }
  return width * size;
}

/** The invisible characters that reorder text, and control characters: shown as a mark, so that no name can disguise itself. */
// eslint-disable-next-line no-control-regex -- these are the characters in question
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Returns a text as one line in which nothing is invisible. */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, "\ufffd");
}

/** Returns a text cut to a number of characters, in one line. */
export function clipped(text: string, most: number): string {
  const characters = Array.from(visibleText(text.length > 4 * most ? text.slice(0, 4 * most) : text));
  return characters.length <= most ? characters.join("") : `${characters.slice(0, most - 1).join("")}…`;
}
