"""The weight store `blobs`: a folder in which each storage is a file named by its content, once for any number of programs.

    blobs.json                   {"format": "graphwire-blobs", "version": 1}
    ab/cdef0123…                 the bytes of the storage with the digest abcdef0123…

A digest has 64 lower-case hexadecimal digits; the first two are the name of a folder, the others that of a file in it. Content
of at most 16 MiB (16,777,216 bytes) has the SHA-256 of its bytes as digest. Longer content is cut into chunks of 16 MiB, the
last one shorter; its digest is the SHA-256 of the SHA-256 digests of the chunks (32 bytes each), one after the other.

Files are complete when they appear, and never change, so any number of programs may write at the same time. Names that
graphwire gives to files that are not complete yet begin with `.graphwire-` and end with `.part`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import BinaryIO

from graphwire.errors import ArchiveError, EncodeError, MissingRecordError, Problem
from graphwire.process import Step, Threads
from graphwire.registry import interfaces
from graphwire.schema import FileFacts

# ----------------------- write, compare and hash the bytes of tensors in chunks, so that memory does not grow with them


_READ_BYTES = 1 << 20
"""In bytes. Larger reads leave the processor's cache before they are used."""
_THREADS = 2


def write_hashed(file: BinaryIO, content: memoryview) -> str:
    """Write all bytes to a file, and return their digest (see `digest_of_chunks`). A thread hashes while they are written.

    Chunks are copied before they are hashed and written, so the digest is that of the file even if the content changes.
    """
    from graphwire.wire.archive.atomic_file import write_all

    if content.nbytes <= _READ_BYTES:
        chunk = bytes(content)
        write_all(file, chunk)
        return digest_of_chunks([_sha256(chunk)])
    from graphwire.wire.archive.digests import CHUNK_BYTES

    # The same buffers for all chunks: new memory has to be mapped page by page.
    buffers = [memoryview(bytearray(min(content.nbytes, CHUNK_BYTES))) for _ in range(_THREADS)]
    hashed: list[Step] = []
    with Threads(_THREADS, "graphwire-blobs") as threads:
        for at in range(0, content.nbytes, CHUNK_BYTES):
            if len(hashed) >= _THREADS:
                hashed[-_THREADS].result()  # its buffer is free again
            part = content[at : at + CHUNK_BYTES]
            copy = buffers[len(hashed) % _THREADS][: part.nbytes]
            copy[:] = part
            hashed.append(threads.submit(_sha256, copy))
            write_all(file, copy)
        return digest_of_chunks(each.result() for each in hashed)


def has_content(file: interfaces.StoreFile, offset: int, content: memoryview) -> bool:
    """Return whether the bytes at an offset of a file, in bytes, are these. The range lies within the file."""
    # Comparing with a view takes ten times longer than copying it and comparing bytes.
    return all(
        file.read_at(offset + at, min(_READ_BYTES, content.nbytes - at))
        == bytes(content[at : at + _READ_BYTES])
        for at in range(0, content.nbytes, _READ_BYTES)
    )


def digest_of_file(file: interfaces.StoreFile) -> str:
    """Return the digest of a file's content (see `digest_of_chunks`), computed in two threads."""
    from graphwire.wire.archive.digests import CHUNK_BYTES

    def of_chunk(start: int) -> bytes:
        import hashlib

        digest = hashlib.sha256()
        end = min(start + CHUNK_BYTES, file.size)
        for at in range(start, end, _READ_BYTES):
            digest.update(file.read_at(at, min(_READ_BYTES, end - at)))
        return digest.digest()

    with Threads(_THREADS, "graphwire-blobs") as threads:
        chunks = [threads.submit(of_chunk, start) for start in range(0, max(file.size, 1), CHUNK_BYTES)]
        return digest_of_chunks(each.result() for each in chunks)


def digest_of_chunks(chunks: Iterable[bytes]) -> str:
    """Return the digest of content in hexadecimal.

    Content of at most 16 MiB (16,777,216 bytes) has the SHA-256 of its bytes. Longer content is cut into chunks of 16 MiB, the
    last one shorter, and has the SHA-256 of their SHA-256 digests (32 bytes each), one after the other.

    Args:
        chunks: the SHA-256 of each chunk; that of no bytes for empty content.
    """
    import hashlib

    first, *rest = chunks
    return hashlib.sha256(b"".join([first, *rest])).hexdigest() if rest else first.hex()


def _sha256(chunk: bytes | memoryview) -> bytes:
    import hashlib

    return hashlib.sha256(chunk).digest()


MARKER = "blobs.json"
_MARKER_TREE = {"format": "graphwire-blobs", "version": 1}
_MARKER_BYTES = 4096
_DIGEST = r"[0-9a-f]{64}"
_FOLDER = r"[0-9a-f]{2}/"
_FILE = r"[0-9a-f]{62}"
_MOST_TRIES = 100
_TEMPORARY = r"(?s)\.graphwire-.*\.part"


class BlobStore:
    """A folder of storages named by their content. The names of tensors are the digests."""

    name = "blobs"
    takes_storages = True

    def find(self, folder: interfaces.StoreFolder, location: str) -> str | None:
        """Return the empty location if the folder has a marker."""
        return "" if location in ("", MARKER) and MARKER in folder.names() else None

    def open(self, folder: interfaces.StoreFolder, location: str) -> interfaces.StoreIndex:
        """Return an index that looks at a blob when it is asked for it, because a folder may have very many.

        Raises:
            ArchiveError: the folder has no marker, or one of another format.
        """
        _check_marker(folder)
        blobs = _Blobs(folder)
        return interfaces.StoreIndex(blobs, _Files(blobs))

    def keeps(self, dtype: str) -> bool:
        """Return whether storages are of this type: they are bytes."""
        return dtype == "uint8"

    def write(
        self, folder: interfaces.StoreFolder, location: str, tensors: Mapping[str, interfaces.NewTensor]
    ) -> tuple[str, Mapping[str, str]]:
        """Write the storages that are not there yet. Their names are their digests.

        Raises:
            EncodeError: content does not have the digest that its name states; perhaps it changes while it is saved.
            ArchiveError: the folder has a marker of another format, or a blob of the wrong size.
        """
        for name, new in tensors.items():
            if not re.fullmatch(_DIGEST, name) or new.dtype != "uint8":
                raise EncodeError(
                    f"a store of blobs takes uint8 named by its digest, not {new.dtype} named {name!r:.80}"
                )
        from graphwire.wire.archive.atomic_file import write_all

        with suppress(FileExistsError):
            if MARKER not in folder.names():
                with folder.create(MARKER) as file:
                    write_all(file, json.dumps(_MARKER_TREE).encode())
        _check_marker(folder)
        for digest, new in tensors.items():
            _keep(folder, digest, new)
        return "", {digest: digest for digest in tensors}

    def damaged(self, folder: interfaces.StoreFolder) -> Iterator[Problem]:
        """Read every blob, and yield a problem for each file whose content does not have the digest that its name states.

        Raises:
            ArchiveError: the folder has no marker, or one of another format.
        """
        _check_marker(folder)
        for location in _named_as_blobs(folder):
            try:
                with closing(folder.open(location)) as file:
                    digest = digest_of_file(file)
            except MissingRecordError:  # removed meanwhile
                continue
            except ArchiveError as error:
                yield Problem(location, "not-a-file", error.problem)
                continue
            if "/" not in location:
                yield Problem(location, "not-a-folder", "the folder of blobs is something else")
            elif _location(digest) != location:
                yield Problem(location, "wrong-content", f"the content has the digest {digest}")

    def unused(
        self, folder: interfaces.PrunableFolder, used: Container[str], older_than: float
    ) -> Iterator[interfaces.UnusedFile]:
        """Yield the blobs that no program uses, and files that a writer left incomplete, unless they are too young.

        Raises:
            ArchiveError: the folder has no marker, or one of another format.
        """
        _check_marker(folder)
        for location in [*_files_of(folder), *_temporary_files_of(folder)]:
            with suppress(FileNotFoundError, MissingRecordError):  # removed meanwhile
                if location.replace("/", "", 1) not in used and folder.age(location) > older_than:
                    yield interfaces.UnusedFile(location, _size(folder, location))


def _check_marker(folder: interfaces.StoreFolder) -> None:
    """Raise an error unless the folder is one of blobs that this version reads."""
    try:
        file = folder.open(MARKER)
    except MissingRecordError:
        raise MissingRecordError(
            f"the folder is no store of blobs: it has no {MARKER}",
            remedy="Pass the folder that was given to Blobs(…) when the program was saved",
        ) from None
    try:
        with closing(file):
            tree = json.loads(file.read_at(0, min(file.size, _MARKER_BYTES)))
    except (ValueError, RecursionError):
        tree = None
    if tree != _MARKER_TREE or type(tree["version"]) is not int:  # True and 1.0 are equal to 1
        is_newer = type(tree) is dict and tree.get("format") == _MARKER_TREE["format"]
        raise ArchiveError(
            "the store of blobs has a version that this graphwire does not know"
            if is_newer
            else "the file does not describe a store of blobs",
            place=MARKER,
            remedy="Update graphwire" if is_newer else "Restore the file, or choose another folder",
        )


def _keep(folder: interfaces.StoreFolder, digest: str, new: interfaces.NewTensor) -> None:
    """Write a blob unless it is there."""
    location = _location(digest)
    for _ in range(_MOST_TRIES):
        with suppress(MissingRecordError):
            if (size := _size(folder, location)) != new.nbytes:
                raise ArchiveError(
                    f"the blob has {size:,} bytes, and content with its digest has {new.nbytes:,}",
                    place=location,
                    remedy="`graphwire blobs verify` lists the damaged blobs: remove them, and save again",
                )
            if isinstance(folder, interfaces.PrunableFolder):
                folder.refresh(location)
            return
        with suppress(FileExistsError):  # another writer was faster
            with folder.create(location) as file:
                if write_hashed(file, new.view()) != digest:
                    raise EncodeError(
                        f"a storage does not have the digest {digest}",
                        remedy="If the program is trained at the same time, stop that while it is saved",
                    )
            return
    raise ArchiveError("the blob is removed again and again", place=location, remedy="Save again")


def _size(folder: interfaces.StoreFolder, location: str) -> int:
    with closing(folder.open(location)) as file:
        return file.size


def _location(digest: str) -> str:
    return f"{digest[:2]}/{digest[2:]}"


def _files_of(folder: interfaces.StoreFolder) -> Iterator[str]:
    """Yield the locations of all blobs."""
    for above in filter(re.compile(_FOLDER).fullmatch, folder.names()):
        yield from (above + name for name in folder.names(above[:-1]) if re.fullmatch(_FILE, name))


def _named_as_blobs(folder: interfaces.StoreFolder) -> Iterator[str]:
    """Yield the locations of everything that has the name of a blob, or of a folder of blobs without being one."""
    for name in folder.names():
        if re.fullmatch(_FOLDER, name):
            for each in folder.names(name[:-1]):
                if re.fullmatch(_FILE, each.removesuffix("/")):
                    yield name + each.removesuffix("/")
        elif re.fullmatch(_FOLDER, f"{name}/"):
            yield name


def _temporary_files_of(folder: interfaces.StoreFolder) -> Iterator[str]:
    """Yield the locations of files that are not complete, or whose writer was killed."""
    for above in ["", *filter(re.compile(_FOLDER).fullmatch, folder.names())]:
        yield from (above + name for name in folder.names(above[:-1]) if re.fullmatch(_TEMPORARY, name))


class _Blobs(Mapping[str, interfaces.StoredTensor]):
    """The blobs of a folder as tensors, by digest."""

    def __init__(self, folder: interfaces.StoreFolder) -> None:
        self._folder = folder

    def __getitem__(self, digest: str) -> interfaces.StoredTensor:
        if not re.fullmatch(_DIGEST, digest):
            raise KeyError(digest)
        location = _location(digest)
        try:
            size = _size(self._folder, location)
        except MissingRecordError:
            raise KeyError(digest) from None
        return interfaces.StoredTensor.whole("uint8", (size,), location)

    def __iter__(self) -> Iterator[str]:
        return (location.replace("/", "", 1) for location in _files_of(self._folder))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Files(Mapping[str, FileFacts]):
    """The files of blobs, by location."""

    def __init__(self, blobs: _Blobs) -> None:
        self._blobs = blobs

    def __getitem__(self, location: str) -> FileFacts:
        return FileFacts(self._blobs[location.replace("/", "", 1)].shape[0])

    def __iter__(self) -> Iterator[str]:
        return map(_location, self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)
