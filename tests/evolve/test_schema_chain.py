"""The chain has no gap, and says what it cannot do."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from corpus_documents import documents
from inside.evolve import (
    CURRENT,
    RELEASES,
    STEPS,
    TARGETS,
    VARIANTS,
    chain,
    downgrade,
    obstacles_by_target,
    supports,
    target_named,
    upgrade,
    version_of,
)
from inside.schema import program_from_tree

from graphwire.errors import (
    EncodeError,
    SchemaError,
    SchemaVersionError,
    TargetError,
    UnsupportedFeatureError,
)
from graphwire.schema import DRAFT, Version


def test_each_step_begins_where_the_one_before_ends() -> None:
    for before, after in itertools.pairwise(STEPS):
        assert before.newer == after.older
    assert STEPS[0].older == DRAFT
    assert STEPS[-1].newer == CURRENT
    assert {step.older for step in STEPS} | {CURRENT} >= set(RELEASES.values())


@pytest.mark.parametrize("start", [step.older for step in (*STEPS, *VARIANTS)], ids=str)
def test_a_plan_leads_from_every_version_to_today_and_back(start: Version) -> None:
    steps = chain.plan(start, CURRENT)
    assert steps[0].older == start
    assert steps[-1].newer == CURRENT
    assert chain.plan(CURRENT, start) == steps[::-1]


def test_a_plan_to_the_same_version_is_empty() -> None:
    assert chain.plan(CURRENT, CURRENT) == []


def test_versions_spell_themselves() -> None:
    assert [str(v) for v in (DRAFT, Version(1), Version(5, 3), Version(5, 3, "compact"))] == [
        "draft-2022",
        "1",
        "5.3",
        "compact-5.3",
    ]


@pytest.mark.parametrize("stamp", [3, 9, {"major": 9, "minor": 0}, {"major": 6, "minor": 1}])
def test_another_major_is_refused(stamp: object) -> None:
    with pytest.raises(SchemaVersionError, match="is not supported"):
        upgrade({"graph_module": {}, "schema_version": stamp})


@pytest.mark.parametrize(
    "tree", [None, [], {}, {"schema_version": None}, {"schema_version": "8.20"}, {"schema_version": True}]
)
def test_what_says_no_version_is_refused(tree: object) -> None:
    with pytest.raises(SchemaError):
        upgrade(tree)


def test_a_newer_minor_is_taken_as_it_is() -> None:
    tree = {**documents()["2.13.0", "linear"], "schema_version": {"major": 8, "minor": 99}, "novelty": 1}
    assert upgrade(tree) == (tree, [])


def test_a_newer_minor_that_requires_something_unknown_is_refused_by_name() -> None:
    tree = {
        **documents()["2.13.0", "linear"],
        "schema_version": {"major": 8, "minor": 99},
        "requires": ["novelty"],
    }
    with pytest.raises(UnsupportedFeatureError, match="novelty"):
        program_from_tree(upgrade(tree)[0])


def test_a_minor_between_two_releases_is_read_as_the_one_before() -> None:
    tree = {**documents()["2.9.1", "linear"], "schema_version": {"major": 8, "minor": 16}}
    assert version_of(upgrade(tree)[0]) == CURRENT


def test_a_damaged_document_is_refused_as_such() -> None:
    with pytest.raises(SchemaError, match="does not match schema 1"):
        upgrade({"schema_version": 1, "graph_module": {"graph": {"nodes": [3]}}})


def test_the_steps_are_told() -> None:
    _, steps = upgrade(documents()["2.1.0", "map"])
    assert str(steps[0]) == "schema 1 → 2"
    assert "operator higher_order.map_impl in the form of 5.1" in map(str, steps)


def test_every_release_is_a_target_with_its_layout() -> None:
    found = [TARGETS[f"torch-{release}"].layout for release in RELEASES]
    assert found[:8] == ["A1", "A2", "A3", "A4", "A4", "A4", "A4", "B1"]
    assert set(found[8:]) == {"B2"}
    assert {str(step.older) for step in (*STEPS, *VARIANTS)} <= set(TARGETS)


def test_every_release_has_the_names_that_people_give_it() -> None:
    for release in RELEASES:
        names = [f"{before}{release}{after}" for before in ("", "torch-") for after in ("", ".0", ".1+cu126")]
        assert {target_named(name) for name in names} == {TARGETS[f"torch-{release}"]}
    assert target_named("8.14") == target_named("schema-8.14") == TARGETS["8.14"]
    assert {each.group for each in TARGETS.values()} == {"release", "schema", "draft"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("9.9", f"torch-{[*RELEASES][-1]}"),
        ("torch-3.0", f"torch-{[*RELEASES][-1]}"),
        ("1.13.1", "torch-2.1"),
        ("tosch-2.6", "torch-2.6"),
        ("8.16", "8.1"),
        ("draft-2021", "draft-2022"),
        ("9" * 5000 + ".1", "torch-2"),
        ("foo", ""),
        (2.6, ""),
    ],
)
def test_an_unknown_target_is_refused_with_the_nearest_ones(name: Any, near: str) -> None:
    with pytest.raises(SchemaVersionError) as caught:
        target_named(name)
    assert near in caught.value.remedy
    assert ("Did you mean" in caught.value.remedy) is bool(near)
    assert "the releases 2.1 to " in caught.value.remedy
    assert str(caught.value.of("a.pt2", "models/model.json")).startswith(caught.value.problem)


def test_all_obstacles_are_named_at_once_with_the_first_target_that_has_none() -> None:
    tree, _ = upgrade(documents()["2.13.0", "dyn_symfloat_math"])
    obstacles = supports(tree, "torch-2.5")
    assert len(obstacles) > 5
    assert {each.first for each in obstacles} == {"torch-2.6"}
    with pytest.raises(TargetError, match="a symbolic float") as caught:
        downgrade(tree, Version(7, 3))
    assert isinstance(caught.value, EncodeError)
    assert caught.value.obstacles == tuple(obstacles)


_RELEASES = [name for name in TARGETS if name.startswith("torch-")]


def _releases_that_read(tree: dict[str, Any]) -> list[str]:
    obstacles = obstacles_by_target(tree)
    return [name for name in _RELEASES if not obstacles[name]]


@pytest.mark.parametrize(
    ("model", "oldest"),
    [
        ("linear", "torch-2.1"),
        ("scan", "torch-2.6"),
        ("invoke_subgraph", "torch-2.7"),
        ("complex_scalar", "torch-2.9"),
    ],
)
def test_the_oldest_target_of_a_program(model: str, oldest: str) -> None:
    possible = _releases_that_read(documents()["2.13.0", model])
    assert possible == _RELEASES[_RELEASES.index(oldest) :]


def test_for_torch_2_1_a_size_that_only_a_run_knows_is_two_at_least() -> None:
    """It writes so itself, and fails on what later releases write."""
    document = documents()["2.3.1", "nonzero_unbacked"]
    assert {limits["min_val"] for limits in document["range_constraints"].values()} == {0}
    tree, _ = upgrade(document)
    ranges = downgrade(tree, Version(1))["range_constraints"]
    assert {name for name, limits in ranges.items() if limits == {"min_val": 2, "max_val": 6}} == {"i8", "i9"}
    assert {limits["max_val"] for limits in ranges.values()} == {6}
    ranges = downgrade(tree, Version(2))["range_constraints"]
    assert {limits["min_val"] for limits in ranges.values()} == {0}


def test_a_text_as_output_has_no_target_since_no_release_reads_it() -> None:
    assert _releases_that_read(documents()["2.13.0", "const_inputs_echo"]) == []


def test_a_truth_value_that_torch_2_5_wrote_as_an_integer_is_one() -> None:
    document = documents()["2.5.1", "const_inputs_echo"]
    specs = copy.deepcopy(document["graph_module"]["signature"]["input_specs"])
    (constant,) = [spec["constant_input"] for spec in specs if "constant_input" in spec][:1]
    constant["value"] = {"as_int": True}
    signature = {**document["graph_module"]["signature"], "input_specs": specs}
    tree, _ = upgrade({**document, "graph_module": {**document["graph_module"], "signature": signature}})
    (found,) = [
        spec["constant_input"]["value"]
        for spec in tree["graph_module"]["signature"]["input_specs"]
        if spec.get("constant_input", {}).get("name") == constant["name"]
    ]
    assert found == {"as_bool": True}
