"""The conformance suite is current, small and complete, and graphwire itself passes it."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faulty_reader
import msgspec
import pytest
import torch
from inside.api import PARTS, failures, first_difference, neutral, refusal, run_suite, suite_cases
from loaded_modules import assert_same_module
from nightly import IS_NIGHTLY, by_day
from rule_cases import problems, texts_of_rules
from torch.utils import _pytree as pytree
from torch_construction import assert_made_as_by_torch

import graphwire
from graphwire import schema
from graphwire.errors import ArchiveError, GraphwireError
from graphwire.schema import ArgumentKind, Layout, MemoryFormat, ScalarType

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
CASES = suite_cases(SUITE)
GRAPHWIRE = (sys.executable, "-m", "graphwire", "neutral")


@pytest.mark.nightly
@pytest.mark.slow
def test_the_files_are_what_the_script_makes() -> None:
    sample = [] if IS_NIGHTLY else ["--only", "payloads/c"]
    command = [sys.executable, str(SUITE / "make.py"), "--check", *sample]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_the_suite_is_small_and_large_enough() -> None:
    files = [path for path in SUITE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 4 << 20
    assert len({case.file for case in CASES}) == len(CASES) > 400
    assert {part for case in CASES for part in case.needs} <= set(PARTS)


def rules_of_readers() -> dict[str, bool]:
    """Every rule of the specification by number: whether it tells what a reader must do."""
    return {rule: MUST.search(text) is not None for rule, text in texts_of_rules().items()}


MUST = re.compile(r"[Rr]eader[^.]{0,60}must|must be refused|must refuse|must accept|must ignore")

UNSEEN = (
    # What a reader must not do, or does with a program that it runs, changes or writes: neutral JSON does not show it.
    "ARC-28 EXP-8 EXP-11 EXP-23 EXT-13 EXT-15 GRA-35 GRA-48 GRA-67 GRA-74 PAY-25 PAY-30 PAY-32 SIG-16 SIG-17 VER-9"
    # Rules about rules, and for each reader's own security.
    " GEN-4 NEU-2 GEN-5 GEN-7 GEN-8 SEC-1 SEC-2 SEC-3 SEC-5 SEC-6 SEC-8 SEC-9 SEC-10 SEC-11 SEC-12 SEC-15 VER-1 VER-2"
    # Of readers that rebuild containers, decode codecs or interpret metadata.
    " PAY-27 PAY-29 TSP-13 TSP-19 TSP-24 TSP-25"
).split()
"""The rules for readers that no file tries."""


def test_rules_and_files_fit() -> None:
    assert list(problems()) == []


def test_every_rule_for_readers_has_a_file_or_cannot_have_one() -> None:
    tried = {rule for case in CASES for rule in case.rules}
    untried = {rule for rule, is_for_readers in rules_of_readers().items() if is_for_readers} - tried
    assert untried == set(UNSEEN), "add a file for a new rule, or list it in UNSEEN"


def test_graphwire_reads_every_file_as_it_must(tmp_path: Path) -> None:
    wrong = []
    for number, case in enumerate(CASES):
        path = SUITE / case.file
        if case.hex is not None:
            path = tmp_path / f"{number}{path.suffix}"
            path.write_bytes(bytes.fromhex(case.hex))
        try:
            found = json.loads(neutral(path))
        except GraphwireError as error:
            found = None
            if case.classes and refusal(error) not in case.classes:
                wrong.append(f"{case.file}: {refusal(error)} is none of {case.classes}: {error}")
            if case.valid:
                wrong.append(f"{case.file}: {error}")
        if not case.valid and found is not None:
            wrong.append(f"{case.file}: accepted")
        elif case.valid and found is not None:
            beside = path.with_suffix(".expected.json")
            expected = json.loads(beside.read_bytes()) if case.hex is None else {"tree": case.tree}
            if problem := first_difference(expected, found, PARTS):
                wrong.append(f"{case.file}: {problem}")
    assert wrong == []


@pytest.mark.slow
def test_what_loads_has_the_nodes_and_the_code_that_torch_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = 0
    for case in CASES:
        if case.valid and case.hex is None:
            load = functools.partial(graphwire.load, SUITE / case.file, unknown_ops="opaque")
            with warnings.catch_warnings(action="ignore"):
                try:
                    load()
                except GraphwireError:  # a valid file may need plugins or types that are not here
                    continue
                assert_made_as_by_torch(load, monkeypatch)
            loaded += 1
    assert loaded > 250


def test_the_same_program_prints_the_same_in_each_wire_format() -> None:
    formats = SUITE / "valid/formats"
    names = {path.name.partition(".")[0].rpartition("_")[0] for path in formats.iterdir()}
    for name in names:
        one, *others = [
            (formats / f"{name}_{each}.expected.json").read_bytes() for each in ("json", "msgpack", "cbor")
        ]
        assert others == [one, one], name


def test_spellings_of_one_program_have_one_hash_and_others_do_not() -> None:
    rows = json.loads((SUITE / "hashes.json").read_bytes())["programs"]
    by_name = {Path(row["file"]).stem: row for row in rows if "/hashes/" in row["file"]}
    base = by_name.pop("base")
    same = {name for name, row in by_name.items() if row["gw1"] == base["gw1"]}
    assert same == {name for name in by_name if name.startswith("same_")}
    assert {row["gw1"][:4] + row["gw1w"][:5] for row in rows} == {"gw1:gw1w:"}


@pytest.mark.nightly
@pytest.mark.parametrize("only", [""] if IS_NIGHTLY else ["documents/simple", "trees/tags"])
def test_graphwire_passes_as_any_other_reader(only: str) -> None:
    results = run_suite(SUITE, GRAPHWIRE, only=only, jobs=2)
    assert results
    assert [(each.case.file, each.problem) for each in failures(results)] == []


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ('"ARC-20"', ""),
        ('"archive"', ""),
        ("null", ""),
        ('"weights"', "because of 'weights', which is none of ARC-20, archive"),
        ('"HIS-1"', "because of 'HIS-1'"),
        ("[]", r"because of \[\]"),
    ],
)
def test_a_reason_for_a_refusal_is_one_of_the_case(reason: str, problem: str) -> None:
    text = f'{{"refused": {reason}}}'
    command = (sys.executable, "-S", "-c", f"print({text!r}); raise SystemExit(1)")
    [result] = run_suite(SUITE, command, only="invalid/archives/name_twice.pt2")
    assert re.search(problem, result.problem) if problem else result.problem == ""


def test_a_folder_without_a_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="not a conformance suite"):
        suite_cases(tmp_path)


@pytest.fixture(scope="module")
def faults() -> dict[str, list[tuple[str, list[str]]]]:
    """The files that find each fault, with their rules."""
    command = [sys.executable, faulty_reader.__file__, str(SUITE), *(["--whole"] if IS_NIGHTLY else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("fault", faulty_reader.FAULTS)
def test_the_suite_finds_a_fault_in_a_reader(
    fault: str, faults: dict[str, list[tuple[str, list[str]]]]
) -> None:
    _, _, rule = faulty_reader.FAULTS[fault]
    assert faults[fault], "no file finds it"
    assert rule in {each for _, rules in faults[fault] for each in rules}


def test_the_suite_has_every_field_variant_enumeration_and_extension() -> None:
    keys: set[str] = set()
    texts: set[str] = set()
    for path in [*SUITE.glob("valid/*/*.expected.json"), *SUITE.glob("given/*.expected.json")]:
        rest = [json.loads(path.read_bytes())]
        while rest:
            value = rest.pop()
            if isinstance(value, dict):
                keys |= set(value)
                rest += value.values()
            elif isinstance(value, list):
                rest += value
            elif isinstance(value, str):
                texts.add(value)
    records = [
        each for each in vars(schema).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)
    ]
    fields = {
        f"{each.__name__}.{name}"
        for each in records
        if each not in (schema.Held, schema.Inside, schema.Renaming)
        for name in each.__struct_fields__
        if name not in keys
    }
    assert fields == {"PayloadConfig.config"}  # whose content is the tables of payloads
    members = {member.name for kind in (ScalarType, Layout, MemoryFormat, ArgumentKind) for member in kind}
    assert members - texts <= {"Unknown"}
    assert set(schema.FEATURES) <= texts


@pytest.mark.nightly
def test_a_module_is_refused_where_a_program_is(tmp_path: Path) -> None:
    files = [SUITE / case.file for case in CASES if case.hex is None and case.valid]
    differ = [
        "formats/signature",
        "values/layouts",
        "expressions/integer",
        "names_of_removed",
        "module_calls",
    ]
    tried = [path for path in files if any(each in path.as_posix() for each in differ)]
    tried += files[:: by_day(40, by_night=1)]
    outcomes = {
        path.name: (_refusal(graphwire.load, path), _refusal(graphwire.load_module, path)) for path in tried
    }
    assert {name: both for name, both in outcomes.items() if both[0] != both[1]} == {}
    assert sum(one is not None for one, _ in outcomes.values()) >= len(differ)


@pytest.mark.nightly
def test_a_module_is_that_of_the_program() -> None:
    """But for sizes that torch cannot solve for their symbol, and refuses with every call; and buffers that are no tensors."""
    others = re.compile(r"expressions/|payloads_|payloads/constants|values/(sparse|dtype_name)")
    files = [SUITE / each.file for each in CASES if each.hex is None and each.valid]
    tried = [path for path in files if not others.search(path.as_posix())][:: by_day(40, by_night=1)]
    compared = 0
    with warnings.catch_warnings(action="ignore"):
        for path in tried:
            try:
                module = graphwire.load_module(path)
            except GraphwireError:  # a valid file may need plugins or types that are not here
                continue
            leaves = [_example(node.meta.get("val")) for node in module.graph.find_nodes(op="placeholder")]
            args, kwargs = pytree.tree_unflatten(leaves, module._in_spec)
            assert_same_module(path, args, kwargs, violations=by_day(5, by_night=200))
            compared += 1
    assert compared > by_day(3, by_night=150)


def _example(value: Any) -> Any:
    """An argument that a description of an input fits."""
    if isinstance(value, torch.Tensor):
        return torch.ones([_example(size) for size in value.shape], dtype=value.dtype)
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return type(value.node.pytype(4))(value.node.hint or 4)
    return value


def _refusal(load: Callable[[Path], object], path: Path) -> str | None:
    """The error; None also for names that only a module cannot have."""
    with warnings.catch_warnings(action="ignore"):
        try:
            load(path)
        except GraphwireError as error:
            return None if "cannot be an attribute" in error.problem else f"{type(error).__name__}: {error}"
    return None
