"""A reader of weights and interfaces, written from docs/spec/core.md alone, in Python's standard library."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ITEM_SIZES = {
    **dict.fromkeys((1, 2, 12, 29, 30, 31, 32, 33), 1),
    **dict.fromkeys((3, 6, 13, 28), 2),
    **dict.fromkeys((4, 7, 9), 4),
    **dict.fromkeys((5, 8, 10), 8),
    11: 16,
}
COMPLEX = (9, 10, 11)
MAX_SIZE = 1 << 59


class Refused(Exception):
    """The file is not read."""


class CoreFile:
    """The weights and interfaces of a file."""

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        names = [name for name in self.archive.namelist() if not name.endswith("/")]
        roots = {name.partition("/")[0] for name in names}
        if len(roots) != 1 or len(set(names)) != len(names) or any(".." in name.split("/") for name in names):
            raise Refused("names")
        self.names = {name.partition("/")[2]: name for name in names}
        self.programs = [
            name[7:-5] for name in self.names if name.startswith("models/") and name.endswith(".json")
        ]
        if not self.programs:
            raise Refused("no program in JSON")
        self.is_big = "byteorder" in self.names and self.read("byteorder") == b"big"

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise Refused(f"no record {name}")
        return self.archive.read(self.names[name])

    def json(self, name: str) -> Any:
        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise Refused("a key occurs twice")
            return found

        return json.loads(self.read(name), object_pairs_hook=unique)

    def document(self, program: str) -> Any:
        tree = self.json(f"models/{program}.json")
        version = tree["schema_version"]
        if version["major"] != 8 or version["minor"] < 20:
            raise Refused("another schema")
        return tree

    def interface(self, program: str) -> tuple[list[str], list[str]]:
        """The roles of inputs and outputs, each with the name of a weight or value; `=` for a literal."""
        signature = self.document(program)["graph_module"]["signature"]
        inputs, outputs = signature["input_specs"], signature["output_specs"]
        return list(map(_role, inputs)), list(map(_role, outputs))

    def weights(self, program: str, kind: str = "weights") -> Iterator[tuple[str, int, list[int], bytes]]:
        """Each weight with its name, number of type, sizes, and elements: contiguous and little-endian."""
        folder = f"data/{kind}/"
        for name, entry in self.json(f"{folder}{program}_{kind}_config.json")["config"].items():
            if entry["use_pickle"] or entry.get("placement"):
                continue
            meta = entry["tensor_meta"]
            record = self.read(entry.get("shared") or folder + entry["path_name"])
            sizes = [size["as_int"] for size in meta["sizes"]]
            yield name, meta["dtype"], sizes, self.elements(meta, sizes, record)

    def elements(self, meta: Any, sizes: list[int], record: bytes) -> bytes:
        item = ITEM_SIZES.get(meta["dtype"])
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        if (
            item is None
            or len(sizes) != len(strides)
            or not all(0 <= each < MAX_SIZE for each in (*sizes, *strides, offset))
        ):
            raise Refused("no tensor")
        if 0 in sizes:
            return b""
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if (last + 1) * item > len(record):
            raise Refused("a tensor beyond its record")
        found = bytearray()
        for indices in itertools.product(*map(range, sizes)):
            at = (offset + sum(index * stride for index, stride in zip(indices, strides, strict=True))) * item
            element = record[at : at + item]
            if self.is_big and meta["dtype"] in COMPLEX:
                element = element[: item // 2][::-1] + element[item // 2 :][::-1]
            found += element[::-1] if self.is_big and meta["dtype"] not in COMPLEX else element
        return bytes(found)


def _role(spec: Any) -> str:
    [(role, fields)] = spec.items()
    names = [value for key, value in fields.items() if key.endswith("_name")]
    if names:
        return f"{role} {names[0]}"
    argument = fields.get("arg") or fields.get("value")
    if "name" in argument:
        return f"{role} {argument['name']}"
    [value] = argument.values()
    named = value if isinstance(value, dict) else {}
    return f"{role} {fields.get('name') or named.get('name') or named.get('as_name') or '='}"
