"""The schemas of the specification accept the files of the corpus: as torch wrote them, and as graphwire upgrades them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cddl_verifier import Validator
from hypothesis import HealthCheck, given, settings, strategies as st
from jsonschema import Draft202012Validator

import graphwire

SPECIFICATION = Path(__file__).parents[2] / "docs/spec"
CURRENT_MAJOR = 8


@pytest.fixture(scope="module")
def schemas() -> dict[str, tuple[Draft202012Validator, Validator]]:
    """The JSON Schema and the CDDL of programs, of configs and of manifests."""
    return {
        kind: (
            Draft202012Validator(json.loads((SPECIFICATION / f"{kind}.schema.json").read_text("utf-8"))),
            Validator((SPECIFICATION / f"{kind}.cddl").read_text("utf-8")),
        )
        for kind in ("document", "payloads", "manifest")
    }


@pytest.mark.filterwarnings("ignore:the example inputs of")  # of classes that no reader of pickles makes
# The nightly profile draws every file; another run draws each sixtieth.
@settings(
    max_examples=12 if settings().max_examples <= 100 else 1000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_the_schemas_accept_every_file(
    schemas: dict[str, tuple[Draft202012Validator, Validator]],
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    path = data.draw(st.sampled_from(sorted(corpus.glob("*/*.pt2"))))
    upgraded = tmp_path_factory.mktemp("upgraded") / path.name
    graphwire.convert(path, upgraded, format="json")
    for kind, tree in [*records_of(path), *records_of(upgraded)]:
        json_schema, cddl = schemas[kind]
        assert [error.message for error in json_schema.iter_errors(tree)] == []
        assert cddl.validate(tree).errors == ()


def records_of(path: Path) -> Iterator[tuple[str, Any]]:
    """The records of an archive that are JSON of the current major version, each with the name of its schema."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith("_config.json"):
                yield "payloads", json.loads(archive.read(name))
            elif name.endswith("/manifest.json"):
                yield "manifest", json.loads(archive.read(name))
            elif name.endswith(("models/model.json", "serialized_exported_program.json")):
                tree = json.loads(archive.read(name))
                version = tree["schema_version"]
                if isinstance(version, dict) and version["major"] == CURRENT_MAJOR:
                    yield "document", tree
