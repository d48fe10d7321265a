/** Ranges and guards in plain mathematics. */

import { parseGuard, type Guard, type Summary } from "graphwire-js";

/** A dynamic size: its symbol, what it is the size of, and its range. */
export interface Size {
  readonly symbol: string;
  /** `tokens.shape[0]`; the symbol itself if it is no size of an input. */
  readonly label: string;
  /** `1 ≤ s77 ≤ 64` */
  readonly range: string;
}

/** Returns the dynamic sizes of a program. */
export function dynamicSizes(summary: Pick<Summary, "symbols">): Size[] {
  return summary.symbols.map(({ name, label, min_val: least, max_val: most }) => ({ symbol: name, label: mathematics(label), range: rangeText(name, least, most) }));
}

function rangeText(text: string, least: bigint | null, most: bigint | null): string {
  if (least === null && most === null) return `${text} is any integer`;
  if (least !== null && least === most) return `${text} = ${grouped(least)}`;
  return `${least === null ? "" : `${grouped(least)} ≤ `}${text}${most === null ? "" : ` ≤ ${grouped(most)}`}`;
}

function grouped(value: bigint): string {
  return value.toLocaleString("en");
}

/** Returns infix text of Python with the signs of mathematics. */
export function mathematics(infix: string): string {
  return infix.replaceAll("<=", "≤").replaceAll(">=", "≥").replaceAll("!=", "≠").replaceAll("==", "=").replace(/(?<!\*)\*(?!\*)/g, "·").replaceAll("**", "^");
}

const SIGNS: ReadonlyMap<string, string> = new Map([
  ["==", "="], ["!=", "≠"], ["<=", "≤"], [">=", "≥"], ["<", "<"], [">", ">"],
  ["+", "+"], ["-", "−"], ["*", "·"], ["/", "/"], ["**", "^"], ["%", "mod"], ["&", "and"], ["|", "or"], ["^", "xor"], ["and", "and"], ["or", "or"],
]);
/** How tightly operators bind. */
const BINDING: ReadonlyMap<string, number> = new Map(
  [["if"], ["or", "|", "^"], ["and", "&"], ["not"], ["==", "!=", "<", "<=", ">", ">="], ["+", "-"], ["*", "/", "//", "%"], ["**"]].flatMap((signs, power) =>
    signs.map((sign) => [sign, power] as const),
  ),
);
const ATOM = 9;

/** Returns a guard as mathematics, such as `s77 ≤ 10`, or `x.shape[0] ≤ 10` where no symbol is that size; the text itself if it cannot be read. */
export function guardText(text: string, symbols: readonly Size[] = []): string {
  try {
    return withSymbols(condition(parseGuard(text)), symbols);
  } catch {
    return text;
  }
}

/** Returns a text with the symbols of sizes in place of what they are the sizes of. */
export function withSymbols(text: string, symbols: readonly Size[]): string {
  return symbols.reduce((found, { symbol, label }) => (label === symbol ? found : found.replaceAll(label, symbol)), text);
}

function condition(guard: Guard): string {
  if (guard.kind === "operation" && guard.operands.length === 2) {
    const [left, right] = guard.operands as [Guard, Guard];
    if (left.kind === "operation" && left.head === "%" && right.kind === "integer" && right.value === 0n) {
      const [value, divisor] = left.operands as [Guard, Guard];
      if (guard.head === "==") return `${written(value, 0)} is divisible by ${written(divisor, ATOM)}`;
      if (guard.head === "!=") return `${written(value, 0)} is not divisible by ${written(divisor, ATOM)}`;
    }
  }
  return written(guard, 0);
}

function written(guard: Guard, power: number): string {
  switch (guard.kind) {
    case "integer":
      return grouped(guard.value);
    case "float":
      return String(guard.value);
    case "truth":
      return guard.value ? "true" : "false";
    case "constant":
      return guard.name === "math.nan" ? "not a number" : "∞";
    case "source":
      return sourceText(guard.steps);
    case "operation":
      return operation(guard.head, guard.operands, power);
  }
}

function operation(head: string, operands: readonly Guard[], power: number): string {
  const own = BINDING.get(head) ?? ATOM;
  const [first, second, third] = operands;
  if (head === "if" && first !== undefined && second !== undefined && third !== undefined) {
    return bracketed(`${written(second, 1)} if ${written(first, 1)}, otherwise ${written(third, 0)}`, own, power);
  }
  if (head === "not" && first !== undefined) return bracketed(`not ${written(first, own + 1)}`, own, power);
  if (head === "//" && first !== undefined && second !== undefined) return `⌊${written(first, 6)} / ${written(second, 7)}⌋`;
  if (head === "-" && operands.length === 1 && first !== undefined) return bracketed(`−${written(first, 6)}`, 6, power);
  const sign = SIGNS.get(head);
  if (sign === undefined || operands.length < 2) return `${head.replace(/^(math|torch)\.(_?sym_)?/, "")}(${operands.map((each) => written(each, 0)).join(", ")})`;
  return bracketed(operands.map((each, index) => written(each, index === 0 ? own : own + 1)).join(` ${sign} `), own, power);
}

function bracketed(text: string, own: number, power: number): string {
  return own < power ? `(${text})` : text;
}

type Step = Extract<Guard, { kind: "source" }>["steps"][number];

/** `L['x'].size()[0]` is what a user writes as `x.shape[0]`. */
function sourceText(steps: readonly Step[]): string {
  let text = "";
  for (const step of steps) {
    switch (step.kind) {
      case "key":
        text += text === "" ? step.key : `["${step.key}"]`;
        break;
      case "index":
        text += `[${step.index}]`;
        break;
      case "attribute":
        text += `.${step.name}`;
        break;
      case "call":
        text += step.name === "size" ? ".shape" : `.${step.name}()`;
        break;
    }
  }
  return text;
}
