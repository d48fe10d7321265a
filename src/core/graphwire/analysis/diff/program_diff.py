"""Differences between two programs: nodes by module and operator, inputs, outputs, ranges, versions, weights.

Two programs are the same if their canonical forms are; then the diff is empty. Otherwise it lists all differences, with the
names that the programs themselves use. A node whose results differ only because its inputs differ is a derived change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from graphwire.analysis.canonical.content_hashing import (
    Arrangement,
    PayloadSet,
    arrangement,
    document_hash,
    program_content,
)
from graphwire.analysis.diff.facts import SECTIONS, Entries, Labels, encoded_entries, user_inputs
from graphwire.analysis.diff.nodes import Detail, NodeChange, Side, diff_graphs, fact_details
from graphwire.analysis.diff.renumbering import ABSENT, Renumbering, renumbering
from graphwire.analysis.diff.weights import Compared, PayloadSide, compare_payloads, compared_text
from graphwire.errors import count_text, escaped
from graphwire.schema import Program, SignatureNames, names_in, value_name

MAX_OTHERS = 50
"""The largest number of differing places in the documents to list if no other change explains the difference."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a section that only one side has, or that differs between the two sides."""

    section: str
    """`layer` (one whose number differs), `input`, `output`, `range`, `guard`, `version`, `module call`, `weight` …
    (`analysis.diff.facts.SECTIONS`)."""
    change: Literal["added", "removed", "changed"]
    name: str
    details: list[Detail] = []


class Diff(msgspec.Struct, frozen=True, omit_defaults=True):
    """The differences between two programs, A and B."""

    same: bool
    """Whether nothing differs, apart from `not_held`."""
    hash_a: str
    """The content hash of A. It includes the elements of weights if these were compared."""
    hash_b: str
    """The content hash of B."""
    nodes_a: int
    """The number of nodes in the top-level graph of A."""
    nodes_b: int
    """The number of nodes in the top-level graph of B."""
    changes: list[Change]
    """The differences outside of nodes: inputs, outputs, weights, ranges, versions."""
    nodes: list[NodeChange]
    """The changed nodes in the order of B; removed nodes at their former position."""
    compared: dict[str, Compared] = {}
    """What was compared of the weights and constants that both have, by section: `weight`, `constant`. Their types and shapes
    always are, their elements if that was asked for, and otherwise the checksums that both files list."""
    not_held: list[Change] = []
    """What only one of them has since the older schema of the other's file cannot hold it; this is no difference."""
    holder: str = ""
    """That schema, such as `schema 5.3 (torch 2.4)`."""

    def __repr__(self) -> str:
        if self.same:
            held = f" as far as {self.holder} holds it" if self.not_held else ""
            what = f"the same{held}, {self.nodes_a} nodes, {self.hash_a}"
        else:
            what = f"{count_text(len(self.changes), 'change')}, {count_text(len(self.nodes), 'changed node')}"
        return f"<Diff: {what}; {escaped(compared_text(self.compared))}; str() lists all>"

    def _repr_html_(self) -> str:
        from graphwire.analysis.diff.text import details_text  # only notebooks need it
        from graphwire.display import Section, sections_html

        nodes = [
            (
                each.change,
                each.module,
                each.operator.removeprefix("torch.ops."),
                each.name,
                details_text(each),
            )
            for each in self.nodes
            if not each.derived
        ]
        changes = [(each.change, each.section, each.name, details_text(each)) for each in self.changes]
        not_held = [(each.change, each.section, each.name, details_text(each)) for each in self.not_held]
        heads = ("change", "section", "name", "details")
        sections = [
            Section("Changes", heads, changes),
            Section("Nodes", ("change", "module", "operator", "name", "details"), nodes),
            Section(f"Not held by {self.holder}", heads, not_held),
        ]
        return sections_html(repr(self)[1:-1], sections)

    def __str__(self) -> str:
        from graphwire.analysis.diff.text import diff_lines

        return "\n".join(map(escaped, diff_lines(self)))


def diff(
    a: Program,
    b: Program,
    payloads: tuple[PayloadSet | None, PayloadSet | None] = (None, None),
    *,
    elements: bool = False,
) -> Diff:
    """Return the differences between two valid programs.

    Args:
        payloads: the weights and constants of both, to compare their types, shapes and known checksums; None for records alone.
        elements: also compare the elements of weights and constants. This reads all of them.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
        MissingRecordError: elements are compared, and a payload has no record, or its record is too short.
    """
    forms = arrangement(a), arrangement(b)
    read_a, read_b = payloads if elements else (None, None)
    changes: list[Change] = []
    nodes: list[NodeChange] = []
    sides = PayloadSide(a, payloads[0]), PayloadSide(b, payloads[1])
    documents = [program_content(program, form) for program, form in zip((a, b), forms, strict=True)]
    if documents[0] != documents[1]:
        found = renumbering(a, b, (sides[0].checksums, sides[1].checksums))
        sides = sides[0]._replace(renumbering=found), sides[1]
        changes, nodes = _program_changes(a, b, forms, found)
        if not changes and not nodes:
            changes = list(_other_changes(*map(msgspec.msgpack.decode, documents)))[:MAX_OTHERS]
    else:
        changes += _encoded_changes(a, b, every=elements)
    compared, facts = compare_payloads(*sides, elements=elements)
    for section, (facts_a, facts_b) in facts.items():
        changes += _entry_changes(section, facts_a, facts_b)
    return Diff(
        same=documents[0] == documents[1] and not changes,
        hash_a=document_hash(documents[0], a, read_a),
        hash_b=document_hash(documents[1], b, read_b),
        nodes_a=len(a.graph_module.graph.nodes),
        nodes_b=len(b.graph_module.graph.nodes),
        changes=changes,
        nodes=nodes,
        compared=compared,
    )


def without_not_held(found: Diff, held: Diff, holder: str) -> Diff:
    """Return a diff with what an older schema cannot hold in a group of its own.

    Args:
        found: the differences of the two programs.
        held: the differences of the same two as the older of both schemas holds them.
        holder: that schema.
    """
    nodes = {change.name: change for change in held.nodes}
    entries = {(change.section, change.change, change.name): change for change in held.changes}
    not_held = []
    for change in found.changes:
        kept = entries.get((change.section, change.change, change.name))
        lost = [detail for detail in change.details if kept is None or detail not in kept.details]
        if kept is None or lost:
            not_held.append(msgspec.structs.replace(change, details=lost))
    for node in found.nodes:
        if node.name not in nodes and not node.derived:
            kind = "changed" if node.change == "moved" else node.change
            not_held.append(Change("node", kind, f"{node.operator} {node.name}", node.details))
    return msgspec.structs.replace(
        found, same=held.same, changes=held.changes, nodes=held.nodes, not_held=not_held, holder=holder
    )


def _program_changes(
    a: Program, b: Program, forms: tuple[Arrangement, Arrangement], layers: Renumbering
) -> tuple[list[Change], list[NodeChange]]:
    named = zip_longest(_user_input_names(a), _user_input_names(b), fillvalue="")
    called = [one or other for one, other in named]
    labels_a, labels_b = (
        Labels(program, form.symbols.names, called) for program, form in zip((a, b), forms, strict=True)
    )
    nodes, names = diff_graphs(
        Side(
            a.graph_module.graph, _identities(a, layers), labels_a, layers.renamed if layers.numbers else None
        ),
        Side(b.graph_module.graph, _identities(b), labels_b),
    )
    changes = list(_layer_changes(layers))
    for section, entries in SECTIONS.items():
        entries_a, entries_b = layers.renamed_entries(entries(a, labels_a)), entries(b, labels_b)
        if section == "output":
            _note_sources(a, entries_a, names)
            _note_sources(b, entries_b, None)
        changes += _entry_changes(section, entries_a, entries_b)
    return changes, nodes


def _user_input_names(program: Program) -> list[str]:
    found = []
    for spec in program.graph_module.signature.input_specs:
        if spec.user_input is not None:
            found.append(value_name(spec.user_input.arg) or spec.user_input.name or "")
        elif spec.constant_input is not None:
            found.append(spec.constant_input.name)
    return found


def _layer_changes(layers: Renumbering) -> Iterator[Change]:
    for before, after in layers.numbers.items():
        if after.endswith(ABSENT):
            yield Change("layer", "removed", before)
        elif after != before:
            yield Change("layer", "changed", after, [Detail("path", before, after)])
    yield from (Change("layer", "added", path) for path in layers.added)


def _identities(program: Program, layers: Renumbering | None = None) -> dict[str, str]:
    """Return for each input, by name, a text that identifies it and is the same in both programs."""
    names = SignatureNames(program.graph_module.signature)
    found = {name: f"token {position}" for position, name in enumerate(names.input_tokens)}
    for kind, held in (
        ("parameter", names.inputs_to_parameters),
        ("buffer", names.inputs_to_buffers),
        ("constant", names.inputs_to_lifted_tensor_constants),
        ("object", names.inputs_to_lifted_custom_objs),
    ):
        found |= {
            name: f"{kind} {target if layers is None else layers.renamed(target)}"
            for name, target in held.items()
        }
    for position, argument in enumerate(user_inputs(program)):
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
            own = name.replace(ABSENT, "")
            yield Change(section, "removed", own, [Detail(what, each, "") for what, each in a[name].items()])
        elif name not in a:
            yield Change(section, "added", name, [Detail(what, "", each) for what, each in b[name].items()])
        elif details := fact_details(a[name], b[name]):
            yield Change(section, "changed", name, details)


def _encoded_changes(a: Program, b: Program, *, every: bool) -> Iterator[Change]:
    """Return the differences between encoded values that both programs have; with `every`, between all.

    A side without an encoded value may simply not support it."""
    changes = _entry_changes("encoded value", encoded_entries(a), encoded_entries(b))
    return (change for change in changes if every or change.change == "changed")


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
