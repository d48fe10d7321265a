/** The rules of programs, besides those of graphs: signature, calls, ranges, guards, extensions. */

import { parseGuard } from "../guards.js";
import { parseInfix } from "../infix.js";
import type { Argument, EncodedValue, InputSpec, OutputSpec, Program } from "../schema.js";
import { parseTreespec } from "../treespecs.js";
import { compactJson, documentTree } from "../diff/plain.js";
import { checkTrace, ExpressionCheck, GraphCheck, isLiteral, parsed, refuse, valuesIn } from "./graphs.js";
import { isNamespace, isParameterName, isPath } from "./names.js";

/** Throws if a program violates a rule of the specification that readers check. */
export function checkProgram(program: Program, place: string): void {
  const at = (what: string): string => `${place}: ${what}`;
  const { graph_module: module, schema_version } = program;
  const used = (extension: string, where: string): void => {
    if (!program.requires.includes(extension)) refuse(`the extension ${extension} is used, but not in requires`, where);
  };
  if (schema_version.minor < 0n) refuse("a negative minor version", at("schema_version"));
  for (const [name, version] of program.opset_version) {
    if (!isNamespace(name) || version < 1n) refuse("a version of operators that is not legal", at(`opset_version[${JSON.stringify(name)}]`));
  }
  const infix = new ExpressionCheck(parseInfix);
  for (const [text, { min_val, max_val }] of program.range_constraints) {
    const where = at(`range_constraints[${JSON.stringify(text)}]`);
    infix.check(text, where);
    if (min_val !== null && max_val !== null && min_val > max_val) refuse("a range whose minimum exceeds its maximum", where);
  }
  program.guards_code.forEach((text, index) => {
    parsed(at(`guards_code[${index}]`), () => parseGuard(text));
  });
  if (program.encoded_values.size > 0) used("codecs", at("encoded_values"));
  for (const name of program.encoded_values.keys()) checkPath(name, at("encoded_values"));
  checkParts(program.encoded_values, at("encoded_values"));
  module.stack_frames.forEach((frame, index) => {
    for (const text of [frame.file, frame.name, frame.source]) checkTrace(text, at(`graph_module.stack_frames[${index}]`));
  });
  module.node_sources.forEach(({ from_node }, index) => {
    if (from_node.some((row) => row < 0n || row >= BigInt(index))) {
      refuse("an origin that is not an earlier row", at(`graph_module.node_sources[${index}]`));
    }
  });
  const rows = { frames: module.stack_frames.length, sources: module.node_sources.length };
  new GraphCheck(used, new ExpressionCheck(), rows).graph(module.graph, at("graph_module.graph"));
  checkSignature(program, at("graph_module.signature"));
  checkCalls(program, at("graph_module.module_call_graph"));
  const examples = program.example_inputs;
  if (examples !== null) parsed(at("example_inputs.spec"), () => parseTreespec(examples.spec));
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
  signature.input_specs.forEach((spec, index) => {
    const at = `${place}.input_specs[${index}]`;
    checkInput(spec, graph.inputs[index] as Argument, at);
    if (spec.variant === "parameter") targets.parameter.add(spec.value.parameter_name);
    if (spec.variant === "buffer") targets.buffer.add(spec.value.buffer_name);
    if (spec.variant === "user_input") for (const [name] of valuesIn(spec.value.arg)) targets.input.add(name);
  });
  signature.output_specs.forEach((spec, index) => {
    checkOutput(spec, graph.outputs[index] as Argument, targets, `${place}.output_specs[${index}]`);
  });
}

function checkInput(spec: InputSpec, input: Argument, place: string): void {
  switch (spec.variant) {
    case "user_input":
      if (!sameArgument(spec.value.arg, input)) refuse("the role of another input", place);
      return;
    case "constant_input": {
      const value = spec.value.value as unknown as Argument;
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

function checkOutput(
  spec: OutputSpec,
  output: Argument,
  targets: Readonly<Record<"parameter" | "buffer" | "input", ReadonlySet<string>>>,
  place: string,
): void {
  if (spec.variant === "user_output") {
    if (!sameArgument(spec.value.arg, output)) refuse("the role of another output", place);
    const isValue = output.variant !== "as_tensors" && !output.variant.endsWith("s") && [...valuesIn(output)].length === 1;
    const isNumber = ["as_sym_int", "as_sym_float", "as_sym_bool"].includes(output.variant);
    if (!isLiteral(output) && !isValue && !isNumber) refuse(`an output for the caller cannot be ${output.variant}`, place);
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

function checkCalls(program: Program, place: string): void {
  program.graph_module.module_call_graph.forEach(({ fqn, signature }, index) => {
    const at = `${place}[${index}]`;
    if (fqn !== "") checkPath(fqn, at);
    if (signature === null) return;
    parsed(`${at}.signature.in_spec`, () => parseTreespec(signature.in_spec));
    parsed(`${at}.signature.out_spec`, () => parseTreespec(signature.out_spec));
    const listed = [[signature.input_names, signature.inputs], [signature.output_names, signature.outputs]] as const;
    if (listed.some(([names, values]) => names !== null && names.length !== values.length)) {
      refuse("another number of names than values", `${at}.signature`);
    }
    const names = signature.forward_arg_names ?? [];
    if (new Set(names).size !== names.length || names.includes("self") || names.some((name) => !isParameterName(name, false))) {
      refuse("names of parameters that are not legal", `${at}.signature.forward_arg_names`);
    }
  });
  for (const [name, { field_names }] of program.graph_module.treespec_namedtuple_fields) {
    if (new Set(field_names).size !== field_names.length || field_names.some((field) => !isParameterName(field, false))) {
      refuse("names of fields that are not legal", `${place}: ${name}`);
    }
  }
}
