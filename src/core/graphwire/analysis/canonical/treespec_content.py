"""The content tree of a treespec, independent of how the contexts of its containers are encoded.

A leaf is None; a container is `[type, context, child…]`. torch's text loses some facts about contexts; graphwire then writes
a tagged form under `TYPE@2`. The content keeps only what torch's text keeps: a tuple in a context is a list, and the keys of
a dict in it are text.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from graphwire.analysis.canonical.encoding import plain_content
from graphwire.errors import GraphwireError
from graphwire.schema.texts import TreeSpec, parse_treespec, split_version


def treespec_content(text: str) -> Any:
    """Return the content of a treespec, or `["text", TEXT]` for text that cannot be parsed.

    Raises:
        RecursionError: containers nest too deeply.
    """
    try:
        return _container(parse_treespec(text))
    except GraphwireError:
        return ["text", text]


def _container(spec: TreeSpec) -> Any:
    if spec.type is None:
        return None
    name, version = split_version(spec.type)
    return [name, _context(name, version, spec.context), *map(_container, spec.children)]


def _context(name: str, version: int, context: Any) -> Any:
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except (ValueError, RecursionError):
            return ["text", context]
    else:
        match context:
            case [str(), list(fields), list(none)] if all(type(each) is str for each in (*fields, *none)):
                context = [fields, none]  # a dataclass as torch 2.1 and 2.2 wrote it, with its class in front
    if name == "collections.defaultdict" and version == 2 and isinstance(context, dict):
        module, _, factory = str(context.get("factory") or "").rpartition(".")
        context = {
            "default_factory_module": module,
            "default_factory_name": factory,
            "dict_context": _untagged(context.get("keys")),
        }
    return plain_content(_untagged(context) if version > 1 else context)


def _untagged(tree: Any) -> Any:
    """Return the value without the tags of `schema.texts.treespec.encode_value`, in the form that Python's JSON has for it."""
    if isinstance(tree, list):
        return list(map(_untagged, tree))
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"tuple": list(items), **rest} if not rest:
            return list(map(_untagged, items))
        case {"dict": list(pairs), **rest} if not rest and all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            return {_key(key): _untagged(value) for key, value in pairs}
        case {"float": ("inf" | "-inf" | "nan") as text, **rest} if not rest:
            return float(text)
        case {"bytes": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return tree
        case {"enum": str(kind), "name": str(name), **rest} if not rest:
            return {"__enum__": True, "fqn": kind, "name": name}
    return {key: _untagged(value) for key, value in tree.items()}


def _key(tree: Any) -> str:
    return tree if isinstance(tree, str) else json.dumps(_untagged(tree), default=repr)
