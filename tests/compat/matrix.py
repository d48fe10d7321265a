"""usage: python matrix.py INTERPRETERS WORK [--docs docs/compatibility.md] [PART…]    measures compatibility with real releases

INTERPRETERS is a folder with an environment for each release of torch, `v2.1.0/bin/python` to `v2.15.0/bin/python`; those from
2.8 on have graphwire and what its tests need. WORK takes what is written. The parts, all by default:

    targets   programs of the corpus and the tests, saved on torch 2.13 for each target, read by that release's own loader
    releases  programs of the tests, saved on each release and loaded on each other, by graphwire and by torch
    history   corpus files of each release, loaded on each release, by graphwire and by torch
    suite     the test suite on each release

Each part takes minutes to hours on two cores. The tables are printed, and replace what stands between
`<!-- PART -->` and `<!-- /PART -->` in a documentation file that has these markers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

RUNNING = ("2.8", "2.9", "2.11", "2.13", "2.15")
"""The releases that the suite, and what goes between releases, are measured on."""
SAVING = "2.13"
"""The release that writes for targets."""


class Matrix:
    """The interpreters and the folder that all parts share."""

    def __init__(self, interpreters: Path, work: Path) -> None:
        self.pythons = {
            ".".join(each.parents[1].name[1:].split(".")[:2]): each
            for each in sorted(interpreters.glob("v*/bin/python"))
        }
        self.releases = sorted(self.pythons, key=lambda release: [int(part) for part in release.split(".")])
        self.work = work
        self.corpus = work / "corpus"
        if not self.corpus.exists():
            with tarfile.open(ROOT / "tests" / "corpus" / "corpus.tar.xz") as archive:
                archive.extractall(work, filter="data")

    def run(self, release: str, script: str, *arguments: str | Path) -> str:
        """What a script prints on a release."""
        paths = os.pathsep.join(str(ROOT / "src" / part) for part in ("core", "plugins"))
        done = subprocess.run(
            [self.pythons[release], HERE / script, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode != 0:
            raise SystemExit(f"{script} on torch {release} fails:\n{done.stderr[-2000:]}")
        return done.stdout

    def read(self, release: str, loader: str, cases: Path, files: Sequence[Path]) -> dict[str, str | None]:
        """What is wrong with each file, by name, when a loader reads it on a release."""
        if not files:
            return {}
        found: dict[str, str | None] = json.loads(
            self.run(release, "read.py", loader, cases, *files).splitlines()[-1]
        )
        for name, problem in found.items():
            if problem is not None:
                print(f"  {loader} on {release}: {name}: {problem}", file=sys.stderr)
        return found


def _score(found: dict[str, str | None], of: int) -> str:
    return f"{sum(problem is None for problem in found.values())}/{of}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def targets(matrix: Matrix) -> str:
    """Files for each target, read by the release's own loader."""
    folder = matrix.work / "targets"
    names = [f"torch-{release}" for release in matrix.releases]
    matrix.run(SAVING, "write.py", folder, matrix.corpus / f"{SAVING}.0", *names)
    rows = []
    for release, name in zip(matrix.releases, names, strict=True):
        files = sorted((folder / name).glob("*.pt2"))
        refused = json.loads((folder / name / "refused.json").read_text("utf-8"))
        found = matrix.read(release, "torch", folder / "cases", files)
        wrong = sorted(each for each, problem in found.items() if problem is not None)
        rows.append(
            [release, str(len(files)), str(len(refused)), _score(found, len(files)), ", ".join(wrong)]
        )
    head = ["target", "written", "refused at save", "read by its own loader, computes the same", "not"]
    return _table(head, rows)


def releases(matrix: Matrix) -> str:
    """Programs of the tests, saved on each release and loaded on each other."""
    rows = []
    running = [release for release in RUNNING if release in matrix.pythons]
    for writer in running:
        folder = matrix.work / "releases" / writer
        matrix.run(writer, "write.py", folder, matrix.corpus)
        total = len(list((folder / "ours").glob("*.pt2")))
        row = [writer, str(total)]
        for reader in running:
            scores = [
                _score(
                    matrix.read(reader, loader, folder / "cases", sorted((folder / kind).glob("*.pt2"))),
                    total,
                )
                for loader, kind in (("graphwire", "ours"), ("torch", "torch"))
            ]
            row.append(", ".join(scores))
        rows.append(row)
    return _table(["saved on", "programs", *(f"loaded on {release}" for release in running)], rows)


def history(matrix: Matrix) -> str:
    """Corpus files of each release, loaded on each release."""
    rows = []
    running = [release for release in RUNNING if release in matrix.pythons]
    folders = sorted(matrix.corpus.iterdir(), key=lambda each: [int(part) for part in each.name.split(".")])
    for folder in folders:
        files = sorted(folder.glob("*.pt2"))
        row = [folder.name, str(len(files))]
        for reader in running:
            scores = [
                _score(matrix.read(reader, loader, folder, files), len(files))
                for loader in ("graphwire", "torch")
            ]
            row.append(", ".join(scores))
        rows.append(row)
    return _table(["written by torch", "files", *(f"loaded on {release}" for release in running)], rows)


def suite(matrix: Matrix) -> str:
    """The test suite on each release."""
    rows = []
    for release in (each for each in RUNNING if each in matrix.pythons):
        command = [
            matrix.pythons[release],
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=short",
            "tests",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        (matrix.work / f"suite-{release}.txt").write_text(done.stdout + done.stderr, "utf-8")
        last = done.stdout.strip().splitlines()[-1]
        counts = {
            kind: number for number, kind in re.findall(r"(\d+) (passed|failed|xfailed|skipped|error)", last)
        }
        rows.append(
            [release, *(counts.get(kind, "0") for kind in ("passed", "failed", "xfailed", "skipped"))]
        )
    return _table(["torch", "passed", "failed", "cannot pass there (`tests/lacking.py`)", "skipped"], rows)


PARTS: dict[str, Callable[[Matrix], str]] = {
    part.__name__: part for part in (targets, releases, history, suite)
}


def _written(text: str, part: str, table: str) -> str:
    """A document with a table between the markers of its part, where it has these."""
    start, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    if start not in text or end not in text:
        return text
    before, _, rest = text.partition(start)
    return f"{before}{start}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("interpreters", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    matrix = Matrix(options.interpreters.resolve(), options.work.resolve())
    for part in options.parts or PARTS:
        table = PARTS[part](matrix)
        print(f"{part}\n\n{table}\n", flush=True)
        if options.docs is not None:
            options.docs.write_text(_written(options.docs.read_text("utf-8"), part, table), "utf-8")


if __name__ == "__main__":
    main()
