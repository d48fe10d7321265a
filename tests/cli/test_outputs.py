"""What commands write: `-o` everywhere, and never in place of a file that the command reads."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from inside.cli import READ_OPTIONS
from safetensors.torch import save_file

import graphwire
from graphwire.cli import COMMANDS, _parser, main


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command of graphwire, and every action of a command, with its parser."""
    for name in COMMANDS:
        parser = _parser(name).command
        assert parser is not None
        yield name, parser
        for each in parser._actions:
            if isinstance(each, argparse._SubParsersAction):
                yield from ((f"{name} {action}", of) for action, of in each.choices.items())


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {each.dest: each for each in parser._actions}


WRITING = {name: parser for name, parser in parsers() if "output" in options_of(parser)}
READING_NOTHING = {"schema": "", "new-plugin": "mine --kind format"}
"""Commands that write and read no file, with their words."""
PROGRAMS = {"convert", "strip", "upgrade"}
"""Commands that write programs."""
WORDS = {"view": "--no-torch"}
"""More words that a command gets."""
INPUTS = {"file", "files"}
NO_FILES = {
    *(
        "output",
        "in_place",
        "dry_run",
        "json",
        "help",
        "color",
        "quiet",
        "debug",
        "no_browser",
        "open",
        "no_torch",
    ),
    *(
        "method",
        "limits",
        "storage_options",
        "cache",
        "rank",
        "format",
        "reader",
        "stored",
        "ranges",
        "opset",
    ),
    *("only", "sort", "top", "targets", "kind", "kinds", "language", "name", "torch", "rename"),
}
"""Arguments of commands that write which name no file that is read. Files in a cache are found by their digests."""


def test_every_output_has_one_spelling_and_every_other_argument_is_known() -> None:
    assert {*COMMANDS} - {name.split()[0] for name in WRITING} == {
        *("inspect", "verify", "diff", "hash", "targets", "blobs", "plugins", "check-plugin", "doctor"),
        *("completion", "conformance"),
    }, "a command prints, or takes -o; `blobs gc` removes files"
    for parser in WRITING.values():
        options = options_of(parser)
        assert options["output"].option_strings == ["-o", "--output"]
        assert {*options} <= INPUTS | NO_FILES | {*READ_OPTIONS}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
    graphwire.save(program, folder / "f.pt2")
    graphwire.save(program, folder / "stored.pt2", weights=folder / "w.safetensors")
    graphwire.save(program, folder / "blobs.pt2", weights=graphwire.Blobs(folder / "blobs"))
    (folder / "hub").mkdir()
    save_file(dict(program.state_dict), folder / "hub" / "shard.safetensors")
    weight_map = dict.fromkeys(program.state_dict, "shard.safetensors")
    index = folder / "hub" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    graphwire.save(program, folder / "hub.pt2", weights=graphwire.Checkpoint(index))
    records, _ = graphwire.to_schema(program)
    (folder / "draft.json").write_bytes(graphwire.encode(records, "json", target="draft-2022"))
    (folder / "weight").write_bytes(bytes(32))  # the draft refers to a file for each weight
    (folder / "numbers.csv").write_text("node,ms\nlinear,1\n")
    (folder / "other.pt2").write_bytes((folder / "f.pt2").read_bytes())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def linked(name: str, link: Callable[[str, str], None]) -> str:
    link(str(Path(name).absolute()), "link.pt2")
    return "link.pt2"


SPELLINGS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "absolute": os.path.abspath,
    "another way": lambda name: f"hub/../{name}",
    "symbolic link": lambda name: linked(name, os.symlink),
    "hard link": lambda name: linked(name, os.link),
    "URL": lambda name: Path(name).absolute().as_uri(),
}


@pytest.mark.parametrize("name", [*sorted(PROGRAMS), "view", "weights", "neutral", "schema"])
def test_every_command_makes_the_folder_of_its_output_only_if_it_writes_it(name: str, folder: Path) -> None:
    source = READING_NOTHING.get(name, "f.pt2")
    suffix = ".safetensors" if name == "weights" else ".out"
    written = Path(f"new/er/file{suffix}")
    assert main([name, *source.split(), *WORDS.get(name, "").split(), "-o", str(written)]) == 0
    assert written.stat().st_size
    shutil.rmtree("new")
    if source:
        Path("junk.pt2").write_bytes(b"junk")
        assert main([name, "junk.pt2", *WORDS.get(name, "").split(), "-o", str(written)]) != 0
    else:
        assert main([name, "-o", f"f.pt2/{written}"]) != 0
    assert not Path("new").exists()


def refuses(folder: Path, command: str, *words: str) -> None:
    before = contents(folder)
    done = main([command, *words, *WORDS.get(command, "").split()])
    assert done == 2
    assert contents(folder) == before


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("command", sorted(WRITING.keys() - READING_NOTHING.keys()))
def test_no_command_replaces_its_input(command: str, spelling: str, folder: Path, capsys) -> None:
    refuses(folder, command, "f.pt2", "-o", SPELLINGS[spelling]("f.pt2"))
    assert "would replace it" in capsys.readouterr().err


NEEDED = {
    "stored.pt2": ["w.safetensors"],
    "blobs.pt2": ["blobs/blobs.json", "blobs/??/*"],
    "hub.pt2": ["hub/shard.safetensors", "hub/model.safetensors.index.json"],
    "hub.pt2 --weights-from hub": ["hub/shard.safetensors", "hub/model.safetensors.index.json"],
    "f.pt2 --weights-from w.safetensors": ["w.safetensors"],
    "f.pt2 --overlay numbers.csv": ["numbers.csv"],
    "f.pt2 --weights checkpoint:hub/model.safetensors.index.json": ["hub/shard.safetensors"],
    "f.pt2 other.pt2": ["other.pt2"],
    "draft.json": ["weight"],
}
"""Words, and the files that a command with them needs besides its first input."""


@pytest.mark.parametrize("words", NEEDED)
def test_no_command_replaces_what_its_inputs_need(words: str, folder: Path, capsys) -> None:
    asked = 0
    for command, parser in WRITING.items():
        known = {name for each in parser._actions for name in each.option_strings if each.nargs != 0}
        options = {word for word in words.split() if word.startswith("--")}
        if command in READING_NOTHING or options - known or ("other.pt2" in words and command != "view"):
            continue
        for pattern in NEEDED[words]:
            name = str(next(Path().glob(pattern)))
            os.link(name, "another name")
            for output in (name, "another name"):
                asked += 1
                refuses(folder, command, *words.split(), "-o", output)
                assert "would replace it" in capsys.readouterr().err, (command, output)
            Path("another name").unlink()
    assert asked >= 2


def test_every_option_with_files_is_tried_above() -> None:
    assert {option.replace("_", "-").removesuffix("s") for option in READ_OPTIONS} == {
        word.removeprefix("--").removesuffix("s")
        for words in NEEDED
        for word in words.split()
        if word.startswith("--")
    }


def test_files_of_a_folder_are_not_replaced(folder: Path, capsys) -> None:
    Path("models/deep").mkdir(parents=True)
    Path("out").mkdir()
    shutil.copy("f.pt2", "models/a.pt2")
    shutil.copy("f.pt2", "models/deep/b.pt2")
    for output in ("models", "models/.", "models/deep/.."):
        refuses(folder, "convert", "models", "-o", output)
        assert capsys.readouterr().err.count("would replace it") == 2
    Path("out/a.pt2").symlink_to(Path("models/deep/b.pt2").absolute())  # the place of one file is another one
    before = Path("models/deep/b.pt2").read_bytes()
    assert main(["convert", "models", "-o", "out", "--format", "cbor"]) == 2
    assert Path("models/deep/b.pt2").read_bytes() == before
    assert Path("out/deep/b.pt2").is_file(), "the other file is written"


def test_standard_input_is_not_replaced(folder: Path, monkeypatch, capsys) -> None:
    with Path("f.pt2").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        refuses(folder, "convert", "-", "-o", "f.pt2")
    assert "would replace it" in capsys.readouterr().err


def test_files_at_urls_are_not_replaced(folder: Path, capsys) -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe("/outputs/stored.pt2", Path("stored.pt2").read_bytes())
    fs.pipe("/outputs/w.safetensors", Path("w.safetensors").read_bytes())
    before = {path: fs.cat(path) for path in fs.find("/outputs")}
    for output in (
        "memory://outputs/stored.pt2",
        "memory:///outputs/stored.pt2",
        "memory://outputs/w.safetensors",
    ):
        for command in ("convert", "strip", "upgrade", "view", "neutral"):
            refuses(folder, command, "memory://outputs/stored.pt2", "-o", output)
            assert "would replace it" in capsys.readouterr().err, (command, output)
    assert {path: fs.cat(path) for path in fs.find("/outputs")} == before


def test_a_file_is_replaced_where_that_is_asked_for(folder: Path) -> None:
    Path("link.pt2").symlink_to("f.pt2")
    assert main(["convert", "link.pt2", "--in-place", "--format", "cbor"]) == 0
    assert Path("link.pt2").is_symlink()
    with graphwire.open("f.pt2") as archive:
        assert archive.format_of("model") == "cbor"
    for command in WRITING.keys() - READING_NOTHING.keys() - {"weights"}:
        there = "other.pt2" if command in PROGRAMS else "numbers.csv"
        assert main([command, "f.pt2", "-o", there, *WORDS.get(command, "").split()]) == 0
        assert main([command, "f.pt2", "-o", os.devnull, *WORDS.get(command, "").split()]) == 0


@pytest.mark.parametrize("command", sorted(WRITING.keys() - PROGRAMS - {"new-plugin"}))
def test_only_a_program_replaces_a_program(command: str, folder: Path, capsys) -> None:
    refuses(folder, command, *READING_NOTHING.get(command, "f.pt2").split(), "-o", "other.pt2")
    assert "Write to another file" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(WRITING.keys() - {"new-plugin"}))
def test_a_command_tells_what_it_has_written(command: str, folder: Path, capsys) -> None:
    words = READING_NOTHING.get(command, f"f.pt2 {WORDS.get(command, '')}").split()
    assert main([command, *words, "-o", "new.safetensors"]) == 0
    assert "new.safetensors: " in capsys.readouterr().out
    assert Path("new.safetensors").stat().st_size


def test_what_would_be_written_is_told(folder: Path, capsys) -> None:
    before = contents(folder)
    for command in ("weights", "convert"):
        assert main([command, "f.pt2", "-o", "new.safetensors", "--dry-run"]) == 0
        assert "new.safetensors: not written" in capsys.readouterr().out
    assert contents(folder) == before


def test_a_file_that_is_there_is_no_destination_without_its_option(folder: Path, capsys) -> None:
    """A pattern of the shell may match one file more than its author thought of."""
    refuses(folder, "convert", "--format", "msgpack", "f.pt2", "other.pt2")
    assert "--output" in capsys.readouterr().err
    assert main(["convert", "--format", "msgpack", "f.pt2", "new.pt2"]) == 0


def test_options_stand_between_files(folder: Path, capsys) -> None:
    assert main(["convert", "f.pt2", "--format", "cbor", "new.pt2"]) == 0
    assert graphwire.open("new.pt2").format_of("model") == "cbor"
    capsys.readouterr()
    assert main(["hash", "f.pt2", "--json", "other.pt2"]) == 0
    assert capsys.readouterr().out.count('"file"') == 2
    assert main(["convert", "f.pt2", "--formt", "cbor", "new.pt2"]) == 2
    assert "did you mean '--format'?" in capsys.readouterr().err


def test_one_file_is_not_both_a_program_and_its_weights(folder: Path, capsys) -> None:
    refuses(folder, "convert", "f.pt2", "-o", "new.safetensors", "--weights", "./new.safetensors")


@pytest.mark.parametrize("command", WRITING)
def test_what_is_written_goes_to_standard_output_for_a_dash(command: str, folder: Path, run) -> None:
    words = READING_NOTHING.get(command, f"f.pt2 {WORDS.get(command, '')}").split()
    before = contents(folder)
    done = run(command, *words, "-o", "-")
    if command in ("weights", "new-plugin"):  # files by their names
        assert (done.returncode, "standard output" in done.stderr) == (2, True)
    else:
        assert done.returncode == 0
        assert run(command, *words, "-o", "written").returncode == 0
        assert done.data == Path("written").read_bytes()
        Path("written").unlink()
    assert contents(folder) == before


# ------------------------------------------------------------------------- odd places, for every command that writes


def words_of(name: str) -> list[str]:
    """A command that writes, with what it reads, without where it writes."""
    reads = READING_NOTHING.get(name, "f.pt2")
    return [*name.split(), *reads.split(), *WORDS.get(name, "").split()]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("place", ["new.pt2", "new/", "there"])
def test_a_folder_of_no_programs_is_named(
    name: str, place: str, folder: Path, run: Callable[..., Any]
) -> None:
    (folder / "empty").mkdir()
    (folder / "there").mkdir()
    done = run(name, "empty", "-o", place)
    assert done.returncode == 2
    assert "empty: no file below this folder is named *.pt2" in done.stderr


@pytest.mark.parametrize("name", sorted(WRITING.keys() - {"weights", "new-plugin"}))
def test_a_pipe_gets_the_file_and_nothing_else(name: str, folder: Path, run: Callable[..., Any]) -> None:
    words = words_of(name)
    expected = run(*words, "-o", "-")
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    with os.fdopen(reading, "rb") as read, os.fdopen(writing, "wb"):
        done = run(*words, "-o", f"/dev/fd/{writing}")
        os.set_blocking(reading, False)
        assert (done.returncode, done.stderr) == (expected.returncode, expected.stderr)
        assert read.read() == expected.data
    assert done.stdout == ""


@pytest.mark.parametrize("name", sorted(WRITING.keys() - {"new-plugin"}))
def test_a_name_with_a_slash_at_its_end_is_a_folder(name: str, folder: Path, run: Callable[..., Any]) -> None:
    done = run(*words_of(name), "-o", "new/")
    if name in PROGRAMS:
        assert done.returncode == 0
        assert (folder / "new" / "f.pt2").is_file()
    else:
        assert done.returncode == 2
        assert "new/: this names a folder" in done.stderr
        assert not (folder / "new").exists()


@pytest.mark.parametrize("name", ["inspect", "verify", "view", "weights", "hash", "targets"])
def test_standard_input_is_read(name: str, folder: Path, run: Callable[..., Any]) -> None:
    more = ["-o", "-"] if "output" in options_of(dict(parsers())[name]) and name != "weights" else []
    from_file, from_stream = (
        run(name, *WORDS.get(name, "").split(), each, *more, stdin=(folder / "f.pt2").read_bytes())
        for each in ("f.pt2", "-")
    )
    assert from_stream.returncode == from_file.returncode == 0
    if name != "view":  # a page has the file's name in its data
        assert from_stream.stdout.split() == [each.replace("f.pt2", "-") for each in from_file.stdout.split()]
