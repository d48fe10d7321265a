"""usage: python write.py FOLDER CORPUS [TARGET…]    writes the programs of a corpus folder and of the tests with graphwire

Without targets FOLDER/ours and FOLDER/torch are what graphwire and this torch's own `torch.export.save` write by default, of
the tests' programs; with targets FOLDER/TARGET is what `graphwire.save(target=TARGET)` writes. FOLDER/cases says what each
program computes. What is refused stands in `refused.json`, with the reasons.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from cases import corpus_reference, test_programs

import graphwire
from graphwire.errors import GraphwireError, TargetError

USERS_OWN = ("custom_operator_that_returns_an_integer", "structured")
"""Programs with operators or containers that `cases` cannot register on a release older than graphwire runs on."""
OLDER = tuple(f"torch-2.{minor}" for minor in range(1, 8))


def _programs(corpus: Path | None, cases: Path) -> Iterator[tuple[str, Any]]:
    """Each program by name, its case written."""
    for file in sorted(corpus.glob("*.pt2")) if corpus is not None else ():
        for suffix in (".io.json", ".io.npz"):
            shutil.copy(file.with_suffix(suffix), cases / f"corpus-{file.stem}{suffix}")
        yield f"corpus-{file.stem}", graphwire.load(file, copy=True)
    for name, make in test_programs().items():
        try:
            example = make()
        except Exception as error:
            print(f"{name}: this torch does not make it: {type(error).__name__}", file=sys.stderr)
            continue
        module = example.program.module()
        calls = []
        with torch.no_grad():
            for call in example.calls:
                args, kwargs = copy.deepcopy((call.args, call.kwargs))
                calls.append((call.args, call.kwargs, copy.deepcopy(module(*args, **kwargs))))
        torch.save(calls[:1], cases / f"{name}.case")
        yield name, make().program


def _reasons(error: Exception) -> list[str]:
    return [str(each) for each in error.obstacles] if isinstance(error, TargetError) else [repr(error)[:300]]


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    corpus_reference()
    folder, corpus, *targets = sys.argv[1:]
    cases = Path(folder, "cases")
    cases.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[Any, Path], None]] = {
        "ours": graphwire.save,
        "torch": lambda program, file: torch.export.save(program, file),
    }
    if targets:
        writers = {
            target: lambda program, file, target=target: graphwire.save(program, file, target=target)
            for target in targets
        }
    refused: dict[str, dict[str, list[str]]] = {name: {} for name in writers}
    for name, program in _programs(Path(corpus) if targets else None, cases):
        for writer, write in writers.items():
            if name in USERS_OWN and writer in OLDER:
                continue
            file = Path(folder, writer, f"{name}.pt2")
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(program, file)
            except Exception as error:
                if writer == "ours" or (targets and not isinstance(error, GraphwireError)):
                    raise
                file.unlink(missing_ok=True)
                refused[writer][name] = _reasons(error)
    for writer, reasons in refused.items():
        Path(folder, writer, "refused.json").write_text(json.dumps(reasons, indent=1), "utf-8")


main()
