"""The demo is what a newcomer sees first: a process of its own, with what `make demo` installs and nothing more."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from undeclared_imports import extras_of_targets

from graphwire.cli import main

ROOT = Path(__file__).resolve().parents[2]


def installed_by(target: str) -> set[str]:
    """The distributions that a make target installs, by name."""
    found: set[str] = set()
    more = [("graphwire", extra) for extra in ("", *extras_of_targets()[target])]
    while more:
        name, extra = more.pop()
        found.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # only on other systems
        for requirement in requirements:
            wanted = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
            if (wanted[1] if wanted else "") == extra:
                required = re.match(r"[\w.-]+", requirement)
                assert required is not None
                name_of_it = _normal(required[0])
                more += [(name_of_it, "")] if name_of_it not in found else []
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# Torch is told of on standard error, which nothing buffers: what stands before it has been seen before.
RUN = """
import runpy, sys, types
sys.modules |= dict.fromkeys({absent})
tell = lambda name, *_: sys.stderr.write("torch begins\\n") and None if name == "torch" else None
sys.meta_path.insert(0, types.SimpleNamespace(find_spec=tell))
runpy.run_path({demo!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_the_demo_runs_with_what_its_target_installs_and_its_commands_can_be_pasted(tmp_path: Path) -> None:
    installed = installed_by("demo")
    assert {"torch", "sympy", "msgspec"} <= installed
    absent = [
        module
        for module, names in metadata.packages_distributions().items()
        if not installed & set(map(_normal, names))
    ]
    assert {"numpy", "pytest"} <= set(absent)
    command = [sys.executable, "-c", RUN.format(absent=absent, demo=str(ROOT / "contrib/demo"))]
    arguments = ["--program", "structured", "--runs", "1", "--output", tmp_path / "left here"]
    done = subprocess.run(
        [*command, *arguments], stdout=PIPE, stderr=STDOUT, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    ratio = "\\d+(\\.\\d)?\N{MULTIPLICATION SIGN} (smaller|larger|faster|slower)"
    lines = [
        r"graphwire saves and loads three programs\..*",
        r"torch begins",
        r" +\d+ s  imported torch .*",
        r" +\d+ s  structured: .*",
        r"",
        r"graphwire beside torch\.export\.save and load",
        r"  what was saved .*",
        rf"  branch, dataclasses +equal bit for bit +{ratio} +{ratio} +{ratio}",
        r"",
        r"structured: .* without its weights, .*",
        r"loaded in .* Times are medians of 1\.",
        r"From the file to the first answer: [0-9,]+ ms with load_module, instead of [0-9,]+ ms\.",
        r"Outputs were compared with the original's, in each format: .*json.*",
        r"",
        r"The files are in .*\. Try next:",
        r"",
        r"  (\S*graphwire inspect .*)",
        r"  (\S*graphwire view .*)",
    ]
    found = re.fullmatch("\n".join(lines) + "\n", done.stdout)
    assert found is not None, done.stdout
    inspect, view = map(shlex.split, found.groups()[-2:])
    assert shutil.which(inspect[0]) == shutil.which(view[0]) is not None
    assert main(inspect[1:]) == 0
    # `view` imports torch, which warns where NumPy is absent.
    code = f"import sys; sys.modules |= dict.fromkeys({absent}); from graphwire.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *view[1:], "--output", tmp_path / "page.html"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert (tmp_path / "page.html").exists()
