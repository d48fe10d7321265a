"""Collects what a page shows: its programs, and the facts about them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from graphwire.analysis.diff import compared_text
from graphwire.api.options import OpenOptions
from graphwire.api.viewing.file_facts import facts_of
from graphwire.api.viewing.sources import Shown, Viewable, opened
from graphwire.api.viewing.weight_facts import compared_weights, weight_changes, weight_facts
from graphwire.viewer import Facts, OverlayValues, embedded, named_overlays, page_pieces

_TIMES = ("before", "after")
"""What tells two files of one name apart."""


def content_of(
    sources: Sequence[Viewable],
    overlay: OverlayValues,
    method: str | None,
    options: OpenOptions,
    *,
    weights: bool,
    targets: bool,
    use_torch: bool,
) -> tuple[str, list[bytes]]:
    """Return the title of a page, and the page in pieces. Arguments and errors are those of `view`.

    Args:
        sources: one program or, for a difference, two.
    """
    with ExitStack() as stack:
        sides = [stack.enter_context(opened(each, method, options)) for each in sources]
        if len(sides) == 2 and sides[0].name == sides[1].name:
            sides = [
                replace(each, name=f"{each.name} ({when})") for each, when in zip(sides, _TIMES, strict=True)
            ]
        files = [facts_of(each, targets=targets, use_torch=use_torch) for each in sides]
        compared = compared_weights(sides[0], sides[1], elements=weights) if len(sides) == 2 else {}
        if weights:
            files = [
                replace(each, weights=weight_facts(side)) for each, side in zip(files, sides, strict=True)
            ]
        nodes = [
            {name for of in each.methods.values() if of.costs is not None for name in of.costs.nodes}
            for each in files
        ]
        facts = Facts(
            files=files,
            weight_changes=weight_changes(compared) if len(sides) == 2 else None,
            compared={name: compared_text(each) for name, each in compared.items()},
            overlays=named_overlays(overlay, nodes, method),
        )
        archives = [_embedded(each) for each in sides]
    return " and ".join(each.name for each in sides), page_pieces(facts, archives)


def _embedded(shown: Shown) -> bytes:
    return embedded(shown.programs, shown.registry.wire_format("json"), shown.references)
