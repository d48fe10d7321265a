"""Writes `docs/zoo.md` from `results.json`, after adding the results of a test run from the folder in the arguments, if any.

mkdir /tmp/record
ZOO_RECORD=/tmp/record make test-zoo  # PYTEST_ARGS="-k what_it_takes" records sizes and times alone
.venv-zoo/bin/python tests/zoo/make_table.py /tmp/record
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
RESULTS = _FOLDER / "results.json"
DOCUMENT = _FOLDER.parents[1] / "docs" / "zoo.md"

_HEAD = """# Models of other libraries

{count} architectures of {libraries} libraries, as small configs with random weights, on torch {torch}.
`make test-zoo` runs the tests; `tests/zoo/make_table.py` generates this page from the results.

The tests export each model (*dynamic*: the first dimension of its inputs is a symbol), and then:

- save it as JSON, MessagePack and CBOR. `verify` reports no problem. The content hash with weights is that of the program. The
  loaded program equals the saved one (nodes with their metadata, signature, state dict), computes the same bits, and saving it
  again gives the same bytes;
- save it with `torch.export.save`, and load that file: the content hash and the computed bits are the same. `torch.export.load`
  reads graphwire's default file, and the file with `target="torch"`, with the same bits, signature and names of weights;
- use the program in {uses} ways, before saving and after loading (`tests/constructs/uses.py`): compile it (`fullgraph=True`) with
  `eager` and `aot_eager`, export it again, decompose, copy, pickle, interpret, transform and unflatten it, and call it with
  gradients. The tests compare results, arguments and buffers bit by bit, and the code of the modules as text.

The loaded program supports every use that the exported program supports; *uses* counts these. The last column lists the uses
that the exported program itself does not support, by the numbers below the table. For a program of more than {large} nodes
{dropped}
are skipped, because they repeat other uses in another way. A variant, which differs from others in its config or in a
layer, is saved in one format, and used in {few} ways.

*KiB* is the size of the default file; *save* and *load* are processor time in memory, and in brackets how many times faster
than torch's that is, in turns in one process. They are measured when a row is recorded, as the least of three. Rows with uses in
{few} ways were measured once, but for GCNConv, GeneralConv, GraphConv and SimpleConv, the least then, which were measured again.
Some rows were recorded on a busy machine, where both take up to twice as long: compare ratios rather than times.
{speeds}
"""


def read_record(folder: Path) -> None:
    """Add the results of a run to `results.json`; `folder` has one file for each architecture."""
    rows = {path.name.replace("~", ": "): json.loads(path.read_text()) for path in folder.iterdir()}
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"architectures": {}}
    known = results["architectures"]
    found = dict(
        sorted({**known, **{key: {**known.get(key, {}), **row} for key, row in rows.items()}}.items())
    )
    libraries = {key.partition(": ")[0] for key in found}
    versions = {name: importlib.metadata.version(name) for name in ("torch", *sorted(libraries))}
    versions["torch"] = versions["torch"].partition("+")[0]
    text = json.dumps({"versions": versions, "architectures": found}, indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def document(results: dict[str, Any]) -> str:
    """Return the text of the page."""
    sys.path[:0] = [
        str(_FOLDER.parent),
        str(_FOLDER.parent / "constructs"),
        str(_FOLDER.parents[1] / "contrib" / "demo"),
    ]
    from uses import DROPPED_WHEN_LARGE, LARGE, USES

    few = min(row.get("uses", len(USES)) for row in results["architectures"].values())

    versions, rows = results["versions"], results["architectures"]
    causes = Counter(f"{use}: {text}" for row in rows.values() for use, text in row["refusals"].items())
    numbers = {cause: number for number, (cause, _) in enumerate(causes.most_common(), 1)}
    dropped = ", ".join(f"`{use}`" for use in sorted(DROPPED_WHEN_LARGE))
    lines = [
        _HEAD.format(
            count=len(rows),
            libraries=len(versions) - 1,
            torch=versions["torch"],
            uses=len(USES),
            large=LARGE,
            dropped=dropped,
            few=few,
            speeds=_speeds(rows),
        ),
        "| library | architecture | nodes | dynamic | KiB | save, ms | load, ms | uses | not supported by the exported program |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key, row in rows.items():
        library, _, name = key.partition(": ")
        tried = row.get("uses", len(USES) - (len(DROPPED_WHEN_LARGE) if row["nodes"] > LARGE else 0))
        refused = ", ".join(str(numbers[f"{use}: {text}"]) for use, text in row["refusals"].items())
        passed = f"{tried - len(row['refusals'])} of {tried}"
        dynamic = "yes" if row["dynamic"] else "no"
        cells = (f"{library} {versions[library]}", name, row["nodes"], dynamic, *_cells(row), passed, refused)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "The uses that exported programs do not support, with the first line of the error message:",
        "",
    ]
    for cause, number in numbers.items():
        use, _, text = cause.partition(": ")
        lines.append(f"{number}. {use.replace('_', ' ')}: `{text.replace('`', chr(39))}`")
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """The size, and the times of a save and a load, with how many times faster they are than torch's."""
    if "takes" not in row:
        return "", "", ""
    takes = row["takes"]
    times = (
        f"{takes[each]:.1f} ({takes[f'{each} of torch'] / takes[each]:.1f} times)"
        for each in ("save", "load")
    )
    return f"{takes['bytes'] / 1024:.0f}", *times


def _speeds(rows: dict[str, Any]) -> str:
    """How many times faster than torch's saves and loads are: the medians and the least."""
    measured = {key: row["takes"] for key, row in rows.items() if "takes" in row}
    texts = []
    for each in ("save", "load"):
        ratios = {key: takes[f"{each} of torch"] / takes[each] for key, takes in measured.items()}
        least = min(ratios, key=ratios.__getitem__)
        median = statistics.median(ratios.values())
        texts.append(
            f"a {each} is {median:.1f} times as fast as torch's in the median, and {ratios[least]:.1f} times at least ({least})"
        )
    return f"Of {len(measured)} programs, {'; '.join(texts)}."


def main() -> None:
    """Add the results in the given folders, and write the page."""
    for folder in sys.argv[1:]:
        read_record(Path(folder))
    DOCUMENT.write_text(document(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
