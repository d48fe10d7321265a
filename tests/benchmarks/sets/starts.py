"""Whole processes: how long a person waits for a command, for a first load, and for a first result.

Each sample is a fresh Python process with warm page cache, measured by its processor time. Contestants take turns.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from samples import Row
from timing import Bench, Step, interleaved

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["measure"]

_CALL = "torch.randn(4, 16)"
_TOKENS = "torch.randint(512, (2, 16))"
_PROCESSES = {
    "a bare Python": "pass",
    "`import graphwire`": "import graphwire",
    "`graphwire --version`": "from graphwire.cli import main; main(['--version'])",
    "`graphwire inspect FILE`": "from graphwire.cli import main; main(['inspect', {static!r}])",
    "`graphwire verify FILE`": "from graphwire.cli import main; main(['verify', {static!r}])",
    "`import torch`": "import torch",
    "`import torch` and its symbolic shapes": "import torch.fx.experimental.symbolic_shapes",
    "`import torch` and its compiler": "import torch._dynamo",
    "static: `graphwire.load`": "import graphwire; graphwire.load({static!r})",
    "static: and call its graph module": "import graphwire, torch; p = graphwire.load({static!r}); "
    f"p.graph_module(*p.state_dict.values(), {_CALL})",
    "static: and save it": "import graphwire, torch; graphwire.dumps(graphwire.load({static!r}))",
    "static: and `.module()`, and call it": f"import graphwire, torch; graphwire.load({{static!r}}).module()({_CALL})",
    "static: the same with `torch.export.load`": f"import torch; torch.export.load({{torch_static!r}}).module()({_CALL})",
    "dynamic: `graphwire.load`": "import graphwire; graphwire.load({dynamic!r})",
    "dynamic: and `.module()`, and call it": f"import graphwire, torch; graphwire.load({{dynamic!r}}).module()({_CALL})",
    "dynamic: the same with `torch.export.load`": "import torch; "
    f"torch.export.load({{torch_dynamic!r}}).module()({_CALL})",
    "decoder: `graphwire.load`, `.module()`, and call it": "import graphwire, torch; "
    f"graphwire.load({{decoder!r}}).module()({_TOKENS})",
    "decoder: the same with `torch.export.load`": f"import torch; torch.export.load({{torch_decoder!r}}).module()({_TOKENS})",
}
"""What runs in the processes, by name. The files are of one small program, with static and with dynamic shapes, and of the
decoder with 12 layers."""


def measure(bench: Bench) -> Iterator[Row]:
    """The processor time of each process."""
    files = {name: str(path) for name, path in _files(bench.folder).items()}
    steps = {
        name: Step(lambda code=code: _run(code.format(**files)))  # type: ignore[misc]
        for name, code in _PROCESSES.items()
    }
    times = interleaved(
        steps,
        turns=bench.turns,
        done=lambda step: bench.done(f"starts: {step}"),
        shuffled=True,
        collect=False,
    )
    for name, each in times.items():
        yield from each.rows(f"starts/{name}", "process")


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def _files(folder: Path) -> dict[str, Path]:
    """The files, by name."""
    import torch
    from cases import PROGRAMS

    import graphwire

    programs = {
        "static": _exported(None),
        "dynamic": _exported(({0: torch.export.Dim.DYNAMIC},)),
        "decoder": PROGRAMS["decoder-12-dynamic"](),
    }
    files = {}
    for kind, program in programs.items():
        files[kind] = folder / f"{kind}.pt2"
        files[f"torch_{kind}"] = folder / f"torch_{kind}.pt2"
        graphwire.save(program, files[kind])
        torch.export.save(program, files[f"torch_{kind}"])
    return files


def _exported(shapes: object) -> ExportedProgram:
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8), torch.nn.Softmax(-1)
    )
    return torch.export.export(model.eval(), (torch.randn(4, 16),), dynamic_shapes=shapes)
