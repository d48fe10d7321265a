"""Writes what graphwire prints about the corpus and the golden files, for the tests of graphwire-js to compare with.

    python test/make_references.py FOLDER

The corpus is unpacked into FOLDER/corpus. FOLDER/inspections.jsonl has a line for each file: its path, and its inspection.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import graphwire

ROOT = Path(__file__).resolve().parents[3]
RELEASES = ("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.11.0", "2.12.1", "2.13.0")
"""The releases of the corpus that write schema 8."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ROOT / "tests/corpus/corpus.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    _write(folder / "inspections.jsonl", _inspections(_files(folder)))


def _files(folder: Path) -> list[Path]:
    corpus = [path for release in RELEASES for path in sorted((folder / "corpus" / release).glob("*.pt2"))]
    return [*corpus, *sorted((ROOT / "tests/golden/archives").iterdir())]


def _inspections(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with graphwire.open(path) as archive:
            yield {"path": str(path), "inspection": msgspec.to_builtins(archive.inspect(str(path)))}


def _write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
