"""usage: python matrix.py INTERPRETERS WORK [--docs docs/compatibility.md] [PART…]    measures compatibility with real releases

INTERPRETERS is a folder with an environment for each release of torch, `v2.1.0/bin/python` to `v2.15.0/bin/python`; those from
2.8 on have graphwire and what its tests need. WORK takes what is written. The parts, all by default:

    targets   programs of the corpus and the tests, saved on torch 2.13 for each target, read by that release's own loader
    releases  programs of the tests, saved on each release and loaded on each other, by graphwire and by torch
    converted corpus files of each release, converted for each target by `graphwire convert`, read by that release's own loader
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
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

OLDEST_RUNNING = 8
"""The minor version of torch 2 that graphwire runs on from."""
RUNNING = ("2.8", "2.9", "2.11", "2.13", "2.15")
"""The releases that the suite, and what goes between releases, are measured on."""
EXTRAS = ("transformers", "contrib/heavy", "signing", "triton_kernels")
"""Tests that need more than graphwire and a torch, which `make test` leaves out too."""
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
        self.running = [each for each in self.releases if int(each.partition(".")[2]) >= OLDEST_RUNNING]
        self.work = work
        self.corpus = work / "corpus"
        if not self.corpus.exists():
            with tarfile.open(ROOT / "tests" / "corpus" / "corpus.tar.xz") as archive:
                archive.extractall(work, filter="data")
        self.folders = sorted(
            self.corpus.iterdir(), key=lambda each: [int(part) for part in each.name.split(".")]
        )

    def emptied(self, name: str) -> Path:
        """A folder of the work without what an earlier run left."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def run(self, release: str, script: str, *arguments: str | Path, lines: str = "") -> str | None:
        """Run a script on a release: None, or the end of what it said where it failed."""
        paths = os.pathsep.join(str(ROOT / "src" / part) for part in ("core", "plugins"))
        done = subprocess.run(
            [self.pythons[release], HERE / script, *map(str, arguments)],
            input=lines,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        return None if done.returncode == 0 else f"{script} on torch {release} fails:\n{done.stderr[-2000:]}"

    def write(self, release: str, *arguments: str | Path) -> None:
        """Write programs on a release."""
        if (problem := self.run(release, "write.py", *arguments)) is not None:
            raise SystemExit(problem)

    def read(
        self, release: str, loader: str, cases: Mapping[Path, Path], log: Path
    ) -> dict[Path, str | None]:
        """What is wrong with each file when a loader reads it on a release.

        Args:
            cases: what each file is checked against.
            log: what is known so far, from a run that was cut off, and grows; a file whose reading ends the process is in it.
        """
        found = _logged(log)
        while missing := [file for file in cases if file not in found]:
            lines = "".join(f"{json.dumps([str(file), str(cases[file])])}\n" for file in missing)
            problem = self.run(release, "read.py", loader, log, lines=lines)
            known, found = len(found), _logged(log)
            if problem is not None and len(found) == known:
                raise SystemExit(problem)
        for file, problem in found.items():
            if problem is not None:
                print(f"  {loader} on {release}: {file}: {problem}", file=sys.stderr)
        return found


def _logged(log: Path) -> dict[Path, str | None]:
    """What `read.py` wrote of each file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return {Path(file): problem for line in lines for file, problem in json.loads(line).items()}


def _right(found: Mapping[Path, str | None], folder: Path) -> int:
    """How many files of a folder had nothing wrong."""
    return sum(problem is None and file.parent == folder for file, problem in found.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cases(folder: Path, cases: Path) -> dict[Path, Path]:
    """The programs of a folder, each with what it is checked against."""
    return {file: cases / file.stem for file in sorted(folder.glob("*.pt2"))}


def targets(matrix: Matrix) -> str:
    """Files for each target, read by the release's own loader."""
    folder = matrix.emptied("targets")
    names = [f"torch-{release}" for release in matrix.releases]
    matrix.write(SAVING, folder, matrix.corpus / f"{SAVING}.0", *names)
    rows = []
    for release, name in zip(matrix.releases, names, strict=True):
        cases = _cases(folder / name, folder / "cases")
        refused = json.loads((folder / name / "refused.json").read_text("utf-8"))
        found = matrix.read(release, "torch", cases, folder / f"{name}.jsonl")
        wrong = sorted(file.stem for file, problem in found.items() if problem is not None)
        score = f"{len(cases) - len(wrong)}/{len(cases)}"
        rows.append([release, str(len(cases)), str(len(refused)), score, ", ".join(wrong)])
    head = ["target", "written", "refused at save", "read by its own loader, computes the same", "not"]
    return _table(head, rows)


def releases(matrix: Matrix) -> str:
    """Programs of the tests, saved on each release and loaded on each other."""
    rows = []
    running = [release for release in RUNNING if release in matrix.pythons]
    for writer in running:
        folder = matrix.emptied(f"releases/{writer}")
        matrix.write(writer, folder, matrix.corpus)
        total = len(_cases(folder / "ours", folder))
        row = [writer, str(total)]
        for reader in running:
            scores = []
            for loader, kind in (("graphwire", "ours"), ("torch", "torch")):
                cases = _cases(folder / kind, folder / "cases")
                found = matrix.read(reader, loader, cases, folder / f"{reader}-{loader}.jsonl")
                scores.append(f"{_right(found, folder / kind)}/{total}")
            row.append(", ".join(scores))
        rows.append(row)
    return _table(["saved on", "programs", *(f"loaded on {release}" for release in running)], rows)


def converted(matrix: Matrix) -> str:
    """Corpus files of each release, converted for each target, read by the release's own loader."""
    folder = matrix.emptied("converted")
    names = {release: f"torch-{release}" for release in matrix.releases}
    if (problem := matrix.run(SAVING, "convert.py", matrix.corpus, folder, *names.values())) is not None:
        raise SystemExit(problem)
    scores: dict[tuple[str, str], str] = {}
    for release, name in names.items():
        cases = {
            file: case
            for each in matrix.folders
            for file, case in _cases(folder / name / each.name, each).items()
        }
        found = matrix.read(release, "torch", cases, folder / f"{name}.jsonl")
        for each in matrix.folders:
            of = sum(case.parent == each for case in cases.values())
            scores[each.name, release] = f"{_right(found, folder / name / each.name)}/{of}"
    rows = [
        [each.name, str(len(_cases(each, each))), *(scores[each.name, release] for release in names)]
        for each in matrix.folders
    ]
    return _table(["written by", "files", *(f"for {release}" for release in names)], rows)


def history(matrix: Matrix) -> str:
    """Corpus files of each release, loaded on each release."""
    folders = matrix.folders
    cases = {file: case for folder in folders for file, case in _cases(folder, folder).items()}
    found = {
        (loader, reader): matrix.read(
            reader, loader, cases, matrix.work / "history" / f"{reader}-{loader}.jsonl"
        )
        for loader in ("graphwire", "torch")
        for reader in matrix.releases
        if loader == "torch" or reader in matrix.running
    }
    tables = []
    for loader, title in (("graphwire", "By graphwire"), ("torch", "By torch's own loader")):
        readers = [reader for reader in matrix.releases if (loader, reader) in found]
        rows = [
            [
                folder.name,
                str(sum(case.parent == folder for case in cases)),
                *(str(_right(found[loader, reader], folder)) for reader in readers),
            ]
            for folder in folders
        ]
        tables.append(
            f"{title}:\n\n{_table(['written by', 'files', *(f'on {each}' for each in readers)], rows)}"
        )
    return "\n\n".join(tables)


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
            "-n",
            str(os.cpu_count()),
            "--dist",
            "worksteal",
            *(f"--ignore=tests/{folder}" for folder in EXTRAS),
            "tests",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
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
    part.__name__: part for part in (targets, releases, converted, history, suite)
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
    options = parser.parse_intermixed_args()
    options.work.mkdir(parents=True, exist_ok=True)
    matrix = Matrix(options.interpreters.resolve(), options.work.resolve())
    for part in options.parts or PARTS:
        table = PARTS[part](matrix)
        print(f"{part}\n\n{table}\n", flush=True)
        if options.docs is not None:
            options.docs.write_text(_written(options.docs.read_text("utf-8"), part, table), "utf-8")


if __name__ == "__main__":
    main()
