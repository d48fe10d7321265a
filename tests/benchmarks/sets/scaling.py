"""How time and memory grow with the nodes: `unbind` beside torch, chains of operators, and their peak memory."""

from __future__ import annotations

from collections.abc import Iterator

from samples import Row
from sets.programs import TORCH, installed_ways, measure_ways
from timing import Bench, Step, interleaved

__all__ = ["measure"]

UNBINDS = (1_600, 16_000)
"""How many outputs the `unbind` has."""
CHAINS = (10_000, 100_000)
"""How many nodes the chains of operators have."""


def measure(bench: Bench) -> Iterator[Row]:
    """graphwire at every scale; torch too, but at the largest only once, as it takes minutes."""
    from cases import chain, unbind
    from peak_memory import extra_bytes

    import graphwire

    ways = {way.name: way for way in installed_ways()}
    for outputs in UNBINDS:
        program = unbind(outputs)
        name = f"scaling/unbind-{outputs}"
        for way in (TORCH, "json"):
            once = way == TORCH and outputs == max(UNBINDS)
            yield from measure_ways(bench, name, program, [ways[way]], once=once)
    for nodes in CHAINS:
        program, file = chain(nodes), bench.folder / f"chain-{nodes}.pt2"
        steps = {
            "save": Step(lambda program=program, file=file: graphwire.save(program, file)),
            "load": Step(lambda file=file: graphwire.load(file)),
        }
        times = interleaved(steps, turns=min(bench.turns, 3), done=lambda step: bench.done(f"chain: {step}"))
        for action, each in times.items():
            yield from each.rows(f"scaling/chain-{nodes}", action)
    for library in ("graphwire", TORCH):
        for action in ("save", "load"):
            bench.done(f"chain: peak memory of {library} {action}")
            program_name = f"chain-{min(CHAINS)}"
            extra = extra_bytes(library, action, program_name, bench.folder / f"{library}-{program_name}")
            if extra is not None:
                yield Row(f"scaling/{program_name}/{library}", f"{action}, extra memory", "B", [extra])
