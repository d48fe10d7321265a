"""Lists the imports of third-party modules that no extra declares, and of tests from modules in packages of graphwire.

It fails if there are any. `make lint` runs it.

What one make target installs, another must not need: on a fresh clone each target is the first. So the files that a target runs,
and what they import from this repository, may import only what pyproject.toml names for that target. What another distribution
happens to bring along does not count.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Share(NamedTuple):
    """Files that run in one environment.

    Args:
        files: patterns of files, below the root of the repository.
        extras: the extras that are installed.
        apart: patterns of files that run in another environment.
        folder: the folder of the distribution that is installed, whose extras these are.
        nested: whether imports inside functions count.
        optional: modules that are used only where they are installed.
    """

    files: tuple[str, ...]
    extras: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    folder: str = "."
    nested: bool = True
    optional: tuple[str, ...] = ()


WITH_TORCH = ("src/core/graphwire/bridge/**/*.py", "src/plugins/**/*.py")
SUITES = ("src/core/graphwire/testing/**/*.py",)
TESTS_APART = "transformers zoo signing triton_kernels remote/stores contrib/heavy contrib/fleet".split()
TARGETS = {
    "demo": Share(("contrib/demo/*.py",)),
    "test": Share(
        ("tests/**/test_*.py", "tests/**/conftest.py"), apart=tuple(f"tests/{each}/*" for each in TESTS_APART)
    ),
    "fuzz": Share(("tests/fuzz/fuzz.py",)),
    "bench-compare": Share(("tests/benchmarks/gate/*.py",)),
    "test-js": Share(("contrib/graphwire-js/test/*.py",)),
    "test-web": Share(("contrib/graphwire-view/test/*.py",)),
    "test-transformers": Share(("tests/transformers/*.py",)),
    "zoo": Share(("tests/zoo/*.py",)),
    "test-contrib": Share(("tests/contrib/heavy/*.py",)),
    "test-fleet": Share(("tests/contrib/fleet/*.py", "contrib/graphwire-fleet/**/*.py")),
    "test-remote": Share(("tests/remote/**/*.py",)),
    "test-signing": Share(("tests/signing/*.py",)),
    "test-triton": Share(("tests/triton_kernels/*.py",)),
    "bench": Share(("tests/benchmarks/bench.py",)),
    "site": Share(("docs/site/*.py", "docs/check_links.py")),
    "dist": Share(("tests/packaging/release/*.py",), apart=("**/smoke.py",)),
    "lint": Share(
        ("tests/dead_code.py", "tests/undeclared_imports.py", "docs/site/*.py", "docs/check_links.py")
    ),
}
"""The files that each make target runs. The Makefile has the extras."""


def shares() -> Iterator[tuple[str, Share]]:
    """Who runs which files with what."""
    yield "graphwire", Share(("src/**/*.py",), apart=(*WITH_TORCH, *SUITES), nested=False)
    yield (
        "graphwire, inside functions",
        Share(
            ("src/**/*.py",),
            ("torch", "remote", "completion"),
            apart=SUITES,
            optional=("numpy", "aiobotocore"),
        ),
    )
    yield "graphwire.testing", Share(SUITES, ("test",))
    extras = extras_of_targets()
    for target, share in TARGETS.items():
        yield f"make {target}", share._replace(extras=extras[target])
    yield from distributions()


def extras_of_targets() -> dict[str, tuple[str, ...]]:
    """The extras that each target of the Makefile installs."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    extras = dict(re.findall(r"^EXTRAS_(\w+) := (\S+)", makefile, re.MULTILINE))
    stamps = re.findall(r"^([\w-]+): \$\(INSTALLED\)-(\w+)", makefile, re.MULTILINE)
    return {target: tuple(extras.get(stamp, stamp).split(",")) for target, stamp in stamps}


MODULES = {
    "ai-edge-model-explorer": "model_explorer",
    "neuraloperator": "neuralop",
    "open-clip-torch": "open_clip",
    "pymongo": "bson",
    "pyopenssl": "OpenSSL",
    "pyyaml": "yaml",
    "universal-pathlib": "upath",
}
"""The module of a distribution that is not called like it."""


def distributions() -> Iterator[tuple[str, Share]]:
    """The code of each distribution below contrib/, what it imports inside functions, and its tests."""
    for project in sorted(ROOT.glob("contrib/*/pyproject.toml")):
        folder = str(project.parent.relative_to(ROOT))
        code = (f"{folder}/graphwire_*.py", f"{folder}/graphwire_*/**/*.py")
        extras = tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"]
        yield folder, Share(code, folder=folder, nested=False)
        yield f"{folder}, inside functions", Share(code, (*sorted(extras.keys() - {"test"}),), folder=folder)
        yield f"{folder}/tests", Share((f"{folder}/tests/**/*.py",), ("test",), folder=folder)


def declared(folder: str, extras: Collection[str]) -> set[str]:
    """The modules that a distribution of this repository requires with some of its extras, its own included."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
    optional: dict[str, list[str]] = project.get("optional-dependencies", {})
    own = project["name"]
    modules = {own.replace("-", "_")}
    for line in [*project.get("dependencies", []), *(line for extra in extras for line in optional[extra])]:
        name, inner = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups("")  # type: ignore[union-attr]
        if name in (own, "graphwire"):
            modules |= declared(folder if name == own else ".", [*filter(None, inner.split(","))])
        modules.add(MODULES.get(name, name.replace("-", "_")))
    return modules


def imports(path: Path, *, nested: bool) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of each import, without those for type checkers and those that may fail."""
    tree = ast.parse(path.read_bytes())
    optional = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("importorskip")
        if isinstance(call.args[0], ast.Constant)
    }
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            names = []
        yield from ((node.lineno, name) for name in names if name.partition(".")[0] not in optional)  # type: ignore[attr-defined]
        if _may_fail(node) or (isinstance(node, ast.FunctionDef) and not nested):
            continue
        waiting.extend(ast.iter_child_nodes(node))


def _may_fail(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.Try) and any(
        handler.type is not None and re.search("ImportError|ModuleNotFound", ast.unparse(handler.type))
        for handler in node.handlers
    )


class Repository:
    """The Python files of this repository, and what they import from each other by name."""

    def __init__(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        apart = re.compile("/templates/|^tests/plugins_of_before/")  # distributions of their own
        self.files = [PurePath(each) for each in listed if not apart.search(each) and (ROOT / each).exists()]

    def matching(self, patterns: tuple[str, ...]) -> set[PurePath]:
        return {PurePath(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)} & {
            *self.files
        }

    def imported(self, name: str, by: PurePath) -> PurePath | None:
        """The file that an import of `name` reads, if it is one of this repository: the nearest, if several have that name."""
        parts = name.split(".")
        while parts:
            ends = "/".join(parts)
            found = [
                each for each in self.files if f"/{each}".endswith((f"/{ends}.py", f"/{ends}/__init__.py"))
            ]
            if found:
                return max(found, key=lambda each: len(os.path.commonpath((each, by))))
            parts.pop()
        return None


def undeclared(share: Share, repository: Repository) -> Iterator[str]:
    """Each import of a share that its extras do not declare."""
    known = (
        declared(share.folder, share.extras)
        | sys.stdlib_module_names
        | {"graphwire", "graphwire_plugins", *share.optional}
    )
    waiting = repository.matching(share.files) - repository.matching(share.apart)
    seen: set[PurePath] = set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for line, name in imports(ROOT / path, nested=share.nested):
            if name.partition(".")[0] in known:
                continue
            inner = repository.imported(name, path)
            if inner is None:
                yield f"{path}:{line} imports {name.partition('.')[0]}"
            elif inner not in seen:
                waiting.add(inner)


def deep(repository: Repository) -> Iterator[str]:
    """Each import of a test from a module in a package of graphwire. It fixes where the module is; `inside` finds the name.

    Not those of programs that run in a process of their own (the fuzzer, benchmarks, makers of golden files, children of tests):
    `inside` is not on their path. Nor those of plugins of before, which are kept as their authors wrote them.
    """
    for path in repository.matching(("tests/**/test_*.py", "tests/**/conftest.py")):
        for line, name in imports(ROOT / path, nested=True):
            module = (ROOT / "src/core").joinpath(*name.split(".")[:3])
            if name.startswith("graphwire.") and (module.is_dir() or module.with_suffix(".py").exists()):
                package, _, which = name.removeprefix("graphwire.").partition(".")
                if which:
                    yield f"{path}:{line} imports {name}: write `from inside.{package} import {name.rpartition('.')[2]}`"


def main() -> int:
    """Print every import that is not declared, or of a test that fixes where a module is.

    Returns:
        1 where there is one, otherwise 0.
    """
    repository = Repository()
    problems = {
        f"{problem}, which {share.folder}/pyproject.toml does not require with {list(share.extras)} ({who})"
        for who, share in shares()
        for problem in undeclared(share, repository)
    }
    problems |= {*deep(repository)}
    for problem in sorted(problems):
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
