"""The facts about the elements of weights that a page shows on request. Elements are read with torch."""

from __future__ import annotations

from importlib.util import find_spec

from graphwire.api.viewing.differences import paired_methods
from graphwire.api.viewing.sources import Shown
from graphwire.errors import EncodeError
from graphwire.viewer import Histogram, WeightChange, WeightFacts


def weight_facts(shown: Shown) -> dict[str, WeightFacts]:
    """Return the distribution of the elements of all weights of a file, by name.

    Raises:
        EncodeError: torch is not installed.
        As `Record.view`.
    """
    _check_torch()
    from graphwire.bridge.program import element_facts

    found: dict[str, WeightFacts] = {}
    for _, payloads in shown.programs.values():
        for name, each in element_facts(payloads).items():
            if not each.finite:
                found[name] = WeightFacts(None, None, None, each.not_finite)
            else:
                histogram = Histogram(each.low, each.high, each.counts)
                found[name] = WeightFacts(histogram, each.mean, each.std, each.not_finite)
    return found


def weight_changes(a: Shown, b: Shown) -> dict[str, dict[str, WeightChange]]:
    """Return how the elements of weights differ, by program and name.

    Raises:
        As `weight_facts`.
    """
    _check_torch()
    from graphwire.bridge.program import element_changes

    return {
        name: {
            weight: WeightChange(*each)
            for weight, each in element_changes(a.programs[name][1], b.programs[other][1]).items()
        }
        for name, other in paired_methods(a, b).items()
    }


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise EncodeError(
            "the elements of weights are read with torch, which is not installed",
            remedy="Install torch, or leave weights out",
        )
