"""Pickles: what torch writes is read as data; everything else is refused, and nothing of it runs."""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import pathlib
import pickle
import pickletools
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from inside.wire import (
    ALLOWED,
    DefaultDictData,
    DequeData,
    DeviceName,
    Function,
    Instance,
    LayoutName,
    PickleWriter,
    Storage,
    StridedTensor,
    UnknownGlobal,
    read_pickle,
)
from nightly import by_day

from graphwire import PickleLimits
from graphwire.errors import DecodeError, GraphwireError, LimitError

_HARMLESS = ("object.__", "gc.", "code.__new__", "sys._getframe", "builtins.id")
_WATCH: list[list[str]] = []


def _hook(event: str, arguments: Any) -> None:
    if _WATCH and not event.startswith(_HARMLESS):
        _WATCH[-1].append(f"{event} {arguments!r:.100}")


sys.addaudithook(_hook)


@contextlib.contextmanager
def nothing_runs() -> Iterator[None]:
    """Fail on anything that an audit hook sees: imports, compiled or executed code, opened files, processes, sockets."""
    _WATCH.append([])
    try:
        yield
    finally:
        events = _WATCH.pop()
    assert events == []


def refused(data: bytes, words: str, error: type[GraphwireError] = DecodeError) -> None:
    for foreign in (False, True):
        with nothing_runs():
            caught: GraphwireError | None = None
            try:
                read_pickle(data, foreign=foreign)
            except GraphwireError as problem:
                caught = problem
        if caught is None:
            assert foreign, "the pickle was read"
            continue
        assert isinstance(caught, GraphwireError)
        if not foreign:
            assert isinstance(caught, error)
            assert words in str(caught)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def body(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


# ------------------------------------------------------------------------------------------------------- read

PLAIN = [
    None,
    True,
    False,
    *(
        sign * (1 << bits) - shift
        for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64, 200)
        for sign in (1, -1)
        for shift in (0, 1)
    ),
    0.0,
    -1.5,
    float("inf"),
    "",
    "text",
    "\ud800",
    "é" * 300,
    "\U0001f642",
    b"",
    b"bytes\x00\xff",
    bytes(300),
    (),
    (1,),
    (1, 2),
    (1, 2, 3),
    tuple(range(100)),
    [],
    [1],
    list(range(3000)),
    {},
    {"a": 1},
    {f"key {index}": index for index in range(3000)},
    {1: "int", None: "none", 1.5: "float", b"b": "bytes", False: "bool"},
    collections.OrderedDict(b=1, a=2),
    set(),
    {1, 2, 300},
    [(), {"nested": [({"deep": (1, [2])},)]}],
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{value!r:.20}")
def test_plain_data_is_read(value: Any, protocol: int) -> None:
    with nothing_runs():
        result = read_pickle(_DUMPS[protocol, id(value)])
    assert result == value
    assert type(result) is type(value)


_DUMPS = {
    (protocol, id(value)): pickle.dumps(value, protocol) for protocol in (2, 3, 4, 5) for value in PLAIN
}


@pytest.mark.parametrize("protocol", [2, 4])
def test_containers_with_a_setting_are_read_as_data(protocol: int) -> None:
    value = (collections.deque([1, 2], maxlen=5), collections.defaultdict(list, a=[1]), frozenset({1}))
    numbers, mapping, items = read_pickle(pickle.dumps(value, protocol))
    assert (type(numbers), numbers, numbers.maxlen) == (DequeData, [1, 2], 5)
    assert (type(mapping), mapping, mapping.factory) == (DefaultDictData, {"a": [1]}, "builtins.list")
    assert items == {1}


def test_equal_parts_are_one_object_again() -> None:
    shared = [1]
    first, second = read_pickle(pickle.dumps((shared, shared), 2))
    assert first is second


def test_the_names_that_may_be_called_are_our_own_functions() -> None:
    for value in ALLOWED.values():
        if isinstance(value, Function):
            assert value.make.__module__ == "graphwire.wire.torch_files.pickle_globals"
        else:
            assert type(value).__module__ == "graphwire.wire.torch_files.pickle_globals"


STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x06tQ"


def tensor(
    storage: bytes = STORAGE, offset: bytes = b"K\x00", sizes: bytes = b"K\x02\x85", rest: bytes = b""
) -> bytes:
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + offset
        + sizes
        + b"K\x01\x85\x89"
        + hooks
        + rest
        + b"tR"
    )


def test_a_tensor_is_a_record_of_where_it_lies() -> None:
    value = read_pickle(body(tensor()))
    assert isinstance(value, StridedTensor)
    assert value.storage == Storage("float32", "0", "cpu", 6)
    assert (value.dtype, value.offset, value.sizes, value.strides) == ("float32", 0, (2,), (1,))


def test_devices_and_layouts_are_names() -> None:
    assert read_pickle(body(b"ctorch\ndevice\n", text("cuda"), b"K\x01\x86R")) == DeviceName("cuda", 1)
    layout = body(b"ctorch.serialization\n_get_layout\n", text("torch.strided"), b"\x85R")
    assert read_pickle(layout) == LayoutName("torch.strided")


# ------------------------------------------------------------------------------------------------------ refused


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Call(os.system, "echo pwned"), "posix.system"),
        (Call(eval, "1+1"), ".eval"),
        (Call(exec, "1"), ".exec"),
        (Call(getattr, "x", "y"), ".getattr"),
        (Call(open, "/tmp/x", "w"), ".open"),
        (Call(pickle.loads, b"x"), ".loads"),
        (os.system, "posix.system"),
        ([{"deep": (Call(print, "x"),)}], ".print"),
        (3j, ".complex"),
        (bytearray(b"x"), ""),
        (range(3), "range"),
        (io.BytesIO(b"x"), "_io.BytesIO"),
        (Call, "Call"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_other_names_are_refused_by_name(value: Any, name: str, protocol: int) -> None:
    refused(pickle.dumps(value, protocol), name)


def test_what_is_refused_can_be_kept_as_a_name() -> None:
    value = read_pickle(pickle.dumps({"a": Call(os.system, "x"), "b": 1}, 2), foreign=True)
    assert value == {"a": UnknownGlobal("posix.system"), "b": 1}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("torch", "serialization._get_layout"),
        ("torch._utils", "__builtins__"),
        ("torch.serialization", "load"),
        ("torch.hub", "load"),
        ("torch", "load"),
        ("torch.ops", "load_library"),
        ("builtins", "getattr"),
        ("__builtin__", "eval"),
        ("collections", "OrderedDict.fromkeys"),
        ("collections.OrderedDict", ""),
        ("", "collections.OrderedDict"),
        ("torch.storage", "_load_from_bytes"),
        ("torch.jit._script", "RecursiveScriptModule"),
        ("torch.distributions", "__loader__"),
    ],
)
def test_dotted_and_dangerous_names_are_unknown(module: str, name: str) -> None:
    for data in (
        body(f"c{module}\n{name}\n".encode()),
        b"\x80\x04" + text(module) + text(name) + b"\x93.",
        body(f"c{module}\n{name}\n".encode(), text("x"), b"\x85R"),
    ):
        refused(data, name)


_REFUSED_OPCODES = (
    "POP POP_MARK DUP INT LONG FLOAT STRING BINSTRING SHORT_BINSTRING UNICODE GET PUT LIST DICT INST OBJ PERSID "
    "EXT1 EXT2 EXT4 BYTEARRAY8 NEXT_BUFFER READONLY_BUFFER"
).split()

HOSTILE = {
    # calls and instances
    "call of a dict": (body(b"}", b")R"), "it calls a dict"),
    "call of text": (body(text("os.system"), text("x"), b"\x85R"), "it calls a str"),
    "call of a dtype": (body(b"ctorch\nfloat32\n)R"), "it calls a DTypeName"),
    "call of a storage class": (body(b"ctorch\nFloatStorage\n)R"), "it calls a StorageType"),
    "call of a class that may only be named": (body(b"ctorch\nTensor\n)R"), "it calls a TypeName"),
    "call with a list": (body(b"ccollections\nOrderedDict\n]R"), "not a tuple"),
    "call with a record": (body(b"ccollections\nOrderedDict\n", STORAGE, b"R"), "not a tuple"),
    "instance of an allowed class": (body(b"ctorch\nTensor\n)\x81"), "an instance of torch.Tensor"),
    "instance of a function": (body(b"ctorch\ndevice\n)\x81"), "an instance of torch.device"),
    "instance with keywords": (body(b"ctorch\nTensor\n)}\x92"), "an instance of torch.Tensor"),
    "instance by INST": (b"\x80\x02(" + text("x") + b"ios\nsystem\n.", "INST"),
    "instance by OBJ": (body(b"(ctorch\ndevice\n", text("cpu"), b"o"), "OBJ"),
    # state
    "state of a dict": (body(b"}}b"), "sets the state of a dict"),
    "state of a list": (body(b"]}b"), "sets the state of a list"),
    "state of a tensor": (
        body(tensor(), b"}", text("__setstate__"), b"Nsb"),
        "sets the state of a StridedTensor",
    ),
    "state of a function": (body(b"ctorch\ndevice\n}", text("make"), b"Nsb"), "sets the state of a Function"),
    "state that is no dict": (body(b"ccollections\nOrderedDict\n)R", text("x"), b"b"), "sets the state"),
    "state with slots": (body(b"ccollections\nOrderedDict\n)R", b"N}\x86b"), "sets the state"),
    # persistent ids
    "persistent id of text": (body(text("x"), b"Q"), "persistent id"),
    "persistent id as a line": (b"\x80\x02Pstorage\n.", "PERSID"),
    "persistent id of a module": (
        body(b"(", text("module"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), b"K\x01tQ"),
        "persistent id",
    ),
    "persistent id without a class": (
        body(b"(", text("storage"), text("FloatStorage"), text("0"), text("cpu"), b"K\x01tQ"),
        "persistent id",
    ),
    "persistent id with a path": (
        body(
            b"(",
            text("storage"),
            b"ctorch\nFloatStorage\n",
            text("../../etc/passwd"),
            text("cpu"),
            b"K\x01tQ",
        ),
        "persistent id",
    ),
    "persistent id with a negative length": (
        body(
            b"(", text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), b"J\xff\xff\xff\xfftQ"
        ),
        "persistent id",
    ),
    "persistent id with a truth value": (
        body(b"(", text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), b"\x88tQ"),
        "persistent id",
    ),
    "persistent id with a strange device": (
        body(b"(", text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu; rm"), b"K\x01tQ"),
        "persistent id",
    ),
    "persistent id of a persistent id": (body(STORAGE, b"Q"), "persistent id"),
    # tensors
    "tensor of no storage": (body(tensor(storage=b"N")), "the pickle's tensor"),
    "tensor with a negative offset": (body(tensor(offset=b"J\xff\xff\xff\xff")), "size, stride or offset"),
    "tensor with a truth value as offset": (body(tensor(offset=b"\x88")), "size, stride or offset"),
    "tensor with a huge offset": (
        body(tensor(offset=b"\x8a\x10" + b"\xff" * 15 + b"\x7f")),
        "size, stride or offset",
    ),
    "tensor with a huge size": (
        body(tensor(sizes=b"\x8a\x09" + bytes(8) + b"\x01\x85")),
        "size, stride or offset",
    ),
    "tensor with a float as size": (body(tensor(sizes=b"G" + bytes(8) + b"\x85")), "size, stride or offset"),
    "tensor with more sizes than strides": (body(tensor(sizes=b"K\x02K\x02\x86")), "shape of a tensor"),
    "tensor of 1000 dimensions": (body(tensor(sizes=b"(" + b"K\x01" * 1000 + b"t")), "shape of a tensor"),
    "tensor with a list of sizes": (body(tensor(sizes=b"]")), "shape of a tensor"),
    "tensor with backend metadata": (body(tensor(rest=b"}" + text("custom") + b"Ns")), "backend metadata"),
    "tensor with metadata of another kind": (body(tensor(rest=text("conj"))), "backend metadata"),
    "tensor of bytes without a type": (
        body(tensor(storage=STORAGE.replace(b"torch\nFloatStorage", b"torch\nUntypedStorage"))),
        "the pickle's tensor",
    ),
    "parameter of a list": (
        body(b"ctorch._utils\n_rebuild_parameter\n]\x88N\x87R"),
        "the pickle's parameter",
    ),
    "wrapped call of OrderedDict": (
        body(b"ctorch._tensor\n_rebuild_from_type_v2\n(ccollections\nOrderedDict\nctorch\nTensor\n)}tR"),
        "the pickle's tensor",
    ),
    "wrapped call of itself": (
        body(
            b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\nctorch\nTensor\n)}tR"
        ),
        "the pickle's tensor",
    ),
    "sparse tensor without parts": (
        body(
            b"ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\n",
            text("torch.sparse_coo"),
            b"\x85R)\x86R",
        ),
        "sparse tensor",
    ),
    "layout by an expression": (
        body(b"ctorch.serialization\n_get_layout\n", text("torch.os.system"), b"\x85R"),
        "the pickle's layout",
    ),
    "device by an expression": (body(b"ctorch\ndevice\n", text("cpu()"), b"\x85R"), "the pickle's device"),
    "factory that is a function of torch": (
        body(b"ccollections\ndefaultdict\nctorch\ndevice\n\x85R"),
        "the pickle's defaultdict",
    ),
    "byte string in another code": (
        body(b"c_codecs\nencode\n", text("x"), text("rot13"), b"\x86R"),
        "byte string",
    ),
    # the stack and the memo
    "take from an empty stack": (body(b"\x85"), "pops a value that it never pushed"),
    "take beyond a mark": (body(b"N(\x85"), "pops a value that it never pushed"),
    "call beyond a mark": (body(b"ccollections\nOrderedDict\n()R"), "pops a value that it never pushed"),
    "append beyond a mark": (body(b"](Na"), "pops a value that it never pushed"),
    "no mark": (body(b"Nt"), "a mark that it never set"),
    "recall of nothing": (body(b"h\x00"), "reads a memo entry"),
    "recall of a far index": (body(b"j\xff\xff\xff\xff"), "reads a memo entry"),
    "remember on an empty stack": (body(b"q\x00"), "pops a value that it never pushed"),
    "two values": (body(b"NN"), "does not end with one value"),
    "no value": (body(), "does not end with one value"),
    "an open mark": (body(b"N("), "does not end with one value"),
    "bytes after the end": (body(b"N") + b"cos\nsystem\n.", "does not end with one value"),
    "two heads": (body(b"\x80\x02N"), "protocol"),
    "no head": (b"N.", "not a pickle of protocol"),
    "protocol 0": (pickle.dumps({"a": 1}, 0), "not a pickle of protocol"),
    "protocol 6": (b"\x80\x06N.", "protocol is 6"),
    # containers
    "list in itself": (body(b"]q\x00h\x00a"), "contains itself"),
    "dict in itself": (body(b"}q\x00", text("x"), b"h\x00s"), "contains itself"),
    "list in its tuple": (body(b"]q\x00h\x00\x85a"), "contains itself"),
    "append to a dict": (body(b"}Na"), "not a list"),
    "append to a tuple": (body(b")Na"), "not a list"),
    "item of a list": (body(b"]NNs"), "not a dict"),
    "item of a dtype": (body(b"ctorch\nfloat32\nNNs"), "not a dict"),
    "add to a list": (body(b"](N\x90"), "not a set"),
    "key without value": (body(b"}(Nu"), "a key has no value"),
    "list as a key": (body(b"}]Ns"), "a list as the key"),
    "tuple as a key": (body(b"})Ns"), "a tuple as the key"),
    "tensor as a key": (body(b"}", tensor(), b"Ns"), "as the key"),
    "huge integer as a key": (body(b"}\x8a\x20" + b"\x01" * 32 + b"Ns"), "a int as the key"),
    "list in a set": (body(b"\x8f(]\x90"), "a list as the key"),
    # opcodes
    **{
        f"opcode {opcode.name}": (
            b"\x80\x05N" + opcode.code.encode("latin-1") + b"\x01" + bytes(7) + b"\n.",
            opcode.name,
        )
        for opcode in pickletools.opcodes
        if opcode.name in _REFUSED_OPCODES
    },
    "unknown opcode": (b"\x80\x02\xff.", "0xff"),
    "out-of-band buffer": (
        pickle.dumps(pickle.PickleBuffer(bytearray(9)), 5, buffer_callback=lambda b: False),
        "NEXT_BUFFER",
    ),
    # text
    "text that is no UTF-8": (body(b"X\x01\x00\x00\x00\xff"), "not UTF-8"),
    "name without end": (body(b"c" + b"x" * 100_000), "a name has no end"),
    "name that is no text": (b"\x80\x04NN\x93.", "not text"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused(name: str) -> None:
    data, words = HOSTILE[name]
    refused(data, words)


BOMBS = {
    "LONG4 of two gigabytes": b"\x80\x02\x8b\xff\xff\xff\x7f" + bytes(100) + b".",
    "LONG4 of a negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "LONG1 of 300 bytes in LONG4": b"\x80\x02\x8b\x2c\x01\x00\x00" + b"\x01" * 300 + b".",
    "text of 16 exabytes": b"\x80\x04\x8d" + b"\xff" * 8 + b".",
    "bytes of 16 exabytes": b"\x80\x04\x8e" + b"\xff" * 8 + b".",
    "text of four gigabytes": b"\x80\x02X\xff\xff\xff\xff.",
    "a million tuples inside each other": body(b")", b"\x85" * 1_000_000),
    "a million lists inside each other": body(b"]" * 1_000_000, b"a" * 999_999),
    "500 dicts inside each other": body(b"}", *[text("x") + b"}"] * 500, b"s" * 500),
    "2 to the 64 items": body(b")", b"\x85q\x00" + b"h\x00\x86q\x00" * 64),
    "sixty to the eighth items": body(
        b"(]q\x00", *(b"](" + b"h%c" % index * 60 + b"eq%c" % (index + 1) for index in range(8)), b"t"
    ),
    "steps": body(b"(" + b"N" * 9_000_000 + b"t"),
    "sets": body(b"(" + b"\x8f" * 3_000_000 + b"t"),
    "marks": b"\x80\x02" + b"(" * 9_000_000 + b".",
}
SLOW_BOMBS = {"a million lists inside each other", "sets", "steps"}
"""Like others, and they take seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW_BOMBS)) for each in BOMBS]
)
def test_a_bomb_is_refused_in_little_time_and_memory(name: str) -> None:
    data = BOMBS[name]
    start = time.process_time()
    with nothing_runs(), pytest.raises((LimitError, DecodeError)):
        read_pickle(data)
    assert time.process_time() - start < 20


def test_a_memo_of_distant_indices_takes_no_memory() -> None:
    data = body(b"N", *(b"r" + struct.pack("<I", 0xFFFF_FFFF - index) for index in range(1000)))
    assert read_pickle(data) is None


def test_the_bounds_can_be_set() -> None:
    data = pickle.dumps([[[1]]], 2)
    assert read_pickle(data, limits=PickleLimits(depth=3)) == [[[1]]]
    for limits in (
        PickleLimits(depth=2),
        PickleLimits(steps=5),
        PickleLimits(nbytes=10),
        PickleLimits(values=3),
    ):
        with pytest.raises(LimitError):
            read_pickle(data, limits=limits)
    with pytest.raises(LimitError, match="a text of 5 bytes"):
        read_pickle(pickle.dumps("12345", 2), limits=PickleLimits(text_bytes=4))


REAL = [
    body(b"}", text("x"), tensor(), b"s"),
    body(b"}(", text("x"), tensor(), text("s"), b"ccollections\nOrderedDict\n)R}", text("v"), b"K\x01sbu"),
    *(pickle.dumps(PLAIN, protocol) for protocol in (2, 3, 4, 5)),
]


@pytest.mark.nightly
@pytest.mark.parametrize("index", range(len(REAL)))
def test_a_pickle_that_was_cut_is_refused_wherever_it_was_cut(index: int) -> None:
    data = REAL[index]
    with nothing_runs():
        for end in [*range(0, min(len(data), 3000), by_day(7, by_night=1)), len(data) - 1]:
            with contextlib.suppress(GraphwireError):
                read_pickle(data[:end])
                pytest.fail(f"read {end} of {len(data)} bytes")


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("index", range(len(REAL)))
def test_a_pickle_that_was_changed_is_read_or_refused_and_nothing_runs(index: int, foreign: bool) -> None:
    chance = random.Random(index)
    data = REAL[index][:4000]
    with nothing_runs():
        for _ in range(1500):
            changed = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(2, len(changed))
                match chance.randrange(4):
                    case 0:
                        changed[at] = chance.randrange(256)
                    case 1:
                        del changed[at : at + chance.randint(1, 8)]
                    case 2:
                        changed[at:at] = bytes([chance.choice(b"()]}\x85\x86\x87RQbtuseacqhrjN\x93\x81\x90")])
                    case _:
                        source = chance.randrange(len(data))
                        changed[at:at] = data[source : source + chance.randint(1, 30)]
            with contextlib.suppress(GraphwireError):
                read_pickle(bytes(changed), foreign=foreign)


WANTED = ("argparse.Namespace", "pathlib.PosixPath")


def test_instances_of_wanted_classes_are_data() -> None:
    path = pathlib.PosixPath("/a/b")
    value = {"a": argparse.Namespace(x=1, y=[argparse.Namespace()]), "b": path}
    with nothing_runs():
        read = read_pickle(pickle.dumps(value), classes=WANTED)
    instance = read["a"]
    assert type(instance) is Instance
    assert instance.name == "argparse.Namespace"
    assert instance["x"] == 1
    assert dict(read["b"]) == dict(enumerate(path.__reduce__()[1]))  # Python 3.14 pickles a path whole
    assert instance != Instance("argparse.Namespace", instance)
    refused(pickle.dumps(value), "argparse.Namespace")
    writer = PickleWriter()
    writer.value(read)
    assert pickle.loads(writer.finish()) == value


INSTANCE = b"cargparse\nNamespace\n)\x81"


@pytest.mark.parametrize(
    "data",
    [
        body(INSTANCE, b"}(", text("a"), b"K\1ub}(", text("a"), b"K\1ub"),  # a second state
        body(INSTANCE, text("a"), b"K\1s"),  # an item
        body(b"}", INSTANCE, b"K\1s"),  # a key that could still change
        body(b"}", INSTANCE, b"}(", text("a"), b"]ubK\1s"),  # a key that contains a list
        body(b"cargparse\nNamespace\n", text("a"), b"\x85\x81"),  # arguments of a new object
        body(INSTANCE, b"K\1b"),  # a state that is a number
        body(INSTANCE, b"q\0}(", text("a"), b"h\0ub"),  # it contains itself
    ],
)
def test_instances_cannot_be_keys_that_change_or_contain_themselves(data: bytes) -> None:
    with nothing_runs(), pytest.raises(DecodeError):
        read_pickle(data, classes=WANTED)


def test_what_happens_to_a_state_afterwards_has_no_effect() -> None:
    state = body(b"](", INSTANCE, b"}q\0(", text("a"), b"K\1ubh\0", text("a"), b"K\2se")
    instance, changed = read_pickle(state, classes=WANTED)
    assert (dict(instance), changed) == ({"a": 1}, {"a": 2})
