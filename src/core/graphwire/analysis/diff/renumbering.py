"""Layers that have other numbers in the other program, since some before them were removed or added, or they moved. They are
matched by what they are, so that a diff compares each layer with itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from graphwire.analysis.diff.facts import Entries
from graphwire.analysis.diff.nodes import match, module_path
from graphwire.schema import Program, SignatureNames

ABSENT: Final = "\0"
"""The end of the path of a layer that side B lacks, so that it is no path of B."""

_NUMBERED: Final = re.compile(r"(?:^|(?<=\.))[0-9]+(?=\.|$)")


class Renumbering(NamedTuple):
    """The layers in lists where numbers differ."""

    numbers: Mapping[str, str] = {}
    """The path on side B of each layer of A, such as `{"layers.3": "layers.2"}`."""
    added: tuple[str, ...] = ()
    """The paths of layers that A lacks."""

    def renamed(self, name: str) -> str:
        """Return the name on side B of a module or weight of A."""
        end = len(name)
        while self.numbers and end > 0:
            if name[:end] in self.numbers:
                return self.numbers[name[:end]] + name[end:]
            end = name.rfind(".", 0, end)
        return name

    def renamed_entries(self, entries: Entries) -> Entries:
        """Return entries of A by their names on side B. The last word of each is the name, as in `parameter layers.3.bias`."""
        if not self.numbers:
            return entries
        found = {}
        for name, facts in entries.items():
            what, space, held = name.rpartition(" ")
            found[f"{what}{space}{self.renamed(held)}"] = facts
        return found


class _Layer(NamedTuple):
    nodes: list[tuple[str, str]]
    """The module, inside the layer, and the operator of each node."""
    weights: list[tuple[str, str, str]]
    """The name, inside the layer, the type and shape, and the checksum of each weight."""

    @property
    def keys(self) -> tuple[str, str, str]:
        """What equal layers have in common, the most specific first."""
        weights = sorted(self.weights)
        modules = list(dict.fromkeys(module for module, _ in self.nodes))
        shapes, names = ([each[:count] for each in weights] for count in (2, 1))
        return repr((self.nodes, weights)), repr((self.nodes, shapes)), repr((modules, names))


def renumbering(
    a: Program, b: Program, checksums: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> Renumbering:
    """Return which numbers of layers differ: those of lists in which more layers are equal with other numbers than their own.

    Args:
        checksums: for both sides, by the name of a weight, a text that is equal if its elements are, where files list one.
    """
    lists_a, lists_b = (_layers(program, known) for program, known in zip((a, b), checksums, strict=True))
    numbers: dict[str, str] = {}
    added: list[str] = []
    for path in sorted(lists_a, key=lambda each: (each.count("."), each)):
        start = f"{Renumbering(numbers).renamed(path[:-1])}." if path else ""
        theirs = lists_b.get(start, {})
        pairs = _pairs(lists_a[path], theirs)
        if pairs is None:
            continue
        numbers |= {
            path + own: start + pairs[own] if own in pairs else path + own + ABSENT for own in lists_a[path]
        }
        added += [start + number for number in theirs if number not in set(pairs.values())]
    return Renumbering(numbers, tuple(added))


def _layers(program: Program, checksums: Mapping[str, str]) -> dict[str, dict[str, _Layer]]:
    """Return the layers of each list of modules, by the path before their numbers, and by these, in the order of the nodes."""
    found: dict[str, dict[str, _Layer]] = {}

    def around(path: str) -> list[tuple[_Layer, str]]:
        return [
            (found.setdefault(path[: at.start()], {}).setdefault(at[0], _Layer([], [])), path[at.end() :])
            for at in _NUMBERED.finditer(path)
        ]

    graph = program.graph_module.graph
    for node in graph.nodes:
        for layer, module in around(module_path(node)):
            layer.nodes.append((module, node.target))
    names = SignatureNames(program.graph_module.signature)
    for value, name in [*names.inputs_to_parameters.items(), *names.inputs_to_buffers.items()]:
        meta = graph.tensor_values.get(value)
        form = "" if meta is None else f"{meta.dtype_text} {[size.as_int for size in meta.sizes]}"
        module, _, own = name.rpartition(".")
        for layer, inside in around(module):
            layer.weights.append((f"{inside}.{own}", form, checksums.get(name, "")))
    return found


def _pairs(a: Mapping[str, _Layer], b: Mapping[str, _Layer]) -> dict[str, str] | None:
    """Return the number on side B of each layer that both have; None if no more are equal so than by their own numbers."""
    keys_a, keys_b = ({number: layer.keys for number, layer in side.items()} for side in (a, b))

    def equal(pairs: Mapping[str, str]) -> int:
        return sum(
            keys_a[one][level] == keys_b[other][level] for one, other in pairs.items() for level in (0, 1)
        )

    own = {number: number for number in a if number in b}
    has_same_graphs = len(own) == len(a) == len(b) and all(keys_a[each][1] == keys_b[each][1] for each in own)
    if not b or has_same_graphs:  # weights that changed places are another difference
        return None
    numbers_a, numbers_b = list(a), list(b)
    matched = match(list(keys_a.values()), list(keys_b.values()), moved_levels=2)
    found = {numbers_a[one]: numbers_b[other] for one, other in matched}
    return found if equal(found) > equal(own) else None
