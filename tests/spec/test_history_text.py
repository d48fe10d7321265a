"""docs/spec/history.md: its tables are those of the code."""

from __future__ import annotations

import re

from inside.evolve import RELEASES, SCHEMA_CHANGES as CHANGES, STEPS, VARIANTS, rename_symbols, version_with
from inside.wire import _DETECTED, LAYOUTS
from specification import SPEC, table_rows, words

from graphwire.schema import SCHEMA_VERSION


def test_every_version_has_a_row_with_its_releases():
    rows = table_rows("HIS-2", "history.md")
    given = {version: releases for version, releases, _ in rows}
    versions = {str(step.older) for step in (*STEPS, *VARIANTS)} | {".".join(map(str, SCHEMA_VERSION))}
    known = {"draft" if each == "draft-2022" else each.replace("compact-", "compact ") for each in versions}
    assert set(given) == known
    for release, version in RELEASES.items():
        if version_with(release) is not None:
            assert given[str(version)].split()[0] == release


def test_the_changes_of_operators_are_those_of_the_code():
    rows = [
        (release, words(name)[0].replace("higher_order.", "torch.ops.higher_order."))
        for release, name, _ in table_rows("HIS-28", "history.md")
    ]
    assert sorted(rows) == sorted((str(row.since), row.target) for row in CHANGES if row.up is not None)


def test_the_layouts_are_those_of_the_code():
    rows = {row[0]: row for row in table_rows("HIS-38", "history.md")}
    assert tuple(rows) == _DETECTED
    for name, spec in LAYOUTS.items():
        text = " ".join(rows[name])
        assert spec.releases in text
        members = (
            [spec.extra] if name == "B2" else [spec.weights, spec.constants, spec.sample_inputs, spec.extra]
        )
        if name != "B2":
            assert all(member.replace("{name}", "NAME") in text for member in members if member)


def test_the_older_names_of_operations_are_those_that_the_steps_replace():
    text = (SPEC / "history.md").read_text(encoding="utf-8")
    names = re.search(r"`(\w+)`, `(\w+)` and `(\w+)` are\s+older names of `(\w+)`, `(\w+)` and `(\w+)`", text)
    assert names is not None
    for older, newer in zip(names.groups()[:3], names.groups()[3:], strict=True):
        assert rename_symbols(
            f"{older}(i0)" if older != "TrueDiv" else "TrueDiv(i0, 2)", "i", "u"
        ).startswith(newer)
