"""Renames weights whose names cannot be attributes, as the quantizer of torch 2.1 creates them: `L['self'][0]_scale_0`.

The new name depends only on the old one, so the signature and the state dict can be renamed independently.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from graphwire.lazy import pattern
from graphwire.schema import Program
from graphwire.wire import Payloads

Value = TypeVar("Value")

_QUOTED: Final = pattern(r"[\"'\\`]")
_SIGN: Final = pattern(r"[^\w.]", re.ASCII)
_FIELDS: Final = ("parameter_name", "buffer_name", "tensor_constant_name")


def sanitized_name(name: str) -> str:
    """Return a name that contains a quote or backslash with underscores for all special characters; any other unchanged."""
    return _SIGN.sub("_", name) if _QUOTED.search(name) else name


def sanitize_weight_names(program: Program) -> list[tuple[str, str]]:
    """Rename the weights in a program's signature, except where two would get the same name.

    Returns:
        The changed names, each with the new one.
    """
    signature = program.graph_module.signature
    places = [
        (kind, field, getattr(kind, field))
        for spec in (*signature.input_specs, *signature.output_specs)
        for kind in (getattr(spec, arm) for arm in spec.__struct_fields__)
        for field in _FIELDS
        if hasattr(kind, field)
    ]
    names = _renamed({name: None for _, _, name in places})
    for kind, field, name in places:
        setattr(kind, field, names[name])
    return [(old, new) for old, new in names.items() if old != new]


def sanitize_payload_names(payloads: Payloads) -> None:
    """Rename the weights and constants of a program's payloads in the same way."""
    names = _renamed(dict.fromkeys((*payloads.weights, *payloads.constants, *payloads.unread)))
    if all(old == new for old, new in names.items()):
        return
    for meta in (*payloads.weights.values(), *payloads.constants.values()):
        meta.same_as = names.get(meta.same_as or "", meta.same_as)
        meta.weight = names.get(meta.weight or "", meta.weight)
    payloads.weights = _with(payloads.weights, names)
    payloads.constants = _with(payloads.constants, names)
    payloads.unread = _with(payloads.unread, names)
    payloads.encoded = _with(payloads.encoded, names)


def _renamed(names: dict[str, None]) -> dict[str, str]:
    """Map each name to its sanitized name, or to itself if several names would become equal."""
    wanted: dict[str, list[str]] = {}
    for name in names:
        wanted.setdefault(sanitized_name(name), []).append(name)
    return {name: plain if len(of) == 1 else name for plain, of in wanted.items() for name in of}


def _with(values: dict[str, Value], names: dict[str, str]) -> dict[str, Value]:
    return {names.get(name, name): value for name, value in values.items()}
