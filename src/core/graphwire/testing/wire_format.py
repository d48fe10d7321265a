"""Contract tests of a wire format, for a plugin's tests to subclass.

    from graphwire.testing import WireFormatContract

    class TestMyFormat(WireFormatContract):
        wire_format = MyFormat()

A plugin's test file needs no more. A format whose documents nest containers also overrides `deep_document`.
"""

from __future__ import annotations

import enum
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from graphwire.errors import FormatError, LimitError
from graphwire.registry.interfaces import (
    BoundedFormat,
    CountingFormat,
    ProgramReader,
    RecordFormat,
    Tree,
    WireFormat,
)
from graphwire.schema import SCHEMA_VERSION, Program
from graphwire.schema.trees import from_tree, to_tree
from graphwire.testing.strategies import trees
from graphwire.testing.suites import ProviderSuite, assert_elsewhere
from graphwire.wire.document import MAX_DEPTH, measure_tree, same_tree

# ---------------------------------------------------------------- example values for the contract tests of wire formats
# edge cases of encodings, and values that are not trees.


class _Text(str):
    """A subclass of `str`, which a format would decode as a plain `str`."""


class _Number(enum.IntEnum):
    ONE = 1


SMALL: dict[str, Tree] = {
    "schema_version": {"major": 8, "minor": 20},
    "nodes": [{"target": "torch.ops.aten.add.Tensor", "inputs": [1, -2.5, True, None, "é"]}, [], {}],
    "raw": b"\x00\xff",
    "large": 1 << 80,
    "nan": math.nan,
}

_EDGES = [0, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64, 65, 4096]
INTS = sorted({sign * (1 << bits) + more for bits in _EDGES for sign in (1, -1) for more in (-1, 0, 1)})
INTS += [23, 24, -24, -25, 10**40, -(10**40), 10**4300 - 1, 1 - 10**4300]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e22, 1e-5, 5e-324, 2.0**53]
FLOATS += [sys.float_info.max, math.inf, -math.inf, math.nan]
TEXTS = ["", "a", "é", "日本語", "😀", "\0", '"\\/', "\n\t\r\x1f\x7f"]
TEXTS += ["\u2028\u2029", "\ufeff", "e\u0301", "$bytes"]
TEXTS += ["x" * 31, "x" * 32, "x" * 256, "é" * 40_000]
TEXTS += ["null", "NaN", "-Infinity", "1", "\uffff", "\U0010ffff"]
BYTES = [b"", b"\0", b"\xff\xfe", bytes(range(256)), b"ab" * 40_000]
SCALARS: list[Tree] = [None, True, False, *INTS, *FLOATS, *TEXTS, *BYTES]
CONTAINERS: list[Tree] = [[], {}, [[]], [{}], {"": {}}, {"a": []}, [None], list(range(70_000))]
_PART: Tree = [{"a": 1}]
CONTAINERS += [[[], [[]], {}], {"é": 1, "e\u0301": 2}, {"one": _PART, "two": _PART}]
KEYS = ["", " ", "$", ".", "a.b", "\0", "a\0b", "é", "0", "-1", "null", "__class__"]
KEYS += ["$bytes", "$float", "$ref", "$$x"]
IN_TAGS: list[Tree] = ["AAAA", "nan", "inf", 1, None, [], {}, b"x", math.inf, {"$bytes": "AAAA"}]
"""Values of a key that looks like a tag of a format."""

FOREIGN: list[Any] = [(), (1, 2), set(), frozenset(), object(), 1j, bytearray(b"x"), memoryview(b"x"), int]
FOREIGN += [_Text("x"), _Number.ONE, 10**4300, -(10**4300), 1 << 100_000]
"""Values that are not trees, and integers of more than 4,300 digits."""
FOREIGN_KEYS: list[Any] = [1, None, True, 1.5, b"k", (), _Text("k")]
STRANGERS = [b"", b"\0", b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x89PNG\r\n", b"hello", b"\x7fELF"]
STRANGERS += [b"\xff" * 64, b"\0" * 64]
"""First bytes of files that are not documents of any format: zip, pickle, image, text, executable."""


_property = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
)


_TENSOR: dict[str, Tree] = {"as_tensor": {"name": "x"}}
_RESULT: dict[str, Tree] = {"as_tensor": {"name": "relu"}}
_META: dict[str, Tree] = {
    "dtype": 7,
    "sizes": [{"as_int": 2}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
}
_META |= {"strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}
PROGRAM: dict[str, Tree] = {
    "graph_module": {
        "graph": {
            "inputs": [_TENSOR],
            "outputs": [_RESULT],
            "nodes": [
                {
                    "target": "torch.ops.aten.relu.default",
                    "inputs": [{"name": "self", "arg": _TENSOR}],
                    "outputs": [_RESULT],
                    "metadata": {},
                }
            ],
            "tensor_values": {"x": _META, "relu": _META},
            "sym_int_values": {},
            "sym_bool_values": {},
        },
        "signature": {
            "input_specs": [{"user_input": {"arg": _TENSOR}}],
            "output_specs": [{"user_output": {"arg": _RESULT}}],
        },
        "module_call_graph": [],
    },
    "opset_version": {"aten": 10},
    "range_constraints": {},
    "schema_version": {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]},
    "verifiers": ["TRAINING"],
}
"""A program of one node."""


def _places(data: bytes) -> range:
    """At most 2,000 places of a document, in which a format may write much."""
    return range(0, len(data), 1 + len(data) // 2000)


class _Record(msgspec.Struct, omit_defaults=True):
    number: int
    text: str
    values: dict[str, Any]
    inner: list[_Record]
    dropped: int | None = None


def reads_and_writes(suite: type[WireFormatContract], new: str, data: bytes) -> None:
    """Assert that this process reads and writes a document of `SMALL` and a new text as the one that wrote it."""
    wire_format = suite.wire_format
    tree: Tree = {**SMALL, new: [new]}
    assert same_tree(wire_format.decode(data), tree), "another process reads another tree"
    assert wire_format.encode(tree) == data, "another process writes the same tree in another way"


class WireFormatContract(ProviderSuite):
    """Contract tests of a wire format. Subclass it, and set `wire_format` to an instance of the format."""

    hook, attribute = "graphwire_wire_formats", "wire_format"
    wire_format: ClassVar[WireFormat]

    def deep_document(self, depth: int) -> bytes | None:
        """Override: return the bytes of `depth` nested lists, made without `encode`; None if the format cannot nest."""
        return None

    # Encoding

    def test_encode_returns_bytes_and_leaves_the_tree_alone(self) -> None:
        tree: Tree = {**to_tree(SMALL), "$bytes": {"$bytes": [math.inf]}}
        before = to_tree(tree)
        assert type(self.wire_format.encode(tree)) is bytes, "`encode` returns something else than bytes"
        assert same_tree(tree, before), "`encode` changes the tree that it encodes"

    def test_equal_trees_make_equal_bytes(self) -> None:
        data = self._encoded(SMALL)
        assert data, "it writes nothing"
        assert data == self._encoded(SMALL), "the same tree is written in another way"
        assert data != self._encoded({**SMALL, "large": 1}), "another tree is written in the same way"

    # Round trips

    @_property
    @given(tree=trees())
    def test_every_tree_comes_back(self, tree: Tree) -> None:
        self._comes_back(tree)

    @pytest.mark.parametrize("value", SCALARS, ids=lambda v: repr(v)[:24])
    def test_a_scalar_comes_back_alone_and_inside(self, value: Tree) -> None:
        self._comes_back(value)
        self._comes_back({"outer": [value, {"inner": value}]})

    @pytest.mark.parametrize("tree", CONTAINERS, ids=lambda v: repr(v)[:24])
    def test_a_container_comes_back(self, tree: Tree) -> None:
        self._comes_back(tree)
        self._comes_back([tree])

    @pytest.mark.parametrize("key", KEYS, ids=repr)
    def test_any_text_is_a_key(self, key: str) -> None:
        for value in IN_TAGS:
            self._comes_back({key: value})
            self._comes_back({key: value, "other": {key: {key: value}}})

    def test_similar_values_stay_apart(self) -> None:
        self._comes_back([0, False, 0.0, -0.0, "", "0", b"", b"0", None, [], {}, 1, True, 1.0, "1", b"1"])

    def test_dicts_keep_their_order(self) -> None:
        names = [f"k{index * 7919 % 1000}" for index in range(1000)]
        self._comes_back({name: {inner: None for inner in ("b", "a", "c")} for name in names})
        self._comes_back(dict.fromkeys(reversed(names)))

    def test_decode_reads_any_buffer(self) -> None:
        data = self._encoded(SMALL)
        inside = memoryview(b"before" + data + b"after")[6 : 6 + len(data)]
        for buffer in (bytearray(data), memoryview(data), inside, memoryview(bytearray(data))):
            assert same_tree(self.wire_format.decode(buffer), SMALL), (
                f"a document in a {type(buffer).__name__} is read as another tree"
            )

    def test_a_bound_on_lists_and_dicts_is_kept(self) -> None:
        if not isinstance(self.wire_format, BoundedFormat):
            return
        data = self.wire_format.encode([{} for _ in range(99)])
        assert self.wire_format.decode_bounded(data, 1000) == [{} for _ in range(99)], (
            "`decode_bounded` reads another tree than `decode`"
        )
        with pytest.raises(LimitError):
            self.wire_format.decode_bounded(data, 99)

    def test_decode_keeps_nothing_of_its_buffer(self) -> None:
        buffer = bytearray(self._encoded(SMALL))
        tree = self.wire_format.decode(buffer)
        buffer[:] = bytes(len(buffer))
        buffer.clear()
        assert same_tree(tree, SMALL), "the tree changes with the buffer that it was read from"

    def test_decoded_trees_are_independent(self) -> None:
        tree: dict[str, Tree] = {"a": [1], "b": [1], "c": [], "d": [], "e": {}, "f": {}}
        data = self._encoded(tree)
        one: Any = self.wire_format.decode(data)
        assert len({*map(id, one.values())}) == len(tree), "lists or dicts of one tree are one object"
        one["a"].append(2)
        assert self.wire_format.decode(data) == tree, "a document is another after its tree was changed"

    def test_another_process_reads_and_writes_the_same(self) -> None:
        """The bytes must contain the whole tree: state of a format does not reach the process that loads the file."""
        new = f"a text of process {os.getpid()} at {time.time_ns()}"
        assert_elsewhere(reads_and_writes, type(self), new, data=self._encoded({**SMALL, new: [new]}))

    def test_a_program_sized_tree_takes_no_time(self) -> None:
        node: dict[str, Any] = {
            "target": "torch.ops.aten.add.Tensor",
            "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
        }
        tree: Tree = [dict(node, metadata={"stack_trace": f"line {index}"}) for index in range(3000)]
        start = time.perf_counter()
        self._comes_back(tree)
        assert time.perf_counter() - start < 3, "a tree of the size of a program takes more than 3 s"

    def test_records_are_written_as_their_tree_is(self) -> None:
        if not isinstance(self.wire_format, RecordFormat):
            pytest.skip("the format encodes trees only")
        for values in (
            dict(SMALL, nan=None, raw=None),
            {"$bytes": "AAAA"},
            {"$float": {"$$float": 1}},
            {},
        ):
            self._encoded_records(_Record(1 << 70, "é\n\0", values, [_Record(-1, '"', {}, [])]))
        self._encoded_records(from_tree(PROGRAM, Program))

    def test_a_program_is_read_as_its_tree_is(self) -> None:
        if not isinstance(self.wire_format, ProgramReader):
            return
        data = self._encoded_records(from_tree(PROGRAM, Program))
        assert same_tree(self.wire_format.decode(data), PROGRAM), "a program comes back as another"
        self._reads_or_refuses(data)
        for at in range(0, len(data), 7):
            self._reads_or_refuses(data[:at] + bytes([data[at] ^ 0x21]) + data[at + 1 :])

    # Depth

    def test_deep_trees_come_back(self) -> None:
        lists: Tree = 1
        dicts: Tree = b"leaf"
        for _ in range(MAX_DEPTH):
            lists, dicts = [lists], {"k": dicts}
        self._comes_back(lists)
        self._comes_back(dicts)

    @pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1000, 100_000])
    def test_deeper_trees_are_refused(self, depth: int) -> None:
        lists: Tree = []
        dicts: Tree = {}
        for _ in range(depth):
            lists, dicts = [lists], {"k": dicts}
        for tree in (lists, dicts):
            with pytest.raises((FormatError, LimitError)):
                self.wire_format.encode(tree)

    def test_a_tree_that_contains_itself_is_refused(self) -> None:
        tree: list[Any] = []
        tree.append({"again": tree})
        with pytest.raises((FormatError, LimitError)):
            self.wire_format.encode(tree)

    @pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5000, 100_000, 1_000_000])
    def test_deeper_documents_are_refused(self, depth: int) -> None:
        document = self.deep_document(depth)
        if document is None:
            pytest.skip("the test class does not override deep_document")
        with pytest.raises((FormatError, LimitError)):
            self.wire_format.decode(document)

    # Values that are not trees

    @pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
    def test_a_value_that_no_format_has_is_refused(self, value: Any) -> None:
        trees: list[Any] = [value, [value], {"a": {"b": value}}]
        for tree in trees:
            with pytest.raises(FormatError):
                self.wire_format.encode(tree)

    @pytest.mark.parametrize("key", FOREIGN_KEYS, ids=lambda key: type(key).__name__)
    def test_a_key_that_is_no_text_is_refused(self, key: Any) -> None:
        trees: list[Any] = [{key: 1}, [{"a": {key: 1}}], {"a": 1, key: 2}]
        for tree in trees:
            with pytest.raises(FormatError):
                self.wire_format.encode(tree)

    @pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d"], ids=ascii)
    def test_a_lone_surrogate_comes_back_or_is_refused(self, text: str) -> None:
        trees: list[Tree] = [text, {text: 1}, [{"a": text}]]
        for tree in trees:
            try:
                data = self.wire_format.encode(tree)
            except FormatError:
                continue
            assert same_tree(self.wire_format.decode(data), tree), (
                "text with a lone surrogate comes back as other text"
            )

    # Bytes that are not documents

    def test_every_truncation_is_refused(self) -> None:
        data = self._encoded(SMALL)
        for size in _places(data):
            with pytest.raises(FormatError):
                self.wire_format.decode(data[:size])

    def test_bytes_after_the_document_are_refused(self) -> None:
        data = self._encoded(SMALL)
        for more in (b"\0", b"x", b"\xc0", b"\xf6", b"null", data):
            with pytest.raises(FormatError):
                self.wire_format.decode(data + more)

    @_property
    @given(data=st.binary(max_size=200))
    def test_random_bytes_are_a_tree_or_an_error_of_ours(self, data: bytes) -> None:
        self._reads_or_refuses(data)

    @_property
    @given(
        tree=trees(max_leaves=10),
        edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=3)), max_size=4),
    )
    def test_a_damaged_document_is_a_tree_or_an_error_of_ours(
        self, tree: Tree, edits: list[tuple[int, bytes]]
    ) -> None:
        data = bytearray(self.wire_format.encode(tree))
        for place, patch in edits:
            at = place % (len(data) + 1)
            data[at : at + (place >> 8) % 3] = patch
        self._reads_or_refuses(bytes(data))

    def test_every_flipped_byte_is_a_tree_or_an_error_of_ours(self) -> None:
        data = self._encoded(SMALL)
        for at in _places(data):
            for flip in (0x01, 0x20, 0x80, 0xFF):
                self._reads_or_refuses(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])

    # How a document is recognized

    def test_it_knows_its_own_documents(self) -> None:
        trees: list[Tree] = [{"a": 1}, *(dict.fromkeys(map(str, range(size))) for size in (2, 20, 70_000))]
        for tree in (SMALL, *trees):
            assert self.wire_format.matches(self.wire_format.encode(tree)[:64]), (
                "`matches` does not know a document that `encode` wrote"
            )

    @pytest.mark.parametrize("head", STRANGERS, ids=repr)
    def test_it_knows_no_strangers(self, head: bytes) -> None:
        assert not self.wire_format.matches(head), (
            f"`matches` takes {head!r:.80}, which another format writes"
        )

    @_property
    @given(head=st.binary(max_size=64))
    def test_matches_answers_for_any_head(self, head: bytes) -> None:
        assert self.wire_format.matches(head) in (True, False), "`matches` returns something else than a bool"

    # Threads

    def test_eight_threads_at_once(self) -> None:
        def work(number: int) -> None:
            for turn in range(100):
                values: Tree = [number] * turn
                self._comes_back({"thread": number, "values": values, "more": SMALL})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def _encoded(self, tree: Tree) -> bytes:
        """Return the document of a tree; an encoder that changes what it encodes does not change those of other tests."""
        return self.wire_format.encode(to_tree(tree))

    def _encoded_records(self, record: msgspec.Struct) -> bytes:
        before = to_tree(record)
        written = cast("RecordFormat", self.wire_format).encode_records(record)
        assert type(written) is bytes, "`encode_records` returns something else than bytes"
        assert same_tree(to_tree(record), before), "`encode_records` changes the records that it encodes"
        assert written == self.wire_format.encode(before), (
            "`encode_records` writes something else than `encode`"
        )
        return written

    def _comes_back(self, tree: Tree) -> None:
        data = self._encoded(tree)
        back = self.wire_format.decode(data)
        assert same_tree(back, tree), f"{tree!r:.500} came back as {back!r:.500}"
        if isinstance(self.wire_format, CountingFormat):
            counted, values = self.wire_format.most_values(data), measure_tree(tree).nodes
            assert counted >= values, f"`most_values` returns {counted} for a document of {values} values"

    def _reads_or_refuses(self, data: bytes) -> None:
        program = self._program_of(data)
        assert program is None or isinstance(program, Program), (
            "`decode_program` returns something else than a program"
        )
        try:
            tree = self.wire_format.decode(data)
        except (FormatError, LimitError):
            assert program is None, "`decode_program` reads what `decode` refuses"
            return
        measure_tree(tree, max_depth=10_000)
        assert program is None or same_tree(to_tree(program), tree), (
            "`decode_program` reads another program than `decode`"
        )

    def _program_of(self, data: bytes) -> object:
        return self.wire_format.decode_program(data) if isinstance(self.wire_format, ProgramReader) else None
