"""Readers with one fault each, which the conformance suite finds: `faulty_reader.py SUITE [--whole]`.

Each is graphwire with one function replaced by what somebody's first reader does.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from typing import Any

import msgspec

from graphwire.analysis import neutral as records, neutral as tagged_trees, neutral as texts
from graphwire.api import conformance as command
from graphwire.api.conformance import PARTS, _problem, suite_cases
from graphwire.errors import GraphwireError
from graphwire.schema.texts.operations import Expression
from graphwire.wire import package_reader
from graphwire.wire.archive import directory, reader
from graphwire_plugins import cbor_format as cbor, json_format as json, msgpack_format as packed

FAULTS: dict[str, tuple[Callable[[], None], str, str]] = {}
"""By name: what plants the fault, and the files that find it: a text in the names of files, and one of the rules."""


def fault(only: str, rule: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(plant: Callable[[], None]) -> Callable[[], None]:
        FAULTS[plant.__name__] = plant, only, rule
        return plant

    return add


def _replace(module: Any, name: str, made: Callable[[Any], Any]) -> None:
    setattr(module, name, made(getattr(module, name)))


@fault("payloads/transposed", "PAY-9")
def ignores_strides() -> None:
    def contiguous(digest: Any) -> Any:
        def of(record: memoryview, meta: Any) -> str:
            sizes = [size.as_int for size in meta.sizes]
            strides, step = [], 1
            for size in reversed(sizes):
                strides.append(type(meta.sizes[0])(as_int=step))
                step *= size
            return digest(record, msgspec.structs.replace(meta, strides=strides[::-1]))

        return of

    _replace(command, "digest_of_elements", contiguous)


@fault("payloads/offset", "PAY-9")
def counts_the_offset_in_bytes() -> None:
    def shifted(digest: Any) -> Any:
        def of(record: memoryview, meta: Any) -> str:
            offset = type(meta.storage_offset)(as_int=meta.storage_offset.as_int // 4)
            return digest(record, msgspec.structs.replace(meta, storage_offset=offset))

        return of

    _replace(command, "digest_of_elements", shifted)


@fault("payloads/big_endian", "ARC-25")
def ignores_the_byte_order() -> None:
    from graphwire.wire import package_reader as layouts

    layouts.SwappedRecord = lambda record, width: record  # type: ignore[attr-defined,misc,assignment]


@fault("trees/not_duplicate_keys.json", "TREE-6")
def keeps_the_last_of_two_keys() -> None:
    json.lost_a_key = lambda tree, data: False  # type: ignore[assignment]


@fault("formats/requires_json", "VER-7")
def drops_unknown_extensions() -> None:
    def without(read: Any) -> Any:
        def of(*arguments: Any) -> Any:
            found = read(*arguments)
            if isinstance(found, dict):
                found.pop("requires", None)
            else:
                found.requires = []
            return found

        return of

    _replace(package_reader, "read_document", without)
    _replace(package_reader, "read_program_or_tree", without)


@fault("trees/dict_order.json", "TREE-7")
def sorts_dicts() -> None:
    _replace(tagged_trees, "tagged", lambda tagged: lambda tree: tagged(_sorted(tree)))
    command.tagged = tagged_trees.tagged  # type: ignore[attr-defined]


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _sorted(tree[key]) for key in sorted(tree)}
    return [_sorted(item) for item in tree] if isinstance(tree, list) else tree


@fault("archives/crc_of_a_stored", "ARC-15")
def ignores_checksums() -> None:
    reader._check = lambda entry, crc: None  # type: ignore[assignment]


@fault("archives/name_twice", "ARC-20")
def takes_the_last_of_two_records() -> None:
    def without_duplicates(read: Any) -> Any:
        def of(*arguments: Any) -> Any:
            try:
                return read(*arguments)
            except GraphwireError as error:
                if "two records" in str(error):
                    sys.exit(0)
                raise

        return of

    _replace(directory, "read_directory", without_duplicates)
    reader.read_directory = directory.read_directory  # type: ignore[attr-defined]


@fault("trees/floats.cbor", "TREE-3")
def loses_the_sign_of_zero() -> None:
    _replace(tagged_trees, "hex_float", lambda shown: lambda value: shown(value + 0.0))


@fault("trees/integers_at_every_width.json", "TREE-2")
def rounds_integers_to_doubles() -> None:
    def rounded(scalar: Any) -> Any:
        return lambda value: scalar(
            int(float(value)) if type(value) is int and abs(value) < 2**1000 else value
        )

    for module in (tagged_trees, records, texts):
        _replace(module, "scalar", rounded)


@fault("trees/negative_integer_as_an_extension", "TREE-17")
def reads_extensions_unsigned() -> None:
    packed._decode_big_int = lambda code, data: int.from_bytes(data, "big")  # type: ignore[assignment]


@fault("trees/not_extension_of_a_small", "TREE-17")
def reads_any_extension() -> None:
    packed._decode_big_int = lambda code, data: int.from_bytes(data, "big", signed=True)  # type: ignore[assignment]


@fault("trees/float_of_16_bits", "TREE-23")
def reads_small_floats_as_integers() -> None:
    def half(decode: Any) -> Any:
        def of(self: Any, data: bytes, containers: int) -> Any:
            return _as_bits(decode(self, data, containers))

        return of

    _replace(cbor.CborFormat, "_load", half)


def _as_bits(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _as_bits(item) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_as_bits(item) for item in tree]
    return struct.unpack("<q", struct.pack("<d", tree))[0] if isinstance(tree, float) else tree


@fault("trees/integer_and_float", "TREE-11")
def reads_whole_floats_as_integers() -> None:
    def whole(scalar: Any) -> Any:
        return lambda value: scalar(int(value) if isinstance(value, float) and value.is_integer() else value)

    _replace(tagged_trees, "scalar", whole)


@fault("infix/difference", "EXP-17")
def groups_sums_to_the_right() -> None:
    def grouped(form: Any) -> Any:
        def of(expression: Expression) -> Any:
            head, args = expression
            if head == "Add" and len(args) > 2:
                return form(Expression(head, (args[0], Expression(head, args[1:]))))
            return form(expression)

        return of

    _replace(texts, "_expression", grouped)


@fault("guards/negative", "NEU-13")
def folds_signs_in_guards() -> None:
    def folded(form: Any) -> Any:
        def of(operator: Any, *operands: Any) -> Any:
            made = form(operator, *operands)
            if made["op"] == "-" and len(made["args"]) == 1 and "int" in made["args"][0]:
                return {"int": f"-{made['args'][0]['int']}"}
            return made

        return of

    _replace(texts, "_operation", folded)


# -------------------------------------------------------------------------------------------------------------- running


def found_by(suite: Path, fault: str, whole: bool) -> list[tuple[str, list[str]]]:
    """Plant a fault in this process, and return the files that find it, each with its rules.

    Args:
        whole: whether to try every file of the suite.
    """
    plant, only, _ = FAULTS[fault]
    cases = [case for case in suite_cases(suite) if whole or only in case.file]
    plant()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            path = suite / case.file
            if case.hex is not None:
                path = Path(scratch, f"tree{path.suffix}")
                path.write_bytes(bytes.fromhex(case.hex))
            code, output = _read(path)
            ended = subprocess.CompletedProcess([], code, output, b"")
            if _problem(suite, case, ended, PARTS):
                found.append((case.file, list(case.rules)))
    return found


def _read(path: Path) -> tuple[int, bytes]:
    try:
        return 0, command.neutral(path)
    except GraphwireError:
        return 1, b""
    except (Exception, SystemExit):
        return 2, b""


def main() -> None:
    """Print the files that find each fault. Each fault is planted in a process of its own."""
    suite, whole = Path(sys.argv[1]), "--whole" in sys.argv
    results = {}
    for fault in FAULTS:
        reader_end, writer_end = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(writer_end, "w") as stream:
                stream.write(dumps(found_by(suite, fault, whole)))
            os._exit(0)
        os.close(writer_end)
        with os.fdopen(reader_end) as stream:
            results[fault] = loads(stream.read() or "[]")
        os.waitpid(child, 0)
    print(dumps(results))


if __name__ == "__main__":
    main()
