"""Each variant of an argument has one row, and everything that handles arguments knows it."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from inside.analysis import (
    ARGUMENT_CONTENT,
    RULES,
    References,
    argument_content,
    argument_text,
    content_bytes,
    validate,
)
from inside.bridge import arguments as bridge
from inside.evolve import FIELDS, Edits, rename_values, requirements_after, rewrite, supports
from inside.schema import to_tree

from graphwire.schema import (
    ARGUMENT_VARIANTS,
    FEATURES,
    FREQUENT_FIRST,
    INSIDE,
    TREES,
    VALUE_TABLES,
    VALUE_VARIANTS,
    VARIANTS,
    Argument,
    ArgumentKind,
    Graph,
    GraphArgument,
    GraphModule,
    GraphSignature,
    ModuleCallEntry,
    NamedArgument,
    Node,
    Program,
    Renaming,
    SchemaVersion,
    arguments_in,
    features_of,
    named_subgraphs_in,
    names_in,
    results_of,
    rewritten,
    value_name,
    variant_of,
)

TENSOR = {"as_tensor": {"name": "a"}}
LEAF = '[1, {"type": null, "context": null, "children_spec": []}]'
EMPTY: dict[str, Any] = {
    "inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
}  # fmt: skip

SAMPLES: dict[str, Any] = {
    "as_none": True,
    "as_tensor": {"name": "a"},
    "as_tensors": [{"name": "a"}, {"name": "b"}],
    "as_int": 1,
    "as_ints": [1],
    "as_float": 1.5,
    "as_floats": [1.5],
    "as_string": "text",
    "as_strings": ["text"],
    "as_sym_int": {"as_name": "a"},
    "as_sym_ints": [{"as_name": "a"}, {"as_int": 1}],
    "as_scalar_type": 7,
    "as_memory_format": 1,
    "as_layout": 7,
    "as_device": {"type": "cpu"},
    "as_bool": True,
    "as_bools": [True],
    "as_sym_bool": {"as_name": "a"},
    "as_sym_bools": [{"as_name": "a"}, {"as_bool": True}],
    "as_graph": {"name": "body", "graph": EMPTY},
    "as_optional_tensors": [{"as_none": True}, {"as_tensor": {"name": "a"}}],
    "as_custom_obj": {"name": "a", "class_fqn": "some.Class"},
    "as_operator": "torch.ops.aten.add.Tensor",
    "as_sym_float": {"as_name": "a"},
    "as_sym_floats": [{"as_name": "a"}, {"as_float": 1.5}],
    "as_optional_tensor": {"as_tensor": {"name": "a"}},
    "as_complex": {"real": 1.0, "imag": 2.0},
    "as_nested_tensors": [[{"name": "a"}], []],
    "as_int_lists": [[1], []],
    "as_string_to_argument": {"key": TENSOR},
    "as_float_lists": [[1.5], []],
    "as_sequence": {"kind": "tuple", "items": [TENSOR, {"as_int": 1}]},
    "as_mapping": [{"key": {"as_int": 1}, "value": TENSOR}],
    "as_slice": {"start": TENSOR, "stop": {"as_int": 1}, "step": {"as_none": True}},
    "as_dtype_name": "float4",
    "as_layout_name": "jagged",
    "as_constant": "graph::0.table",
    "as_treespec": LEAF,
    "as_results": "a",
    "as_range": {"start": 0, "stop": 10, "step": 3},
}
"""An argument in each variant; what it refers to is called `a`, and `b`."""

every_variant = pytest.mark.parametrize("variant", ARGUMENT_VARIANTS)


def sample(variant: str) -> Argument:
    return msgspec.convert({variant: SAMPLES[variant]}, Argument)


def program(argument: Argument) -> Program:
    """A program with one node that takes the argument."""
    node = Node("torch.ops.some.take.default", [NamedArgument("x", argument, ArgumentKind.KEYWORD)], [], {})
    module = GraphModule(Graph([], [], [node], {}, {}, {}), GraphSignature([], []), [ModuleCallEntry("")])
    return Program(module, {"aten": 10}, {}, SchemaVersion(8, 20), ["TRAINING"], "2.13.0")


def upper(argument: Argument) -> Argument:
    return rewritten(argument, Renaming(str.upper, lambda held: GraphArgument("BODY", held.graph), str.upper))


# ------------------------------------------------------------------------------------------------------------ the rows


def test_every_variant_has_one_row_and_one_sample() -> None:
    assert tuple(VARIANTS) == tuple(SAMPLES) == ARGUMENT_VARIANTS
    assert sorted(FREQUENT_FIRST) == sorted(ARGUMENT_VARIANTS)


@every_variant
def test_a_list_is_a_list_of_what_another_variant_is(variant: str) -> None:
    hints = get_type_hints(Argument)
    if single := VARIANTS[variant].items:
        (listed,) = (each for each in get_args(hints[variant]) if each is not type(None))
        (item,) = get_args(listed)
        assert item | None == hints[single]
        assert VARIANTS[variant].refers == VARIANTS[single].refers


@every_variant
def test_an_extension_has_a_name_and_torch_reads_it_nowhere(variant: str) -> None:
    row = VARIANTS[variant]
    ours = ARGUMENT_VARIANTS.index(variant) > ARGUMENT_VARIANTS.index("as_float_lists")
    assert bool(row.feature) == ours
    assert (row.argument is None) == (ours or row.resolved)
    assert not ours or FEATURES[row.feature] == row.says
    assert row.record is None or ours
    assert row.record is None or set(FIELDS[row.record]) == set(row.record.__struct_fields__)


# ------------------------------------------------------------------------------------------------- walking and renaming


@every_variant
def test_what_an_argument_refers_to_is_found(variant: str) -> None:
    refers, found = VARIANTS[variant].refers, names_in(sample(variant))
    if variant in INSIDE or refers in VALUE_TABLES:
        assert found[0] == "a"
    elif refers == "results":
        assert found == [results_of("a")]
    else:
        assert found == []
    assert [held.name for held in named_subgraphs_in(sample(variant))] == (
        ["body"] if refers == "graph" else []
    )
    assert value_name(sample(variant)) == ("a" if variant in VALUE_VARIANTS else None)
    assert variant_of(sample(variant)) == variant


@every_variant
def test_every_reference_is_renamed_and_nothing_else_changes(variant: str) -> None:
    given = sample(variant)
    assert rewritten(given, Renaming(str, lambda held: held)) is given
    assert given == sample(variant)
    if names := [name for name in names_in(given) if not name.startswith("results")]:
        assert names_in(upper(given)) == [name.upper() for name in names]
        tree = rename_values(Argument, to_tree(given), {"a": "A", "b": "B"})
        assert tree == to_tree(upper(given))
        assert to_tree(rewritten(upper(given), Renaming(str.lower, lambda held: held))) == to_tree(given)
    elif VARIANTS[variant].refers == "results":
        assert names_in(upper(given)) == [results_of("A")]
    elif VARIANTS[variant].refers == "graph":
        assert [held.name for held in named_subgraphs_in(upper(given))] == ["BODY"]
    else:
        assert upper(given) is given


@pytest.mark.parametrize("variant", INSIDE)
def test_what_is_inside_is_taken_out_and_put_back_in_records_and_trees(variant: str) -> None:
    inside, held = INSIDE[variant], SAMPLES[variant]
    taken = inside.taken(TREES, held)
    assert inside.put(TREES, held, [item for _, item in taken]) == held
    assert [step for step, _ in taken] == [step for step, _ in arguments_in(sample(variant))]
    assert [item for _, item in taken] == [to_tree(item) for _, item in arguments_in(sample(variant))]
    seen: list[str] = []
    rewrite(
        to_tree(program(sample(variant))), Edits(argument=lambda each, where: seen.append(where.path) or each)
    )
    assert len(seen) == len(taken) + 1
    assert all(f"inputs[0].arg.{variant}" in path for path in seen[:-1])


# ------------------------------------------------------------------------------------------------- who handles arguments


@every_variant
def test_the_content_hash_knows_the_variant(variant: str) -> None:
    assert set(ARGUMENT_CONTENT) == set(ARGUMENT_VARIANTS)
    found = References([], [])
    content = argument_content(sample(variant), found)
    assert content != ["nothing"]
    assert [name for _, name in found.values] == names_in(sample(variant))
    assert len(found.graphs) == len(named_subgraphs_in(sample(variant)))
    if not found.graphs:
        assert content_bytes(content)


@every_variant
def test_the_variant_is_shown(variant: str) -> None:
    assert argument_text(sample(variant)) not in ("", "?")


@every_variant
def test_validation_knows_what_the_variant_refers_to_and_requires(variant: str) -> None:
    row, found = VARIANTS[variant], validate(program(sample(variant)))
    assert (variant in RULES) >= bool(row.refers or variant in INSIDE)
    names = names_in(sample(variant)) if variant != "as_custom_obj" else []  # which may be a constant
    assert {each.kind for each in found} == ({"dangling-reference"} if names else set()) | (
        {"missing-requirement"} if row.feature else set()
    )


@every_variant
def test_the_features_of_an_argument_are_those_of_its_variants(variant: str) -> None:
    feature = VARIANTS[variant].feature
    assert list(features_of(sample(variant))) == ([feature] if feature else [])
    required = requirements_after(program(Argument(as_none=True)), program(sample(variant)))
    assert required == ([feature] if feature else [])


@every_variant
def test_a_reader_of_torch_is_given_no_extension(variant: str) -> None:
    feature = VARIANTS[variant].feature
    given = program(sample(variant))
    given.requires = [feature] if feature else []
    obstacles = supports(to_tree(given), "torch-2.13")
    refused = {each.construct for each in obstacles}
    if feature:
        assert refused == {VARIANTS[variant].says}


@every_variant
def test_the_bridge_decodes_the_variant(variant: str) -> None:
    assert variant in dict(bridge._DECODERS)
