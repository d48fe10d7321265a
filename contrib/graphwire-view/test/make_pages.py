"""Makes the pages that the tests open in a browser.

    python test/make_pages.py FOLDER

FOLDER has an HTML file and, under programs/, a file for each program; `expected.json` there has what `graphwire inspect --json`
prints about each file, and `differences.json` what `graphwire diff --json` prints about two of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
from hostile import hostile_documents
from large import large_document
from programs import PROGRAMS, changed_transformer, transformer

import graphwire
from graphwire.cli import main as main_of_cli

LATENCIES = {"linear": 0.5, "linear_1": 2.0, "scaled_dot_product_attention": 4.0}


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    programs = folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for make in PROGRAMS:
        graphwire.save(make(), programs / f"{make.__name__}.pt2")
    graphwire.save({"encode": transformer(), "decode": changed_transformer()}, programs / "methods.pt2")
    (programs / "large.json").write_bytes(large_document(10_000))
    expected = {}
    for path in sorted(programs.iterdir()):
        with graphwire.open(path) as archive:
            expected[path.name] = msgspec.to_builtins(archive.inspect(path.name))
        graphwire.view(path, output=folder / f"{path.stem}.html")
    for name, document in hostile_documents():
        (programs / name).write_bytes(document)
    (folder / "expected.json").write_text(json.dumps(expected))
    before, after = programs / "transformer.pt2", programs / "changed_transformer.pt2"
    (folder / "differences.json").write_text(json.dumps(_difference(before, after)))
    (folder / "notebook.html").write_text(f"<!doctype html>{graphwire.view(before)._repr_html_()}")
    sides = shutil.copy(before, folder / "before.pt2"), shutil.copy(after, folder / "after.pt2")
    graphwire.view(*sides, weights=True, output=folder / "difference.html")
    graphwire.view(
        before,
        overlay={"latency [ms]": LATENCIES},
        weights=True,
        targets=True,
        output=folder / "overlay.html",
    )


def _difference(before: Path, after: Path) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main_of_cli(["diff", "--json", str(before), str(after)])
    return json.loads(printed.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
