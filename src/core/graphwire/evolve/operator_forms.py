"""Operators whose form changed with a release that introduced a version of the schema.

Only the schema's version distinguishes releases in a file, and every release up to 2.12 has its own. So a change of an
operator belongs to the step between two of them (`evolve.planner` has the changes after 2.12). Upward a form
is rewritten after its step, downward before it: a change always receives the records of the newer version. Forms are those in
the files of the releases. Later steps depend on them: how results are passed (8.7) and how nodes are named (8.17) follows
from the forms of their time, so these changes cannot wait until a document has the current version.

    target                       change                                                              older → newer torch
    cond                         one bare result → a list of one; branches return a tuple              2.1 → 2.2
    cond                         one list of n results → n results                                     2.2 → 2.3
    map_impl                     torch.ops.map_impl → torch.ops.higher_order.map_impl                  2.1 → 2.2
    map_impl                     graph, count, tensors … → graph, mapped tensors, other tensors        2.2 → 2.3
    while_loop                   additional inputs as a fourth argument                                2.3 → 2.4
    auto_functionalized          named by its Python module → named as the others are                  2.4 → 2.5
    wrap_with_set_grad_enabled   the same                                                              2.4 → 2.5
    scan                         without dimension and direction: xs and results are permuted, flipped 2.6 → 2.7
    invoke_subgraph              one list of operands → operands                                       2.7 → 2.8
    auto_functionalized_v2       downward auto_functionalized, where nothing is a view                 2.9 ← 2.10
    aten.can_cast                parameter `from` → `from_`                                            2.3 → 2.4
    flash attention on a CPU     → aten._scaled_dot_product_flash_attention_for_cpu                    2.2 → 2.3
    aten.rrelu_with_noise        → aten.rrelu_with_noise_functional, with its noise as a second result       2.5 → 2.6

The dtype and cache flag of wrap_with_autocast may be None in files of 2.6 and 2.7. Every release treats None as its own
default, so it stays. Tests check that 2.13 still runs auto_functionalized and every form here (`tests/evolve`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NoReturn

from graphwire.errors import OpsetError
from graphwire.evolve import trees
from graphwire.evolve.planner import Change, renamed_operator, renamed_parameter
from graphwire.evolve.reserved_names import free_name, value_names
from graphwire.evolve.trees import Node, Record, Where
from graphwire.schema import Layout, ScalarType

# --------------- the editor for nodes in documents of older schemas; the changes in `evolve.operators` use it
# Its methods have the names of those of `editor.NodeEditor`. Arguments and values are trees of the document's version.


class GraphValues:
    """The tensor values of one graph while its nodes are edited; the graph itself is not changed."""

    def __init__(self, graph: Record) -> None:
        self._graph = graph
        self._added: Record = {}
        self._dropped: set[str] = set()

    def meta(self, name: str) -> Record:
        """Return the description of a tensor of the graph."""
        meta: Record = self._added.get(name) or self._graph["tensor_values"][name]
        return meta

    def uses(self, name: str) -> bool:
        """Report whether a node of the graph, or its outputs, refer to a value by its name."""
        return name in self._used

    def make_tensor(self, stem: str, meta: Record) -> str:
        """Add a tensor value and return its name: `stem`, with a number if that is taken."""
        nodes = (node.get("name") for node in self._graph["nodes"])
        name = free_name(stem, value_names(self._graph) | {*self._added, *nodes})
        self._added[name] = meta
        return name

    def drop_tensor(self, name: str) -> None:
        """Delete a tensor that no node makes any more."""
        self._dropped.add(name)

    def added_to(self, nodes: list[Node]) -> Record:
        """Return the graph with other nodes and the values that they make."""
        graph = {**self._graph, "nodes": nodes}
        if self._added or self._dropped:
            values = {**graph["tensor_values"], **self._added}
            graph["tensor_values"] = trees.without(values, *self._dropped)
        return graph

    @cached_property
    def _used(self) -> set[str]:
        given = [argument for node in self._graph["nodes"] for argument in trees.arguments_of(node)]
        return set(_names_in([*given, *self._graph["outputs"]]))


def _names_in(value: Any) -> Iterator[str]:
    """Return the names of values in arguments."""
    if isinstance(value, dict):
        yield from (held for key in ("name", "as_name") if isinstance(held := value.get(key), str))
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        yield from _names_in(each)


class FormEditor:
    """One node of a document and its edits. The walk makes it; a change must not keep it."""

    def __init__(self, values: GraphValues, node: Node, where: Where, refuse: trees.Refuse) -> None:
        self.values = values
        self.node = dict(node)
        """A copy of the node; its fields may be assigned."""
        self._where = where
        self._refuse = refuse
        self._target = node["target"]
        self._before: list[Node] = []
        self._after: list[Node] = []

    @property
    def target(self) -> str:
        """The serialized name of the node's operator."""
        target: str = self.node["target"]
        return target

    @property
    def nodes(self) -> list[Node]:
        """The nodes that replace the edited one."""
        return [*self._before, self.node, *self._after]

    # -------------------------------------------------------------------------------------------------- arguments

    @property
    def arguments(self) -> list[Record]:
        """The arguments, in order."""
        return trees.arguments_of(self.node)

    def argument(self, parameter: str) -> Record:
        """Return an argument by its parameter's name; an empty record where it is not given."""
        found = (named["arg"] for named in self.node["inputs"] if named["name"] == parameter)
        return next(found, {})

    def call(self, *arguments: Record) -> None:
        """Replace the arguments by positional ones, of the same kind as those of the node."""
        kind = {key: value for key, value in self.node["inputs"][0].items() if key == "kind"}
        self.node["inputs"] = [{"name": "", "arg": argument, **kind} for argument in arguments]

    def rename(self, parameter: str, new: str) -> None:
        """Rename an argument; do nothing where it is not given."""
        self.node["inputs"] = [
            {**named, "name": new} if named["name"] == parameter else named for named in self.node["inputs"]
        ]

    # ------------------------------------------------------------------------------------------------------ nodes

    def retarget(self, target: str) -> None:
        """Let the node call another operator."""
        self.node["target"] = target

    def emit(self, target: str, inputs: Mapping[str, Any], name: str, *, after: bool = False) -> None:
        """Add a node that makes the tensor `name`, before this one or after it, with this one's metadata."""
        node = {
            "target": target,
            "inputs": [{"name": parameter, "arg": arg, "kind": 1} for parameter, arg in inputs.items()],
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": dict(self.node["metadata"]),
        }
        (self._after if after else self._before).append(node)

    # --------------------------------------------------------------------------------------------------- refusing

    def refuse(self, reason: str = "") -> NoReturn:
        """Report that the older form cannot express this node, and leave the node unchanged.

        Raises:
            OpsetError: always; the walk reports it with its place.
        """
        raise OpsetError(reason or f"{self.target.rpartition('.')[2]} with these arguments")

    def report(self, construct: str, step: str = "") -> None:
        """Report a construct that the older release does not support, in the node or at a place inside it."""
        self._refuse(self._where.at(step), construct)

    def apply(self, function: Callable[[FormEditor], None]) -> None:
        """Apply a function to the node, unless the node already calls another operator. For the walk."""
        if self.target != self._target:
            return
        try:
            function(self)
        except OpsetError as refusal:
            self.report(refusal.problem)


# ------------------------------------------------------------------------------------ converts flash attention on a CPU
# `_scaled_dot_product_flash_attention` up to torch 2.2, a separate operator since 2.3.
#
# The newer operator has two of the older one's nine results (an older file omits the two that are integers). A program that
# uses another result keeps its form.
#
# The result of `scaled_dot_product_attention` has other strides since 2.5. A `view` that a newer torch found possible fails
# on the older strides. Downward it becomes a `reshape`, which is equivalent where a view is possible, in a graph that changes
# nothing in place (as all graphs up to 2.4).


FLASH = "torch.ops.aten._scaled_dot_product_flash_attention.default"
FLASH_FOR_CPU = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"

_SHARED = frozenset({"query", "key", "value", "dropout_p", "is_causal", "scale"})
_STEM = "_scaled_dot_product_flash_attention_unused"
_OTHERS = ((2, ScalarType.INT), (3, ScalarType.INT), (6, ScalarType.LONG), (7, ScalarType.LONG), (8, None))
"""The results that only the older operator has, by position: tensors without dimensions, of the given element type or, for None,
of the query's."""


def attention_up(edit: FormEditor) -> None:
    """2.2 → 2.3: call the operator for CPUs, where no result that it lacks is used."""
    outputs = edit.node["outputs"]
    names = [output["as_tensor"]["name"] for output in outputs if trees.variant_of(output) == "as_tensor"]
    query = edit.arguments[0]["as_tensor"]["name"]
    if edit.values.meta(query)["device"]["type"] != "cpu" or len(names) != len(outputs):
        return
    if any(edit.values.uses(name) for name in names[2:]):
        return
    for name in names[2:]:
        edit.values.drop_tensor(name)
    _retarget(edit, FLASH_FOR_CPU, outputs[:2])


def attention_down(edit: FormEditor) -> None:
    """2.3 → 2.2: call the older operator, with the results that only it has."""
    inputs, outputs = edit.node["inputs"], edit.node["outputs"]
    plain = all(each["name"] in _SHARED or trees.variant_of(each["arg"]) == "as_none" for each in inputs)
    if not plain or len(outputs) != 2 or edit.values.uses(outputs[1]["as_tensor"]["name"]):
        edit.refuse(f"the operator {FLASH_FOR_CPU}")
    like = edit.values.meta(outputs[0]["as_tensor"]["name"])
    others = []
    for index, kind in _OTHERS:
        meta: Record = {
            **like,
            "dtype": like["dtype"] if kind is None else int(kind),
            "sizes": [],
            "strides": [],
            "requires_grad": False,
            "storage_offset": {"as_int": 0},
            "layout": int(Layout.Strided),
        }
        others.append({"as_tensor": {"name": edit.values.make_tensor(f"{_STEM}_{index}", meta)}})
    _retarget(edit, FLASH, [*outputs, *others])


def _retarget(edit: FormEditor, target: str, outputs: list[Record]) -> None:
    edit.retarget(target)
    edit.node["inputs"] = [each for each in edit.node["inputs"] if each["name"] in _SHARED]
    edit.node["outputs"] = outputs


_ATTENTION = "torch.ops.aten.scaled_dot_product_attention.default"
_MOVES = frozenset({"torch.ops.aten.permute.default", "torch.ops.aten.transpose.int"})
_VIEW, _RESHAPE = "torch.ops.aten.view.default", "torch.ops.aten.reshape.default"


def reshape_attention(tree: Record) -> Record:
    """Replace views of the results of attention, with or without moved dimensions, by reshapes."""
    return trees.rewrite(tree, trees.Edits(graph=_reshaped))


def _reshaped(graph: Record, where: Where) -> Record:
    attended: set[str | None] = set()
    nodes = []
    for node in graph["nodes"]:
        source = trees.name_of(node["inputs"][0]["arg"]) if node["inputs"] else None
        if node["target"] == _ATTENTION or (node["target"] in _MOVES and source in attended):
            attended.add(trees.name_of(node["outputs"][0]))
        if node["target"] == _VIEW and source in attended:
            size = [{**each, "name": "shape"} if each["name"] == "size" else each for each in node["inputs"]]
            nodes.append({**node, "target": _RESHAPE, "inputs": size})
        else:
            nodes.append(node)
    return {**graph, "nodes": nodes} if attended else graph


def _tensors(arguments: Iterable[Record]) -> list[Record] | None:
    """Return the tensors in arguments; None if an argument is not a tensor."""
    tensors: list[Any] = [argument.get("as_tensor") for argument in arguments]
    return None if None in tensors else tensors


def _listed(edit: FormEditor) -> list[Record] | None:
    """Return the tensors of a node whose only result is a list of them."""
    outputs = edit.node["outputs"]
    return outputs[0].get("as_tensors") if len(outputs) == 1 else None


def _apart(tensors: Iterable[Record]) -> list[Record]:
    """Return one argument for each tensor."""
    return [{"as_tensor": tensor} for tensor in tensors]


# ----------------------------------------------------------------------------------------------------------- cond


def cond_tuple_up(edit: FormEditor) -> None:
    """2.1 → 2.2: a branch that returns a bare value returns a tuple of it."""
    tensors = _tensors(edit.node["outputs"])
    if tensors is not None:
        edit.node["outputs"] = [{"as_tensors": tensors}]
    _mark_branches(edit, bare=False)


def cond_tuple_down(edit: FormEditor) -> None:
    """2.2 → 2.1: the reverse of `cond_tuple_up`."""
    listed = _listed(edit)
    if listed is not None and len(listed) == 1:
        edit.node["outputs"] = _apart(listed)
        _mark_branches(edit, bare=True)


def _mark_branches(edit: FormEditor, *, bare: bool) -> None:
    inputs = []
    for named in edit.node["inputs"]:
        inner = named["arg"].get("as_graph")
        if inner is not None and len(inner["graph"]["outputs"]) == 1:
            graph = {**inner["graph"], "is_single_tensor_return": bare}
            inputs.append({**named, "arg": {"as_graph": {**inner, "graph": graph}}})
        else:
            inputs.append(named)
    edit.node["inputs"] = inputs


def cond_results_up(edit: FormEditor) -> None:
    """2.2 → 2.3: several results are separate outputs; one result stays a list of one."""
    listed = _listed(edit)
    if listed is not None and len(listed) > 1:
        edit.node["outputs"] = _apart(listed)


def cond_results_down(edit: FormEditor) -> None:
    """2.3 → 2.2: the reverse of `cond_results_up`."""
    tensors = _tensors(edit.node["outputs"])
    if tensors is not None and len(tensors) > 1:
        edit.node["outputs"] = [{"as_tensors": tensors}]


# ------------------------------------------------------------------------------------------ map, while_loop, subgraph


def map_up(edit: FormEditor) -> None:
    """2.2 → 2.3: the mapped tensors and the others are two lists."""
    body, *rest = edit.arguments
    if rest and (count := rest[0].get("as_int")) is not None:
        tensors = [argument["as_tensor"] for argument in rest[1:]]
        edit.call(body, {"as_tensors": tensors[:count]}, {"as_tensors": tensors[count:]})


def map_down(edit: FormEditor) -> None:
    """2.3 → 2.2: the reverse of `map_up`."""
    body, *rest = edit.arguments
    lists = [argument.get("as_tensors") for argument in rest]
    if len(lists) != 2 or lists[0] is None or lists[1] is None:
        edit.refuse()
    edit.call(body, {"as_int": len(lists[0])}, *_apart([*lists[0], *lists[1]]))


def while_loop_up(edit: FormEditor) -> None:
    """2.3 → 2.4: add an empty list of additional inputs."""
    if len(edit.arguments) == 3:
        edit.call(*edit.arguments, {"as_tensors": []})


def while_loop_down(edit: FormEditor) -> None:
    """2.4 → 2.3: the reverse of `while_loop_up`."""
    if len(edit.arguments) != 4 or edit.arguments[3].get("as_tensors") != []:
        edit.refuse()
    edit.call(*edit.arguments[:3])


def invoke_up(edit: FormEditor) -> None:
    """2.7 → 2.8: operands are separate arguments."""
    body, name, *operands = edit.arguments
    if len(operands) == 1 and (tensors := operands[0].get("as_tensors")) is not None:
        edit.call(body, name, *_apart(tensors))


def invoke_down(edit: FormEditor) -> None:
    """2.8 → 2.7: the reverse of `invoke_up`."""
    body, name, *operands = edit.arguments
    tensors = _tensors(operands)
    if tensors is None:
        edit.refuse()
    edit.call(body, name, {"as_tensors": tensors})


# ----------------------------------------------------------------------------------------------------------- scan


def scan_up(edit: FormEditor) -> None:
    """2.6 → 2.7: the scan always runs along dimension 0, forward.

    Another dimension is moved to the front before. For the other direction the mapped tensors are flipped before, and the
    results of the steps after.
    """
    if len(edit.arguments) != 6:
        return
    body, init, xs, dim, reverse, additional = edit.arguments
    tensors, outputs = xs["as_tensors"], edit.node["outputs"]
    if dim["as_int"] != 0:
        tensors = [_moved(edit, tensor, dim["as_int"]) for tensor in tensors]
    if reverse["as_bool"]:
        tensors = [_flipped(edit, tensor) for tensor in tensors]
        carried = len(init["as_tensors"])
        outputs = [*outputs[:carried], *(_unflipped(edit, output) for output in outputs[carried:])]
    edit.call(body, init, {"as_tensors": tensors}, additional)
    edit.node["outputs"] = outputs


def scan_down(edit: FormEditor) -> None:
    """2.7 → 2.6: the reverse of `scan_up`."""
    if len(edit.arguments) != 4:
        edit.refuse()
    body, init, xs, additional = edit.arguments
    edit.call(body, init, xs, {"as_int": 0}, {"as_bool": False}, additional)


def _moved(edit: FormEditor, tensor: Record, dim: int) -> Record:
    meta = edit.values.meta(tensor["name"])
    first, *others = range(len(meta["sizes"]))[dim], *range(len(meta["sizes"]))
    order = [first, *(index for index in others if index != first)]
    permuted = {field: [meta[field][index] for index in order] for field in ("sizes", "strides")}
    name = edit.values.make_tensor(f"{tensor['name']}_moved", {**meta, **permuted})
    inputs = {"self": {"as_tensor": tensor}, "source": {"as_int": dim}, "destination": {"as_int": 0}}
    edit.emit("torch.ops.aten.movedim.int", inputs, name)
    return {"name": name}


def _flipped(edit: FormEditor, tensor: Record) -> Record:
    name = edit.values.make_tensor(f"{tensor['name']}_flipped", edit.values.meta(tensor["name"]))
    _flip(edit, tensor["name"], name)
    return {"name": name}


def _unflipped(edit: FormEditor, output: Record) -> Record:
    name = output["as_tensor"]["name"]
    if "_unused_" in name and not edit.values.uses(name):
        return output
    backward = edit.values.make_tensor(f"{name}_flipped", edit.values.meta(name))
    _flip(edit, backward, name, after=True)
    return {"as_tensor": {"name": backward}}


def _flip(edit: FormEditor, source: str, name: str, *, after: bool = False) -> None:
    inputs = {"self": {"as_tensor": {"name": source}}, "dims": {"as_ints": [0]}}
    edit.emit("torch.ops.aten.flip.default", inputs, name, after=after)


# -------------------------------------------------------------------------------------------------- functionalization


def functionalized_down(edit: FormEditor) -> None:
    """2.10 → 2.9: convert auto_functionalized_v2 to auto_functionalized.

    The newer operator identifies each changed tensor by its index in `_all_bases`; the older one receives it under its own
    name. A changed tensor that is a view of its base has no older form.
    """
    bases = edit.argument("_all_bases").get("as_tensors")
    inputs, used = [], []
    for each in edit.node["inputs"]:
        name, base = each["name"], each["arg"].get("as_int")
        if not name.startswith("_"):
            inputs.append(each)
        elif name.endswith("_base_index") and bases is not None and base is not None:
            used.append(base)
            own = name[1 : -len("_base_index")]
            inputs.append({"name": own, "arg": {"as_tensor": bases[base]}, "kind": each.get("kind", 2)})
        elif name != "_all_bases":
            edit.refuse()
    if bases is None or used != list(range(len(bases))):
        edit.refuse()
    edit.retarget("torch.ops.higher_order.auto_functionalized")
    edit.node["inputs"] = inputs


# ---------------------------------------------------------------------------------------------------------- rrelu

RRELU = "torch.ops.aten.rrelu_with_noise.default"
RRELU_FUNCTIONAL = "torch.ops.aten.rrelu_with_noise_functional.default"


def noise_up(edit: FormEditor) -> None:
    """2.5 → 2.6: call the functional operator, which returns the noise as a second result.

    Up to 2.5 the operator's schema does not declare that it writes its noise. Since 2.6 it does, so a functional graph needs
    another operator.
    """
    meta = edit.values.meta(edit.argument("noise")["as_tensor"]["name"])
    (result,) = edit.node["outputs"]
    name = edit.values.make_tensor(f"{result['as_tensor']['name']}_noise", meta)
    edit.retarget(RRELU_FUNCTIONAL)
    edit.node["outputs"] = [result, *_apart([{"name": name}])]


def noise_down(edit: FormEditor) -> None:
    """2.6 → 2.5, where nothing uses the returned noise; else the operator stays, which 2.5 does not support."""
    result, noise = (output["as_tensor"]["name"] for output in edit.node["outputs"])
    if not edit.values.uses(noise):
        edit.values.drop_tensor(noise)
        edit.retarget(RRELU)
        edit.node["outputs"] = _apart([{"name": result}])


# ---------------------------------------------------------------------------------------------------------- table

_HOP = "torch.ops.higher_order."
_PYTHON = "torch._higher_order_ops."

SCHEMA_CHANGES: Final[tuple[Change, ...]] = (
    Change("2.2", f"{_HOP}cond", cond_tuple_up, cond_tuple_down),
    renamed_operator("2.2", "torch.ops.map_impl", f"{_HOP}map_impl"),
    Change("2.3", f"{_HOP}cond", cond_results_up, cond_results_down),
    Change("2.3", f"{_HOP}map_impl", map_up, map_down),
    Change("2.3", FLASH, attention_up, attention_down, FLASH_FOR_CPU),
    Change("2.4", f"{_HOP}while_loop", while_loop_up, while_loop_down),
    renamed_parameter("2.4", "torch.ops.aten.can_cast.default", "from", "from_"),
    renamed_operator("2.5", f"{_PYTHON}auto_functionalize.auto_functionalized", f"{_HOP}auto_functionalized"),
    renamed_operator("2.5", f"{_PYTHON}wrap.wrap_with_set_grad_enabled", f"{_HOP}wrap_with_set_grad_enabled"),
    Change("2.6", RRELU, noise_up, noise_down, RRELU_FUNCTIONAL),
    Change("2.7", f"{_HOP}scan", scan_up, scan_down),
    Change("2.8", f"{_HOP}invoke_subgraph", invoke_up, invoke_down),
    Change("2.10", f"{_HOP}auto_functionalized_v2", down=functionalized_down),
)
"""Every change of a form, oldest first."""
