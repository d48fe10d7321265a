"""Makes the conformance suite: files that a reader is given, and what it must find in them.

    python conformance/make.py            writes every file again
    python conformance/make.py --check    writes nothing, and lists the files that would change

The files depend on nothing but this folder and graphwire. What a reader must find in a valid file is graphwire's own neutral
JSON, so a change of an expected file is a change of the format or of a rule, and must be looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from making import (
    core,
    decided,
    given_files,
    invalid_archives,
    invalid_documents,
    second_reading,
    torch_saves,
    tree_vectors,
    valid_archives,
    valid_documents,
    valid_hashes,
)
from making.files import FORMATS, Case
from making.rules import classes_of, rules_of_file, rules_of_vector, unused_patterns

import graphwire
from graphwire.api.conformance import neutral
from graphwire.errors import GraphwireError

HERE = Path(__file__).resolve().parent
ROOMS = (
    valid_documents,
    valid_archives,
    valid_hashes,
    given_files,
    invalid_documents,
    invalid_archives,
    decided,
    second_reading,
    torch_saves,
)
HASHED = ("hashes/", "formats/", "payloads/", "names/")
"""The groups whose hashes are listed."""
OWN = ("valid", "invalid", "trees")
"""What the script writes, besides the index."""


def cases() -> Iterator[Case]:
    """Every case of the suite, with unique names."""
    seen: set[tuple[bool, str]] = set()
    for room in ROOMS:
        for case in room.all_cases():
            key = case.valid, case.name
            assert key not in seen, f"two cases are named {case.name}"
            seen.add(key)
            yield case


def accepted(path: Path) -> bool:
    """Whether graphwire takes a file."""
    try:
        neutral(path)
    except GraphwireError:
        return False
    return True


def files(only: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield every file of the suite by its path, the index last.

    Args:
        only: a text that the names of the cases contain; without it, all.
    """
    index = []
    small = []
    trees = [f"{kind}.{each.name}" for kind in FORMATS for each in tree_vectors.vectors(kind)]
    broken = [f"no case fits {each}" for each in unused_patterns([case.name for case in cases()], trees)]
    hashed: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            stem = (
                case.name
                if case.name.startswith("given/")
                else f"{'valid' if case.valid else 'invalid'}/{case.name}"
            )
            name = f"{stem}.pt2"
            index.append(entry(case, name))
            if only not in name:
                continue
            path = Path(folder, name)
            for place, data in (
                (path, case.data),
                *((path.parent / each, data) for each, data in case.beside.items()),
            ):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                yield place.relative_to(folder).as_posix(), data
            try:
                if not case.valid and accepted(path):
                    broken.append(f"{name}: it is accepted")
                found = neutral(path) if case.valid else None
                if found is not None:
                    yield f"{stem}.expected.json", found
                row = core.row_of_core(index[-1], case.rules, found and json.loads(found))
                small += [row] if row else []
                if case.valid and case.name.startswith(HASHED):
                    hashed += hashes(name, path)
            except GraphwireError as error:
                broken.append(f"{name}: {error}")
        for wire_format in FORMATS:
            yield f"trees/{wire_format}.json", vectors(wire_format, Path(folder), broken)
    if broken:
        raise SystemExit("\n".join(broken))
    if not only:
        yield "hashes.json", rows_text("programs", hashed)
        yield "index.json", rows_text("cases", index)
        yield "core.json", rows_text("cases", small)


def hashes(name: str, path: Path) -> list[dict[str, str]]:
    """The content hashes of the programs of a file, without weights and with them."""
    rows = []
    with graphwire.open(path) as archive:
        for method in archive.methods:
            row = {"file": name, "program": method, "gw1": graphwire.content_hash(archive, method=method)}
            rows.append(row | {"gw1w": graphwire.content_hash(archive, method=method, weights=True)})
    return rows


def vectors(wire_format: str, folder: Path, broken: list[str]) -> bytes:
    """The vectors of a wire format, with the tree of each valid one."""
    rows = []
    path = folder / f"vector.{wire_format}"
    for vector in tree_vectors.vectors(wire_format):
        row = {
            "name": vector.name,
            "hex": vector.data.hex(),
            "valid": vector.valid,
            "rules": rules_of_vector(wire_format, vector.name, vector.valid),
        }
        path.write_bytes(vector.data)
        try:
            found = json.loads(neutral(path))
        except GraphwireError as error:
            found = None
            if vector.valid:
                broken.append(f"{wire_format} {vector.name}: {error}")
        if vector.valid and found is not None:
            row["tree"] = found["tree"]
        elif found is not None:
            broken.append(f"{wire_format} {vector.name}: it is accepted")
        rows.append(row)
    return rows_text("vectors", rows, format=wire_format)


PLACES = HERE.parent / "tests/conformance/test_refusals.py"
"""Writes where graphwire refuses each invalid file."""


def rows_text(name: str, rows: list[dict[str, Any]], **facts: Any) -> bytes:
    """JSON with a line for each row."""
    facts = facts or {"version": 1}
    head = json.dumps(facts)[:-1]
    lines = ",\n".join(
        json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for row in rows
    )
    return f'{head}, "{name}": [\n{lines}\n]}}\n'.encode()


def entry(case: Case, name: str) -> dict[str, Any]:
    """The case in the index."""
    rules = rules_of_file(case.name, case.valid, case.rules)
    return {
        "file": name,
        "valid": case.valid,
        "about": case.about,
        "needs": list(case.needs),
        "rules": rules,
    } | ({} if case.valid else {"classes": classes_of(rules, case.name)})


def main() -> int:
    """Write or check the suite."""
    parser = argparse.ArgumentParser(description="Makes the conformance suite.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and list the files that would change"
    )
    parser.add_argument("--only", default="", help="only the cases whose names contain this")
    arguments = parser.parse_args()
    made = dict(files(arguments.only))
    if not arguments.check:
        if not arguments.only:
            for folder in OWN:
                shutil.rmtree(HERE / folder, ignore_errors=True)
        for name, data in made.items():
            path = HERE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        print(f"{len(made)} files, {sum(map(len, made.values())):,} bytes")
        subprocess.run(
            [sys.executable, "-W", "ignore", str(PLACES)],
            env=os.environ | {"PYTHONPATH": str(PLACES.parents[1])},
            check=True,
        )
        return 0
    changed = [
        name
        for name, data in made.items()
        if not (HERE / name).is_file() or (HERE / name).read_bytes() != data
    ]
    if not arguments.only:
        there = {
            path.relative_to(HERE).as_posix()
            for folder in OWN
            for path in (HERE / folder).rglob("*")
            if path.is_file()
        }
        changed += sorted(there - set(made))
    for name in changed:
        print(name)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
