"""What passes and hands leave of a program is saved and comes back, or is refused at save: in every format, and for torch."""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

import graphwire
from graphwire.errors import GraphwireError
from graphwire.testing import assert_same_values

X = torch.ones(4, 4)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.ones(4))

    def forward(self, x: torch.Tensor, unused: None = None) -> Any:
        y = self.first(x).relu()
        return self.second(y) + self.table, (y * 2).sum()


@functools.cache
def _exported() -> ExportedProgram:
    torch.manual_seed(0)
    return export(Model(), (X,))


def _split(program: ExportedProgram) -> None:
    from torch.fx.passes.split_module import split_module

    program._graph_module = split_module(
        program.graph_module, None, lambda node: int(node.target is torch.ops.aten.sum.default)
    )


def _fuse(program: ExportedProgram) -> None:
    from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    fuse_by_partitions(program.graph_module, [dict.fromkeys(calls[:2])])


def _propagate_shapes(program: ExportedProgram) -> None:
    from torch.fx.passes.shape_prop import ShapeProp

    specs = program.graph_signature.input_specs
    args = [program.state_dict[s.target] if s.target else X if s.arg.name == "x" else None for s in specs]
    ShapeProp(program.graph_module).propagate(*args)


def _fold_constants(program: ExportedProgram) -> None:
    from torch._export.passes.constant_folding import constant_fold

    constant_fold(program.graph_module)


def _copy_views(program: ExportedProgram) -> ExportedProgram:
    from torch._export.passes.replace_view_ops_with_view_copy_ops_pass import (
        ReplaceViewOpsWithViewCopyOpsPass,
    )

    return program.run_decompositions()._transform_do_not_use(ReplaceViewOpsWithViewCopyOpsPass())


def _copy_graph(program: ExportedProgram) -> None:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph, {}))
    program.graph_module.graph = graph


def _note_types(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        node.type = torch.Tensor


def _name_arguments(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            parameters = [each.name for each in node.target._schema.arguments]
            node.kwargs, node.args = dict(zip(parameters, node.args, strict=False)), ()


def _list_outputs(program: ExportedProgram) -> None:
    output = program.graph.output_node()
    output.args = (list(output.args[0]),)  # type: ignore[arg-type]


def _bare_output(program: ExportedProgram) -> None:
    output = program.graph.output_node()
    output.args = (output.args[0][0],)  # type: ignore[index]


def _keyed_output(program: ExportedProgram) -> None:
    output = program.graph.output_node()
    output.args = ({"a": output.args[0][0]},)  # type: ignore[index]


def _quantize(program: ExportedProgram) -> ExportedProgram:
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(program.module(), quantizer)
    prepared(X)
    return export(convert_pt2e(prepared), (X,))


PASSES: dict[Callable[[ExportedProgram], ExportedProgram | None], bool | None] = {
    _split: False,
    _fuse: False,
    _propagate_shapes: True,
    _fold_constants: True,
    _copy_views: True,
    _copy_graph: True,
    _note_types: True,
    _name_arguments: True,
    _list_outputs: True,
    _bare_output: False,
    _keyed_output: False,
    _quantize: True,
    lambda program: program.state_dict.update(extra=torch.ones(2)): True,
    lambda program: program.state_dict.update({"first.weight": torch.ones(4, 4)}): False,
    lambda program: program.state_dict.update({"first.weight": 3}): False,
    lambda program: program.state_dict.clear(): False,
    lambda program: program.graph_signature.input_specs.reverse(): False,
    lambda program: program.graph_signature.output_specs.reverse(): None,
    lambda program: program._module_call_graph.clear(): False,
    lambda program: program._verifiers.clear(): False,
    lambda program: program._module_call_graph.reverse(): None,
    lambda program: program.graph_module.meta.clear(): True,
    lambda program: program.range_constraints.update(x=3): False,  # type: ignore[call-overload]
    lambda program: setattr(program, "_example_inputs", object()): None,
    lambda program: setattr(program, "_guards_code", ["True"]): None,
}
"""What is done to a program, and whether it is saved then; None where that does not matter."""


@pytest.mark.parametrize("change", PASSES)
@pytest.mark.filterwarnings("ignore")
def test_what_a_pass_leaves_comes_back_or_is_refused(
    change: Callable[[ExportedProgram], ExportedProgram | None],
) -> None:
    program = copy.deepcopy(_exported())
    program = change(program) or program
    program.graph_module.recompile()
    for target, format in ((None, "json"), (None, "msgpack"), (None, "cbor"), ("torch", "json")):
        try:
            data = graphwire.dumps(program, format=format, target=target)
        except GraphwireError as error:
            saved, told = False, error.remedy or error.place
        else:
            saved, told = True, ""
            loaded = graphwire.loads(data)
            assert [str(node) for node in loaded.graph.nodes] == [str(node) for node in program.graph.nodes]
            if program.example_inputs is None or isinstance(program.example_inputs, tuple):
                assert_same_values(loaded.module()(X), program.module()(X))
            if target is not None:
                torch.export.load(io.BytesIO(data))
        assert PASSES[change] in (None, saved)
        assert saved or told
