"""Converts graph signatures between the name maps of schema 1 and the specs of schema 2."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from graphwire import schema
from graphwire.errors import SchemaError
from graphwire.evolve import trees
from graphwire.evolve.trees import Record, Where
from graphwire.schema.texts.metadata import EXACT_STACK, split_modules
from graphwire.schema.trees import to_tree

_PLACE = trees.ROOT.at(".graph_module.signature")


def signature_up(signature: Record, graph: Record) -> Record:
    """Convert name maps to specs, in the order of the graph's inputs and outputs."""
    inputs, outputs = ([_bare(each) for each in graph[side]] for side in ("inputs", "outputs"))
    backward: Any = signature.get("backward_signature") or {}
    maps = schema.NameMaps(
        signature["inputs_to_parameters"],
        signature["inputs_to_buffers"],
        [name for each in inputs if (name := schema.value_name(each)) is not None],  # those in no other map
        [name for each in outputs if (name := schema.value_name(each)) is not None],
        signature["buffers_to_mutate"],
        schema.BackwardSignature(
            backward.get("loss_output"),
            backward.get("gradients_to_parameters", {}),
            backward.get("gradients_to_user_inputs", {}),
        ),
    )
    made = schema.signature_from_maps(maps, inputs, outputs)
    return {
        "input_specs": list(map(_spec_up, made.input_specs, graph["inputs"])),
        "output_specs": list(map(_spec_up, made.output_specs, graph["outputs"])),
    }


def _bare(argument: Record) -> schema.Argument:
    """Return an argument of the current schema that refers to the same value; None for a literal."""
    name = trees.name_of(argument)
    return (
        schema.Argument(as_none=True)
        if name is None
        else schema.Argument(as_tensor=schema.TensorArgument(name))
    )


def _spec_up(spec: schema.InputSpec | schema.OutputSpec, argument: Record) -> Record:
    """Convert a spec to schema 2: user inputs and outputs keep their argument, and buffers lack `persistent`."""
    tree: Record = to_tree(spec)
    if "user_output" in tree:
        return {"user_output": {"arg": argument}}
    if "user_input" in tree or "constant_input" in tree:
        return {"user_input": {"arg": argument}}
    tree.get("buffer", {}).pop("persistent", None)
    return tree


_MAPS = {
    "parameter": ("inputs_to_parameters", "parameter_name"),
    "buffer": ("inputs_to_buffers", "buffer_name"),
    "tensor_constant": ("inputs_to_buffers", "tensor_constant_name"),
    "buffer_mutation": ("buffers_to_mutate", "buffer_name"),
    "gradient_to_parameter": ("gradients_to_parameters", "parameter_name"),
    "gradient_to_user_input": ("gradients_to_user_inputs", "user_input_name"),
}
"""The map that holds a kind of specs, and the field of the spec with the target of its value."""


def signature_down(signature: Record, refuse: trees.Refuse) -> Record:
    """Convert specs to name maps."""
    maps: dict[str, Any] = {
        "inputs_to_parameters": {},
        "inputs_to_buffers": {},
        "user_inputs": [],
        "user_outputs": [],
        "buffers_to_mutate": {},
        "backward_signature": None,
    }
    backward: dict[str, Any] = {
        "gradients_to_parameters": {},
        "gradients_to_user_inputs": {},
        "loss_output": "",
    }
    tables, changes_late = maps | backward, False
    for side in ("input", "output"):
        users = maps[f"user_{side}s"]
        for index, spec in enumerate(signature[f"{side}_specs"]):
            where = _PLACE.at(f".{side}_specs[{index}]")
            variant = trees.variant_of(spec)
            argument: Any = spec[variant].get("arg") if variant else None
            if variant == "buffer_mutation":
                changes_late = changes_late or bool(users)
                if "." in spec[variant]["buffer_name"]:
                    refuse(where, "a changed buffer of a submodule, which 2.1 loses")
                if argument["name"] in maps["buffers_to_mutate"]:
                    refuse(where, "one value as the new content of two buffers")
            if variant in _MAPS:
                table, target = _MAPS[variant]
                tables[table][argument["name"]] = spec[variant][target]
            elif variant == f"user_{side}":
                name = trees.name_of(argument)
                if name is None:
                    refuse(where, f"an {side} that is a literal")
                users.append(name or "")
            elif variant == "loss_output":
                backward["loss_output"] = argument["name"]
                users.append(argument["name"])
            else:
                refuse(where, f"an {side} of the kind {variant}")
    if any(backward.values()):
        maps["backward_signature"] = backward
        refuse(_PLACE, "gradients as outputs, which 2.1 writes but cannot read")
    if changes_late:
        refuse(_PLACE, "a changed buffer after the program's own outputs")
    return maps


# ------------------------------------------------------------------------ writes records as torch 2.1 and 2.2 need them
# with every variant of a union and every option, null where it is not set.


_ARGUMENT = schema.ARGUMENT_VARIANTS[: schema.ARGUMENT_VARIANTS.index("as_operator")]
_INPUT_SPEC = ("user_input", "parameter", "buffer", "tensor_constant")
_OUTPUT_SPEC = "user_output loss_output buffer_mutation gradient_to_parameter gradient_to_user_input".split()


def without_nulls(value: Any) -> Any:
    """Return a tree without the null fields of its records."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def with_all_variants(tree: Record) -> Record:
    """Write every variant and option of a program of schema 1 or 2."""
    tree = trees.rewrite(
        tree,
        trees.Edits(
            argument=_argument,
            tensor_meta=lambda meta, where: {**meta, "device": _filled(meta["device"], ("type", "index"))},
            sym_int=partial(_symbolic, "as_int"),
            sym_bool=partial(_symbolic, "as_bool"),
            input_spec=lambda spec, where: _filled(spec, _INPUT_SPEC),
            output_spec=lambda spec, where: _filled(spec, _OUTPUT_SPEC),
        ),
    )
    entries = tree["graph_module"]["module_call_graph"]
    return trees.with_module(
        tree, module_call_graph=[_filled(entry, ("fqn", "signature")) for entry in entries]
    )


def _filled(record: Record, fields: Iterable[str]) -> Record:
    return {**dict.fromkeys(fields), **record}


def _filler(record: type[msgspec.Struct]) -> Fill:
    return lambda held: _filled(held, record.__struct_fields__)


def _each(fill: Fill) -> Fill:
    return lambda items: [fill(item) for item in items]


Fill: TypeAlias = Callable[[Any], Any]

_INNER: dict[str, Fill] = schema.by_variant(
    {
        "as_sym_int": _filler(schema.SymIntArgument),
        "as_sym_bool": _filler(schema.SymBoolArgument),
        "as_optional_tensor": _filler(schema.OptionalTensorArgument),
        "as_device": _filler(schema.Device),
    },
    _each,
)
"""The variants of an argument that hold one or several records with options, and the function that adds their nulls."""


def _argument(argument: Record, where: Where) -> Record:
    variant = trees.variant_of(argument)
    if variant in _INNER:
        argument = {variant: _INNER[variant](argument[variant])}
    return _filled(argument, _ARGUMENT)


def _symbolic(literal: str, value: Record, where: Where) -> Record:
    expression = value.get("as_expr")
    if isinstance(expression, dict):
        hint = expression.get("hint")
        filled = _filled(hint, ("as_int", "as_float", "as_bool")) if isinstance(hint, dict) else hint
        value = {**value, "as_expr": {**expression, "hint": filled}}
    return _filled(value, ("as_expr", literal))


# ------------------ converts module stacks (`nn_module_stack`) between the text of torch 2.1 and that of later releases
# 2.1      key:(path,type),key:(path,type)
# 2.2 on   key,path,type;key,path,type


def module_stack_up(text: str) -> str:
    """Convert the text of 2.1 to the text of 2.2."""
    return ";".join(
        f"{key},{inner[1:-1]}" for key, inner in (item.partition(":")[::2] for item in text.split(";"))
    )


def module_stack_down(text: str) -> str:
    """Convert the text of 2.2 to the text of 2.1."""
    rows = split_modules(text)
    if rows is None:
        return text
    return ";".join(f"{key}:({path},{kind})" for key, path, kind in rows)


def stack_without_commas(metadata: dict[str, str]) -> dict[str, str]:
    """Remove commas inside paths and types of a module stack, which 2.3 cannot read; a second key keeps the exact stack."""
    text = metadata.get("nn_module_stack", "")
    if all(len(item.split(",")) == 3 for item in text.split(";")):
        return metadata
    rows = split_modules(text)
    if rows is None:
        return {key: value for key, value in metadata.items() if key != "nn_module_stack"}
    plain = ";".join(",".join(part.replace(",", "") for part in row) for row in rows)
    return {**metadata, "nn_module_stack": plain, EXACT_STACK: json.dumps(rows)}


def stack_with_commas(metadata: dict[str, str]) -> dict[str, str]:
    """Restore the exact module stack; the reverse of `stack_without_commas`."""
    if EXACT_STACK not in metadata or "nn_module_stack" not in metadata:
        return metadata
    whole = ";".join(",".join(row) for row in json.loads(metadata[EXACT_STACK]))
    return {**{key: value for key, value in metadata.items() if key != EXACT_STACK}, "nn_module_stack": whole}


# ------------------------------------------------------------------ converts constants of a graph of schema 1 to inputs
# tensors that nodes read by name and that are not inputs yet.
#
# torch 2.1 writes constants where a program makes a tensor from Python numbers. The document contains their bytes
# (`evolve.steps.embedded`); here they become inputs, as later releases write them. Only the bytes describe such a tensor,
# except the copy that 2.1 makes of each (`aten.lift_fresh_copy`), which has a meta of its own.


_COPY = "torch.ops.aten.lift_fresh_copy.default"


def lift_constants(graph: Record, signature: Record) -> tuple[Record, Record]:
    """Insert the constants into the top-level graph as inputs, before the user's, and their specs into the signature.

    Raises:
        SchemaError: nothing describes a constant.
    """
    constants = graph.get("constants")
    graph = trees.without(graph, "constants")
    if not constants:
        return graph, signature
    metas = {name: _meta_of_copy(graph, name) for name in constants}
    specs = signature["input_specs"]
    start = next(
        (index for index, spec in enumerate(specs) if trees.variant_of(spec) == "user_input"), len(specs)
    )
    added = [{"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}} for name in constants]
    inputs = [{"as_tensor": {"name": name}} for name in constants]
    graph["inputs"] = [*graph["inputs"][:start], *inputs, *graph["inputs"][start:]]
    graph["tensor_values"] = {**graph["tensor_values"], **metas}
    return graph, {**signature, "input_specs": [*specs[:start], *added, *specs[start:]]}


def _meta_of_copy(graph: Record, name: str) -> Record:
    for node in graph["nodes"]:
        if node["target"] == _COPY and node["inputs"][0]["arg"].get("as_tensor") == {"name": name}:
            meta: Record = graph["tensor_values"][node["outputs"][0]["as_tensor"]["name"]]
            return meta
    raise SchemaError(
        f"nothing describes the constant {name!r}",
        place="graph_module.graph.constants",
        remedy="Write the file again with torch 2.2 or later",
    )
