"""`graphwire new-plugin` writes a folder of its own, all of it or nothing, without torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from inside.cli import KINDS, write_plugin
from inside.registry import HOOKS

from graphwire.cli import main
from graphwire.errors import PluginError
from graphwire.hooks import PluginInfo, Registry


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_is_one_module_and_one_entry_point(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "graphwire-my-own"
    write_plugin("my-own", [kind], folder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"pyproject.toml", "graphwire_my_own.py", "README.md", "tests/test_graphwire_my_own.py"}
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["graphwire"] == {"my_own": "graphwire_my_own"}
    assert list(tmp_path.iterdir()) == [folder]
    assert not any(b"myname" in path.read_bytes().lower() for path in folder.rglob("*.*") if path.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_its_module_is_a_plugin(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"written-{kind}"
    write_plugin(name, [kind], tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path / name)
    module = __import__(f"graphwire_written_{kind}")
    (info,) = Registry.of(module).plugins
    assert info.status == "active"
    assert stated_in(tmp_path / name) == provided_by(info)


def stated_in(folder: Path) -> dict[str, set[str]]:
    """The names that entry points state, by kind."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {name: set(of) for name, of in project["entry-points"].items() if name != "graphwire"}
    return {name.removeprefix("graphwire."): of for name, of in groups.items()}


def provided_by(info: PluginInfo) -> dict[str, set[str]]:
    names = {kind: set(of) for kind, of in info.names.items()}
    if "opset_upgrader" in names:
        names["opset_upgrader"] = {name.partition(" ")[0] for name in names["opset_upgrader"]}
    return names


def test_several_kinds_make_one_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [kind for kind in reversed(KINDS) if kind != "ops"]
    folder = tmp_path / "of-all"
    write_plugin("of-all", [*kinds, "store"], folder)
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    assert written == {
        "graphwire_of_all/__init__.py",
        *(f"graphwire_of_all/{kind}.py" for kind in kinds),
        *(f"tests/test_graphwire_of_all_{kind}.py" for kind in kinds),
    }
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["graphwire"] == {"of_all": "graphwire_of_all"}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == ["graphwire_of_all"]
    monkeypatch.syspath_prepend(folder)
    (info,) = Registry.of(__import__("graphwire_of_all")).plugins
    assert info.status == "active"
    assert set(info.hooks) == {hook.name for hook in HOOKS}
    assert stated_in(folder) == provided_by(info)


def test_a_kind_that_another_contains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="opset has what ops has"):
        write_plugin("mine", ["ops", "opset"], tmp_path / "new")
    with pytest.raises(PluginError, match="is a command of graphwire"):
        write_plugin("view", ["command"], tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from graphwire.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "new-plugin",
        "mine",
        "--kind",
        "opset",
        "-o",
        tmp_path / "graphwire-mine",
    ]
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
        write_plugin(name, ["format"], tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", ["folder", "file", "link"])
def test_nothing_is_overwritten(exists: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "graphwire-mine"
    {
        "folder": folder.mkdir,
        "file": folder.touch,
        "link": lambda: folder.symlink_to("nowhere"),
    }[exists]()
    assert main(["new-plugin", "mine", "--kind", "format", "-o", str(tmp_path / "graphwire-mine")]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_is_not_there_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["new-plugin", "mine", "--kind", "format", "-o", str(tmp_path / "nowhere" / "new")]
    assert main(command) == 2
    assert "No such file or directory" in capsys.readouterr().err
