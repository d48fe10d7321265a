"""Makes the programs that the tests of the page show.

    python test/make_pages.py FOLDER

FOLDER/programs has the files. FOLDER/expected.json has what `graphwire inspect --json` prints about each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
from programs import PROGRAMS

import graphwire


def main(folder: Path) -> None:
    programs = folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    expected = {}
    for make in PROGRAMS:
        path = programs / f"{make.__name__}.pt2"
        graphwire.save(make(), path)
        with graphwire.open(path) as archive:
            expected[path.name] = msgspec.to_builtins(archive.inspect(path.name))
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
