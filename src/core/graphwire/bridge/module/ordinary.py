"""Tells whether a program record is ordinary, so that `decode_program` certainly accepts it.

A module that runs is made without fake tensors, symbols and a signature, which is where torch refuses records that break its
rules. Nearly every program is ordinary. Any other is first decoded as an exported program, which is then
dropped: what that refuses, `load_module` refuses with the same error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from graphwire import schema
from graphwire.bridge.torch_compat.verifiers import may_call, verifier_of

_NAMED_DEVICES = frozenset(("cpu", "cuda", "meta"))
_ACTIONS = frozenset(("", "create", "replace", "create+replace", "replace+create"))
_HEAD = re.compile(r"[A-Za-z_]\w*(?=\()")
_NUMBERS = frozenset("Symbol Integer Add Mul Mod PythonMod FloorDiv CleanDiv Max Min".split())
"""The heads of expressions whose value certainly is a whole number."""
_TRUTHS = frozenset("Equality Unequality LessThan GreaterThan StrictLessThan StrictGreaterThan".split())


def is_ordinary(
    record: schema.Program, targets: Iterable[Any], state: Mapping[str, Any], constants: Mapping[str, Any]
) -> bool:
    """Return whether torch certainly accepts a valid record.

    Args:
        targets: what the nodes call.
        state: the weights by name.
        constants: the constants by name.
    """
    module = record.graph_module
    return (
        "constants" not in record.requires  # torch accepts a tensor as an attribute of a subgraph only
        and all(may_call(targets, verifier_of(dialect)) for dialect in record.verifiers)
        and not any(call.signature for call in module.module_call_graph[1:])
        and _has_its_names(module)
        and _holds_what_it_says(module.signature, state, constants)
        and _changes_in_order(module.signature)
        and _ACTIONS.issuperset(each.action for each in module.node_sources)
        and all(map(_describes_plainly, schema.graphs_in(module.graph)))
    )


def _has_its_names(module: schema.GraphModule) -> bool:
    """Return whether the inputs and outputs that the program's own call names are those of the graph."""
    if not module.module_call_graph or (call := module.module_call_graph[0].signature) is None:
        return True
    graph = module.graph
    named = {schema.value_name(each) for each in (*call.inputs, *call.outputs)}
    return named <= {None, *map(schema.value_name, graph.inputs), *map(schema.value_name, graph.outputs)}


def _holds_what_it_says(
    signature: schema.GraphSignature, state: Mapping[str, Any], constants: Mapping[str, Any]
) -> bool:
    for spec in signature.input_specs:
        if spec.parameter is not None:
            if not isinstance(state.get(spec.parameter.parameter_name), torch.nn.Parameter):
                return False
        elif spec.buffer is not None:
            if (spec.buffer.buffer_name in state) is not spec.buffer.persistent:
                return False
        elif (held := schema.held_by(spec)) is not None and held.name not in constants:
            return False
    return True


def _changes_in_order(signature: schema.GraphSignature) -> bool:
    """Return whether the program returns tokens, then new values, then results, and each new value has a place of its own."""
    last = 0
    written: set[str] = set()
    places: set[tuple[str, str]] | None = None
    for spec in signature.output_specs:
        if spec.user_output is not None:
            last = 2
            continue
        if last == 2:
            return False
        if spec.token is not None:
            if last:
                return False
            continue
        last = 1
        change = _change(spec)
        places = _places(signature) if places is None else places
        if change is None or change[1:] not in places or change[0] in written:
            return False
        written.add(change[0])
    return True


def _change(spec: schema.OutputSpec) -> tuple[str, str, str] | None:
    """Return the new value that an output is, and the kind and name of the place where it is written."""
    if (buffer := spec.buffer_mutation) is not None:
        return buffer.arg.name, "buffer", buffer.buffer_name
    if (parameter := spec.parameter_mutation) is not None:
        return parameter.arg.name, "parameter", parameter.parameter_name
    if (given := spec.user_input_mutation) is not None:
        return given.arg.name, "input", given.user_input_name
    return None


def _places(signature: schema.GraphSignature) -> set[tuple[str, str]]:
    inputs = (schema.value_name(each.user_input.arg) for each in signature.input_specs if each.user_input)
    return {
        *((each.kind, each.name) for each in schema.held_in(signature)),
        *(("input", name) for name in inputs if name is not None),
    }


def _describes_plainly(graph: schema.Graph) -> bool:
    """Return whether torch can describe each tensor of a graph: strided ones, whose sizes are numbers or depend on a symbol."""
    texts: set[str] = set()
    for meta in graph.tensor_values.values():
        if (
            meta.layout is not schema.Layout.Strided
            or meta.dtype is schema.ScalarType.UNKNOWN
            or meta.device.type not in _NAMED_DEVICES
        ):
            return False
        for size in (*meta.sizes, *meta.strides, meta.storage_offset):
            if size.as_expr is not None:
                texts.add(size.as_expr.expr_str)
    truths = {each.as_expr.expr_str for each in graph.sym_bool_values.values() if each.as_expr is not None}
    whole = {
        each.as_expr.expr_str for each in (graph.sym_int_values or {}).values() if each.as_expr is not None
    }
    return (
        all("Symbol(" in text for text in texts)
        and all(_NUMBERS.issuperset(_HEAD.findall(text)) for text in texts | whole)
        and all(text.partition("(")[0] in _TRUTHS for text in truths)
    )
