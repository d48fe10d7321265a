"""The facts about the elements of weights that a page shows on request. Elements are read with torch."""

from __future__ import annotations

import math
from importlib.util import find_spec

from msgspec.structs import replace

from graphwire.api.viewing.sources import Shown, paired_methods
from graphwire.api.weights import list_weights
from graphwire.errors import EncodeError
from graphwire.schema import ITEM_SIZES, PayloadMeta
from graphwire.viewer import Histogram, WeightChange, WeightFacts
from graphwire.wire import WEIGHTS, known_integers


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


def weight_changes(a: Shown, b: Shown) -> dict[str, dict[str, WeightChange]]:
    """Return how the elements of weights differ, by program and name.

    Raises:
        GraphwireError: as `weight_facts`.
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


def listed_changes(a: Shown, b: Shown) -> dict[str, dict[str, WeightChange]] | None:
    """Return which weights have other elements by the checksums that two files list, by program and name. Reads no elements.

    None if the checksum of a weight that both have is not known. Only changed weights are listed: equal checksums are no proof.
    """
    found: dict[str, dict[str, WeightChange]] = {}
    for name, other in paired_methods(a, b).items():
        (_, ours), (_, theirs) = a.programs[name], b.programs[other]
        changed = found[name] = {}
        for weight in ours.weights.keys() & theirs.weights.keys():
            before, after = _listed(a, ours.weights[weight]), _listed(b, theirs.weights[weight])
            if before is None or after is None:
                return None
            if before != after:
                changed[weight] = WeightChange(equal=False)
    return found


def _listed(shown: Shown, meta: PayloadMeta) -> int | None:
    """Return the checksum of a weight's elements; None if its record has others too, or is not in a file."""
    described, archive = meta.tensor_meta, shown.archive
    if described is None or archive is None:
        return None
    record = meta.shared or WEIGHTS + meta.path_name
    crc = archive.listed_crc(record)
    sizes, item = known_integers(described.sizes), ITEM_SIZES.get(described.dtype_text)
    if not crc or sizes is None or item is None or math.prod(sizes) * item != archive.record_size(record):
        return None
    return crc


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise EncodeError(
            "the elements of weights are read with torch, which is not installed",
            remedy="Install torch, or leave weights out",
        )
