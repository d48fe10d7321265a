"""Calls constant codecs: finds the codec that owns a value, and checks what the codec writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from graphwire.errors import EncodeError, GraphwireError, exception_text
from graphwire.hooks import ConstantCodec, Registry, Tree
from graphwire.wire import check_plugin_tree


def codec_for(registry: Registry, value: Any) -> tuple[ConstantCodec | None, list[tuple[str, str]]]:
    """Return the codec that owns a value, if any, and the codecs asked before it that failed, each with its error text. A codec
    that fails owns nothing, so its failure affects only values that no other codec owns."""
    failures: list[tuple[str, str]] = []
    for codec in registry.constant_codecs.values():
        try:
            if codec.owns(value):
                return codec, failures
        except Exception as error:  # noqa: BLE001 a plugin's code
            failures.append((codec.name, exception_text(error)))
    return None, failures


def encode_by_codec(codec: ConstantCodec, value: Any, name: str) -> tuple[Tree, list[Any]]:
    """Return the tree and the tensors that a codec encodes a value as.

    Raises:
        EncodeError: the codec fails, or does not return a tree and a sequence of parts.
    """
    who = f"the constant codec {codec.name}"
    parts: Any
    try:
        tree, parts = codec.encode(value)
    except GraphwireError as error:
        raise error.within(name) from None
    except Exception as error:
        raise EncodeError(f"{who} fails: {exception_text(error)}", place=name) from error
    if not isinstance(parts, Sequence) or isinstance(parts, (str, bytes)):
        raise EncodeError(
            f"{who} returns a {class_name(parts)} as its tensors",
            place=name,
            remedy="Let `encode` return the tree and a list of tensors",
        )
    check_plugin_tree(tree, who, name)
    return copy_tree(tree), list(parts)


def copy_tree(tree: Any) -> Any:
    """Return a tree that shares no list or dict with the original."""
    return msgspec.to_builtins(tree, builtin_types=(bytes,)) if type(tree) in (list, dict) else tree


def class_name(value: Any) -> str:
    """Return the module and qualified name of a value's class."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
