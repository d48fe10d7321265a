"""What `inspect --nodes` lists."""

from __future__ import annotations

from typing import Any

import pytest
from inside.analysis import argument_text
from inside.cli import node_texts

from graphwire.schema import (
    Argument,
    ComplexValue,
    Device,
    Graph,
    GraphArgument,
    Layout,
    MappingEntry,
    NamedArgument,
    Node,
    OptionalTensorArgument,
    RangeValue,
    ScalarType,
    SequenceValue,
    SliceValue,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

_X = Argument(as_tensor=TensorArgument("x"))
_NONE = Argument(as_none=True)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (_NONE, "None"),
        (Argument(as_bool=True), "True"),
        (Argument(as_int=1 << 20000), "a number of 20001 bits"),
        (Argument(as_string="None"), "'None'"),
        (Argument(as_optional_tensors=[OptionalTensorArgument(as_none=True)]), "[None]"),
        (Argument(as_sym_ints=[SymIntArgument(as_name="s"), SymIntArgument(as_int=2)]), "[s, 2]"),
        (Argument(as_sequence=SequenceValue("tuple", [_X, _NONE])), "(x, None)"),
        (Argument(as_mapping=[MappingEntry(Argument(as_int=1), _X)]), "{1: x}"),
        (Argument(as_slice=SliceValue(_NONE, Argument(as_int=3), _NONE)), "slice(None, 3, None)"),
        (Argument(as_range=RangeValue(0, 4, 2)), "range(0, 4, 2)"),
        (Argument(as_complex=ComplexValue(1.0, "Infinity")), "(1+infj)"),
        (Argument(as_float="-Infinity"), "-inf"),
        (Argument(as_floats=["NaN", 1e-05]), "[nan, 1e-05]"),
        (Argument(as_sym_float=SymFloatArgument(as_float="Infinity")), "inf"),
        (Argument(as_optional_tensor=OptionalTensorArgument(as_none=False)), "None"),
        (Argument(as_device=Device("cuda", 1)), "cuda:1"),
        (Argument(as_scalar_type=ScalarType.FLOAT), "float32"),
        (Argument(as_layout=Layout.SparseCoo), "SparseCoo"),
        (Argument(as_strings=["None", "a"]), "['None', 'a']"),
        (Argument(as_results="split"), "split"),
        (Argument(), "?"),
    ],
)
def test_an_argument_reads_as_what_it_is(argument: Argument, text: str) -> None:
    assert argument_text(argument) == text


def _graph(*arguments: Argument) -> Graph:
    inputs = [NamedArgument("", argument) for argument in arguments]
    return Graph([], [], [Node("t", inputs, [], {})], {}, {}, {})


def test_subgraphs_inside_containers_are_listed() -> None:
    def inside(name: str) -> Argument:
        return Argument(as_graph=GraphArgument(name, _graph(_X)))

    sequence: Any = Argument(as_sequence=SequenceValue("list", [inside("b"), inside("c")]))
    mapping = Argument(as_mapping=[MappingEntry(Argument(as_int=1), inside("d"))])
    texts = list(
        node_texts(_graph(inside("a"), sequence, mapping, Argument(as_string_to_argument={"k": inside("e")})))
    )
    assert [each.graph for each in texts] == ["", "a", "b", "c", "d", "e"]
    assert texts[0].inputs == "a, [b, c], {1: d}, {k: e}"
