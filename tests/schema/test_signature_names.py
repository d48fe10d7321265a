"""The signature's names: what torch's own properties say of the same programs, and edits that keep them right."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from inside.analysis import validate
from inside.schema import to_tree
from nightly import one_in
from small_programs import SMALL_PROGRAMS, unused_example
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import SchemaError
from graphwire.schema import (
    Argument,
    BackwardSignature,
    GraphSignature,
    InputSpec,
    InputTokenSpec,
    InputToParameterSpec,
    LossOutputSpec,
    NameMaps,
    OutputSpec,
    OutputTokenSpec,
    Program,
    SignatureNames,
    SymIntArgument,
    TensorArgument,
    UserInputMutationSpec,
    UserInputSpec,
    UserOutputSpec,
    replace_all_uses,
    replace_hook,
    signature_from_maps,
    with_outputs,
)

ALL = [*SMALL_PROGRAMS, "structured", "decoder"]

PROPERTIES = (
    "parameters buffers non_persistent_buffers lifted_tensor_constants lifted_custom_objs user_inputs user_outputs"
    " inputs_to_parameters inputs_to_buffers inputs_to_lifted_tensor_constants inputs_to_lifted_custom_objs"
    " buffers_to_mutate parameters_to_mutate user_inputs_to_mutate assertion_dep_token input_tokens output_tokens"
).split()


@functools.cache
def _exported(name: str) -> tuple[ExportedProgram, Program]:
    program = unused_example(name).program
    return program, graphwire.to_schema(program)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_property_says_what_torch_says(name) -> None:
    program, record = _exported(name)
    theirs, ours = program.graph_signature, SignatureNames(record.graph_module.signature)
    for each in filter(functools.partial(hasattr, theirs), PROPERTIES):
        expected = getattr(theirs, each)
        assert getattr(ours, each) == (dict(expected) if hasattr(expected, "items") else expected), each
        if each in ("user_inputs", "user_outputs"):
            assert list(map(type, getattr(ours, each))) == list(map(type, expected))
    backward = theirs.backward_signature
    if backward is None:
        assert ours.backward_signature is None
    else:
        found = ours.backward_signature
        assert found is not None
        assert found._asdict() == vars(backward)


def test_torch_has_no_property_that_we_lack() -> None:
    theirs = torch.export.ExportGraphSignature
    public = {name for name, value in vars(theirs).items() if isinstance(value, property)}
    assert public <= {*PROPERTIES, "backward_signature"}


def test_maps_cannot_be_changed() -> None:
    names = SignatureNames(_exported("tied_weights")[1].graph_module.signature)
    with pytest.raises(TypeError, match="assignment"):
        names.inputs_to_parameters["x"] = "y"  # type: ignore[index]


def _argument(name: str) -> Argument:
    return Argument(as_tensor=TensorArgument(name))


def _token_signature() -> GraphSignature:
    from graphwire.schema import TokenArgument

    return GraphSignature(
        [
            InputSpec(token=InputTokenSpec(TokenArgument("t0"))),
            InputSpec(user_input=UserInputSpec(_argument("x"))),
        ],
        [
            OutputSpec(token=OutputTokenSpec(TokenArgument("t1"))),
            OutputSpec(user_input_mutation=UserInputMutationSpec(TensorArgument("y"), "x")),
            OutputSpec(user_output=UserOutputSpec(_argument("y"))),
        ],
    )


def test_tokens_are_named() -> None:
    names = SignatureNames(_token_signature())
    assert (names.input_tokens, names.output_tokens) == (("t0",), ("t1",))


def test_two_losses_are_refused() -> None:
    loss = OutputSpec(loss_output=LossOutputSpec(TensorArgument("a")))
    with pytest.raises(SchemaError, match="several"):
        _ = SignatureNames(GraphSignature([], [loss, loss])).backward_signature


# ------------------------------------------------------------------------------------------------------------ edits


@pytest.mark.parametrize("name", one_in(3, ALL))
def test_replace_all_uses_does_what_torch_does(name) -> None:
    program, record = _exported(name)
    theirs, ours = copy.deepcopy(program.graph_signature), copy.deepcopy(record.graph_module.signature)
    mutated = set(SignatureNames(ours).user_inputs_to_mutate.values())
    specs = [*theirs.input_specs, *theirs.output_specs]
    for number, old in enumerate(sorted({spec.arg.name for spec in specs} - mutated - {""})):
        if any(spec.arg.name == old and hasattr(spec.arg, "value") for spec in specs):
            continue  # torch does not rename literals
        theirs.replace_all_uses(old, f"renamed_{number}")
        replace_all_uses(ours, old, f"renamed_{number}")
    gradients = SignatureNames(ours).backward_signature is not None
    for each in filter(functools.partial(hasattr, theirs), PROPERTIES):
        assert getattr(SignatureNames(ours), each) == getattr(theirs, each), each
    assert gradients == (theirs.backward_signature is not None)


def test_an_output_that_mutates_a_renamed_input_follows() -> None:
    """torch's own leaves the old name there, and the program is not valid any more."""
    signature = _token_signature()
    replace_all_uses(signature, "x", "renamed")
    assert SignatureNames(signature).user_inputs_to_mutate == {"y": "renamed"}


def test_the_hook_follows_outputs_and_if_asked_inputs() -> None:
    signature = _token_signature()
    follow = replace_hook(signature)
    follow("y", "z", "output")
    follow("x", "w", "input")
    follow("x", "w", "add_3")
    names = SignatureNames(signature)
    assert (names.user_inputs, names.user_outputs) == (("x",), ("z",))
    replace_hook(signature, replace_inputs=True)("x", "w", "input")
    assert SignatureNames(signature).user_inputs == ("w",)


def test_outputs_that_are_other_values_leave_inputs_and_what_refers_to_them() -> None:
    signature = _token_signature()
    signature.output_specs.append(OutputSpec(user_output=UserOutputSpec(_argument("x"))))
    other = with_outputs(signature, {"x": "copied", "y": "x"})
    names = SignatureNames(other)
    assert names.user_outputs == ("x", "copied")
    assert names.user_inputs_to_mutate == {"x": "x"}
    assert names.user_inputs == ("x",)
    assert SignatureNames(signature).user_outputs == ("y", "x")
    replace_hook(signature)("x", "copied", "output")
    assert SignatureNames(signature).user_inputs_to_mutate == {"y": "x"}


def test_an_edited_program_stays_valid() -> None:
    record = copy.deepcopy(_exported("mutated_inputs")[1])
    graph, signature = record.graph_module.graph, record.graph_module.signature
    names = [*graph.tensor_values]
    from graphwire.schema import Renaming, rewritten

    renaming = Renaming(lambda name: f"{name}_new", lambda held: held)
    graph.inputs = [rewritten(each, renaming) for each in graph.inputs]
    graph.outputs = [rewritten(each, renaming) for each in graph.outputs]
    for node in graph.nodes:
        node.outputs = [rewritten(each, renaming) for each in node.outputs]
        for named in node.inputs:
            named.arg = rewritten(named.arg, renaming)
    graph.tensor_values = {f"{name}_new": meta for name, meta in graph.tensor_values.items()}
    assert validate(record)
    for name in names:
        replace_all_uses(signature, name, f"{name}_new")
    assert [problem for problem in validate(record) if "signature" in problem.place] == []


# ------------------------------------------------------------------------------------------------------- older maps


WITHOUT_MAPS = {"effects_decomposed", "mutated_parameter_decomposed", "mutated_inputs_decomposed"}
"""Programs with something in their signature that schema 1 has no map for."""


def _maps_of(names: SignatureNames) -> NameMaps:
    return NameMaps(
        names.inputs_to_parameters,
        {**names.inputs_to_buffers, **names.inputs_to_lifted_tensor_constants},
        names.user_inputs,
        names.user_outputs,
        names.buffers_to_mutate,
        names.backward_signature,
    )


@pytest.mark.parametrize("name", one_in(3, [name for name in ALL if name not in WITHOUT_MAPS]))
def test_the_maps_of_schema_1_and_the_specs_say_the_same(name) -> None:
    module = _exported(name)[1].graph_module
    signature = module.signature
    names = SignatureNames(signature)
    maps = _maps_of(names)
    again = signature_from_maps(
        maps,
        module.graph.inputs,
        module.graph.outputs,
        non_persistent_buffers=names.non_persistent_buffers,
        tensor_constants=names.lifted_tensor_constants,
    )
    for spec, made in zip(signature.input_specs, again.input_specs, strict=True):
        if spec.constant_input is not None and made.constant_input is not None:
            made.constant_input.name = spec.constant_input.name  # schema 1 keeps none
    for result, remade in zip(signature.output_specs, again.output_specs, strict=True):
        if result.user_output is not None and remade.user_output is not None:
            remade.user_output.name = result.user_output.name  # likewise
    assert to_tree(again) == to_tree(signature)


def test_the_maps_of_a_joint_graph_become_its_specs() -> None:
    maps = _joint_maps()
    signature = signature_from_maps(
        maps,
        [_argument("w"), _argument("x"), Argument(as_sym_int=SymIntArgument(as_name="n"))],
        [_argument("loss"), _argument("dw"), _argument("dx")],
    )
    backward = SignatureNames(signature).backward_signature
    assert backward is not None
    assert backward._asdict() == {
        "loss_output": "loss",
        "gradients_to_parameters": {"dw": "weight"},
        "gradients_to_user_inputs": {"dx": "x"},
    }
    assert _maps_of(SignatureNames(signature))._asdict() == {
        **maps._asdict(),
        "user_inputs": ("x", "n"),
        "user_outputs": ("loss",),
    }


def test_a_value_that_is_several_outputs_is_the_new_value_of_a_buffer_first() -> None:
    maps = NameMaps({}, {"b": "count"}, [], ["y"], {"y": "count"})
    signature = signature_from_maps(maps, [_argument("b")], [_argument("y"), _argument("y")])
    first, second = signature.output_specs
    assert first.buffer_mutation is not None
    assert second.user_output is not None


def _joint_maps() -> NameMaps:
    backward = BackwardSignature("loss", {"dw": "weight"}, {"dx": "x"})
    return NameMaps({"w": "weight"}, {}, ["x", "n"], ["loss"], {}, backward)


def test_a_tensor_that_stands_for_nothing_is_refused_with_its_place() -> None:
    maps = NameMaps({}, {}, ["x"], ["y"], {})
    with pytest.raises(SchemaError, match=r"inputs\[1\].*neither a user input"):
        signature_from_maps(maps, [_argument("x"), _argument("z")], [])
    with pytest.raises(SchemaError, match=r"outputs\[0\].*neither a user output"):
        signature_from_maps(maps, [_argument("x")], [_argument("x")])


def test_specs_that_name_nothing_else_are_shared_by_an_edit() -> None:
    held: Any = InputSpec(parameter=InputToParameterSpec(TensorArgument("p"), "weight"))
    signature = GraphSignature([held], [])
    replace_all_uses(signature, "x", "y")
    assert signature.input_specs[0] is held
