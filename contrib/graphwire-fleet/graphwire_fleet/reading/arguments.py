"""Arguments of nodes as JSON, so that SQL can ask for them.

A literal is itself. Whatever else JSON has no form for is an object with one key, which names its kind: `{"tensor": "x"}`,
`{"dtype": "float32"}`, `{"float": "inf"}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from graphwire.schema import DTYPE_NAMES, Argument, Node, SequenceValue, by_variant, decode_float, variant_of

_MOST_LEVELS = 64
"""The levels of nested arguments that are written; below is `{"deeper": true}`."""


def arguments_of(node: Node) -> str:
    """Return the inputs of a node as a JSON object, by parameter; those without a name by their position."""
    found: dict[str, Any] = {}
    for index, each in enumerate(node.inputs):
        found[each.name if each.name and each.name not in found else str(index)] = _form(each.arg, 0)
    return msgspec.json.encode(found).decode()


def _form(argument: Argument, level: int) -> Any:
    variant = variant_of(argument)
    if not variant:
        return None
    if level > _MOST_LEVELS:
        return {"deeper": True}
    return FORMS[variant](getattr(argument, variant), level + 1)


def _literal(value: Any, _: int) -> Any:
    return value


def _float(value: Any, _: int) -> Any:
    number = float(decode_float(value))
    return number if math.isfinite(number) else {"float": str(number)}


def _named(kind: str) -> Callable[[Any, int], Any]:
    return lambda value, _: {kind: value.name}


def _text(kind: str) -> Callable[[Any, int], Any]:
    return lambda value, _: {
        kind: value if isinstance(value, str) else getattr(value, "spec", None) or value.name
    }


def _symbol(kind: str) -> Callable[[Any, int], Any]:
    def form(value: Any, level: int) -> Any:
        if value.as_name is not None:
            return {f"sym_{kind}": value.as_name}
        literal = getattr(value, f"as_{kind}")
        return _float(literal, level) if kind == "float" and literal is not None else literal

    return form


def _optional(value: Any, _: int) -> Any:
    return None if value.as_tensor is None else {"tensor": value.as_tensor.name}


def _device(value: Any, _: int) -> Any:
    return {"device": value.type if value.index is None else f"{value.type}:{value.index}"}


def _sequence(value: SequenceValue, level: int) -> Any:
    items = [_form(item, level) for item in value.items]
    return items if value.kind == "list" else {"tuple": items}


def _listed(form: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    return lambda values, level: [form(each, level) for each in values]


FORMS: Final[dict[str, Callable[[Any, int], Any]]] = by_variant(
    {
        "as_none": lambda _value, _level: None,
        "as_tensor": _named("tensor"),
        "as_int": _literal,
        "as_float": _float,
        "as_string": _literal,
        "as_sym_int": _symbol("int"),
        "as_sym_float": _symbol("float"),
        "as_sym_bool": _symbol("bool"),
        "as_scalar_type": lambda value, _: {"dtype": DTYPE_NAMES.get(value, value.name)},
        "as_dtype_name": _text("dtype"),
        "as_memory_format": _named("memory_format"),
        "as_layout": _named("layout"),
        "as_layout_name": _text("layout"),
        "as_device": _device,
        "as_bool": _literal,
        "as_graph": _named("graph"),
        "as_optional_tensor": _optional,
        "as_custom_obj": lambda value, _: {"object": value.name, "class": value.class_fqn},
        "as_operator": _text("operator"),
        "as_complex": lambda value, level: {
            "complex": [_float(value.real, level), _float(value.imag, level)]
        },
        "as_string_to_argument": lambda value, level: {
            "dict": {key: _form(item, level) for key, item in value.items()}
        },
        "as_sequence": _sequence,
        "as_mapping": lambda value, level: {
            "mapping": [[_form(each.key, level), _form(each.value, level)] for each in value]
        },
        "as_slice": lambda value, level: {
            "slice": [_form(part, level) for part in (value.start, value.stop, value.step)]
        },
        "as_constant": _text("constant"),
        "as_treespec": _text("treespec"),
        "as_results": _text("results"),
        "as_range": lambda value, _: {"range": [value.start, value.stop, value.step]},
    },
    _listed,
)
"""How the value of each variant of an argument is written; lists follow from their items."""
