"""What all tests share: the programs of the demo and of `tests/api` are imported as `programs` and `small_programs`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

_ROOT = Path(__file__).resolve().parents[1]

# Distributions as they were: `tests/contrib/test_distributions.py` runs their tests where they are installed.
collect_ignore = ["plugins_of_before"]

# Each registers container types with torch, so a process may load it once only, under one name.
for _folder in ("contrib/demo", "tests/api", "tests/line_coverage", "tests"):
    sys.path.append(str(_ROOT / _folder))

import audit  # noqa: E402

# The same examples on every run, without deadlines, so that a change decides, and neither chance nor what else a machine does;
# `HYPOTHESIS_PROFILE=default` looks elsewhere.
settings.register_profile("steady", max_examples=50, derandomize=True, deadline=None)
# Other examples at every run, and many: `make test-nightly`.
settings.register_profile("nightly", max_examples=1000, print_blob=True, deadline=None)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(PROFILE)


def pytest_collectstart() -> None:
    """torch's own test modules, which some tests import, load a profile of ten examples."""
    settings.load_profile(PROFILE)


def pytest_collection_finish() -> None:
    """Load the profile again, and let the collector leave the objects of torch and pytest alone: it takes an eighth of the
    time otherwise."""
    settings.load_profile(PROFILE)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


audit.watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--line-coverage-floor", type=float, help="measure line coverage; fail under this percentage"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measure line coverage in the whole run, which `make test` is."""
    floor = config.getoption("line_coverage_floor")
    if floor is not None:
        from line_report import LineCoverage

        config.pluginmanager.register(LineCoverage(config, floor))


@pytest.fixture(autouse=True)
def _loads_run_nothing() -> Iterator[None]:
    """No load in any test compiles, runs, imports or writes what its file says."""
    audit.deeds.clear()
    yield
    assert audit.deeds == [], "a load did more than load"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that `lacking.LACKS` gives a reason for."""
    from lacking import lack_of
    from this_torch import RELEASE

    for item in items:
        reason = lack_of(item.nodeid, RELEASE)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
