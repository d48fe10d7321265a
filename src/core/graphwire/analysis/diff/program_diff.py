"""Differences between two programs: nodes by module and operator, inputs, outputs, ranges, versions, weights.

Two programs are the same if their canonical forms are; then the diff is empty. Otherwise it lists all differences, with the
names that the programs themselves use. A node whose results differ only because its inputs differ is a derived change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from graphwire.analysis.canonical import (
    Arrangement,
    PayloadSet,
    arrangement,
    document_hash,
    payload_digests,
    payload_facts,
    program_content,
)
from graphwire.analysis.diff.facts import SECTIONS, Entries, Labels
from graphwire.analysis.diff.nodes import Detail, NodeChange, Side, diff_graphs
from graphwire.schema import Program, SignatureNames, names_in, value_name

__all__ = ["Change", "Detail", "Diff", "NodeChange", "diff"]

MAX_OTHERS = 50
"""The largest number of differing places in the documents to list if no other change explains the difference."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a section that only one side has, or that differs between the two sides."""

    section: str
    """`input`, `output`, `range`, `guard`, `version`, `module call`, `weight` … (`analysis.diff.facts.SECTIONS`)."""
    change: Literal["added", "removed", "changed"]
    name: str
    details: list[Detail] = []


class Diff(msgspec.Struct, frozen=True):
    """The differences between two programs, A and B."""

    same: bool
    hash_a: str
    """The content hash of A. It includes the elements of weights if these were compared."""
    hash_b: str
    nodes_a: int
    """The number of nodes in the top-level graph of A."""
    nodes_b: int
    changes: list[Change]
    nodes: list[NodeChange]
    """The changed nodes in the order of B; removed nodes at their former position."""


def diff(
    a: Program, b: Program, payloads: tuple[PayloadSet, PayloadSet] | None = None, *, elements: bool = False
) -> Diff:
    """Return the differences between two valid programs.

    Args:
        payloads: the weights and constants of both, to compare their metadata, such as type and shape.
        elements: also compare the elements of weights and constants. This reads all of them.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
        MissingRecordError: elements are compared, and a payload has no record, or its record is too short.
    """
    forms = arrangement(a), arrangement(b)
    read_a, read_b = payloads if payloads is not None and elements else (None, None)
    changes: list[Change] = []
    nodes: list[NodeChange] = []
    documents = [program_content(program, form) for program, form in zip((a, b), forms, strict=True)]
    if documents[0] != documents[1]:
        changes, nodes = _program_changes(a, b, forms)
        if not changes and not nodes:
            changes = list(_other_changes(*map(msgspec.msgpack.decode, documents)))[:MAX_OTHERS]
    else:
        changes += _encoded_changes(a, b, every=elements)
    if payloads is not None:
        for kind in ("weight", "constant"):
            changes += _entry_changes(kind, *(_payload_entries(each, kind, elements) for each in payloads))
    return Diff(
        same=documents[0] == documents[1] and not changes,
        hash_a=document_hash(documents[0], a, read_a),
        hash_b=document_hash(documents[1], b, read_b),
        nodes_a=len(a.graph_module.graph.nodes),
        nodes_b=len(b.graph_module.graph.nodes),
        changes=changes,
        nodes=nodes,
    )


def _program_changes(
    a: Program, b: Program, forms: tuple[Arrangement, Arrangement]
) -> tuple[list[Change], list[NodeChange]]:
    called = {position: name for position, name in enumerate(_user_input_names(a)) if name}
    called = dict(enumerate(_user_input_names(b))) | called
    labels = [
        Labels(program, form.symbols.names, called) for program, form in zip((a, b), forms, strict=True)
    ]
    sides = [
        Side(program.graph_module.graph, _identities(program), label)
        for program, label in zip((a, b), labels, strict=True)
    ]
    nodes, names = diff_graphs(sides[0], sides[1])
    changes: list[Change] = []
    for section, entries in SECTIONS.items():
        both = (entries(a, labels[0]), entries(b, labels[1]))
        if section == "output":
            _note_sources(a, both[0], names)
            _note_sources(b, both[1], None)
        changes += _entry_changes(section, *both)
    return changes, nodes


def _user_input_names(program: Program) -> list[str]:
    found = []
    for spec in program.graph_module.signature.input_specs:
        if spec.user_input is not None:
            found.append(value_name(spec.user_input.arg) or spec.user_input.name or "")
        elif spec.constant_input is not None:
            found.append(spec.constant_input.name)
    return found


def _identities(program: Program) -> dict[str, str]:
    """Return for each input, by name, a text that identifies it and is the same in both programs."""
    signature, graph = program.graph_module.signature, program.graph_module.graph
    names = SignatureNames(signature)
    found = {name: f"token {position}" for position, name in enumerate(names.input_tokens)}
    for kind, held in (
        ("parameter", names.inputs_to_parameters),
        ("buffer", names.inputs_to_buffers),
        ("constant", names.inputs_to_lifted_tensor_constants),
        ("object", names.inputs_to_lifted_custom_objs),
    ):
        found |= {name: f"{kind} {target}" for name, target in held.items()}
    passed = [
        argument
        for spec, argument in zip(signature.input_specs, graph.inputs, strict=True)
        if spec.user_input or spec.constant_input
    ]
    for position, argument in enumerate(passed):
        found |= {name: f"argument {position}" for name in names_in(argument)}
    return found


def _note_sources(program: Program, outputs: Entries, names: Mapping[str, str] | None) -> None:
    """Add to the facts of each output the name on side B of the value that it returns."""
    for facts, argument in zip(outputs.values(), program.graph_module.graph.outputs, strict=True):
        for name in names_in(argument):
            facts["value"] = name if names is None else names.get(name, f"{name} (of A only)")


def _entry_changes(section: str, a: Entries, b: Entries) -> Iterator[Change]:
    for name in dict.fromkeys([*a, *b]):
        if name not in b:
            yield Change(section, "removed", name, [Detail(what, each, "") for what, each in a[name].items()])
        elif name not in a:
            yield Change(section, "added", name, [Detail(what, "", each) for what, each in b[name].items()])
        else:
            whats = dict.fromkeys([*a[name], *b[name]])
            details = [Detail(what, a[name].get(what, ""), b[name].get(what, "")) for what in whats]
            details = [each for each in details if each.a != each.b]
            if details:
                yield Change(section, "changed", name, details)


def _payload_entries(payloads: PayloadSet, kind: str, elements: bool) -> Entries:
    metas = payloads.weights if kind == "weight" else payloads.constants
    found = {name: payload_facts(meta) for name, meta in metas.items()}
    if elements:
        for (of, name), digest in payload_digests(payloads).items():
            if of == kind:
                found[name]["elements"] = digest[:16]
    return found


def _encoded_changes(a: Program, b: Program, *, every: bool) -> Iterator[Change]:
    """Yield the differences between encoded values that both programs have; with `every`, between all.

    A side without an encoded value may simply not support it."""
    nobody: dict[int, str] = {}
    entries = SECTIONS["encoded value"]
    both = [entries(program, Labels(program, {}, nobody)) for program in (a, b)]
    if not every:
        both = [
            {name: facts for name, facts in each.items() if name in both[0] and name in both[1]}
            for each in both
        ]
    yield from _entry_changes("encoded value", both[0], both[1])


def _other_changes(a: Any, b: Any, place: str = "") -> Iterator[Change]:
    """Yield the places in which two documents differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _other_changes(a.get(key), b.get(key), f"{place}.{key}" if place else key)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _other_changes(one, other, f"{place}[{index}]")
    elif a != b or type(a) is not type(b):
        details = [Detail("value", *(msgspec.json.encode(each).decode()[:120] for each in (a, b)))]
        yield Change("document", "changed", place, details)
