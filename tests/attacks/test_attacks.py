"""Hostile files, one class of attack each: every one gets its error before anything ran, or does no harm.

`tests/conftest.py` watches what each load does: code that is compiled or run, imports, files, processes, sockets.
"""

from __future__ import annotations

import re
import resource
import time
from collections import Counter

import attack_archives
import attack_names
import attack_payloads
import attack_programs
import pytest
import torch
from hostile import Attack, Victim, victim

import graphwire
from graphwire.errors import ArchiveError, FormatError, GraphwireError, SchemaError

SECONDS = 5
MEBIBYTES = 300

ATTACKS: list[Attack] = [
    attack
    for table in (attack_names, attack_programs, attack_payloads, attack_archives)
    for rows in vars(table).values()
    if isinstance(rows, list)
    for attack in rows
    if isinstance(attack, Attack)
]


@pytest.fixture(scope="module")
def good() -> Victim:
    return victim()


def results(program: torch.export.ExportedProgram) -> torch.Tensor:
    torch.manual_seed(1)
    found: torch.Tensor = program.module()(torch.rand(4, 3), scale=torch.tensor(2.0))
    return found


@pytest.fixture(scope="module")
def expected(good: Victim) -> torch.Tensor:
    return results(graphwire.loads(good.data))


def test_the_victim_is_in_order(good: Victim) -> None:
    assert graphwire.verify(good.data) == []
    # Attacks are on what a reader does; a missing manifest is what `verify` says of each.
    assert [problem.kind for problem in graphwire.verify(good.with_records({}))] == ["manifest"]


def test_every_attack_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(attack.name for attack in ATTACKS).items() if count > 1] == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_attack_fails(attack: Attack, good: Victim, expected: torch.Tensor) -> None:
    data = attack.make(good)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if attack.error is None:
        assert torch.equal(results(graphwire.loads(data)), expected)
    else:
        with pytest.raises(attack.error) as caught:
            graphwire.loads(data)
        assert re.search(attack.told, str(caught.value), re.DOTALL), str(caught.value)[:1000]
        assert len(str(caught.value)) < 100_000
        # What this installation lacks, and what torch makes of it, `verify` cannot know.
        assert graphwire.verify(data) or not isinstance(
            caught.value, (SchemaError, ArchiveError, FormatError)
        )
    assert time.process_time() - start < SECONDS
    grown = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    )  # in KiB; of a peak, so only ever more
    assert grown < MEBIBYTES << 10


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, marks=[] if "outputs" in each.name else [pytest.mark.slow]) for each in ATTACKS],
    ids=lambda attack: attack.name,
)
def test_a_module_that_runs_is_the_good_one(attack: Attack, good: Victim, expected: torch.Tensor) -> None:
    data = attack.make(good)
    if attack.error is not None:
        with pytest.raises(GraphwireError):
            graphwire.load_module(data)
        return
    module = graphwire.load_module(data)
    torch.manual_seed(1)
    assert torch.equal(module(torch.rand(4, 3), scale=torch.tensor(2.0)), expected)
