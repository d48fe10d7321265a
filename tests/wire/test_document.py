from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest
from given_plugins import Plugin, registry_with
from hypothesis import given, strategies as st
from inside.wire import detect_format, read_document, same_tree, write_document

from graphwire.errors import FormatError, LimitError, UnknownFormatError
from graphwire.hooks import MAX_DEPTH, Limits, Registry, Tree, WireFormat, measure_tree
from graphwire.testing import trees
from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.json_format import JsonFormat
from graphwire_plugins.msgpack_format import MsgpackFormat

FORMATS: list[WireFormat] = [JsonFormat(), MsgpackFormat(), CborFormat()]
REGISTRY = Registry.only("graphwire")


class Careless:
    """A stranger's format that keeps few rules."""

    name = "careless"
    suffix = ".careless"
    media_type = "application/x-careless"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def _act(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def encode(self, tree: Tree) -> bytes:
        return cast(bytes, self._act())

    def decode(self, buffer: object) -> Tree:
        return cast(Tree, self._act())

    def matches(self, head: bytes) -> bool:
        return head.startswith(b"{")


def nested(depth: int) -> Tree:
    tree: Tree = 1
    for _ in range(depth):
        tree = [tree]
    return tree


@pytest.mark.parametrize("wire_format", FORMATS, ids=lambda each: each.name)
def test_the_format_of_a_document_is_recognised(wire_format: WireFormat) -> None:
    for tree in (
        {"a": 1},
        {"graph_module": {}, "schema_version": {}},
        dict.fromkeys(map(str, range(70_000))),
    ):
        data = write_document(cast(Tree, tree), wire_format)
        for buffer in (data, bytearray(data), memoryview(data)):
            assert detect_format(buffer, REGISTRY).name == wire_format.name


def test_an_unknown_start_names_the_installed_formats() -> None:
    for data in (b"", b"PK\x03\x04", b"hello"):
        with pytest.raises(UnknownFormatError, match="Installed formats: cbor, json, msgpack"):
            detect_format(data, REGISTRY)
    with pytest.raises(UnknownFormatError, match="Installed formats: none"):
        detect_format(b"{}", Registry.of())


def test_a_start_that_two_formats_recognize_names_both() -> None:
    rivals = [Careless(None), Careless(None)]
    rivals[0].name, rivals[0].suffix = "twin", ".twin"
    with pytest.raises(FormatError, match="careless, twin"):
        detect_format(b"{}", Registry.of(Plugin(wire_formats=rivals)))
    assert detect_format(b"{}", registry_with(wire_formats=rivals)).name == "json"


@pytest.mark.parametrize("error", [RecursionError(), MemoryError()], ids=repr)
def test_what_does_not_fit_becomes_a_limit_error(error: Exception) -> None:
    with pytest.raises(LimitError, match="careless"):
        read_document(b"", Careless(error))
    with pytest.raises(LimitError, match="careless"):
        write_document(1, Careless(error))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((1, 2), "a tuple is not a type"),
        ({"a": [1, {"b": object()}]}, r"a\[1\].b: a object is not a type"),
        ({1: 2}, "a key is a int"),
        ([{"x": {b"k": 1}}], r"\[0\].x: a key is a bytes"),
        (1j, "a complex"),
    ],
    ids=["a tuple", "an object", "a key that is no text", "a key of bytes", "a complex number"],
)
def test_a_format_that_gives_no_tree_is_caught(answer: object, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read_document(b"", Careless(answer))


@pytest.mark.parametrize("wire_format", FORMATS, ids=lambda each: each.name)
def test_limits_are_kept(wire_format: WireFormat) -> None:
    deep = write_document(nested(100), wire_format)
    assert same_tree(read_document(deep, wire_format, Limits(tree_depth=100)), nested(100))
    with pytest.raises(LimitError, match="more than 99 deep"):
        read_document(deep, wire_format, Limits(tree_depth=99))
    with pytest.raises(LimitError, match="bytes, more than 50"):
        read_document(deep, wire_format, Limits(program_bytes=50))
    lists = write_document([[] for _ in range(999)], wire_format)
    assert len(cast("list[Tree]", read_document(lists, wire_format, Limits(containers=1000)))) == 999
    with pytest.raises(LimitError, match=r"1,000 lists and dicts, more than 999\. Raise Limits\.containers"):
        read_document(lists, wire_format, Limits(containers=999))
    many = write_document(list(range(1000)), wire_format)
    assert read_document(many, wire_format, Limits(tree_nodes=1001)) == list(range(1000))
    with pytest.raises(LimitError, match="more than 1,000 values"):
        read_document(many, wire_format, Limits(tree_nodes=1000))


def test_a_survey_counts() -> None:
    found = measure_tree({"a": [1, 2.0, "x", {"b": float("inf")}], "c": b""})
    assert (found.nodes, found.depth, found.texts, found.finite) == (8, 3, 4, False)
    assert found.kinds == {dict, list, int, float, str, bytes}
    assert measure_tree(None) == type(found)(frozenset({type(None)}), 1, 0, 0, True)


def test_a_survey_stops_at_its_depth() -> None:
    assert measure_tree(nested(MAX_DEPTH)).depth == MAX_DEPTH
    with pytest.raises(LimitError):
        measure_tree(nested(MAX_DEPTH + 1))


def test_nothing_here_imports_torch() -> None:
    names = "archive.reader package_reader torch_files.torch_save_reader"
    imports = "; ".join(f"import graphwire.wire.{name}" for name in names.split())
    code = (
        f"{imports}; import sys; print([name for name in ('torch', 'numpy', 'sympy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(
    tree=trees(max_leaves=8), text=st.text(max_size=5), as_key=st.booleans(), way=st.lists(st.integers(0, 9))
)
@pytest.mark.parametrize("wire_format", FORMATS, ids=lambda each: each.name)
def test_a_text_that_no_format_writes_is_named_with_its_place(
    wire_format: WireFormat, tree: Tree, text: str, as_key: bool, way: list[int]
) -> None:
    strange: Tree = {f"{text}\ud800": 1} if as_key else [f"{text}\udfff"]
    place = "" if as_key else "[0]"
    for step in way[:6]:
        strange, place = (
            ([*range(step), strange], f"[{step}]{place}") if step % 2 else ({"k": strange}, f".k{place}")
        )
    given_tree: Tree = {"first": tree, "second": strange}
    with pytest.raises(FormatError, match="has a lone surrogate, which no wire format can write") as refused:
        write_document(given_tree, wire_format)
    assert refused.value.place == f"second{place}"
    assert refused.value.remedy == "Replace it by other text"
