"""Writes `docs/zoo.md` of `results.json`, after it took in what a run of the tests recorded, if it is given the folder.

mkdir /tmp/record
ZOO_RECORD=/tmp/record make test-zoo
.venv-zoo/bin/python tests/zoo/make_table.py /tmp/record
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
RESULTS = _FOLDER / "results.json"
DOCUMENT = _FOLDER.parents[1] / "docs" / "zoo.md"

_HEAD = """# Models of other libraries

{count} architectures of {libraries} libraries, as small configs with random weights, on torch {torch}.
`make test-zoo` runs them, and `tests/zoo/make_table.py` makes this page of what a run recorded.

Each is exported (*dynamic*: the first dimension of its inputs is a symbol), and then:

- saved as JSON, MessagePack and CBOR. `verify` finds nothing, the content hash with weights is the program's, the loaded
  program is the saved one (nodes with their metadata, signature, state dict and all), it computes the same bits, and saving it
  again gives the same bytes;
- written by `torch.export.save`, and loaded: the same content hash, the same bits. The default file, and the one with
  `target="torch"`, are read by `torch.export.load`: the same bits, signature and names of weights;
- used in {uses} ways, before it is saved and after it is loaded (`tests/constructs/uses.py`): compiled with `fullgraph=True` by
  `eager` and `aot_eager`, exported again, decomposed, copied, pickled, interpreted, transformed, unflattened, called with
  gradients. Results, arguments and buffers are compared bit by bit, the code of the modules as text.

The loaded program serves for every use for which the exported one does; *uses* counts those. What the exported program itself
does not serve for is in the last column, by the numbers below the table. Of a program of more than {large} nodes
{left_out}
are left out, which do in another way what others do.
"""


def read_record(folder: Path) -> None:
    """Take in what a run recorded, a file an architecture."""
    rows = {path.name.replace("~", ": "): json.loads(path.read_text()) for path in folder.iterdir()}
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"architectures": {}}
    found = dict(sorted({**results["architectures"], **rows}.items()))
    libraries = {key.partition(": ")[0] for key in found}
    versions = {name: importlib.metadata.version(name) for name in ("torch", *sorted(libraries))}
    versions["torch"] = versions["torch"].partition("+")[0]
    text = json.dumps({"versions": versions, "architectures": found}, indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def document(results: dict[str, Any]) -> str:
    """The page of results."""
    sys.path[:0] = [str(_FOLDER.parent / "constructs"), str(_FOLDER.parents[1] / "contrib" / "demo")]
    from uses import LARGE, LEFT_OUT_WHEN_LARGE, USES

    versions, rows = results["versions"], results["architectures"]
    causes = Counter(f"{use}: {text}" for row in rows.values() for use, text in row["refusals"].items())
    numbers = {cause: number for number, (cause, _) in enumerate(causes.most_common(), 1)}
    left_out = ", ".join(f"`{use}`" for use in sorted(LEFT_OUT_WHEN_LARGE))
    lines = [
        _HEAD.format(
            count=len(rows),
            libraries=len(versions) - 1,
            torch=versions["torch"],
            uses=len(USES),
            large=LARGE,
            left_out=left_out,
        ),
        "| library | architecture | nodes | dynamic | uses | the exported program does not serve for |",
        "|---|---|---|---|---|---|",
    ]
    for key, row in rows.items():
        library, _, name = key.partition(": ")
        tried = len(USES) - (len(LEFT_OUT_WHEN_LARGE) if row["nodes"] > LARGE else 0)
        refused = ", ".join(str(numbers[f"{use}: {text}"]) for use, text in row["refusals"].items())
        passed = f"{tried - len(row['refusals'])} of {tried}"
        dynamic = "yes" if row["dynamic"] else "no"
        lines.append(
            f"| {library} {versions[library]} | {name} | {row['nodes']} | {dynamic} | {passed} | {refused} |"
        )
    lines += ["", "What the exported programs do not serve for, and the first line of what is said then:", ""]
    for cause, number in numbers.items():
        use, _, text = cause.partition(": ")
        lines.append(f"{number}. {use.replace('_', ' ')}: `{text.replace('`', chr(39))}`")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the record of a run, if there is one, and write the page."""
    for folder in sys.argv[1:]:
        read_record(Path(folder))
    DOCUMENT.write_text(document(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
