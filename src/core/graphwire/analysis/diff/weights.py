"""Which weights and constants of two programs are the same, and what says so: their elements, or checksums that files list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from graphwire.analysis.canonical import (
    PayloadRecord,
    PayloadSet,
    is_empty,
    named_payloads,
    payload_digests,
    payload_facts,
)
from graphwire.analysis.diff.element_change import ElementChange, element_change
from graphwire.analysis.diff.facts import Facts
from graphwire.schema import ITEM_SIZES, PayloadMeta, Program, SignatureNames

_SECTIONS = ("weight", "constant")
_MOST_NAMES = 3


class Compared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was compared of the weights, or of the constants, that both programs have."""

    same: dict[str, int] = {}
    """How many are the same, by what says so: `elements`; `CRC-32`, `SHA-256` or `SHA-256 of pieces`, as the files list them;
    or `shape` for those without elements. Equal CRC-32s are no proof."""
    differ: dict[str, ElementChange] = {}
    """Those that differ in type, shape or elements, by name, and by how much if elements were read."""
    not_compared: dict[str, list[str]] = {}
    """The names of the others, by the reason."""


class PayloadSide(NamedTuple):
    """One of the two programs whose weights and constants are compared."""

    program: Program
    payloads: PayloadSet | None
    """None for records alone."""


def compare_payloads(
    a: PayloadSide, b: PayloadSide, *, elements: bool
) -> tuple[dict[str, Compared], dict[str, tuple[dict[str, Facts], dict[str, Facts]]]]:
    """Compare weights and constants by what files say about them and, on request, by their elements.

    Args:
        elements: whether to read and compare all elements.

    Returns:
        What was compared, by section (`weight`, `constant`); and the facts about each on both sides, by section and name.

    Raises:
        MissingRecordError: elements are compared, and a payload has no record, or its record is too short.
    """
    sides = [_held(side, elements) for side in (a, b)]
    all_compared: dict[str, Compared] = {}
    all_facts: dict[str, tuple[dict[str, Facts], dict[str, Facts]]] = {}
    for section in _SECTIONS:
        ours, theirs = (side[section] for side in sides)
        compared = Compared()
        for name in ours:
            if name in theirs:
                _compare(compared, name, ours[name], theirs[name], elements)
        if compared != Compared():
            all_compared[section] = compared
        if a.payloads is not None and b.payloads is not None:
            facts_a, facts_b = (
                {name: each.facts for name, each in held.items() if each.meta is not None} for held in (ours, theirs)
            )  # fmt: skip
            all_facts[section] = facts_a, facts_b
    return all_compared, all_facts


def compared_text(compared: Mapping[str, Compared], quoted: Callable[[str], str] = str) -> str:
    """Return in words what was compared, such as `weights: 14 the same by CRC-32, 2 differ (a, b)`.

    Args:
        compared: what was compared, by section.
        quoted: what to show of a name.
    """
    texts = []
    for section, each in compared.items():
        parts = [f"{count:,} the same by {what}" for what, count in each.same.items()]
        if each.differ:
            parts.append(
                f"{len(each.differ):,} differ{'' if len(each.differ) > 1 else 's'} ({_some(each.differ, quoted)})"
            )
        if each.not_compared:
            count = sum(map(len, each.not_compared.values()))
            reasons = (f"{why}: {_some(names, quoted)}" for why, names in each.not_compared.items())
            parts.append(f"{count:,} not compared ({'; '.join(reasons)})")
        texts.append(f"{section}s: {', '.join(parts)}")
    return "; ".join(texts) or "no weights in common"


def _some(names: Any, quoted: Callable[[str], str]) -> str:
    shown = [quoted(name) for name in list(names)[:_MOST_NAMES]]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more:,} more" if more else ", ".join(shown)


# ----------------------------------------------------------------------------------------------------------- one side


class _Held(msgspec.Struct):
    """A weight or constant of one side."""

    meta: PayloadMeta | None
    """None if it is not read."""
    stored: PayloadRecord | None = None
    digest: str = ""
    """Of its metadata and elements; empty if elements are not read."""
    facts: Facts = {}
    why_not: str = ""
    """Why it is not read."""

    @property
    def checksums(self) -> Mapping[str, str]:
        """The checksums of its storage that are known without reading it, by kind."""
        return getattr(self.stored, "checksums", {})

    @property
    def fills_its_record(self) -> bool:
        """Whether each byte of its storage is one of its elements."""
        tensor = None if self.meta is None or self.meta.use_pickle else self.meta.tensor_meta
        item = 0 if tensor is None else ITEM_SIZES.get(tensor.dtype_text, 0)
        if tensor is None or not item or self.stored is None:
            return False
        return math.prod(size.as_int or 0 for size in tensor.sizes) * item == self.stored.nbytes


def _held(side: PayloadSide, elements: bool) -> dict[str, dict[str, _Held]]:
    """Return the weights and constants of one side by section and name, those that are not read, too."""
    program, payloads = side
    names = SignatureNames(program.graph_module.signature)
    temporary = names.non_persistent_buffers
    persistent = {*names.parameters, *names.buffers}.difference(temporary)
    found: dict[str, dict[str, _Held]] = {section: {} for section in _SECTIONS}
    if payloads is not None:
        digests = payload_digests(payloads) if elements else {}
        for (kind, name), each in named_payloads(payloads).items():
            facts = payload_facts(each.meta)
            if elements and len(each.sharing) > 1:
                facts["memory"] = f"shared by {', '.join(each.sharing)}"
            stored = payloads.records.get(each.record) or payloads.records.get(each.meta.shared or "")
            found["weight" if name in persistent else kind][name] = _Held(
                each.meta, stored, digests.get((kind, name), ""), facts
            )
    needed = {
        "weight": persistent,
        "constant": {*temporary, *names.lifted_tensor_constants, *names.lifted_custom_objs},
    }
    for section, held in found.items():
        for name in sorted(needed[section] - held.keys() - program.encoded_values.keys()):
            why = "not read" if payloads is not None else "records have no elements"
            held[name] = _Held(None, why_not=why)
    return found


# ------------------------------------------------------------------------------------------------------------ verdicts


def _compare(compared: Compared, name: str, a: _Held, b: _Held, elements: bool) -> None:
    """Add to `compared` what is known about a weight that both sides have, and to the facts of both what differs."""
    if a.meta is None or b.meta is None:
        compared.not_compared.setdefault(a.why_not or b.why_not, []).append(name)
    elif _form(a.meta) != _form(b.meta):
        compared.differ[name] = _measured(a, b) or ElementChange() if elements else ElementChange()
        _add_digests(a, b)
    elif a.meta.placement is not None or b.meta.placement is not None:
        if a.meta.placement is not None and b.meta.placement is not None:
            _count(compared, "shape")
        else:
            why = f"no elements in {'A' if b.meta.placement is None else 'B'}"
            compared.not_compared.setdefault(why, []).append(name)
    elif is_empty(a.meta):
        _count(compared, "shape")
    elif elements:
        change = None if a.digest == b.digest else _measured(a, b)
        if change is None:
            _count(compared, "elements")
        else:
            compared.differ[name] = change
        if change is not None or (a.digest != b.digest and a.facts == b.facts):
            _add_digests(a, b)
    else:
        _compare_checksums(compared, name, a, b)


def _compare_checksums(compared: Compared, name: str, a: _Held, b: _Held) -> None:
    assert a.meta is not None
    assert b.meta is not None
    kind = next((each for each in a.checksums if each in b.checksums), "")
    equal = bool(kind) and a.checksums[kind] == b.checksums[kind]
    if not kind:
        lacking = [side for side, held in (("A", a), ("B", b)) if not held.checksums]
        listed = f"A lists {', '.join(a.checksums)} and B {', '.join(b.checksums)}"
        why = f"no checksum in {' and '.join(lacking)}" if lacking else listed
    elif _arrangement(a.meta) != _arrangement(b.meta):
        why = "elements in another order"
    elif equal and a.stored is not None and b.stored is not None and a.stored.nbytes == b.stored.nbytes:
        _count(compared, kind)
        return
    elif a.fills_its_record and b.fills_its_record:
        compared.differ[name] = ElementChange()
        a.facts["elements"], b.facts["elements"] = (f"{kind} {each.checksums[kind][:16]}" for each in (a, b))
        return
    else:
        why = "only parts of records that differ"
    compared.not_compared.setdefault(why, []).append(name)


def _add_digests(a: _Held, b: _Held) -> None:
    if a.digest:
        a.facts["elements"], b.facts["elements"] = a.digest[:16], b.digest[:16]


def _count(compared: Compared, what: str) -> None:
    compared.same[what] = compared.same.get(what, 0) + 1


def _measured(a: _Held, b: _Held) -> ElementChange | None:
    if a.meta is None or b.meta is None or a.stored is None or b.stored is None:
        return ElementChange()
    return element_change(a.meta, a.stored, b.meta, b.stored)


def _form(meta: PayloadMeta) -> Any:
    """Return the type and shape of a tensor."""
    tensor = meta.tensor_meta
    sizes = () if tensor is None else tuple(size.as_int for size in tensor.sizes)
    return None if tensor is None else (tensor.dtype_text, tensor.layout_name or tensor.layout, sizes)


def _arrangement(meta: PayloadMeta) -> Any:
    """Return where in its storage a tensor has its elements, and how they are read."""
    flags = (meta.conj, meta.neg, meta.use_pickle)
    if (tensor := meta.tensor_meta) is None:
        return flags
    dimensions = zip(tensor.sizes, tensor.strides, strict=True)
    strides = tuple(stride.as_int for size, stride in dimensions if size.as_int != 1)
    return flags, tensor.storage_offset.as_int, strides
