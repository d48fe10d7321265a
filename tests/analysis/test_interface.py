"""The interface in a summary: arguments and results as the program's author wrote them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass

import msgspec
import pytest
import torch
from inside.analysis import summarize
from torch.export import Dim, export

import graphwire
from graphwire.cli import main

Spot = namedtuple("Spot", "x y")
torch.utils._pytree._register_namedtuple(Spot, serialized_type_name="test_interface.Spot")


@dataclass
class Scores:
    best: torch.Tensor
    second: torch.Tensor | None


torch.export.register_dataclass(Scores, serialized_type_name="test_interface.Scores")


class Model(torch.nn.Module):
    def forward(self, tokens, batch, *rest, scale, at):
        logits = tokens * scale + batch["mask"]
        return {
            "logits": logits,
            "scores": Scores(logits + 1, None),
            "sizes": [logits.shape[0] * 2, None, "text"],
            "at": Spot(at.x, at.y + rest[0]),
            3: OrderedDict(a=(logits - 1,)),
            "more": defaultdict(list, k=logits - 2),
        }


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    rows = Dim("rows", min=2, max=64)
    args = (torch.ones(3, 5), {"mask": torch.ones(3, 5)}, torch.ones(2))
    shapes = {
        "tokens": {0: rows},
        "batch": {"mask": {0: rows}},
        "rest": (None,),
        "at": Spot(None, None),
        "scale": None,
    }
    kwargs = {"at": Spot(torch.ones(1), torch.ones(2)), "scale": 3}
    return export(Model(), args, kwargs, dynamic_shapes=shapes)


def test_arguments_and_results_have_the_names_of_the_author(program):
    interface = summarize(graphwire.to_schema(program)[0]).interface
    assert dict(interface.arguments()) == {
        "tokens": "float32 [tokens.shape[0], 5]",
        "batch": '{"mask": float32 [tokens.shape[0], 5]}',
        "rest_0": "float32 [2]",
        "at=": "Spot(x=float32 [1], y=float32 [2])",
        "scale=": "3",
    }
    assert {child.name: str(child) for child in interface.output.children} == {
        "logits": "float32 [tokens.shape[0], 5]",
        "scores": "Scores(best=float32 [tokens.shape[0], 5])",
        "sizes": "[int 2*tokens.shape[0], None, 'text']",
        "at": "Spot(x=float32 [1], y=float32 [2])",
        "3": "OrderedDict(a=(float32 [tokens.shape[0], 5],))",
        "more": "defaultdict(k=float32 [tokens.shape[0], 5])",
    }
    assert str(interface).startswith('(tokens: float32 [tokens.shape[0], 5], batch: {"mask": ')


def test_leaves_name_their_values_in_the_graph(program):
    record = graphwire.to_schema(program)[0]
    interface = summarize(record).interface
    made = {node.name for node in record.graph_module.graph.nodes}
    assert [each.value for each in interface.inputs] == ["tokens", "", "rest_0"]
    assert interface.inputs[1].children[0].value == "batch_mask"
    assert interface.output.children[0].value in made


def test_dynamic_sizes_are_labelled_by_the_argument_that_has_them(program):
    (symbol,) = summarize(graphwire.to_schema(program)[0]).symbols
    assert (symbol.label, symbol.range) == ("tokens.shape[0]", "[2, 64]")


@pytest.mark.parametrize(
    "in_spec", ["", "[1, {}]", '[1, {"type": null, "context": null, "children_spec": []}]']
)
def test_without_a_usable_structure_the_interface_is_flat(program, in_spec):
    record = graphwire.to_schema(program)[0]
    root = record.graph_module.module_call_graph[0]
    root.signature = msgspec.structs.replace(root.signature, in_spec=in_spec, out_spec=in_spec)
    interface = summarize(record).interface
    names = ["tokens", "batch_mask", "rest_0", "at_x", "at_y", "args[5]"]
    assert [each.name for each in interface.inputs] == names
    assert interface.output.container == "?"
    root.signature = None
    assert summarize(record).interface == interface


def test_arguments_without_names_have_those_of_their_placeholders(program):
    record = graphwire.to_schema(program)[0]
    record.graph_module.module_call_graph[0].signature.forward_arg_names = None
    interface = summarize(record).interface
    assert [each.name for each in interface.inputs] == ["tokens", "args[1]", "rest_0"]


def test_the_command_shows_the_interface(program, tmp_path, capsys):
    graphwire.save(program, tmp_path / "model.pt2")
    assert main(["inspect", str(tmp_path / "model.pt2")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert 'batch {"mask": float32 [tokens.shape[0], 5]}' in lines
    assert "logits float32 [tokens.shape[0], 5]" in lines
    assert f"tokens.shape[0] {next(iter(program.range_constraints))} [2, 64]" in lines


def test_containers_at_any_depth_are_shown_in_short(tmp_path, capsys):
    """torch's own flattening ends at about this depth."""

    class Deep(torch.nn.Module):
        def forward(self, x):
            for _ in range(300):
                x = [x]
            return x

    graphwire.save(export(Deep(), (torch.ones(2),)), tmp_path / "deep.pt2")
    assert main(["inspect", str(tmp_path / "deep.pt2"), "--json"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "deep.pt2")]) == 0
    assert f"→ {'[' * 13}…{']' * 13}" in " ".join(capsys.readouterr().out.split())


def test_a_signature_of_another_length_than_the_graph_has_no_interface(program):
    record = graphwire.to_schema(program)[0]
    record.graph_module.signature.input_specs.pop()
    assert str(summarize(record).interface) == "() -> ()"
