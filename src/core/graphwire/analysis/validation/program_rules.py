"""Whether a document obeys the rules of its schema: every problem, each with its place and kind.

The records' types were checked when they were made from a tree (`schema.trees.conversion`). Here is checked what types cannot
say. The kinds of problems, which are stable:

    arm                   a union has no arm set, or several
    misplaced             an arm that cannot stand where it stands
    dangling-reference    a name that no value of its graph has
    use-before-definition a name of a value that a later node makes
    wrong-kind            a name of a value of another kind, or specs and values of different kinds
    duplicate             a name that was given before
    missing-value         a value that its graph says nothing of
    undefined-value       what a graph says of a value that nothing makes
    name                  a name that generated code cannot hold
    path                  a qualified name that no attribute can have
    target                text that is no operator's name
    extent                a size, stride or offset that is negative, beyond 64 bits, or no integer; or more sizes than strides
    element-type          an element type or layout that is neither numbered nor named
    device                a device that cannot be
    expression · guard · treespec · json    text outside of its grammar
    range                 a range that is empty, or has no integer as its end
    count                 two lists that belong together and have different lengths
    mismatch              a name or literal that differs from the one it should repeat
    index                 an index outside of its table, or one that is not smaller than its own
    version               a version that is none
    unknown-feature · missing-requirement · unneeded-requirement    `requires` against what is used
    too-deep              arguments or subgraphs nested beyond the limits

What the payloads hold is no part of a program: names among the constants are only resolved when `constants` is given.
References of the module call graph are not resolved at all: torch itself leaves stale ones there after its passes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from graphwire.analysis.validation import legal_names
from graphwire.analysis.validation.argument_rules import Scope, check_argument
from graphwire.analysis.validation.graph_rules import check_graph
from graphwire.analysis.validation.legal_names import number_text, quoted
from graphwire.analysis.validation.value_rules import check_lines, check_metadata, has_unusual_line_ends
from graphwire.analysis.validation.walk import Place, Walk, path_of, report_arms
from graphwire.errors import ExpressionError, GraphwireError, Problem, SchemaError, ValidationError
from graphwire.schema import (
    FEATURES,
    SCHEMA_VERSION,
    Argument,
    EncodedValue,
    Graph,
    GraphModule,
    GraphSignature,
    InputSpec,
    ModuleCallSignature,
    Program,
    RangeConstraint,
    value_name,
)
from graphwire.schema.texts import (
    CONSTANTS,
    check_expression,
    check_guard,
    check_range_key,
    keywords_of,
    parse_expression,
    parse_treespec,
    symbols_of,
)


class ValidationLimits(NamedTuple):
    """How large a program may be before it is refused."""

    nesting: int = 100
    """Arguments inside arguments, and graphs inside graphs."""


DEFAULT_LIMITS = ValidationLimits()


def validate(
    program: Program, *, limits: ValidationLimits | None = None, constants: Collection[str] | None = None
) -> list[Problem]:
    """Every problem of `program`; none when it is valid.

    Args:
        program: records as `schema.trees.conversion` or the bridge makes them.
        limits: bounds to use instead of DEFAULT_LIMITS.
        constants: the names of the constants among the payloads, if references to them are to be resolved.
    """
    walk = Walk(program, (limits or DEFAULT_LIMITS).nesting, constants, check_graph)
    try:
        _check_graph_module(walk, (None, "graph_module"), program.graph_module)
        _check_versions(walk, program)
        _check_conditions(walk, program)
        _check_extras(walk, program)
        _check_requires(walk, program)
        _check_plugins(walk, program)
    except RecursionError:
        walk.report((None, "graph_module"), "too-deep", "nested deeper than the stack that is left")
    return walk.problems


def check(program: Program) -> None:
    """Do nothing for a valid program.

    Raises:
        ValidationError: it is not valid; the error holds every problem.
    """
    problems = validate(program)
    if problems:
        raise ValidationError(problems, remedy="The file is damaged, or was not written by a known exporter")


def check_payload_names(given: Collection[str]) -> None:
    """Do nothing for names that weights and constants can have: torch sets them as attributes of modules.

    Raises:
        ValidationError: some are no attribute paths.
    """
    if not legal_names.are_attribute_paths(given) and (problems := payload_name_problems(given)):
        raise ValidationError(problems, remedy="The file is damaged, or was not written by a known exporter")


def payload_name_problems(given: Collection[str]) -> list[Problem]:
    """The names that weights and constants cannot have."""
    return [
        Problem(
            f"payloads[{quoted(name)}]",
            "path",
            f"{quoted(name)} is no attribute path such as layers.0.weight",
        )
        for name in given
        if not legal_names.is_attribute_path(name)
    ]


# ------------------------------------------------------------------------------------------------------- signature


def _check_signature(walk: Walk, place: Place, signature: GraphSignature, graph: Graph) -> None:
    targets: dict[str, set[str]] = {"parameter": set(), "buffer": set(), "user_input": set()}
    pairs = (
        ("input", signature.input_specs, graph.inputs),
        ("output", signature.output_specs, graph.outputs),
    )
    for side, specs, arguments in pairs:
        if len(specs) != len(arguments):
            message = f"there are {len(specs)} specs and {len(arguments)} {side}s of the graph"
            walk.report((place, f".{side}_specs"), "count", message)
    specs = signature.input_specs
    parameters = [spec.parameter.parameter_name for spec in specs if spec.parameter is not None]
    buffers = [spec.buffer.buffer_name for spec in specs if spec.buffer is not None]
    good = legal_names.are_attribute_paths([*parameters, *buffers])
    for index, spec in enumerate(signature.input_specs):
        argument = graph.inputs[index] if index < len(graph.inputs) else None
        if good and argument is not None and _is_good_held(spec, argument, targets):
            continue
        _check_spec(walk, (place, ".input_specs", index), spec, argument, _INPUT_RULES, targets)
    for index, result in enumerate(signature.output_specs):
        argument = graph.outputs[index] if index < len(graph.outputs) else None
        _check_spec(walk, (place, ".output_specs", index), result, argument, _OUTPUT_RULES, targets)


class _SpecRule(NamedTuple):
    """What is checked of one arm of a spec."""

    arm: str
    """The arm of the graph's input or output that belongs to it; empty for any."""
    field: str = ""
    """The spec's field that names something beside the value."""
    makes: str = ""
    """What `field` introduces."""
    needs: str = ""
    """What `field` refers to."""


_INPUT_RULES: Final[dict[str, _SpecRule]] = {
    "user_input": _SpecRule("", makes="user_input"),
    "parameter": _SpecRule("as_tensor", "parameter_name", makes="parameter"),
    "buffer": _SpecRule("as_tensor", "buffer_name", makes="buffer"),
    "tensor_constant": _SpecRule("as_tensor", "tensor_constant_name"),
    "custom_obj": _SpecRule("as_custom_obj", "custom_obj_name"),
    "token": _SpecRule("as_tensor"),
    "constant_input": _SpecRule(""),
}

_OUTPUT_RULES: Final[dict[str, _SpecRule]] = {
    "user_output": _SpecRule(""),
    "loss_output": _SpecRule("as_tensor"),
    "buffer_mutation": _SpecRule("as_tensor", "buffer_name", needs="buffer"),
    "gradient_to_parameter": _SpecRule("as_tensor", "parameter_name", needs="parameter"),
    # Not resolved: torch leaves the name that the input had before export renamed it.
    "gradient_to_user_input": _SpecRule("as_tensor", "user_input_name"),
    "user_input_mutation": _SpecRule("as_tensor", "user_input_name", needs="user_input"),
    "token": _SpecRule("as_tensor"),
    "parameter_mutation": _SpecRule("as_tensor", "parameter_name", needs="parameter"),
}


def _is_good_held(spec: InputSpec, argument: Argument, targets: dict[str, set[str]]) -> bool:
    """Whether nothing is wrong with the spec of a parameter or buffer, as with most inputs of a program. False also where
    `_check_spec` has to look closer to tell."""
    tensor = argument.as_tensor
    if spec.parameter is not None:
        kind, name, value = "parameter", spec.parameter.parameter_name, spec.parameter.arg.name
    elif spec.buffer is not None:
        kind, name, value = "buffer", spec.buffer.buffer_name, spec.buffer.arg.name
    else:
        return False
    if tensor is None or tensor.name != value:
        return False
    if astuple(spec).count(None) != len(spec.__struct_fields__) - 1:
        return False
    targets[kind].add(name)
    return True


def _check_spec(
    walk: Walk,
    place: Place,
    spec: Any,
    argument: Argument | None,
    rules: dict[str, _SpecRule],
    targets: dict[str, set[str]],
) -> None:
    arms = astuple(spec)
    if arms.count(None) != len(arms) - 1:
        report_arms(walk, place, spec)
        return
    kind, value = next(each for each in zip(spec.__struct_fields__, arms, strict=True) if each[1] is not None)
    rule, here = rules[kind], (place, f".{kind}")
    if kind == "constant_input":
        _check_constant_input(walk, here, value, argument)
        return
    if rule.field:
        target = getattr(value, rule.field)
        if rule.needs and target not in targets[rule.needs]:
            message = f"the signature has no {rule.needs} {quoted(target)}"
            walk.report((here, f".{rule.field}"), "dangling-reference", message)
        elif not rule.needs:
            walk.check_path((here, f".{rule.field}"), target)
        if rule.makes:
            targets[rule.makes].add(target)
    if not rule.arm:
        if value.name is not None:
            walk.check_name((here, ".name"), value.name)
        name = value_name(value.arg)
        if rule.makes and name is not None:
            targets[rule.makes].add(name)
        if argument is not None and value.arg != argument:
            _report_difference(walk, (here, ".arg"), value.arg, argument)
    elif argument is not None:
        there = getattr(argument, rule.arm)
        if there is None:
            message = f"a {kind} is {rule.arm}, and the graph has another kind of value here"
            walk.report((here, ".arg"), "wrong-kind", message)
        elif there.name != value.arg.name:
            message = f"{quoted(value.arg.name)} stands for {quoted(there.name)} of the graph"
            walk.report((here, ".arg.name"), "mismatch", message)


def _arms_of(union: Any) -> list[str]:
    return [arm for arm in union.__struct_fields__ if getattr(union, arm) is not None]


def _report_difference(walk: Walk, place: Place, stated: Argument, found: Argument) -> None:
    if _arms_of(stated) != _arms_of(found):
        message = f"the spec has {_arms_of(stated)}, and the graph {_arms_of(found)}"
        walk.report(place, "wrong-kind", message)
    else:
        message = f"the spec's value is {quoted(value_name(stated) or 'a literal')}"
        walk.report(place, "mismatch", f"{message}, the graph's {quoted(value_name(found) or 'another')}")


def _check_constant_input(walk: Walk, place: Place, spec: Any, argument: Argument | None) -> None:
    walk.check_name((place, ".name"), spec.name)
    arms = _arms_of(spec.value)
    if len(arms) != 1:
        report_arms(walk, (place, ".value"), spec.value)
    elif argument is not None and _arms_of(argument) != arms:
        message = f"the spec has {arms[0]}, and the graph {_arms_of(argument)}"
        walk.report((place, ".value"), "wrong-kind", message)
    elif argument is not None and getattr(argument, arms[0]) != getattr(spec.value, arms[0]):
        walk.report((place, ".value"), "mismatch", "the spec's literal is not the graph's")


def _literal_name(spec: InputSpec) -> str | None:
    if spec.constant_input is not None:
        return spec.constant_input.name
    return spec.user_input.name if spec.user_input is not None else None


# ---------------------------------------------------------------------------------------------------- graph module


def _check_graph_module(walk: Walk, place: Place, module: GraphModule) -> None:
    literals = [_literal_name(spec) for spec in module.signature.input_specs]
    check_graph(walk, (place, ".graph"), module.graph, 0, literals)
    _check_signature(walk, (place, ".signature"), module.signature, module.graph)
    entries = module.module_call_graph
    if entries and entries[0].fqn:
        message = "the first entry is the root, whose name is empty"
        walk.report((place, ".module_call_graph[0].fqn"), "mismatch", message)
    good = legal_names.are_attribute_paths([entry.fqn for entry in entries if entry.fqn])
    for index, entry in enumerate(entries):
        if good and entry.signature is None:
            continue
        here = (place, f".module_call_graph[{index}]")
        if entry.fqn:
            walk.check_path((here, ".fqn"), entry.fqn)
        if entry.signature is not None:
            _check_call(walk, (here, ".signature"), entry.signature)
    for name, definition in module.treespec_namedtuple_fields.items():
        here = (place, f".treespec_namedtuple_fields[{quoted(name)}].field_names")
        _check_names(walk, here, definition.field_names)
    for index, frame in enumerate(module.stack_frames):
        if has_unusual_line_ends(frame.file + frame.name + frame.source):
            for field in ("file", "name", "source"):
                check_lines(walk, (place, f".stack_frames[{index}].{field}"), getattr(frame, field))
    for index, source in enumerate(module.node_sources):
        earlier = source.from_node
        if earlier and not 0 <= min(earlier) <= max(earlier) < index:
            for position, each in enumerate(earlier):
                if not 0 <= each < index:
                    message = f"{number_text(each)} is no index before its own, {index}"
                    here = (place, f".node_sources[{index}].from_node[{position}]")
                    walk.report(here, "index", message)
    check_metadata(walk, (place, ".metadata"), module.metadata)


def _check_names(walk: Walk, place: Place, given: list[str]) -> None:
    for index, name in enumerate(given):
        if not legal_names.is_parameter_name(name, keyword=True):
            walk.report((place, f"[{index}]"), "name", f"{quoted(name)} cannot name an argument or field")
    if len(set(given)) != len(given):
        walk.report(place, "duplicate", "a name stands twice in this list")


def _is_good_in_spec(text: str, positional: bool) -> bool:
    """Whether nothing is wrong with an input spec; False also where the checks below have to look closer to tell.

    Args:
        positional: whether torch makes names of the positional arguments, `arg_0` and so on.
    """
    try:
        keywords = keywords_of(parse_treespec(text))
    except (GraphwireError, ValueError, RecursionError):
        return False
    return all(
        isinstance(name, str)
        and legal_names.is_parameter_name(name, keyword=True)
        and name != "self"
        and not (positional and name.startswith("arg_"))
        for name in keywords
    )


def _check_keywords(text: str) -> None:
    """Check the names of keyword arguments in an input spec: torch writes them into code, between quotes."""
    try:
        keywords = keywords_of(parse_treespec(text))
    except GraphwireError:  # reported as no treespec
        return
    for name in keywords:
        if (
            not (isinstance(name, str) and legal_names.is_parameter_name(name, keyword=True))
            or name == "self"
        ):
            raise SchemaError(f"{quoted(str(name))} cannot name a keyword argument")


def _check_beside_generated(text: str) -> None:
    """Check the names of keyword arguments beside those that torch makes of the positional ones, `arg_0` and so on."""
    try:
        spec = parse_treespec(text)
        keywords = keywords_of(spec)
    except GraphwireError:  # reported as no treespec
        return
    generated = {f"arg_{index}" for index in range(len(spec.children[0].children))} if keywords else set()
    if taken := [name for name in keywords if isinstance(name, str) and name in generated]:
        raise SchemaError(f"{quoted(taken[0])} names a keyword argument and a positional one")


def _check_call(walk: Walk, place: Place, call: ModuleCallSignature) -> None:
    scope = Scope(None)
    for side, arguments, given in (
        ("input", call.inputs, call.input_names),
        ("output", call.outputs, call.output_names),
    ):
        for index, argument in enumerate(arguments):
            check_argument(walk, scope, (place, f".{side}s[{index}]"), argument, 0)
        if given is not None and len(given) != len(arguments):
            message = f"there are {len(arguments)} {side}s and {len(given)} names of them"
            walk.report((place, f".{side}_names"), "count", message)
        for index, name in enumerate(given or ()):
            if name is not None:
                walk.check_name((place, f".{side}_names[{index}]"), name)
    in_spec = call.in_spec, not call.forward_arg_names
    if in_spec not in walk.good_in_specs and _is_good_in_spec(*in_spec):
        walk.good_in_specs.add(in_spec)
        walk.texts[parse_treespec, call.in_spec] = None
    if in_spec not in walk.good_in_specs:
        walk.check_text((place, ".in_spec"), "treespec", parse_treespec, call.in_spec)
        walk.check_text((place, ".in_spec"), "name", _check_keywords, call.in_spec)
        if not call.forward_arg_names:
            walk.check_text((place, ".in_spec"), "name", _check_beside_generated, call.in_spec)
    walk.check_text((place, ".out_spec"), "treespec", parse_treespec, call.out_spec)
    if call.forward_arg_names is not None:
        _check_names(walk, (place, ".forward_arg_names"), call.forward_arg_names)
        if (
            "self" in call.forward_arg_names
        ):  # a second parameter of this name in the method that torch writes
            walk.report((place, ".forward_arg_names"), "name", "'self' cannot name an argument")


# --------------------------------------------------------------------------------------------------------- program


def _check_versions(walk: Walk, program: Program) -> None:
    if program.schema_version.major != SCHEMA_VERSION[0]:
        message = f"{number_text(program.schema_version.major)} is another schema than {SCHEMA_VERSION[0]}"
        walk.report((None, "schema_version.major"), "version", message)
    for namespace, version in program.opset_version.items():
        here = (None, f"opset_version[{quoted(namespace)}]")
        if not legal_names.is_attribute_path(namespace):
            walk.report(here, "name", f"{quoted(namespace)} cannot name an operator namespace")
        if type(version) is not int or version < 1:
            walk.report(here, "version", f"{number_text(version)} is no version, which are counted from 1")


def _check_conditions(walk: Walk, program: Program) -> None:
    _check_ranges(walk, "range_constraints", program.range_constraints)
    inline = program.graph_module.inline_constraints
    _check_ranges(walk, "graph_module.inline_constraints", inline or {})
    _check_replacements(walk, program)
    for index, guard in enumerate(program.guards_code):
        walk.check_text((None, f"guards_code[{index}]"), "guard", check_guard, guard)


def _check_ranges(walk: Walk, place: str, ranges: Mapping[str, RangeConstraint]) -> None:
    for text, limits in ranges.items():
        here = (None, f"{place}[{quoted(text)}]")
        walk.check_text(here, "expression", check_range_key, text)
        least, most = limits.min_val, limits.max_val
        if type(least) is bool or type(most) is bool:
            walk.report(here, "range", "a truth value is no end of a range")
        elif least is not None and most is not None and least > most:
            walk.report(here, "range", f"the range from {number_text(least)} to {number_text(most)} is empty")


def _check_replacements(walk: Walk, program: Program) -> None:
    """What stands for a symbol is made of symbols that nothing stands for, so that replacing ends."""
    replaced = program.graph_module.replacements

    def parse(text: str) -> None:
        check_expression(text)
        for name in symbols_of(parse_expression(text)):
            if name in replaced:
                raise ExpressionError(f"it has {name}, which is replaced itself")

    for name, text in replaced.items():
        here = (None, f"graph_module.replacements[{quoted(name)}]")
        if name not in program.range_constraints or not legal_names.is_value_name(name) or name in CONSTANTS:
            walk.report(here, "name", f"{quoted(name)} is no symbol that has a range")
        walk.check_text(here, "expression", parse, text)
    for text in walk.good_expressions if replaced else ():
        for name in replaced.keys() & set(symbols_of(parse_expression(text))):
            here = (None, f"graph_module.replacements[{quoted(name)}]")
            walk.report(
                here, "expression", f"the graph has {name}, for which something else stands: {quoted(text)}"
            )


def _check_extras(walk: Walk, program: Program) -> None:
    example = program.example_inputs
    if example is not None:
        here = (None, "example_inputs")
        walk.check_text((here, ".spec"), "treespec", parse_treespec, example.spec)
        scope = Scope(None)
        for index, leaf in enumerate(example.leaves):
            check_argument(walk, scope, (here, f".leaves[{index}]"), leaf, 0)
        _check_encoded(walk, (here, ".encoded_values"), example.encoded_values)
    _check_encoded(walk, (None, "encoded_values"), program.encoded_values)


def _check_encoded(walk: Walk, place: Place, values: Mapping[str, EncodedValue]) -> None:
    for name, encoded in values.items():
        here = (place, f"[{quoted(name)}]")
        walk.use_feature("codecs", here)
        walk.check_path(here, name)
        for index, tensor in enumerate(encoded.tensors):
            walk.check_path((here, f".tensors[{index}]"), tensor)


_UNSEEN = frozenset(
    {"calls", "containers", "dtypes", "lazy-bits", "layouts", "outputs", "placement", "results"}
)
"""Features that payloads can need, or writers alone can know of: a program may require them without a trace."""


def _check_plugins(walk: Walk, program: Program) -> None:
    for index, requirement in enumerate(program.plugins):
        if not requirement.is_installable:
            shown = f"{quoted(requirement.distribution)} in version {quoted(requirement.version)}"
            walk.report((None, f"plugins[{index}]"), "name", f"{shown} cannot be a distribution")


def _check_requires(walk: Walk, program: Program) -> None:
    listed: set[str] = set()
    for index, feature in enumerate(program.requires):
        here = (None, f"requires[{index}]")
        if feature not in FEATURES:
            walk.report(here, "unknown-feature", f"no extension is named {quoted(feature)}")
        elif feature in listed:
            walk.report(here, "duplicate", f"{feature} is listed before")
        elif feature not in walk.features and feature not in _UNSEEN:
            walk.report(here, "unneeded-requirement", f"nothing here uses the extension {feature}")
        listed.add(feature)
    for feature, place in walk.features.items():
        if feature not in listed:
            message = f"the extension {feature} is used, and not listed (first at {path_of(place)})"
            walk.report((None, "requires"), "missing-requirement", message)
