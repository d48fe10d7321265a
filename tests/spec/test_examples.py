"""The examples and limits in the specification are those of the code."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from inside.analysis import tagged
from inside.bridge import _TRIM_BYTES
from inside.wire import (
    _GROUP_BYTES,
    _MOST_CHARACTERS,
    _MOST_NAME_BYTES,
    _PLUGIN_DEPTH,
    _PLUGIN_NODES,
    THREAD_HASH_BYTES,
    ArchiveWriter,
    counts_of,
    decode_json_record,
    extent,
    read_document,
    read_manifest,
    read_references,
)
from inside.wire.archive import CHUNK_BYTES
from torch.testing._internal.two_tensor import TwoTensor

from graphwire.errors import FormatError, LimitError
from graphwire.hooks import DEFAULT_LIMITS, MAX_DEPTH, Registry
from graphwire.schema import MAX_DIMENSIONS, PayloadConfig, PayloadMeta, Region, StoreReference
from graphwire_plugins.safetensors_header import _TYPES, MAX_HEADER_BYTES

SPEC = Path(__file__).resolve().parents[2] / "docs/spec"
FORMATS = Registry.discover().wire_formats


def blocks(page: str, kind: str) -> list[str]:
    """Return the fenced blocks of a page with an info string."""
    text = (SPEC / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


EXAMPLES = [line for block in blocks("trees.md", "tree") for line in block.splitlines()]


@pytest.mark.parametrize("line", EXAMPLES)
def test_documents_have_the_stated_trees(line: str) -> None:
    document, _, expected = line.partition(" => ")
    name, _, text = document.partition(" ")
    data = text.encode() if name == "json" else bytes.fromhex(text.replace(" ", ""))
    if expected.startswith("refused"):
        with pytest.raises((FormatError, LimitError)):
            read_document(data, FORMATS[name])
        return
    assert tagged(read_document(data, FORMATS[name])) == json.loads(expected)


def test_limits_are_those_of_the_code() -> None:
    text = (SPEC / "archive.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| ([\d,]+) \| `(\w+)` \|$", text, re.MULTILINE)
    stated = {name: int(value.replace(",", "")) for value, name in rows}
    limits = msgspec.structs.asdict(DEFAULT_LIMITS)
    assert stated == {name: value for name, value in limits.items() if isinstance(value, int)}


NUMBERS = [
    ("archive.md", "of less than {} MiB: in the order", THREAD_HASH_BYTES >> 20),
    ("archive.md", "would have more than {} MiB", _GROUP_BYTES >> 20),
    ("trees.md", "has more than {} digits", sys.int_info.default_max_str_digits),
    ("trees.md", "A document has at most depth {}.", MAX_DEPTH),
    ("payloads.md", "A tensor has at most {} dimensions", MAX_DIMENSIONS),
    ("payloads.md", "leave {} bytes or more unused", _TRIM_BYTES),
    ("payloads.md", "Trees of codecs have at most depth {}", _PLUGIN_DEPTH),
    ("payloads.md", "and {} values, so that", _PLUGIN_NODES),
    ("references.md", "if it has at most {} bytes; otherwise", CHUNK_BYTES),
    ("references.md", "N above {} or beyond", MAX_HEADER_BYTES),
    ("references.md", "plain locations: 1 to {} characters", _MOST_CHARACTERS),
    ("references.md", "has at most {} bytes of UTF-8", _MOST_NAME_BYTES),
]


@pytest.mark.parametrize(("page", "text", "number"), NUMBERS)
def test_numbers_are_those_of_the_code(page: str, text: str, number: int) -> None:
    assert text.format(f"{number:,}") in " ".join((SPEC / page).read_text(encoding="utf-8").split())


def test_a_file_starts_as_the_example() -> None:
    (text,) = blocks("archive.md", "hex")
    start = bytes.fromhex(text)
    stream = io.BytesIO()
    ArchiveWriter(stream).close()
    assert stream.getvalue().startswith(start)
    assert start[64:] == b"pt2"


def test_the_manifest_of_the_example_is_one() -> None:
    (text,) = blocks("archive.md", "json manifest")
    assert len(read_manifest(text.encode()).names) == 4


def test_the_config_of_the_example_needs_the_stated_bytes() -> None:
    (text,) = blocks("payloads.md", "json payloads")
    config = decode_json_record(msgspec.json.Decoder(PayloadConfig), text.encode(), "it is", "").config
    metas = [each.tensor_meta for each in config.values() if each.tensor_meta is not None]
    assert [extent(meta) for meta in metas] == [40, 40]
    weight = torch.arange(10.0).as_strided((2, 3), (3, 1), 4)
    turned = torch.arange(10.0).as_strided((3, 2), (1, 3), 4)
    assert float(weight[1, 2]) == float(turned[2, 1]) == 36 / 4


def test_the_references_of_the_example_make_their_record() -> None:
    (text,) = blocks("references.md", "json references")
    references = read_references(text.encode())
    (record,) = references.records.values()
    assert [counts_of(each) for each in record.regions] == [[2, 2], [2, 2]]


def _quantized(*sizes: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(sizes), 0.5, 1, torch.qint8)


CODED: dict[str, Callable[[], Any]] = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "quantized": lambda: _quantized(2),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
    "tensor_subclass": lambda: TwoTensor(torch.ones(2), torch.ones(2)),
    "script_object": lambda: torch.ops.quantized.linear_prepack(_quantized(2, 2), None),
}


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
@pytest.mark.parametrize("name", CODED)
def test_codecs_write_the_stated_trees(name: str) -> None:
    text = (SPEC / "payloads.md").read_text(encoding="utf-8")
    (column,) = re.findall(rf"^\| `{name}` \| [^|]* \| ([^|]*) \|", text, re.MULTILINE)
    tree, _ = Registry.discover().constant_codecs[name].encode(CODED[name]())
    assert set(tree) == set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)|;.*", "", column)))


TABLES = [
    ("payloads.md", "pay-4", PayloadMeta),
    ("references.md", "ref-5", StoreReference),
    ("references.md", "ref-12", Region),
]


@pytest.mark.parametrize(("page", "rule", "record"), TABLES)
def test_tables_have_the_fields_of_their_records(page: str, rule: str, record: type[msgspec.Struct]) -> None:
    text = (SPEC / page).read_text(encoding="utf-8").partition(f'<a id="{rule}">')[2]
    lines = text.partition("| field |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip("` ") for cell in line.split("|")] for line in lines]
    stated = {name: default for _, name, _, default, *_ in rows}
    facts = msgspec.structs.fields(record)
    assert stated == {each.encode_name: _default(each) for each in facts}


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    factory = field.default_factory
    return json.dumps(field.default if factory is msgspec.NODEFAULT else factory())


def test_the_element_types_of_safetensors_are_those_of_the_store() -> None:
    text = (SPEC / "references.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`([A-Z0-9_]+)` \| `(\w+)`", text)
    assert dict(pairs) == {name: dtype for name, (dtype, _) in _TYPES.items()}


def test_the_codecs_of_the_table_are_those_of_the_box() -> None:
    text = (SPEC / "payloads.md").read_text(encoding="utf-8")
    table = text.partition("| codec | value |")[2].partition("\n\n")[0]
    stated = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert stated == set(Registry.discover().constant_codecs)
