"""Treespecs as things of their own: torch's text and every wire format, with torch and without."""

from __future__ import annotations

import collections
import enum
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given, strategies as st
from inside.schema import LEAF, keywords_of, parse_treespec
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import FormatError, SchemaError, UnknownFormatError
from graphwire.hooks import TreeSpec


class Color(enum.Enum):
    RED = 1


CONTAINERS = [
    1,
    (1, [2, {"a": 3, "b": ()}], None),
    collections.OrderedDict(x=1, y=[2]),
    collections.defaultdict(list, {"k": 1}),
    collections.deque([1, 2], maxlen=3),
    {1: 2, "two": 3},
    torch.return_types.max((torch.zeros(1), torch.zeros(1))),
]
FORMATS = ("json", "msgpack", "cbor")


def _texts() -> list[str]:
    return [graphwire.treespec_dumps(pytree.tree_structure(each)) for each in CONTAINERS]


@pytest.mark.parametrize("container", CONTAINERS[:4], ids=repr)
def test_the_text_is_the_one_that_torch_writes(container) -> None:
    spec = pytree.tree_structure(container)
    text = graphwire.treespec_dumps(spec)
    assert text == pytree.treespec_dumps(spec) == graphwire.treespec_dumps(spec, 1)
    assert graphwire.treespec_dumps(graphwire.treespec_loads(text)) == text
    assert graphwire.treespec_loads(pytree.treespec_dumps(spec), to_torch=True) == spec


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("container", CONTAINERS, ids=repr)
def test_every_format_gives_the_spec_back(container, format) -> None:
    spec = pytree.tree_structure(container)
    data = graphwire.treespec_dumps(spec, format=format)
    assert isinstance(data, bytes)
    records = graphwire.treespec_loads(data, format)
    assert isinstance(records, TreeSpec)
    assert graphwire.treespec_dumps(records, format=format) == data
    assert graphwire.treespec_dumps(records) == graphwire.treespec_dumps(spec)
    assert graphwire.treespec_loads(data, format, to_torch=True) == spec


def test_json_and_cbor_are_known_by_their_start() -> None:
    for format in ("json", "cbor"):
        data = graphwire.treespec_dumps(LEAF, format=format)
        assert graphwire.treespec_loads(data) == LEAF
    assert pytree.treespec_loads(
        graphwire.treespec_dumps(LEAF, format="json").decode()
    ) == pytree.tree_structure(0)


specs = st.recursive(
    st.just(LEAF),
    lambda inner: st.builds(
        TreeSpec,
        st.sampled_from(["builtins.tuple", "builtins.dict", "mine.Box@2"]),
        st.one_of(st.none(), st.text(), st.integers(-(2**70), 2**70), st.lists(st.floats(allow_nan=False))),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@given(spec=specs, format=st.sampled_from(FORMATS))
def test_any_records_survive_any_format(spec, format) -> None:
    assert graphwire.treespec_loads(graphwire.treespec_dumps(spec, format=format), format) == spec
    assert graphwire.treespec_loads(graphwire.treespec_dumps(spec)) == spec


def test_there_is_one_protocol() -> None:
    with pytest.raises(SchemaError, match="no protocol 7"):
        graphwire.treespec_dumps(LEAF, 7)
    with pytest.raises(SchemaError, match="protocol 7"):
        graphwire.treespec_loads('[7, {"type": null, "context": null, "children_spec": []}]')


@pytest.mark.parametrize(
    "data", [b"[1, 2, 3]", b'{"type": null}', b"[1]", b'[1, {"type": null, "context": 3}]']
)
def test_what_is_no_treespec_is_refused(data) -> None:
    with pytest.raises(SchemaError):
        graphwire.treespec_loads(data)


def test_bytes_of_no_format_are_refused() -> None:
    with pytest.raises(UnknownFormatError):
        graphwire.treespec_loads(b"\x00\x01")
    with pytest.raises(FormatError):
        graphwire.treespec_loads(b"[1, ", "json")
    with pytest.raises(UnknownFormatError):
        graphwire.treespec_dumps(LEAF, format="nobody")


def test_a_context_of_bytes_is_no_treespec() -> None:
    data = graphwire.treespec_dumps(TreeSpec("mine.Box", "x", []), format="cbor")
    broken = data.replace(b"\x61x", b"\x41x")
    assert broken != data
    with pytest.raises(SchemaError):
        graphwire.treespec_loads(broken, "cbor")


def test_records_need_no_torch() -> None:
    code = """
        import sys
        import graphwire
        text = sys.argv[1]
        for format in ("json", "msgpack", "cbor"):
            spec = graphwire.treespec_loads(text)
            data = graphwire.treespec_dumps(spec, format=format)
            assert graphwire.treespec_dumps(graphwire.treespec_loads(data, format)) == text
        assert "torch" not in sys.modules
    """
    for text in _texts():
        assert parse_treespec(text)
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), _texts()[1]], check=True)


@pytest.mark.parametrize(
    ("container", "names"),
    [
        (((1,), {"mask": 1, "a b": (2,)}), ["mask", "a b"]),
        (((1,), {}), []),
        ((1,), []),
        (1, []),
        (((1,), collections.OrderedDict(mask=1)), []),
    ],
    ids=repr,
)
def test_the_names_of_keyword_arguments(container, names) -> None:
    text = graphwire.treespec_dumps(pytree.tree_structure(container))
    assert keywords_of(parse_treespec(text)) == names
