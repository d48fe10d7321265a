"""Where a file keeps the bytes of its weights if they are not in the file itself."""

from __future__ import annotations

import msgspec

from graphwire.schema.program import PluginRequirement


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What identifies a file of a weight store, without its elements."""

    nbytes: int
    """The size of the file in bytes."""
    index_sha256: str = ""
    """The SHA-256, in hexadecimal, of the bytes that describe the tensors of the file; empty if it has none."""


class StoreReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A weight store that a file refers to."""

    kind: str
    """The name of the store, such as `safetensors`."""
    location: str
    """What the store opens, relative to its folder, such as `model.safetensors.index.json`; empty for the folder."""
    folder: str | None = ""
    """The folder of the store, relative to the folder of the file. Null: whoever loads the file gives it."""
    files: dict[str, FileFacts] = {}
    """The files that contain the weights, by location relative to the folder of the store."""


class Region(msgspec.Struct, frozen=True, omit_defaults=True):
    """A box of a stored tensor, and where its elements go in a record."""

    tensor: str
    """The name of the stored tensor."""
    dtype: str
    """torch's name of its element type, such as `float32`."""
    shape: list[int]
    """The sizes of the stored tensor, outermost dimension first."""
    store: int = 0
    """The index of the store in `WeightReferences.stores`."""
    box: list[list[int]] | None = None
    """For each dimension of the stored tensor the first index, the count, and the step. Absent: the whole tensor."""
    offset: int = 0
    """Where the first element goes, in elements from the start of the record."""
    strides: list[int] | None = None
    """In elements of the record, one for each dimension of the stored tensor. Absent: the box is contiguous there."""


class RecordReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The regions that make one record. Together they cover each of its bytes."""

    nbytes: int
    """The size of the record in bytes."""
    regions: list[Region] = []
    """Empty if the weights are in no store, and whoever loads the file gives them."""
    sha256: str = ""
    """The digest of the record in hexadecimal; empty if nobody read the bytes."""


class WeightReferences(msgspec.Struct, frozen=True, omit_defaults=True):
    """The records of a file that are not in it."""

    stores: list[StoreReference] = []
    """The stores that regions refer to by index."""
    records: dict[str, RecordReference] = {}
    """By the name that the record would have in the archive, such as `data/weights/weight_0`."""
    ranks: list[dict[str, RecordReference]] = []
    """For a program that runs on several ranks: the records that differ between ranks, for each rank."""
    providers: dict[str, PluginRequirement] = {}
    """The distributions that provide stores which graphwire does not include, by the store's kind."""
