"""usage: python read.py {torch,graphwire} CASES FILE…    reads programs and says of each whether it computes what it should

Prints one JSON object: for each file, null or what went wrong. `torch` is the release's own `torch.export.load`.
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
    cases = Path(sys.argv[2])
    found = {}
    for file in map(Path, sys.argv[3:]):
        found[file.stem] = problem_of(load, file, cases / file.stem)
    print("\n" + json.dumps(found))


main()
