"""The weight store `slabs`: an index file `*.slabs`, and for each tensor a file `SHA256.bin` with its elements.

The index is JSON: for each tensor its element type, shape, and file. Files are named by their content, so none is ever replaced.
Replace `open` and `write` with your format.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from contextlib import closing, suppress

from graphwire import hookimpl
from graphwire.errors import ArchiveError, EncodeError, MissingRecordError
from graphwire.hooks import Chunk, NewTensor, StoredTensor, StoreFolder, StoreIndex, WeightStore
from graphwire.schema import ITEM_SIZES, FileFacts

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""

SUFFIX = ".slabs"
MOST_INDEX_BYTES = 100_000_000


class SlabsStore:
    """The weight store `slabs`."""

    name = "slabs"
    takes_storages = False

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location of the index: a file with the suffix, or the only one in the folder."""
        names = [location] if location else list(folder.names())
        found = [name for name in names if name.endswith(SUFFIX)]
        return found[0] if len(found) == 1 else None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the index.

        Raises:
            ArchiveError: the index is damaged, or a file is missing or has another size.
        """
        with closing(folder.open(location)) as file:
            if file.size > MOST_INDEX_BYTES:
                raise ArchiveError(f"the index has {file.size:,} bytes", place=location)
            data = file.read_at(0, file.size)
        tensors, files, missing = {}, {}, []
        for name, (dtype, shape, content) in _entries(data, location).items():
            try:
                with closing(folder.open(content)) as file:
                    size = file.size
            except MissingRecordError:
                missing.append(content)
                continue
            if size != math.prod(shape) * ITEM_SIZES[dtype]:
                raise ArchiveError(
                    f"{content} has {size:,} bytes, not those of {name!r:.200}", place=location
                )
            tensors[name] = StoredTensor(dtype, shape, (Chunk(content, 0, (0,) * len(shape), shape),))
            files[content] = FileFacts(size, index_sha256=hashlib.sha256(data).hexdigest())
        if missing:
            raise MissingRecordError(
                f"files are missing: {', '.join(missing)}", remedy="Fetch them into the folder"
            )
        return StoreIndex(tensors, files)

    def keeps(self, dtype: str) -> bool:
        """Return whether the store can keep an element type, by torch's name."""
        return dtype in ITEM_SIZES

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write tensors, and return the location of the index and the name of each tensor in it.

        Raises:
            EncodeError: a file that is named by its content has other content.
        """
        index = {}
        for name, new in tensors.items():
            file = f"{hashlib.sha256(new.view()).hexdigest()}.bin"
            if not _create(folder, file, new.view()):
                raise EncodeError(f"{file} is damaged", remedy="Remove it, and save again")
            index[name] = [new.dtype, list(new.shape), file]
        data = json.dumps(index).encode()
        other = f"{location.removesuffix(SUFFIX)}-{hashlib.sha256(data).hexdigest()[:12]}{SUFFIX}"
        for free in (location, other):
            if _create(folder, free, memoryview(data)):
                return free, {name: name for name in tensors}
        raise EncodeError(f"{other} is damaged", remedy="Remove it, and save again")


def _create(folder: StoreFolder, location: str, content: memoryview) -> bool:
    """Write a file unless there is one, and return whether the file has this content."""
    for _ in range(2):
        with suppress(MissingRecordError), closing(folder.open(location)) as file:
            step = 1 << 20
            return file.size == content.nbytes and all(
                file.read_at(at, min(step, file.size - at)) == bytes(content[at : at + step])
                for at in range(0, file.size, step)
            )
        with suppress(FileExistsError), folder.create(location) as new:  # another writer may be faster
            rest = content
            while rest.nbytes:  # a file may take fewer bytes than it is given
                rest = rest[new.write(rest) :]
            return True
    return False


def _entries(data: bytes, location: str) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Return the type, the shape and the file of each tensor of an index. It may come from an attacker."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"the index is not JSON ({error})", place=location) from error
    entries = {}
    for name, entry in tree.items() if type(tree) is dict else [("", None)]:
        match entry:
            case [str(dtype), [*shape], str(file)] if (
                dtype in ITEM_SIZES
                and len(shape) <= 64
                and all(type(each) is int and 0 <= each < 1 << 40 for each in shape)
                and re.fullmatch(r"[0-9a-f]{64}\.bin", file)
            ):
                entries[name] = dtype, tuple(shape), file
            case _:
                raise ArchiveError(f"the index does not describe the tensor {name!r:.200}", place=location)
    return entries


@hookimpl
def graphwire_weight_stores() -> list[WeightStore]:
    """Return the weight stores of this plugin."""
    return [SlabsStore()]
