"""The program documents of the corpus (`tests/corpus`), and each at every later version of the schema."""

from __future__ import annotations

import functools
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inside.evolve import CURRENT, Step, chain, operators_up, version_of

ARCHIVE = Path(__file__).resolve().parents[1] / "corpus" / "corpus.tar.xz"
_A_DOCUMENT, _B_DOCUMENT = "serialized_exported_program.json", "/models/model.json"

Tree = dict[str, Any]


@functools.cache
def documents() -> dict[tuple[str, str], Tree]:
    """Every document by release and model, as the JSON says it."""
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            stem, _, suffix = member.name.rpartition(".")
            if suffix != "pt2":
                continue
            _, release, model = stem.rsplit("/", 2)
            stream = archive.extractfile(member)
            assert stream is not None
            with zipfile.ZipFile(io.BytesIO(stream.read())) as file:
                name = next(n for n in file.namelist() if n == _A_DOCUMENT or n.endswith(_B_DOCUMENT))
                found[release, model] = json.loads(file.read(name))
    return dict(sorted(found.items()))


def histories(release: str | None = None) -> Iterator[tuple[str, Step, Tree, Tree]]:
    """Each document at each step: its name, the step, the document before and after it (with the operators' forms)."""
    for (origin, model), document in documents().items():
        if release in (None, origin):
            tree = document
            for step in chain.plan(version_of(document), CURRENT):
                older, tree = tree, stepped_up(step, tree)
                yield f"{origin}/{model}", step, older, tree


def stepped_up(step: Step, tree: Tree) -> Tree:
    """A document after one step up."""
    return operators_up(step.up(tree), step.newer)[0]


def same(one: Tree, other: Tree) -> bool:
    """Whether two documents say the same: a null field means what an absent one means, and NaN is NaN."""
    texts = (json.dumps(without_nulls(tree), sort_keys=True) for tree in (one, other))
    return next(texts) == next(texts)


def without_nulls(tree: Any) -> Any:
    """A tree without null fields."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    return [without_nulls(item) for item in tree] if isinstance(tree, list) else tree
