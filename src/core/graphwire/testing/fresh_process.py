"""A file loaded and saved again by a process that knows nothing of the one that wrote it, with the codec of a contract suite."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from graphwire.hooks import ConstantCodec, Registry, default_registry, hookimpl

__all__ = ["registry_with", "saved_again"]

_SECONDS = 300
_METHODS = multiprocessing.get_all_start_methods()


def registry_with(codec: ConstantCodec) -> Registry:
    """The installed plugins, and this codec where it is not among them."""
    registry = default_registry()
    known = codec.name in registry.constant_codecs
    return registry if known else registry.extended(_Plugin(codec))


def saved_again(suite: type, file: Path) -> Path:
    """The file that another process makes of a file, with nothing but the module of `suite` imported.

    Raises:
        AssertionError: it cannot.
    """
    # Where there is one, a server that has torch makes each process; it is no fork of this one.
    method = "forkserver" if "forkserver" in _METHODS else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(
            ["graphwire.bridge.program.program", "graphwire.testing.constant_codec"]
        )
    made, told = file.with_name(f"again-{file.name}"), file.with_name(f"{file.name}.txt")
    source = getattr(sys.modules[suite.__module__], "__file__", None)
    given = (suite.__module__, source, suite.__qualname__, file, made, told)
    process = context.Process(target=_save_again, args=given)
    process.start()
    process.join(_SECONDS)
    if process.is_alive():
        process.kill()
    trace = told.read_text() if told.exists() else f"it ended with {process.exitcode}"
    assert made.exists(), f"a process that loads the file fails:\n{trace}"
    return made


def _save_again(module: str, source: str | None, owner: str, file: Path, made: Path, told: Path) -> None:
    try:
        import graphwire

        suite: Any = _imported(module, source)
        for part in owner.split("."):
            suite = getattr(suite, part)
        registry = registry_with(suite.codec)
        graphwire.save(graphwire.load(file, registry=registry), made, registry=registry)
    except BaseException:
        told.write_text(traceback.format_exc())
        raise


def _imported(name: str, source: str | None) -> ModuleType:
    """A module of tests, which need not lie where Python looks for modules."""
    try:
        return importlib.import_module(name)  # noqa: TID251 of a contract suite: the caller's own module
    except ModuleNotFoundError:
        spec = None if source is None else importlib.util.spec_from_file_location(name, source)
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


class _Plugin:
    """A plugin of one codec."""

    def __init__(self, codec: ConstantCodec) -> None:
        self._codec = codec

    @hookimpl
    def graphwire_constant_codecs(self) -> list[ConstantCodec]:
        return [self._codec]
