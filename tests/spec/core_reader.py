"""A reader of weights and interfaces, written from docs/spec/core.md alone, in Python's standard library."""

from __future__ import annotations

import itertools
import json
import math
import operator
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ITEM_SIZES = {
    **dict.fromkeys((1, 2, 12, 29, 30, 31, 32, 33), 1),
    **dict.fromkeys((3, 6, 13, 28), 2),
    **dict.fromkeys((4, 7, 9, 34), 4),
    **dict.fromkeys((5, 8, 10, 35), 8),
    11: 16,
}
COMPLEX = (9, 10, 11)
MAX_SIZE, MAX_DIMENSIONS, STRIDED = 1 << 59, 64, 7
EXTENSIONS = frozenset(
    "calls codecs constants containers dtypes external-weights layouts lazy-bits mappings outputs placement propagate ranges"
    " results sequences slices treespecs".split()
)


class Refused(Exception):
    """The file is not read; the text is the rule that it breaks."""


class CoreFile:
    """The weights and interfaces of a file."""

    def __init__(self, path: Path) -> None:
        try:
            self.archive = zipfile.ZipFile(path)
        except UnicodeDecodeError as error:
            raise Refused("ARC-18") from error
        except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
            raise Refused("ARC-1") from error
        entries = [each for each in self.archive.infolist() if not each.is_dir()]
        if any(each.flag_bits & 0x2061 or each.compress_type not in (0, 8) for each in entries):
            raise Refused("ARC-8")
        names = [each.filename for each in entries]
        if len(set(names)) != len(names):
            raise Refused("ARC-20")
        if any(".." in name.split("/") for name in names):
            raise Refused("ARC-19")
        if len({name.partition("/")[0] for name in names}) != 1:
            raise Refused("ARC-21")
        self.names = {name.partition("/")[2]: name for name in names}
        documents = [name[7:] for name in self.names if name.startswith("models/")]
        documents = [name for name in documents if "." in name.rpartition("/")[2]]
        if len({name.rpartition(".")[0] for name in documents}) < max(1, len(documents)):
            raise Refused("ARC-27")
        if not all(name.endswith(".json") for name in documents):
            raise Refused("ARC-29")
        self.programs = [name.removesuffix(".json") for name in documents]
        self.is_big = "byteorder" in self.names and self.read("byteorder") == b"big"

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise Refused("PAY-21")
        try:
            return self.archive.read(self.names[name])
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise Refused("ARC-15") from error

    def json(self, name: str) -> Any:
        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise Refused("TREE-6")
            return found

        try:
            return json.loads(self.read(name), object_pairs_hook=unique)
        except ValueError as error:
            raise Refused("TREE-8") from error

    def document(self, program: str) -> Any:
        tree = self.json(f"models/{program}.json")
        version = tree.get("schema_version", {})
        if version.get("major") != 8 or version["minor"] < 20:
            raise Refused("VER-5")
        requires = tree.get("requires", [])
        if not EXTENSIONS.issuperset(requires) or len(set(requires)) < len(requires):
            raise Refused("EXT-1")
        return tree

    def interface(self, program: str) -> tuple[list[Any], list[Any]]:
        """The roles of inputs and outputs, each with the name of a weight or value; None for a literal."""
        signature = self.document(program)["graph_module"]["signature"]
        inputs, outputs = signature["input_specs"], signature["output_specs"]
        return list(map(_role, inputs)), list(map(_role, outputs))

    def weights(self, program: str, kind: str = "weights") -> Iterator[tuple[str, int, list[int], bytes]]:
        """Each weight with its name, number of type, sizes, and elements: contiguous and little-endian."""
        folder = f"data/{kind}/"
        for name, entry in self.json(f"{folder}{program}_{kind}_config.json")["config"].items():
            meta = entry.get("tensor_meta")
            if entry["use_pickle"] or entry.get("placement"):
                continue
            own = folder + entry["path_name"]
            record = self.read(own if own in self.names else entry.get("shared") or own)
            if meta["device"]["type"] == "meta" and not record:
                continue
            if meta["dtype"] not in ITEM_SIZES:
                continue
            numbers = [*meta["sizes"], *meta["strides"], meta["storage_offset"]]
            if not all(isinstance(each.get("as_int"), int) for each in numbers) or meta["layout"] != STRIDED:
                raise Refused("PAY-8")
            sizes = [size["as_int"] for size in meta["sizes"]]
            yield name, meta["dtype"], sizes, self.elements(meta, sizes, record)

    def elements(self, meta: Any, sizes: list[int], record: bytes) -> bytes:
        item = ITEM_SIZES[meta["dtype"]]
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        pairs = list(zip(sizes, strides, strict=False))
        last = offset + sum((size - 1) * stride for size, stride in pairs if size)
        if (
            not len(sizes) == len(strides) <= MAX_DIMENSIONS
            or min((*sizes, *strides, offset)) < 0
            or math.prod(size or 1 for size in sizes) > MAX_SIZE
            or last >= MAX_SIZE
        ):
            raise Refused("PAY-8")
        if 0 in sizes:
            return b""
        if (last + 1) * item > len(record):
            raise Refused("PAY-10")
        found = bytearray()
        for indices in itertools.product(*map(range, sizes)):
            at = (offset + sum(map(operator.mul, indices, strides))) * item
            element = record[at : at + item]
            if self.is_big and meta["dtype"] in COMPLEX:
                element = element[: item // 2][::-1] + element[item // 2 :][::-1]
            found += element[::-1] if self.is_big and meta["dtype"] not in COMPLEX else element
        return bytes(found)


def _role(spec: Any) -> list[Any]:
    role, fields = _only(spec)
    names = [value for key, value in fields.items() if key.endswith("_name")]
    if role == "constant_input":
        return [role, fields["name"]]
    argument = fields.get("arg", {})
    if names or "name" in argument:
        return [role, names[0] if names else argument["name"]]
    value = _only(argument)[1]
    held = value if isinstance(value, dict) else {}
    return [role, held.get("name") or held.get("as_name")]


def _only(union: dict[str, Any]) -> tuple[str, Any]:
    """The only key with a value."""
    found = [(key, value) for key, value in union.items() if value is not None]
    if len(found) != 1:
        raise Refused("DOC-10")
    return found[0]
