"""The weight store `safetensors`: files of model hubs, each with the tensors of a model or of a part (shard) of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import msgspec

from graphwire.errors import ArchiveError, EncodeError, MissingRecordError
from graphwire.registry.interfaces import NewTensor, PrunableFolder, StoredTensor, StoreFolder, StoreIndex
from graphwire.schema import FileFacts
from graphwire_plugins import safetensors_header
from graphwire_plugins.blobs import has_content

# ---------------- the index file of a model that is stored in several safetensors files (shards), as model hubs have it


SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
_SHARD = r"(?s)(.+)-([0-9]{5})-of-([0-9]{5})\.safetensors"


def read_index(folder: StoreFolder, location: str) -> dict[str, str]:
    """Return the location of the shard of each tensor, as an index file lists them.

    Raises:
        ArchiveError: there is no such file, or it is damaged.
    """
    with closing(folder.open(location)) as file:
        if file.size > safetensors_header.MAX_HEADER_BYTES:
            raise safetensors_header.problems_error(
                [f"the index has {file.size:,} bytes, more than {safetensors_header.MAX_HEADER_BYTES:,}"],
                location,
            )
        shards = safetensors_header.read_json(file.read_at(0, file.size), location).get("weight_map")
    if type(shards) is not dict:
        raise safetensors_header.problems_error(["the index has no object `weight_map`"], location)
    if problems := [
        f"the shard of {name!r:.200} is no text" for name, shard in shards.items() if type(shard) is not str
    ]:
        raise safetensors_header.problems_error(problems, location)
    base = location.rpartition("/")[0]
    return {name: f"{base}/{shard}" if base else shard for name, shard in shards.items()}


def index_bytes(shards: Mapping[str, str], nbytes: int) -> bytes:
    """Return an index file.

    Args:
        shards: the name of the file of each tensor; both are in one folder.
        nbytes: the size of all tensors, in bytes.
    """
    tree = {"metadata": {"total_size": nbytes}, "weight_map": shards}
    return f"{json.dumps(tree, indent=2, sort_keys=True)}\n".encode()


def shard_location(stem: str, index: int, count: int) -> str:
    """Return the location of a shard, whose index begins at 0."""
    return f"{stem}-{index + 1:05}-of-{count:05}{SUFFIX}"


def split_into_shards(tensors: Mapping[str, NewTensor], most_bytes: int) -> list[dict[str, NewTensor]]:
    """Divide tensors, in their order, into shards of at most so many bytes. A larger tensor has a shard of its own.

    Returns:
        The shards; one if there is no tensor.
    """
    shards: list[dict[str, NewTensor]] = []
    current: dict[str, NewTensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if tensor.nbytes > most_bytes:
            shards.append({name: tensor})
            continue
        if size + tensor.nbytes > most_bytes:
            shards.append(current)
            current, size = {}, 0
        current[name] = tensor
        size += tensor.nbytes
    return [*shards, current] if current or not shards else shards


def shards_of_one_model(names: Iterable[str]) -> list[str]:
    """Return the names of all shards of the model whose shards these names are, whether or not they are among them; empty if
    the names are not shards of one model."""
    found = [re.fullmatch(_SHARD, name) for name in names]
    models = {(each[1], int(each[3])) if each else None for each in found}
    model = models.pop() if len(models) == 1 else None
    return [] if model is None else [shard_location(model[0], index, model[1]) for index in range(model[1])]


SHARD_BYTES = 5_000_000_000
"""The most bytes of tensors in one file, as model hubs have it. A larger tensor has a file of its own."""
_STEM = "model"
"""How the files of a folder begin if the caller names only the folder."""
_MOST_NAMES, _MOST_TRIES = 100, 100
_FETCH = "Fetch them into the same folder, or name a place that has all of them"


class SafetensorsStore:
    """A file `*.safetensors`, an index file `*.safetensors.index.json` with the shards that it names, or a folder with either.

    In a folder, the store opens `model.safetensors.index.json`, else `model.safetensors`, else its only index file or
    safetensors file, else all shards of one model.

    Args:
        shard_bytes: the most bytes of tensors in one file. More are written to several files, with an index file.
    """

    name = "safetensors"
    takes_storages = False

    def __init__(self, shard_bytes: int = SHARD_BYTES) -> None:
        self._shard_bytes = shard_bytes

    def find(self, folder: StoreFolder, location: str) -> str | None:
        """Return the location of the file to open; empty if `open` has to choose from several files."""
        if location.endswith((SUFFIX, INDEX_SUFFIX)):
            return location
        if location:
            try:
                with closing(folder.open(location)) as file:
                    return location if safetensors_header.looks_like_header(file) else None
            except ArchiveError:
                return None
        files, indexes = _names(folder)
        for name in (_STEM + INDEX_SUFFIX, _STEM + SUFFIX):
            if name in (*files, *indexes):
                return name
        shards = shards_of_one_model(files)
        if len(indexes) == 1 and (shards or not files):
            return indexes[0]
        if len(files) == 1 and not (indexes or shards):
            return files[0]
        return "" if files or indexes else None

    def open(self, folder: StoreFolder, location: str) -> StoreIndex:
        """Read the header of each file.

        Raises:
            ArchiveError: a header or the index file is damaged, files are missing, or several files could be meant.
        """
        location = location or self.find(folder, "") or ""
        if location.endswith(INDEX_SUFFIX):
            return _open_listed(folder, location, read_index(folder, location))
        return _open_all(folder, [location] if location else _shards_in(folder))

    def keeps(self, dtype: str) -> bool:
        """Return whether the format has this element type."""
        return safetensors_header.has_type(dtype)

    def write(
        self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write one file, or several with an index file if the tensors are larger than `shard_bytes` or `location` is that of an
        index file. If files of these names have other content, the new ones get a name with a digest of theirs.

        Raises:
            EncodeError: the format cannot hold a tensor.
        """
        if unknown := sorted(
            {each.dtype for each in tensors.values() if not safetensors_header.has_type(each.dtype)}
        ):
            raise EncodeError(f"safetensors has no element type {', '.join(unknown)}")
        names = {name: name for name in tensors}
        if location and self._has(folder, location, tensors):
            return location, names
        shards = split_into_shards(tensors, self._shard_bytes)
        is_listed = len(shards) > 1 or location.endswith(INDEX_SUFFIX)
        stem = location.removesuffix(INDEX_SUFFIX).removesuffix(SUFFIX) or _STEM
        for free in _stems(stem, tensors):
            files = _listed_files(free, shards) if is_listed else [_new_file(free + SUFFIX, tensors)]
            if _are_there(folder, files):
                return files[-1].location, names
        raise EncodeError(
            f"files of other content have the names {stem}{SUFFIX}, and others derived from it",
            remedy="Choose another name for the weights",
        )

    def _has(self, folder: StoreFolder, location: str, tensors: Mapping[str, NewTensor]) -> bool:
        """Return whether the file that is there already, if any, has exactly these tensors."""
        try:
            stored = self.open(folder, location).tensors
        except ArchiveError:
            return False
        if stored.keys() != tensors.keys() or any(
            stored[name][:2] != (new.dtype, tuple(new.shape)) for name, new in tensors.items()
        ):
            return False
        by_file: dict[str, list[tuple[int, NewTensor]]] = {}
        for name, new in tensors.items():
            (chunk,) = stored[name].chunks
            by_file.setdefault(str(chunk.file), []).append((chunk.offset, new))
        return all(_contains(folder, file, parts) for file, parts in by_file.items())


# --------------------------------------------------------------------------------------------------------------- reading


def _names(folder: StoreFolder) -> tuple[list[str], list[str]]:
    """Return the names of the safetensors files and of the index files in a folder."""
    names = folder.names()
    return [each for each in names if each.endswith(SUFFIX)], [
        each for each in names if each.endswith(INDEX_SUFFIX)
    ]


def _shards_in(folder: StoreFolder) -> list[str]:
    """Return the locations of all shards of the one model in a folder that has no index file."""
    files, indexes = _names(folder)
    if not indexes and (shards := shards_of_one_model(files)):
        return shards
    if not files and not indexes:
        raise MissingRecordError(
            "the folder has no safetensors file", remedy="Name the file or folder with the weights"
        )
    raise safetensors_header.problems_error(
        [f"the folder has several safetensors files: {', '.join([*indexes, *files][:10])}"],
        "",
        "Name the one to open, or the index file of the shards",
    )


def _open_all(folder: StoreFolder, locations: Sequence[str]) -> StoreIndex:
    """Open all tensors of some files."""
    files = _read_files(folder, locations)
    tensors: dict[str, StoredTensor] = {}
    for location, (header, _) in files.items():
        if twice := tensors.keys() & header.tensors.keys():
            problems = [f"tensor {name!r:.200} is in another shard too" for name in sorted(twice)]
            raise safetensors_header.problems_error(problems, location)
        tensors.update((name, _stored(header, location, name)) for name in header.tensors)
    return StoreIndex(tensors, {location: facts for location, (_, facts) in files.items()})


def _open_listed(folder: StoreFolder, location: str, shards: Mapping[str, str]) -> StoreIndex:
    """Open the tensors that an index file lists."""
    files = _read_files(folder, list(dict.fromkeys(shards.values())))
    lost = [
        f"{shard!r:.200} does not have the tensor {name!r:.200}"
        for name, shard in shards.items()
        if name not in files[shard][0].tensors
    ]
    if lost:
        raise safetensors_header.problems_error(
            lost, location, "The index file and the shards do not belong together: fetch all of them again"
        )
    return StoreIndex(
        {name: _stored(files[shard][0], shard, name) for name, shard in shards.items()},
        {shard: facts for shard, (_, facts) in files.items()},
    )


def _read_files(
    folder: StoreFolder, locations: Sequence[str]
) -> dict[str, tuple[safetensors_header.Header, FileFacts]]:
    """Read the headers of files.

    Raises:
        MissingRecordError: some are missing; the error lists them.
        ArchiveError: one is damaged.
    """
    files, missing = {}, []
    for location in sorted(locations):
        try:
            file = folder.open(location)
        except MissingRecordError:
            missing.append(location)
            continue
        with closing(file):
            header = safetensors_header.read_header(file, location)
            files[location] = header, FileFacts(file.size, header.sha256)
    if missing:
        what = (
            f"{len(missing)} of {len(locations)} files are missing: "
            if len(locations) > 1
            else "there is no file "
        )
        raise MissingRecordError(what + ", ".join(map(repr, missing)), remedy=_FETCH)
    return files


def _stored(header: safetensors_header.Header, location: str, name: str) -> StoredTensor:
    entry = header.tensors[name]
    return StoredTensor.whole(entry.dtype, entry.shape, location, entry.start)


# --------------------------------------------------------------------------------------------------------------- writing


class _NewFile(msgspec.Struct, frozen=True):
    """A file to write: its first bytes, and tensors behind them."""

    location: str
    head: bytes
    tensors: Mapping[str, NewTensor]

    @property
    def size(self) -> int:
        return len(self.head) + sum(each.nbytes for each in self.tensors.values())


def _new_file(location: str, tensors: Mapping[str, NewTensor]) -> _NewFile:
    ordered = safetensors_header.file_order(tensors)
    return _NewFile(location, safetensors_header.header_bytes(ordered), ordered)


def _listed_files(stem: str, shards: Sequence[Mapping[str, NewTensor]]) -> list[_NewFile]:
    """Return the files of shards, and last the index file."""
    files = [_new_file(shard_location(stem, index, len(shards)), shard) for index, shard in enumerate(shards)]
    names = {name: each.location.rpartition("/")[2] for each in files for name in each.tensors}
    nbytes = sum(new.nbytes for each in files for new in each.tensors.values())
    return [*files, _NewFile(stem + INDEX_SUFFIX, index_bytes(names, nbytes), {})]


def _stems(stem: str, tensors: Mapping[str, NewTensor]) -> Iterator[str]:
    """Yield the wanted beginning of a file's name, then others with a digest of the tensors."""
    import hashlib

    from graphwire.wire.archive.digests import digests_of

    yield stem
    digest = hashlib.sha256(safetensors_header.header_bytes(safetensors_header.file_order(tensors)))
    for each in digests_of({name: new.view for name, new in sorted(tensors.items())}).values():
        digest.update(each.encode())
    yield (stem := f"{stem}-{digest.hexdigest()[:12]}")
    for number in range(2, _MOST_NAMES):
        yield f"{stem}-{number}"


def _are_there(folder: StoreFolder, files: Sequence[_NewFile]) -> bool:
    """Write those of the files that are missing, and return True; or return False if one of them has other content."""
    created: list[str] = []
    for _ in range(_MOST_TRIES):
        states = []
        for each in files:
            states.append(_state(folder, each))
            if states[-1] is False:
                # Shards that are equal may be those of another writer, unless the index file names others.
                if each is files[-1] and isinstance(folder, PrunableFolder):
                    for location in created:
                        folder.remove(location)
                return False
        try:
            for each, is_there in zip(files, states, strict=True):
                if not is_there:
                    _write(folder, each)
                    created.append(each.location)
        except FileExistsError:  # another writer was faster: perhaps with the same content
            continue
        return True
    return False


def _state(folder: StoreFolder, new: _NewFile) -> bool | None:
    """Return whether a file that is there has the content of a new one; None if none is there."""
    try:
        file = folder.open(new.location)
    except MissingRecordError:
        return None
    with closing(file):
        if file.size != new.size or not has_content(file, 0, memoryview(new.head)):
            return False
    parts, at = [], len(new.head)
    for tensor in new.tensors.values():
        parts.append((at, tensor))
        at += tensor.nbytes
    return _contains(folder, new.location, parts)


def _contains(folder: StoreFolder, location: str, parts: Iterable[tuple[int, NewTensor]]) -> bool:
    """Return whether a file has the content of tensors at offsets, in bytes."""
    with closing(folder.open(location)) as file:
        return all(has_content(file, offset, new.view()) for offset, new in parts)


def _write(folder: StoreFolder, new: _NewFile) -> None:
    from graphwire.wire.archive.atomic_file import write_all

    with folder.create(new.location) as file:
        write_all(file, new.head)
        for tensor in new.tensors.values():
            write_all(file, tensor.view())
