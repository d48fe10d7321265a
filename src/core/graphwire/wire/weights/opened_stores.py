"""The stores that a table of references names, opened on first use and compared with what the table states."""

from __future__ import annotations

import bisect
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from graphwire import errors
from graphwire.registry.calls import BLOCK_VARIABLE, blamed
from graphwire.registry.discovery import REMEDY_OF_CONFLICT, missing_error, missing_of, remedy_for_name
from graphwire.registry.interfaces import Chunk, StoredBytes, StoredTensor, StoreIndex, WeightStore
from graphwire.registry.registry import Registry
from graphwire.schema import ITEM_SIZES, RecordReference, Region, StoreReference, WeightReferences
from graphwire.wire.archive.manifest import RecordCache
from graphwire.wire.archive.source import Closing, FileSource, RemoteFile, UniversalPath, located
from graphwire.wire.limits import DEFAULT_ATTEMPTS, DEFAULT_LIMITS, Attempts, Limits
from graphwire.wire.remote_files import RemoteSource
from graphwire.wire.weights.folder import Folder, RemoteFolder
from graphwire.wire.weights.matching import RANK_REMEDY
from graphwire.wire.weights.reference_table import is_dense, store_requirements, tiles

_REMEDY = "Fetch the files, or pass weights= with the place of the weights"
_CHANGED = "Restore the files, or pass weights= to use others on purpose"


class StorePlace(NamedTuple):
    """A store, and where it is."""

    kind: str
    folder: Folder | RemoteFolder
    location: str
    """What the store opens, relative to its folder."""

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return self.folder.shown(self.location) if self.location else os.fspath(self.folder.path)


def find_store(
    registry: Registry,
    path: str | os.PathLike[str] | UniversalPath | RemoteFile,
    kind: str | None,
    *,
    links: bool,
    attempts: Attempts = DEFAULT_ATTEMPTS,
) -> StorePlace:
    """Find the store of a file or folder that the caller names.

    Args:
        kind: the name of the store; None asks all of them.
        links: see `Folder`.
        attempts: how often the server of a URL is asked.

    Raises:
        ArchiveError: no store recognizes the path, or several do.
    """
    given: Any = located(path)
    folder: Folder | RemoteFolder
    if isinstance(given, RemoteFile):
        text = given.url
        if "." not in given.name and attempts.run(given, "look for it", lambda: given.fs.isdir(given.path)):
            given = given.as_folder()
        folder, name = RemoteFolder(given, attempts), given.name
    elif Path(text := os.fspath(given)).is_dir() or text.endswith(("/", os.sep)):
        folder, name = Folder(text, links=links), ""
    else:
        above, name = os.path.split(text)
        folder = Folder(above or ".", links=links)
    found, failures = [], []
    for each in registry.weight_stores if kind is None else (kind,):
        try:
            where = store_named(registry, each).find(folder, name)
        except errors.GraphwireError as error:
            if kind is not None:
                raise
            failures.append(error)
        else:
            if where is not None:
                found.append((each, where))
    # Built-in stores keep their files, whatever a plugin registers.
    found = [row for row in found if registry.is_built_in("weight_store", row[0])] or found
    if failures and not found:
        raise failures[0]
    if len(found) != 1:
        kinds = ", ".join(sorted(registry.weight_stores)) or "none"
        what = "no store of weights recognizes" if not found else "several stores of weights recognize"
        owners = ", ".join(f"{name} of {registry.owner_of('weight_store', name)}" for name, _ in found)
        raise errors.ArchiveError(
            f"{what} {text!r:.200}{': ' if owners else ''}{owners}",
            remedy=REMEDY_OF_CONFLICT
            if found
            else remedy_for_name(
                registry, "weight_store", "", f"Stores: {kinds}. Name a file of one of them"
            ),
        )
    return StorePlace(found[0][0], folder, found[0][1])


def store_named(registry: Registry, kind: str) -> WeightStore:
    """Return the store of a kind.

    Raises:
        ArchiveError: no active plugin provides it.
    """
    store = registry.weight_stores.get(kind)
    if store is None:
        raise errors.ArchiveError(
            f"no plugin provides the weight store {kind!r:.80}",
            remedy=remedy_for_name(registry, "weight_store", kind, "Install the plugin that provides it"),
        )
    return store


class _Ranges:
    """Ranges of a file that do not overlap, each with the record that maps it."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, str]] = []
        """The end of each range, and its record."""

    def add(self, start: int, end: int, record: str) -> bool:
        """Add a range unless it overlaps another one; return whether the record has it."""
        index = bisect.bisect_left(self._starts, start)
        if (
            index < len(self._starts)
            and self._starts[index] == start
            and self._ranges[index] == (end, record)
        ):
            return True
        if index and self._ranges[index - 1][0] > start:
            return False
        if index < len(self._starts) and self._starts[index] < end:
            return False
        self._starts.insert(index, start)
        self._ranges.insert(index, (end, record))
        return True


class OpenedStores(Closing):
    """The stores of a table of references.

    Args:
        references: the table.
        places: where each of its stores is; None where nobody said.
        checked: whether files must be those that the table describes. False where the caller chose others.
        unusable: why no weights can be read; empty if they can.
        maps: whether whole tensors are mapped. Otherwise they are read, and the system reads nothing ahead: for a rank of
            several, whose weights lie between those of others.
        cache: keeps the weights of remote stores.
        limits: bound what stores that read bytes by themselves may make of their files.
    """

    def __init__(
        self,
        references: WeightReferences,
        places: list[StorePlace | None],
        registry: Registry,
        *,
        checked: bool = True,
        unusable: str = "",
        maps: bool = True,
        cache: RecordCache | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self.references = references
        self.places = (
            places
            if maps
            else [each and each._replace(folder=each.folder.without_read_ahead()) for each in places]
        )
        self.checked = checked
        self.maps = maps
        self.cache = cache
        self.is_remote = any(each is not None and each.folder.is_remote for each in places)
        """Whether elements come over a network."""
        self.unusable = unusable
        self._registry = registry
        self._indexes: dict[int, StoreIndex] = {}
        self._sources: dict[tuple[int, str], FileSource | RemoteSource] = {}
        self._lock = threading.Lock()
        self._mapped: dict[FileSource | RemoteSource, _Ranges] = {}

    def index(self, store: int) -> StoreIndex:
        """Return what a store contains.

        Raises:
            MissingPluginError: no plugin in force provides it.
            WeightsError: it is not where the file states, or not what it was when the program was saved.
        """
        if store not in self._indexes and (problems := list(self._store_problems(store))):
            raise errors.WeightsError(problems, remedy=RANK_REMEDY if self.unusable else _REMEDY)
        return self._indexes[store]

    def _place(self, store: int) -> StorePlace:
        place = self.places[store]
        if self.unusable:
            raise errors.ArchiveError(self.unusable, remedy=RANK_REMEDY)
        if place is None:
            reference = self.references.stores[store]
            raise errors.ArchiveError(
                f"the file does not state where its weights are ({reference.kind} {reference.location!r:.200})",
                remedy="Pass weights= with the place of the weights",
            )
        return place

    def bytes_of(self, store: int, chunk: Chunk) -> FileSource | RemoteSource | ReadByStore:
        """Return where a chunk of a store is read."""
        if isinstance(chunk.file, str):
            return self.source(store, chunk.file)
        return ReadByStore(chunk.file, self._place(store))

    def source(self, store: int, file: str) -> FileSource | RemoteSource:
        """Return an open file of a store."""
        source = self._sources.get((store, file))
        if source is None:
            opened = self._place(store).folder.open(file)
            source = self._sources.setdefault((store, file), opened)
            if source is not opened:  # another thread was faster
                opened.close()
        return source

    def is_first(self, source: FileSource | RemoteSource, offset: int, nbytes: int, record: str) -> bool:
        """Note that a record maps a range of a file, and return whether no other record maps any of its bytes.

        Records that are equal, such as two biases of zeros, may be one stored tensor. In the program they are two, and a change
        of one must not show in the other.
        """
        with self._lock:
            return self._mapped.setdefault(source, _Ranges()).add(offset, offset + nbytes, record)

    def shown(self, store: int) -> str:
        """Return where a store is, for messages and tables."""
        place, reference = self.places[store], self.references.stores[store]
        if place is None:
            return f"{reference.location} ({reference.kind}, wherever whoever loads the file says)"
        return "/".join(filter(None, (reference.folder, reference.location))) or place.shown

    def tensor(self, region: Region) -> StoredTensor:
        """Return the stored tensor of a region.

        Raises:
            WeightsError: there is no such tensor, or it has another type or shape.
        """
        tensor, problem = self._found(region, self.index(region.store))
        if problem or tensor is None:
            raise errors.WeightsError([errors.Problem(region.tensor, "tensor", problem)], remedy=_CHANGED)
        return tensor

    def _found(self, region: Region, index: StoreIndex) -> tuple[StoredTensor | None, str]:
        """Return the stored tensor of a region, and what is wrong with it; empty if it is as the region states."""
        try:
            tensor = index.tensors.get(region.tensor)
        except errors.ArchiveError as error:  # a store may look at a tensor only when it is asked for it
            return None, f"{error.place}: {error.problem}" if error.place else error.problem
        return tensor, self._tensor_problem(region, tensor)

    def _tensor_problem(self, region: Region, tensor: StoredTensor | None) -> str:
        place = self._place(region.store)
        if tensor is None:
            return f"{place.shown} has no such tensor"
        if tensor.dtype != region.dtype or list(tensor.shape) != region.shape:
            there = f"{tensor.dtype} {list(tensor.shape)}"
            return f"{place.shown} has it as {there}, and the program needs {region.dtype} {region.shape}"
        item = ITEM_SIZES.get(tensor.dtype, 0)
        files, total = self.index(region.store).files, 0
        for chunk in tensor.chunks:
            count = math.prod(chunk.sizes)
            total += count
            if isinstance(chunk.file, str):
                if chunk.file not in files:
                    return f"{place.shown} names no file for it"
                size, shown = files[chunk.file].nbytes, place.folder.shown(chunk.file)
            else:
                size, shown = ReadByStore(chunk.file, place).size, f"its bytes in {place.shown}"
                if count * item > self._most_read(region.store):
                    return self._too_much(region.store, count * item)
            if not 0 <= chunk.offset <= size - count * item:
                return f"it reaches beyond the end of {shown}"
            if not _is_inside(chunk, tensor.shape):
                return f"{place.shown} places a part of it outside of its shape"
        if total != math.prod(tensor.shape):
            return f"{place.shown} has {total:,} of its {math.prod(tensor.shape):,} elements"
        if len(tensor.chunks) > 1 and not tiles(
            tensor.shape, [(each.start, each.sizes) for each in tensor.chunks]
        ):
            return f"{place.shown} has parts of it that overlap"
        return ""

    def problems(self, records: Collection[RecordReference]) -> list[errors.Problem]:
        """Return every problem of the stores that records need, without reading elements: missing and changed files, missing
        tensors, other types and shapes.

        Raises:
            MissingPluginError: no plugin in force provides one of the stores.
        """
        problems: list[errors.Problem] = []
        usable: set[int] = set()
        for store in sorted({region.store for record in records for region in record.regions}):
            found = list(self._store_problems(store))
            problems += found
            if not found:
                usable.add(store)
        seen: set[tuple[int, str, str, tuple[int, ...]]] = set()
        read: Counter[int] = Counter()
        for region in (region for record in records for region in record.regions):
            key = (region.store, region.tensor, region.dtype, tuple(region.shape))
            if region.store in usable and key not in seen:
                seen.add(key)
                tensor, problem = self._found(region, self._indexes[region.store])
                if problem:
                    problems.append(errors.Problem(region.tensor, "tensor", problem))
                elif tensor is not None and is_read_by_store(tensor):
                    read[region.store] += math.prod(region.shape) * ITEM_SIZES[region.dtype]
        for store, nbytes in read.items():
            if nbytes > self._most_read(store):
                problems.append(errors.Problem(self.shown(store), "size", self._too_much(store, nbytes)))
        return problems

    def _most_read(self, store: int) -> int:
        """Return how many bytes a store that reads by itself may make of its files."""
        stored = sum(each.nbytes for each in self._indexes[store].files.values())
        return max(self._limits.inflate_free_bytes, self._limits.inflate_ratio * stored)

    def _too_much(self, store: int, nbytes: int) -> str:
        return (
            f"{self._place(store).shown} makes {nbytes:,} bytes of its files, more than {self._most_read(store):,}"
            " (Limits.inflate_ratio)"
        )

    def _check_plugins(self) -> None:
        """Raise an error that lists every plugin that the stores need and that is not in force."""
        places = {f"weight_store:{each.kind}": ["weights"] for each in self.places if each is not None}
        stores = [each for each in store_requirements(self.references) if places.keys() & each.provides]
        if missing := missing_of(stores, self._registry):
            raise missing_error(missing, self._registry, places, errors.MissingPluginError)

    def _store_problems(self, store: int) -> Iterator[errors.Problem]:
        self._check_plugins()
        reference = self.references.stores[store]
        place = self.places[store]
        if self.unusable:
            yield errors.Problem(reference.kind, "rank", self.unusable)
            return
        if place is None:
            yield errors.Problem(reference.kind, "place", "the file does not state where its weights are")
            return
        missing = list(self._missing(store, reference)) if self.checked else []
        if missing:
            yield from missing
            return
        try:
            index = store_named(self._registry, place.kind).open(place.folder, place.location)
        except errors.unless_interrupted(errors.GraphwireError, OSError) as error:
            text = str(error)
            if isinstance(error, errors.GraphwireError):
                told = error.remedy if BLOCK_VARIABLE in error.remedy else ""
                text = ". ".join(filter(None, (error.problem, told)))
            yield errors.Problem(place.shown, "store", text)
            return
        changes = list(_changes(reference.files, index, place.folder.shown)) if self.checked else []
        if not changes:
            self._indexes.setdefault(store, index)
        yield from changes

    def _missing(self, store: int, reference: StoreReference) -> Iterator[errors.Problem]:
        """Yield a problem for each file that cannot be opened."""
        place = self._place(store)
        for name, facts in reference.files.items():
            try:
                size = self.source(store, name).size
            except errors.MissingRecordError:
                yield errors.Problem(
                    place.folder.shown(name), "missing", f"the file is missing ({facts.nbytes:,} bytes)"
                )
            except errors.unless_interrupted(errors.GraphwireError, OSError) as error:
                text = error.problem if isinstance(error, errors.GraphwireError) else str(error)
                yield errors.Problem(place.folder.shown(name), "file", text)
            else:
                if size != facts.nbytes:
                    yield errors.Problem(
                        place.folder.shown(name),
                        "size",
                        f"the file has {size:,} bytes, and {facts.nbytes:,} when the program was saved",
                    )

    def close(self) -> None:
        """Close the files. Mapped memory stays valid."""
        for source in list(self._sources.values()):
            source.close()


class ReadByStore:
    """The bytes that a store reads by itself, checked: whatever it does wrong is an `ArchiveError`."""

    def __init__(self, stored: StoredBytes, place: StorePlace) -> None:
        self._stored = stored
        self._place = place

    @property
    def size(self) -> int:
        """In bytes.

        Raises:
            ArchiveError: the store states none.
        """
        try:
            size = self._stored.size
        except errors.unless_interrupted(BaseException) as error:
            raise self._error(error) from error
        if type(size) is not int:
            raise self._fault(f"states the size {errors.shown(size)}")
        return size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly the bytes of a range within `size`."""
        memory = bytearray(size)
        self.read_into(offset, memoryview(memory))
        return bytes(memory)

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes that begin at an offset."""
        done = 0
        while done < memory.nbytes:
            try:
                count = self._stored.read_into(offset + done, memory[done:])
            except errors.unless_interrupted(BaseException) as error:
                raise self._error(error) from error
            if type(count) is not int or not 0 < count <= memory.nbytes - done:
                raise self._fault(
                    f"read {errors.shown(count)} bytes at {offset + done:,}, where {memory.nbytes - done:,} are"
                )
            done += count

    def _error(self, error: BaseException) -> BaseException:
        """Return the error of a store as one of ours. Errors of the system, missing memory and interrupts are not the store's."""
        if isinstance(error, (errors.GraphwireError, OSError, MemoryError)):
            return error
        return self._fault(f"failed: {errors.exception_text(error)}")

    def _fault(self, what: str) -> errors.ArchiveError:
        error = errors.ArchiveError(
            f"the weight store {self._place.kind!r} {what}",
            place=self._place.shown,
            remedy="Fetch the file again if it is damaged",
        )
        return blamed(error, self._stored)


def is_read_by_store(tensor: StoredTensor) -> bool:
    """Return whether a store reads bytes of a tensor by itself."""
    return not all(isinstance(chunk.file, str) for chunk in tensor.chunks)


def _is_inside(chunk: Chunk, shape: Sequence[int]) -> bool:
    """Return whether a chunk is a box of a tensor, without gaps in its file."""
    strides = chunk.strides
    if not len(chunk.start) == len(chunk.sizes) == len(shape) or (strides and len(strides) != len(shape)):
        return False
    return (strides is None or is_dense(chunk.sizes, strides)) and all(
        first >= 0 and size >= 0 and first + size <= whole
        for first, size, whole in zip(chunk.start, chunk.sizes, shape, strict=True)
    )


def _changes(
    recorded: Mapping[str, object], index: StoreIndex, shown: Callable[[str], str]
) -> Iterator[errors.Problem]:
    for name, facts in recorded.items():
        now = index.files.get(name)
        if now is None:
            yield errors.Problem(shown(name), "changed", "the store does not use this file any more")
        elif now != facts:
            yield errors.Problem(
                shown(name), "changed", "the file describes other tensors than when the program was saved"
            )
