"""A reader of payloads written from docs/spec/payloads.md and references.md alone. Element types are read from their tables."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CHUNK_BYTES = 16_777_216
FOLDERS = {"weights": "data/weights/", "constants": "data/constants/", "sample_inputs": "data/sample_inputs/"}


class DtypeTables(NamedTuple):
    names: dict[int, str]
    sizes: dict[str, int]
    safetensors: dict[str, str]


def dtype_tables(spec: Path) -> DtypeTables:
    """Return the tables of element types in the specification."""
    page = (spec / "records.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^\| (\d+) \| `[A-Z0-9]+` \| `(\w+)` \| (\d+) \|", page, re.MULTILINE)
    others = page.partition("### Element types without a number")[2].partition("###")[0]
    sizes = re.findall(r"^\| `(\w+)` \| (\d+) \|", others, re.MULTILINE)
    names = {int(number): name for number, name, _ in numbered}
    sizes += [(name, size) for _, name, size in numbered]
    stored = re.findall(r"`([A-Z0-9_]+)` \| `(\w+)`", (spec / "references.md").read_text(encoding="utf-8"))
    return DtypeTables(names, {name: int(size) for name, size in sizes}, dict(stored))


class Payloads:
    """The payloads of an archive.

    Args:
        records: the bytes of each record, by name below the root folder.
        folder: the folder of the file.
    """

    def __init__(self, records: Mapping[str, bytes], folder: Path, dtypes: DtypeTables) -> None:
        self.records = records
        self.folder = folder
        self.dtypes = dtypes
        self.references = json.loads(records.get("data/weights/references.json", b"{}"))

    def digests(self, program: str) -> Iterator[tuple[str, str, str]]:
        """Yield the kind, the name and the SHA-256 of the elements of each payload that the file or its stores have."""
        for kind, folder in FOLDERS.items():
            config = self.records.get(f"{folder}{program}_{kind}_config.json", b'{"config": {}}')
            for name, entry in json.loads(config)["config"].items():
                if entry["use_pickle"] or entry.get("placement") is not None:
                    continue
                record = self.record(entry.get("shared") or folder + entry["path_name"])
                is_placed = record == b"" and entry["tensor_meta"]["device"]["type"] == "meta"  # PAY-19
                if record is not None and not is_placed:
                    yield kind, name, hashlib.sha256(self.elements(entry["tensor_meta"], record)).hexdigest()

    def elements(self, meta: dict[str, Any], record: bytes) -> bytes:
        """Return the elements of a tensor in row-major order (PAY-8 to PAY-12)."""
        dtype = meta.get("dtype_name") or self.dtypes.names[meta["dtype"]]
        item = self.dtypes.sizes[dtype]
        sizes = [each["as_int"] for each in meta["sizes"]]
        strides = [each["as_int"] for each in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        if 0 in sizes:
            return b""
        reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        assert (offset + reach + 1) * item <= len(record)
        places = [offset]
        for size, stride in zip(sizes, strides, strict=True):
            places = [place + index * stride for place in places for index in range(size)]
        width = item // 2 if dtype.startswith("complex") else item
        data = b"".join(record[place * item : (place + 1) * item] for place in places)
        if self.records.get("byteorder") == b"big":
            data = b"".join(data[at : at + width][::-1] for at in range(0, len(data), width))
        return data

    def record(self, name: str) -> bytes | None:
        """Return a record of the archive, or of the stores (REF-13); None if neither has it."""
        if name in self.records:
            return self.records[name]
        reference = self.references.get("records", {}).get(name)
        if reference is None or (reference["nbytes"] and not reference.get("regions")):
            return None
        memory = bytearray(reference["nbytes"])
        for region in reference.get("regions", []):
            self.fill(memory, region)
        if reference.get("sha256"):
            assert digest(bytes(memory)) == reference["sha256"]
        return bytes(memory)

    def fill(self, memory: bytearray, region: dict[str, Any]) -> None:
        item = self.dtypes.sizes[region["dtype"]]
        shape = region["shape"]
        box = region.get("box") or [[0, size, 1] for size in shape]
        strides = region.get("strides") or row_major([count for _, count, _ in box])
        source = self.stored(self.references["stores"][region.get("store", 0)], region)
        pairs = [(0, region.get("offset", 0))]
        for (first, count, step), inside, outside in zip(box, row_major(shape), strides, strict=True):
            pairs = [
                (there + (first + index * step) * inside, here + index * outside)
                for there, here in pairs
                for index in range(count)
            ]
        for there, here in pairs:
            memory[here * item : (here + 1) * item] = source[there * item : (there + 1) * item]

    def stored(self, store: dict[str, Any], region: dict[str, Any]) -> bytes:
        """Return the bytes of a stored tensor."""
        folder = self.folder / (store.get("folder") or "")
        if store["kind"] == "blobs":
            marker = json.loads((folder / "blobs.json").read_bytes())
            assert marker == {"format": "graphwire-blobs", "version": 1}
            content = (folder / region["tensor"][:2] / region["tensor"][2:]).read_bytes()
            assert digest(content) == region["tensor"]
            return content
        place = folder / store["location"]
        if place.name.endswith(".safetensors.index.json"):
            place = place.parent / json.loads(place.read_bytes())["weight_map"][region["tensor"]]
        data = place.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        facts = store["files"][place.relative_to(folder).as_posix()]
        assert facts["nbytes"] == len(data)
        assert facts["index_sha256"] == hashlib.sha256(data[:start]).hexdigest()
        entry = json.loads(data[8:start])[region["tensor"]]
        shape = entry["shape"]
        if entry["dtype"] == "F4":
            shape = [*shape[:-1], shape[-1] // 2]
        assert (self.dtypes.safetensors[entry["dtype"]], shape) == (region["dtype"], region["shape"])
        first, last = entry["data_offsets"]
        return data[start + first : start + last]


def row_major(sizes: list[int]) -> list[int]:
    return [math.prod(max(size, 1) for size in sizes[at + 1 :]) for at in range(len(sizes))]


def digest(data: bytes) -> str:
    """Return the digest of a record (REF-16)."""
    if len(data) <= CHUNK_BYTES:
        return hashlib.sha256(data).hexdigest()
    pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    return hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).hexdigest()
