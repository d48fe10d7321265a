"""What a `torch.save` file of named tensors holds. This module needs no reader of pickles."""

from __future__ import annotations

import msgspec

from graphwire.schema import ITEM_SIZES, EncodedValue, PayloadMeta
from graphwire.wire import Record


def number_width(dtype: str) -> int:
    """Return the size of one number in bytes, the unit of a byte-order swap: half an element if the type is complex."""
    return ITEM_SIZES[dtype] // (2 if dtype.startswith("complex") else 1)


class StateDict(msgspec.Struct):
    """The named tensors of a `torch.save` file."""

    metas: dict[str, PayloadMeta] = {}
    """The tensors by name. `same_as` marks further names of one object. Parts of a sparse tensor are named `NAME#INDEX`."""
    records: dict[str, Record] = {}
    """The records by full name."""
    encoded: dict[str, EncodedValue] = {}
    """The sparse tensors by name."""
    unread: dict[str, str] = {}
    """The reason for each value that is not read, by name."""
    pickled: set[str] = set()
    """The members already read as a single pickled tensor."""
