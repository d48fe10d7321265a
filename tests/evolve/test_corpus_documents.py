"""Every document that a release of torch wrote becomes a valid one of today; each step undoes what its reverse did."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from corpus_documents import documents, histories, same, stepped_up
from inside.analysis import validate
from inside.evolve import CURRENT, RELEASES, STEPS, Step, obstacles_to, operators_down, upgrade, version_of
from inside.schema import program_from_tree
from msgspec.structs import fields
from nightly import one_in

from graphwire.errors import GraphwireError, Obstacle, SchemaError
from graphwire.schema import Graph, InputSpec, OutputSpec, Program

FILES = {
    "2.1.0": 44,
    "2.2.2": 50,
    "2.3.1": 54,
    "2.5.1": 68,
    "2.6.0": 74,
    "2.7.1": 73,
    "2.8.0": 74,
    "2.9.1": 74,
} | {
    "2.11.0": 76,
    "2.12.1": 77,
    "2.13.0": 79,
}

NOT_UNDONE = {
    "schema 1 ↔ 2": {
        "2.1.0/cond_nested_dyn": "equality constraints, which nothing reads, are dropped",
        "2.1.0/dyn_seq_arith": "the same",
        "2.1.0/item_unbacked": "an assertion that 2.1 made too strict",
        "2.1.0/nonzero_unbacked": "the same",
        "2.1.0/lifted_constant": "a constant inside the document becomes an input",
        "2.1.0/ops_scatter_embbag": "the same",
        "2.1.0/rnn_inplace_views": "the same",
    },
    "schema 5.1 ↔ 5.3": {
        name: "a module path with a comma, which 2.3 writes and cannot read"
        for name in (
            *(
                f"2.2.2/{model}"
                for model in ("conv_bn_eval", "dyn_batch", "dyn_batch_strict", "run_decomp_dyn_train")
            ),
            *(
                f"2.3.1/{model}"
                for model in ("conv_bn_eval", "dyn_batch", "dyn_batch_strict", "run_decomp_dyn_train")
            ),
        )
    },
    "schema 8.15 ↔ 8.17": {
        f"2.1.0/{model}": "a value called as later readers call the node that makes it gets another name"
        for model in ("cond_closure_params", "cond_nested_dyn", "symbool_item")
    },
    "schema 8.2 ↔ 8.7": {"2.6.0/scan_tree": "a reversed scan, which 2.7 says by flipping tensors"},
}
"""Documents that a step up changes for good, and why."""


def test_the_corpus_is_whole() -> None:
    assert Counter(release for release, _ in documents()) == FILES
    assert sum(FILES.values()) == 743


@pytest.mark.parametrize("release", FILES)
def test_every_document_becomes_a_valid_program_of_today(release: str) -> None:
    for (origin, model), document in documents().items():
        if origin == release:
            before = json.dumps(document)
            tree, steps = upgrade(document)
            assert validate(program_from_tree(tree)) == [], model
            assert version_of(tree) == CURRENT
            assert json.dumps(document) == before, f"{model} was edited in place"
            assert len(steps) >= len([step for step in STEPS if step.older >= version_of(document)]), model


@pytest.mark.parametrize("release", one_in(3, FILES))
def test_each_step_and_its_reverse_give_the_same_document(release: str) -> None:
    changed: dict[str, set[str]] = {}
    for name, step, older, newer in histories(release):
        again, obstacles = stepped_down(step, newer)
        if obstacles:
            continue
        if not same(older, again):
            changed.setdefault(step.name, set()).add(name)
        if name not in NOT_UNDONE.get(step.name, {}):
            assert same(stepped_up(step, again), newer), (name, step.name)
    expected = {
        step: {name for name in names if name.startswith(release)} for step, names in NOT_UNDONE.items()
    }
    assert changed == {step: names for step, names in expected.items() if names}


@pytest.mark.slow
def test_what_a_later_release_wrote_steps_down_to_every_version_or_is_refused_with_reasons() -> None:
    for (release, model), document in documents().items():
        if release != [*FILES][-1]:
            continue
        for version in {*RELEASES.values()}:
            tree, obstacles = obstacles_to(document, version)
            if obstacles:
                assert all(each.place and each.construct and each.first for each in obstacles)
            else:
                assert version_of(tree) == version
                upgraded, _ = upgrade(json.loads(json.dumps(tree)))
                assert validate(program_from_tree(upgraded)) == [], (model, version)


def stepped_down(step: Step, tree: Any) -> tuple[Any, list[Obstacle]]:
    obstacles: list[Obstacle] = []
    tree = operators_down(tree, step.newer, obstacles.append)
    return step.down(tree, obstacles.append), obstacles


# ---------------------------------------------------------------------------------------------------------------- unions

SPECS = {*InputSpec.__struct_fields__, *OutputSpec.__struct_fields__}
TABLES = re.compile(r"(values|constraints|metadata|version|constants|inputs_to_\w+|mutate|to_argument)$")
"""The ends of places whose keys are names."""


def unions(tree: Any, kind: str = "") -> Iterator[tuple[str, Any, str]]:
    """Each union of a tree: the kind of its place (of one kind are those of one class), itself, and its variant."""
    if isinstance(tree, list):
        for item in tree:
            yield from unions(item, f"{kind}[]")
    elif isinstance(tree, dict):
        keys = [key for key, value in tree.items() if value is not None]
        if len(keys) == 1 and (keys[0].startswith("as_") or keys[0] in SPECS):
            yield kind, tree, keys[0]
        for key, value in tree.items():
            inner = f"{kind}.{'*' if TABLES.search(kind) else key}"
            yield from unions(value, re.sub(r".*\.graph\.", "graph.", inner))


@pytest.mark.parametrize("release", one_in(3, FILES))
def test_a_union_of_two_variants_is_refused_in_every_schema(release: str) -> None:
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for (origin, _), document in documents().items():
        for kind, union, variant in unions(document) if origin == release else ():
            found.setdefault(kind, {}).setdefault(variant, (document, union))
    accepted, tried = set(), 0
    for kind, variants in found.items():
        every = list(variants)
        for index, variant in enumerate(every):
            document, union = variants[variant]
            before = dict(union)
            for other in {every[index - 1], every[(index + 1) % len(every)]} - {variant}:
                both = {variant: before[variant], other: variants[other][1][other]}
                for changed in (both, dict(reversed(both.items()))):
                    union.clear()
                    union.update({**changed, **{key: None for key in before if key not in changed}})
                    tried += 1
                    with suppress(SchemaError):
                        if not validate(program_from_tree(upgrade(document)[0])):
                            accepted.add((kind, *changed))
                    union.clear()
                    union.update(before)
    assert accepted == set()
    assert tried > 80


@pytest.mark.parametrize("release", [each for each in FILES if each >= "2.3"])
def test_fields_that_no_step_names_stay(release: str) -> None:
    """A field of the current schema, in a document of a schema without it, is read as today's: what is none is refused."""
    document = json.loads(json.dumps(next(tree for (of, _), tree in documents().items() if of == release)))
    for kind, holder in ((Program, document), (Graph, document["graph_module"]["graph"])):
        for field in (
            {each.name for each in fields(kind)} - holder.keys() - {"verifiers", "torch_version"}
        ):  # HIS-22
            holder[field] = 0.5
            with pytest.raises(GraphwireError):
                program_from_tree(upgrade(document)[0])
            del holder[field]
    program_from_tree(upgrade(document)[0])
