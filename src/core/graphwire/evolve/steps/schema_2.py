"""Schema 2 (torch 2.2). Signatures are specs, its version is a plain number, and files write every variant of a union.

The step to 5.1 (torch 2.3) added unions with one key, operators as arguments, the class of a script object, buffers that are
not persistent, inputs that are script objects or that the program changes, and symbolic storage offsets. An unbacked symbol
`i0` became `u0`.

Upward every buffer is persistent (its tensor is in the state dict), and the class of a script object is `unknown`. Downward a
buffer that is not persistent becomes a persistent one. 2.2 writes keyword arguments and lists of strings, but cannot call a
program with the former nor read the latter; and it uses other names for container types outside Python's own.
"""

from __future__ import annotations

from functools import partial

from graphwire.evolve import trees
from graphwire.evolve.expressions import rename_symbols, sort_symbols_first
from graphwire.evolve.step import Step
from graphwire.evolve.steps.early_records import with_all_variants, without_nulls
from graphwire.evolve.trees import Record, Where
from graphwire.schema import Version
from graphwire.schema.texts.treespec import parse_treespec, treespec_nodes

_COMMON = ("builtins.", "collections.")
"""Prefixes of the names of containers that every release supports with the same name and context."""

UNKNOWN_CLASS = "unknown"


def up(tree: Record) -> Record:
    """Convert 2 to 5.1."""
    tree = trees.rewrite(
        without_nulls(tree),
        trees.Edits(
            argument=_OBJECT_UP,
            graph=lambda graph, where: {**graph, "custom_obj_values": _objects(graph)},
            tensor_meta=lambda meta, where: {**meta, "storage_offset": {"as_int": meta["storage_offset"]}},
            sym_int=_renamed("i", "u"),
            sym_bool=_renamed("i", "u"),
            input_spec=_PERSISTENT,
        ),
    )
    return {**tree, "range_constraints": _renamed_keys(tree, "i", "u")}


def down(tree: Record, refuse: trees.Refuse) -> Record:
    """Convert 5.1 to 2."""
    _report_calls(tree, refuse)
    trees.rewrite(tree, trees.Edits(node=partial(_check_results, refuse)))
    tree = trees.rewrite(
        sort_symbols_first(tree),
        trees.Edits(
            argument=_OBJECT_DOWN,
            graph=lambda graph, where: trees.without(graph, "custom_obj_values"),
            tensor_meta=partial(_plain_offset, refuse),
            sym_int=_renamed("u", "i"),
            sym_bool=_renamed("u", "i"),
            input_spec=_NOT_PERSISTENT,
        ),
    )
    return with_all_variants({**tree, "range_constraints": _renamed_keys(tree, "u", "i")})


def _report_calls(tree: Record, refuse: trees.Refuse) -> None:
    for where, text in trees.treespecs(tree):
        spec = parse_treespec(text)
        if where.step == ".in_spec" and len(spec.children) == 2 and spec.children[1].children:
            refuse(where, "keyword arguments")
        for _, node, _ in treespec_nodes(spec):
            if node.type is not None and not node.type.startswith(_COMMON):
                refuse(where, f"the container type {node.type}")


def _check_results(refuse: trees.Refuse, node: Record, where: Where) -> None:
    """Report a higher-order operator with other results than one tensor or one list of tensors, which are all that 2.2 reads."""
    variants = {trees.variant_of(output) for output in node["outputs"]}
    plain = variants <= {"as_tensor"} or (variants == {"as_tensors"} and len(node["outputs"]) == 1)
    if node["target"].startswith("torch.ops.higher_order.") and not plain:
        refuse(where, "a result of a higher-order operator that is not a tensor")


_OBJECT_UP = trees.variant_edit(
    "as_custom_obj", lambda each: {"as_custom_obj": {**each, "class_fqn": UNKNOWN_CLASS}}
)
_OBJECT_DOWN = trees.variant_edit("as_custom_obj", lambda each: {"as_custom_obj": {"name": each["name"]}})
_PERSISTENT = trees.variant_edit("buffer", lambda buffer: {"buffer": {**buffer, "persistent": True}})
_NOT_PERSISTENT = trees.variant_edit("buffer", lambda buffer: {"buffer": trees.without(buffer, "persistent")})


def _objects(graph: Record) -> Record:
    found = (argument.get("as_custom_obj") for argument in graph["inputs"])
    return {described["name"]: described for described in found if described is not None}


def _plain_offset(refuse: trees.Refuse, meta: Record, where: Where) -> Record | None:
    offset = meta["storage_offset"].get("as_int")
    if offset is None:
        refuse(where, "a symbolic storage offset")
        return None
    return {**meta, "storage_offset": offset}


def _renamed(old: str, new: str) -> trees.SureEdit:
    return trees.expression_edit(lambda text: rename_symbols(text, old, new))


def _renamed_keys(tree: Record, old: str, new: str) -> Record:
    return {rename_symbols(key, old, new): limits for key, limits in tree["range_constraints"].items()}


STEP = Step(
    Version(2),
    Version(5, 1),
    up,
    down,
    absent=(
        "which buffers are not persistent (all are treated as persistent)",
        "the classes of script objects",
    ),
)
