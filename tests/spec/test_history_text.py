"""docs/spec/history.md: its tables are those of the code."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
import zlib

import pytest
import second_hash
import second_upgrade
from specification import SPEC, table_rows, words

import graphwire
from graphwire.analysis.canonical.content_hashing import content_hash
from graphwire.evolve.chain import STEPS, VARIANTS, upgrade
from graphwire.evolve.expressions import rename_symbols
from graphwire.evolve.operator_forms import SCHEMA_CHANGES as CHANGES
from graphwire.evolve.step import RELEASES, version_with
from graphwire.schema import SCHEMA_VERSION
from graphwire.schema.trees import program_from_tree
from graphwire.wire.package_reader import _DETECTED, LAYOUTS


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


def test_old_documents_are_read_as_the_text_alone_has_it():
    """A second reader, made from the text, gives programs with the content hashes that graphwire gives."""
    read = 0
    with tarfile.open(SPEC.parents[1] / "tests" / "corpus" / "corpus.tar.xz") as archive:
        for member in archive:
            if not member.name.endswith(".pt2") or zlib.crc32(member.name.encode()) % 10:
                continue
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
            with zipfile.ZipFile(io.BytesIO(data)) as files:
                names = [
                    name for name in files.namelist() if name.endswith(("_program.json", "models/model.json"))
                ]
                document = second_upgrade.upgraded(files.read(names[0]))
            assert second_hash.content_hash(document) == graphwire.content_hash(data), member.name
            read += 1
    assert read > 50


@pytest.mark.parametrize(
    "file", sorted((SPEC.parents[1] / "tests/evolve/golden").glob("*.json")), ids=lambda file: file.stem
)
def test_golden_documents_are_read_as_the_text_alone_has_it(file):
    given = json.loads(file.read_text(encoding="utf-8"))
    for pair in given if isinstance(given, list) else [given]:
        for document in (pair["older"], pair["newer"]):
            current, _ = upgrade(document)
            found = second_upgrade.upgraded(json.dumps(document).encode())
            assert second_hash.content_hash(found) == content_hash(program_from_tree(current))


def test_the_older_names_of_operations_are_those_that_the_steps_replace():
    text = (SPEC / "history.md").read_text(encoding="utf-8")
    names = re.search(r"`(\w+)`, `(\w+)` and `(\w+)` are\s+older names of `(\w+)`, `(\w+)` and `(\w+)`", text)
    assert names is not None
    for older, newer in zip(names.groups()[:3], names.groups()[3:], strict=True):
        assert rename_symbols(
            f"{older}(i0)" if older != "TrueDiv" else "TrueDiv(i0, 2)", "i", "u"
        ).startswith(newer)
