"""What a load does beside loading, as Python's audit hooks tell it: every load in the tests is watched.

A file must not make a load compile or run code, import a module, start a process, open a socket, or open a file for
writing. An event counts when `graphwire.load` (or `loads`, `open`, `verify`, `inspect`) is among the callers, and nothing
that is fixed in the source stands between:

- an `import` statement: the module's name stands in our source or in a library's, not in a file;
- a module that the source imports at its first use, by a name in the source;
- a module of torch that registers operators of torch, by a table in the source (`graphwire_plugins.ops`);
- the discovery of installed plugins;
- the codec of an encoding that the source names (`cp437`, of zip names);
- the parser of guards, which makes a syntax tree and no code (`ast.parse`);
- torch's own generated code of a graph module, of names that were checked: the one named exception. It may be compiled and run as
  far as it defines functions: it calls nothing, not even in an annotation or a default;
- torch's types of arguments, which it evaluates from the schemas of operators that are registered with it;
- classes that the standard library and libraries build from templates of their own (`namedtuple`, `dataclass`).
"""

from __future__ import annotations

import dis
import os
import sys
from types import CodeType, FrameType
from typing import Any

WATCHED = frozenset(
    {
        "compile",
        "exec",
        "import",
        "open",
        "code.__new__",
        "marshal.loads",
        "pickle.find_class",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "os.remove",
        "os.rename",
        "subprocess.Popen",
        "pty.spawn",
        "shutil.rmtree",
        "socket.__new__",
        "socket.connect",
        "socket.getaddrinfo",
        "urllib.Request",
        "webbrowser.open",
        "ctypes.dlopen",
    }
)

_LOADS = (
    "load",
    "loads",
    "open",
    "verify",
    "inspect",
    "decode",
    "treespec_loads",
    "program_of",
    "from_schema",
)
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_EXCEPTIONS = (
    ("graphwire/registry/entry_points.py", ""),
    ("graphwire_plugins/library.py", "library"),
    ("graphwire_plugins/ops.py", "register_late"),
    ("/ast.py", "parse"),
    ("/encodings/__init__.py", "search_function"),
    ("torch/fx/operator_schemas.py", "_torchscript_type_to_python_type"),
    ("/collections/__init__.py", "namedtuple"),
    ("/dataclasses.py", ""),
)
"""Source file, by its end, and function (empty for all of them) below which an event is none of the file's doing."""

_GENERATES = ("torch/fx/graph_module.py", "_exec_with_source")
_DEFINES = frozenset(
    {"RESUME", "LOAD_CONST", "MAKE_FUNCTION", "STORE_NAME", "RETURN_VALUE", "RETURN_CONST", "CACHE", "NOP"}
)
"""What generated code that defines functions, and does nothing else, consists of."""

deeds: list[str] = []
"""What loads did, since somebody last cleared this."""


def watch() -> None:
    """Watch every load of this process, in all threads, from now on."""
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in WATCHED and not _is_reading(event, arguments) and _is_loading(sys._getframe(1)):
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if _imports(frame) or _is_exception(code):
                return
            if _is(code, *_GENERATES) and (
                event == "compile" or (event == "exec" and only_defines(arguments[0]))
            ):
                return
            if _is_load(code):
                deeds.append(f"{event} {str(arguments)[:300]}")
                return
            frame = frame.f_back


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a load is among the callers, and no import statement between. Most events have none, and their bytecode, which is
    slow to get, is not looked at."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in _LOADS and _is_load(code):
            return True
        frame = frame.f_back
        if code.co_name == "_find_and_load" and frame is not None and _imports(frame):
            return False
    return False


def _imports(frame: FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_NAME


def _is_load(code: CodeType) -> bool:
    return code.co_name in _LOADS and "graphwire/api/" in code.co_filename


def _is_reading(event: str, arguments: tuple[Any, ...]) -> bool:
    if event != "open":
        return False
    flags = arguments[2] if isinstance(arguments[2], int) else 0
    return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)


def _is_exception(code: CodeType) -> bool:
    return any(_is(code, file, name) for file, name in _EXCEPTIONS)


def _is(code: CodeType, file: str, name: str) -> bool:
    return code.co_filename.endswith(file) and name in ("", code.co_name)


def only_defines(code: object) -> bool:
    """Whether code defines functions without defaults and annotations, and does nothing else."""
    if not isinstance(code, CodeType):
        return False
    steps = list(dis.get_instructions(code))
    made = [step for step in steps if step.opname == "MAKE_FUNCTION"]
    return all(step.opname in _DEFINES for step in steps) and not any(step.arg for step in made)
