"""A check of references written from docs/spec/references.md alone, without code of graphwire. Each refusal names its rule."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_BYTES, MAX_ELEMENTS, MAX_DIMENSIONS = 1 << 62, 1 << 59, 64
DIGEST = re.compile(r"([0-9a-f]{64})?")
DEVICES = {"con", "prn", "aux", "nul", *(f"{name}{i}" for name in ("com", "lpt") for i in range(1, 10))}
TABLE = "data/weights/references.json"


class Refused(Exception):
    """The number of the rule that references break."""


def need(condition: object, rule: str) -> None:
    if not condition:
        raise Refused(rule)


def field(record: Any, name: str, kind: type, rule: str, *default: Any) -> Any:
    need(type(record) is dict and (default or name in record), rule)
    value = record.get(name, *default)
    need(type(value) is kind, rule)
    return value


def integers(values: Any, rule: str) -> list[int]:
    need(type(values) is list and all(type(each) is int for each in values), rule)
    return list(values)


def check(tree: Any, item_sizes: Mapping[str, int]) -> None:
    """Raise unless a table of references keeps the rules. `item_sizes` has the size of each element type in bytes."""
    stores = field(tree, "stores", list, "REF-2", [])
    for store in stores:
        check_store(store)
    ranks = field(tree, "ranks", list, "REF-2", [])
    for table in (field(tree, "records", dict, "REF-2", {}), *ranks):
        need(type(table) is dict, "REF-2")
        for name, record in table.items():
            need(name.startswith("data/weights/") and name != TABLE, "REF-4")
            check_location(name)
            check_record(record, len(stores), item_sizes)
    sizes = [{name: record["nbytes"] for name, record in table.items()} for table in ranks]
    need(all(each == sizes[0] for each in sizes), "REF-17")


def check_store(store: Any) -> None:
    need(re.fullmatch("[a-z][a-z0-9_]*", field(store, "kind", str, "REF-5")), "REF-5")
    folder = store.get("folder", "")
    need(folder is None or type(folder) is str, "REF-5")
    for location in (field(store, "location", str, "REF-5"), folder):
        if location:
            check_location(location)
    for location, facts in field(store, "files", dict, "REF-5", {}).items():
        check_location(location)
        need(0 <= field(facts, "nbytes", int, "REF-5") <= MAX_BYTES, "REF-5")
        need(DIGEST.fullmatch(field(facts, "index_sha256", str, "REF-5", "")), "REF-5")


def check_location(location: str) -> None:
    need(1 <= len(location) <= 4096 and "://" not in location, "REF-9")
    for name in location.split("/"):
        need(name not in ("", ".", "..") and len(name.encode()) <= 255, "REF-9")
        kinds = {unicodedata.category(each) for each in name.replace(" ", "")}
        need(not kinds & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"}, "REF-9")
        need(not set(name) & set('\\:*?"<>|') and not name.endswith((".", " ")), "REF-9")
        need(name.partition(".")[0].lower() not in DEVICES, "REF-9")


def check_record(record: Any, stores: int, item_sizes: Mapping[str, int]) -> None:
    nbytes = field(record, "nbytes", int, "REF-11")
    need(0 <= nbytes <= MAX_BYTES, "REF-11")
    need(DIGEST.fullmatch(field(record, "sha256", str, "REF-11", "")), "REF-11")
    total, spans = 0, []
    regions = field(record, "regions", list, "REF-11", [])
    for region in regions:
        field(region, "tensor", str, "REF-12")
        item = item_sizes.get(field(region, "dtype", str, "REF-12"))
        need(0 <= field(region, "store", int, "REF-12", 0) < stores and item is not None, "REF-14")
        counts, strides = box_of(region)
        offset = field(region, "offset", int, "REF-12", 0)
        need(0 <= offset <= MAX_ELEMENTS, "REF-14")
        last = offset - 1
        if 0 not in counts:
            last += 1 + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True))
        need((last + 1) * (item or 0) <= nbytes, "REF-14")
        total += math.prod(counts) * (item or 0)
        if 0 not in counts and is_dense(counts, strides):
            spans.append((offset * (item or 0), (last + 1) * (item or 0)))
    need(not regions or total == nbytes, "REF-15")
    need(all(end <= start for (_, end), (start, _) in itertools.pairwise(sorted(spans))), "REF-15")


def box_of(region: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return the counts of a region's box, and their strides in the record."""
    shape = integers(region.get("shape"), "REF-12")
    need(len(shape) <= MAX_DIMENSIONS and min(shape, default=0) >= 0, "REF-14")
    need(math.prod(size or 1 for size in shape) <= MAX_ELEMENTS, "REF-14")
    counts = shape
    if (box := region.get("box")) is not None:
        need(type(box) is list, "REF-12")
        sides = [integers(side, "REF-12") for side in box]
        need(len(sides) == len(shape) and all(len(side) == 3 for side in sides), "REF-14")
        for size, (first, count, step) in zip(shape, sides, strict=True):
            need(first >= 0 and count >= 0 and step >= 1, "REF-14")
            need(count == 0 or first + (count - 1) * step < size, "REF-14")
        counts = [count for _, count, _ in sides]
    if region.get("strides") is None:
        return counts, [math.prod(max(each, 1) for each in counts[i + 1 :]) for i in range(len(counts))]
    strides = integers(region["strides"], "REF-12")
    need(len(strides) == len(shape), "REF-14")
    for count, stride in zip(counts, strides, strict=True):
        need(0 <= stride <= MAX_ELEMENTS and (stride or count <= 1), "REF-14")
    return counts, strides


def is_dense(counts: list[int], strides: list[int]) -> bool:
    step = 1
    for stride, count in sorted(each for each in zip(strides, counts, strict=True) if each[1] != 1):
        if stride != step:
            return False
        step *= count
    return True
