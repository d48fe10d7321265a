"""The command `new-plugin`, which creates a plugin from a template."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from graphwire.cli.files import STDIN
from graphwire.cli.outputs import add_output
from graphwire.cli.terminal import Output
from graphwire.errors import PluginError

KINDS = {
    "format": "A wire format of graphwire",
    "ops": "Operators of a library for graphwire",
    "treespec": "A container type for graphwire",
    "opset": "Operators of a library for graphwire, and their history",
    "codec": "Weights of a class of its own for graphwire",
    "store": "A weight store for graphwire",
    "metadata": "A metadata key for graphwire",
    "command": "A command of graphwire",
}
"""The kinds of plugins, each with the description of its distribution."""

_STATED = {
    "format": {"wire_format": ["myname", ".__COMPACT__"]},
    "ops": {"op_handler": ["torch.ops.myname."]},
    "treespec": {"treespec_serializer": ["graphwire_myname.Myname"]},
    "opset": {"op_handler": ["torch.ops.myname."], "opset_upgrader": ["myname"]},
    "codec": {"constant_codec": ["myname"]},
    "store": {"weight_store": ["myname"]},
    "metadata": {"metadata_key": ["myname"]},
    "command": {"command": ["__DASHED__"]},
}
"""What the module of a kind provides, by the group of entry points that states it."""

_CONTAINED = {"ops": "opset"}
"""A kind, and another that has all of it."""

_LONGEST = 40
_TORCH_NAMES = frozenset({"aten", "prim", "prims", "quantized", "torch"})
"""Operator namespaces, and a module, that cannot be names of plugins."""


def add_new_plugin(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Create a working plugin, with tests, in a new folder."
    parser.add_argument(
        "name", metavar="NAME", help="lower-case letters, digits and dashes, such as my-format"
    )
    parser.add_argument(
        "--kind",
        choices=list(KINDS),
        required=True,
        action="append",
        dest="kinds",
        help="what the plugin provides; several make a package with a module for each",
    )
    add_output(parser, "the new folder; graphwire-NAME in the current one by default", metavar="FOLDER")
    parser.set_defaults(run=_new_plugin)


def write_plugin(name: str, kinds: Sequence[str], folder: Path) -> None:
    """Create the folder of a plugin, completely or not at all.

    Args:
        name: what comes behind `graphwire-` in the distribution's name.
        kinds: keys of `KINDS`. One makes a module, several make a package.
        folder: the folder, which must not exist yet.

    Raises:
        PluginError: it cannot have that name or these kinds, or the folder exists.
        OSError: the folder cannot be made.
    """
    kinds = _checked_kinds(kinds)
    files = _files(_checked_name(name, kinds), kinds)
    if os.path.lexists(folder):
        raise PluginError(
            f"{folder} exists, and nothing is overwritten", remedy="Choose another one with --output"
        )
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for path, text in files.items():
            (made / path).parent.mkdir(exist_ok=True)
            (made / path).write_text(text, encoding="utf-8")
        made.chmod(0o777 & ~_umask())
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _files(name: str, kinds: Sequence[str]) -> dict[str, str]:
    """Return the text of each file, by its path."""
    from graphwire.version import __version__

    identifier = name.replace("-", "_")
    module = f"graphwire_{identifier}"
    templates = resources.files("graphwire.cli") / "templates"
    description = KINDS[kinds[0]] if len(kinds) == 1 else f"A plugin for graphwire: {', '.join(kinds)}"
    hooks: dict[str, str] = {}
    words = {
        "__DESCRIPTION__": f"{description}.",
        "__VERSION__": re.match(r"[0-9.]*[0-9]", __version__)[0],  # type: ignore[index] # every version begins with a number
        "__COMPACT__": name.replace("-", ""),
        "__DASHED__": name,
        "graphwire-myname": f"graphwire-{name}",
        "Myname": "".join(word.capitalize() for word in identifier.split("_")),
        "myname": identifier,
    }

    def filled(template: str, more: Mapping[str, str] | None = None) -> str:
        text = (templates / f"{template}.txt").read_text(encoding="utf-8")
        for placeholder, word in {**(more or {}), **words}.items():
            text = text.replace(placeholder, word)
        return text

    stated = "\n".join(
        f'[project.entry-points."graphwire.{group}"]\n'
        + "".join(f'"{name}" = "{module}"\n' if "." in name else f'{name} = "{module}"\n' for name in names)
        for kind in kinds
        for group, names in _STATED[kind].items()
    )
    included = {"__STATED__\n": stated, "__INCLUDED__": module if len(kinds) > 1 else f"{module}.py"}
    if len(kinds) == 1:
        (kind,) = kinds
        return {
            "pyproject.toml": filled("pyproject.toml", included),
            "README.md": filled("README.md"),
            f"{module}.py": filled(f"{kind}.py"),
            f"tests/test_{module}.py": filled(f"test_{kind}.py"),
        }
    files = {
        "pyproject.toml": filled("pyproject.toml", included),
        "README.md": filled("README.md"),
    }
    for kind in kinds:
        # A module of the package imports no other, so only tests name where a class is.
        moved = {"from graphwire_myname import": f"from graphwire_myname.{kind} import"}
        files[f"{module}/{kind}.py"] = filled(f"{kind}.py")
        files[f"tests/test_{module}_{kind}.py"] = filled(f"test_{kind}.py", moved)
        hooks |= dict.fromkeys(re.findall(r"^def (graphwire_\w+)", files[f"{module}/{kind}.py"], re.M), kind)
    imports = [
        f"from {module}.{kind} import {', '.join(sorted(hook for hook in hooks if hooks[hook] == kind))}\n"
        for kind in sorted(kinds)
    ]
    exported = "".join(f'    "{hook}",\n' for hook in sorted(hooks))
    files[f"{module}/__init__.py"] = filled(
        "package.py", {"__IMPORTS__": "".join(imports).rstrip(), "__HOOKS__": f"\n{exported}"}
    )
    return files


def _checked_kinds(kinds: Sequence[str]) -> list[str]:
    """Return the kinds, each once, in the order of `KINDS`."""
    for part, whole in _CONTAINED.items():
        if part in kinds and whole in kinds:
            raise PluginError(f"the kind {whole} has what {part} has", remedy=f"Leave out --kind {part}")
    return [kind for kind in KINDS if kind in kinds]


def _checked_name(name: str, kinds: Sequence[str]) -> str:
    """Return the name if it is valid for a distribution, a module, an operator namespace and a class."""
    from graphwire.registry.interfaces import OWN_COMMANDS
    from graphwire.registry.registry import default_registry

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
    elif "command" in kinds and name in OWN_COMMANDS:
        problem = "is a command of graphwire"
    elif "format" in kinds and (owner := default_registry().owner_of("wire_format", name.replace("-", "_"))):
        problem = f"is the wire format of the {owner}"
    if problem:
        raise PluginError(f"a plugin cannot be called {name!r:.80}: it {problem}")
    return name


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _new_plugin(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.output == STDIN:
        raise PluginError("a plugin cannot go to standard output", remedy="Name a new folder")
    folder = Path(arguments.output or f"graphwire-{arguments.name}")
    write_plugin(arguments.name, arguments.kinds, folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        output.line(str(path))
    output.line(f"Next: pip install -e {shlex.quote(f'{folder}[test]')} && pytest {shlex.quote(str(folder))}")
    return 0
