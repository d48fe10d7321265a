"""The command `new-plugin`, which creates a plugin from a template."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from graphwire.cli.terminal import Output
from graphwire.errors import PluginError

__all__ = ["KINDS", "add_new_plugin", "write_plugin"]

KINDS = {
    "format": "A wire format of graphwire",
    "ops": "Operators of a library for graphwire",
    "treespec": "A container type for graphwire",
    "opset": "Operators of a library for graphwire, and their history",
    "codec": "Weights of a class of its own for graphwire",
    "store": "A weight store for graphwire",
}
"""The kinds of plugins, each with the description of its distribution."""

_LONGEST = 40
_TORCH_NAMES = frozenset({"aten", "prim", "prims", "quantized", "torch"})
"""Operator namespaces, and a module, that cannot be names of plugins."""


def add_new_plugin(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Create a working plugin, with tests, in a new folder graphwire-NAME."
    parser.add_argument(
        "name", metavar="NAME", help="lower-case letters, digits and dashes, such as my-format"
    )
    parser.add_argument("--kind", choices=list(KINDS), required=True, help="what the plugin provides")
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="the parent of the new folder; the current folder by default",
    )
    parser.set_defaults(run=_new_plugin)


def write_plugin(name: str, kind: str, directory: Path) -> Path:
    """Create the folder of a plugin, completely or not at all.

    Args:
        name: what comes behind `graphwire-` in the distribution's name.
        kind: a key of `KINDS`.
        directory: where the folder is made.

    Returns:
        The folder.

    Raises:
        PluginError: it cannot have that name, or the folder exists.
        OSError: the folder cannot be made.
    """
    from graphwire.version import __version__

    module = _checked(name, kind).replace("-", "_")
    folder = directory / f"graphwire-{name}"
    if os.path.lexists(folder):
        raise PluginError(
            f"{folder} exists, and nothing is overwritten", remedy="Choose another name or --directory"
        )
    words = {
        "__DESCRIPTION__": f"{KINDS[kind]}.",
        "__VERSION__": re.match(r"[0-9.]*[0-9]", __version__)[0],  # type: ignore[index] # every version begins with a number
        "__COMPACT__": name.replace("-", ""),
        "__DASHED__": name,
        "graphwire-myname": f"graphwire-{name}",
        "Myname": "".join(word.capitalize() for word in module.split("_")),
        "myname": module,
    }
    files = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"graphwire_{module}.py": f"{kind}.py",
        f"tests/test_graphwire_{module}.py": f"test_{kind}.py",
    }
    templates = resources.files("graphwire.cli") / "templates"
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=directory))
    try:
        (made / "tests").mkdir()
        for path, template in files.items():
            text = (templates / f"{template}.txt").read_text(encoding="utf-8")
            for placeholder, word in words.items():
                text = text.replace(placeholder, word)
            (made / path).write_text(text, encoding="utf-8")
        made.chmod(0o777 & ~_umask())
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder


def _checked(name: str, kind: str) -> str:
    """Return the name if it is valid for a distribution, a module, an operator namespace and a class."""
    from graphwire.hooks import default_registry

    problem = ""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        problem = "does not consist of lower-case letters, digits and single dashes, beginning with a letter"
    elif len(name) > _LONGEST:
        problem = f"is longer than {_LONGEST} characters"
    elif name == "graphwire" or name.startswith("graphwire-"):
        problem = "begins with graphwire, which the command adds"
    elif keyword.iskeyword(name) or keyword.issoftkeyword(name):
        problem = "is a word of Python's own"
    elif name in _TORCH_NAMES:
        problem = "is a name of torch's own"
    elif kind == "format" and (owner := default_registry().owner_of("wire_format", name.replace("-", "_"))):
        problem = f"is the wire format of the {owner}"
    if problem:
        raise PluginError(f"a plugin cannot be called {name!r:.80}: it {problem}")
    return name


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _new_plugin(arguments: argparse.Namespace, output: Output) -> int:
    folder = write_plugin(arguments.name, arguments.kind, arguments.directory)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        output.line(str(path))
    output.line(f"Next: pip install -e '{folder}[test]' && pytest {folder}")
    return 0
