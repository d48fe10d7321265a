"""Converts the metadata of tensor subclasses to and from records: the tensors without elements that one consists of.

A constant codec takes such a value apart and rebuilds it, as it does with a constant. Fake tensors take the place of the
parts, and symbolic integers the place of numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from graphwire.bridge import torch_compat
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.tensors.codecs import codec_for
from graphwire.bridge.tensors.symbols import decode_number, encode_int
from graphwire.bridge.tensors.tensor_metas import decode_tensor_meta, encode_tensor_meta
from graphwire.errors import DecodeError, EncodeError
from graphwire.schema import Composition, Part, SymInt
from graphwire.wire import check_plugin_tree

_INTEGER = "graphwire.integer"
_SYMBOLS = frozenset((torch.SymInt,))


def encode_composition(context: EncodeContext, tensor: torch.Tensor) -> Composition | None:
    """Return the composition of a value that is not a plain fake tensor; None if no codec can encode it.

    Raises:
        EncodeError: a codec returns something other than a tree.
    """
    codec, _ = codec_for(context.registry, tensor)
    if codec is None:
        return None
    try:
        tree, tensors = codec.encode(tensor)
        parts = list(tensors)
    except Exception:  # noqa: BLE001 codecs may not support values without elements, and these only inform
        return None
    if not all(isinstance(part, torch.Tensor) for part in parts):
        return None
    who = f"the constant codec {codec.name}"
    check_plugin_tree(tree, who, "composition", besides=_SYMBOLS)
    integers: list[SymInt] = []
    bare = _without_symbols(context, tree, integers, who)
    return Composition(codec.name, bare, [_encode_part(context, part) for part in parts], integers)


def _encode_part(context: EncodeContext, tensor: torch.Tensor) -> Part:
    plain = type(tensor) is torch_compat.FakeTensor
    return Part(encode_tensor_meta(context, tensor), None if plain else encode_composition(context, tensor))


def _without_symbols(context: EncodeContext, tree: Any, integers: list[SymInt], who: str) -> Any:
    if isinstance(tree, torch.SymInt):
        integers.append(encode_int(context, tree))
        return {_INTEGER: len(integers) - 1}
    if isinstance(tree, dict):
        if _INTEGER in tree:
            raise EncodeError(f"{who} returns a dict with the key {_INTEGER!r}, which is reserved for sizes")
        return {key: _without_symbols(context, item, integers, who) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_without_symbols(context, item, integers, who) for item in tree]
    return tree


def decode_composition(context: DecodeContext, record: Composition, *, input_value: bool) -> Any:
    """Rebuild a tensor subclass from fake tensors; None if this process lacks what that needs. Only a constant of the class
    strictly needs it."""
    codec = context.registry.constant_codecs.get(record.codec)
    if codec is None:
        return None
    parts = [_decode_part(context, part, input_value) for part in record.parts]
    integers = [decode_number(context, integer) for integer in record.integers]
    tree = _with_symbols(record.tree, integers)
    if any(part is None for part in parts):
        return None
    try:
        made = codec.decode(tree, parts)
    except Exception:  # noqa: BLE001 as above
        return None
    return made if isinstance(made, torch.Tensor) else None


def _decode_part(context: DecodeContext, part: Part, input_value: bool) -> Any:
    if part.composition is not None:
        return decode_composition(context, part.composition, input_value=input_value)
    return decode_tensor_meta(context, part.meta, input_value=input_value)


def _with_symbols(tree: Any, integers: list[Any]) -> Any:
    if isinstance(tree, dict):
        if tree.keys() == {_INTEGER}:
            index = tree[_INTEGER]
            if type(index) is not int or not 0 <= index < len(integers):
                raise DecodeError(f"{index!r:.80} is not an index of the integers of a tensor subclass")
            return integers[index]
        return {key: _with_symbols(item, integers) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_with_symbols(item, integers) for item in tree]
    return tree
