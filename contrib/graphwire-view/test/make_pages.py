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
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec
import torch
from foreign import other_files
from hostile import hostile_documents
from large import large_document
from programs import PROGRAMS, changed_transformer, convnet, transformer, work
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

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
    graphwire.save(convnet(), programs / "binary.pt2", format="cbor")
    (programs / "large.json").write_bytes(large_document(10_000))
    expected = {}
    for path in sorted(programs.iterdir()):
        with graphwire.open(path) as archive:
            expected[path.name] = msgspec.to_builtins(archive.inspect(path.name))
        graphwire.view(path, output=folder / f"{path.stem}.html")
    for name, document in hostile_documents():
        (programs / name).write_bytes(document)
    for name, content in other_files():
        (programs / name).write_bytes(content)
    (folder / "expected.json").write_text(json.dumps(expected))
    (folder / "torch.json").write_text(json.dumps({"schemas": _schemas(), "operations": _operations()}))
    before, after = programs / "transformer.pt2", programs / "changed_transformer.pt2"
    (folder / "differences.json").write_text(json.dumps(_difference(before, after)))
    _notebook(
        folder / "notebook.ipynb",
        f"graphwire.view({str(before)!r})",
        f"graphwire.open({str(before)!r}).inspect()",
    )
    sides = shutil.copy(before, folder / "before.pt2"), shutil.copy(after, folder / "after.pt2")
    graphwire.view(*sides, weights=True, output=folder / "difference.html")
    deep = programs / "deep.pt2", programs / "changed_deep.pt2"
    graphwire.view(*deep, weights=True, output=folder / "moved.html")
    for path in _overlays(folder / "overlays"):
        words = ["view", str(programs / "convnet.pt2"), "--overlay", str(path)]
        with contextlib.redirect_stdout(io.StringIO()):
            main_of_cli([*words, "-o", str(folder / f"overlay_{path.stem}.html")])
    modules = {"layers.1": 7.0, "layer_norm": 2.0, "nowhere": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphwire.errors.GraphwireWarning)  # about nowhere
        graphwire.view(before, overlay={"latency [ms]": modules}, output=folder / "overlay_modules.html")
    graphwire.view(
        before,
        overlay={"latency [ms]": LATENCIES},
        weights=True,
        targets=True,
        output=folder / "overlay.html",
    )


def _notebook(path: Path, *expressions: str) -> None:
    """Write a notebook of some expressions, run it, and write what it shows as HTML beside it."""
    empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [
        {**empty, "id": f"cell-{at}", "source": each}
        for at, each in enumerate(("import graphwire", *expressions))
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    words = [
        "nbconvert",
        "--execute",
        "--to",
        "html",
        "--template",
        "basic",
        "--log-level",
        "ERROR",
        str(path),
    ]
    subprocess.run([sys.executable, "-m", *words], check=True)


class _Timed(torch.fx.Interpreter):
    """Runs a program, and tells the profiler the name of each node."""

    def run_node(self, n: torch.fx.Node) -> Any:
        with record_function(n.name):
            return super().run_node(n)


def _overlays(folder: Path) -> list[Path]:
    """Write numbers for the nodes of `convnet` in each form that `--overlay` reads, and return the files."""
    folder.mkdir()
    program = convnet()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        _Timed(program.module()).run(*program.example_inputs[0])
    profiler.export_chrome_trace(str(folder / "profiler.json"))
    names = [each.name for each in program.graph.nodes if each.op == "call_function"]
    numbers = {name: index + 0.5 for index, name in enumerate(names)}
    rows = [f"{name},{number},{2 * number}" for name, number in numbers.items()]
    (folder / "csv.csv").write_text("\n".join(["node,latency [ms],energy [mJ]", *rows]))
    (folder / "json.json").write_text(json.dumps({"latency [ms]": numbers}))
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "dur": 1000 * each} for name, each in numbers.items()
    ]
    (folder / "chrome.json").write_text(
        json.dumps({"traceEvents": [{"ph": "M", "name": "process_name"}, *events]})
    )
    return sorted(folder.iterdir())


def _schemas() -> dict[str, str]:
    """Return the schemas of all operators of aten."""
    found = map(str, torch._C._jit_get_all_schemas())
    return {text.partition("(")[0][6:]: text for text in found if text.startswith("aten::")}


def _operations() -> dict[str, int]:
    """Return how many operations torch counts while programs run, by their name."""
    tokens, options = torch.ones(5, 11, dtype=torch.long), {"scale": [torch.ones(1)]}
    calls = {make.__name__: (make(), None) for make in (transformer, convnet, work)}
    calls["transformer at 5, 11"] = transformer(), ((tokens, options), {})
    found = {}
    for name, (program, call) in calls.items():
        args, kwargs = call or program.example_inputs
        library = torch.backends.mkldnn.flags(enabled=False)  # whose recurrent layers are not counted
        with library, torch.no_grad(), FlopCounterMode(display=False) as counter:
            program.module()(*args, **kwargs)
        found[name] = counter.get_total_flops()
    return found


def _difference(before: Path, after: Path) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main_of_cli(["diff", "--json", str(before), str(after)])
    return json.loads(printed.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
