"""Names inside graphwire's packages, for tests: `from inside.wire import ArchiveReader`.

Which module of the package, or of a package in it, defines a name is found here. So modules move, split and merge, and the tests
stay. A module that a test needs as a whole has a name, too. What users or authors of plugins import has no place here.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import graphwire

_ROOT = Path(graphwire.__path__[0])
_DEFINED = r"^(?:class |def |(?:\w+, )*){0}(?:, \w+)*(?:[(:\[]| [:=]| = )"


class _Package(ModuleType):
    """A package of graphwire, with all names that its modules define."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        folder = _ROOT.joinpath(*self.__name__.split(".")[1:])
        files = [*folder.rglob("*.py")]
        found = [each for each in files if re.search(_DEFINED.format(name), each.read_text(), re.MULTILINE)]
        whole = [each for each in files if each.stem == name]
        if len(found or whole) != 1:
            raise AttributeError(f"{name} is defined in {len(found)} modules of graphwire.{folder.name}")
        parts = (found or whole)[0].relative_to(_ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(("graphwire", *parts)).removesuffix(".__init__"))
        value = getattr(module, name) if found else module
        setattr(self, name, value)
        return value


__path__: list[str] = []
for _folder in (each.parent for each in _ROOT.glob("*/**/__init__.py")):
    _name = ".".join((__name__, *_folder.relative_to(_ROOT).parts))
    sys.modules[_name] = _Package(_name)
