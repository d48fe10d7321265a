"""Two commits are compared: one that does its work again and again is slower, and one that is the same is not."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nightly import IS_NIGHTLY

sys.path.append(str(Path(__file__).parent / "gate"))

import compare
from bounds import block_ratio, bounds, counted, t_quantile

ROOT = Path(__file__).resolve().parents[2]
HASHES = "src/core/graphwire/analysis/canonical/content_hashing.py"
AGAIN = """

_once = content_hash


def content_hash(program, payloads=None):
    return [_once(program, payloads) for _ in range(20)][0]
"""
FILE = ROOT / "conformance/given/torch_2_13_cond.pt2"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose first commit is this tree, and whose second computes every content hash twenty times."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    git(folder, "init", "--initial-branch=main")
    commit(folder)
    with (folder / HASHES).open("a") as module:
        module.write(AGAIN)
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--message=test")


@pytest.mark.slow
def test_a_commit_that_works_again_and_again_is_slower(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--rounds", "3", "--blocks", "1", "--seconds", "0.02", "--only", "content hash"]
    assert compare.main(["HEAD~1", "--repository", str(repository), "--file", str(FILE), *sizes]) == 1
    assert "slower: content hash" in capsys.readouterr().out


@pytest.mark.slow
def test_counted_calls_decide_after_one_run(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--repository",
        str(repository),
        "--file",
        str(FILE),
        "--only",
        "content hash",
        "--clock",
        "calls",
    ]
    assert compare.main(["HEAD~1", *options, "--rounds", "1"]) == 1
    assert "slower: content hash" in capsys.readouterr().out


def test_counts_are_slower_only_if_every_round_is() -> None:
    assert counted([[math.log(1.06)], [math.log(1.07)]]).is_slower(1.05)
    assert counted([[math.log(1.04)], [math.log(1.07)]]).is_unclear(1.05)


@pytest.mark.nightly
@pytest.mark.skipif(not IS_NIGHTLY, reason="measures two environments: `make test-nightly`")
def test_a_commit_is_not_slower_than_itself(repository: Path, tmp_path: Path) -> None:
    python = compare.installed(repository, "HEAD", tmp_path / "same")
    plan = compare.Plan(rounds=3, blocks=1, seconds=0.02, clock="cpu", confidence=0.99, allowed=1.05)
    found = compare.compare(python, python, ["content hash"], plan, FILE, tmp_path)
    assert not found["content hash"].is_slower(1.05)


def simulated(ratio: float, noise: float, draw: random.Random, rounds: int = 8) -> list[list[float]]:
    """The blocks of rounds whose times vary by `noise` between rounds and within them, and drift by a tenth in each block."""
    made = []
    for _ in range(rounds):
        bias = draw.gauss(1, noise)
        blocks = []
        for _ in range(5):
            times = [
                (ratio * bias if side else 1) * draw.gauss(1, noise) * 1.1**place
                for place, side in enumerate((0, 1, 1, 0))
            ]
            blocks.append(block_ratio((times[0], times[3]), (times[1], times[2])))
        made.append(blocks)
    return made


@pytest.mark.parametrize(
    ("ratio", "least", "most"), [(1.0, 0, 0), (1.04, 0, 2), (1.05, 0, 6), (1.07, 60, 200), (1.1, 198, 200)]
)
def test_a_slow_down_is_found_as_often_as_it_is_above_what_is_allowed(
    ratio: float, least: int, most: int
) -> None:
    draw = random.Random(0)
    found = [
        bounds(simulated(ratio, 0.01, draw), confidence=0.99, allowed=1.05).is_slower(1.05)
        for _ in range(200)
    ]
    assert least <= sum(found) <= most


def test_an_interval_has_the_true_ratio_as_often_as_it_promises() -> None:
    draw = random.Random(0)
    each = [bounds(simulated(1.2, 0.03, draw), confidence=0.95, allowed=1.05) for _ in range(1000)]
    assert 930 <= sum(made.low < 1.2 for made in each) <= 970
    assert 930 <= sum(made.high > 1.2 for made in each) <= 970


def test_noise_asks_for_more_rounds_and_decides_nothing() -> None:
    draw = random.Random(0)
    quiet, noisy = (
        bounds(simulated(1.05, noise, draw), confidence=0.99, allowed=1.05) for noise in (0.01, 0.1)
    )
    assert noisy.is_unclear(1.05)
    assert not noisy.is_slower(1.05)
    assert quiet.rounds_needed < noisy.rounds_needed


def test_quantiles_are_those_of_published_tables() -> None:
    published = {(0.975, 1): 12.706, (0.975, 2): 4.303, (0.99, 5): 3.365, (0.99, 9): 2.821, (0.95, 10): 1.812}
    assert {key: round(t_quantile(*key), 3) for key in published} == published
