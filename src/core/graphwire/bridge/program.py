"""How is an `ExportedProgram` converted to a record and payloads, and back?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch.export import ExportedProgram

from graphwire import errors, schema
from graphwire.analysis.load_report import Omission
from graphwire.analysis.validation.program_rules import check_saved_program
from graphwire.bridge import signature
from graphwire.bridge.attribute_types import edited_attributes_named
from graphwire.bridge.binding import bind_weights, group_sizes_here
from graphwire.bridge.context import GRAPH_CONSTANT, DecodeContext, DecodeRequest, EncodeContext, OpaqueOrigin
from graphwire.bridge.graph import metadata
from graphwire.bridge.graph.arguments import (
    Scope,
    class_name_of,
    decode_argument,
    encode_argument,
    is_owned_by_codec,
)
from graphwire.bridge.graph.graph import decode_graph, encode_graph
from graphwire.bridge.graph.operators import OpaqueOperator, check_operators
from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.bridge.tensors import tensor_metas
from graphwire.bridge.tensors.payloads import (
    check_weights,
    decode_payloads,
    encode_payloads,
    record_edited_values,
)
from graphwire.bridge.tensors.storages import RecordTable, StorageTable
from graphwire.bridge.torch_compat import pytree
from graphwire.bridge.torch_compat.fake_tensors import DecodedMode, FakeTensors, allow_tracing
from graphwire.bridge.torch_compat.private import exported_program, guards_of, set_guards
from graphwire.bridge.torch_compat.verifiers import (
    COMMON_VALUES,
    check_encoded,
    dialects_of,
    verifier_of,
)
from graphwire.registry.registry import Registry
from graphwire.schema.texts.treespec import split_version
from graphwire.schema.trees import OMITTED, WHY_OMITTED, provenance_of, traces_of
from graphwire.version import PRODUCER
from graphwire.wire.archive.source import type_text
from graphwire.wire.document import check_expanded_size
from graphwire.wire.payloads import CONSTANTS, SAMPLE_INPUTS, WEIGHTS, Payloads

# ------------------------------------------ converts an `ExportedProgram` to and from a program record and its payloads


# ----------------------------------------------------------------------------------------------------- encode


class RecordTables(NamedTuple):
    """The records of one file, by folder. Programs saved together share their storages."""

    weights: RecordTable
    constants: RecordTable
    sample_inputs: RecordTable


def record_tables(programs: Iterable[ExportedProgram], *, exact: bool = False) -> RecordTables:
    """Return the tables for programs that are saved to one file.

    Args:
        exact: whether storages of weights are trimmed to what is used of them.
    """
    weights = RecordTable(WEIGHTS, "weight_", exact=exact)
    constants = RecordTable(CONSTANTS, "tensor_", weights=weights, exact=exact)
    for program in programs:
        with edited_attributes_named(program):
            weights.measure(program.state_dict.values())
            constants.measure(program.constants.values())
    return RecordTables(weights, constants, RecordTable(SAMPLE_INPUTS, "tensor_"))


def encode_program(
    program: ExportedProgram,
    registry: Registry,
    tables: RecordTables | None = None,
    *,
    plain_containers: bool = False,
    legal_names: bool = False,
) -> tuple[schema.Program, Payloads]:
    """Encode a program as a record and its payloads, which share the memory of the program's tensors.

    Args:
        tables: the records of the file, from `record_tables` over all programs of the file.
        plain_containers: write inputs and outputs of types without a serialized name as tuples and dicts.
        legal_names: give other names to what no reader accepts the name of.

    Raises:
        EncodeError: the schema cannot represent a part of the program; `place` names it.
    """
    tables = tables or record_tables([program])
    context = EncodeContext(
        registry,
        constants={},
        plain_containers=plain_containers,
        declared_keys=frozenset(registry.metadata_key_names),
    )
    with edited_attributes_named(program):
        record, payloads = _encode_program(program, context, tables, legal_names=legal_names)
    if legal_names:
        from graphwire.analysis.legal_names import legal_path, with_legal_names
        from graphwire.wire.package_reader import sanitize_payload_names

        record, _ = with_legal_names(record)
        sanitize_payload_names(payloads, legal_path)
    check_saved_program(record, payloads.weights, payloads.constants, context.sound)
    if record.guards_code:
        call: Any = program.module_call_graph[0].signature  # `call_spec` makes a class at each look
        names = signature.parameter_names(record, call.in_spec, None, errors.EncodeError)
        signature.check_guards(record, signature.input_numbers(call.in_spec, names), errors.EncodeError)
    return record, payloads


def _encode_program(
    program: ExportedProgram, context: EncodeContext, tables: RecordTables, *, legal_names: bool
) -> tuple[schema.Program, Payloads]:
    from graphwire.bridge.graph import unsaved

    module = program.graph_module
    graph = encode_graph(context, module, top_level=True)
    unsaved.note_attributes(context, program, "the program")
    calls = signature.encode_module_calls(context, program.module_call_graph, graph.copies)
    _note_containers(context, graph)
    encoded: dict[str, schema.EncodedValue] = {}
    held = {**context.constants, **program.constants}
    unsaved.drop_targets(context, module.graph, graph, (*program.state_dict, *held))
    weights = encode_payloads(context, program.state_dict, tables.weights, encoded, others=held)
    others = {*program.state_dict, *weights}
    constants = encode_payloads(context, held, tables.constants, encoded, program.state_dict, others=others)
    called: Any = program.module_call_graph[0].signature
    examples, samples = _encode_examples(context, program.example_inputs, tables.sample_inputs, called)
    custom, inline = module.meta.get("custom"), module.meta.get("inline_constraints")
    texts = {"custom": metadata.encode_custom(context, custom)} if custom else {}
    metadata.encode_declared(context, module.meta, texts)
    ranges = tensor_metas.encode_ranges(program.range_constraints)
    record = schema.Program(
        graph_module=schema.GraphModule(
            graph=graph,
            signature=signature.encode_signature(
                program.graph_signature,
                graph,
                [node.name for node in module.graph.find_nodes(op="placeholder")],
            ),
            module_call_graph=calls,
            metadata=texts,
            treespec_namedtuple_fields=dict(_namedtuples(program.module_call_graph)),
            node_sources=context.source_records,
            inline_constraints=None if inline is None else tensor_metas.encode_ranges(inline),
            replacements=tensor_metas.encode_replacements(context, program.range_constraints),
        ),
        opset_version=_opsets(context),
        range_constraints=ranges,
        schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
        verifiers=dialects_of(program),
        torch_version=str(torch.__version__),
        guards_code=guards_of(program),
        requires=sorted(context.features),
        producer=PRODUCER,
        plugins=_requirements(context),
        example_inputs=examples,
        encoded_values=encoded,
    )
    record.group_sizes = group_sizes_here(record, context.registry)
    signature.check_entry(record, errors.EncodeError)
    needed = named = schema.held_in(record.graph_module.signature)
    values = program.constants
    if legal_names:
        from graphwire.analysis.legal_names import legal_path

        named = [msgspec.structs.replace(each, name=legal_path(each.name)) for each in needed]
        values = {legal_path(name): value for name, value in values.items()}
    signature.check_attributes(named, module.graph, values, errors.EncodeError)
    call: Any = program.module_call_graph[0].signature
    names = signature.parameter_names(record, call.in_spec, call.out_spec, errors.EncodeError)
    signature.check_parameters(names, module, errors.EncodeError)
    _check_encoded(context, program, record)
    signature.note_unkept(context, program, record.graph_module.signature)
    unsaved.tell_unsaved(context)
    records = {**tables.weights.records, **tables.constants.records, **tables.sample_inputs.records}
    payloads = Payloads(weights, constants, samples, records)
    record_edited_values(record, needed, payloads, {**held, **program.state_dict})
    return record, payloads


def _check_encoded(context: EncodeContext, program: ExportedProgram, record: schema.Program) -> None:
    """Raise if torch would reject the program when it is loaded."""
    targets = [operator.target for operator in context.operators.values()]

    def decoded() -> Any:
        made = signature.decode_signature(record.graph_module.signature)
        signature.set_output_names(made.output_specs, program.graph)
        return made

    check_encoded(program, targets, decoded, plain=context.features.isdisjoint(("constants", "treespecs")))


def _note_containers(context: EncodeContext, graph: schema.Graph) -> None:
    """Record the plugins that provide the program's container types. Require a feature for outputs and containers that torch's
    schema can represent but torch's reader rejects."""
    if any(output.as_string is not None or output.as_sym_bool is not None for output in graph.outputs):
        context.features.add("outputs")
    for name in context.containers:
        if not pytree.is_serialized_name(name):
            context.features.add("containers")
        context.provided.add(("treespec_serializer", split_version(name)[0]))


def _opsets(context: EncodeContext) -> dict[str, int]:
    """Return the versions of the operator namespaces in use. ATen's is always present, as in torch's documents."""
    used = {operator.handler.namespace for operator in context.operators.values()} | {"aten"}
    versions = {
        name: version
        for name, version in context.registry.opset_versions_of(used).items()
        if version > 0 and name in used
    }
    for origin in _origins(context):
        versions.update(origin.opset_version)
    return dict(sorted(versions.items()))


def _origins(context: EncodeContext) -> list[OpaqueOrigin]:
    """Return the origins of the program's opaque operators."""
    return [each.target.origin for each in context.operators.values() if type(each.target) is OpaqueOperator]


def _requirements(context: EncodeContext) -> list[schema.PluginRequirement]:
    """Return the plugins from other distributions that the program needs, and what each provides."""
    provided: dict[tuple[str, str], set[str]] = {}
    for kind, name in context.provided:
        owner = context.registry.owner_of(kind, name)
        if owner is not None and owner.distribution and owner.distribution != "graphwire":
            provided.setdefault((owner.distribution, owner.version), set()).add(f"{kind}:{name}")
    for key, (distribution, version) in context.kept_plugins.items():
        if distribution:
            provided.setdefault((distribution, version), set()).add(f"metadata_key:{key}")
    for requirement in (each for origin in _origins(context) for each in origin.plugins):
        names = provided.setdefault((requirement.distribution, requirement.version), set())
        names.update(requirement.provides)
    return [
        schema.PluginRequirement(distribution, version, sorted(names))
        for (distribution, version), names in sorted(provided.items())
    ]


def _namedtuples(calls: Sequence[Any]) -> Iterator[tuple[str, schema.NamedTupleDef]]:
    """Yield the fields of each registered namedtuple in the treespecs, by serialized name."""
    pending = [
        spec for call in calls if call.signature for spec in (call.signature.in_spec, call.signature.out_spec)
    ]
    while pending:
        spec = pending.pop()
        pending.extend(pytree.children_of(spec))
        container = pytree.context_of(spec) if spec.type is not None else None
        if (
            container is not None
            and pytree.is_namedtuple(container)
            and (found := pytree.registration_of(container))
        ):
            yield found.name, schema.NamedTupleDef(list(container._fields))


def _encode_examples(
    context: EncodeContext, examples: Any, table: RecordTable, called: Any
) -> tuple[schema.ExampleInputs | None, dict[str, Any]]:
    """Encode the example inputs. If that fails they are omitted with a warning: the program does not need them.

    Args:
        called: the signature of the program's call.
    """
    if examples is None:
        return None, {}
    features = set(context.features)
    try:
        check_expanded_size(examples, "the example inputs")
        leaves, spec = pytree.flatten(examples)
        _check_examples(examples, len(leaves), called)
        held: dict[str, Any] = {}
        arguments = []
        for index, leaf in enumerate(leaves):
            name, argument = f"leaf_{index}", None
            if isinstance(leaf, torch.Tensor):
                argument = schema.Argument(as_tensor=schema.TensorArgument(name))
            elif is_owned_by_codec(context, leaf):
                described = schema.CustomObjArgument(name, class_name_of(leaf))
                argument = schema.Argument(as_custom_obj=described)
            if argument is not None:
                held[name] = leaf
            arguments.append(argument or encode_argument(context, {}, leaf))
        encoded: dict[str, schema.EncodedValue] = {}
        metas = encode_payloads(context, held, table, encoded)
        text = encode_treespec(spec, context.registry, plain=context.plain_containers)
        return schema.ExampleInputs(text, arguments, encoded), metas
    except Exception as error:
        if errors.is_of_caller(error):
            raise
        context.features = features
        errors.warn(f"the example inputs are not saved: {_why(error)}")
        return None, {}


# ----------------------------------------------------------------------------------------------------- decode


def decode_program(
    request: DecodeRequest,
    values: tuple[dict[str, Any], dict[str, Any]] | None = None,
    *,
    spends: bool = False,
) -> ExportedProgram:
    """Build a program from a validated record and its payloads.

    Args:
        values: what `decode_values` returned, if it was called before.
        spends: as in `decode_graph`.

    Raises:
        DecodeError: this installation lacks something that the program needs.
        ArchiveError: a payload reaches beyond its record.
        ValidationError: weights or constants are missing, or differ from the graph's description.
        WeightsError: given weights are missing or do not fit.
    """
    record, dropped = request.record, request.dropped
    module_record = record.graph_module
    provenance = provenance_of(module_record.node_sources)
    context = decode_context(request)
    context.sources = metadata.decode_sources(module_record.node_sources, provenance)
    context.provenance = provenance
    context.ranges = tensor_metas.decode_ranges(record.range_constraints)
    check_operators(context, module_record.graph, request.calls)
    inline = tensor_metas.decode_ranges(module_record.inline_constraints or {})
    if context.ranges or inline:
        from graphwire.bridge.torch_compat.symbolic import reserve_unbacked

        reserve_unbacked(context.shape_env, [*context.ranges, *inline])
    state, constants = values or decode_values(context, request)
    context.constants = constants
    specs = signature.decode_signature(module_record.signature)
    literals = [spec.arg.name for spec in specs.input_specs]
    graph, root = decode_graph(
        context,
        module_record.graph,
        literal_names=literals,
        paths=(*state, *constants),
        spends=spends,
    )
    if module_record.graph.copies:
        signature.set_output_names(specs.output_specs, graph)
    signature.set_object_values(specs, graph)
    tensor_metas.infer_hints(context)
    signature.check_entry(record, errors.DecodeError)
    signature.check_attributes(context.held, graph, constants, errors.DecodeError)
    calls = signature.decode_module_calls(context, module_record.module_call_graph)
    call = calls[0].signature
    names = signature.parameter_names(record, call.in_spec, call.out_spec, errors.DecodeError)
    signature.check_guards(record, signature.input_numbers(call.in_spec, names), errors.DecodeError)
    if module_record.graph.copies:
        signature.restore_copy_names(calls, module_record.graph.copies, graph)
    program = exported_program(
        root=root,
        graph=graph,
        graph_signature=specs,
        state_dict=state,
        range_constraints=tensor_metas.ranges_by_expression(context, context.ranges),
        module_call_graph=calls,
        example_inputs=_decode_examples(context, request, call),
        constants={k: v for k, v in constants.items() if not k.startswith(GRAPH_CONSTANT)},
        verifiers=[verifier_of(dialect) for dialect in record.verifiers],
        targets={each.target for each in context.operators.values()}
        if context.in_order and context.origin is None and context.kinds <= COMMON_VALUES
        else None,
    )
    signature.check_parameters(names, program.graph_module, errors.DecodeError)
    if custom := module_record.metadata.get("custom"):
        program.graph_module.meta["custom"] = json.loads(custom)
    program.graph_module.meta.update(metadata.decode_declared(context, module_record.metadata))
    if module_record.inline_constraints is not None:
        program.graph_module.meta["inline_constraints"] = tensor_metas.ranges_by_expression(context, inline)
    tensor_metas.decode_replacements(context, module_record.replacements)
    set_guards(program, list(record.guards_code))
    tell_omitted(context, dropped)
    allow_tracing(context.fakes.mode)
    if request.given is not None:
        bind_weights(program.state_dict, program.constants, request.given)
    return program


def tell_omitted(context: DecodeContext, dropped: list[Omission] | None) -> None:
    """Tell what was omitted of the metadata, as the `dropped` of a `DecodeRequest`."""
    if omitted := context.provenance.omitted + context.traces.omitted:
        leave_out(Omission(OMITTED, WHY_OMITTED.format(omitted)), dropped)
    for omission in metadata.unread_metadata(context):
        leave_out(omission, dropped)


def decode_context(request: DecodeRequest, *, describes: bool = True) -> DecodeContext:
    """Return the state of decoding a program, without its ranges and origins of nodes.

    Args:
        describes: whether nodes get a `val`.
    """
    frames, device = [frame.text for frame in request.record.graph_module.stack_frames], request.device
    return DecodeContext(
        registry=request.registry,
        fakes=FakeTensors(DecodedMode()),
        constants={},
        table=StorageTable(
            request.payloads.records,
            lambda named: named if device is None or named.type == "meta" else device,
            request.graph_only,
        ),
        frames=frames,
        traces=traces_of(frames),
        sources=[],
        held=schema.held_in(request.record.graph_module.signature),
        describes=describes,
        declarers={
            name.removeprefix("metadata_key:"): each
            for each in request.record.plugins
            for name in each.provides
            if name.startswith("metadata_key:")
        },
        origin=request.origin,
        propagates=request.propagates,
    )


def decode_values(context: DecodeContext, request: DecodeRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the weights of a program and its constants, by name. The constants are part of the context from then on.

    Raises:
        DecodeError, ArchiveError, ValidationError: as `decode_program`.
    """
    record, payloads = request.record, request.payloads
    noted, encoded = record.producer is not None, record.encoded_values
    state = decode_payloads(context, payloads.weights, WEIGHTS, encoded, ties_noted=noted)
    constants = decode_payloads(
        context, payloads.constants, CONSTANTS, encoded, ties_noted=noted, weights=state
    )
    check_weights(record, context.held, payloads, {**constants, **state})
    for held in context.held:  # a file may have it in either config
        own, other = (state, constants) if held.is_kept else (constants, state)
        if held.name not in own and held.name in other:
            own[held.name] = other.pop(held.name)
    context.constants = constants
    return state, constants


def _decode_examples(context: DecodeContext, request: DecodeRequest, called: Any) -> Any:
    """Return the example inputs; None if the program has none that it can be called with.

    Args:
        called: the signature of the program's call.
    """
    examples = request.record.example_inputs
    if examples is None:
        return None
    try:
        samples, encoded = request.payloads.sample_inputs, examples.encoded_values
        scope = Scope(context, decode_payloads(context, samples, SAMPLE_INPUTS, encoded, ties_noted=True))
        leaves = [decode_argument(scope, leaf) for leaf in examples.leaves]
        stated = request.record.graph_module.module_call_graph[0].signature
        same = stated is not None and stated.in_spec == examples.spec  # as nearly always: it is decoded
        spec = called.in_spec if same else decode_treespec(examples.spec, context.registry)
        inputs = pytree.unflatten(leaves, spec)
        _check_examples(inputs, len(leaves), called)
        return inputs
    except Exception as error:
        if errors.is_of_caller(error):
            raise
        leave_out(Omission("example inputs", _why(error)), request.dropped)
        return None


def leave_out(omission: Omission, dropped: list[Omission] | None) -> None:
    """Tell that something was omitted, as the `dropped` of a `DecodeRequest`."""
    if dropped is None:
        errors.warn(omission.as_loaded)
    else:
        dropped.append(omission)


def _why(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, errors.GraphwireError)
        else errors.message_text(errors.exception_text(error))
    )


def _check_examples(inputs: Any, leaves: int, called: Any) -> None:
    """Raise if the program cannot be called with the example inputs: `ExportedProgram.module()` binds them to the argument
    names, and matches leaves to inputs. Container types may differ: tracing makes a tuple of a `torch.Size`.

    Args:
        leaves: the number of leaves in the inputs.
        called: the signature of the program's call.

    Raises:
        DecodeError: the inputs have another structure.
    """
    match inputs:
        case tuple() as args, dict() as kwargs if all(type(key) is str for key in kwargs):
            names = called.forward_arg_names
            if not names:
                by_position, by_name = pytree.children_of(called.in_spec)
                names = [
                    *map(str, range(len(pytree.children_of(by_position)))),
                    *pytree.context_of(by_name),
                ]
            fits = len(args) <= len(names) and sorted(names[len(args) :]) == sorted(kwargs)
            if fits and leaves == called.in_spec.num_leaves:
                return
    raise errors.DecodeError("their structure differs from the structure of the program's inputs")


# ---------------------------------------------------------------- checks that the object to save is an exported program


def check_is_exported_program(program: Any, place: str = "") -> None:
    """Raise unless given an exported program.

    Raises:
        EncodeError: it is something else; the message tells how to export a module.
    """
    if isinstance(program, ExportedProgram):
        return
    remedy = "Pass the result of torch.export.export"
    if isinstance(program, torch.nn.Module):
        remedy = "Export it first: torch.export.export(module, example_inputs)"
    elif isinstance(program, str):
        remedy = "Pass the program first, then the file"
    raise errors.EncodeError(f"{type_text(program)} is not an exported program", place=place, remedy=remedy)
