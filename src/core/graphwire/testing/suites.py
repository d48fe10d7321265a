"""What contract suites share: a plugin with the tested provider, programs that are exported once and run, and new processes that
import a provider's module or load a file."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from graphwire.registry.interfaces import ConstantCodec, hookimpl
from graphwire.registry.registry import Registry, default_registry

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def plugin_of(hook: str, provider: Any) -> Any:
    """Return a plugin with one provider."""
    return SimpleNamespace(**{hook: hookimpl(lambda: [provider])})


class ProviderSuite:
    """A contract suite of one provider."""

    hook: ClassVar[str]
    """The hook of the provider, and the attribute that has it."""
    attribute: ClassVar[str]
    module: str | None = None
    """The module whose imports are checked. None checks the module of the provider's class."""

    def test_the_registry_accepts_it(self) -> None:
        """Its attributes and methods are what the hook demands."""
        Registry.of(plugin_of(self.hook, getattr(self, self.attribute)))

    def test_its_module_imports_nothing_heavy(self) -> None:
        """The command line starts at once, whatever plugins are installed."""
        assert_light_imports(self.module or type(getattr(self, self.attribute)).__module__)


class ProgramSuite:
    """A contract suite that needs programs."""

    programs: Sequence[Callable[[], ExportedProgram]]

    @pytest.fixture
    def exported(self) -> list[ExportedProgram]:
        """Return the programs, exported once."""
        assert self.programs, "`programs` is empty"
        return [_exported(make) for make in self.programs]


@functools.cache
def _exported(make: Callable[[], ExportedProgram]) -> ExportedProgram:
    return make()


def run_program(program: ExportedProgram, inputs: Any = None) -> Any:
    """Return what a program computes for copies of its example inputs, or of other ones."""
    import torch

    args, kwargs = copy.deepcopy(inputs or program.example_inputs)
    torch.manual_seed(0)
    return program.module()(*args, **kwargs)


# ---------------------------------------------------------------------------------------------------- new processes

HEAVY_MODULES = ("torch", "sympy", "numpy", "transformers", "graphwire.testing")
"""Modules that a plugin's module must import only inside its functions."""

_SECONDS = 300
_METHODS = multiprocessing.get_all_start_methods()


def assert_light_imports(module: str) -> None:
    """Assert that a module loads none of the heavy modules when a new process imports it.

    Raises:
        AssertionError: it does, or it cannot be imported.
    """
    code = (
        f"import sys, importlib; importlib.import_module({module!r}); "
        f"print(*(name for name in {HEAVY_MODULES!r} if name in sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = ", ".join(done.stdout.split())
    assert not found, f"{module} imports {found} at module level: import them inside functions"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def registry_with(codec: ConstantCodec) -> Registry:
    """Return the installed plugins, with this codec added if it is not among them."""
    registry = default_registry()
    known = codec.name in registry.constant_codecs
    return registry if known else registry.extended(plugin_of("graphwire_constant_codecs", codec))


def saved_again(suite: type, file: Path) -> Path:
    """Load a file in a new process that imports only the module of `suite`, save it again, and return the new file.

    Raises:
        AssertionError: the process fails; the message has its traceback.
    """
    # A fork server, where available, imports torch once. Its processes are not forks of this one.
    method = "forkserver" if "forkserver" in _METHODS else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["graphwire.bridge.program", "graphwire.testing.constant_codec"])
    made, trace_file = file.with_name(f"again-{file.name}"), file.with_name(f"{file.name}.txt")
    source = getattr(sys.modules[suite.__module__], "__file__", None)
    given = (suite.__module__, source, suite.__qualname__, file, made, trace_file)
    process = context.Process(target=_save_again, args=given)
    process.start()
    process.join(_SECONDS)
    if process.is_alive():
        process.kill()
    trace = trace_file.read_text() if trace_file.exists() else f"it exited with {process.exitcode}"
    assert made.exists(), f"a process that loads the file fails:\n{trace}"
    return made


def _save_again(
    module: str, source: str | None, owner: str, file: Path, made: Path, trace_file: Path
) -> None:
    try:
        import graphwire

        registry = registry_with(_suite(module, source, owner).codec)
        graphwire.save(graphwire.load(file, registry=registry), made, registry=registry)
    except BaseException:
        trace_file.write_text(traceback.format_exc())
        raise


def assert_elsewhere(check: Callable[..., None], suite: type, *given: str, data: bytes) -> None:
    """Assert that a check passes in a new process that imports only the module of `suite`.

    Args:
        check: a function of a module of graphwire: called with the suite, `given`, and `data`.
    """
    source = getattr(sys.modules[suite.__module__], "__file__", None)
    code = (
        f"import sys; from {__name__} import _suite; from {check.__module__} import {check.__name__} as check; "
        f"suite = _suite(*{(suite.__module__, source, suite.__qualname__)!r}); "
        f"check(suite, *{given!r}, sys.stdin.buffer.read())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=data, env=_environment(), capture_output=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, (
        done.stderr.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("AssertionError: ")
    )


def _suite(module: str, source: str | None, owner: str) -> Any:
    """Return a contract suite in a process that has not imported its module."""
    return functools.reduce(getattr, owner.split("."), _imported(module, source))


def _imported(name: str, source: str | None) -> ModuleType:
    """Import a test module, which need not be on the module search path."""
    try:
        return importlib.import_module(name)  # noqa: TID251 of a contract suite: the caller's own module
    except ModuleNotFoundError:
        spec = None if source is None else importlib.util.spec_from_file_location(name, source)
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
