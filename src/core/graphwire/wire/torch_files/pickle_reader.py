"""Reads pickles without running code: an interpreter for the opcodes that `torch.save` writes (protocols 2 to 5).

It creates plain data, and inert records for the names in `pickle_globals.ALLOWED`. It cannot import, look up, call or
instantiate anything else. Time and memory are linear in the length of the pickle, and bounded by `PickleLimits`. It does not
recurse.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from graphwire.errors import DecodeError, LimitError
from graphwire.wire.limits import DEFAULT_PICKLE_LIMITS, PickleLimits, check_pickle_value
from graphwire.wire.torch_files.pickle_globals import (
    ALLOWED,
    Function,
    Instance,
    InstanceType,
    Storage,
    StorageType,
    UnknownGlobal,
)


def read_pickle(
    data: bytes,
    *,
    limits: PickleLimits = DEFAULT_PICKLE_LIMITS,
    foreign: bool = False,
    classes: Collection[str] = (),
) -> Any:
    """Return the value of a pickle as plain data, without running code.

    Values are None, bool, int, float, str, bytes, tuple, list, dict, OrderedDict, set, and the records of `pickle_values`. The
    result contains no cycle, is at most `limits.depth` deep, and has at most `limits.values` values, shared ones counted each
    time they occur, so that a simple recursive walk over it ends.

    Args:
        data: the whole pickle.
        limits: the limits that apply.
        foreign: whether an instance of a class outside the allow-list becomes an `UnknownGlobal` with the class's name, or is
            an error.
        classes: the full names of classes whose instances become an `Instance`, with the state as the pickle has it.

    Raises:
        DecodeError: the pickle names a global that is not allowed (the message contains it), uses an opcode that torch does
            not write, or is damaged.
        LimitError: it exceeds `limits`.
    """
    if len(data) > limits.nbytes:
        raise LimitError(f"the pickle has {len(data):,} bytes, more than {limits.nbytes:,}")
    value = _Machine(data, limits, foreign, classes).run()
    check_pickle_value(value, limits)
    return value


_U2, _U4, _U8, _I4, _F8 = (struct.Struct(code) for code in ("<H", "<I", "<Q", "<i", ">d"))
_KEY_TYPES = frozenset({str, int, float, bool, bytes, type(None)})
_MAX_KEY = 1 << 63  # the hashes of larger integers collide, so a dict of them could take quadratic time
_LARGE = 4
"""How many steps a set or an OrderedDict counts as, because it takes more memory than other values."""
_STORAGE_KEY = r"(?a)[\w.\-]+"
_LOCATION = r"(?a)[a-z_]\w*(?::\d{1,4})?"


class _Machine:
    """The interpreter's state: the position in the pickle, the stack, its marks, and the memo."""

    def __init__(self, data: bytes, limits: PickleLimits, foreign: bool, classes: Collection[str]) -> None:
        self._data = data
        self._at = 0
        self._limits = limits
        self._foreign = foreign
        self._classes = classes
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._steps = 0

    def run(self) -> Any:
        """Execute all opcodes, and return the pickle's value."""
        data = self._data
        if data[:1] != b"\x80":
            raise DecodeError("this is not a pickle of protocol 2 to 5")
        end = len(data)
        while self._at < end:
            code = data[self._at]
            self._at += 1
            if code == _STOP:
                return self._result()
            step = _OPCODES.get(code)
            if step is None:
                what = f"the pickle uses the opcode {_opcode_name(code)}, which is not read"
                raise DecodeError(what, place=self._place())
            self._spend(1)
            step(self)
        return self._cut()

    def _result(self) -> Any:
        if len(self._stack) != 1 or self._marks or self._at != len(self._data):
            raise DecodeError("the pickle is damaged: it does not end with one value")
        return self._stack[0]

    def _place(self) -> str:
        return f"byte {self._at - 1} of the pickle"

    def _cut(self) -> NoReturn:
        raise DecodeError("the pickle is cut short")

    def _damaged(self, what: str) -> NoReturn:
        raise DecodeError(f"the pickle is damaged: {what}", place=self._place())

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._limits.steps:
            raise LimitError(f"the pickle has more than {self._limits.steps:,} steps")

    # ------------------------------------------------------------------------------------------------ arguments

    def _take(self, size: int) -> bytes:
        start = self._at
        if size > len(self._data) - start:
            self._cut()
        self._at = start + size
        return self._data[start : start + size]

    def _number(self, layout: struct.Struct) -> Any:
        if layout.size > len(self._data) - self._at:
            self._cut()
        (value,) = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return value

    def _byte(self) -> int:
        return self._take(1)[0]

    def _line(self) -> str:
        """Read a name that ends with a line feed."""
        end = self._data.find(b"\n", self._at, self._at + self._limits.name_bytes + 1)
        if end < 0:
            self._damaged("a name has no end")
        name = self._text(end - self._at)
        self._at += 1
        return name

    def _bytes(self, size: int) -> bytes:
        if size > self._limits.text_bytes:
            raise LimitError(
                f"the pickle holds a text of {size:,} bytes, more than {self._limits.text_bytes:,}"
            )
        return self._take(size)

    def _text(self, size: int) -> str:
        try:
            return self._bytes(size).decode("utf-8", "surrogatepass")  # as Python does
        except UnicodeDecodeError:
            self._damaged("a text is not UTF-8")

    def _integer(self, size: int) -> int:
        if not 0 <= size <= self._limits.integer_bytes:
            raise LimitError(f"the pickle holds an integer of {size:,} bytes")
        return int.from_bytes(self._take(size), "little", signed=True)

    # ---------------------------------------------------------------------------------------------------- stack

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            self._damaged("it pops a value that it never pushed")
        return self._stack.pop()

    def _top(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            self._damaged("it pops a value that it never pushed")
        return self._stack[-1]

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            self._damaged("it uses a mark that it never set")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def mark(self) -> None:
        """Push a mark: the current height of the stack."""
        self._marks.append(len(self._stack))

    def remember(self, index: int) -> None:
        """Store the top of the stack in the memo."""
        self._memo[index] = self._top()

    def recall(self, index: int) -> None:
        """Push a value from the memo."""
        if index not in self._memo:
            self._damaged("it reads a memo entry that it never wrote")
        self._push(self._memo[index])

    # ----------------------------------------------------------------------------------------------- containers

    def protocol(self) -> None:
        """Check the pickle's protocol number."""
        version = self._byte()
        if not 2 <= version <= 5 or self._at != 2:
            self._damaged(f"its protocol is {version}")

    def frame(self) -> None:
        """Check the length of a frame, which only readers of streams need."""
        if self._number(_U8) > len(self._data) - self._at:
            self._cut()

    def tuple_of(self, count: int) -> None:
        """Replace the top `count` values by a tuple of them."""
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    def extend(self, items: list[Any]) -> None:
        """Append items to the list on top of the stack."""
        target = self._top()
        if isinstance(target, list):
            target.extend(items)
        elif type(target) is not UnknownGlobal:
            self._damaged("it appends to a value that is not a list")

    def assign(self, items: list[Any]) -> None:
        """Add keys and values to the dict on top of the stack."""
        target = self._top()
        if len(items) % 2:
            self._damaged("a key has no value")
        if type(target) is UnknownGlobal:
            return
        if not isinstance(target, dict) or type(target) is Instance:
            self._damaged("it sets an item of a value that is not a dict")
        for at in range(0, len(items), 2):
            target[self._key(items[at])] = items[at + 1]

    def include(self, items: list[Any]) -> None:
        """Add items to the set on top of the stack."""
        target = self._top()
        if type(target) is not set:
            self._damaged("it adds to a value that is not a set")
        target.update(map(self._key, items))

    def new_set(self, items: Iterable[Any]) -> None:
        """Push a set."""
        self._spend(_LARGE)
        self._push(set(map(self._key, items)))

    def _key(self, value: Any) -> Any:
        kind = type(value)
        if kind is Instance and _is_flat(value):
            return value
        if kind not in _KEY_TYPES or (kind is int and not -_MAX_KEY <= value < _MAX_KEY):
            self._damaged(f"a {kind.__name__} as the key of a dict or the item of a set")
        return value

    # ------------------------------------------------------------------------------------------ names and calls

    def find(self, module: Any, name: Any) -> None:
        """Push the value that represents a global."""
        if type(module) is not str or type(name) is not str:
            self._damaged("the name of a global is not text")
        if len(module) + len(name) > self._limits.name_bytes:
            raise LimitError("the pickle names a global by a very long name")
        value = ALLOWED.get((module, name))
        if value is None:
            full_name = f"{module}.{name}"
            if full_name in self._classes:
                value = InstanceType(full_name)
            elif self._foreign:
                value = UnknownGlobal(full_name)
            else:
                raise _refused(full_name, self._place())
        self._push(value)

    def call(self) -> None:
        """Call an allowed function with the tuple on top of the stack."""
        arguments = self._pop()
        function = self._pop()
        if type(arguments) is not tuple:
            self._damaged("it calls with arguments that are not a tuple")
        if type(function) is UnknownGlobal:
            self._push(function)
            return
        if type(function) is InstanceType:
            self._spend(_LARGE)
            self._push(Instance(function.name, dict(enumerate(arguments)), is_called=True))
            return
        if type(function) is not Function:
            self._damaged(f"it calls a {type(function).__name__}")
        unread = (
            next((each for each in arguments if type(each) is UnknownGlobal), None) if self._foreign else None
        )
        if unread is not None:
            self._push(unread)
            return
        self._spend(_LARGE)
        try:
            self._push(function.make(arguments))
        except DecodeError as error:
            error.within(self._place())
            raise

    def new_object(self, count: int) -> None:
        """Push an `Instance` of a class that the caller wants, or an `UnknownGlobal`; no class is instantiated."""
        arguments = [self._pop() for _ in range(count)]
        kind = self._pop()
        if type(kind) is InstanceType and not any(arguments):
            self._spend(_LARGE)
            self._push(Instance(kind.name))
            return
        if type(kind) is not UnknownGlobal:
            raise _refused(f"an instance of {getattr(kind, 'name', type(kind).__name__)}", self._place())
        self._push(kind)

    def set_state(self) -> None:
        """Set the state of an `Instance`, once. Ignore that of an OrderedDict (torch stores a module's versions there); reject
        the state of any other object."""
        state = self._pop()
        target = self._top()
        if type(target) is Instance and not target and not target.is_called and type(state) in (dict, tuple):
            # A copy: what the pickle does to the state later has no effect.
            target.update(state if type(state) is dict else enumerate(state))
            return
        if type(target) is UnknownGlobal or (type(target) is OrderedDict and type(state) is dict):
            return
        self._damaged(f"it sets the state of a {type(target).__name__}")

    def persistent(self) -> None:
        """Push a storage, which the pickle refers to by a persistent id."""
        match self._pop():
            case ("storage", StorageType(dtype), str(key), str(location), int(numel)) if (
                type(numel) is int
                and 0 <= numel < _MAX_KEY
                and len(key) <= self._limits.name_bytes
                and re.fullmatch(_STORAGE_KEY, key)
                and re.fullmatch(_LOCATION, location)
            ):
                self._push(Storage(dtype, key, location, numel))
            case ("storage", UnknownGlobal() as kind, _, _, _):
                self._push(kind)
            case _:
                self._damaged("a persistent id does not refer to a storage")


def _is_flat(value: Instance) -> bool:
    """Return whether an instance has a state of scalars and tuples of scalars, so that nothing in it can change any more."""
    return bool(value) and all(
        type(each) in _KEY_TYPES or (type(each) is tuple and all(type(item) in _KEY_TYPES for item in each))
        for each in value.values()
    )


def _opcode_name(code: int) -> str:
    import pickletools  # only a message needs it

    return next((each.name for each in pickletools.opcodes if each.code == chr(code)), f"{code:#04x}")


def _refused(name: str, place: str) -> DecodeError:
    return DecodeError(
        f"the pickle names {name!r}, which is not read because reading it would run code",
        place=place,
        remedy="Only tensors and plain containers are read. Write the program again with graphwire",
    )


_STOP = ord(".")

_OPCODES: Mapping[int, Callable[[_Machine], None]] = MappingProxyType(
    {
        0x80: _Machine.protocol,
        0x95: _Machine.frame,
        ord("("): _Machine.mark,
        # scalars
        ord("N"): lambda m: m._push(None),
        0x88: lambda m: m._push(True),
        0x89: lambda m: m._push(False),
        ord("K"): lambda m: m._push(m._byte()),
        ord("M"): lambda m: m._push(m._number(_U2)),
        ord("J"): lambda m: m._push(m._number(_I4)),
        0x8A: lambda m: m._push(m._integer(m._byte())),
        0x8B: lambda m: m._push(m._integer(m._number(_I4))),
        ord("G"): lambda m: m._push(m._number(_F8)),
        # text and bytes
        0x8C: lambda m: m._push(m._text(m._byte())),
        ord("X"): lambda m: m._push(m._text(m._number(_U4))),
        0x8D: lambda m: m._push(m._text(m._number(_U8))),
        ord("C"): lambda m: m._push(m._bytes(m._byte())),
        ord("B"): lambda m: m._push(m._bytes(m._number(_U4))),
        0x8E: lambda m: m._push(m._bytes(m._number(_U8))),
        # containers
        ord(")"): lambda m: m._push(()),
        0x85: lambda m: m.tuple_of(1),
        0x86: lambda m: m.tuple_of(2),
        0x87: lambda m: m.tuple_of(3),
        ord("t"): lambda m: m._push(tuple(m._since_mark())),
        ord("]"): lambda m: m._push([]),
        ord("a"): lambda m: m.extend([m._pop()]),
        ord("e"): lambda m: m.extend(m._since_mark()),
        ord("}"): lambda m: m._push({}),
        ord("s"): lambda m: m.assign([m._pop(), m._pop()][::-1]),
        ord("u"): lambda m: m.assign(m._since_mark()),
        0x8F: lambda m: m.new_set(()),
        0x90: lambda m: m.include(m._since_mark()),
        0x91: lambda m: m.new_set(m._since_mark()),
        # the memo
        ord("q"): lambda m: m.remember(m._byte()),
        ord("r"): lambda m: m.remember(m._number(_U4)),
        0x94: lambda m: m.remember(len(m._memo)),
        ord("h"): lambda m: m.recall(m._byte()),
        ord("j"): lambda m: m.recall(m._number(_U4)),
        # names and calls
        ord("c"): lambda m: m.find(m._line(), m._line()),
        0x93: lambda m: m.find(*[m._pop(), m._pop()][::-1]),
        ord("R"): _Machine.call,
        0x81: lambda m: m.new_object(1),
        0x92: lambda m: m.new_object(2),
        ord("b"): _Machine.set_state,
        ord("Q"): _Machine.persistent,
    }
)
"""The supported opcodes. Others (text opcodes, INST, OBJ, EXT, PERSID, out-of-band buffers, POP, DUP) are errors."""
