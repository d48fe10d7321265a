"""Compare two commits in one run, interleaved, and fail if the second is slower with confidence.

    make bench-compare BASE=main
    python tests/benchmarks/gate/compare.py BASE [HEAD] [--only NAME] [--rounds N]

Each commit is installed into an environment of its own, on the libraries of this one. A round starts a process for each side,
and both take turns on each measurement: A B B A. A measurement fails if the lower bound of after ÷ before is above the allowed
ratio. The README of the benchmarks says how sure that is.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parent))

from bounds import Bounds, block_ratio, bounds, counted
from measurements import MEASUREMENTS, TORCH_FREE

__all__ = ["Plan", "compare", "installed", "main"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


class Plan(NamedTuple):
    """How much is measured, and what is decided by it."""

    rounds: int
    """Processes for each side."""
    blocks: int
    """Blocks A B B A of each measurement in a round."""
    seconds: float
    """How long a sample is, about: shorter actions run several times."""
    clock: str
    """`cpu`: processor time; `wall`: the time that passes; `calls`: calls of functions, of which one count is enough."""
    confidence: float
    """That no measurement fails by chance."""
    allowed: float
    """The ratio of after ÷ before above which a measurement fails."""


def main(argv: list[str] | None = None) -> int:
    """Compare what the arguments name; 1 if a measurement fails."""
    options = _arguments(argv)
    names = options.only or list(TORCH_FREE if options.torch_free else MEASUREMENTS)
    rounds = options.rounds or (2 if options.clock == "calls" else 8)
    plan = Plan(rounds, options.blocks, options.seconds, options.clock, options.confidence, options.allowed)
    with tempfile.TemporaryDirectory(prefix="graphwire-compare-") as folder:
        pythons = [
            installed(options.repository, commit, Path(folder) / side)
            for side, commit in (("before", options.base), ("after", options.head))
        ]
        file = options.file or _decoder(pythons[0], Path(folder) / "decoder.pt2")
        found = compare(*pythons, names, plan, file, Path(folder))
    for line in _report(found, plan):
        print(line)
    failed = [name for name, each in found.items() if each.is_slower(plan.allowed)]
    print(f"slower: {', '.join(failed)}" if failed else f"nothing is slower than {_percent(plan.allowed)}")
    return 1 if failed else 0


def compare(
    before: Path, after: Path, names: Iterable[str], plan: Plan, file: Path, folder: Path
) -> dict[str, Bounds]:
    """The bounds of after ÷ before for each measurement.

    Args:
        before, after: the interpreters of both sides.
        file: what both read.
        folder: where both write.
    """
    names = list(names)
    rounds: dict[str, list[list[float]]] = {name: [] for name in names}
    for index in range(plan.rounds):
        with ExitStack() as stack:
            sides = (before, after) if index % 2 else (after, before)
            made = [stack.enter_context(_side(python, file, folder, index)) for python in sides]
            asked = made if index % 2 else made[::-1]
            for name in names:
                rounds[name].append(_round(asked[0], asked[1], name, plan))
                print(f"round {index + 1} of {plan.rounds}: {name}", file=sys.stderr)
    if plan.clock == "calls":
        return {name: counted(each) for name, each in rounds.items()}
    # Each measurement may fail by chance: together as often as is allowed.
    confidence = 1 - (1 - plan.confidence) / len(names)
    return {name: bounds(each, confidence=confidence, allowed=plan.allowed) for name, each in rounds.items()}


Ask = Callable[[Mapping[str, Any]], Any]


def _round(before: Ask, after: Ask, name: str, plan: Plan) -> list[float]:
    """The logarithms of the ratios of all blocks."""
    if plan.clock == "calls":
        for ask in (before, after):
            ask({"prepare": name, "seconds": 0})
        return [block_ratio(*([ask({"count": name})["calls"]] for ask in (before, after)))]
    prepared = [ask({"prepare": name, "seconds": plan.seconds}) for ask in (before, after)]
    run = {"run": name, "times": max(each["times"] for each in prepared)}
    ratios = []
    for block in range(plan.blocks):
        first, second = (before, after) if block % 2 else (after, before)
        times = [ask(run)[plan.clock] for ask in (first, second, second, first)]
        outer, inner = (times[0], times[3]), (times[1], times[2])
        ratios.append(block_ratio(outer, inner) if block % 2 else block_ratio(inner, outer))
    return ratios


@contextmanager
def _side(python: Path, file: Path, folder: Path, index: int) -> Iterator[Ask]:
    """A process of one side, which answers what it is asked."""
    own = Path(tempfile.mkdtemp(prefix=f"round-{index}-", dir=folder))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRAPHWIRE")}
    # A seed of its own for each round, and the same one for both sides: the order of sets differs between rounds.
    environment |= {"PYTHONHASHSEED": str(index), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    command = [python, HERE / "worker.py", file, own]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(question: Mapping[str, Any]) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            if not (answer := process.stdout.readline()):
                raise SystemExit(f"{python} cannot measure {question}: its error is above")
            return json.loads(answer)

        yield ask
        process.stdin.close()
    shutil.rmtree(own)


def installed(repository: Path, commit: str, folder: Path) -> Path:
    """Install a commit into an environment of its own, and return its interpreter.

    It finds the libraries of this environment, so both sides have the same ones, and nothing is downloaded.
    """
    tree, environment = folder / "tree", folder / "environment" / folder.name
    folder.mkdir()
    git = ["git", "-C", repository]
    archive = subprocess.run([*git, "archive", commit], check=True, stdout=subprocess.PIPE).stdout
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path in a `.pth` file is added, but `.pth` files there are not read: an editable installation is not found.
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        python,
        "install",
        "--quiet",
    ]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    subprocess.run([*pip, *options, tree], check=True)
    return python


def _decoder(python: Path, file: Path) -> Path:
    """Save the decoder of the demo to `file`, and return it."""
    code = "import sys; sys.path.append(sys.argv[1]); import cases, graphwire; "
    code += "graphwire.save(cases.PROGRAMS['decoder-12-dynamic'](), sys.argv[2])"
    subprocess.run([python, "-W", "ignore", "-c", code, HERE.parent, file], check=True)
    return file


def _report(found: Mapping[str, Bounds], plan: Plan) -> Iterator[str]:
    clock = {"cpu": "processor time", "wall": "time that passes", "calls": "calls of functions"}[plan.clock]
    yield f"after ÷ before, {clock}; {plan.rounds} rounds of {plan.blocks} blocks"
    width = max(map(len, found))
    for name, each in found.items():
        verdict = (
            "slower" if each.is_slower(plan.allowed) else "unclear" if each.is_unclear(plan.allowed) else "ok"
        )
        interval = f"{each.ratio:6.3f}  [{each.low:.3f}, {each.high:.3f}]"
        needed = f"{each.rounds_needed} rounds for ± {_percent(plan.allowed)}"
        yield f"{name:{width}}  {interval}  {verdict:8} {needed}"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:g} %"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="the commit before")
    parser.add_argument("head", nargs="?", default="HEAD", help="the commit after (default HEAD)")
    parser.add_argument("--repository", type=Path, default=ROOT, help="the repository that has both")
    parser.add_argument(
        "--file",
        type=Path,
        help="the file that commands read (default: a decoder that the commit before saves)",
    )
    parser.add_argument(
        "--only", action="append", choices=list(MEASUREMENTS), metavar="NAME", help="only this measurement"
    )
    parser.add_argument("--torch-free", action="store_true", help="only what needs no torch")
    parser.add_argument(
        "--rounds", type=int, help="processes for each side (default 8; 2 where calls are counted)"
    )
    parser.add_argument("--blocks", type=int, default=5, help="blocks A B B A in a round (default 5)")
    parser.add_argument("--seconds", type=float, default=0.05, help="length of a sample (default 0.05)")
    parser.add_argument("--clock", choices=["cpu", "wall", "calls"], default="cpu", help="default cpu")
    parser.add_argument(
        "--confidence", type=float, default=0.99, help="that nothing fails by chance (default 0.99)"
    )
    parser.add_argument(
        "--allowed", type=float, default=1.05, help="the ratio that is not slower yet (default 1.05)"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
