"""Check the documentation without a network: relative links and their anchors.

    python docs/check_links.py

Prints each problem as `file:line: what is wrong`, and exits with 1 when there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LINK = re.compile(r"!?\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"#{1,6}\s+(.+?)\s*#*\s*$")
EXPLICIT_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def main() -> int:
    """Check every document; the exit code."""
    documents = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    problems = [problem for document in documents for problem in problems_of(document)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(documents)} documents, {len(problems)} problems")
    return 1 if problems else 0


def problems_of(document: Path) -> Iterator[str]:
    """What is wrong with one document, a line each."""
    for number, line in prose_of(document.read_text(encoding="utf-8")):
        for link in LINK.finditer(CODE_SPAN.sub(blank, line)):
            problem = problem_of_link(document, link[1])
            if problem:
                yield f"{document.relative_to(ROOT)}:{number}: {problem}"


def problem_of_link(document: Path, link: str) -> str:
    """What is wrong with a link in `document`; empty when nothing is, or when it leads out of the project."""
    if EXTERNAL.match(link):
        return ""
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.is_relative_to(ROOT):
        return f"the link {link} leads out of the project"
    if not target.exists():
        return f"the link {link} leads to nothing"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"the link {link} leads to no heading of {target.relative_to(ROOT)}"
    return ""


def anchors(document: Path) -> set[str]:
    """The anchors of a document: explicit ones, and each heading as Git forges spell it."""
    found: set[str] = set()
    for _, line in prose_of(document.read_text(encoding="utf-8")):
        found.update(EXPLICIT_ANCHOR.findall(line))
        heading = HEADING.match(line)
        if heading:
            name = slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]))
            repeats = 1
            unique = name
            while unique in found:
                unique = f"{name}-{repeats}"
                repeats += 1
            found.add(unique)
    return found


def slug(heading: str) -> str:
    """The anchor that Git forges give a heading without links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines outside code fences."""
    return ((number, line) for number, line, is_code in lines_of(text) if not is_code)


def lines_of(text: str) -> Iterator[tuple[int, str, bool]]:
    """The numbered lines, each with whether it is a line of a code fence or inside of one."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = FENCE.match(line)
        if not fence and mark:
            fence = mark[1]
            yield number, line, True
        else:
            yield number, line, bool(fence)
            if fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""


def blank(match: re.Match[str]) -> str:
    """Spaces in the place of a code span."""
    return " " * len(match[0])


if __name__ == "__main__":
    sys.exit(main())
