"""Values that constant codecs write ⇄ records.

A codec says a value alone. What every weight and constant has, the framework keeps: whether it is a parameter or a buffer,
whether it requires gradients, and which names are one object. Before a value is written it is made again, by the very steps
that read it, so that what could not be loaded is refused while there is nothing to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import torch

from graphwire.analysis.validation import tensor_difference
from graphwire.bridge import torch_compat
from graphwire.bridge.context import EncodeContext
from graphwire.bridge.tensors.codecs import class_name, codec_for, copy_of_tree, encode_by_codec
from graphwire.bridge.tensors.tensor_metas import outer_facts
from graphwire.errors import DecodeError, EncodeError, GraphwireError, exception_text, shown
from graphwire.hooks import ConstantCodec, Registry, remedy_for_name, unavailable_error
from graphwire.schema import EncodedValue

_COPIED_BYTES = 1 << 16
"""Parts up to here are copied before a value is made of them for a look, so that a codec that writes into its parts is
found out over a copy."""
_REMEDY = "Save a plain tensor in its place (of a DTensor `full_tensor()`), or install a plugin whose codec makes it again"
_AT_FAULT = "This is a fault of its plugin: repair or update it, or name it in GRAPHWIRE_DISABLE_PLUGINS"


class _Known(NamedTuple):
    """A value that was written."""

    name: str
    value: Any
    """Kept alive: it is known by its id."""
    made: Any
    """What a load makes of it."""


@dataclass(slots=True)
class CodedValues:
    """The values of one folder that codecs write."""

    context: EncodeContext
    encoded: dict[str, EncodedValue]
    """Where they are noted; shared by the folders of a program."""
    names: Sequence[Collection[str]]
    """Those of the program's values, which no part may have."""
    is_part: Callable[[Any], bool]
    """Whether a value is a plain tensor, and needs no codec."""
    are_weights: bool
    weights: Mapping[int, str]
    """Of constants: the names of the program's weights by their ids."""
    _known: dict[int, _Known] = field(default_factory=dict)

    def encode(self, name: str, value: Any, index: int | None = None) -> dict[str, Any]:
        """Note a value that is no plain tensor, and give the plain tensors that it is written as, by name; none of a value
        that was noted before under another name.

        Args:
            index: how many values of the folder stand before it.

        Raises:
            EncodeError: no codec owns it, or what is written of it could not be loaded.
        """
        plain: dict[str, Any] = {}
        self._encode(name, value, plain)
        if not plain:
            self.encoded[name].index = index
        return plain

    def _encode(self, name: str, value: Any, plain: dict[str, Any]) -> Any:
        if type(name) is not str:
            raise EncodeError(f"{shown(name)} is no name of a value", remedy="Let it be a text")
        if name in self.encoded:
            problem = "it is both a weight and a constant, and neither is a plain tensor"
            raise EncodeError(problem, place=name, remedy="Rename one of them")
        known = self._known.get(id(value))
        if known is not None:
            first = self.encoded[known.name]
            self.encoded[name] = msgspec.structs.replace(first, same_as=first.same_as or known.name)
            return known.made
        codec, tree, tensors = _written(self.context, name, value)
        names = [self._part_name(name, index) for index in range(len(tensors))]
        record = EncodedValue(codec.name, tree, names, torch_compat.buffer_mark(value))
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
                parts.append(self._encode(part_name, part, plain))
        record.is_weight = self.are_weights and len(plain) == before
        made = _made_again(self.context.registry, name, value, record, parts)
        self._known[id(value)] = _Known(name, value, made)
        return made

    def _part_name(self, name: str, index: int) -> str:
        part = f"{name}#{index}"
        while part in self.encoded or any(part in each for each in self.names):
            part += "#"
        return part


def _made_again(registry: Registry, name: str, value: Any, record: EncodedValue, parts: Sequence[Any]) -> Any:
    """The value as a load makes it of what was written.

    Raises:
        EncodeError: a load could not make it, or would make something else.
    """
    versions = [_version(part) for part in parts]
    try:
        # What a codec does to the tree that it reads is not done to the one that is written.
        look = msgspec.structs.replace(record, tree=copy_of_tree(record.tree))
        made = decode_coded(registry, name, look, parts)
    except GraphwireError as error:
        raise EncodeError(
            f"what the constant codec {record.codec} writes of this {class_name(value)} could not be loaded: "
            f"{error.problem}",
            place=name,
            remedy=_REMEDY,
        ) from error
    problem = ""
    if versions != [_version(part) for part in parts]:
        problem = "writes into the tensors that it reads"
    elif not _is_of_kind(made, value):
        problem = f"makes a {class_name(made)} of what it wrote of a {class_name(value)}"
    elif isinstance(value, torch.Tensor) and (
        told := tensor_difference(outer_facts(made), outer_facts(value))
    ):
        problem = f"makes another tensor of what it wrote: {told.replace('the graph says', 'it was')}"
    if problem:
        raise EncodeError(f"the constant codec {record.codec} {problem}", place=name, remedy=_AT_FAULT)
    return made


def _is_of_kind(made: Any, value: Any) -> bool:
    """Whether what was made may stand for a value: a tensor for a tensor, and an object for one of its class."""
    tensors = isinstance(value, torch.Tensor), isinstance(made, torch.Tensor)
    return all(tensors) or (not any(tensors) and type(made) is type(value))


def _stand_in(part: torch.Tensor) -> torch.Tensor:
    """A plain tensor for a look: the same elements, but not the program's own object."""
    if type(part) not in (torch.Tensor, torch.nn.Parameter):
        return part  # a fake one
    made = part.detach()
    storage = made.untyped_storage()
    if part.is_cpu and storage.nbytes() <= _COPIED_BYTES and not (part.is_conj() or part.is_neg()):
        made = torch.empty(0, dtype=part.dtype).set_(
            storage.clone(), part.storage_offset(), part.shape, part.stride()
        )
    if isinstance(part, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=part.requires_grad)
    return made.requires_grad_() if part.requires_grad else made


def _version(part: Any) -> int:
    """How often a tensor was written to, as far as torch counts."""
    return part._version if isinstance(part, torch.Tensor) and not part.is_inference() else 0


def _written(context: EncodeContext, name: str, value: Any) -> tuple[ConstantCodec, Any, list[Any]]:
    """The codec that owns a value, and what it makes of it."""
    codec, failures = codec_for(context.registry, value)
    if codec is not None:
        return codec, *encode_by_codec(codec, value, name)
    layout = f" of layout {value.layout}" if isinstance(value, torch.Tensor) else ""
    if isinstance(value, torch.Tensor) and torch_compat.is_transformed(value):
        layout += " inside a function transform"
    if failures:
        who = "; ".join(f"the constant codec {each} fails when it is asked: {why}" for each, why in failures)
        raise EncodeError(
            f"no constant codec owns this {class_name(value)}{layout}; {who}", place=name, remedy=_AT_FAULT
        )
    raise EncodeError(
        f"{class_name(value)}{layout} is no plain strided tensor, and no constant codec owns it",
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
    """The value that a codec wrote, and what the framework kept of it.

    Raises:
        DecodeError: the codec is not there, or cannot make it.
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
    try:
        with torch.no_grad():
            made = codec.decode(record.tree, parts)
        return _as_it_was(made, record)
    except GraphwireError as error:
        raise error.within(name) from None
    except Exception as error:
        raise DecodeError(
            f"the constant codec {record.codec} fails: {exception_text(error)}", place=name
        ) from error


def _as_it_was(made: Any, record: EncodedValue) -> Any:
    """What a codec made, as the parameter or buffer that it was."""
    if isinstance(made, torch.Tensor):
        wanted = made.requires_grad if record.requires_grad is None else record.requires_grad
        is_param = isinstance(made, torch.nn.Parameter)
        if record.is_param is not None and record.is_param != is_param:
            made = torch_compat.as_parameter(made) if record.is_param else made.detach()
        if made.requires_grad != wanted:
            made.requires_grad_(wanted)
    if record.buffer is not None:
        torch_compat.mark_buffer(made, record.buffer)
    return made
