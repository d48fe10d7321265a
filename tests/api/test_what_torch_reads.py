"""What we call readable, torch's own reader reads, and reads the same; what we refuse, it does not read."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from documents_for_torch import (
    PLACES,
    Tree,
    base,
    call,
    obstacles_and_file,
    picture,
    read_by_torch,
    tensor,
    with_nodes,
)
from inside.evolve import first_reader, supports
from inside.schema import program_from_tree
from this_torch import RELEASE

import graphwire
from graphwire.schema import ARGUMENT_VARIANTS

TARGET = f"torch-{RELEASE[0]}.{RELEASE[1]}"

WITHOUT_ITS_VALUE = frozenset({"as_custom_obj"})
"""Variants whose value a document made by hand cannot have; `tests/constructs` has real ones."""

NOT_AS_IT_IS = frozenset({"as_sequence", "as_optional_tensor"})
"""Variants that a target's steps say otherwise; in a file as it is, torch reads them nowhere."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a graph has an argument that generated code cannot express")
@pytest.mark.parametrize("place", PLACES)
def test_a_variant_in_a_place_is_read_where_there_is_no_obstacle_and_not_where_there_is(place: str) -> None:
    for variant in sorted({*ARGUMENT_VARIANTS} - WITHOUT_ITS_VALUE):
        tree = PLACES[place](base(), variant)
        obstacles, data = obstacles_and_file(tree, TARGET)
        theirs = read_by_torch(data)
        assert (theirs is None) == bool(obstacles), f"{variant} as {place}: {obstacles}"
        # What calls of modules take is in no node.
        if theirs is not None and place != "call of a module":
            assert picture(theirs) == picture(graphwire.loads(data)), f"{variant} as {place}"


@pytest.mark.parametrize("place", PLACES)
def test_the_first_reader_of_a_file_is_the_oldest_release_from_which_on_nothing_is_in_the_way(
    place: str,
) -> None:
    """The note is made of records, obstacles are found in trees: both ask one table."""
    releases = ["torch-2.9", "torch-2.10", "torch-2.11", "torch-2.12"]
    for variant in sorted({*ARGUMENT_VARIANTS} - NOT_AS_IT_IS):
        tree = PLACES[place](base(), variant)
        noted = first_reader(program_from_tree(tree), is_json=True)
        free = [release for release in releases if not supports(tree, release)]
        expected = "graphwire-0.1" if not free else free[0]
        assert noted == expected, f"{variant} as {place}"
        assert free == releases[len(releases) - len(free) :]


NAMES = (
    *("_operator.abs", "_operator.add", "_operator.index", "_operator.xor", "builtins.round", "builtins.max"),
    *("math.ceil", "math.sqrt", "torch.sym_max", "torch.sym_sum", "torch._sym_sqrt", "torch._sym_cos"),
    *("torch._C._set_grad_enabled", "torch.amp.autocast_mode._enter_autocast", "acme:own", "torch.acme.own"),
    *("torch.ops.aten.mul.Tensor", "torch.ops.aten.mul", "torch.ops.higher_order.cond"),
    "torch.ops.higher_order.triton_kernel_wrapper_functional",
)


@pytest.mark.skipif(RELEASE < (2, 13), reason="an older torch finds fewer by their names")
@pytest.mark.parametrize("name", NAMES)
def test_an_operator_is_read_where_torch_s_reader_finds_it_by_its_name(name: str) -> None:
    higher_order = name.startswith(("torch.ops.higher_order", "torch._C", "torch.amp"))
    named = (("", "") if higher_order else ("self", "other")) if name.startswith("torch.ops") else ("a", "b")
    number = not name.startswith(("torch.ops", "torch._C", "torch.amp", "acme", "torch.acme"))
    given = {"as_sym_int": {"as_name": "n"}} if number else tensor("y")
    given = (
        {"as_bool": True} if name.startswith("torch._C") else {"as_string": "cpu"} if "amp" in name else given
    )
    count = 2 if name.rsplit(".", maxsplit=1)[-1] in ("add", "xor", "max", "sym_max", "Tensor", "mul") else 1
    tree = base()
    graph = tree["graph_module"]["graph"]
    if number:
        graph["sym_int_values"] = {**graph["sym_int_values"], "made": graph["sym_int_values"]["n"]}
        output: Tree = {"as_sym_int": {"as_name": "made"}}
    else:
        output = {"as_none": True} if given.keys() & {"as_bool", "as_string"} else tensor("made")
    inputs = [(parameter, given) for parameter in named[:count]]
    tree = with_nodes(tree, call(name, "made", inputs, [output], True if higher_order else None))
    obstacles, data = obstacles_and_file(tree, TARGET)
    assert (read_by_torch(data) is None) == bool(obstacles), obstacles
    assert {each.first for each in obstacles} <= {"graphwire"}


def test_arguments_that_are_passed_by_position_without_names_are_refused() -> None:
    """As drafts have them. torch's reader looks an operator's arguments up by the names of its parameters."""
    given = [("", tensor("y")), ("", tensor("y"))]
    tree = with_nodes(base(), call("torch.ops.aten.mul.Tensor", "made", given, [tensor("made")]))
    obstacles, data = obstacles_and_file(tree, TARGET)
    assert [each.construct for each in obstacles] == [
        "inputs of torch.ops.aten.mul.Tensor without their names"
    ]
    assert read_by_torch(data) is None
    assert first_reader(program_from_tree(tree), is_json=True) == "graphwire-0.1"
