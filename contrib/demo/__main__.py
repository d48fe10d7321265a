"""Save and load three programs in every wire format, beside torch.export.save and load, and compare the outputs bit for bit.

    python contrib/demo [--program NAME] [--runs N] [--output FOLDER]

The files stay in FOLDER. Exits with 1 if an output differs from the original by one bit or more.
"""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import shutil
import statistics
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graphwire.cli.terminal import Output, columns
from graphwire.display import Section, size_text

if TYPE_CHECKING:
    import torch
    from programs import Example
    from torch.export import ExportedProgram

TITLES = {
    "decoder": "decoder, 12 layers",
    "convnet": "convolutional net",
    "structured": "branch, dataclasses",
}
"""What the programs are, by name. `programs.PROGRAMS` exports them, and imports torch."""
TORCH = "torch.export"
DEFAULT = "json"
"""The wire format that `graphwire.save` writes without `format=`: the one that is timed."""
FOLDER = Path(__file__).resolve().parents[2] / "build/demo"
CLEAR = "\r\x1b[K"


class Way(NamedTuple):
    """A way to write a program to a file and read it back."""

    name: str
    save: Callable[[ExportedProgram, Path], object]
    load: Callable[[Path], ExportedProgram]


class Compared(NamedTuple):
    """One program, saved by graphwire and by torch."""

    name: str
    program_bytes: dict[str, int]
    """The compressed size of the program without its weights, by way."""
    save_seconds: dict[str, float]
    """The median time of a save, for the two ways that are timed."""
    load_seconds: dict[str, float]
    answer_seconds: dict[str, float]
    """The time from the file to the first answer: of `load_module`, and of torch's `load` and `module()`."""
    different: list[str]
    """The ways after which an output differs from the original."""


class Progress:
    """What is done, on standard error: in a terminal a line that changes, elsewhere a line for each program."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.is_terminal = sys.stderr.isatty()

    def step(self, text: str) -> None:
        """Show what is done now, in a terminal."""
        if self.is_terminal:
            print(CLEAR + self._line(text)[: columns() - 1], end="", file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """Show what has been done."""
        print(CLEAR * self.is_terminal + self._line(text), file=sys.stderr, flush=True)

    def _line(self, text: str) -> str:
        return f"  {time.perf_counter() - self.started:3.0f} s  {text}"


def main() -> int:
    """Run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python contrib/demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--program", action="append", choices=TITLES, help="only this program; may be repeated"
    )
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each save and load (default 3)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        default=FOLDER,
        help="write the files to this folder (default build/demo)",
    )
    options = parser.parse_args()
    folder, runs = options.output, max(1, options.runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{folder}: {error.strerror}; name another folder with --output")

    print("graphwire saves and loads three programs. This takes about half a minute.", flush=True)
    progress = Progress()
    progress.step("importing torch")
    # torch warns at import if NumPy is absent; the demo does not need it.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
    import torch
    from programs import PROGRAMS

    progress.done(f"imported torch {torch.__version__}")
    ways = list(installed_ways())
    results = []
    for name in options.program or TITLES:
        progress.step(f"{name}: torch.export")
        example = PROGRAMS[name]()
        results.append(
            compare(example, ways, folder, runs, lambda step, name=name: progress.step(f"{name}: {step}"))
        )
        progress.done(f"{name}: exported, saved and loaded in {len(ways)} ways")

    print_results(results, ways, runs)
    print_next_commands(folder / f"{results[0].name}.pt2")
    for result in results:
        for way in result.different:
            print(f"{result.name} saved as {way}: outputs differ from the original", file=sys.stderr)
    return 1 if any(result.different for result in results) else 0


def installed_ways() -> Iterator[Way]:
    """Yield every installed wire format, then `torch.export.save` and `load`."""
    import torch
    from programs import Query, Span

    import graphwire

    for name in sorted(graphwire.Registry.discover().wire_formats):

        def save(program: ExportedProgram, file: Path, name: str = name) -> None:
            graphwire.save(program, file, format=name)

        yield Way(name, save, graphwire.load)

    def load(file: Path) -> ExportedProgram:
        # torch pickles the example inputs; without this list it would fall back to an unsafe unpickler.
        with torch.serialization.safe_globals([Query, Span]):
            return torch.export.load(file)

    yield Way(TORCH, torch.export.save, load)


def compare(
    example: Example, ways: list[Way], folder: Path, runs: int, step: Callable[[str], object]
) -> Compared:
    """Save and load `example` in every way, and compare what the loaded programs return.

    The two ways that are timed take turns, so that a slow period of the machine affects both. The first turn is a warm-up
    and does not count.
    """
    import graphwire

    files = {way.name: folder / f"{example.name}{_suffix(way)}.pt2" for way in ways}
    timed = [way for way in ways if way.name in (DEFAULT, TORCH)]
    saves: dict[str, list[float]] = {way.name: [] for way in timed}
    loads: dict[str, list[float]] = {way.name: [] for way in timed}
    for run in range(runs + 1):
        for way in timed:
            step(f"{way.name}, run {run} of {runs}")
            gc.collect()  # Otherwise one way would pay for the garbage of another.
            started = time.perf_counter()
            way.save(example.program, files[way.name])
            saved = time.perf_counter()
            way.load(files[way.name])
            loaded = time.perf_counter()
            if run > 0:
                saves[way.name].append(saved - started)
                loads[way.name].append(loaded - saved)
    expected = outputs(example.program.module(), example)
    different = []
    for way in ways:
        step(f"{way.name}, comparing outputs")
        if way not in timed:
            way.save(example.program, files[way.name])
        if not is_equal(outputs(way.load(files[way.name]).module(), example), expected):
            different.append(way.name)
    if not is_equal(outputs(graphwire.load_module(files[DEFAULT]), example), expected):
        different.append("load_module")
    answers: dict[str, float] = {}
    for way in timed:
        step(f"{way.name}, to the first answer")
        gc.collect()
        started = time.perf_counter()
        file = files[way.name]
        module = graphwire.load_module(file) if way.name == DEFAULT else way.load(file).module()
        args, kwargs = example.calls[0]
        module(*args, **kwargs)
        answers[way.name] = time.perf_counter() - started
    return Compared(
        example.name,
        {name: program_size(file) for name, file in files.items()},
        {name: statistics.median(times) for name, times in saves.items()},
        {name: statistics.median(times) for name, times in loads.items()},
        answers,
        different,
    )


def _suffix(way: Way) -> str:
    return "" if way.name == DEFAULT else f".{way.name}"


def program_size(file: Path) -> int:
    """Return the compressed size in bytes of everything under `models/`, which excludes weights."""
    with zipfile.ZipFile(file) as archive:
        return sum(
            member.compress_size
            for member in archive.infolist()
            if "models" in member.filename.split("/")[:-1]
        )


def outputs(module: torch.nn.Module, example: Example) -> list[object]:
    """Return the structures and tensors that a module returns, on every call of the example."""
    from torch.utils._pytree import tree_flatten

    return [tree_flatten(module(*args, **kwargs)) for args, kwargs in example.calls]


def is_equal(actual: list[object], expected: list[object]) -> bool:
    """Return whether the structures and every bit of the tensors are equal."""
    import torch

    return all(
        structure == expected_structure and all(map(torch.equal, tensors, expected_tensors))
        for (tensors, structure), (expected_tensors, expected_structure) in zip(actual, expected, strict=True)
    )


def print_results(results: list[Compared], ways: list[Way], runs: int) -> None:
    """Print a row for each program, and what the first one took."""
    rows = [
        (
            TITLES[each.name],
            f"DIFFERENT: {', '.join(each.different)}" if each.different else "equal bit for bit",
            _ratio(each.program_bytes, "smaller", "larger"),
            _ratio(each.save_seconds, "faster", "slower"),
            _ratio(each.load_seconds, "faster", "slower"),
        )
        for each in results
    ]
    heads = "what was saved", "outputs", "program size", "save", "load"
    output = Output()
    print()
    output.sections([Section("graphwire beside torch.export.save and load", heads, rows)])
    first = results[0]
    sizes, saves, loads, answers = (
        [form(values[name]) for name in (DEFAULT, TORCH)]
        for form, values in (
            (size_text, first.program_bytes),
            (_milliseconds, first.save_seconds),
            (_milliseconds, first.load_seconds),
            (_milliseconds, first.answer_seconds),
        )
    )
    output.line("")
    output.line(
        f"{first.name}: {sizes[0]} without its weights, instead of {sizes[1]}; saved in {saves[0]}, instead of {saves[1]};"
    )
    output.line(f"loaded in {loads[0]}, instead of {loads[1]}. Times are medians of {runs}.")
    output.line(f"From the file to the first answer: {answers[0]} with load_module, instead of {answers[1]}.")
    formats = ", ".join(way.name for way in ways if way.name != TORCH)
    output.line(f"Outputs were compared with the original's, in each format: {formats}.")


def _ratio(values: dict[str, float] | dict[str, int], less: str, more: str) -> str:
    """torch's value divided by graphwire's, in words; two digits, since more would be noise."""
    ratio = values[TORCH] / values[DEFAULT]
    word, ratio = (less, ratio) if ratio >= 1 else (more, 1 / ratio)
    return f"{ratio:.{0 if ratio >= 9.95 else 1}f}\N{MULTIPLICATION SIGN} {word}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"


def print_next_commands(file: Path) -> None:
    """Print commands to try on a file, as they can be pasted."""
    installed = Path(sys.executable).with_name("graphwire")
    found = shutil.which("graphwire")
    command = "graphwire" if found and Path(found) == installed else _pasted(installed)
    lines = "", f"The files are in {_pasted(file.parent)}. Try next:", ""
    commands = [f"  {command} {name} {_pasted(file)}" for name in ("inspect", "view")]
    for line in (*lines, *commands):
        Output().line(line)


def _pasted(path: Path) -> str:
    """A path as a shell takes it, from where the demo was started."""
    near = os.path.relpath(path)
    return shlex.quote(str(path.absolute()) if near.startswith("..") else near)


if __name__ == "__main__":
    sys.exit(main())
