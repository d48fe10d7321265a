"""Uses an installed graphwire as on its first day: `smoke.py files FOLDER ARCHIVE…`, `smoke.py programs FOLDER` with torch.

It runs in the environment that is tried, and imports nothing of the project's tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Sequence
from importlib import import_module, metadata, util
from pathlib import Path

FORMATS = ("json", "msgpack", "cbor")
NEEDS_TORCH = ("graphwire.bridge", "graphwire.testing")


def command(*arguments: str | Path) -> str:
    """The standard output of the installed console script, which must succeed."""
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "graphwire"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"graphwire {arguments} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def installed() -> None:
    """The package is the installed one, has the version of its metadata and its types, and every module can be imported."""
    import graphwire
    import graphwire_plugins

    for package in (graphwire, graphwire_plugins):
        folder = Path(package.__path__[0])
        assert folder.parent == Path(sysconfig.get_path("purelib")), folder
        assert (folder / "py.typed").is_file()
        for file in sorted(folder.rglob("*.py")):
            name = ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
            if not name.startswith(NEEDS_TORCH) and file.stem != "__main__":
                with warnings.catch_warnings(
                    action="ignore", category=DeprecationWarning
                ):  # former places of names
                    import_module(name)
    assert graphwire.__version__ == metadata.version("graphwire")
    assert command("--version").split()[-1] == graphwire.__version__
    assert "torch" not in sys.modules, "a module imports torch"


def digests(folder: Path) -> dict[str, str]:
    """The content hashes of the files of a folder, weights included, by name."""
    lines = command("hash", "--weights", folder).splitlines()
    return {Path(name).name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def files(folder: Path, archives: Sequence[Path]) -> None:
    """Every command for files, and the functions behind them, on archives that an older graphwire wrote."""
    import graphwire

    installed()
    originals = folder / "originals"
    originals.mkdir()
    copies = [Path(shutil.copy(archive, originals)) for archive in archives]
    assert command("inspect", originals).strip()
    listed_files = [json.loads(line)["file"] for line in command("inspect", "--json", originals).splitlines()]
    assert sorted(listed_files) == sorted(map(str, copies))
    assert f"{len(copies)} files" in command("verify", originals)
    hashes = digests(originals)
    for wire_format in FORMATS:
        converted = folder / f"in-{wire_format}"
        command("convert", "--format", wire_format, originals, converted)
        assert digests(converted) == hashes
    command("diff", "--weights", copies[0], converted / copies[0].name)
    command("strip", "--in-place", originals)
    assert digests(originals) == hashes
    command("targets", originals)
    command("upgrade", "--dry-run", originals)
    for file in copies:
        with graphwire.open(file) as opened:
            assert opened.program.graph_module.graph.nodes
            assert all(opened.payloads[name].nbytes for name in opened.payloads.weights)
    listed = {plugin["name"]: plugin for plugin in json.loads(command("plugins", "--json"))}
    assert {*FORMATS, "ops", "opsets", "treespecs", "constants", "stores"} <= set(listed)
    if not util.find_spec("torch"):
        assert "pip install 'graphwire[torch]'" in refusal(archives[0])


def refusal(file: Path) -> str:
    """The error of a load without torch."""
    import graphwire

    try:
        graphwire.load(file)
    except graphwire.errors.GraphwireError as error:
        return str(error)
    raise AssertionError("load succeeded without torch")


def programs(folder: Path) -> None:
    """A program is saved in each wire format, read by each command, loaded, and computes the same."""
    warnings.filterwarnings(
        "ignore", message="Failed to initialize NumPy"
    )  # torch warns; graphwire needs no NumPy
    import torch

    import graphwire

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("offset", torch.arange(4.0))

        def forward(self, x: torch.Tensor) -> object:
            return {"sum": self.linear(x) + self.offset, "parts": (x.relu(), x.shape[0])}

    program = torch.export.export(
        Model(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},)
    )
    x = torch.randn(7, 4)
    expected = program.module()(x)
    for wire_format in FORMATS:
        file = folder / f"saved-{wire_format}.pt2"
        graphwire.save(program, file, format=wire_format)
        actual = graphwire.load(file).module()(x)
        assert torch.equal(expected["sum"], actual["sum"])
        assert torch.equal(expected["parts"][0], actual["parts"][0])
        assert actual["parts"][1] == 7
        assert graphwire.content_hash(file) == graphwire.content_hash(program)
        assert command("verify", file).strip()
    command("doctor")
    print(f"torch {torch.__version__}, {graphwire.__file__}")


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    if sys.argv[1] == "files":
        files(Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
    else:
        programs(Path(sys.argv[2]))
