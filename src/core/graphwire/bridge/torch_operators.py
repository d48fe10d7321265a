"""What torch tells about the operators of a program: their schemas."""

from __future__ import annotations

from collections.abc import Iterable

from graphwire.registry import Registry


def operator_schemas(names: Iterable[str], registry: Registry) -> dict[str, str]:
    """Return the schema of each operator that has one, by its serialized name."""
    found = {}
    for name in names:
        handler = registry.op_handler(name)
        try:
            target = None if handler is None else handler.resolve(name)
        except Exception:  # noqa: BLE001 a plugin's code; the page then lacks the schema
            continue
        schema = getattr(target, "_schema", None)
        if schema is not None:
            found[name] = str(schema)
    return found
