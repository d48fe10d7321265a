/** The rules of payload tables: which entries may be the same tensor, or share a record. */

import { compactJson, documentTree } from "../diff/plain.js";
import type { PayloadMeta } from "../schema.js";
import { refuse } from "./graphs.js";

type Table = ReadonlyMap<string, PayloadMeta>;

/** Throws if entries violate a rule of the specification that readers check. */
export function checkPayloads(weights: Table, constants: Table, samples: Table): void {
  for (const [table, place] of [[weights, "weights"], [samples, "sample_inputs"]] as const) {
    for (const [name, payload] of table) {
      if (payload.weight !== null || payload.shared !== null) refuse("only constants are weights, or share a weight's record", `${place}: ${name}`);
    }
  }
  for (const [name, payload] of constants) {
    const place = `constants: ${name}`;
    if (payload.shared !== null && !payload.shared.startsWith("data/weights/")) refuse("a shared record that is none of weights", place);
    const weight = payload.weight === null ? undefined : weights.get(payload.weight);
    if (weight !== undefined && !isSameTensor(payload, weight)) refuse("the weight that is the same tensor differs", place);
  }
  for (const table of [weights, constants, samples]) {
    for (const [name, payload] of table) {
      const same = payload.same_as === null ? undefined : table.get(payload.same_as);
      if (same !== undefined && (same.path_name !== payload.path_name || !isSameTensor(payload, same))) {
        refuse("the entry that is the same tensor differs", name);
      }
    }
  }
}

function isSameTensor(a: PayloadMeta, b: PayloadMeta): boolean {
  const facts = ({ tensor_meta: meta }: PayloadMeta): string =>
    meta === null
      ? ""
      : compactJson(documentTree([meta.dtype, meta.dtype_name, meta.sizes, meta.strides, meta.storage_offset]));
  return facts(a) === facts(b);
}
