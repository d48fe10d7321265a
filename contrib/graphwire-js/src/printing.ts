/** JSON text of this package's values: dicts as objects in their order, integers with all digits. */

/** Prints a value as JSON. A `Map` is an object in the order of its keys, and a `bigint` a number. */
export function toJson(value: unknown, indent = ""): string {
  return print(value, indent === "" ? "" : "\n", indent);
}

function print(value: unknown, line: string, indent: string): string {
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return quoted(value);
  const inner = line + indent;
  const items = Array.isArray(value)
    ? value.map((each) => print(each, inner, indent))
    : Array.from(value instanceof Map ? (value as Map<string, unknown>) : Object.entries(value), ([key, each]) => {
        return `${quoted(key)}:${indent === "" ? "" : " "}${print(each, inner, indent)}`;
      });
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return items.length === 0 ? `${open}${close}` : `${open}${inner}${items.join(`,${inner}`)}${line}${close}`;
}

const HIDDEN = /(?! )[\p{C}\p{Z}]/gu;

/** Returns text in which every character that a terminal does not print is an escape, such as `\\x1b`, as graphwire has it. */
export function escaped(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const short = new Map([["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]).get(character);
    const code = (character.codePointAt(0) ?? 0).toString(16);
    const [mark, digits] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
    return short ?? `\\${mark}${code.padStart(digits, "0")}`;
  });
}

/** Returns a JSON string in which such characters are escapes, too. */
function quoted(value: unknown): string {
  const unit = (code: number): string => `\\u${code.toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(HIDDEN, (character) => Array.from({ length: character.length }, (_, at) => unit(character.charCodeAt(at))).join(""));
}

/** Prints neutral JSON in its canonical form: no spaces, keys in ascending order of code points, one line feed at the end. */
export function toCanonicalJson(value: unknown): string {
  return `${canonical(value)}\n`;
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical((value as Record<string, unknown>)[key])}`).join(",")}}`;
}
