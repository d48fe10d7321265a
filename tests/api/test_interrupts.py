"""An interrupt of a save or a load leaves nothing behind: no state of the process, no file, no thread; and the caller gets it.

It, or another exception that has nothing to do with the program, is made by a trace function before any line of graphwire and
at the start of any function, by a signal at any time, and by an audit hook, which Python runs between two steps of what is one
step of graphwire, at each call of the system. Only where a block is about to hold something, or gives it back, in one or two
lines of Python, none is made by the first and the last.
"""

from __future__ import annotations

import ast
import gc
import inspect
import linecache
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import fsspec
import pytest
import torch
from hypothesis import given, settings, strategies as st
from inside.bridge import storages
from inside.wire import Folder
from late_devices import LateDevice, to_device
from nightly import by_day
from small_programs import SMALL_PROGRAMS

import graphwire
import graphwire_plugins
from graphwire.errors import causes_of
from graphwire.process import one_build_at_a_time

SOURCES, PLUGINS = (str(Path(each.__file__).parent) for each in (graphwire, graphwire_plugins))


class Large(torch.nn.Module):
    """A megabyte, which threads hash."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(600, 600))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Left(NamedTuple):
    """What there is that a call could leave behind."""

    collects: bool
    has_turn: bool
    asks_subclasses: bool
    descriptors: int
    threads: int
    files: list[str]
    memory: int
    """How much of a device's memory something holds."""


@cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp())
    graphwire.save(SMALL_PROGRAMS["cond"]().program, path / "model.pt2")
    return path


@cache
def calls() -> dict[str, Callable[[], object]]:
    """What is interrupted, each done once before."""
    (folder() / "stores").mkdir()
    fsspec.filesystem("memory").pipe("/interrupts.pt2", (folder() / "model.pt2").read_bytes())
    program = SMALL_PROGRAMS["cond"]().program
    large = torch.export.export(Large(), (torch.ones(2, 600),))
    made: dict[str, Callable[[], object]] = {
        "save": partial(graphwire.save, program, folder() / "saved.pt2"),
        "save over": partial(graphwire.save, large, folder() / "large.pt2"),
        "load": partial(graphwire.load, folder() / "model.pt2"),
        "load copies": partial(graphwire.load, folder() / "large.pt2", copy=True, verify=True),
        "convert": partial(graphwire.convert, folder() / "model.pt2", folder() / "c.pt2", format="cbor"),
        "verify": partial(graphwire.verify, folder() / "model.pt2"),
        "save weights": partial(_save_weights, large, "weights.safetensors", count()),
        "save blobs": partial(_save_weights, large, "blobs", count()),
        "load weights": partial(graphwire.load, folder() / "weights.safetensors.pt2"),
        "load module": partial(graphwire.load_module, folder() / "model.pt2"),
        "inspect": lambda: str(graphwire.inspect(folder() / "model.pt2")),
        "load a URL": partial(graphwire.load, "memory://interrupts.pt2"),
        "load to a device": _load_to_a_device,
    }
    for call in made.values():
        call()
    return made


def _save_weights(program: torch.export.ExportedProgram, name: str, number: Iterator[int]) -> None:
    """Save a program and its weights, to a new store each time."""
    store = folder() / "stores" / f"{next(number)}-{name}"
    weights = graphwire.Blobs(store) if name == "blobs" else store
    graphwire.save(program, folder() / f"{name}.pt2", weights=weights)


devices: list[LateDevice] = []
"""The last device that something was loaded to."""


def _load_to_a_device() -> None:
    """Load to a device whose copies are late, through buffers that are small."""
    with pytest.MonkeyPatch.context() as patch:
        devices[:] = [LateDevice()]
        to_device(patch, devices[0], 50_000)
        patch.setattr(storages, "_SHARED_BYTES", 30_000)
        graphwire.load(folder() / "large.pt2")


@cache
def lines(name: str) -> int:
    """How many lines and starts of functions of graphwire a call comes by."""
    return interrupted(calls()[name], None)[0]


RESTORING = {"__enter__", "__exit__", "__del__", "begin", "end", "close", "_discard", "file_of"}
RESTORING |= {"_Descriptor.__init__"}
"""The functions that hold something, or give it back."""


def restores(frame: FrameType | None, *, by_line: bool = False) -> bool:
    """Whether a frame, or one that it was called from, is of such a function, or at a `with`, by which a block ends, too."""
    if (
        by_line
        and frame
        and linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
    ):
        return True
    while frame is not None and frame.f_code.co_filename == __file__:  # of an audit hook
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename != __file__:
        code = frame.f_code
        if RESTORING & {code.co_name, code.co_qualname} or code.co_filename.endswith("process.py"):
            return True
        frame = frame.f_back
    return False


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupted(
    call: Callable[[], object], at: int | None, interrupt: Callable[[], object] = interrupt
) -> tuple[int, BaseException | None, BaseException | None]:
    """Make a call, and interrupt it before the line or at the start of the function of that number.

    Returns:
        how many it came by, what `interrupt` raised, and what the call raised.
    """
    visits = 0
    raised = found = None

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal visits, raised
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        is_resumed = (
            frame.f_code.co_flags & inspect.CO_GENERATOR
        )  # or ends: Python drops what is raised there
        comes_by = event == "line" or (event == "call" and not is_resumed)
        visits += comes_by
        if (
            at is not None
            and visits >= at
            and comes_by
            and raised is None
            and not restores(frame, by_line=True)
        ):
            try:
                interrupt()
            except BaseException as error:
                raised = error
                raise
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except BaseException as error:
        found = error
    finally:
        sys.settrace(usual)
    return visits, raised, found


def left() -> Left:
    turns = []

    def take_turn() -> None:
        turns.append(one_build_at_a_time._lock.acquire(blocking=False))
        if turns[0]:
            one_build_at_a_time._lock.release()

    collects = gc.isenabled()
    thread = threading.Thread(target=take_turn)
    thread.start()
    thread.join()
    files = sorted(path.name for path in (*folder().iterdir(), *folder().rglob("stores/*.part")))
    enabled = torch._C._is_torch_function_enabled()
    descriptors = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
    memory = sum(device.living() for device in devices)
    return Left(collects, not turns[0], enabled, descriptors, threading.active_count(), files, memory)


def assert_nothing_is_left(before: Left) -> None:
    assert_nothing_is_held(before)
    for name in ("saved.pt2", "large.pt2", "weights.safetensors.pt2", "blobs.pt2"):
        assert graphwire.verify(folder() / name) == []


def assert_nothing_is_held(before: Left) -> None:
    patience = time.monotonic() + 5
    while (found := left()) != before and time.monotonic() < patience:
        gc.collect()  # what an exception still holds
        time.sleep(0.01)  # a thread takes a moment to end
    assert found == before


NAMES = (
    "save",
    "save over",
    "save weights",
    "save blobs",
    "load",
    "load copies",
    "load weights",
    "load module",
    "load a URL",
    "load to a device",
    "convert",
    "verify",
    "inspect",
)
MOMENTS = st.floats(0, 1, exclude_max=True)
EXAMPLES = by_day(12, by_night=settings().max_examples)


@pytest.fixture(autouse=True, scope="module")
def _finalizers_are_not_told_of() -> Iterator[None]:
    """Python itself lets go of an exception that a signal raises inside of a finalizer, and goes on; pytest would keep it, and
    what its frames hold."""
    usual, sys.unraisablehook = sys.unraisablehook, lambda _: None
    yield
    sys.unraisablehook = usual


class TimeLimit(Exception):
    """What a handler of the caller's raises."""


OF_CALLER = (
    KeyboardInterrupt,
    SystemExit,
    TimeLimit,
    TimeoutError,
    RuntimeError,
    MemoryError,
    RecursionError,
)


@settings(deadline=None, max_examples=by_day(75, by_night=3 * EXAMPLES))
@given(st.sampled_from(NAMES), MOMENTS, st.sampled_from(OF_CALLER))
@pytest.mark.slow
def test_an_interrupt_at_any_step_leaves_nothing(name: str, moment: float, kind: type[BaseException]) -> None:
    """The caller gets it. Only what Python itself raises may be told in an error of graphwire."""

    def raise_it(*_: object) -> None:
        raise kind

    call, count = calls()[name], lines(name)
    before = left()
    handler = signal.signal(signal.SIGALRM, raise_it)
    of_handler = issubclass(kind, (TimeLimit, OSError)) or kind is RuntimeError
    by = partial(signal.raise_signal, signal.SIGALRM) if of_handler else raise_it
    try:
        _, raised, found = interrupted(call, 1 + int(moment * count), by)
    finally:
        signal.signal(signal.SIGALRM, handler)
    of_ours = found is None or isinstance(found, graphwire.errors.GraphwireError)
    is_told = kind is RecursionError and of_ours  # a step may go another way then, or list a problem
    assert is_told or raised is None or raised in causes_of(found)  # this time it was over before
    assert is_told or found is raised or kind is MemoryError
    del raised, found
    assert_nothing_is_left(before)


_at_event: Callable[[], None] | None = None


@cache
def audit_hook() -> None:
    """Install the hook, which stays. It counts what opens, makes, names or removes files and memory."""

    def tell(event: str, _: object) -> None:
        if _at_event is not None and (event == "open" or event.startswith(("os.", "mmap.", "ctypes."))):
            _at_event()

    sys.addaudithook(tell)


def interrupted_at_event(call: Callable[[], object], at: int | None) -> int:
    """Make a call, and interrupt it at the event of that number; how many there were."""
    global _at_event  # noqa: PLW0603
    events = 0

    def tell() -> None:
        nonlocal events
        events += 1
        if events == at and not restores(sys._getframe()):
            raise KeyboardInterrupt

    audit_hook()
    _at_event = tell
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        _at_event = None
    return events


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt_at_any_call_of_the_system_leaves_nothing(name: str) -> None:
    call = calls()[name]
    events = interrupted_at_event(call, None)
    assert events
    before = left()
    for event in range(1, events + 1, by_day(1 + events // 25, by_night=1)):
        interrupted_at_event(call, event)
        assert_nothing_is_held(before)
    assert_nothing_is_left(before)


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors")
def test_a_folder_in_the_place_of_a_file_of_weights_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    before = left()
    for _ in range(3):
        with pytest.raises(graphwire.errors.ArchiveError):
            Folder(tmp_path).open("model.safetensors")
    assert left() == before


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Interrupt what runs; what holds something or gives it back, a moment later."""
    if restores(frame):
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
        return
    raise KeyboardInterrupt


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.sampled_from(NAMES), MOMENTS)
def test_a_signal_at_any_time_leaves_nothing(name: str, moment: float) -> None:
    call = calls()[name]
    start = time.perf_counter()
    call()
    usual = time.perf_counter() - start
    before = left()
    handler = signal.signal(signal.SIGALRM, _interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(moment * usual, 1e-6))
        call()
        time.sleep(usual)
    except KeyboardInterrupt:
        pass
    except graphwire.errors.GraphwireError as error:
        if "KeyboardInterrupt" not in str(error):  # torch makes a TypeError of one inside of its functions
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert_nothing_is_left(before)


TAKES_ANY = {"BaseException", "Exception", "OSError", "RuntimeError"}
"""Classes of what handlers of signals raise."""


def test_no_except_takes_what_the_handler_of_a_signal_raises() -> None:
    found = []
    for file in (*Path(SOURCES).rglob("*.py"), *Path(PLUGINS).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                kinds: list[ast.expr] = node.args
            elif isinstance(node, ast.ExceptHandler) and not isinstance(node.type, ast.Call):
                kinds = (
                    node.type.elts
                    if isinstance(node.type, ast.Tuple)
                    else [node.type or ast.Name("Exception")]
                )
                if any(isinstance(each, ast.Raise) and each.exc is None for each in ast.walk(node)):
                    continue
            else:
                continue
            names = {*map(ast.unparse, kinds)}
            takes_any = names & (TAKES_ANY | {"_REFUSALS"})
            if takes_any and file.name != "process.py":  # for who waits
                found.append(f"{file.name}:{node.lineno}")
    assert found == [], "use `unless_interrupted` or `Ignored` of graphwire.errors"
