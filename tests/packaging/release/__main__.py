"""`python -m release`: what `make dist` runs. Ends with 1 if something is wrong, and lists what this machine could not try."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from release.building import ROOT, Distributions, build_twice, is_changed
from release.contents import faults_of
from release.environments import (
    ENVIRONMENTS,
    Environment,
    Maker,
    Unreachable,
    archives_of_releases,
    try_wheel,
)
from release.user_types import CHECKERS, faults_of_types


def main() -> int:
    arguments = _arguments()
    if is_changed():
        print("note: files differ from the last commit, and the distributions are of them")
    with tempfile.TemporaryDirectory(prefix="graphwire-dist-") as scratch:
        folder = Path(scratch)
        distributions = built(folder / "built", arguments.output)
        checked(distributions)
        not_tried = [] if arguments.only_build else tried(distributions, folder, arguments)
    if not_tried:
        print("\nNot tried, since this machine lacks:")
        print(*(f"  {line}" for line in not_tried), sep="\n")
    return int(bool(not_tried) and arguments.everything)


def built(folder: Path, output: Path) -> Distributions:
    """Build twice, compare, and keep one build."""
    one, other = build_twice(folder)
    stop_at(
        [
            f"{name} differs between two builds"
            for name, digest in one.digests().items()
            if other.digests()[name] != digest
        ]
    )
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    kept = Distributions(*(Path(shutil.copy(file, output)) for file in one))
    for name, digest in kept.digests().items():
        print(f"{digest}  {name}")
    return kept


def checked(distributions: Distributions) -> None:
    """Compare the contents with the lists of what belongs there, and run twine and check-wheel-contents."""
    stop_at(faults_of(distributions))
    for command in (
        ["twine", "check", "--strict", *distributions],
        ["check_wheel_contents", distributions.wheel],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        stop_at([f"{command[0]}: {done.stdout}{done.stderr}"] if done.returncode else [])
    print("contents, twine, check-wheel-contents: no problems")


def tried(distributions: Distributions, folder: Path, arguments: argparse.Namespace) -> list[str]:
    """Try the wheel in each environment, and return what could not be tried."""
    pythons = [
        path for word in arguments.python for path in sorted(Path("/").glob(str(Path(word).absolute())[1:]))
    ]
    maker = Maker(
        folder, distributions.wheel.absolute(), pythons, arguments.torch_wheels, arguments.any_torch
    )
    archives_folder = folder / "archives"
    archives_folder.mkdir()
    archives = archives_of_releases(archives_folder)
    not_tried = []
    for environment in ENVIRONMENTS:
        if arguments.only not in str(environment):
            continue
        begun = time.monotonic()
        try:
            place = maker.make(environment)
        except Unreachable as lack:
            not_tried.append(f"{environment}: {lack}")
            continue
        used = try_wheel(environment, place, archives)
        print(f"{environment}: works, {time.monotonic() - begun:.0f} s ({used})", flush=True)
        if environment in TYPED:
            stop_at(faults_of_types(place / "bin/python", folder / "types", torch=bool(environment.torch)))
            print(f"  types of users' programs: {', '.join(CHECKERS)}: no problems", flush=True)
            shutil.rmtree(folder / "types")
        shutil.rmtree(place)
    return not_tried


TYPED = (Environment("3.11", None, "newest"), Environment("3.11", "newest", "newest"))
"""The environments in which types are checked: pyright's and mypy's view differs with and without torch."""


def stop_at(faults: list[str]) -> None:
    if faults:
        raise SystemExit("\n".join(faults))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the distributions go")
    parser.add_argument("--only-build", action="store_true", help="build and check, and try nothing")
    parser.add_argument(
        "--python", action="append", default=[], help="a pattern of interpreters, besides those on PATH"
    )
    parser.add_argument(
        "--torch-wheels", default="", help="a folder or page with wheels of torch, besides pip's registries"
    )
    parser.add_argument("--only", default="", help="try the environments whose names contain this text")
    parser.add_argument(
        "--any-torch", action="store_true", help="install builds of torch for CUDA where there is no other"
    )
    parser.add_argument(
        "--everything", action="store_true", help="fail if something cannot be tried on this machine"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
