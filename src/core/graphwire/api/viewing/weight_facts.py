"""The facts about weights that a page shows: where they are, what was compared and, on request, how elements are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from msgspec.structs import replace

from graphwire.analysis.diff import Compared, PayloadSide, compare_payloads
from graphwire.api.viewing.sources import Shown, paired_methods
from graphwire.api.weights import list_weights
from graphwire.errors import EncodeError
from graphwire.viewer import Histogram, WeightChange, WeightFacts


def listed_weights(shown: Shown) -> dict[str, WeightFacts] | None:
    """Return where the weights of a file are, by name; None for programs in memory. Reads no elements."""
    return {name: WeightFacts(place) for name, place in _places(shown).items()} or None


def _places(shown: Shown) -> dict[str, str]:
    if shown.archive is None:
        return {}
    return {
        each.name: each.place
        for _, payloads in shown.programs.values()
        for each in list_weights(payloads, shown.references, 0)
    }


def weight_facts(shown: Shown) -> dict[str, WeightFacts]:
    """Return the distribution of the elements of all weights of a file, by name.

    Raises:
        EncodeError: torch is not installed.
        As `Record.view`.
    """
    _check_torch()
    from graphwire.bridge.program import element_facts

    places = _places(shown)
    found: dict[str, WeightFacts] = {}
    for _, payloads in shown.programs.values():
        for name, each in element_facts(payloads).items():
            facts = WeightFacts(places.get(name, ""), not_finite=each.not_finite)
            if each.finite:
                histogram = Histogram(each.low, each.high, each.counts)
                facts = replace(facts, histogram=histogram, mean=each.mean, std=each.std)
            found[name] = facts
    return found


def compared_weights(a: Shown, b: Shown, *, elements: bool) -> dict[str, dict[str, Compared]]:
    """Return what was compared of the weights and constants of two files, by program (of B) and section, as `diff` does.

    Args:
        elements: whether to read and compare all elements.

    Raises:
        GraphwireError: as `diff`.
    """
    found = {}
    for name, other in paired_methods(a, b).items():
        sides = (
            PayloadSide(program, None if shown.is_records else payloads)
            for shown, (program, payloads) in ((a, a.programs[name]), (b, b.programs[other]))
        )
        found[other] = compare_payloads(*sides, elements=elements)[0]
    return found


def weight_changes(compared: Mapping[str, Mapping[str, Compared]]) -> dict[str, dict[str, WeightChange]]:
    """Return the weights that differ, by program and name, with how much if elements were read."""
    return {
        name: {
            weight: WeightChange(False, change.max_abs, change.cosine)
            for section, each in sections.items()
            if section == "weight"
            for weight, change in each.differ.items()
        }
        for name, sections in compared.items()
    }


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise EncodeError(
            "the elements of weights are read with torch, which is not installed",
            remedy="Install torch, or leave weights out",
        )
