"""Write the tables and the picture of docs/performance.md from the numbers in docs/performance.json.

    make bench BENCH_ARGS="all --large --json docs/performance.json"
    python docs/make_performance.py

A table is between `<!-- numbers: NAME -->` and `<!-- end -->`, where NAME is a key of `TABLES` in tests/benchmarks/tables.py.
The rest of the page is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "benchmarks"))

from samples import Numbers
from scaling_picture import drawn
from tables import TABLES, markdown

__all__ = ["generated", "main"]

DOCS = Path(__file__).resolve().parent
MARKED = re.compile(r"^<!-- numbers: ([a-z ]+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def generated() -> dict[Path, str]:
    """The text of each file that is generated, in whole or in part."""
    numbers = Numbers.read(DOCS / "performance.json")
    page = DOCS / "performance.md"

    def table(found: re.Match[str]) -> str:
        lines = markdown(TABLES[found[1]](numbers))
        return "\n".join([f"<!-- numbers: {found[1]} -->", "", *lines, "", "<!-- end -->"])

    return {
        page: MARKED.sub(table, page.read_text(encoding="utf-8")),
        DOCS / "scaling.svg": drawn(numbers),
    }


def main() -> int:
    """Write the files; the exit code."""
    for file, text in generated().items():
        file.write_text(text, encoding="utf-8")
        print(file.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
