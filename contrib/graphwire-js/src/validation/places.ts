/** Errors of rules, with their places. */

import { GraphwireError } from "../errors.js";

/** Throws the error for a violated rule. */
export function refuse(message: string, place: string): never {
  throw new GraphwireError("document", message, place);
}

/** Runs a check of a text with a grammar, and adds the place to its error. */
export function parsed(place: string, parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    if (error instanceof GraphwireError) refuse(error.message, place);
    throw error;
  }
}
