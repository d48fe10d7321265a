"""Converts tensors with elements to and from payloads: records of bytes, each a storage that any number of tensors share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import mul
from types import MappingProxyType
from typing import Any

import msgspec
import torch

from graphwire import errors
from graphwire.analysis.validation import value_rules
from graphwire.bridge.context import DecodeContext, EncodeContext
from graphwire.bridge.tensors import tensor_metas
from graphwire.bridge.tensors.coded_values import CodedValues, decode_coded
from graphwire.bridge.tensors.storages import RecordTable, StridedTensor, is_plain, placement_of, set_on
from graphwire.bridge.torch_compat.private import buffer_mark, mark_buffer, negative_view, parameter_of
from graphwire.bridge.torch_compat.pytree import class_name
from graphwire.schema import EncodedValue, Held, PayloadMeta, Program, SymInt, TensorMeta, held_by
from graphwire.wire.payloads import CONSTANTS, WEIGHTS, Payloads, known_integers, strided_bytes


def encode_payloads(
    context: EncodeContext,
    values: Mapping[str, Any],
    table: RecordTable,
    encoded: dict[str, EncodedValue],
    weights: Mapping[str, Any] | None = None,
    others: Collection[str] = (),
) -> dict[str, PayloadMeta]:
    """Return the metas of named values; add their storages to `table`, and the values that codecs encode to `encoded`.

    Args:
        weights: for constants, the program's weights, some of which may be among the values.
        others: the names of the program's other values.

    Raises:
        EncodeError: a value is not a plain tensor and no codec owns it, or its encoding could not be loaded.
    """
    owners = {id(weight): name for name, weight in reversed([*(weights or {}).items()])} if values else {}
    plain: dict[str, torch.Tensor] = dict(values)
    placements: dict[str, str] = {}
    if not table.measured.keys() >= {*map(id, values.values())}:
        coded = CodedValues(context, encoded, (values, others), _is_part, table.folder == WEIGHTS, owners)
        plain = {}
        for index, (name, value) in enumerate(values.items()):
            if id(value) in table.measured or _is_part(value):
                plain[name] = value
            else:
                plain.update(coded.encode(name, value, index))
        new = {name: each for name, each in plain.items() if id(each) not in table.measured}
        placements = {name: how for name, each in new.items() if (how := placement_of(each)) is not None}
    table.add_all([tensor for name, tensor in plain.items() if name not in placements])
    metas: dict[str, PayloadMeta] = {}
    first: dict[int, str] = {}
    for name, tensor in plain.items():
        meta = metas[name] = _encode_tensor(context, tensor, table, placements.get(name))
        key = id(tensor)
        known = first.setdefault(key, name)
        if known is not name:
            meta.same_as = known
        if weights:
            meta.weight = owners.get(key)
    return metas


def _is_part(value: Any) -> bool:
    """Return whether a value is written as a tensor, without a codec."""
    return is_plain(value) or placement_of(value) is not None


def _encode_tensor(
    context: EncodeContext, tensor: torch.Tensor, table: RecordTable, placement: str | None
) -> PayloadMeta:
    # The class of parameters answers `isinstance` in Python.
    is_parameter = type(tensor) is torch.nn.Parameter or isinstance(tensor, torch.nn.Parameter)
    if placement is not None:
        context.features.add("placement")
        meta = tensor_metas.encode_tensor_meta(context, tensor)
        return PayloadMeta("", is_parameter, False, meta, buffer=buffer_mark(tensor), placement=placement)
    _, _, key, read = table.measured[id(tensor)]
    name, start, shared = table.place(key)
    meta = tensor_metas.encode_plain_meta(context, read)
    record = PayloadMeta(name, is_parameter, False, meta, None, None, shared, buffer_mark(tensor))
    if start:
        offset = tensor.storage_offset() - start // tensor.element_size()
        record.tensor_meta = msgspec.structs.replace(meta, storage_offset=SymInt(as_int=offset))
    if tensor.is_conj() or tensor.is_neg():
        context.features.add("lazy-bits")
        record.conj, record.neg = tensor.is_conj(), tensor.is_neg()
    return record


# ----------------------------------------------------------------------------------------------------- decode


def decode_payloads(
    context: DecodeContext,
    metas: Mapping[str, PayloadMeta],
    folder: str,
    encoded: Mapping[str, EncodedValue],
    *,
    ties_noted: bool,
    weights: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the values of a folder's payloads by name. Tensors that share a storage, or are one object, do so again.

    Args:
        weights: for constants, the program's weights, some of which may be among the values.
        ties_noted: whether the writer recorded which names are one tensor. torch does not. In its files, parameters with the
            same storage, sizes and strides become one parameter, as in the original module.

    Raises:
        ArchiveError: a meta reaches beyond its record.
        DecodeError: a value needs a codec, device or feature that is not available here.
    """
    with context.table:
        values = _decode_plain(context, metas, folder, ties_noted=ties_noted, weights=weights)
    return _compose(context, values, encoded, folder, weights) if encoded else values


def _decode_plain(
    context: DecodeContext,
    metas: Mapping[str, PayloadMeta],
    folder: str,
    *,
    ties_noted: bool,
    weights: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the plain tensors of a folder by name, and the weights among its values. Copies of them may be unfinished."""
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
            values[name] = ties.get(tie) if tie in ties else _decode_tensor(context, meta, folder)
            if tie is not None:
                ties[tie] = values[name]
        except errors.unless_interrupted(RuntimeError, AssertionError, ValueError, TypeError) as error:
            raise errors.DecodeError(
                f"torch cannot make this tensor: {error}",
                place=f"{folder}{name}",
                remedy="Where its device is not there, pass device= with one that is",
            ) from error
        except Exception as error:
            errors.locate(error, f"{folder}{name}")
            raise
    return values


def _compose(
    context: DecodeContext,
    plain: dict[str, Any],
    encoded: Mapping[str, EncodedValue],
    folder: str,
    weights: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the values of a folder in order: plain tensors, with the parts of a coded value replaced by that value. A value
    without tensors of its own takes its recorded position, or the last."""
    owners: dict[str, str] = {}
    for name, value in encoded.items():
        for part in value.tensors:
            owners.setdefault(part, name)
    made: dict[str, Any] = {}
    ties: dict[tuple[str, ...], Any] = {}

    def value_of(name: str) -> Any:
        # Files can nest parts arbitrarily deep, so this loop avoids recursion, and makes each value once.
        pending, begun = [name], set[str]()
        while pending:
            each = pending[-1]
            if each in plain or each in made:
                pending.pop()
                continue
            value = encoded.get(each)
            if value is None:
                raise errors.DecodeError(f"the payload {each!r:.80} is missing")
            key = tuple(value.tensors)
            if (tied := _tied(value, weights, made, encoded, ties)) is not None:
                made[each] = tied
            elif missing := [part for part in key if part not in plain and part not in made]:
                if each in begun:
                    raise errors.DecodeError(f"{each!r:.80} is a part of itself")
                begun.add(each)
                pending.extend(missing)
                continue
            else:
                parts = [plain[part] if part in plain else made[part] for part in key]
                made[each] = decode_coded(context.registry, each, value, parts)
            if key:
                ties[key] = made[each]
        return plain[name] if name in plain else made[name]

    outermost: dict[str, str] = {}

    def named(part: str) -> str:
        chain: dict[str, None] = {}
        while part in owners and part not in chain and part not in outermost:
            chain[part] = None
            part = owners[part]
        last = outermost.get(part, part)
        outermost.update(dict.fromkeys(chain, last))
        return last

    values = {name: value_of(name) for name in map(named, plain)}
    others: dict[str, Any] = {}
    full = _reached(
        encoded, (part for value in encoded.values() for part in value.tensors if part not in encoded)
    )
    here = _reached(encoded, plain)
    for name, value in encoded.items():
        if name in owners or name in values:
            continue
        if name in here or (name not in full and value.is_weight == (folder == WEIGHTS)):
            others[name] = value_of(name)
    return _merged(values, others, encoded)


def _reached(encoded: Mapping[str, EncodedValue], payloads: Iterable[str]) -> set[str]:
    """Return the values that contain one of these payloads, directly or inside their parts."""
    users: dict[str, list[str]] = {}
    for name, value in encoded.items():
        for part in value.tensors:
            users.setdefault(part, []).append(name)
    pending, reached = [*payloads], set[str]()
    while pending:
        for name in users.get(pending.pop(), ()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return reached


def _merged(
    values: dict[str, Any], others: dict[str, Any], encoded: Mapping[str, EncodedValue]
) -> dict[str, Any]:
    """Insert the other values into the ordered values, each at its recorded position."""
    indexes = {name: encoded[name].index for name in others}
    waiting = sorted((index, name) for name, index in indexes.items() if index is not None)[::-1]
    merged: dict[str, Any] = {}
    for name, value in values.items():
        while waiting and waiting[-1][0] <= len(merged):
            other = waiting.pop()[1]
            merged[other] = others[other]
        merged[name] = value
    return merged | {name: others[name] for _, name in waiting[::-1]} | others


def _tied(
    value: EncodedValue,
    weights: Mapping[str, Any],
    made: Mapping[str, Any],
    encoded: Mapping[str, EncodedValue],
    ties: Mapping[tuple[str, ...], Any],
) -> Any | None:
    """Return the existing value that equals this one: it has the same parts, or is recorded as the same object.

    A weight and a coded value may have one name. What is the same object as a coded value has its record.
    """
    key, name = tuple(value.tensors), value.same_as
    if key in ties:
        return ties[key]
    if name is None:
        return None
    other = encoded.get(name)
    is_copy = other is not None and msgspec.structs.replace(other, same_as=name, index=value.index) == value
    if is_copy and name in made:
        return made[name]
    return weights[name] if name in weights else made.get(name)


def _decode_tensor(context: DecodeContext, meta: PayloadMeta, folder: str) -> torch.Tensor:
    described = meta.tensor_meta
    if meta.use_pickle or described is None:
        raise errors.DecodeError(
            "the record is a pickle, which is not read because reading one runs code",
            remedy="Write the program again with graphwire",
        )
    if meta.placement == "fake":
        _check_strided(described)
        tensor = tensor_metas.decode_tensor_meta(context, described, input_value=True)
    else:
        found = context.strided.get(id(described))
        if found is None:
            found = context.strided[id(described)] = _strided(described)
        table, name = context.table, meta.shared or folder + meta.path_name
        if meta.placement == "meta":
            empty = torch.empty(0, dtype=found.dtype, device="meta")
            tensor = empty.as_strided(found.sizes, found.strides, found.offset)
        elif table.graph_only and (folder != CONSTANTS or meta.shared is not None):
            empty = torch.empty(0, dtype=found.dtype, device="meta")
            tensor = set_on(empty, table.empty_storage(name, found.nbytes), found)
        else:
            tensor = table.tensor(name, tensor_metas.decode_device(context, described.device), found)
    if meta.conj:
        tensor = tensor.conj()
    if meta.neg:
        tensor = negative_view(tensor)
    if meta.is_param:
        return parameter_of(tensor, described.requires_grad)
    tensor = tensor.requires_grad_() if described.requires_grad else tensor
    if meta.buffer is not None:
        mark_buffer(tensor, meta.buffer)
    return tensor


def _check_strided(described: TensorMeta) -> None:
    if (layout := tensor_metas.decode_layout(described)) is not torch.strided:
        raise errors.DecodeError(f"a payload of layout {layout} needs a constant codec")


def _strided(described: TensorMeta) -> StridedTensor:
    _check_strided(described)
    dtype = tensor_metas.decode_dtype(described)
    sizes, strides = known_integers(described.sizes), known_integers(described.strides)
    offset = described.storage_offset.as_int
    needed = strided_bytes(sizes, strides, offset, dtype.itemsize)
    if sizes is None or strides is None or offset is None or needed is None:
        raise errors.ArchiveError("the sizes, strides and offset describe no tensor")
    row_major = [*accumulate(sizes[:0:-1], mul, initial=1)][::-1]
    is_dense = offset == 0 and 0 not in sizes and strides == row_major
    return StridedTensor(described, dtype, sizes, strides, offset, needed, is_dense)


# -------------------------------------------------- compares weights and constants with the graph's description of them
# recorded by a save, checked by a load.


_SHOWN = 5
"""The most values that a warning lists."""


def record_edited_values(
    record: Program, needed: Sequence[Held], payloads: Payloads, values: Mapping[str, Any]
) -> None:
    """Record, with a warning, the names of weights and constants that differ from the graph's description. That may be
    intended, and mostly is not.

    Args:
        needed: what the signature refers to.
        values: the weights and constants by qualified name.
    """
    edited = list(_differences(record, needed, payloads, values))
    if edited:
        record.edited_values = [name for name, _ in edited]
        errors.warn(
            f"{_summary(edited)}. Both are saved unchanged; export the program again if the graph shall match"
        )


def check_weights(
    record: Program, needed: Sequence[Held], payloads: Payloads, values: Mapping[str, Any]
) -> None:
    """Raise if weights or constants are missing, or differ from the graph's description without being recorded as edited.

    torch records no edits, so for a program that torch wrote a difference is a warning.

    Args:
        needed: what the signature refers to.
        values: the weights and constants by qualified name.

    Raises:
        DecodeError: all of them are missing, as in a document without payloads.
        ValidationError: some are missing or differ; the error lists all of them.
    """
    missing = value_rules.missing_values(
        record, needed, payloads.weights, payloads.constants, payloads.unread
    )
    if missing and not payloads.weights and not payloads.constants:
        raise errors.DecodeError(
            f"the program needs {len(missing)} weights and constants, and all are missing ({missing[0].message})",
            remedy="Pass them: from_schema(program, payloads)",
        )
    differences = [
        each for each in _differences(record, needed, payloads, values) if each[0] not in record.edited_values
    ]
    if differences and record.producer is None:
        errors.warn(
            f"{_summary(differences)}. Somebody edited them before the program was saved, or they are another program's"
        )
        differences = []
    problems = [*missing, *value_rules.mismatch_problems(record, differences), *_wrong_kinds(record, values)]
    if problems:
        raise errors.ValidationError(
            problems, remedy="The file is damaged, or these are the weights of another program"
        )


def _wrong_kinds(record: Program, values: Mapping[str, Any]) -> Iterator[errors.Problem]:
    """Yield each coded value that contradicts the signature: an object as a weight, or a tensor as an object."""
    if not record.encoded_values:
        return
    for spec in record.graph_module.signature.input_specs:
        held = held_by(spec)
        if held is None or held.name not in record.encoded_values or held.name not in values:
            continue
        is_tensor = isinstance(values[held.name], torch.Tensor)
        if is_tensor is (spec.custom_obj is not None):
            kind = class_name(type(values[held.name]))
            place = f"encoded_values[{held.name!r:.80}]"
            what = "an object" if is_tensor else f"a {held.kind}, a tensor"
            message = f"{held.name!r:.80} is {what}, but decodes to a {kind}"
            yield errors.Problem(place, "kind", message)


def _differences(
    record: Program, needed: Sequence[Held], payloads: Payloads, values: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield each tensor that differs from the graph's description, with the difference: plain ones, then those of codecs."""
    yield from value_rules.payload_differences(record, needed, payloads.weights, payloads.constants)
    if not record.encoded_values:
        return
    stated = record.graph_module.graph.tensor_values
    for held in needed:
        tensor = values.get(held.name)
        if held.name not in record.encoded_values or not isinstance(tensor, torch.Tensor):
            continue
        if held.value in stated and (
            how := value_rules.tensor_difference(
                tensor_metas.visible_facts(tensor), value_rules.tensor_facts(stated[held.value])
            )
        ):
            yield held.name, how


def _summary(differences: Sequence[tuple[str, str]]) -> str:
    shown = [f"{name}: {how}" for name, how in differences[:_SHOWN]]
    more = len(differences) - len(shown)
    rest = f"; and {more} more" if more else ""
    return f"weights or constants differ from what the graph says of them ({'; '.join(shown)}{rest})"
