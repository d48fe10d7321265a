"""Records which statements of graphwire run.

A tracer of lines doubles the time of the tests, and gets in the way of tests that trace lines themselves. Here, each statement
is compiled with an assignment before it, which marks it as run. Processes that tests start are measured too: each of them imports
this module, which therefore imports little, and one compiles for all.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = os.path.join(os.path.abspath(__file__).rpartition(f"{os.sep}tests{os.sep}")[0], "src", "")
FOLDER = "GRAPHWIRE_LINE_COVERAGE"
"""The environment variable that names the folder of a run's results and compiled modules. Processes that have it are measured."""
TRACED = frozenset({"graphwire.bridge.module.input_checks"})
"""The modules that torch's compiler follows into, as part of a program: it would take the marks for side effects of that."""

_marks: dict[str, dict[int, int]] = {}
"""For each source file that is imported, the numbers of the statements that ran (their positions in `statements`)."""


def marks_of(path: str) -> dict[int, int]:
    """Where the probes of a source file leave their marks."""
    return _marks.setdefault(path, {})


class _Loader(SourceFileLoader):
    """Loads a module with probes."""

    def get_code(self, fullname: str) -> CodeType:
        compiled = os.path.join(os.environ[FOLDER], f"{fullname}.code")
        try:
            code: CodeType = marshal.loads(self.get_data(compiled))
        except OSError:
            from line_statements import with_probes

            code = compile(with_probes(self.get_data(self.path)), self.path, "exec", dont_inherit=True)
            _write(compiled, marshal.dumps(code))
        return code


class _Finder:
    """Finds the modules of graphwire that are to be loaded with probes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in ("graphwire", "graphwire_plugins") or fullname in TRACED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if (
            spec is not None
            and type(spec.loader) is SourceFileLoader
            and spec.loader.path.startswith(SOURCES)
        ):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install_if_wanted() -> None:
    """Put probes into what this process imports of graphwire, if the environment asks for it.

    Called again, the probes come first again: pytest, which rewrites the contract suites, has put itself before them.
    """
    if os.path.isdir(os.environ.get(FOLDER, "")):
        ours = [each for each in sys.meta_path if type(each) is _Finder] or [_Finder()]
        if ours[0] not in sys.meta_path:
            atexit.register(store)
        sys.meta_path[:] = [ours[0], *(each for each in sys.meta_path if each is not ours[0])]


def store() -> None:
    """Write what ran in this process into the folder."""
    if _marks:
        ran = {path: [*numbers] for path, numbers in _marks.items()}
        _write(
            os.path.join(os.environ[FOLDER], f"{os.getpid()}-{os.urandom(4).hex()}.ran"), marshal.dumps(ran)
        )


def _write(path: str, content: bytes) -> None:
    """Write a file that others may write at the same time; nothing where the folder is gone, after the run."""
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except FileNotFoundError:
        pass
