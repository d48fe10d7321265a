"""`graphwire new-plugin` writes a folder of its own, all of it or nothing, without torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from graphwire.cli import main
from graphwire.cli.plugins.new_plugin import KINDS, write_plugin
from graphwire.errors import PluginError
from graphwire.hooks.registry import Registry


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_is_one_module_and_one_entry_point(kind: str, tmp_path: Path) -> None:
    folder = write_plugin("my-own", kind, tmp_path)
    assert folder == tmp_path / "graphwire-my-own"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"pyproject.toml", "graphwire_my_own.py", "README.md", "tests/test_graphwire_my_own.py"}
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["graphwire"] == {"my_own": "graphwire_my_own"}
    assert list(tmp_path.iterdir()) == [folder]
    assert not any(b"myname" in path.read_bytes().lower() for path in folder.rglob("*.*") if path.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_its_module_is_a_plugin(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"written-{kind}"
    monkeypatch.syspath_prepend(write_plugin(name, kind, tmp_path))
    module = __import__(f"graphwire_written_{kind}")
    (info,) = Registry.of(module).plugins
    assert info.status == "active"


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from graphwire.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, "new-plugin", "mine", "--kind", "opset", "--directory", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    *written, following = done.stdout.splitlines()
    assert [Path(line).relative_to(tmp_path).name for line in written] == [
        "README.md",
        "graphwire_mine.py",
        "pyproject.toml",
        "test_graphwire_mine.py",
    ]
    assert following.startswith("Next: pip install -e ")


@pytest.mark.parametrize(
    "name",
    [
        *("", "A", "é", "a b", "1a", "a--b", "a-", "-a", "../a", "a/b", "a.b", "a_b", "a\n", 'a"b', "a" * 41),
        *("class", "match", "graphwire", "graphwire-a", "aten", "torch", "json"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="cannot be called"):
        write_plugin(name, "format", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", ["folder", "file", "link"])
def test_nothing_is_overwritten(exists: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "graphwire-mine"
    {
        "folder": folder.mkdir,
        "file": folder.touch,
        "link": lambda: folder.symlink_to("nowhere"),
    }[exists]()
    assert main(["new-plugin", "mine", "--kind", "format", "--directory", str(tmp_path)]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_is_not_there_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["new-plugin", "mine", "--kind", "format", "--directory", str(tmp_path / "nowhere")]
    assert main(command) == 2
    assert "No such file or directory" in capsys.readouterr().err
