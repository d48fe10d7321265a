"""usage: python read.py {torch,graphwire} LOG < PAIRS    reads programs and says of each whether it computes what it should

PAIRS is a line for each program, a JSON list of its file and its case. LOG gets a line as soon as one is read, a JSON object of
the file and null or what went wrong; a line before that stands if reading it ends the process. `torch` is the release's own
`torch.export.load`.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from cases import check, corpus_reference, test_programs


def _root(error: BaseException) -> str:
    """The error that the others came of: torch wraps it several times."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return f"{type(error).__name__}: {str(error).strip()[:200]}"


def problem_of(load: Any, file: Path, case: Path) -> str | None:
    """What is wrong with a file; None where it computes what it should."""
    try:
        program = load(file)
    except BaseException as error:
        return f"load: {_root(error)}"
    try:
        problem = check(program, case)
    except BaseException as error:
        problem = _root(error)
    return problem and f"run: {problem}"


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    corpus_reference()
    test_programs()
    if sys.argv[1] == "torch":
        from torch import export  # 2.1 does not import it by itself
        from torch.ao.quantization.fx import _decomposed  # noqa: F401  (operators that files of quantized models need)

        load: Any = export.load
    else:
        import graphwire

        load = graphwire.load
    pairs = [json.loads(line) for line in sys.stdin]
    with Path(sys.argv[2]).open("a", buffering=1, encoding="utf-8") as log:
        for file, case in pairs:
            print(json.dumps({file: "ends the process"}), file=log)
            print(json.dumps({file: problem_of(load, Path(file), Path(case))}), file=log)


main()
