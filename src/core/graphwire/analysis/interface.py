"""Derives the interface of a program as its author wrote it, from its treespecs, its signature and its values.

The names of a container's children come from the document: the keys of dicts, the fields of registered namedtuples, and for a
type of another library, a context that lists as many names as there are children (as those of dataclasses do).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from graphwire.analysis.diff.facts import UNKNOWN, Labels, argument_text, user_inputs, value_facts
from graphwire.errors import GraphwireError
from graphwire.schema import Argument, Graph, NamedTupleDef, Program, value_name
from graphwire.schema.texts.treespec import TreeSpec, parse_treespec, split_version

# ----------------------------- the interface of a program as its author wrote it: nested arguments and results, by name


MOST_LEVELS: Final = 12
"""The maximum number of nested containers that a text shows."""


class InterfaceTree(msgspec.Struct, frozen=True):
    """An argument, a result, or a part of one: a container with its children, or a leaf."""

    name: str
    """The parameter, key, field or index under which its container holds it; empty for the result as a whole."""
    container: str = ""
    """For a container: its serialized type, such as `builtins.dict`, or the serialized name of a namedtuple's class; `?` if
    the document does not contain the structure."""
    leaf: str = ""
    """For a leaf: what it is, such as `float32 [tokens.shape[0], 100]`, `int x.shape[0]`, `None` or `3`."""
    value: str = ""
    """For a leaf: the name of the value in the graph; empty for a literal."""
    children: list[InterfaceTree] = []

    def __str__(self) -> str:
        return _written(self, MOST_LEVELS)


class Interface(msgspec.Struct, frozen=True):
    """The arguments that a program takes, and its result. `str` of it is readable text."""

    inputs: list[InterfaceTree]
    """The positional arguments."""
    keywords: list[InterfaceTree]
    """The keyword arguments."""
    output: InterfaceTree
    """The result."""

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the content of each argument, as text."""
        yield from ((each.name, str(each)) for each in self.inputs)
        yield from ((f"{each.name}=", str(each)) for each in self.keywords)

    def __str__(self) -> str:
        inputs = [f"{each.name}: {each}" for each in self.inputs]
        keywords = [f"{each.name}: {each}" for each in self.keywords]
        listed = ", ".join([*inputs, *(["*"] if keywords else []), *keywords])
        return f"({listed}) -> {self.output}"


_BRACKETS: Final = {
    "builtins.tuple": ("(", ")"),
    "builtins.list": ("[", "]"),
    "builtins.dict": ("{", "}"),
    "?": ("(", ")"),
}
"""The containers that Python writes with brackets alone."""


def _written(tree: InterfaceTree, levels: int) -> str:
    """Return the text of a leaf, or of a container, such as `{"logits": float32 [2, 100]}` or `Point(x=…, y=…)`."""
    if not tree.container:
        return tree.leaf
    brackets = _BRACKETS.get(tree.container)
    first, last = brackets or (f"{tree.container.rpartition('.')[2]}(", ")")
    if not levels:
        return f"{first}…{last}"
    parts = []
    for index, child in enumerate(tree.children):
        text = _written(child, levels - 1)
        if tree.container == "builtins.dict":
            text = f"{json.dumps(child.name, ensure_ascii=False)}: {text}"
        elif not brackets and child.name != str(index):
            text = f"{child.name}={text}"
        parts.append(text)
    comma = "," if tree.container == "builtins.tuple" and len(parts) == 1 else ""
    return f"{first}{', '.join(parts)}{comma}{last}"


_TUPLE, _DICT, _NAMEDTUPLE = "builtins.tuple", "builtins.dict", "collections.namedtuple"


def interface_of(program: Program) -> tuple[Interface, Labels]:
    """Return the interface of a program, and names for its symbols that refer to it.

    Without treespecs, or with ones that contradict the signature, the interface is flat.
    """
    module = program.graph_module
    signature = module.signature
    if len(signature.input_specs) != len(module.graph.inputs):
        return Interface([], [], InterfaceTree("", UNKNOWN)), Labels(program, {}, [])
    given = user_inputs(program)
    made = [spec.user_output.arg for spec in signature.output_specs if spec.user_output is not None]
    root = next((entry.signature for entry in module.module_call_graph if not entry.fqn), None)
    fields = module.treespec_namedtuple_fields
    inputs = _called(root.in_spec, root.forward_arg_names, fields, len(given)) if root is not None else None
    if inputs is None:
        inputs = [_Part(_flat_name(each, index), None) for index, each in enumerate(given)], []
    output = _structured(root.out_spec, fields, len(made)) if root is not None else None
    if output is None:
        output = _flat_result(len(made))
    _name_leaves(inputs[0], given)
    paths = [path for part in (*inputs[0], *inputs[1]) for path in _paths(part, part.name)]
    labels = Labels(program, {}, paths)
    leaves = iter(_leaf(module.graph, each, labels) for each in given)
    results = iter(_leaf(module.graph, each, labels) for each in made)
    interface = Interface(
        [_tree(part, leaves) for part in inputs[0]],
        [_tree(part, leaves) for part in inputs[1]],
        _tree(output, results),
    )
    return interface, labels


class _Part:
    """A part of a structure: a container's type and its children, or a leaf."""

    def __init__(
        self, name: str, container: str | None, children: Sequence[_Part] = (), step: str = ""
    ) -> None:
        self.name = name
        self.container = container
        self.children = children
        self.step = step
        """How Python reaches it from its container: `["logits"]`, `[0]` or `.x`."""

    def leaves(self) -> int:
        return 1 if self.container is None else sum(child.leaves() for child in self.children)


def _called(
    text: str, names: Sequence[str] | None, fields: Mapping[str, NamedTupleDef], leaves: int
) -> tuple[list[_Part], list[_Part]] | None:
    """Return the positional and the keyword arguments of `((args…), {name: …})`; None for another structure."""
    whole = _structured(text, fields, leaves)
    if whole is None or whole.container != _TUPLE or len(whole.children) != 2:
        return None
    positional, keywords = whole.children
    if positional.container != _TUPLE or keywords.container != _DICT:
        return None
    for index, part in enumerate(positional.children):
        part.name = names[index] if names is not None and index < len(names) else f"args[{index}]"
    return list(positional.children), list(keywords.children)


def _structured(text: str, fields: Mapping[str, NamedTupleDef], leaves: int) -> _Part | None:
    """Return the structure that a treespec describes; None if it cannot be parsed, or has another number of leaves."""
    try:
        part = _part("", parse_treespec(text), fields)
    except (GraphwireError, RecursionError):
        return None
    return part if part.leaves() == leaves else None


def _part(name: str, spec: TreeSpec, fields: Mapping[str, NamedTupleDef], step: str = "") -> _Part:
    if spec.type is None:
        return _Part(name, None, step=step)
    container, _ = split_version(spec.type)
    keys = _child_keys(container, spec, fields)
    parts = []
    for index, child in enumerate(spec.children):
        if keys is None:
            parts.append(_part(str(index), child, fields, f"[{index}]"))
            continue
        key = argument_text(keys[index])
        quoted = json.dumps(key, ensure_ascii=False) if isinstance(keys[index], str) else key
        parts.append(_part(key, child, fields, f"[{quoted}]" if container in _KEYED else f".{key}"))
    is_named = container == _NAMEDTUPLE and isinstance(spec.context, str)
    return _Part(name, spec.context if is_named else container, parts, step)


_KEYED: Final = frozenset({_DICT, "collections.OrderedDict", "collections.defaultdict"})
"""The containers whose children are reached by key, not by attribute."""


def _child_keys(container: str, spec: TreeSpec, fields: Mapping[str, NamedTupleDef]) -> Sequence[Any] | None:
    """Return the keys or fields of a container's children; None if it has only positions."""
    context = _loaded(spec.context)
    if container == _NAMEDTUPLE and isinstance(spec.context, str):
        context = fields[spec.context].field_names if spec.context in fields else None
    match context:
        case {"fields": listed} | {"dict_context": listed} | {"keys": listed}:
            pass
        case [*_, list(listed), list()] if (
            container not in _KEYED
        ):  # a dataclass: its fields, and those that are None
            pass
        case _:
            listed = context
    if not isinstance(listed, list) or len(listed) != len(spec.children):
        return None
    return listed if container in _KEYED or all(isinstance(each, str) for each in listed) else None


def _loaded(context: Any) -> Any:
    """Return the JSON that a context contains as text, or the context itself."""
    if not isinstance(context, str):
        return context
    try:
        return json.loads(context)
    except (ValueError, RecursionError):
        return None


def _flat_name(argument: Argument, index: int) -> str:
    return value_name(argument) or f"args[{index}]"


def _flat_result(count: int) -> _Part:
    if count == 1:
        return _Part("", None)
    return _Part("", UNKNOWN, [_Part(str(index), None) for index in range(count)])


def _name_leaves(parts: Sequence[_Part], values: Sequence[Argument]) -> None:
    """Give the arguments whose names the document does not contain the names of their placeholders."""
    position = 0
    for index, part in enumerate(parts):
        if part.container is None and part.name == f"args[{index}]":
            part.name = value_name(values[position]) or part.name
        position += part.leaves()


def _paths(part: _Part, path: str) -> Iterator[str]:
    """Yield for each leaf how its value is reached from the argument, such as `batch["tokens"]`."""
    if part.container is None:
        yield path
    for child in part.children:
        yield from _paths(child, path + child.step)


def _tree(part: _Part, leaves: Iterator[tuple[str, str]]) -> InterfaceTree:
    if part.container is None:
        text, value = next(leaves)
        return InterfaceTree(part.name, leaf=text, value=value)
    return InterfaceTree(
        part.name, part.container, children=[_tree(child, leaves) for child in part.children]
    )


def _leaf(graph: Graph, argument: Argument, labels: Labels) -> tuple[str, str]:
    """Return what a leaf is as text, and the name of its value in the graph."""
    name = value_name(argument)
    if name is None:
        return argument_text(argument), ""
    match value_facts(graph, name, labels):
        case {"kind": "tensor", "dtype": dtype, "shape": shape}:
            return f"{dtype} {shape}", name
        case {"kind": "object", "class": class_name}:
            return class_name, name
        case {"kind": kind, "value": value}:
            return f"{kind} {value}", name
    return UNKNOWN, name
