"""Writes what graphwire prints about the corpus and the golden files, for the tests of graphwire-js to compare with.

    python test/make_references.py FOLDER

The corpus is unpacked into FOLDER/corpus. FOLDER/inspections.jsonl has a line for each file: its path, and its inspection.
FOLDER/diffs.jsonl has a line for each of some pairs of files: their paths, and their differences. FOLDER/hashes.jsonl has a line
for each file of the current schema: its path, and the content hash of each program. FOLDER/large.jsonl has the path of a file
whose weights have a megabyte each.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

import graphwire
from graphwire.cli import main as main_of_cli

ROOT = Path(__file__).resolve().parents[3]
RELEASES = ("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.11.0", "2.12.1", "2.13.0")
"""The releases of the corpus that write schema 8."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ROOT / "tests/corpus/corpus.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    _write(folder / "inspections.jsonl", _inspections(_files(folder)))
    _write(folder / "diffs.jsonl", _diffs(_pairs(folder)))
    _write(folder / "hashes.jsonl", _hashes(_current(folder)))
    _write(folder / "large.jsonl", iter([str(_large(folder / "large.pt2"))]))


def _files(folder: Path) -> list[Path]:
    corpus = [path for release in RELEASES for path in sorted((folder / "corpus" / release).glob("*.pt2"))]
    return [*corpus, *sorted((ROOT / "tests/golden/archives").iterdir())]


def _inspections(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with graphwire.open(path) as archive:
            yield {"path": str(path), "inspection": msgspec.to_builtins(archive.inspect(str(path)))}


def _current(folder: Path) -> list[Path]:
    """Return the files of the corpus whose documents have the current schema."""
    return [
        path
        for release in ("2.12.1", "2.13.0")
        for path in sorted((folder / "corpus" / release).glob("*.pt2"))
    ]


def _pairs(folder: Path) -> list[tuple[Path, Path]]:
    golden = ROOT / "tests/golden"
    documents = sorted((golden / "documents").glob("*.json"))
    newest = sorted((folder / "corpus/2.13.0").glob("*.pt2"))
    pairs = [
        *itertools.pairwise(documents),
        *itertools.pairwise(newest),
        *zip(newest, newest[7:], strict=False),
    ]
    before = folder / "corpus/2.12.1"
    pairs += [(before / path.name, path) for path in newest if (before / path.name).exists()]
    return [*pairs, *itertools.pairwise(sorted((golden / "archives").iterdir()))]


def _diffs(pairs: list[tuple[Path, Path]]) -> Iterator[dict[str, Any]]:
    """Yield what `graphwire diff --json` prints of each pair, besides their names."""
    for a, b in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main_of_cli(["diff", "--json", str(a), str(b)])
        if code not in (0, 1):
            raise SystemExit(f"graphwire diff {a} {b} exits with {code}")
        tree = json.loads(printed.getvalue())
        yield {"a": tree.pop("a"), "b": tree.pop("b"), "diff": tree}


def _hashes(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with graphwire.open(path) as archive:
            yield {
                "path": str(path),
                "hashes": {name: graphwire.content_hash(archive, method=name) for name in archive.methods},
            }


def _large(path: Path) -> Path:
    """Write a program of three layers, each with a weight of a megabyte."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(3)))
    graphwire.save(torch.export.export(layers, (torch.ones(1, 512),)), path)
    return path


def _write(path: Path, rows: Iterator[Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
