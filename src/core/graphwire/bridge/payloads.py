"""Tensors with elements ⇄ payloads: records of bytes, each a storage that any number of tensors share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import torch

from graphwire.bridge import torch_private
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.storages import RecordTable, StorageTable, is_plain, placement_of
from graphwire.bridge.tensors import (
    decode_device,
    decode_dtype,
    decode_layout,
    decode_tensor_meta,
    encode_tensor_meta,
)
from graphwire.errors import ArchiveError, DecodeError, EncodeError, GraphwireError
from graphwire.hooks.interfaces import ConstantCodec
from graphwire.schema.program import EncodedValue
from graphwire.schema.symbols import SymInt
from graphwire.schema.tensor import PayloadMeta
from graphwire.wire.payloads import WEIGHTS, known_integers, strided_bytes


def encode_payloads(
    context: EncodeContext,
    values: Mapping[str, Any],
    table: RecordTable,
    encoded: dict[str, EncodedValue],
    weights: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, PayloadMeta]:
    """The metas of named values, their storages added to `table` and what codecs wrote to `encoded`.

    Args:
        weights: where the values are constants, the program's weights, which some of them may be.

    Raises:
        EncodeError: a value is no plain tensor, and no codec owns it.
    """
    plain = _plain_parts(context, values, table, encoded)
    placements = {name: placement_of(each) for name, each in plain.items() if not table.knows(each)}
    table.add_all([tensor for name, tensor in plain.items() if placements.get(name) is None])
    metas: dict[str, PayloadMeta] = {}
    first: dict[int, str] = {}
    owners = {id(weight): name for name, weight in reversed([*weights.items()])} if plain else {}
    for name, tensor in plain.items():
        meta = metas[name] = _encode_tensor(context, tensor, table, placements.get(name))
        known = first.setdefault(id(tensor), name)
        if known is not name:
            meta.same_as = known
        if weights:
            meta.weight = owners.get(id(tensor))
    return metas


def _plain_parts(
    context: EncodeContext,
    values: Mapping[str, Any],
    table: RecordTable,
    encoded: dict[str, EncodedValue],
) -> dict[str, torch.Tensor]:
    """The plain tensors that values are or consist of. What a codec made of a value may need a codec again."""
    plain: dict[str, torch.Tensor] = {}
    written: dict[int, EncodedValue] = {}
    for name, value in values.items():
        if table.knows(value) or is_plain(value) or placement_of(value) is not None:
            plain[name] = value
        elif (known := written.get(id(value))) is not None and known.tensors:
            encoded[name] = known  # one value under two names: it has the parts of the first
        else:
            plain.update(_encode_with_codec(context, name, value, table, encoded))
            written[id(value)] = encoded[name]
    return plain


def _encode_tensor(
    context: EncodeContext, tensor: torch.Tensor, table: RecordTable, placement: str | None
) -> PayloadMeta:
    meta = encode_tensor_meta(context, tensor)
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    if placement is not None:
        context.features.add("placement")
        return PayloadMeta(
            "", is_parameter, False, meta, placement=placement, buffer=torch_private.buffer_mark(tensor)
        )
    name, start, shared = table.place(tensor)
    if start:
        offset = tensor.storage_offset() - start // tensor.element_size()
        meta = msgspec.structs.replace(meta, storage_offset=SymInt(as_int=offset))
    record = PayloadMeta(name, is_parameter, False, meta, shared=shared)
    record.buffer = torch_private.buffer_mark(tensor)
    if tensor.is_conj() or tensor.is_neg():
        context.features.add("lazy-bits")
        record.conj, record.neg = tensor.is_conj(), tensor.is_neg()
    return record


def _encode_with_codec(
    context: EncodeContext, name: str, value: Any, table: RecordTable, encoded: dict[str, EncodedValue]
) -> dict[str, torch.Tensor]:
    for codec in context.registry.constant_codecs.values():
        written = _written(codec, value, name)
        if written is not None:
            tree, tensors = written
            parts = {f"{name}#{index}": tensor for index, tensor in enumerate(tensors)}
            encoded[name] = EncodedValue(codec.name, tree, list(parts), torch_private.buffer_mark(value))
            context.features.add("codecs")
            context.provided.add(("constant_codec", codec.name))
            return _plain_parts(context, parts, table, encoded)
    kind = type(value)
    layout = f" of layout {value.layout}" if isinstance(value, torch.Tensor) else ""
    if isinstance(value, torch.Tensor) and torch_private.is_transformed(value):
        layout += " inside a function transform"
    raise EncodeError(
        f"{kind.__module__}.{kind.__qualname__}{layout} is no plain strided tensor, and no constant codec owns it",
        place=name,
        remedy="Install the plugin that provides one, or register a ConstantCodec for it",
    )


def _written(codec: ConstantCodec, value: Any, name: str) -> tuple[Any, Sequence[Any]] | None:
    """What a codec makes of a value; None where it does not own it."""
    try:
        if not codec.owns(value):
            return None
        tree, tensors = codec.encode(value)
        return tree, list(tensors)
    except GraphwireError:
        raise
    except Exception as error:
        raise EncodeError(
            f"the constant codec {codec.name} fails: {type(error).__name__}: {error}", place=name
        ) from error


# ----------------------------------------------------------------------------------------------------- decode


def decode_payloads(
    context: DecodeContext,
    metas: Mapping[str, PayloadMeta],
    folder: str,
    table: StorageTable,
    encoded: Mapping[str, EncodedValue],
    *,
    ties_noted: bool,
    weights: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The values of a folder's payloads by name; tensors that share a storage, or are one tensor, do so again.

    Args:
        weights: where the values are constants, the program's weights, which some of them may be.
        ties_noted: whether the writer noted which names are one tensor. torch does not; there, parameters that lie in
            one place in one way are taken for one parameter, as they were in the module.

    Raises:
        ArchiveError: a meta reaches beyond its record.
        DecodeError: a value needs what this installation does not have.
    """
    values: dict[str, Any] = {}
    ties: dict[Any, Any] = {}
    for name, meta in metas.items():
        try:
            if meta.same_as is not None and meta.same_as in values:
                values[name] = values[meta.same_as]
                continue
            if meta.weight is not None and meta.weight in weights:
                values[name] = weights[meta.weight]
                continue
            tie = None if ties_noted or not meta.is_param else (meta.path_name, repr(meta.tensor_meta))
            values[name] = ties.get(tie) if tie in ties else _decode_tensor(context, meta, folder, table)
            if tie is not None:
                ties[tie] = values[name]
        except (ArchiveError, DecodeError) as error:
            raise error.within(f"{folder}{name}") from None
        except (RuntimeError, AssertionError, ValueError, TypeError) as error:
            raise DecodeError(
                f"torch cannot make this tensor: {error}",
                place=f"{folder}{name}",
                remedy="Where its device is not there, pass device= with one that is",
            ) from error
    return _compose(context, values, encoded, folder) if encoded else values


def _compose(
    context: DecodeContext, plain: dict[str, Any], encoded: Mapping[str, EncodedValue], folder: str
) -> dict[str, Any]:
    """The values of a folder in order: the plain ones, and in place of the parts of another the value that a codec makes
    of them. A value without parts stands last, among the constants."""
    owners = {part: name for name, value in encoded.items() for part in value.tensors}
    made: dict[tuple[str, ...], Any] = {}

    def value_of(name: str, depth: int) -> Any:
        if name in plain:
            return plain[name]
        value = encoded.get(name)
        if value is None or depth > len(encoded):
            raise DecodeError(f"there is no payload {name!r}")
        key = tuple(value.tensors)
        if key not in made:
            parts = [value_of(part, depth + 1) for part in key]
            found = _decode_with_codec(context, name, value, parts)
            if value.buffer is not None:
                torch_private.mark_buffer(found, value.buffer)
            if not key:
                return found
            made[key] = found
        return made[key]

    def named(part: str) -> str:
        for _ in encoded:
            if part not in owners:
                break
            part = owners[part]
        return part

    values = {name: value_of(name, 0) for name in map(named, plain)}
    for name, value in encoded.items():
        if name in owners or name in values:
            continue
        if tuple(value.tensors) in made or (not value.tensors and folder != WEIGHTS):
            values[name] = value_of(name, 0)
    return values


def _decode_tensor(
    context: DecodeContext, meta: PayloadMeta, folder: str, table: StorageTable
) -> torch.Tensor:
    described = meta.tensor_meta
    if meta.use_pickle or described is None:
        raise DecodeError(
            "the record is a pickle, which is not read because reading one runs code",
            remedy="Write the program again with graphwire",
        )
    if decode_layout(described) is not torch.strided:
        raise DecodeError(f"a payload of layout {decode_layout(described)} needs a constant codec")
    if meta.placement == "fake":
        tensor = decode_tensor_meta(context, described, input_value=True)
    else:
        tensor = _strided(context, meta, folder, table)
    if meta.conj:
        tensor = tensor.conj()
    if meta.neg:
        tensor = torch._neg_view(tensor)
    if meta.is_param:
        return torch.nn.Parameter(tensor, requires_grad=described.requires_grad)
    tensor = tensor.requires_grad_() if described.requires_grad else tensor
    if meta.buffer is not None:
        torch_private.mark_buffer(tensor, meta.buffer)
    return tensor


def _strided(context: DecodeContext, meta: PayloadMeta, folder: str, table: StorageTable) -> torch.Tensor:
    described = meta.tensor_meta
    assert described is not None  # checked by the caller
    dtype = decode_dtype(described)
    sizes, strides = known_integers(described.sizes), known_integers(described.strides)
    offset = described.storage_offset.as_int
    needed = strided_bytes(sizes, strides, offset, dtype.itemsize)
    if needed is None:
        raise ArchiveError("the sizes, strides and offset describe no tensor")
    if meta.placement == "meta" or table.graph_only:
        return torch.empty(0, dtype=dtype, device="meta").as_strided(sizes, strides, offset)
    device = decode_device(context, described.device)
    storage = table.storage(meta.shared or folder + meta.path_name, device)
    if needed > storage.nbytes():
        raise ArchiveError(f"the tensor needs {needed:,} bytes, its record has {storage.nbytes():,}")
    return torch.empty(0, dtype=dtype, device=device).set_(storage, offset, sizes, strides)


def _decode_with_codec(context: DecodeContext, name: str, value: EncodedValue, parts: Sequence[Any]) -> Any:
    codec = context.registry.constant_codecs.get(value.codec)
    if codec is None:
        raise DecodeError(
            f"no constant codec {value.codec!r} is installed",
            place=name,
            remedy="Install the plugin that provides it",
        )
    try:
        return codec.decode(value.tree, parts)
    except GraphwireError as error:
        raise error.within(name) from None
    except Exception as error:
        raise DecodeError(
            f"the constant codec {value.codec} fails: {type(error).__name__}: {error}", place=name
        ) from error
