"""Validation of a document against the rules of its schema. It reports every problem with its place and kind.

The types of records are checked when they are made from a tree (`schema.trees`). This module checks what types
cannot express. The kinds of problems are stable:

    variant                   a union has no variant set, or several
    misplaced             a variant that is not allowed at this place
    dangling-reference    a name that no value of its graph has
    use-before-definition the name of a value that a later node makes
    wrong-kind            the name of a value of another kind, or specs and values of different kinds
    duplicate             a name that is already defined
    missing-value         a value without metadata in its graph
    undefined-value       metadata of a value that no input or node makes
    name                  a name that generated code cannot contain
    path                  a qualified name that no attribute can have
    target                text that is not an operator's name
    extent                a size, stride or offset that is negative, beyond 64 bits or not an integer; or unequal numbers of them
    element-type          an element type or layout with neither number nor name
    device                a device that cannot exist
    expression · guard · treespec · json    text that does not match its grammar
    text                  a stack trace with line ends other than line feeds
    range                 a range that is empty, or whose end is not an integer
    count                 two corresponding lists of different lengths
    mismatch              a name or literal that differs from the one that it must repeat
    index                 an index outside of its table, or not smaller than the index of its own row
    version               an invalid or unsupported version
    propagate             an operator whose results the reader cannot compute
    unknown-feature · missing-requirement · unneeded-requirement    `requires` does not match the extensions in use
    too-deep              arguments or subgraphs nested beyond the limits

Payloads are not part of a program: references to constants are not resolved. References in the
module call graph are not resolved, because torch itself leaves stale ones there after its passes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from graphwire.analysis.validation.graph_rules import Scope, check_argument, check_graph
from graphwire.analysis.validation.value_rules import (
    Place,
    Walk,
    are_attribute_paths,
    check_lines,
    check_metadata,
    check_payload,
    has_unusual_line_ends,
    is_namespace,
    is_parameter_name,
    is_value_name,
    missing_values,
    number_text,
    path_fault,
    path_of,
    quoted,
    report_variants,
    variants_of,
)
from graphwire.errors import EncodeError, ExpressionError, GraphwireError, Problem, ValidationError
from graphwire.schema import (
    FEATURES,
    SCHEMA_VERSION,
    VALUE_VARIANTS,
    Argument,
    ConstantValue,
    EncodedValue,
    Graph,
    GraphModule,
    GraphSignature,
    InputSpec,
    ModuleCallSignature,
    Node,
    PayloadMeta,
    Program,
    RangeConstraint,
    decode_float,
    held_in,
    value_name,
    variant_and_content,
)
from graphwire.schema.texts.treespec import keywords_of, parse_treespec


def validate(program: Program, sound: Mapping[int, Any] = MappingProxyType({})) -> list[Problem]:
    """Return every problem of `program`, records as `schema.trees` or the bridge makes them; an empty list if it is valid.

    Args:
        sound: lists of inputs of nodes, by id, that need no check: each input has a legal name, and is a literal or refers to a
            value that a node before it makes.
    """
    return _walked(program, sound).problems


def _walked(program: Program, sound: Mapping[int, Any] = MappingProxyType({})) -> Walk:
    walk = Walk(program, sound)
    try:
        _check_graph_module(walk, (None, "graph_module"), program.graph_module)
        _check_versions(walk, program)
        _check_conditions(walk, program)
        _check_extras(walk, program)
        _check_requires(walk, program)
        _check_plugins(walk, program)
    except RecursionError:
        walk.report((None, "graph_module"), "too-deep", "nested too deeply for the remaining stack")
    return walk


def check_valid(program: Program) -> Mapping[str, Node]:
    """Check that a program is valid.

    Returns:
        The operators that its graphs call, each with one of its nodes.

    Raises:
        ValidationError: it is not valid; the error lists every problem.
    """
    walk = _walked(program)
    _raise(program, walk.problems)
    return walk.calls


def check_payloads(program: Program, *tables: Mapping[str, PayloadMeta]) -> None:
    """Check the configs of a program: all names are legal, since torch sets weights and constants as attributes of modules,
    and each tensor is possible and strided.

    Raises:
        ValidationError: some are not; the error lists every problem.
    """
    _raise(program, payload_name_problems([name for table in tables for name in table]))
    walk = Walk(program)
    for table in tables:
        for name, payload in table.items():
            if payload.tensor_meta is not None:
                check_payload(walk, (None, "payloads", name), payload.tensor_meta, payload.placement)
    _raise(program, walk.problems)


def _raise(program: Program, problems: list[Problem]) -> None:
    if problems:
        is_named = all(each.kind in _OF_NAMES for each in problems) and _is_cured(program)
        remedy = "`graphwire convert --rename FILE DST` gives them other names" if is_named else _CHANGED
        raise ValidationError(problems, remedy=remedy)


def _is_cured(program: Program) -> bool:
    """Return whether other names make a program valid. Arguments of calls keep theirs: callers use them."""
    from graphwire.analysis.legal_names import with_legal_names  # which few errors need

    return not validate(with_legal_names(program)[0])


_OF_NAMES: Final = frozenset(("path", "name"))
"""The kinds of the problems of names."""
_CHANGED: Final = "Save the program again: the file was changed, or its writer has other rules"


def payload_name_problems(given: Collection[str]) -> list[Problem]:
    """Return a problem for each name that is not legal for weights and constants."""
    if are_attribute_paths(given):
        return []
    return [
        Problem(f"payloads[{quoted(name)}]", "path", fault)
        for name in given
        if (fault := path_fault(name)) is not None
    ]


# ------------------------------------------------------------------------------------------------------- signature


def _check_signature(walk: Walk, place: Place, signature: GraphSignature, graph: Graph) -> None:
    targets: dict[str, set[str]] = {"parameter": set(), "buffer": set(), "user_input": set()}
    inputs, outputs = signature.input_specs, signature.output_specs
    for side, specs, arguments in (("input", inputs, graph.inputs), ("output", outputs, graph.outputs)):
        if len(specs) != len(arguments):
            message = f"there are {len(specs)} specs and {len(arguments)} {side}s of the graph"
            walk.report((place, f".{side}_specs"), "count", message)
    parameters = [spec.parameter.parameter_name for spec in inputs if spec.parameter is not None]
    rest = [spec for spec in inputs if spec.parameter is None]
    buffers = [spec.buffer for spec in rest if spec.buffer is not None]
    good = are_attribute_paths([*parameters, *(buffer.buffer_name for buffer in buffers)])
    roles = (
        {*parameters},
        {buffer.buffer_name for buffer in buffers if buffer.persistent},
        {buffer.buffer_name for buffer in buffers if not buffer.persistent},
        {spec.tensor_constant.tensor_constant_name for spec in rest if spec.tensor_constant is not None},
        {spec.custom_obj.custom_obj_name for spec in rest if spec.custom_obj is not None},
    )
    if sum(map(len, roles)) > len(names := set[str]().union(*roles)):
        for name in sorted(names):
            if sum(name in each for each in roles) > 1:
                message = (
                    f"inputs name {quoted(name)} in two roles, or as a buffer that is persistent and is not"
                )
                walk.report((place, ".input_specs"), "duplicate", message)
    for index, (spec, argument) in enumerate(zip_longest(inputs, graph.inputs[: len(inputs)])):
        if argument is None or not (
            (good and _is_good_held(spec, argument, targets))
            or _is_good_passed(walk, spec, spec.user_input, argument, targets["user_input"])
        ):
            _check_spec(walk, (place, ".input_specs", index), spec, argument, targets)
    for index, (result, argument) in enumerate(zip_longest(outputs, graph.outputs[: len(outputs)])):
        if argument is None or not _is_good_passed(walk, result, result.user_output, argument, set()):
            _check_spec(walk, (place, ".output_specs", index), result, argument, targets)


class _SpecRule(msgspec.Struct, frozen=True):
    """The rule for one variant of a spec."""

    variant: str
    """The required variant of the corresponding input or output of the graph; empty for any."""
    field: str = ""
    """The spec's field with a name other than the value's."""
    makes: str = ""
    """The kind of name that `field` defines."""
    needs: str = ""
    """The kind of name that `field` refers to."""


_SPEC_RULES: Final[dict[str, _SpecRule]] = {
    "user_input": _SpecRule("", makes="user_input"),
    "parameter": _SpecRule("as_tensor", "parameter_name", makes="parameter"),
    "buffer": _SpecRule("as_tensor", "buffer_name", makes="buffer"),
    "tensor_constant": _SpecRule("as_tensor", "tensor_constant_name"),
    "custom_obj": _SpecRule("as_custom_obj", "custom_obj_name"),
    "token": _SpecRule("as_tensor"),
    "constant_input": _SpecRule(""),
    "user_output": _SpecRule(""),
    "loss_output": _SpecRule("as_tensor"),
    "buffer_mutation": _SpecRule("as_tensor", "buffer_name", needs="buffer"),
    "gradient_to_parameter": _SpecRule("as_tensor", "parameter_name", needs="parameter"),
    # Not resolved: torch keeps the name that the input had before export renamed it.
    "gradient_to_user_input": _SpecRule("as_tensor", "user_input_name"),
    "user_input_mutation": _SpecRule("as_tensor", "user_input_name", needs="user_input"),
    "parameter_mutation": _SpecRule("as_tensor", "parameter_name", needs="parameter"),
}
"""The rule for each variant of the specs of inputs and outputs."""


_SPECIFIABLE: Final = frozenset((*VALUE_VARIANTS, *ConstantValue.__struct_fields__))
"""The variants of what a caller passes and receives."""


_OTHER_INPUTS = len(InputSpec.__struct_fields__) - 1
"""How many variants of the spec of an input are not set."""


def _is_good_held(spec: InputSpec, argument: Argument, targets: dict[str, set[str]]) -> bool:
    """Return True if the spec of a parameter or buffer is certainly valid, and False if `_check_spec` must decide. Most inputs
    of a program are parameters and buffers."""
    tensor = argument.as_tensor
    if (parameter := spec.parameter) is not None:
        kind, name, value = "parameter", parameter.parameter_name, parameter.arg.name
    elif (buffer := spec.buffer) is not None:
        kind, name, value = "buffer", buffer.buffer_name, buffer.arg.name
    else:
        return False
    if tensor is None or tensor.name != value or astuple(spec).count(None) != _OTHER_INPUTS:
        return False
    targets[kind].add(name)
    return True


def _is_good_passed(walk: Walk, spec: Any, passed: Any, argument: Argument, made: set[str]) -> bool:
    """Return True if the spec of a tensor that the caller passes or receives is certainly valid, and False if `_check_spec`
    must decide. Adds its name to those that are made."""
    tensor = walk.alone.as_tensor = None if passed is None else passed.arg.as_tensor
    if tensor is None or passed.name is not None or not passed.arg == walk.alone == argument:
        return False
    if astuple(spec).count(None) != len(spec.__struct_fields__) - 1:
        return False
    made.add(tensor.name)
    return True


def _check_spec(
    walk: Walk, place: Place, spec: Any, argument: Argument | None, targets: dict[str, set[str]]
) -> None:
    variants = astuple(spec)
    if variants.count(None) != len(variants) - 1:
        report_variants(walk, place, spec)
        return
    kind, value = next(
        each for each in zip(spec.__struct_fields__, variants, strict=True) if each[1] is not None
    )
    rule, here = _SPEC_RULES[kind], (place, f".{kind}")
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
    if not rule.variant:
        if value.name is not None:
            walk.check_name((here, ".name"), value.name)
        name = value_name(value.arg)
        if len(given := variants_of(value.arg)) != 1:
            report_variants(walk, (here, ".arg"), value.arg)
            return
        if not _SPECIFIABLE.issuperset(given):
            walk.report((here, ".arg"), "misplaced", f"a {kind} cannot be {given[0]}")
        if rule.makes and name is not None:
            targets[rule.makes].add(name)
        if argument is not None and _content(value.arg) != _content(argument):
            _report_difference(walk, (here, ".arg"), value.arg, argument)
    elif argument is not None:
        there = getattr(argument, rule.variant)
        if there is None:
            message = f"a {kind} must be {rule.variant}, but the graph has another kind of value here"
            walk.report((here, ".arg"), "wrong-kind", message)
        elif there.name != value.arg.name:
            message = f"the spec names {quoted(value.arg.name)}, but the graph {quoted(there.name)}"
            walk.report((here, ".arg.name"), "mismatch", message)


def _content(held: Any) -> Any:
    """Return what equal arguments have in common: None has two forms, a float up to three, and 0.0 is not -0.0."""
    variant, value = variant_and_content(held)
    if variant == "as_float":
        return variant, repr(float(decode_float(value)))
    return variant, value if variant != "as_none" else None


def _report_difference(walk: Walk, place: Place, stated: Argument, found: Argument) -> None:
    if variants_of(stated) != variants_of(found):
        message = f"the spec has {variants_of(stated)}, but the graph has {variants_of(found)}"
        walk.report(place, "wrong-kind", message)
    else:
        one, other = quoted(value_name(stated) or "a literal"), quoted(value_name(found) or "another")
        walk.report(place, "mismatch", f"the spec's value is {one}, but the graph's is {other}")


def _check_constant_input(walk: Walk, place: Place, spec: Any, argument: Argument | None) -> None:
    walk.check_name((place, ".name"), spec.name)
    variants = variants_of(spec.value)
    if len(variants) != 1:
        report_variants(walk, (place, ".value"), spec.value)
    elif argument is not None and variants_of(argument) != variants:
        message = f"the spec has {variants[0]}, but the graph has {variants_of(argument)}"
        walk.report((place, ".value"), "wrong-kind", message)
    elif argument is not None and _content(argument) != _content(spec.value):
        walk.report((place, ".value"), "mismatch", "the spec's literal differs from the graph's")


# ---------------------------------------------------------------------------------------------------- graph module


def _check_graph_module(walk: Walk, place: Place, module: GraphModule) -> None:
    held = [spec.constant_input or spec.user_input for spec in module.signature.input_specs]
    literals = [None if each is None else each.name for each in held]
    check_graph(walk, (place, ".graph"), module.graph, 0, literals)
    _check_signature(walk, (place, ".signature"), module.signature, module.graph)
    entries = module.module_call_graph
    if [index for index, entry in enumerate(entries) if not entry.fqn] != [0][: len(entries)]:
        message = "the first entry, and no other, must be the root, whose name is empty"
        walk.report((place, ".module_call_graph[0].fqn"), "mismatch", message)
    good = are_attribute_paths([entry.fqn for entry in entries if entry.fqn])
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
                    message = f"the index {number_text(each)} is not smaller than its own, {index}"
                    here = (place, f".node_sources[{index}].from_node[{position}]")
                    walk.report(here, "index", message)
    check_metadata(walk, (place, ".metadata"), module.metadata)


def _check_names(walk: Walk, place: Place, given: list[str]) -> None:
    for index, name in enumerate(given):
        if not is_parameter_name(name, keyword=True):
            walk.report((place, f"[{index}]"), "name", f"{quoted(name)} cannot name an argument or field")
    if len(set(given)) != len(given):
        walk.report(place, "duplicate", "a name occurs twice in this list")


def _in_spec_faults(text: str, generated: bool) -> list[tuple[str, str]]:
    """Return the kind and message of each fault of an input spec, whose keywords torch writes into code, between quotes.

    Args:
        generated: whether torch generates names for the positional arguments, `arg_0` and so on.
    """
    try:
        spec = parse_treespec(text)
    except GraphwireError as error:
        return [("treespec", str(error))]
    try:
        keywords = keywords_of(spec)
    except GraphwireError:  # no names to check
        return []
    faults = []
    for name in keywords:
        if not isinstance(name, str) or not is_parameter_name(name, keyword=True) or name == "self":
            faults.append(("name", f"{quoted(str(name))} cannot name a keyword argument"))
            break
    if generated and keywords:
        positional = {f"arg_{index}" for index in range(len(spec.children[0].children))}
        if taken := [name for name in keywords if isinstance(name, str) and name in positional]:
            message = f"{quoted(taken[0])} names both a keyword argument and a positional one"
            faults.append(("name", message))
    return faults


def _check_call(walk: Walk, place: Place, call: ModuleCallSignature) -> None:
    scope = Scope(None)
    for side, arguments, given in (
        ("input", call.inputs, call.input_names),
        ("output", call.outputs, call.output_names),
    ):
        for index, argument in enumerate(arguments):
            check_argument(walk, scope, (place, f".{side}s[{index}]"), argument, 0)
        if given is not None and len(given) != len(arguments):
            message = f"there are {len(arguments)} {side}s and {len(given)} {side} names"
            walk.report((place, f".{side}_names"), "count", message)
        for index, name in enumerate(given or ()):
            if name is not None:
                walk.check_name((place, f".{side}_names[{index}]"), name)
    in_spec = call.in_spec, not call.forward_arg_names
    if in_spec not in walk.in_specs:
        faults = walk.in_specs[in_spec] = _in_spec_faults(*in_spec)
        if "treespec" not in [kind for kind, _ in faults]:
            walk.texts[parse_treespec, call.in_spec] = None  # as the example inputs mostly have it
    for kind, fault in walk.in_specs[in_spec]:
        walk.report((place, ".in_spec"), kind, fault)
    walk.check_text((place, ".out_spec"), "treespec", parse_treespec, call.out_spec)
    if call.forward_arg_names is not None:
        _check_names(walk, (place, ".forward_arg_names"), call.forward_arg_names)
        # It would be a second parameter of this name in the method that torch generates.
        if "self" in call.forward_arg_names:
            walk.report((place, ".forward_arg_names"), "name", "'self' cannot name an argument")


# --------------------------------------------------------------------------------------------------------- program


def _check_versions(walk: Walk, program: Program) -> None:
    if program.schema_version.major != SCHEMA_VERSION[0]:
        message = (
            f"the schema {number_text(program.schema_version.major)} is not the supported {SCHEMA_VERSION[0]}"
        )
        walk.report((None, "schema_version.major"), "version", message)
    for namespace, version in program.opset_version.items():
        here = (None, f"opset_version[{quoted(namespace)}]")
        if not is_namespace(namespace):
            walk.report(here, "name", f"{quoted(namespace)} cannot name an operator namespace")
        if type(version) is not int or version < 1:
            walk.report(here, "version", f"{number_text(version)} is not a version: versions start at 1")


def _check_conditions(walk: Walk, program: Program) -> None:
    _check_ranges(walk, "range_constraints", program.range_constraints)
    inline = program.graph_module.inline_constraints
    _check_ranges(walk, "graph_module.inline_constraints", inline or {})
    _check_replacements(walk, program)
    if not program.guards_code:
        return
    from graphwire.schema.texts.guard import check_guard

    for index, guard in enumerate(program.guards_code):
        walk.check_text((None, f"guards_code[{index}]"), "guard", check_guard, guard)


def _check_ranges(walk: Walk, place: str, ranges: Mapping[str, RangeConstraint]) -> None:
    if not ranges:
        return
    from graphwire.schema.texts.infix import check_range_key

    for text, limits in ranges.items():
        here = (None, f"{place}[{quoted(text)}]")
        walk.check_text(here, "expression", check_range_key, text)
        least, most = limits.min_val, limits.max_val
        if type(least) is bool or type(most) is bool:
            walk.report(here, "range", "the end of a range cannot be a truth value")
        elif least is not None and most is not None and least > most:
            walk.report(here, "range", f"the range from {number_text(least)} to {number_text(most)} is empty")


def _check_replacements(walk: Walk, program: Program) -> None:
    """Check that replacements of symbols contain only symbols that are not replaced themselves, so that replacing ends."""
    replaced = program.graph_module.replacements
    if not replaced:
        return
    from graphwire.schema.texts.infix import check_expression
    from graphwire.schema.texts.operations import CONSTANTS, parse_expression, symbols_of

    def parse(text: str) -> None:
        check_expression(text)
        for name in symbols_of(parse_expression(text)):
            if name in replaced:
                raise ExpressionError(f"it contains {name}, which is replaced itself")

    for name, text in replaced.items():
        here = (None, f"graph_module.replacements[{quoted(name)}]")
        if name not in program.range_constraints or not is_value_name(name) or name in CONSTANTS:
            walk.report(here, "name", f"{quoted(name)} is not a symbol with a range")
        walk.check_text(here, "expression", parse, text)
    for text in walk.good_expressions:
        for name in replaced.keys() & set(symbols_of(parse_expression(text))):
            here = (None, f"graph_module.replacements[{quoted(name)}]")
            walk.report(here, "expression", f"the graph contains {name}, which is replaced: {quoted(text)}")


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
    for name in _circular(values) if values else ():
        walk.report((place, f"[{quoted(name)}]"), "circle", "it is a part of itself")


def _circular(values: Mapping[str, EncodedValue]) -> list[str]:
    """Return the values that are parts of themselves, or whose parts are, without recursion."""
    left = {name: {part for part in each.tensors if part in values} for name, each in values.items()}
    whole_of: dict[str, list[str]] = {}
    for name, parts in left.items():
        for part in parts:
            whole_of.setdefault(part, []).append(name)
    done = [name for name, parts in left.items() if not parts]
    while done:
        part = done.pop()
        del left[part]
        for name in whole_of.get(part, ()):
            left[name].discard(part)
            if not left[name]:
                done.append(name)
    return list(left)


UNSEEN_FEATURES: Final = frozenset(
    {
        "calls",
        "containers",
        "dtypes",
        "external-weights",
        "lazy-bits",
        "layouts",
        "outputs",
        "placement",
        "results",
    }
)
"""Features that payloads or only writers can know of: a program may require them although its records do not show it."""


def _check_plugins(walk: Walk, program: Program) -> None:
    for index, requirement in enumerate(program.plugins):
        if not requirement.is_installable:
            shown = f"{quoted(requirement.distribution)} in version {quoted(requirement.version)}"
            walk.report((None, f"plugins[{index}]"), "plugin", f"{shown} is not a valid distribution")


def _check_requires(walk: Walk, program: Program) -> None:
    listed: set[str] = set()
    for index, feature in enumerate(program.requires):
        here = (None, f"requires[{index}]")
        if feature not in FEATURES:
            walk.report(here, "unknown-feature", f"no extension is named {quoted(feature)}")
        elif feature in listed:
            walk.report(here, "duplicate", f"{feature} is listed twice")
        elif feature not in walk.features and feature not in UNSEEN_FEATURES:
            walk.report(here, "unneeded-requirement", f"nothing here uses the extension {feature}")
        listed.add(feature)
    for feature, place in walk.features.items():
        if feature not in listed:
            message = f"the extension {feature} is used but not listed (first use: {path_of(place)})"
            walk.report((None, "requires"), "missing-requirement", message)


# ---------------------------------------------- check before a save that a load would accept the records of the program


_SHOWN: Final = 5
_NODE = r"graph_module\.graph\.nodes\[(\d+)\]"
UNREADABLE = (
    "A file cannot represent something in the program, or in what a plugin writes of it. If neither is the cause, this is a "
    "bug in graphwire: please report it"
)
"""The remedy for records that cannot be read for an unknown reason."""


def check_saved_program(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    sound: Mapping[int, Any] = MappingProxyType({}),
) -> None:
    """Check that a load would accept the records and payloads.

    Args:
        sound: as in `validate`.

    Raises:
        EncodeError: a load would reject them; the error lists the problems and their nodes.
    """
    try:
        names = payload_name_problems([*weights, *constants])
        needed = held_in(program.graph_module.signature)
        problems = [*validate(program, sound), *missing_values(program, needed, weights, constants), *names]
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        # Records of a wrong type. No reader makes such records.
        raise EncodeError(
            f"an operator handler returned invalid records: {type(error).__name__}: {error}",
            remedy=UNREADABLE,
        ) from error
    if problems:
        more = len(problems) - _SHOWN
        shown = "; ".join(_problem_text(program, each) for each in problems[:_SHOWN])
        rest = f"; and {more} more" if more > 0 else ""
        if all(each.kind in _OF_NAMES for each in problems):
            otherwise = ', or save with names="renamed", which gives them other names'
            raise EncodeError(
                f"no reader accepts these names: {shown}{rest}",
                remedy=f"Rename them in the model{otherwise if _is_cured(program) else ''}",
            )
        if all(each.kind == "guard" for each in problems):
            raise EncodeError(
                f"no reader accepts these guards of the program: {shown}{rest}",
                remedy="Rename the keys of its inputs: guards cannot quote a key with a quote, a backslash or a line break",
            )
        raise EncodeError(f"the file could not be loaded again: {shown}{rest}", remedy=UNREADABLE)


def _problem_text(program: Program, problem: Problem) -> str:
    found = re.match(_NODE, problem.place)
    if found is None:
        return str(problem)
    node = program.graph_module.graph.nodes[int(found[1])]
    return f"{problem} (node {node.name or '?'}, {node.target})"
