"""Writes `docs/coverage.md`: for each construct in this folder, what graphwire's and torch's own files preserve.

python tests/constructs/make_coverage.py
"""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from construct import Construct, quiet
from families import CONSTRUCTS, FAMILIES
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import EncodeError
from graphwire.testing import assert_same_program, assert_same_values

FORMATS = ("json", "msgpack", "cbor")
_NONE = "\N{EN DASH}"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"

_HEAD = """# Supported constructs

The constructs that a program of `torch.export` can contain, as tested in `tests/constructs`.
`python tests/constructs/make_coverage.py` generates this page with torch {torch}, from files in JSON, msgpack and CBOR.

- *save*, *load*: succeeds. *load* also means that the loaded program equals the saved one: every node with its metadata,
  the signature, ranges, guards and weights (`graphwire.testing.assert_same_program`).
- *run*: the loaded program computes the same, to the last bit; a dash if the program cannot run in this test.
- *same bytes*: saving the loaded program again gives the same bytes.
- *torch*: the same program through `torch.export.save` and `load`. There, *load* only means that no error is raised; *equal*
  has the meaning of *load* for graphwire.

*refused* means that graphwire deliberately raises an error, with a remedy. Triton kernels are a Python function and its source,
as in torch's table: without Triton, calls of them are saved and can be inspected, but not run.
"""


def _tries(action: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "yes", action()
    except Exception:
        return "no", None


def _row(construct: Construct) -> list[str]:
    if construct.refusal is not None:
        try:
            graphwire.dumps(construct.program())
        except EncodeError:
            ours = ["refused"]
        else:
            ours = ["no"]
        return ours + [_NONE] * 3 + _torch_columns(construct)
    program = construct.program()
    columns = [_columns(program, construct, format) for format in FORMATS]
    ours = ["yes" if all(column[i] == "yes" for column in columns) else columns[0][i] for i in range(4)]
    return ours + _torch_columns(construct)


def _columns(program: ExportedProgram, construct: Construct, format: str) -> list[str]:
    save, saved = _tries(lambda: graphwire.dumps(program, format=format))
    load, loaded = _tries(lambda: _equal(graphwire.loads(saved), program)) if save == "yes" else (_NONE, None)
    if load != "yes":
        return [save, load, _NONE, _NONE]
    again, _ = _tries(lambda: _assert(graphwire.dumps(graphwire.loads(saved), format=format) == saved))
    return [save, load, _runs(loaded, construct), again]


def _torch_columns(construct: Construct) -> list[str]:
    program = construct.program()
    buffer = io.BytesIO()
    save, _ = _tries(lambda: torch.export.save(program, buffer))
    buffer.seek(0)
    load, loaded = _tries(lambda: torch.export.load(buffer)) if save == "yes" else (_NONE, None)
    if load != "yes":
        return [save, load, _NONE, _NONE]
    equal, _ = _tries(lambda: _equal(loaded, program))
    return [save, load, equal, _runs(loaded, construct)]


def _runs(loaded: ExportedProgram, construct: Construct) -> str:
    if not construct.calls:
        return _NONE

    def run() -> None:
        expected = construct.program()
        for call in construct.calls:
            results = []
            for each in (expected, loaded):
                args = copy.deepcopy(call)
                torch.manual_seed(0)
                results.append((each.module()(*args), args))
            assert_same_values(results[1], results[0])

    return _tries(run)[0]


def _equal(loaded: ExportedProgram, program: ExportedProgram) -> ExportedProgram:
    assert_same_program(loaded, program)
    return loaded


def _assert(holds: bool) -> None:
    assert holds


def main() -> None:
    """Write the page."""
    lines = [_HEAD.format(torch=torch.__version__.partition("+")[0]).rstrip()]
    worse = []
    for family in FAMILIES:
        lines += [
            f"\n## {family[0].upper()}{family[1:]}\n",
            "| construct | save | load | run | same bytes | torch: save | load | equal | run |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for construct in CONSTRUCTS.values():
            if construct.family == family:
                with quiet():
                    row = _row(construct)
                lines.append(f"| {' | '.join([construct.name, *row])} |")
                if "no" in row[:4]:
                    worse.append(construct.name)
                print(lines[-1], flush=True)
    DOCUMENT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if worse:
        raise SystemExit(f"not kept: {', '.join(worse)}")


if __name__ == "__main__":
    main()
