"""The facts that a diff compares besides nodes: the entries of each section of a program, each with its facts as text."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from graphwire import schema
from graphwire.analysis.validation.value_rules import number_text
from graphwire.errors import GraphwireError
from graphwire.schema.texts.treespec import TreeSpec, parse_treespec, split_version

if TYPE_CHECKING:
    from graphwire.schema.texts.operations import Expression

UNKNOWN: Final = "?"
"""The text of what cannot be determined."""

# ----------------------------------------------- an argument as text: names of values, and literals as Python writes them


_MOST_CHARACTERS = 200
_MOST_ITEMS = 64
_MOST_LEVELS = 8


def argument_text(argument: Any) -> str:
    """Return an argument, or another union, as text: names of values and subgraphs, and literals as Python writes them."""
    text = _text(argument, 0)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _text(value: Any, level: int) -> str:
    """Return what stands in an argument as text: a record, a container, an enum's member or a plain value."""
    if level > _MOST_LEVELS:
        return "…"
    if isinstance(value, list):
        return _items(value, lambda item: _text(item, level + 1))
    if isinstance(value, dict):
        return _braced([f"{key}: {_text(item, level + 1)}" for key, item in value.items()])
    if isinstance(value, msgspec.Struct):
        if type(value) in _RECORDS:
            return _RECORDS[type(value)](value, level + 1)
        return _variant(value, level + 1) if "name" not in value.__struct_fields__ else str(value.name)  # type: ignore[attr-defined]
    if isinstance(value, schema.ScalarType):
        return schema.DTYPE_NAMES.get(value, value.name)
    if isinstance(value, enum.Enum):
        return value.name
    return number_text(value) if type(value) is int else str(value)


def _items(items: Sequence[Any], text_of: Callable[[Any], str]) -> str:
    more = ", …" if len(items) > _MOST_ITEMS else ""
    return f"[{', '.join(map(text_of, items[:_MOST_ITEMS]))}{more}]"


def _braced(texts: Sequence[str]) -> str:
    return f"{{{_items(texts, str)[1:-1]}}}"


def _floats(value: Any, level: int = 0) -> str:
    return _items(value, _floats) if isinstance(value, list) else repr(schema.decode_float(value))


def _variant(union: Any, level: int) -> str:
    variant, value = schema.variant_and_content(union)
    return _VARIANTS.get(variant, _text)(value, level) if variant else UNKNOWN


def _sequence(value: schema.SequenceValue, level: int) -> str:
    text = _text(value.items, level)
    return text if value.kind == "list" else f"({text[1:-1]}{',' * (len(value.items) == 1)})"


def _slice(value: schema.SliceValue, level: int) -> str:
    return f"slice({', '.join(_text(bound, level) for bound in (value.start, value.stop, value.step))})"


_VARIANTS: Final[dict[str, Callable[[Any, int], str]]] = {
    "as_none": lambda _, __: "None",
    "as_string": lambda text, _: repr(text),
    "as_strings": lambda texts, _: _items(texts, repr),
    **dict.fromkeys(("as_float", "as_floats", "as_float_lists"), _floats),
    "as_mapping": lambda entries, level: _braced(
        [f"{_text(entry.key, level)}: {_text(entry.value, level)}" for entry in entries]
    ),
}
"""The text of variants that are written otherwise than their values elsewhere."""

_RECORDS: Final[dict[type, Callable[[Any, int], str]]] = {
    schema.ComplexValue: lambda value, _: str(
        complex(schema.decode_float(value.real), schema.decode_float(value.imag))
    ),
    schema.Device: lambda value, _: (
        value.type if value.index is None else f"{value.type}:{number_text(value.index)}"
    ),
    schema.RangeValue: lambda value, _: str(range(value.start, value.stop, value.step)),
    schema.SequenceValue: _sequence,
    schema.SliceValue: _slice,
}
"""The text of each record that is not the name of a value, or one of several variants."""


Facts = dict[str, str]
"""The facts about one entry: text by the name of the fact."""

Entries = dict[str, Facts]
"""The entries of a section, by identifying name."""


class Labels:
    """Readable names for the symbols of a program: `x.shape[0]` for a size of an input."""

    def __init__(self, program: schema.Program, numbers: Mapping[str, str], inputs: Sequence[str]) -> None:
        """Name the symbols.

        Args:
            numbers: the name of each symbol in the canonical form, used for symbols that are not the size of an input.
            inputs: the names of the user inputs by position, and perhaps of more.
        """
        self._texts: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        graph = program.graph_module.graph
        for argument, label in zip(user_inputs(program), inputs, strict=False):
            name = schema.value_name(argument) or ""
            meta = graph.tensor_values.get(name)
            if meta is not None:
                for dimension, size in enumerate(meta.sizes):
                    self._note(size, f"{label}.shape[{dimension}]")
            elif name in graph.sym_int_values:
                self._note(graph.sym_int_values[name], label)
        self._labels = {**numbers, **self._labels}

    def _note(self, value: schema.SymInt, label: str) -> None:
        if value.as_expr is not None:
            from graphwire.analysis.canonical.symbol_names import parsed

            expression, _ = parsed(value.as_expr.expr_str)
            if expression is not None and expression.head == "Symbol":
                self._labels.setdefault(expression.args[0], label)

    def infix(self, text: str) -> str:
        """Return an expression, in either syntax, as readable text."""
        if text not in self._texts:
            from graphwire.analysis.canonical.symbol_names import parsed

            expression, _ = parsed(text)
            self._texts[text] = text if expression is None else self._written(expression)
        return self._texts[text]

    def range(self, text: str) -> str:
        """Return the key of a range as readable text."""
        from graphwire.schema.texts.infix import parse_infix

        try:
            return self._written(parse_infix(text))
        except GraphwireError:
            return text

    def _written(self, expression: Expression) -> str:
        from graphwire.schema.texts.infix import format_infix

        if not self._labels:
            return format_infix(expression)
        from graphwire.analysis.canonical.symbol_names import renamed_expression

        return format_infix(renamed_expression(expression, lambda name: self._labels.get(name, name)))

    def value(self, value: schema.SymInt | schema.SymFloat | schema.SymBool) -> str:
        """Return a number or truth value, which may be symbolic, as readable text."""
        if value.as_expr is not None:
            return self.infix(value.as_expr.expr_str)
        return argument_text(value)


def user_inputs(program: schema.Program) -> list[schema.Argument]:
    """Return the arguments that the caller passes, in order."""
    pairs = zip(program.graph_module.signature.input_specs, program.graph_module.graph.inputs, strict=False)
    return [argument for spec, argument in pairs if spec.user_input or spec.constant_input]


# --------------------------------------------------------------------------------------------------------- values


def value_facts(graph: schema.Graph, name: str, labels: Labels) -> Facts:
    """Return the facts about a value; empty if the graph has none."""
    if (meta := graph.tensor_values.get(name)) is not None:
        return _tensor_facts(meta, labels)
    for kind in ("int", "float", "bool"):
        if (value := getattr(graph, schema.VALUE_TABLES[f"sym_{kind}"]).get(name)) is not None:
            return {"kind": kind, "value": labels.value(value)}
    if name in graph.custom_obj_values:
        return {"kind": "object", "class": graph.custom_obj_values[name].class_fqn}
    return {}


def _tensor_facts(meta: schema.TensorMeta, labels: Labels) -> Facts:
    index = "" if meta.device.index is None else f":{meta.device.index}"
    facts = {
        "kind": "tensor",
        "dtype": meta.dtype_text,
        "shape": _listed(meta.sizes, labels),
        "device": f"{meta.device.type}{index}",
        "requires grad": "yes" if meta.requires_grad else "no",
        "layout": meta.layout_name or meta.layout.name,
        "offset": labels.value(meta.storage_offset),
    }
    if not _is_contiguous(meta, labels):
        facts["strides"] = _listed(meta.strides, labels)
    if meta.sparse is not None:
        facts["sparse"] = _plain([meta.sparse])
    return facts


def _is_contiguous(meta: schema.TensorMeta, labels: Labels) -> bool:
    """Return whether the strides provably follow from the sizes, so that the diff need not show them."""
    expected = 1
    for size, stride in zip(reversed(meta.sizes), reversed(meta.strides), strict=False):
        if size.as_int is None or (size.as_int != 1 and stride.as_int != expected):
            return False
        expected *= size.as_int
    return len(meta.sizes) == len(meta.strides)


def _listed(values: list[schema.SymInt], labels: Labels) -> str:
    return f"[{', '.join(map(labels.value, values))}]"


def _argument_facts(graph: schema.Graph, argument: schema.Argument, labels: Labels) -> Facts:
    name = schema.value_name(argument)
    if name is not None:
        return value_facts(graph, name, labels)
    return {"kind": "literal", "value": argument_text(argument)}


def _plain(record: Any) -> str:
    tree = msgspec.to_builtins(record)
    values = list(tree.values()) if isinstance(tree, dict) else []
    return msgspec.json.encode(values[0] if len(values) == 1 else tree).decode()


# -------------------------------------------------------------------------------------------------------- sections


def _inputs(program: schema.Program, labels: Labels) -> Entries:
    from graphwire.analysis.canonical.content_hashing import variant_of_spec

    found: Entries = {}
    graph, position = program.graph_module.graph, 0
    for spec, argument in zip(program.graph_module.signature.input_specs, graph.inputs, strict=True):
        variant, held = variant_of_spec(spec)
        targets = [field for field in held.__struct_fields__ if field.endswith("_name")]
        facts = _argument_facts(graph, argument, labels)
        if targets:
            key = f"{variant.replace('_', ' ')} {getattr(held, targets[0])}"
            if variant == "buffer":
                facts["persistent"] = "yes" if held.persistent else "no"
        elif variant == "token":
            key = f"token {len([name for name in found if name.startswith('token ')])}"
        else:
            key = f"argument {position}"
            position += 1
        found[key] = facts
    return found


def _outputs(program: schema.Program, labels: Labels) -> Entries:
    from graphwire.analysis.canonical.content_hashing import variant_of_spec

    found: Entries = {}
    graph, position = program.graph_module.graph, 0
    for spec, argument in zip(program.graph_module.signature.output_specs, graph.outputs, strict=True):
        variant, held = variant_of_spec(spec)
        targets = [field for field in held.__struct_fields__ if field.endswith("_name")]
        if targets and variant != "user_input_mutation":
            key = f"{variant.replace('_', ' ')} {getattr(held, targets[0])}"
        else:
            key = f"{variant.replace('_', ' ')} {position}"
            position += 1
        found[key] = _argument_facts(graph, argument, labels)
    return found


def _ranges(program: schema.Program, labels: Labels) -> Entries:
    return {
        labels.range(text): {"range": range_text(limits)}
        for text, limits in program.range_constraints.items()
    }


def range_text(limits: schema.RangeConstraint) -> str:
    """Return a range as text, such as `[2, 512]` or `[0, ∞)`."""
    low = "(-∞" if limits.min_val is None else f"[{number_text(limits.min_val)}"
    high = "∞)" if limits.max_val is None else f"{number_text(limits.max_val)}]"
    return f"{low}, {high}"


def _module_calls(program: schema.Program, _labels: Labels) -> Entries:
    found: Entries = {}
    for entry in program.graph_module.module_call_graph:
        facts: Facts = {}
        if (call := entry.signature) is not None:
            facts = {"inputs": _structure(call.in_spec), "outputs": _structure(call.out_spec)}
            facts["argument names"] = ", ".join(call.forward_arg_names or ())
        found[entry.fqn or "(root)"] = facts
    return found


def _structure(text: str) -> str:
    """Return a container structure as readable text, such as `(*, {x: *})`; text that cannot be parsed stays unchanged."""
    try:
        return _spelled(parse_treespec(text))
    except (GraphwireError, RecursionError):
        return text


def _spelled(spec: TreeSpec) -> str:
    if spec.type is None:
        return "*"
    name, _ = split_version(spec.type)
    parts = ", ".join(map(_spelled, spec.children))
    if name in ("builtins.tuple", "builtins.list"):
        return f"({parts})" if name == "builtins.tuple" else f"[{parts}]"
    context = spec.context if isinstance(spec.context, str) else msgspec.json.encode(spec.context).decode()
    return f"{name.rpartition('.')[2]}{context}({parts})"


def _versions(program: schema.Program, _labels: Labels) -> Entries:
    found = {f"opset {name}": {"version": str(version)} for name, version in program.opset_version.items()}
    found |= {f"dialect {name}": {} for name in program.verifiers}
    return found | {f"requires {name}": {} for name in program.requires}


def _guards(program: schema.Program, _labels: Labels) -> Entries:
    return {text: {} for text in program.guards_code}


def encoded_entries(program: schema.Program, _labels: Labels | None = None) -> Entries:
    """Return the values that codecs encoded."""
    return {
        name: {"codec": value.codec, "data": _plain([value.tree]), "tensors": ", ".join(value.tensors)}
        for name, value in program.encoded_values.items()
    }


def _namedtuples(program: schema.Program, _labels: Labels) -> Entries:
    fields = program.graph_module.treespec_namedtuple_fields
    return {name: {"fields": ", ".join(definition.field_names)} for name, definition in fields.items()}


SECTIONS: Final[dict[str, Callable[[schema.Program, Labels], Entries]]] = {
    "version": _versions,
    "input": _inputs,
    "output": _outputs,
    "range": _ranges,
    "guard": _guards,
    "module call": _module_calls,
    "namedtuple": _namedtuples,
    "encoded value": encoded_entries,
}
"""The sections of a program, in display order. Nodes, weights and constants come after them."""
