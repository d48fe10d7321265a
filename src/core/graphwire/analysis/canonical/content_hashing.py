"""The content hash of a program: stable across releases, equal for two exports of the same model, and otherwise different.

content_hash(program)             hashes what the program computes
content_hash(program, payloads)   also hashes its weights and constants

The hash is computed from a content tree. This module and `graph_content`, `argument_forms`, `expression_content`,
`treespec_content` and `payload_content` build it. It does not depend on the layout or encoding of records.
`docs/spec/canonical.md` specifies the algorithm, and lists for every field of every record whether it counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from graphwire import schema
from graphwire.analysis.canonical import graph_content, symbol_names
from graphwire.analysis.elements import row_major_parts
from graphwire.errors import MissingRecordError, SchemaError

# -------------------------------------- digests of weights and constants that do not depend on their layout in the file


class PayloadRecord(Protocol):
    """The interface of records that this package uses."""

    @property
    def nbytes(self) -> int: ...

    def view(self) -> memoryview: ...


class PayloadSet(Protocol):
    """The interface of `graphwire.wire.payloads.Payloads` that this package uses."""

    @property
    def weights(self) -> Mapping[str, schema.PayloadMeta]:
        """By qualified name."""

    @property
    def constants(self) -> Mapping[str, schema.PayloadMeta]:
        """By qualified name."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Why weights and constants are not read, by qualified name."""

    @property
    def records(self) -> Mapping[str, PayloadRecord]:
        """By full record name."""


def payload_contents(payloads: PayloadSet) -> list[Any]:
    """Return the content of all payloads: a list of kind (`weight` or `constant`), qualified name and digest for each.

    Raises:
        MissingRecordError: a payload has no record, or its record is too short.
    """
    return [[*key, digest] for key, digest in sorted(payload_digests(payloads).items())]


def payload_digests(payloads: PayloadSet) -> dict[tuple[str, str], str]:
    """Return a digest of each payload's metadata and elements, by kind (`weight` or `constant`) and qualified name.

    Two tensors have the same digest if they have the same element type, shape, order of strides and elements, and share
    memory with tensors of the same names.

    Raises:
        MissingRecordError: a payload has no record, or its record is too short.
    """
    found = {}
    for key, each in named_payloads(payloads).items():
        digest = hashlib.sha256(symbol_names.content_bytes(_meta_content(each.meta, each.sharing)))
        if each.meta.placement is None:
            for part in _parts(payloads, each.record, each.meta):
                digest.update(part)
        found[key] = digest.hexdigest()
    return found


class NamedPayload(NamedTuple):
    """A weight or constant with the place of its elements."""

    meta: schema.PayloadMeta
    record: str
    """The full name of its record."""
    sharing: list[str]
    """The names of all that share its memory, sorted; empty if it has no memory."""


def named_payloads(payloads: PayloadSet) -> dict[tuple[str, str], NamedPayload]:
    """Return weights and constants by kind (`weight` or `constant`) and qualified name. Reads no elements."""
    named = [
        (kind, name, folder + meta.path_name, meta)
        for kind, folder, metas in (
            ("weight", "data/weights/", payloads.weights),
            ("constant", "data/constants/", payloads.constants),
        )
        for name, meta in metas.items()
    ]
    sharing: dict[str, list[str]] = {}
    for _, name, record, meta in named:
        sharing.setdefault(meta.shared or record, []).append(name)
    # torch writes one record for all weights without elements, even if they are different tensors.
    elements = {meta.shared or record for *_, record, meta in named if not is_empty(meta)}
    found = {}
    for kind, name, record, meta in named:
        storage = meta.shared or record
        is_shared = meta.placement is None and storage in elements
        held = record if payloads.records.get(record) is not None else storage  # without a copy
        found[kind, name] = NamedPayload(meta, held, sorted(sharing[storage]) if is_shared else [])
    return found


def _meta_content(meta: schema.PayloadMeta, shared: list[str]) -> dict[str, Any]:
    """Return the content of a payload's metadata, independent of its position in the file. Facts that do not apply are
    omitted."""
    content: dict[str, Any] = {
        "conjugated": meta.conj,
        "negated": meta.neg,
        "parameter": meta.is_param,
        "pickled": meta.use_pickle,
        "placement": meta.placement,
        "shared": shared if len(shared) > 1 else None,
    }
    content = {name: fact for name, fact in content.items() if fact is not None and fact is not False}
    if (tensor := meta.tensor_meta) is not None:
        content["dtype"] = tensor.dtype_text
        content["layout"] = graph_content.layout_content(tensor.layout, tensor.layout_name)
        content["requires_grad"] = tensor.requires_grad
        content["sizes"] = [size.as_int for size in tensor.sizes]
        content |= _unusual_strides(tensor)
    return dict(sorted(content.items()))


def is_empty(meta: schema.PayloadMeta) -> bool:
    """Return whether a tensor has no elements."""
    return meta.tensor_meta is not None and any(size.as_int == 0 for size in meta.tensor_meta.sizes)


def payload_facts(meta: schema.PayloadMeta) -> dict[str, str]:
    """Return the facts about a payload's metadata as text, independent of its position in the file."""
    facts = {"parameter": "yes" if meta.is_param else "no"}
    if (tensor := meta.tensor_meta) is not None:
        facts["dtype"] = tensor.dtype_text
        facts["shape"] = str([size.as_int for size in tensor.sizes])
        facts["layout"] = tensor.layout_name or tensor.layout.name
        unusual = _unusual_strides(tensor)
        facts |= {what.replace("order", "stride order"): str(numbers) for what, numbers in unusual.items()}
        facts["requires grad"] = "yes" if tensor.requires_grad else "no"
    marks = (("conjugated", meta.conj), ("negated", meta.neg), ("pickled", meta.use_pickle))
    facts |= {name: "yes" for name, is_so in marks if is_so}
    return facts if meta.placement is None else {**facts, "placement": meta.placement}


def _dimensions(tensor: schema.TensorMeta) -> list[tuple[int, int]]:
    """Return the size and stride of each dimension whose size is not 1."""
    return [
        (size.as_int or 0, stride.as_int or 0)
        for size, stride in zip(tensor.sizes, tensor.strides, strict=True)
        if size.as_int != 1
    ]


def _unusual_strides(tensor: schema.TensorMeta) -> dict[str, list[Any]]:
    """Return two facts, each only if it applies: `order`, the dimensions whose size is not 1, numbered among these, the
    greatest stride first; and `expanded`, all strides, if one of these dimensions has the stride 0."""
    dimensions = _dimensions(tensor)
    order = sorted(range(len(dimensions)), key=lambda index: -dimensions[index][1])
    found: dict[str, list[Any]] = {} if order == sorted(order) else {"order": order}
    if any(stride == 0 for _, stride in dimensions):
        found["expanded"] = [stride.as_int for stride in tensor.strides]
    return found


def _parts(payloads: PayloadSet, record_name: str, meta: schema.PayloadMeta) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a tensor's elements, the dimension with the greatest stride outermost. Yields the whole record if
    the payload is not a plain tensor, or if its element size is unknown."""
    tensor = meta.tensor_meta
    if is_empty(meta):
        return
    record = payloads.records.get(record_name)
    if record is None:
        raise MissingRecordError(f"there is no record {record_name!r}", place=record_name)
    view = record.view().cast("B")
    item = 0 if tensor is None or meta.use_pickle else schema.ITEM_SIZES.get(tensor.dtype_text, 0)
    if tensor is None or not item:
        yield view
        return
    dimensions = sorted((d for d in _dimensions(tensor) if d[1] > 0), key=lambda d: d[1])[::-1]
    start = tensor.storage_offset.as_int or 0
    last = start + 1 + sum((size - 1) * stride for size, stride in dimensions)
    if last * item > view.nbytes:
        raise MissingRecordError(
            f"the tensor needs {last * item:,} bytes, its record has {view.nbytes:,}", place=record_name
        )
    yield from row_major_parts(view, item, dimensions, start)


HASH_VERSION = 1
"""The version of the content tree and of its hash. Hashes of one version never change: a changed rule needs a new version,
beside this one."""

SPEC_KINDS: dict[str, tuple[int, str, str]] = {
    "token": (0, "token", ""),
    "parameter": (1, "parameter", "parameter_name"),
    "buffer": (2, "buffer", "buffer_name"),
    "tensor_constant": (3, "constant", "tensor_constant_name"),
    "custom_obj": (4, "object", "custom_obj_name"),
    "user_input": (5, "argument", ""),
    "constant_input": (5, "literal", ""),
    "buffer_mutation": (1, "new buffer", "buffer_name"),
    "parameter_mutation": (2, "new parameter", "parameter_name"),
    "user_input_mutation": (3, "new argument", ""),
    "user_output": (4, "result", ""),
    "loss_output": (4, "loss", ""),
    "gradient_to_parameter": (5, "gradient of parameter", "parameter_name"),
    "gradient_to_user_input": (6, "gradient of argument", ""),
}
"""For each kind of input and output: its position among the kinds, its name in the content, and the field with the qualified
name that the content contains and by which the kind is sorted. Kinds without a field keep their order; mutations of user
inputs and gradients with respect to them have the order of the user inputs."""


class Arrangement(NamedTuple):
    """A program's signature in canonical order, its graphs arranged and its symbols renamed."""

    signature: schema.GraphSignature
    form: graph_content.ArrangedGraph
    symbols: symbol_names.SymbolNames


def content_hash(program: schema.Program, payloads: PayloadSet | None = None) -> str:
    """Return a program's content hash: `gw1:` and 64 hexadecimal digits; with payloads, `gw1w:` and 64 digits.

    Args:
        program: a valid program.
        payloads: its weights and constants, to include them in the hash. All of them are read. Example inputs never count.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
        LimitError: the program nests too deeply.
        MissingRecordError: a payload has no record, or its record is too short.
    """
    return document_hash(program_content(program), program, payloads)


def document_hash(content: bytes, program: schema.Program, payloads: PayloadSet | None = None) -> str:
    """Return the content hash of a program from its content (`program_content`). Raises what `content_hash` raises."""
    letter = "" if payloads is None else "w"
    name = f"gw{HASH_VERSION}{letter}"
    found = hashlib.sha256(f"graphwire content {name}\0".encode() + content)
    if payloads is not None:
        encoded = [
            [name, value.codec, symbol_names.plain_content(value.tree), value.tensors]
            for name, value in sorted(program.encoded_values.items())
        ]
        found.update(symbol_names.content_bytes([payload_contents(payloads), encoded]))
    return f"{name}:{found.hexdigest()}"


def program_content(program: schema.Program, arranged_already: Arrangement | None = None) -> bytes:
    """Return the bytes of a program's content tree.

    Args:
        arranged_already: the result of `arrangement` for this program. It is modified and cannot be used again.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
    """
    return symbol_names.content_bytes(_content(program, arranged_already or arrangement(program)))


def arrangement(program: schema.Program) -> Arrangement:
    """Return the order of nodes and the names that a program's content uses.

    Raises:
        SchemaError: nodes depend on each other's results in a cycle.
    """
    module = program.graph_module
    signature, graph = _ordered_interface(module.signature, module.graph)
    form = graph_content.arrange_graph(graph, _interface_names(signature))
    texts = [text for each in graph_content.walk(form) for text in graph_content.expressions_of(each)]
    return Arrangement(signature, form, symbol_names.SymbolNames(texts, program.range_constraints))


# --------------------------------------------------------------------------------------------------------- content


def _content(program: schema.Program, arrangement: Arrangement) -> dict[str, Any]:
    module, (signature, form, symbols) = program.graph_module, arrangement
    graph_content.add_known_values(form, symbols.content, {})
    _number_objects(form)
    namedtuples = module.treespec_namedtuple_fields
    return {
        "calls": _module_calls(module.module_call_graph, form.names),
        "dialects": sorted(set(program.verifiers)),
        "graph": form.content,
        "guards": sorted(set(program.guards_code)),
        "inputs": [_spec(spec, form.names) for spec in signature.input_specs],
        "namedtuples": [[name, namedtuples[name].field_names] for name in sorted(namedtuples)],
        # An absent opset means version 1: torch's files do not list the namespaces of plugins.
        "opsets": [
            [name, version] for name, version in sorted(program.opset_version.items()) if version != 1
        ],
        "outputs": [_spec(spec, form.names) for spec in signature.output_specs],
        "ranges": symbols.range_contents(),
    }


def _number_objects(form: graph_content.ArrangedGraph) -> None:
    """Name the objects that nodes use and that are not inputs, in the order of first use. Their original names are chosen by
    the writer and mean nothing."""
    names: dict[str, str] = {}
    for graph in graph_content.walk(form):
        for place, name in graph.nameless:
            place[-1] = names.setdefault(name, f"object_{len(names)}")


def _spec(spec: schema.InputSpec | schema.OutputSpec, names: Mapping[str, str]) -> list[Any]:
    variant, held = variant_of_spec(spec)
    _, kind, field = SPEC_KINDS[variant]
    content = [kind]
    if field:
        content.append(getattr(held, field))
    elif (name := getattr(held, "user_input_name", None)) is not None:
        # If torch renames an input later, the gradient's spec keeps the old name. It is not a value, so it stays unchanged.
        content.append(names.get(name, name))
    if variant == "buffer":
        content.append(held.persistent)
    elif variant == "constant_input":
        content.append(_literal(held.value))
    return content


def _literal(value: schema.ConstantValue) -> Any:
    if value.as_float is not None:
        return symbol_names.content_float(value.as_float)
    held = (value.as_bool, value.as_int, value.as_string)
    return next((each for each in held if each is not None), None)


def _module_calls(entries: Sequence[schema.ModuleCallEntry], names: Mapping[str, str]) -> list[Any]:
    """Return the module calls sorted by name, the root first. Names that are not (or no longer) values are numbered."""
    stale: dict[str, str] = {}

    def content(arguments: Sequence[schema.Argument]) -> list[Any]:
        found = graph_content.References([], [])
        contents = [graph_content.argument_content(argument, found) for argument in arguments]
        for place, name in found.values:
            place[-1] = names.get(name) or stale.setdefault(name, f"absent_{len(stale)}")
        return contents

    calls: list[Any] = []
    for entry in sorted(entries, key=lambda entry: entry.fqn):
        call = entry.signature
        if call is None:
            calls.append([entry.fqn])
            continue
        inputs, outputs = content(call.inputs), content(call.outputs)
        structures = symbol_names.treespec_content(call.in_spec), symbol_names.treespec_content(call.out_spec)
        calls.append([entry.fqn, inputs, outputs, *structures, call.forward_arg_names or []])
    return calls


# ------------------------------------------------------------------------------------------------------- interface


def variant_of_spec(spec: schema.InputSpec | schema.OutputSpec) -> tuple[str, Any]:
    """Return the variant of a spec that is set, and its value.

    Raises:
        SchemaError: no variant is set.
    """
    variant, held = schema.variant_and_content(spec)
    if not variant:
        raise SchemaError("a spec of the signature has no variant")
    return variant, held


def _ordered_interface(
    signature: schema.GraphSignature, graph: schema.Graph
) -> tuple[schema.GraphSignature, schema.Graph]:
    """Return the signature and the graph with inputs and outputs in canonical order, which does not depend on the order of
    registration and tracing."""
    pairs = list(zip(signature.input_specs, graph.inputs, strict=True))
    places = {
        schema.value_name(argument): place for place, (spec, argument) in enumerate(pairs) if spec.user_input
    }

    def rank(pair: tuple[schema.InputSpec | schema.OutputSpec, schema.Argument]) -> tuple[int, str, int]:
        variant, held = variant_of_spec(pair[0])
        position, _, field = SPEC_KINDS[variant]
        place = places.get(getattr(held, "user_input_name", None), 0)
        return position, getattr(held, field) if field else "", place

    inputs = sorted(pairs, key=rank)
    outputs = sorted(zip(signature.output_specs, graph.outputs, strict=True), key=rank)
    ordered = schema.GraphSignature([spec for spec, _ in inputs], [spec for spec, _ in outputs])
    arguments = [argument for _, argument in inputs], [argument for _, argument in outputs]
    return ordered, replace(graph, inputs=arguments[0], outputs=arguments[1])


def _interface_names(signature: schema.GraphSignature) -> list[str | None]:
    """Return the name in the spec of each input, by position. Inputs that are literals have no name in the graph."""
    named = [spec.constant_input or spec.user_input for spec in signature.input_specs]
    return [None if each is None else each.name for each in named]
