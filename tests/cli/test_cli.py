"""The command line: what it prints, how it ends, and that it never imports torch."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch
from inside.cli import folded, terminal as progress

import graphwire
import graphwire.cli
from graphwire.cli import _parser, main
from graphwire.display import size_text
from graphwire.errors import GraphwireError, Problem, ValidationError, escaped
from graphwire.hooks import Output, Section


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def archive(folder) -> Path:
    """A file that torch wrote."""
    dynamic = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    program = torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=dynamic)
    torch.export.save(program, folder / "net.pt2")
    return folder / "net.pt2"


@pytest.fixture
def damaged(archive, tmp_path) -> Path:
    """The same file with one bit of a weight flipped."""
    with zipfile.ZipFile(archive) as reader:
        # torch 2.8 has one record of all weights.
        member = next(item for item in reader.infolist() if "data/weights/" in item.filename)
    content = bytearray(archive.read_bytes())
    name = Path(member.filename).name.encode()
    position = content.index(name, member.header_offset) + len(name)
    position += int.from_bytes(content[member.header_offset + 28 : member.header_offset + 30], "little")
    content[position + 5] ^= 1
    path = tmp_path / "damaged.pt2"
    path.write_bytes(content)
    return path


def run_process(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphwire", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


# --------------------------------------------------------------------------------------------------------- inspect


def test_inspect_shows_the_interface_and_the_size(archive):
    done = run_process("inspect", archive)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == str(archive)
    assert "parameters 2 tensors, 10 elements, 40 B" in lines
    assert "torch.ops.aten.relu.default 1" in lines
    assert any(
        line.startswith("x user_input tensor float32 [s") and line.endswith(", 4] cpu") for line in lines
    )
    assert any(line.endswith("[2, 64]") for line in lines)
    assert "Guards" not in lines


def test_inspect_lists_nodes_when_asked(run, archive):
    lines = run("inspect", archive, "--nodes").stdout.splitlines()
    node = next(line for line in lines[lines.index("Nodes") :] if "aten.linear" in line)
    assert node.split()[-1] == "linear"
    assert "weight=p_linear_weight" in node
    nodes = json.loads(run("inspect", archive, "--nodes", "--json").stdout)["methods"][0]["nodes"]
    assert [each["outputs"] for each in nodes][-1] == "relu"


def test_inspect_picks_a_method(run, archive):
    name = json.loads(run("inspect", archive, "--json").stdout)["methods"][0]["name"]
    assert run("inspect", archive, "--method", name).returncode == 0
    done = run("inspect", archive, "--method", "other")
    assert done.returncode == 2
    told = f"{archive}: the archive holds no program 'other'. It holds {name!r}"
    assert done.stderr == f"graphwire: error: {told}\n"


# -------------------------------------------------------------------------------------------------- convert, verify


def test_verify_reports_a_flipped_bit_and_says_so_in_its_exit_code(run, damaged):
    done = run("verify", damaged)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{damaged}: 1 problem\n")
    assert "data/weights/" in done.stdout
    problems = json.loads(run("verify", damaged, "--json").stdout)["problems"]
    assert [set(problem) for problem in problems] == [{"place", "kind", "message"}]


# --------------------------------------------------------------------------------------------------------- plugins


@pytest.mark.slow
def test_a_plugin_is_checked(run):
    done = run("check-plugin", "cbor", "--only", "test_it_knows_its_own_documents")
    assert (done.returncode, done.stdout.splitlines()[-1].split()[:2]) == (0, ["1", "passed,"])
    done = run(
        "check-plugin", "stores", "--only", "test_it_finds_what_it_wrote"
    )  # in a file, and in a folder
    assert (done.returncode, done.stdout.splitlines()[-1].split()[:2]) == (0, ["2", "passed,"])
    assert "graphwire.testing.OpHandlerContract tests it" in run("check-plugin", "ops").stdout
    done = run("check-plugin", "nobody")
    assert (done.returncode, done.stderr.partition("Installed are ")[0]) == (
        2,
        "graphwire: error: there is no plugin 'nobody'. ",
    )


@pytest.mark.parametrize(
    ("line", "word"), [("graphwire insp", "inspect"), ("graphwire verify --weights-f", "--weights-from")]
)
def test_a_shell_completes_commands_and_options(line, word, tmp_path):
    answer = tmp_path / "answer"
    answer.touch()
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    done = run_process(env=os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer)})
    assert done.returncode == 0, done.stderr
    assert answer.read_text().split() == [word]


def test_the_doctor_finds_what_does_not_work(run, monkeypatch):
    from inside.cli import plugins as doctor

    monkeypatch.setattr(doctor, "_ROUND_TRIP", "raise SystemExit('torch is broken')")
    done = run("doctor", "--json")
    assert json.loads(done.stdout)["versions"]["torch"] == torch.__version__
    checks = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert checks["torch"] == {"check": "torch", "good": True, "result": f"{torch.__version__} is tested"}
    monkeypatch.setattr(doctor, "_version", lambda name: "2.7.1")
    assert re.match(r"2\.7\.1 is not tested: graphwire is tested on torch 2\.8", doctor._torch().result)
    assert checks["save and load"] == {"check": "save and load", "good": False, "result": "torch is broken"}


# ---------------------------------------------------------------------------------------------------------- endings


def test_debug_shows_the_traceback(run, tmp_path):
    done = run("inspect", tmp_path / "nothing.pt2", "--debug")
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("graphwire: error: ")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["inspect"], ["convert"], ["verify", "a", "--x"]])
def test_a_wrong_command_line_is_exit_code_2(arguments, capsys):
    assert main(arguments) == 2
    assert "usage: graphwire" in capsys.readouterr().err


def test_help_and_version_are_exit_code_0(capsys):
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("graphwire ")


def test_an_interrupt_ends_quietly(monkeypatch, capsys, archive):
    def interrupted(_file, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(graphwire, "open", interrupted)
    assert main(["inspect", str(archive)]) == 130
    assert capsys.readouterr().err == "graphwire: error: interrupted\n"


def test_a_reader_that_goes_away_is_no_error(archive):
    command = [sys.executable, "-m", "graphwire", "inspect", str(archive)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (GraphwireError("it is\nbad", place="a[0]", remedy="Mend it"), "FILE: a[0]: it is bad. Mend it"),
        (GraphwireError("\x1b[31mred").of("FILE"), "FILE: \\x1b[31mred"),
        (PermissionError(13, "Permission denied", "a.pt2"), "FILE: a.pt2: Permission denied"),
        (
            ValidationError(
                [Problem("a", "variant", "no variant"), Problem("b", "variant", "two\x1b variants")]
            ).of("FILE"),
            "FILE: 2 problems in the program\n  a: no variant [variant]\n  b: two\\x1b variants [variant]",
        ),
        (
            RuntimeError("what"),
            "FILE: RuntimeError: what (a defect of graphwire or of a plugin; --debug shows where)",
        ),
    ],
)
def test_an_error_names_the_file_and_lists_each_problem_on_a_line(error, text, monkeypatch, capsys):
    def failing(_file, **_options):
        raise error

    monkeypatch.setattr(graphwire, "verify", failing)
    assert main(["verify", "FILE"]) == 2
    assert capsys.readouterr().err == f"graphwire: error: {text}\n"


# ------------------------------------------------------------------------------------------------------------- torch

WITHOUT_TORCH = """
import contextlib, io, json, sys, time
from graphwire.cli import main
for line in json.loads(sys.argv[1]):
    written = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        code = main(line)
    written.seek(0)
    assert code == 0, (line, code, written.read())
    heavy = {"torch", "sympy", "numpy", "rich"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""


COMMAND_LINES = [
    ["inspect", "FILE"],
    ["inspect", "FILE", "--nodes"],
    ["inspect", "FILE", "--json"],
    ["verify", "FILE"],
    ["verify", "FILE", "--json"],
    ["convert", "FILE", "OUT", "--format", "cbor"],
    ["view", "FILE", "-o", "PAGE", "--no-torch"],
    ["diff", "FILE", "FILE", "--weights"],
    ["hash", "FILE", "--weights"],
    ["targets", "FILE"],
    ["neutral", "FILE"],
    ["conformance", "--only", "documents/simple", "--", "PYTHON", "-m", "graphwire", "neutral"],
    ["upgrade", "FILE", "--plan"],
    ["strip", "FILE", "--dry-run"],
    ["schema", "--as", "cddl"],
    ["check-plugin", "json", "--only", "test_it_knows_its_own_documents"],
    ["doctor", "--json"],
    ["completion", "zsh"],
    ["new-plugin", "mine", "--kind", "format", "-o", "OUT_FOLDER"],
    ["weights", "FILE"],
    ["blobs", "verify", "BLOBS"],
    ["blobs", "gc", "BLOBS", "--programs", "FILE", "--dry-run"],
    ["plugins"],
    ["plugins", "--json"],
    ["--version"],
]


@pytest.fixture
def commands() -> list[str]:
    """The names of all commands."""
    (subparsers,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    return list(subparsers.choices)


def test_every_command_has_a_command_line_above(commands):
    assert {words[0] for words in COMMAND_LINES} - {"--version"} == set(commands)


def test_the_readme_lists_every_command(commands):
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    listed = readme.partition("has the subcommands ")[2].partition(". ")[0]
    assert sorted(re.findall(r"`([a-z-]+)`", listed)) == sorted(commands)


@pytest.mark.slow
def test_no_command_imports_torch(archive, tmp_path):
    (tmp_path / "blobs.json").write_text('{"format": "graphwire-blobs", "version": 1}')
    words = {
        "FILE": str(archive),
        "PYTHON": sys.executable,
        "OUT": str(tmp_path / "out.pt2"),
        "OUT_FOLDER": str(tmp_path / "graphwire-mine"),
        "PAGE": str(tmp_path / "page.html"),
        "BLOBS": str(tmp_path),
    }
    lines = [[words.get(each, each) for each in arguments] for arguments in COMMAND_LINES]
    command = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_inspect_reads_no_weights(run, archive, tmp_path, monkeypatch):
    path, read = tmp_path / "large.pt2", []
    with zipfile.ZipFile(archive) as reader, zipfile.ZipFile(path, "w") as writer:
        for item in reader.infolist():
            writer.writestr(item, reader.read(item))
        root = reader.namelist()[0].partition("/")[0]
        with writer.open(zipfile.ZipInfo(f"{root}/data/weights/weight_9"), "w", force_zip64=True) as member:
            for _ in range(128):
                member.write(bytes(1 << 20))
    from_file = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read.append(size) or from_file(file, size, at))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    done = run("inspect", path)
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    path.unlink()  # pytest would keep it
    assert done.returncode == 0, done.stderr
    assert "128.0 MiB" in done.stdout
    assert 0 < sum(read) < 1 << 20
    assert pages < (64 << 20) // resource.getpagesize(), "nor through a mapping"


# ------------------------------------------------------------------------------------------------------ presentation


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


SECTIONS = [
    Section("File", rows=[("size", "1 B"), ("evil", "\x1b[31m[bold]red[/bold]\n")]),
    Section("Table", ("name", "empty", "count"), [("a", "", "1"), ("b" * 300, "", "1,000")], frozenset({2})),
    Section("Wide", ("name", "is", "it", "all"), [("層" * 30, "c " * 30, "d" * 30, "e" * 30)]),
    Section("Nothing", ("name",), []),
]


def printed(color, *, stream=None, **environ) -> str:
    stream = stream or io.StringIO()
    Output(color=color, stdout=stream, environ=environ).sections(SECTIONS)
    return stream.getvalue()


def test_plain_output_is_aligned_escaped_and_leaves_out_what_is_empty():
    wide = 300
    assert printed("auto").splitlines()[:8] == [
        "File",
        "  size  1 B",
        "  evil  \\x1b[31m[bold]red[/bold]\\n",
        "",
        "Table",
        f"  {'name':{wide}}  count",
        f"  {'a':{wide}}      1",
        f"  {'b' * wide}  1,000",
    ]


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_a_terminal_gets_tables_within_its_width_and_nothing_that_controls_it(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed("auto", stream=Terminal(), NO_COLOR="1")
    assert all(len(line) + line.count("層") <= width for line in text.splitlines())
    assert "\x1b" not in text
    if width >= 60:
        assert "\\x1b[31m[bold]red[/bold]\\n" in text
    assert text.count("b") >= 300, "nothing is cut off, long cells are folded"
    assert text.count("層") == 30


def test_words_that_fit_a_line_are_not_broken():
    assert folded("weight store, .msgpack", 14) == ["weight store,", ".msgpack"]
    assert folded("bn.num_batches_tracked", 20) == ["bn.num_batches_", "tracked"]
    assert folded("in /home/ann/deep/model.py", 12) == ["in /home/", "ann/deep/", "model.py"]
    assert folded("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


@pytest.mark.parametrize(
    ("color", "environ", "terminal", "colored"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colours_are_printed_where_they_are_wanted(color, environ, terminal, colored):
    text = printed(color, stream=Terminal() if terminal else io.StringIO(), **environ)
    assert ("\x1b[1mFile\x1b[0m" in text) is colored
    assert ("\x1b" in text) is colored


def test_progress_counts_the_bytes_that_are_verified_and_written(monkeypatch, archive, tmp_path):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.001)
    stream, size = Terminal(), archive.stat().st_size
    output = Output(stderr=stream, stdout=io.StringIO())
    with output.progress("Verifying", 10 * size) as shown:
        assert graphwire.verify(archive) == []
        verified = shown.done
        graphwire.convert(archive, tmp_path / "copy.pt2")
        assert 40 < verified < shown.done <= 10 * size, "40 bytes of weights"
        while "Verifying  [#" not in stream.getvalue():
            time.sleep(0.001)
        output.line("a result")
    assert stream.getvalue().endswith("\r\x1b[K"), "the line is gone"
    assert all(len(shown.text(3.0, width)) < width for width in (20, 40, 80))
    quiet = Terminal()
    with Output(stderr=quiet, quiet=True).progress("Verifying"):
        pass
    assert quiet.getvalue() == ""


def test_what_an_encoding_cannot_say_is_escaped(archive):
    done = run_process("inspect", archive, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert json.loads(
        run_process("inspect", archive, "--json", env=os.environ | {"PYTHONIOENCODING": "ascii"}).stdout
    )


def test_streams_that_the_caller_closed_are_no_failure(archive):
    command = f"{shlex.quote(sys.executable)} -m graphwire verify {shlex.quote(str(archive))} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (3 << 50, "3,072.0 TiB")],
)
def test_sizes_are_readable(size, text):
    assert size_text(size) == text


def test_text_that_prints_is_left_alone():
    assert escaped("[s77, ∞) é") == "[s77, ∞) é"


def test_the_package_shows_one_name():
    assert graphwire.cli.__all__ == ["main"]
