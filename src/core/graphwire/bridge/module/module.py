"""Converts a program record to a module that runs: what `ExportedProgram.module()` returns, without the exported program.

An exported program has its weights as inputs of its graph, and returns the new values of what it changes. The module reads its
weights from its attributes and changes them in place: it is unlifted. Here that is one pass over the record, which makes neither
fake tensors nor symbols and imports neither sympy nor torch's compiler.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch

from graphwire import schema
from graphwire.analysis.load_report import Omission
from graphwire.bridge import program
from graphwire.bridge.binding import bind_weights
from graphwire.bridge.context import GRAPH_CONSTANT, DecodeRequest
from graphwire.bridge.graph.graph import decode_graph
from graphwire.bridge.graph.metadata import decode_declared
from graphwire.bridge.graph.operators import check_operators
from graphwire.bridge.graph.treespec import decode_treespec
from graphwire.bridge.module.descriptions import describe_at_first_look, nodes_of
from graphwire.bridge.module.effect_tokens import remove_effect_tokens
from graphwire.bridge.module.first_call import generate, may_wait, wait
from graphwire.bridge.module.input_checks import StructureCheck, input_checks
from graphwire.bridge.module.ordinary import is_ordinary
from graphwire.bridge.module.program_module import ProgramModule
from graphwire.bridge.signature import check_attributes, check_entry, check_parameters, parameter_names
from graphwire.bridge.torch_compat.private import name_by_attributes, pytree_code, rename_builtins
from graphwire.errors import DecodeError, located
from graphwire.registry.registry import Registry

_TRAINING = "TRAINING"
"""The dialect whose programs keep effect tokens and unused nodes."""


def decode_module(request: DecodeRequest, *, check_guards: bool = True) -> ProgramModule:
    """Build a module that runs from a validated record and its payloads.

    Args:
        check_guards: whether a call checks the guards of the program. Otherwise it checks shapes and literals.

    Raises:
        DecodeError, ArchiveError, ValidationError, WeightsError: as `decode_program` and `bind_weights`.
    """
    record, dropped = request.record, request.dropped
    context = program.decode_context(request, describes=False)
    module_record = record.graph_module
    signature = module_record.signature
    check_operators(context, module_record.graph, request.calls)
    state, constants = program.decode_values(context, request)
    targets = [each.target for each in context.operators.values()]
    load = functools.partial(
        program.decode_program, request._replace(given=None, dropped=[]), (state, constants)
    )
    if not is_ordinary(record, targets, state, constants):
        load()
    if request.given is not None:
        bind_weights(state, constants, request.given)
    held = [(spec, each) for spec in signature.input_specs if (each := schema.held_by(spec)) is not None]
    graph, root = decode_graph(
        context,
        module_record.graph,
        literal_names=[
            getattr(spec.constant_input or spec.user_input, "name", None) for spec in signature.input_specs
        ],
        held={each.value: each.name for _, each in held},
        paths=(*state, *constants),
    )
    check_entry(record, DecodeError)
    check_attributes(context.held, graph, constants, DecodeError)
    named = nodes_of(graph, root)
    had_token: set[torch.fx.Node] = set()
    nodes = named[""]
    lifted = {nodes[each.value]: spec for spec, each in held}
    rename_builtins(graph)
    outputs = signature.output_specs
    if record.verifiers[0] != _TRAINING:
        objects = {nodes[each.value]: constants.get(each.name) for spec, each in held if spec.custom_obj}
        replaced = remove_effect_tokens(graph, root, objects, lifted)
        had_token = {*replaced.values()}
        named = {path: {name: replaced.get(e, e) for name, e in each.items()} for path, each in named.items()}
        outputs = [spec for spec in outputs if spec.token is None]
    module = ProgramModule()
    name_by_attributes(graph, lifted)
    weights = {each.name: nodes[each.value] for _, each in held}
    _hold(module, root, graph, lifted, state, constants)
    _write_back(graph, outputs, nodes, weights)
    unchecked = _complete(module, graph, record, request.registry, constants, check_guards=check_guards)
    if custom := module_record.metadata.get("custom"):
        module.meta["custom"] = json.loads(custom)
    module.meta.update(decode_declared(context, module_record.metadata))
    describe_at_first_look(named, had_token, load)
    program.tell_omitted(context, dropped)
    if unchecked:
        program.leave_out(Omission(f"guards {', '.join(unchecked)}", "they refer to no input"), dropped)
    return module


def _hold(
    module: torch.nn.Module,
    root: torch.nn.Module,
    graph: torch.fx.Graph,
    lifted: Mapping[torch.fx.Node, schema.InputSpec],
    state: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> None:
    """Set what the graph reads as attributes of the module, in the order of its nodes, and the constants that it does not read.

    Args:
        root: has the attributes that no input holds: subgraphs, and the graph's own tensors.
        lifted: the nodes that read inputs of the program, with their specs.

    Raises:
        DecodeError: modules have another attribute of that name.
    """
    owners: dict[str, Any] = {"": module}
    detached: dict[int, torch.Tensor] = {}

    def constant(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        return detached.setdefault(id(value), value.detach())

    for node in graph.find_nodes(op="get_attr"):
        path = str(node.target)
        spec = lifted.get(node)
        if spec is None:
            _set(owners, path, attrgetter(path)(root))
        elif spec.parameter is not None:
            _set(owners, path, state[path])
        elif spec.buffer is not None:
            persistent = spec.buffer.persistent
            _set(owners, path, (state if persistent else constants)[path], persistent=persistent)
        else:
            _set(owners, path, constant(constants[path]), plain=True)
    for path, value in constants.items():
        if not path.startswith(GRAPH_CONSTANT) and not _has(module, path):
            _set(owners, path, constant(value), plain=True)


def _has(module: Any, path: str) -> bool:
    try:
        attrgetter(path)(module)
    except AttributeError:
        return False
    return True


def _set(
    owners: dict[str, Any], path: str, value: Any, *, plain: bool = False, persistent: bool = True
) -> None:
    """Set the attribute at a path.

    Args:
        owners: the modules so far, by path.
        plain: whether a tensor is neither a parameter nor a buffer.
        persistent: whether a buffer is part of the state dict.
    """
    prefix, _, name = path.rpartition(".")
    owner = owners.get(prefix)
    if owner is None:
        _set(owners, prefix, torch.nn.Module())
        owner = owners[prefix]
    # Not by `hasattr`, which writes an error message first.
    places = owner._parameters, owner._buffers, owner._modules, owner.__dict__
    if any(name in place for place in places) or hasattr(type(owner), name):
        if getattr(owner, name, None) is value:
            return
        raise DecodeError(
            f"{path!r:.80} cannot be an attribute of the module, which already has one of that name",
            remedy="Load it as an ExportedProgram",
        )
    if isinstance(value, torch.nn.Parameter):
        owner._parameters[name] = value
    elif isinstance(value, torch.nn.Module):
        owner._modules[name] = owners[path] = value
    elif plain or not isinstance(value, torch.Tensor):
        setattr(owner, name, value)
    else:
        owner.register_buffer(name, value, persistent=persistent)


def _write_back(
    graph: torch.fx.Graph,
    specs: Sequence[schema.OutputSpec],
    inputs: Mapping[str, torch.fx.Node],
    weights: Mapping[str, torch.fx.Node],
) -> None:
    """Let the graph copy the new values of buffers, parameters and inputs into them, and return only what the caller receives.

    Args:
        specs: those of the outputs.
        inputs: the nodes of the graph's inputs, by name.
        weights: the nodes that read weights, by the weights' names.
    """
    output = graph.output_node()
    value: Any = output.args[0]
    returned: list[Any] = []
    copies: dict[Any, torch.fx.Node] = {}
    for spec, each in zip(specs, value if isinstance(value, (tuple, list)) else [value], strict=True):
        if spec.buffer_mutation is not None:
            target = weights[spec.buffer_mutation.buffer_name]
        elif spec.parameter_mutation is not None:
            target = weights[spec.parameter_mutation.parameter_name]
        elif spec.user_input_mutation is not None:
            target = inputs[spec.user_input_mutation.user_input_name]
        else:
            returned.append(each)
            continue
        with graph.inserting_before(output):
            copies[each] = graph.call_function(torch.ops.aten.copy_.default, (target, each))
    output.args = (
        tuple(copies.get(each, each) if isinstance(each, torch.fx.Node) else each for each in returned),
    )


def _members(
    graph: schema.Graph, passed: Sequence[schema.Argument], constants: Mapping[str, Any]
) -> dict[int, enum.Enum]:
    """Return the inputs, by position, that are members of an enumeration of numbers or texts: torch checks their values."""
    members: dict[int, enum.Enum] = {}
    for index, argument in enumerate(passed):
        if argument.as_custom_obj is not None:
            member = constants.get((graph.custom_obj_values or {})[argument.as_custom_obj.name].name)
            value: Any = member.value if isinstance(member, enum.Enum) else None
            if type(value) in (int, float, str) and isinstance(member, type(value)):
                members[index] = member
    return members


def _complete(
    module: ProgramModule,
    graph: torch.fx.Graph,
    record: schema.Program,
    registry: Registry,
    constants: Mapping[str, Any],
    *,
    check_guards: bool,
) -> list[str]:
    """Complete a module with its graph and code, and with checks of its inputs: by a node of the graph, or by a hook.

    Returns:
        The guards that cannot be checked.
    """
    call = record.graph_module.module_call_graph[0].signature
    assert call is not None  # check_entry
    with located(lambda: "module_call_graph['']"):
        in_spec, out_spec = decode_treespec(call.in_spec, registry), decode_treespec(call.out_spec, registry)
    names = parameter_names(record, in_spec, out_spec, DecodeError)
    passed = [
        argument
        for spec, argument in zip(
            record.graph_module.signature.input_specs, record.graph_module.graph.inputs, strict=True
        )
        if spec.user_input is not None or spec.constant_input is not None
    ]
    members = _members(record.graph_module.graph, passed, constants)
    checks, unchecked = input_checks(record, passed, members, in_spec, names, guards=check_guards)
    placeholders = graph.find_nodes(op="placeholder")
    as_node = check_guards and bool(placeholders)
    if as_node:
        module.add_module("_guards_fn", checks)
        with graph.inserting_after(placeholders[-1]):
            node = graph.call_module("_guards_fn", tuple(placeholders))
        stacks = (each.meta["nn_module_stack"] for each in graph.nodes if "nn_module_stack" in each.meta)
        node.meta["nn_module_stack"] = next(stacks, None)
    # In a hook they are no submodule: torch's module has none either.
    module.register_forward_pre_hook(StructureCheck(None if as_node else checks), with_kwargs=True)
    graph._codegen = pytree_code(names, in_spec, out_spec)
    module._graph = graph  # Not by an assignment to `graph`, which also generates code.
    module._in_spec, module._out_spec = in_spec, out_spec
    graph.owning_module = module
    if may_wait(module, names):
        wait(module)
        return unchecked
    try:
        generate(module)
    except SyntaxError as error:
        raise DecodeError(
            "a graph has an argument that generated code cannot express",
            remedy="Load it as an ExportedProgram",
        ) from error
    check_parameters(names, module, DecodeError)
    return unchecked
