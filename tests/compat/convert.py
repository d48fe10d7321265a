"""usage: python convert.py CORPUS FOLDER TARGET…    `graphwire convert --format json --target TARGET` of every file of a corpus

FOLDER/TARGET/RELEASE/NAME.pt2 is what became of CORPUS/RELEASE/NAME.pt2; what the command refuses is not there. That it says why,
and leaves nothing behind, is checked.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

from graphwire.cli import main


def _convert(source: Path, destination: Path, target: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(["convert", str(source), str(destination), "--format", "json", "--target", target])
    refused = status != 0 and "cannot express" in said.getvalue()
    if (status == 0) is not destination.exists() or (status != 0 and not refused):
        raise SystemExit(f"convert {source} for {target} ends with {status}:\n{said.getvalue()}")


corpus, folder, *targets = sys.argv[1:]
for name in targets:
    for file in sorted(Path(corpus).glob("*/*.pt2")):
        into = Path(folder, name, file.parent.name, file.name)
        into.parent.mkdir(parents=True, exist_ok=True)
        _convert(file, into, name)
