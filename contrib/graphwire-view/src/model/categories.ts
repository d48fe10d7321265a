/** What operators do, in a few categories, and what their boxes say of their arguments. */

import { intsOf } from "./values.js";
import type { Item } from "./items.js";

export type Category = "linear" | "activation" | "norm" | "attention" | "shape" | "arithmetic" | "control" | "reduce" | "lookup" | "other";

/** Operators that only reshape, copy or check. */
const PASSES = "view.*|unsafe_view|reshape.*|unsqueeze|squeeze|expand.*|permute|transpose|t|numpy_T|mT|contiguous|clone|to|to_copy|type_as|alias|detach|lift.*|flatten|unflatten|ravel|movedim|swapaxes|swapdims|sym_.*|assert.*|convert_element_type|broadcast_in_dim|device_put";
const PASSING = new RegExp(`^(${PASSES})$`);

/** The categories, with their names; an operator is in the first whose pattern its name matches. */
export const CATEGORIES: readonly { readonly category: Category; readonly title: string; readonly names: RegExp }[] = [
  { category: "control", title: "Control flow", names: /^(cond|while_loop|map|map_impl|scan|associative_scan|invoke_subgraph|wrap.*|.*checkpoint.*|triton_kernel.*|auto_functionalized.*|run_with.*|with_effects|executorch_call.*|call_torchbind)$/ },
  { category: "attention", title: "Attention", names: /attention|^(flex|sdpa|mha|rope)/ },
  { category: "norm", title: "Normalisation", names: /norm/ },
  { category: "linear", title: "Linear, convolution", names: /conv|^(linear|mm|bmm|addmm|addmv|addbmm|baddbmm|matmul|dot|mv|einsum|bilinear|outer|ger|tensordot|lstm|gru|rnn_.*|_?scaled_mm|.*_mm|fft_.*|linalg_.*)$/ },
  { category: "activation", title: "Activation", names: /relu|gelu|silu|sigmoid|softmax|softplus|softsign|swish|mish|^(tanh|elu|selu|celu|glu|hardtanh|threshold|tanhshrink|hardshrink|softshrink)/ },
  { category: "lookup", title: "Lookup", names: /^(embedding.*|index.*|gather|scatter.*|take.*|one_hot|bucketize|searchsorted|nonzero|masked_select|select_scatter|slice_scatter|grid_sampler.*)$/ },
  { category: "reduce", title: "Reduction, pooling", names: /pool|^(sum|mean|amax|amin|max|min|argmax|argmin|prod|var|std|var_mean|std_mean|any|all|norm|cumsum|cumprod|logsumexp|sort|topk|median|aminmax|count_nonzero|histc|unique.*|.*loss.*|upsample.*|_?upsample.*|interpolate)$/ },
  { category: "shape", title: "Shape, copy, cast", names: new RegExp(`^(${PASSES}|slice|select|narrow|split.*|chunk|unbind|cat|concat.*|stack|pad|constant_pad.*|reflection_pad.*|replication_pad.*|repeat.*|tile|flip|roll|tril|triu|diagonal.*|unfold|pixel_.*|copy|fill.*|zeros.*|ones.*|full.*|empty.*|new_.*|arange.*|linspace|scalar_tensor|eye|item|local_scalar_dense|getitem|as_strided.*|broadcast.*|meshgrid|.*dropout|.*quantize.*|choose_qparams.*)$`) },
  { category: "arithmetic", title: "Arithmetic", names: /^(r?(add|sub|mul|div|pow)|true_divide|floor_divide|floordiv|neg|abs|sqrt|rsqrt|exp.*|log.*|sin|cos|tan|a(sin|cos|tan).*|sinh|cosh|erf.*|square|reciprocal|clamp.*|clip|floor|ceil|round|trunc|sign|remainder|fmod|mod|maximum|minimum|max|min|where|masked_fill|eq|ne|lt|gt|le|ge|and|or|not|xor|bitwise_.*|logical_.*|is.*|addcmul|addcdiv|lerp|truediv|rand.*|bernoulli|normal|multinomial|frac|hypot|cumulative|fma|complex|real|imag|conj.*|invert|iand|ior)$/ },
  { category: "other", title: "Other", names: /^/ },
];

/** Returns a text without the underscores around it: in steps, since a pattern for both ends takes quadratic time. */
export function withoutUnderscores(text: string): string {
  let [start, end] = [0, text.length];
  while (text[start] === "_") start++;
  while (end > start && text[end - 1] === "_") end--;
  return text.slice(start, end);
}

interface Operator {
  /** Without library, overload and outer underscores: `add` for `torch.ops.aten.add_.Tensor`. */
  readonly name: string;
  readonly passes: boolean;
}

const OPERATORS = new Map<string, Operator>();

/** Returns what the name of an item's operator says. */
function operatorOf({ type }: Item): Operator {
  const known = OPERATORS.get(type);
  if (known !== undefined) return known;
  const parts = type.replace(/^torch\.ops\./, "").split(".");
  const name = withoutUnderscores(parts[1] ?? parts[0] ?? "");
  const made = { name, passes: PASSING.test(name) };
  OPERATORS.set(type, made);
  return made;
}

const KNOWN = new Map<string, Category>();

/** Returns what the operator of a node does. */
export function categoryOf(item: Item): Category {
  if (item.children.length > 0) return "control";
  const known = KNOWN.get(item.type);
  if (known !== undefined) return known;
  const { name } = operatorOf(item);
  const found = CATEGORIES.find(({ names }) => names.test(name))?.category ?? "other";
  KNOWN.set(item.type, found);
  return found;
}

/** Whether a node only reshapes or copies what it gets, asserts something, or computes sizes. */
export function isPassing(item: Item): boolean {
  if (item.kind !== "node" || item.isGroup) return false;
  return (item.passing ??= onlyPasses(item));
}

function onlyPasses(item: Item): boolean {
  const { name, passes } = operatorOf(item);
  const { graph } = item.scope;
  const isOfSizes = item.values.length > 0 && item.values.every((value) => graph.sym_int_values.has(value) || graph.sym_bool_values.has(value) || graph.sym_float_values.has(value));
  return isOfSizes ? name !== "item" && name !== "local_scalar_dense" : passes && (item.operands.length > 0 || item.values.length === 0);
}

/** Whether a node makes sizes alone, which boxes that use them do not show as wires. */
export function makesSizes(item: Item): boolean {
  return item.values.every((value) => !item.scope.graph.tensor_values.has(value));
}

/** What the box of an operator says of its arguments, such as `3×3, 64 /2`. */
export function argumentsText(item: Item): string {
  const { name } = operatorOf(item);
  const weight = item.operands.find(({ argument }) => argument === "weight");
  const sizes = weight === undefined ? [] : (weight.from.scope.graph.tensor_values.get(weight.value)?.sizes ?? []).map((size) => (size.variant === "as_int" ? String(size.value) : ""));
  if (sizes.includes("")) return "";
  const stride = intsOf(item, "stride");
  const steps = stride.some((each) => each !== 1) ? ` /${[...new Set(stride)].join("×")}` : "";
  if (/^conv\d?d?|^convolution/.test(name) && sizes.length > 2) return `${sizes.slice(2).join("×")}, ${sizes[0] ?? ""}${steps}`;
  if (name === "linear" && sizes.length === 2) return `${sizes[1] ?? ""}→${sizes[0] ?? ""}`;
  if (name === "embedding") return sizes.join("×");
  const kernel = intsOf(item, "kernel_size");
  return kernel.length === 0 ? "" : kernel.join("×") + steps;
}
