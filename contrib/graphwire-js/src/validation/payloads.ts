/** The rules of payload tables: which entries may be the same tensor, or share a record. */

import { compactJson, documentTree } from "../diff/plain.js";
import { dtypeName } from "../enumerations.js";
import type { InputSpec, PayloadMeta, Program, SymInt, TensorMeta } from "../schema.js";
import { ExpressionCheck, GraphCheck } from "./graphs.js";
import { isPath } from "./names.js";
import { refuse } from "./places.js";

type Table = ReadonlyMap<string, PayloadMeta>;

/** Throws if entries violate a rule of the specification that readers check. */
export function checkPayloads(weights: Table, constants: Table, samples: Table): void {
  const tensors = new GraphCheck(() => undefined, new ExpressionCheck(), { frames: 0, sources: 0 });
  for (const table of [weights, constants, samples]) {
    for (const [name, { tensor_meta: meta, placement }] of table) {
      if (!isPath(name)) refuse(`${JSON.stringify(name)} is not a legal qualified name`, "");
      if (meta === null) refuse("nothing describes the tensor", name);
      tensors.tensor(meta, name);
      if (placement !== "fake" && meta.layout !== "Strided") refuse("the elements of a payload are strided", name);
    }
  }
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

/** Throws if a program lacks weights or constants, or if one is another tensor than the graph states. */
export function checkHeld(program: Program, weights: Table, constants: Table, unread: ReadonlySet<string>): void {
  const { graph, signature } = program.graph_module;
  const isHeld = (name: string): boolean =>
    weights.has(name) || constants.has(name) || program.encoded_values.has(name) || unread.has(name);
  for (const [name, { tensors }] of program.encoded_values) {
    for (const part of tensors) if (!isHeld(part)) refuse(`the program lacks its part ${JSON.stringify(part)}`, name);
  }
  for (const spec of signature.input_specs) {
    const held = heldBy(spec);
    if (held === null) continue;
    const [name, value] = held;
    const payload = weights.get(name) ?? constants.get(name);
    if (!isHeld(name)) refuse("the program lacks it", name);
    const [meta, stated] = [payload?.tensor_meta ?? null, graph.tensor_values.get(value)];
    if (meta === null || stated === undefined || program.producer === null || program.edited_values.includes(name)) continue;
    if (!isStated(meta, stated)) refuse("it is another tensor than the graph states", name);
  }
}

/** The extensions that an entry needs. */
export function extensionsOf({ conj, neg, placement, tensor_meta }: PayloadMeta): string[] {
  const used = [[conj || neg, "lazy-bits"], [placement !== null, "placement"], [tensor_meta?.dtype_name != null, "dtypes"]] as const;
  return used.filter(([is]) => is).map(([, extension]) => extension);
}

/** Throws if configs have fields of an extension that the document does not list. */
export function checkListed({ requires }: Program, stated: readonly (readonly [string, PayloadMeta])[]): void {
  for (const [name, payload] of stated) {
    const extension = extensionsOf(payload).find((each) => !requires.includes(each));
    if (extension !== undefined) refuse(`the extension ${extension} is used, but not in requires`, name);
  }
}

function heldBy(spec: InputSpec): readonly [name: string, value: string] | null {
  switch (spec.variant) {
    case "parameter":
      return [spec.value.parameter_name, spec.value.arg.name];
    case "buffer":
      return [spec.value.buffer_name, spec.value.arg.name];
    case "tensor_constant":
      return [spec.value.tensor_constant_name, spec.value.arg.name];
    case "custom_obj":
      return [spec.value.custom_obj_name, spec.value.arg.name];
    default:
      return null;
  }
}

function isStated(meta: TensorMeta, stated: TensorMeta): boolean {
  const kind = (of: TensorMeta): string => compactJson(documentTree([dtypeName(of), of.layout_name ?? of.layout, of.sizes.length]));
  const agree = (one: SymInt | undefined, other: SymInt | undefined): boolean =>
    one?.variant !== "as_int" || other?.variant !== "as_int" || one.value === other.value;
  if (kind(meta) !== kind(stated) || !meta.sizes.every((size, index) => agree(size, stated.sizes[index]))) return false;
  const is = (size: SymInt, number: bigint): boolean => size.variant === "as_int" && size.value === number;
  if (meta.layout !== "Strided" || meta.sizes.some((size) => is(size, 0n))) return true;
  return meta.sizes.every((size, index) => is(size, 1n) || agree(meta.strides[index], stated.strides[index]));
}

function isSameTensor(a: PayloadMeta, b: PayloadMeta): boolean {
  const facts = ({ tensor_meta: meta }: PayloadMeta): string =>
    meta === null
      ? ""
      : compactJson(documentTree([meta.dtype, meta.dtype_name, meta.sizes, meta.strides, meta.storage_offset]));
  return facts(a) === facts(b);
}
