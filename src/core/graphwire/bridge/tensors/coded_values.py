"""Converts values that constant codecs encode to and from records.

A codec encodes the value alone. The framework stores what every weight and constant has: whether it is a parameter or a
buffer, whether it requires gradients, and which names share one object. Encoding also decodes the value, with the steps of
a load, so that a save fails at once if the value could not be loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import torch

from graphwire.analysis.validation.value_rules import tensor_difference
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.tensors import tensor_metas
from graphwire.bridge.tensors.storages import view_of
from graphwire.bridge.torch_compat import private
from graphwire.bridge.torch_compat.pytree import class_name
from graphwire.errors import (
    DecodeError,
    EncodeError,
    GraphwireError,
    located,
    shown,
    unless_interrupted,
)
from graphwire.registry.calls import blamed
from graphwire.registry.discovery import remedy_for_name, unavailable_error
from graphwire.registry.interfaces import ConstantCodec, Tree
from graphwire.registry.provisions import error_text
from graphwire.registry.registry import Registry
from graphwire.schema import Composition, EncodedValue, Part, SymInt
from graphwire.wire.document import check_plugin_tree

# --------------------------- calls constant codecs: finds the codec that owns a value, and checks what the codec writes


def codec_for(registry: Registry, value: Any) -> tuple[ConstantCodec | None, list[Exception]]:
    """Return the codec that owns a value, if any, and what the codecs asked before it raised. A codec that fails owns nothing, so
    its failure affects only values that no other codec owns."""
    failures: list[Exception] = []
    for codec in registry.constant_codecs.values():
        try:
            if codec.owns(value):
                return codec, failures
        except unless_interrupted(Exception) as error:  # a plugin's code
            failures.append(error)
    return None, failures


def encode_by_codec(codec: ConstantCodec, value: Any, name: str) -> tuple[Tree, list[Any]]:
    """Return the tree and the tensors that a codec encodes a value as.

    Raises:
        EncodeError: the codec fails, or does not return a tree and a sequence of parts.
    """
    who = f"the constant codec {codec.name}"
    with located(lambda: name):
        tree, parts = codec.encode(value)
    try:
        check_plugin_tree(tree, who, name)
    except EncodeError as error:
        blamed(error, codec)
        raise
    return copy_tree(tree), list(parts)


def copy_tree(tree: Any) -> Any:
    """Return a tree that shares no list or dict with the original."""
    return msgspec.to_builtins(tree, builtin_types=(bytes,)) if type(tree) in (list, dict) else tree


_COPIED_BYTES = 1 << 16
"""Parts of up to this many bytes are copied before the trial decoding, so that a codec that writes into its parts is
detected on a copy."""
_REMEDY = "Save a plain tensor in its place, or install a plugin whose codec makes it again"


class _Known(NamedTuple):
    """An encoded value."""

    name: str
    value: Any
    """Kept alive because lookups use its id."""
    made: Any
    """The value that a load makes."""


@dataclass(slots=True)
class CodedValues:
    """The values of one archive folder that codecs encode."""

    context: EncodeContext
    encoded: dict[str, EncodedValue]
    """The records, by name; shared by all folders of a program."""
    names: Sequence[Collection[str]]
    """The names of the program's values, which no part may reuse."""
    is_part: Callable[[Any], bool]
    """Whether a value is a plain tensor, which needs no codec."""
    are_weights: bool
    weights: Mapping[int, str]
    """For constants: the names of the program's weights, by the weight's id."""
    _known: dict[int, _Known] = field(default_factory=dict)

    def encode(self, name: str, value: Any, index: int | None = None) -> dict[str, Any]:
        """Record a value that is not a plain tensor, and return the plain tensors that encode it, by name; empty if the value
        is already recorded under another name.

        Args:
            index: the number of values that precede it in the folder.

        Raises:
            EncodeError: no codec owns the value, or its encoding could not be loaded.
        """
        plain: dict[str, Any] = {}
        self._encode(name, value, plain)
        if not plain:
            self.encoded[name].index = index
        return plain

    def _encode(self, name: str, value: Any, plain: dict[str, Any]) -> Any:
        if type(name) is not str:
            raise EncodeError(
                f"{shown(name)} is not a valid name of a value", remedy="Use a text as the name"
            )
        if name in self.encoded:
            problem = "it is both a weight and a constant, and neither is a plain tensor"
            raise EncodeError(problem, place=name, remedy="Rename one of them")
        known = self._known.get(id(value))
        if known is not None:
            first = self.encoded[known.name]
            self.encoded[name] = msgspec.structs.replace(first, same_as=first.same_as or known.name)
            return known.made
        codec, tree, tensors = _encode_by_owner(self.context, name, value)
        names = [self._part_name(name, index) for index in range(len(tensors))]
        record = EncodedValue(codec.name, tree, names, private.buffer_mark(value))
        record.same_as = self.weights.get(id(value))
        if isinstance(value, torch.Tensor):
            record.is_param = isinstance(value, torch.nn.Parameter)
            record.requires_grad = value.requires_grad
        self.encoded[name] = record
        self.context.features.add("codecs")
        self.context.provided.add(("constant_codec", codec.name))
        parts = []
        before = len(plain)
        for part_name, part in zip(names, tensors, strict=True):
            if self.is_part(part):
                plain[part_name] = part
                parts.append(_stand_in(part))
            else:
                try:
                    parts.append(self._encode(part_name, part, plain))
                except EncodeError as error:
                    blamed(error, codec)
                    raise
        record.is_weight = self.are_weights and len(plain) == before
        made = _decode_again(self.context.registry, codec, name, value, record, parts)
        self._known[id(value)] = _Known(name, value, made)
        return made

    def _part_name(self, name: str, index: int) -> str:
        part = f"{name}#{index}"
        while part in self.encoded or any(part in each for each in self.names):
            part += "#"
        return part


def _decode_again(
    registry: Registry,
    codec: ConstantCodec,
    name: str,
    value: Any,
    record: EncodedValue,
    parts: Sequence[Any],
) -> Any:
    """Return the value that a load makes from a record.

    Raises:
        EncodeError: a load would fail, or would make a different value.
    """
    versions = [_version(part) for part in parts]
    try:
        # A copy, so that a codec that changes the tree it reads does not change the record.
        look = msgspec.structs.replace(record, tree=copy_tree(record.tree))
        with private.mesh_of(value):
            made = decode_coded(registry, name, look, parts)
    except GraphwireError as error:
        raise EncodeError(
            f"what the constant codec {record.codec} writes of this {class_name(type(value))} could not be loaded: "
            f"{error.problem}",
            place=name,
            remedy=". ".join(filter(None, (error.remedy, _REMEDY))),
        ) from error
    problem = ""
    if versions != [_version(part) for part in parts]:
        problem = "writes into the tensors that it reads"
    elif not _is_of_kind(made, value):
        problem = f"makes a {class_name(type(made))} of what it wrote of a {class_name(type(value))}"
    elif isinstance(value, torch.Tensor) and (
        how := tensor_difference(tensor_metas.visible_facts(made), tensor_metas.visible_facts(value))
    ):
        problem = f"makes another tensor of what it wrote: {how.replace('the graph says', 'it was')}"
    if problem:
        raise blamed(EncodeError(f"the constant codec {record.codec} {problem}", place=name), codec)
    return made


def _is_of_kind(made: Any, value: Any) -> bool:
    """Return whether a decoded value matches the original: both are tensors, or both are of one class."""
    tensors = isinstance(value, torch.Tensor), isinstance(made, torch.Tensor)
    return all(tensors) or (not any(tensors) and type(made) is type(value))


def _stand_in(part: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor for the trial decoding: the same elements, but not the program's own object."""
    if type(part) not in (torch.Tensor, torch.nn.Parameter):
        return part  # a fake one
    made = part.detach()
    storage = made.untyped_storage()
    if part.is_cpu and storage.nbytes() <= _COPIED_BYTES and not (part.is_conj() or part.is_neg()):
        place = storage.clone(), part.dtype, made.device
        made = view_of(*place, part.storage_offset(), part.shape, part.stride())
    if isinstance(part, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=part.requires_grad)
    return made.requires_grad_() if part.requires_grad else made


def _version(part: Any) -> int:
    """Return how often a tensor was written to, as far as torch counts."""
    return part._version if isinstance(part, torch.Tensor) and not part.is_inference() else 0


def _encode_by_owner(context: EncodeContext, name: str, value: Any) -> tuple[ConstantCodec, Any, list[Any]]:
    """Return the codec that owns a value, the tree and the parts."""
    codec, failures = codec_for(context.registry, value)
    if codec is not None:
        return codec, *encode_by_codec(codec, value, name)
    layout = f" of layout {value.layout}" if isinstance(value, torch.Tensor) else ""
    if isinstance(value, torch.Tensor) and private.is_transformed(value):
        layout += " inside a function transform"
    if failures:
        raise EncodeError(
            f"no constant codec owns this {class_name(type(value))}{layout}; {'; '.join(map(error_text, failures))}",
            place=name,
            remedy=". ".join(
                dict.fromkeys(each.remedy for each in failures if isinstance(each, GraphwireError))
            ),
        )
    raise EncodeError(
        f"{class_name(type(value))}{layout} is not a plain strided tensor, and no constant codec owns it",
        place=name,
        remedy=remedy_for_name(
            context.registry,
            "constant_codec",
            "",
            "Install the plugin that provides one, or register a ConstantCodec for it",
        ),
    )


# ----------------------------------------------------------------------------------------------------- decode


def decode_coded(registry: Registry, name: str, record: EncodedValue, parts: Sequence[Any]) -> Any:
    """Decode a value that a codec wrote, and set the attributes that the framework stores.

    Raises:
        DecodeError: the codec is unavailable, or fails to decode the value.
    """
    codec = registry.constant_codecs.get(record.codec)
    if codec is None:
        if fault := registry.fault_of("constant_codec", record.codec):
            raise unavailable_error(fault, f"the constant codec {record.codec}", DecodeError).within(name)
        raise DecodeError(
            f"no constant codec {record.codec!r} is installed",
            place=name,
            remedy=remedy_for_name(
                registry, "constant_codec", record.codec, "Install the plugin that provides it"
            ),
        )
    with located(lambda: name), torch.no_grad():
        made = codec.decode(copy.deepcopy(record.tree), parts)  # a codec may change what it decodes
    return _restore_flags(made, record)


def _restore_flags(made: Any, record: EncodedValue) -> Any:
    """Restore the parameter or buffer status and `requires_grad` of a value that a codec decoded."""
    if isinstance(made, torch.Tensor):
        wanted = made.requires_grad if record.requires_grad is None else record.requires_grad
        is_param = isinstance(made, torch.nn.Parameter)
        if record.is_param is not None and record.is_param != is_param:
            made = private.as_parameter(made) if record.is_param else made.detach()
        if made.requires_grad != wanted:
            made.requires_grad_(wanted)
    if record.buffer is not None:
        private.mark_buffer(made, record.buffer)
    return made


# ------------------------------------------------------- converts the metadata of tensor subclasses to and from records
# the tensors without elements that one consists of.
#
# A constant codec takes such a value apart and rebuilds it, as it does with a constant. Fake tensors take the place of the
# parts, and symbolic integers the place of numbers.


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
    except unless_interrupted(
        Exception
    ):  # codecs may not support values without elements, and these only inform
        return None
    if not all(isinstance(part, torch.Tensor) for part in parts):
        return None
    who = f"the constant codec {codec.name}"
    check_plugin_tree(tree, who, "composition", besides=_SYMBOLS)
    integers: list[SymInt] = []
    bare = _without_symbols(context, tree, integers, who)
    return Composition(codec.name, bare, [_encode_part(context, part) for part in parts], integers)


def _encode_part(context: EncodeContext, tensor: torch.Tensor) -> Part:
    plain = type(tensor) is private.FakeTensor
    return Part(
        tensor_metas.encode_tensor_meta(context, tensor),
        None if plain else encode_composition(context, tensor),
    )


def _without_symbols(context: EncodeContext, tree: Any, integers: list[SymInt], who: str) -> Any:
    if isinstance(tree, torch.SymInt):
        integers.append(tensor_metas.encode_int(context, tree))
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
    integers = [tensor_metas.decode_number(context, integer) for integer in record.integers]
    tree = _with_symbols(record.tree, integers)
    if any(part is None for part in parts):
        return None
    try:
        made = codec.decode(tree, parts)
    except unless_interrupted(Exception):  # as above
        return None
    return made if isinstance(made, torch.Tensor) else None


def _decode_part(context: DecodeContext, part: Part, input_value: bool) -> Any:
    if part.composition is not None:
        return decode_composition(context, part.composition, input_value=input_value)
    return tensor_metas.decode_tensor_meta(context, part.meta, input_value=input_value)


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
