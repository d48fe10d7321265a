"""`check-plugin` begins with what is wrong with a provider, one fault a line, the most specific one first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from given_plugins import put_distribution

FORMAT = """
from graphwire import hookimpl

GRAPHWIRE_API = 1
written = []

class Faulty:
    name, suffix, media_type = "faulty", ".faulty", "application/x-faulty"

    def encode(self, tree):
        written.append(tree)
        return {encoded}

    def decode(self, data):
        return {{}}

    def matches(self, head):
        return False

@hookimpl
def graphwire_wire_formats():
    return [Faulty()]
"""
FAULTS = {
    'b"{}"': "another tree is written in the same way",
    "str(len(written)).encode()": "the same tree is written in another way",
    "str(tree).encode()[: tree.clear() if type(tree) is dict else None]": "`encode` changes the tree",
}


def check(folder: Path, source: str, *only: str, metadata: str = "") -> subprocess.CompletedProcess[str]:
    entries = "[graphwire]\nfaulty = faulty_format\n[pytest11]\nfaulty = faulty_format\n"
    about = put_distribution(folder, "faulty-format", "1.0", entries, faulty_format=source)
    if metadata:
        (about / "METADATA").write_text(metadata)
    return subprocess.run(
        [sys.executable, "-m", "graphwire", "check-plugin", "faulty", *only],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("encoded", FAULTS)
def test_the_specific_fault_is_named_first(encoded: str, tmp_path: Path) -> None:
    done = check(
        tmp_path,
        FORMAT.format(encoded=encoded),
        "--only",
        "equal_trees or returns_bytes or stay_apart",
    )
    assert done.returncode == 1, done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert any(FAULTS[encoded] in line for line in lines[:2]), lines[:4]


ESCAPES = "\x1b]0;owned\x07\x1b[2J"
NAMED = FORMAT.format(encoded='b"{}"').replace('"faulty", ".faulty"', '{name}, ".faulty"')
HOSTILE = {
    "it ends the process": (FORMAT.format(encoded="__import__('os')._exit(0)"), "ended the process"),
    "it leaves its tests out": (
        FORMAT.format(encoded='b"{}"') + "def pytest_runtest_setup(item): __import__('pytest').skip('')",
        FAULTS['b"{}"'],
    ),
    "a process that it leaves has its outputs": (
        FORMAT.format(encoded="__import__('subprocess').Popen(['sleep', '130']) and b'{}'"),
        FAULTS['b"{}"'],
    ),
    "its name controls the terminal": (NAMED.replace("{name}", repr(f"a{ESCAPES}")), ""),
    "its name is two lines": (NAMED.replace("{name}", repr("a\n1 passed")), ""),
    "its name represents itself as code": (
        'class Name(str):\n    def __repr__(self): return \'"x"];open("owned", "w");[0\'\n'
        + NAMED.replace("{name}", "Name('faulty')"),
        "",
    ),
    "its error controls the terminal": (FORMAT.format(encoded=f"1 / 0, {ESCAPES!r}"), ""),
    "an error with such a text": (
        FORMAT.format(encoded="exec('raise ValueError(' + repr(chr(27) + '[2J') + ')')"),
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", HOSTILE)
def test_a_hostile_plugin_neither_passes_nor_controls_the_terminal(way: str, tmp_path: Path) -> None:
    source, said = HOSTILE[way]
    done = check(tmp_path, source, "--only", "equal_trees or returns_bytes")
    assert done.returncode in (1, 2), done.stdout
    printed = done.stdout + done.stderr
    assert said in printed
    assert "Traceback (most recent call last):\n  File" not in done.stderr, "an error of our own"
    assert not any(each in printed for each in "\x1b\x07")
    assert "\n1 passed" not in printed
    assert not list(tmp_path.rglob("owned"))


STORE = """
from graphwire import hookimpl
from graphwire.errors import ArchiveError

class Tapes:
    name, takes_storages = "tapes", False

    def find(self, folder, location):
        return location if location.endswith(".tar") else None

    def open(self, folder, location):
        raise ArchiveError("there is none")

    def keeps(self, dtype):
        return True

    def write(self, folder, location, tensors):
        raise ArchiveError("there is no room")

@hookimpl
def graphwire_weight_stores():
    return [Tapes()]
"""


@pytest.mark.slow
def test_a_store_of_files_with_a_suffix_of_their_own_is_told_how_to_name_one(tmp_path: Path) -> None:
    done = check(tmp_path, STORE, "--only", "finds_what_it_wrote")
    assert done.returncode == 1
    assert done.stdout.endswith(
        "asked to write to a folder, since it does not find model.tapes. If it writes files, name one that it finds: "
        "--location model.SUFFIX\n"
    )


@pytest.mark.slow
def test_a_distribution_whose_metadata_lies_is_told_in_one_line(tmp_path: Path) -> None:
    metadata = f"Metadata-Version: 2.1\nName: faulty{ESCAPES}\nVersion: 1.0{ESCAPES}\n"
    done = check(tmp_path, "raise ValueError('a\\n\\x1b[2J')", metadata=metadata)
    assert done.returncode in (1, 2)
    assert not any(each in done.stdout + done.stderr for each in "\x1b\x07")
