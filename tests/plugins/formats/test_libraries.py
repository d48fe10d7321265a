"""The libraries of wire formats are imported at first use: one that is missing or damaged is named, with what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphwire

LACKING = (
    "import sys; sys.modules['cbor2'] = None; from graphwire.cli import main; sys.exit(main(sys.argv[1:]))"
)
DAMAGED = {
    "a shared object is missing": 'raise ImportError("libcbor.so: cannot open shared object file")',
    "it fails in another way": 'raise ValueError("numpy.dtype size changed")',
    "it is too old": '__version__ = "5.0"',
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("libraries") / "model.pt2"
    graphwire.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), path, format="cbor")
    return path


def run(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", **({"PYTHONPATH": str(folder)} if folder else {})}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_a_format_without_its_library_is_off_with_the_reason(file: Path) -> None:
    done = run("-W", "ignore", "-c", LACKING, "inspect", file)
    assert done.returncode == 2
    assert "plugin `cbor` of graphwire" in done.stderr
    assert "no module named 'cbor2'; pip install cbor2 installs it" in done.stderr
    assert "broken" in run("-W", "ignore", "-c", LACKING, "plugins").stdout


@pytest.mark.parametrize("reason", DAMAGED)
def test_a_damaged_library_is_named_with_what_to_do(reason: str, file: Path, tmp_path: Path) -> None:
    (tmp_path / "cbor2.py").write_text(DAMAGED[reason])
    done = run("-m", "graphwire", "inspect", file, folder=tmp_path)
    assert done.returncode == 2
    assert "the library cbor2 of this wire format cannot be used: " in done.stderr
    assert "pip install --upgrade --force-reinstall cbor2" in done.stderr
    assert "the library cbor2" in run("-m", "graphwire", "verify", file, folder=tmp_path).stdout


def test_the_doctor_tries_each_format_without_torch(tmp_path: Path) -> None:
    (tmp_path / "cbor2.py").write_text(DAMAGED["it is too old"])
    (tmp_path / "torch.py").write_text("raise ImportError")
    done = run("-m", "graphwire", "doctor", folder=tmp_path)
    assert done.returncode == 1
    lines = {line.split("  ")[1]: line for line in done.stdout.splitlines() if line.startswith("  format ")}
    assert "BAD" in lines["format cbor"]
    assert {"BAD" in lines[f"format {name}"] for name in ("json", "msgpack")} == {False}
