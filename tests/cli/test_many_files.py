"""Commands on any number of files: what names them, how each is reported, and how the command ends."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import graphwire


@pytest.fixture(scope="module")
def program():
    layer = torch.nn.Linear(4, 2)
    torch.nn.init.ones_(layer.bias)
    return torch.export.export(layer, (torch.ones(3, 4),))


@pytest.fixture(scope="module")
def made(program, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    graphwire.save(program, folder / "a.pt2")
    (folder / "deep").mkdir()
    graphwire.save(program, folder / "deep" / "b.PT2", format="msgpack")
    graphwire.save({"one": program, "two": program}, folder / "deep" / "c.pt2")
    (folder / "deep" / "notes.txt").write_text("no program")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch) -> Path:
    """A folder with three files, which is the current one."""
    shutil.copytree(made, tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    return Path("files")


NAMES = [str(Path("files", *parts)) for parts in (("a.pt2",), ("deep", "b.PT2"), ("deep", "c.pt2"))]
READING = ["inspect", "verify", "hash", "targets", "upgrade"]


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("command", READING)
def test_each_file_is_read_whatever_becomes_of_the_others(command, run, folder):
    more = ["--dry-run"] if command == "upgrade" else []
    (folder / "deep" / "broken.pt2").write_bytes(b"PK\x03\x04")
    words = [folder, "absent.pt2", "files/*.pt2", "-", "nothing*"]
    done = run(command, *words, "--json", *more, stdin=Path(NAMES[0]).read_bytes())
    found = lines(done.stdout)
    broken = str(Path("files", "deep", "broken.pt2"))
    assert [each["file"] for each in found] == [
        *NAMES[:2], broken, NAMES[2], "absent.pt2", NAMES[0], "-", "nothing*",
    ]  # fmt: skip
    failed = [each["file"] for each in found if "error" in each]
    assert failed == [*([] if command == "verify" else [broken]), "absent.pt2", "nothing*"]
    assert done.returncode == 2
    for name in failed:
        assert f"graphwire: error: {name}: " in done.stderr
    text = run(command, *NAMES, *more)
    assert (text.returncode, text.stderr) == (0, "")
    assert all(name in text.stdout for name in NAMES)
    assert run(command, *NAMES, "--quiet", *more).stdout == ""


def test_verify_ends_with_counts(run, folder):
    data = bytearray(Path(NAMES[0]).read_bytes())
    weight = torch.ones(2).numpy().tobytes()
    data[data.index(weight)] ^= 1
    Path(NAMES[0]).write_bytes(data)
    done = run("verify", folder, "absent")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("4 files: 2 without problems, 1 with ")
    assert done.stdout.splitlines()[-1].endswith(", 1 not readable")
    assert run("verify", folder).returncode == 1
    quiet = run("verify", folder, "--quiet").stdout
    assert NAMES[0] in quiet
    assert NAMES[1] not in quiet


def test_hashes_are_checked_against_a_list(run, folder, program):
    listed = run("hash", folder).stdout + run("hash", "--weights", NAMES[0]).stdout
    Path("list").write_text(listed)
    done = run("hash", "--check", "list")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "list: 5 the same")
    assert f"{NAMES[2]}:two: same\n" in done.stdout
    graphwire.save(torch.export.export(torch.nn.ReLU(), (torch.ones(3),)), NAMES[1])
    Path(NAMES[2]).unlink()
    done = run("hash", "--check", "-", "--quiet", stdin=listed.encode())
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        f"{NAMES[1]}: DIFFERENT",
        "-: 2 the same, 1 different, 2 not readable",
    ]
    assert run("hash", "--check", "list", "--json").stdout.count('"same": true') == 2
    graphwire.save({"one": program, "two": program}, "pair.pt2")
    graphwire.save(program, odd := Path("line\nof \x1b[1mcolour\\.pt2"))
    listed = run("hash", odd, NAMES[0]).stdout + run("hash", "--method", "two", "pair.pt2").stdout
    assert listed.startswith("\\gw1:")
    Path("list").write_text(listed)
    assert run("hash", "--check", "list").stdout.splitlines()[-1] == "list: 3 the same"
    done = run(
        "hash", "--check", "list", "--check", "-", "--quiet", stdin=listed.replace("gw1:", "gw1:f").encode()
    )
    assert (done.returncode, done.stderr.count("line 1 is not")) == (2, 1)
    done = run("hash", "--check", "list", "--check", "list")
    assert [line for line in done.stdout.splitlines() if line.startswith("list:")] == 2 * ["list: 3 the same"]
    assert "line 1 is not" in run("hash", "--check", NAMES[0]).stderr
    Path("list").write_text(
        "".join(f"\\gw1:{'0' * 64}  {name}\n" for name in ("\\U00110000", "a\\x00", "\\z"))
    )
    done = run("hash", "--check", "list")
    assert done.stdout.splitlines()[-1] == "list: 3 not readable"
    assert "defect" not in done.stderr
    Path("list").write_text("what\n")
    assert "list: line 1 is not" in run("hash", "--check", "list").stderr
    assert run("hash").returncode == run("hash", "--check", "list", "a.pt2").returncode == 2


def test_no_two_names_have_the_same_line_of_a_hash(run, folder, program):
    graphwire.save({"one": program, "b.pt2": program}, "a.pt2")
    other = torch.export.export(torch.nn.Sigmoid(), (torch.ones(3),))
    names = ["a.pt2", "a.pt2:b.pt2", "a.pt2:one", "c\\x3ad", "c:d", "c\\:d", "e\u202e", os.fsdecode(b"e\xff")]
    for name in names[1:]:
        graphwire.save(other, name)
    listed = run("hash", *names).stdout
    assert len({(line[0], line.partition("  ")[2]) for line in listed.splitlines()}) == len(names) + 1
    Path("list").write_text(listed)
    assert run("hash", "--check", "list").stdout.splitlines()[-1] == "list: 9 the same"
    for name in names[1:]:
        graphwire.save(program, name)
    assert run("hash", "--check", "list").stdout.splitlines()[-1] == "list: 2 the same, 7 different"


def test_convert_keeps_formats_and_writes_a_folder_of_files(run, folder):
    done = run("convert", folder, "out", "--dry-run")
    assert done.returncode == 0
    assert not Path("out").exists()
    assert run("convert", folder, "out").returncode == 0
    made = [Path("out", *Path(name).parts[1:]) for name in NAMES]
    assert all(path.is_file() for path in made)
    with graphwire.open(made[1]) as archive:
        assert archive.format_of("model") == "msgpack"
    graphwire.convert(NAMES[1], "python.pt2")
    assert Path("python.pt2").read_bytes() == made[1].read_bytes()
    assert run("convert", NAMES[1], "old.pt2", "--target", "torch-2.6").stdout.startswith("old.pt2: json, ")
    assert run("convert", *NAMES, NAMES[0]).returncode == 2
    done = run("convert", NAMES[0], "out/a.pt2", "other")
    assert done.returncode == 2
    assert "is written to" in done.stderr


def test_streams_go_in_and_out(run, folder):
    data = Path(NAMES[0]).read_bytes()
    done = run("convert", "-", "-", "--format", "cbor", stdin=data)
    assert done.returncode == 0, done.stderr
    assert run("verify", "-", stdin=done.data).stdout == "-: no problems\n"
    assert run("upgrade", "-", "--output", "-", stdin=data).data[:2] == b"PK"
    assert run("upgrade", "-", "--in-place", stdin=data).returncode == 2
    assert run("convert", *NAMES, "-").returncode == 2


@pytest.mark.parametrize("command", ["convert", "strip"])
def test_what_is_written_is_listed_as_json(command, run, folder):
    words = ["out"] if command == "convert" else ["--output", "out"]
    done = run(command, folder, "absent.pt2", *words, "--json")
    *found, absent = lines(done.stdout)
    assert done.returncode == 2
    assert [each["file"] for each in found] == NAMES
    assert all(Path(each["output"]).stat().st_size == each["size"] for each in found)
    assert absent["error"]["kind"] == "FileNotFoundError"
    (planned,) = lines(run(command, NAMES[0], *words, "--json", "--dry-run").stdout)
    assert planned["size"] is None
    assert run(command, NAMES[0], *words[:-1], "-", "--json").data[:2] == b"PK"


def test_an_error_names_the_file_that_cannot_be_written(run, folder):
    done = run("convert", NAMES[0], f"{NAMES[1]}/x.pt2")
    assert done.stderr.endswith("b.PT2: this is not a folder\n")
    if Path("/proc").is_dir():
        assert "/proc/x.pt2: " in run("convert", NAMES[0], "/proc/x.pt2").stderr


def test_limits_are_options(run, folder):
    done = run("inspect", NAMES[0], "--limit", "program_bytes=1K", "--limit", "pickle.values=10")
    assert done.returncode == 2
    assert "more than 1,024. Raise it with --limit program_bytes=NUMBER" in done.stderr
    assert run("inspect", NAMES[0], "--limit", "program_bytes=1_000_000", "--quiet").returncode == 0
    assert "there are program_bytes, " in run("inspect", NAMES[0], "--limit", "colour=1").stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["inspekt", "a"], "'inspect'"),
        (["verify", "a", "--jsn"], "'--json'"),
        (["help"], "'--help'"),
        (["version"], "'--version'"),
        (["--quiet", "inspect", "a", "--paramters"], "'--parameters'"),
        (["diff", "a", "b", "--format", "markdwn"], "'markdown'"),
        (["diff", "a", "b", "--format", "json"], "'--json'"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words, meant, run):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.endswith(f"did you mean {meant}?\n")


def test_options_of_all_commands_may_precede_the_command(run, folder):
    assert run("--quiet", "--color", "always", "inspect", NAMES[0]).stdout == ""
    assert "\x1b[" in run("--color", "always", "inspect", NAMES[0]).stdout
    assert "\x1b[" not in run("--color", "always", "inspect", NAMES[0], "--color", "never").stdout
    assert "Traceback" in run("--debug", "blobs", "verify", "absent").stderr


def test_an_option_that_a_command_lacks_shows_its_usage(run, folder):
    done = run("verify", NAMES[0], "--nodes")
    assert done.stderr.startswith("usage: graphwire verify ")
    assert done.stderr.endswith("unrecognized arguments: --nodes\n")
    shutil.copy(NAMES[0], "-a.pt2")
    for words in (["-a.pt2"], [NAMES[0], "-a.pt2"]):
        assert run("verify", *words).stderr.endswith("For the file of that name, write ./-a.pt2\n")
    assert run("verify", "--", "-a.pt2").returncode == run("verify", "./-a.pt2").returncode == 0


def test_strip_writes_files_that_give_nothing_away(run, folder):
    shown = run("inspect", NAMES[0], "--parameters").stdout
    assert "stack trace" in shown
    assert "weight  float32  [2, 4]  32 B  file" in shown
    (found,) = lines(run("inspect", NAMES[0], "--parameters", "--json").stdout)
    assert [each["kind"] for each in found["methods"][0]["contains"]] == ["stack_traces", "example_inputs"]
    assert found["methods"][0]["weights"][0]["nbytes"] == 32
    assert found["extra_files"] == []
    before = Path(NAMES[0]).read_bytes()
    assert "has " in run("strip", folder, "--dry-run").stdout
    assert run("strip", folder).returncode == 2
    assert run("strip", NAMES[0], "--only", "example_inputs", "--output", "one.pt2").returncode == 0
    (found,) = lines(run("inspect", "one.pt2", "--json").stdout)
    assert [each["kind"] for each in found["methods"][0]["contains"]] == ["stack_traces"]
    assert Path(NAMES[0]).read_bytes() == before
    assert run("strip", folder, "--in-place").returncode == 0
    done = run("strip", folder, "--in-place")
    assert done.stdout.count("nothing to do") == len(NAMES)
    assert run("verify", folder).returncode == 0
    stripped = run("strip", "-", "--output", "-", stdin=before)
    assert stripped.data == Path(NAMES[0]).read_bytes()


def test_inspect_lists_modules_at_every_depth(run, tmp_path):
    inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    model = torch.nn.Sequential(inner, torch.nn.Linear(3, 2, bias=False))
    graphwire.save(torch.export.export(model, (torch.ones(1, 3),)), tmp_path / "a.pt2")
    (found,) = lines(run("inspect", tmp_path / "a.pt2", "--modules", "--json").stdout)
    modules = {each["name"]: (each["nodes"], each["elements"]) for each in found["methods"][0]["modules"]}
    assert modules == {"0": (2, 12), "0.0": (1, 12), "0.1": (1, 0), "1": (1, 6)}
    assert "0.1   torch.nn.modules.activation.ReLU" in run("inspect", tmp_path / "a.pt2", "--modules").stdout


def test_weights_are_sorted_and_those_that_are_not_listed_are_counted(run, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in {"b": torch.ones(3), "c": torch.ones(9), "a": torch.ones(3).double()}.items():
                self.register_parameter(name, torch.nn.Parameter(value))

        def forward(self, x):
            return x + self.b.sum() + self.c.sum() + self.a.sum()

    graphwire.save(torch.export.export(Model(), (torch.ones(1),)), path := tmp_path / "a.pt2")

    def listed(*words) -> list[str]:
        found = json.loads(run("weights", path, "--json", *words).stdout)
        (method,) = json.loads(run("inspect", path, "--json", "--parameters", *words).stdout)["methods"]
        assert method["weights"] == (found["weights"] if "--top" in words else found)
        assert method.get("more_weights") == (found["more"] if "--top" in words else None)
        return [each["name"] for each in method["weights"]]

    assert listed() == ["b", "c", "a"]
    assert listed("--sort", "dtype") == ["c", "b", "a"]
    assert listed("--sort", "size") == ["c", "a", "b"]
    assert listed("--sort", "name") == ["a", "b", "c"]
    assert listed("--top", "2") == ["c", "a"]
    assert listed("--top", "1", "--sort", "name") == ["a"]
    for command in ("inspect", "weights"):
        assert run(command, path, "--top", "1").stdout.endswith("\n  … and 2 more, 36 B\n")
        assert "more" not in run(command, path, "--sort", "size", "--top", "3").stdout
        for wrong in ("0", "-1", "many", "9" * 5000):
            assert run(command, path, f"--top={wrong}").returncode == 2
