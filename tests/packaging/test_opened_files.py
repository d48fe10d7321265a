"""Every place that opens, makes or removes a file goes through a folder's descriptors, or is listed here with its reason."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = {
    "graphwire": "src/core",
    "graphwire_plugins": "src/plugins",
    "graphwire_fleet": "contrib/graphwire-fleet",
}

CALLS = frozenset(
    "open read_text read_bytes write_text write_bytes fdopen FileIO copyfile copy2 copytree ZipFile touch mkstemp mkdtemp"
    " NamedTemporaryFile TemporaryFile read_table ParquetFile read_schema read_metadata link symlink_to hardlink_to symlink"
    " unlink rmtree chmod chown lchown truncate rmdir removedirs makedirs mkdir utime mkfifo replace rename memmap".split()
)
"""The names of functions and methods that open or change what a path names."""

THROUGH = {
    "graphwire.open": "archives, as the caller named them",
    "webbrowser.open": "a browser",
    "store_named(registry, place.kind).open": "a store, which gets a folder",
    "store.open": "a store, which gets a folder",
    "store_named(self._registry, place.kind).open": "a store, which gets a folder",
    "self._store.open": "a store, which gets a folder",
    "self._place(store).folder.open": "a folder",
    "self._folder.open": "a folder",
    "folder.open": "a folder",
    "beside.open": "a folder",
    "self.open": "the method itself",
    "part.open": "a `LocalFile`",
    "kept.open": "a `LocalFile`",
    "kept.link": "a `LocalFile`",
    "self.link": "a `LocalFile`",
    "part.replace": "a `LocalFile`",
    "fs.open": "a file system of fsspec",
    "self._place.fs.open": "a file system of fsspec",
    "self.file_system.makedirs": "a file system of fsspec",
    "journal.open": "a journal, which has a folder",
    "shape_env.replace": "symbols",
}
"""What is called, where it is no path."""

REASONS = {
    # The mechanism.
    "graphwire/wire/weights/folder.py": "opens by descriptors of folders",
    "graphwire/process.py": "wraps the descriptor that it is given",
    "graphwire/wire/archive/atomic_file.py": "replaces the path that the caller named, by a file of a random name beside it",
    "graphwire/wire/archive/source.py": "opens the path that the caller named, and looks at what it opened",
    "graphwire_fleet/rewriting/places.py": "calls the system relative to the descriptor that a folder gives",
    "graphwire_fleet/catalogue/folders.py": "the lock of a catalogue, which follows no link and waits for no pipe; its root",
    # Files of the installation and of the process.
    "graphwire/registry/entry_points.py": "metadata of installed distributions",
    "graphwire/viewer.py": "the page that is installed",
    "graphwire/cli/__init__.py": "the null device",
    "graphwire_fleet/engine/quiet.py": "the null device",
    "graphwire_fleet/engine/machine.py": "what the system tells of its memory",
    "graphwire_fleet/engine/child.py": "wraps the descriptor that it is given",
    "graphwire_fleet/engine/bounded.py": "files without a name",
    # New folders, which nobody else writes to.
    "graphwire/api/viewing.py": "a new folder with a page",
    "graphwire/cli/new_plugin.py": "a new folder with a distribution, and the templates that are installed",
    "graphwire/cli/check_plugin.py": "a new folder with what was traced",
    # Paths that the caller named.
    "graphwire/api/conformance.py": "the folder of the suite that the caller named, whose files are trusted",
    "graphwire/cli/outputs.py": "looks for a ZIP at the path that the caller named, if a file is there; folders of outputs",
    "graphwire_fleet/asking/printing.py": "the folder of the answer that the caller named",
    "graphwire_fleet/reading/works.py": "the digest of a file that was looked at before it was read",
    "graphwire_fleet/catalogue/merging.py": "PyArrow takes paths; the folder looked at what is there",
}


def _found() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, below in PARTS.items():
        for path in sorted((ROOT / below / name).rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            imported = {
                each.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for each in node.names
            }
            for node in ast.walk(tree):
                called = _called(node) if isinstance(node, ast.Call) else ""
                if called not in {"", *THROUGH, *imported} and "testing" not in path.parts:
                    found.setdefault(path.relative_to(ROOT / below).as_posix(), set()).add(called)
    return found


def _called(call: ast.Call) -> str:
    """Return the function of a call that may open a path, also one given to `partial`; an empty text if it is none."""
    for each in (call.func, *call.args):
        name = each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
        if name not in CALLS or (isinstance(each, ast.Name) and name != "open"):
            continue
        text = ast.unparse(each)
        # A path is replaced by one argument, a part of a text by two.
        if each is call.func and (
            name not in ("replace", "rename") or (len(call.args) == 1 and not call.keywords)
        ):
            return text
        if each is not call.func and text.startswith(("os.", "shutil.", "io.")):
            return text
    return ""


def test_each_opening_goes_through_a_folder_or_has_a_reason() -> None:
    found = _found()
    assert {name: each for name, each in found.items() if name not in REASONS} == {}
    assert REASONS.keys() - found.keys() == set()
