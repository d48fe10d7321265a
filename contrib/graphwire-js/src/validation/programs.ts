/** The rules of programs, besides those of graphs: signature, calls, ranges, guards, extensions. */

import { CONSTANTS, parseExpression, type Expression } from "../expressions.js";
import { parseGuard } from "../guards.js";
import { parseInfix } from "../infix.js";
import type { Argument, EncodedValue, InputSpec, ModuleCallSignature, OutputSpec, Program } from "../schema.js";
import { keywordsOf, parseTreespec } from "../treespecs.js";
import { compactJson, documentTree } from "../diff/plain.js";
import { checkValueName, ExpressionCheck, GraphCheck, isLiteral, valuesIn } from "./graphs.js";
import { checkMetadata, checkTrace } from "./metadata.js";
import { isNamespace, isParameterName, isPath, isValueName } from "./names.js";
import { parsed, refuse } from "./places.js";

/** The extensions that only the writer or the payloads tell. */
const UNSEEN = new Set("calls containers dtypes external-weights layouts lazy-bits outputs placement results".split(" "));
/** The form of a distribution's name and version. */
const DISTRIBUTION = /^[A-Za-z0-9](?:[A-Za-z0-9._+!-]*[A-Za-z0-9])?$/;
/** The parts of an expression that has a range. */
const MAX_PARTS = 40;

/** Throws if a program violates a rule of the specification that readers check. */
export function checkProgram(program: Program, place: string): void {
  const at = (what: string): string => `${place}: ${what}`;
  const { graph_module: module, schema_version } = program;
  const found = new Set<string>();
  const used = (extension: string, where: string): void => {
    found.add(extension);
    if (!program.requires.includes(extension)) refuse(`the extension ${extension} is used, but not in requires`, where);
  };
  if (schema_version.minor < 0n) refuse("a negative minor version", at("schema_version"));
  for (const [name, version] of program.opset_version) {
    if (!isNamespace(name) || version < 1n) refuse("a version of operators that is not legal", at(`opset_version[${JSON.stringify(name)}]`));
  }
  checkRanges(program.range_constraints, at("range_constraints"));
  checkRanges(module.inline_constraints ?? new Map(), at("graph_module.inline_constraints"));
  program.guards_code.forEach((text, index) => {
    parsed(at(`guards_code[${index}]`), () => parseGuard(text));
  });
  for (const [values, where] of [
    [program.encoded_values, "encoded_values"],
    [program.example_inputs?.encoded_values ?? new Map<string, EncodedValue>(), "example_inputs.encoded_values"],
  ] as const) {
    if (values.size > 0) used("codecs", at(where));
    for (const [name, { tensors }] of values) for (const each of [name, ...tensors]) checkPath(each, at(where));
    checkParts(values, at(where));
  }
  module.stack_frames.forEach((frame, index) => {
    for (const text of [frame.file, frame.name, frame.source]) checkTrace(text, at(`graph_module.stack_frames[${index}]`));
  });
  module.node_sources.forEach(({ from_node }, index) => {
    if (from_node.some((row) => row < 0n || row >= BigInt(index))) {
      refuse("an origin that is not an earlier row", at(`graph_module.node_sources[${index}]`));
    }
  });
  const rows = { frames: module.stack_frames.length, sources: module.node_sources.length };
  const expressions = new ExpressionCheck();
  const check = new GraphCheck(used, expressions, rows);
  const literals = module.signature.input_specs.map((spec) =>
    spec.variant === "constant_input" || spec.variant === "user_input" ? spec.value.name : null,
  );
  check.graph(module.graph, at("graph_module.graph"), 0, literals);
  for (const { distribution, version } of program.plugins) {
    if (![distribution, version].every((each) => DISTRIBUTION.test(each))) refuse("no name or version of a distribution", at("plugins"));
  }
  checkMetadata(module.metadata, at("graph_module"));
  checkReplacements(program, expressions, at("graph_module.replacements"));
  checkSignature(program, at("graph_module.signature"));
  checkCalls(program, check, at("graph_module.module_call_graph"));
  const examples = program.example_inputs;
  if (examples !== null) {
    parsed(at("example_inputs.spec"), () => parseTreespec(examples.spec));
    for (const leaf of examples.leaves) check.free(leaf, at("example_inputs.leaves"));
  }
  if (new Set(program.requires).size !== program.requires.length) refuse("an extension is listed twice", at("requires"));
  const unneeded = program.requires.filter((extension) => !found.has(extension) && !UNSEEN.has(extension));
  if (unneeded.length > 0) refuse(`nothing uses the extension ${unneeded.join(", ")}`, at("requires"));
}

function checkRanges(ranges: Program["range_constraints"], place: string): void {
  for (const [text, { min_val, max_val }] of ranges) {
    const where = `${place}[${JSON.stringify(text)}]`;
    parsed(where, () => {
      const key = parseInfix(text);
      if (partsOf(key) > MAX_PARTS || hasSymbolicExponent(key)) refuse("a key of too many parts, or with a symbol in an exponent", "");
    });
    if (min_val !== null && max_val !== null && min_val > max_val) refuse("a range whose minimum exceeds its maximum", where);
  }
}

function partsOf(expression: Expression): number {
  return expression.kind === "operation" ? expression.operands.reduce((sum, each) => sum + partsOf(each), 1) : 1;
}

const RAISING = /^(?:(?:OpaqueUnaryFn_)?(?:exp|sinh|cosh)|LShift|RShift|Pow|FloatPow|PowByNatural)$/;

function hasSymbolicExponent(expression: Expression): boolean {
  if (expression.kind !== "operation") return false;
  const exponent = RAISING.test(expression.head) ? expression.operands.at(-1) : undefined;
  return (exponent !== undefined && symbolsOf(exponent).size > 0) || expression.operands.some(hasSymbolicExponent);
}

function symbolsOf(expression: Expression): Set<string> {
  if (expression.kind === "symbol") return new Set([expression.name]);
  return new Set(expression.kind === "operation" ? expression.operands.flatMap((each) => [...symbolsOf(each)]) : []);
}

/** Checks that replacements of symbols contain only symbols that are not replaced themselves, and that the graph has none. */
function checkReplacements(program: Program, expressions: ExpressionCheck, place: string): void {
  const { replacements } = program.graph_module;
  const check = (text: string): void => {
    for (const name of symbolsOf(parseExpression(text))) if (replacements.has(name)) refuse(`the replaced symbol ${name}`, place);
  };
  for (const [name, text] of replacements) {
    if (!program.range_constraints.has(name) || !isValueName(name) || CONSTANTS.has(name)) refuse("no symbol with a range", place);
    parsed(place, () => {
      check(text);
    });
  }
  if (replacements.size > 0) for (const text of expressions.seen) check(text);
}

function checkPath(name: string, place: string): void {
  if (!isPath(name)) refuse(`${JSON.stringify(name)} is not a legal qualified name`, place);
}

/** Checks that no coded value is a part of itself. */
function checkParts(values: ReadonlyMap<string, EncodedValue>, place: string): void {
  const done = new Set<string>();
  for (const start of values.keys()) {
    const path = new Set<string>();
    const pending: (readonly [name: string, leave: boolean])[] = [[start, false]];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const [name, leave] = next;
      if (leave) {
        path.delete(name);
        done.add(name);
        continue;
      }
      if (path.has(name)) refuse(`the value ${JSON.stringify(name)} is a part of itself`, place);
      const value = values.get(name);
      if (value === undefined || done.has(name)) continue;
      path.add(name);
      pending.push([name, true], ...value.tensors.map((part) => [part, false] as const));
    }
  }
}

// ----------------------------------------------------------------------------------------------------------- signature

function sameArgument(a: Argument, b: Argument): boolean {
  return a.variant === b.variant && compactJson(documentTree(a.value)) === compactJson(documentTree(b.value));
}

function checkSignature(program: Program, place: string): void {
  const { graph, signature } = program.graph_module;
  if (signature.input_specs.length !== graph.inputs.length) refuse("another number of input_specs than inputs", place);
  if (signature.output_specs.length !== graph.outputs.length) refuse("another number of output_specs than outputs", place);
  const targets = { parameter: new Set<string>(), buffer: new Set<string>(), input: new Set<string>() };
  const roles = new Map<string, string>();
  signature.input_specs.forEach((spec, index) => {
    const at = `${place}.input_specs[${index}]`;
    checkInput(spec, graph.inputs[index] as Argument, at);
    if (spec.variant === "parameter") targets.parameter.add(spec.value.parameter_name);
    if (spec.variant === "buffer") targets.buffer.add(spec.value.buffer_name);
    const [name, role] = heldBy(spec);
    if (name !== null && (roles.get(name) ?? role) !== role) refuse(`${JSON.stringify(name)} in two roles`, at);
    if (name !== null) roles.set(name, role);
    if (spec.variant === "user_input") for (const [name] of valuesIn(spec.value.arg)) targets.input.add(name);
  });
  signature.output_specs.forEach((spec, index) => {
    checkOutput(spec, graph.outputs[index] as Argument, targets, `${place}.output_specs[${index}]`);
  });
}

/** The weight or constant that an input names, and as what; null if none. */
function heldBy(spec: InputSpec): [name: string | null, role: string] {
  switch (spec.variant) {
    case "parameter":
      return [spec.value.parameter_name, spec.variant];
    case "buffer":
      return [spec.value.buffer_name, `${spec.variant} ${spec.value.persistent}`];
    case "tensor_constant":
      return [spec.value.tensor_constant_name, spec.variant];
    case "custom_obj":
      return [spec.value.custom_obj_name, spec.variant];
    default:
      return [null, spec.variant];
  }
}

function checkInput(spec: InputSpec, input: Argument, place: string): void {
  switch (spec.variant) {
    case "user_input":
      if (spec.value.name !== null) checkValueName(spec.value.name, place);
      if (!sameArgument(spec.value.arg, input)) refuse("the role of another input", place);
      return;
    case "constant_input": {
      const value = spec.value.value as unknown as Argument;
      checkValueName(spec.value.name, place);
      if (!isLiteral(input) || !sameArgument(value, input)) refuse("another literal than that of the graph", place);
      return;
    }
    case "custom_obj":
      if (input.variant !== "as_custom_obj" || input.value.name !== spec.value.arg.name) refuse("the role of another input", place);
      checkPath(spec.value.custom_obj_name, place);
      return;
    default:
      if (input.variant !== "as_tensor" || input.value.name !== spec.value.arg.name) refuse("the role of another input", place);
      if (spec.variant === "parameter") checkPath(spec.value.parameter_name, place);
      else if (spec.variant === "buffer") checkPath(spec.value.buffer_name, place);
      else if (spec.variant === "tensor_constant") checkPath(spec.value.tensor_constant_name, place);
  }
}

/** What the caller can receive, besides literals. */
const VALUES: ReadonlySet<string> = new Set(["as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj"]);

function checkOutput(
  spec: OutputSpec,
  output: Argument,
  targets: Readonly<Record<"parameter" | "buffer" | "input", ReadonlySet<string>>>,
  place: string,
): void {
  if (spec.variant === "user_output") {
    if (spec.value.name !== null) checkValueName(spec.value.name, place);
    if (!sameArgument(spec.value.arg, output)) refuse("the role of another output", place);
    if (!isLiteral(output) && !VALUES.has(output.variant)) refuse(`an output for the caller cannot be ${output.variant}`, place);
    return;
  }
  if (output.variant !== "as_tensor" || output.value.name !== spec.value.arg.name) refuse("the role of another output", place);
  const target = (known: ReadonlySet<string>, name: string): void => {
    if (!known.has(name)) refuse(`${JSON.stringify(name)} is not among the inputs`, place);
  };
  switch (spec.variant) {
    case "buffer_mutation":
      target(targets.buffer, spec.value.buffer_name);
      break;
    case "parameter_mutation":
    case "gradient_to_parameter":
      target(targets.parameter, spec.value.parameter_name);
      break;
    case "user_input_mutation":
      target(targets.input, spec.value.user_input_name);
      break;
    case "gradient_to_user_input":
      checkPath(spec.value.user_input_name, place);
      break;
    default:
  }
}

// --------------------------------------------------------------------------------------------------------------- calls

function checkCalls(program: Program, check: GraphCheck, place: string): void {
  const calls = program.graph_module.module_call_graph;
  if (calls.some(({ fqn }, index) => (fqn === "") !== (index === 0))) refuse("the first entry, and no other, is the root", place);
  calls.forEach(({ fqn, signature }, index) => {
    const at = `${place}[${index}]`;
    if (fqn !== "") checkPath(fqn, at);
    if (signature === null) return;
    for (const each of [...signature.inputs, ...signature.outputs]) check.free(each, `${at}.signature`);
    checkKeywords(signature, `${at}.signature.in_spec`);
    parsed(`${at}.signature.out_spec`, () => parseTreespec(signature.out_spec));
    const listed = [[signature.input_names, signature.inputs], [signature.output_names, signature.outputs]] as const;
    for (const [names, values] of listed) {
      if (names !== null && names.length !== values.length) refuse("another number of names than values", `${at}.signature`);
      for (const name of names ?? []) if (name !== null) checkValueName(name, `${at}.signature`);
    }
    const names = signature.forward_arg_names ?? [];
    checkNames(names, `${at}.signature.forward_arg_names`);
    if (names.includes("self")) refuse("a parameter that is named self", `${at}.signature.forward_arg_names`);
  });
  for (const [name, { field_names }] of program.graph_module.treespec_namedtuple_fields) checkNames(field_names, `${place}: ${name}`);
}

function checkNames(names: readonly string[], place: string): void {
  if (new Set(names).size !== names.length || names.some((name) => !isParameterName(name, true))) {
    refuse("names of parameters or fields that are not legal", place);
  }
}

/** Checks the names of keyword arguments in the structure of a call. */
function checkKeywords({ in_spec, forward_arg_names }: ModuleCallSignature, place: string): void {
  parsed(place, () => {
    const spec = parseTreespec(in_spec);
    const keywords = keywordsOf(spec);
    if (keywords.some((name) => typeof name !== "string" || !isParameterName(name, true) || name === "self")) {
      refuse("a name that no keyword argument has", "");
    }
    if (forward_arg_names !== null && forward_arg_names.length > 0) return;
    const positional = spec?.children[0]?.children.length ?? 0;
    const generated = new Set(Array.from({ length: positional }, (_, index) => `arg_${index}`));
    if (keywords.some((name) => typeof name === "string" && generated.has(name))) refuse("a name of both a keyword argument and a positional one", "");
  });
}
