"""Writes a package (see `package_reader`): documents, and the payloads that they share."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, BinaryIO

import msgspec

from graphwire.errors import ArchiveError, GraphwireError
from graphwire.schema import PayloadConfig, PayloadMeta, PluginRequirement, WeightReferences
from graphwire.wire.archive.atomic_file import atomic_write, write_all
from graphwire.wire.archive.digests import THREAD_HASH_BYTES, Digests
from graphwire.wire.archive.source import RemoteFile, UniversalPath, file_name, is_mapped, located, type_text
from graphwire.wire.archive.writer import ArchiveWriter
from graphwire.wire.package_reader import (
    BARE_DOCUMENT,
    OWN_LAYOUT,
    PROVIDERS,
    LayoutSpec,
    config_members,
    layout_named,
    schema_version_text,
)
from graphwire.wire.payloads import CONSTANTS, SAMPLE_INPUTS, WEIGHTS, Document, Payloads, Record
from graphwire.wire.torch_files.torch_save_writer import (
    PackedFile,
    pack_examples,
    pack_state_dict,
    record_chunks,
)
from graphwire.wire.weights.reference_table import REFERENCES, write_references

_JOINED_BYTES = 1 << 16
"""In bytes. The chunks of smaller example inputs are joined: a chunk takes longer to write than so few bytes to copy."""


def write_package(
    stream: BinaryIO,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes] | None = None,
    *,
    layout: str = OWN_LAYOUT,
    compress: bool = True,
    digests: Digests | None = None,
    references: WeightReferences | None = None,
    settle: Callable[[], object] | None = None,
    dropped_examples: list[tuple[str, str]] | None = None,
) -> None:
    """Write a package to a stream, which need not be seekable. Payloads are not copied.

    Args:
        documents: the programs by name. Records with the same name are written once. In any layout except B2 a document is
            JSON in the schema version of that layout. If torch reads the document, its payloads include the example inputs
            (`Payloads.examples`), which are dropped if they have no plain form. A1 to A4 store a single program.
        extra_files: other files to add to the archive, by path.
        layout: a key of `layouts.LAYOUTS`, `pt2` for the newest, or `BARE_DOCUMENT`.
        compress: deflate documents, configs and extra files; otherwise they are stored, for readers that cannot inflate.
        references: where the weights are that the package does not contain. Their records are not written.
        digests: the digests of the payloads, if started already (see `begin_digests`). Used if the layout has a manifest.
        settle: see `ArchiveWriter`.
        dropped_examples: receives the name of each program whose example inputs are dropped from torch's record, and why.

    Raises:
        ArchiveError: a name refers to a path outside the archive, or the layout cannot store the documents.
        EncodeError: the layout cannot represent a payload.
    """
    if layout == BARE_DOCUMENT:
        if len(documents) != 1 or extra_files:
            raise ArchiveError(
                "a bare document is one program, with nothing beside it",
                remedy="Write each program to a file of its own, without extra files",
            )
        write_all(stream, next(iter(documents.values())).data)
        return
    spec = layout_named(layout)
    if spec.has_configs:
        absent = absent_records((each.payloads for each in documents.values()), references)
        unlisted = (each.payloads.records for each in documents.values() if not each.lists_examples)
        absent |= {name for names in unlisted for name in names if name.startswith(SAMPLE_INPUTS)}
        if digests is None:
            digests = begin_digests((document.payloads for document in documents.values()), absent)
        with digests, ArchiveWriter(stream, digests=digests, settle=settle) as archive:
            if references is not None:
                archive.write(REFERENCES, write_references(references), compress=compress)
            _write_records(
                archive, digests, documents, extra_files or {}, spec, compress, dropped_examples, absent
            )
    elif references is not None:
        raise ArchiveError(f"the layout of torch {spec.releases} has all weights inside")
    else:
        _write_packed(stream, documents, extra_files or {}, spec, dropped_examples)


def save_package(
    file: str | os.PathLike[str] | UniversalPath | BinaryIO | RemoteFile,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes] | None = None,
    *,
    layout: str = OWN_LAYOUT,
    compress: bool = True,
    digests: Digests | None = None,
    references: WeightReferences | None = None,
    dropped_examples: list[tuple[str, str]] | None = None,
) -> None:
    """Write a package to a stream, or atomically to a path, which is replaced after all bytes have reached the disk, or to a URL.

    Raises:
        OSError: the path is not writable. Other errors are those of `write_package`.
    """
    target: Any = located(file)
    write = functools.partial(
        write_package,
        documents=documents,
        extra_files=extra_files,
        layout=layout,
        compress=compress,
        digests=digests,
        references=references,
        dropped_examples=dropped_examples,
    )
    if not isinstance(target, (str, os.PathLike, RemoteFile)):
        _check_stream(target)
        write(target)
        return
    replacement = atomic_write(target)
    with replacement as stream:
        write(stream, settle=replacement.settle)


def begin_digests(payloads: Iterable[Payloads], absent: Collection[str] = ()) -> Digests:
    """Start computing the digests of payloads in threads. Pass the result to `write_package`, or close it.

    Args:
        absent: the records that are not written.
    """
    digests = Digests()
    try:
        digests.begin_groups(_records(payloads, absent))
    except BaseException:
        digests.close()
        raise
    return digests


def _records(payloads: Iterable[Payloads], absent: Collection[str] = ()) -> dict[str, Record]:
    """Return the records of all programs by name, in the order in which they are written."""
    records: dict[str, Record] = {}
    for each in payloads:
        records.update(each.records)
    return {name: each for name, each in records.items() if name not in absent} if absent else records


def absent_records(payloads: Iterable[Payloads], references: WeightReferences | None) -> set[str]:
    """Return the records that a package with references does not contain: those of the references, and the copies of them that
    constants have for readers that know no references."""
    if references is None:
        return set()
    absent = {*references.records, *(name for table in references.ranks for name in table)}
    copies = {
        CONSTANTS + meta.path_name: meta.shared for each in payloads for meta in each.constants.values()
    }
    return absent | {name for name, shared in copies.items() if shared in absent}


def _check_stream(stream: Any) -> None:
    """Check that a stream accepts bytes, and does not overwrite a file that is mapped.

    Raises:
        ArchiveError: it does not accept bytes, or it would overwrite a mapped file.
    """
    try:
        stream.write(b"")
    except AttributeError:
        raise ArchiveError(f"{type_text(stream)} is not a path or a binary file").of(
            file_name(stream)
        ) from None
    except TypeError as error:
        raise ArchiveError("the file object accepts text", remedy='Open the file in binary mode, "wb"').of(
            file_name(stream)
        ) from error
    except ValueError as error:
        raise ArchiveError(
            f"the file object accepts no bytes ({error})", remedy='Open the file with "wb"'
        ).of(file_name(stream)) from error
    if is_mapped(stream):
        raise ArchiveError(
            "a loaded program still maps this file: its weights would change while they are written",
            remedy="Save to the file's path, which replaces the file, or load with copy=True",
        ).of(file_name(stream))


def _write_records(
    archive: ArchiveWriter,
    digests: Digests,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes],
    spec: LayoutSpec,
    compress: bool,
    dropped_examples: list[tuple[str, str]] | None,
    absent: Collection[str],
) -> None:
    for name, document in documents.items():
        member = spec.member("document", name).removesuffix(".json") + document.suffix
        archive.write(member, document.data, compress=compress)
    for name, document in documents.items():
        examples = _pack_examples(name, document.payloads, spec, dropped_examples)
        for kind, member in config_members(name, spec).items():
            metas = getattr(document.payloads, kind)
            # With a config of example inputs, graphwire's readers need not read the pickle.
            if kind != "sample_inputs" or (document.lists_examples and (metas or examples is not None)):
                archive.write(member, msgspec.json.encode(PayloadConfig(metas)), compress=compress)
        member = spec.member("sample_inputs", name)
        if examples is None:
            archive.write(member, b"", compress=False)
        else:
            small = examples.nbytes < _JOINED_BYTES
            chunks = (b"".join(examples.chunks()),) if small else examples.chunks()
            archive.write_stream(member, examples.nbytes, chunks)
    if providers := _providers(documents.values()):
        archive.write(PROVIDERS, msgspec.json.encode(providers), compress=compress)
    for path, data in extra_files.items():
        archive.write(spec.extra + path, data, compress=compress)
    for member, record in _records((each.payloads for each in documents.values()), absent).items():
        # Small enough to compute the checksum before writing the header.
        if record.nbytes < THREAD_HASH_BYTES:
            hashed = member in digests.views
            view = digests.views.pop(member) if hashed else record.view()
            archive.write(member, view, compress=False, hashed=hashed)
        else:
            lent = getattr(record, "lends", False)
            archive.write_stream(member, record.nbytes, record_chunks(record), lent=lent)


def _write_packed(
    stream: BinaryIO,
    documents: Mapping[str, Document],
    extra_files: Mapping[str, bytes],
    spec: LayoutSpec,
    dropped_examples: list[tuple[str, str]] | None,
) -> None:
    """Write a layout whose payloads are torch.save files. All of them are encoded before anything is written."""
    if spec.is_flat and len(documents) != 1:
        raise ArchiveError(f"an archive of torch {spec.releases} holds one program, not {len(documents)}")
    if any(document.suffix != ".json" for document in documents.values()):
        raise ArchiveError(f"the program in an archive of torch {spec.releases} is JSON")
    packed: dict[str, PackedFile | None] = {}
    for name, document in documents.items():
        packed.update(_pack(name, document, spec, dropped_examples))
    version = schema_version_text(next(iter(documents.values())).data) if spec.is_flat else ""
    root = "" if spec.is_flat else "program"
    with ArchiveWriter(stream, root=root) as archive:
        for name, document in documents.items():
            archive.write(spec.member("document", name), document.data, compress=False)
        for member, file in packed.items():
            if file is None:
                archive.write(member, b"", compress=False)
            else:
                archive.write_stream(member, file.nbytes, file.chunks())
        if spec.is_flat:
            archive.write("version", version.encode(), compress=False)
        for path, data in extra_files.items():
            archive.write(spec.extra + path, data, compress=False)


def _pack(
    name: str, document: Document, spec: LayoutSpec, dropped_examples: list[tuple[str, str]] | None
) -> dict[str, PackedFile | None]:
    """Return the torch.save files of a program, by member; None for an empty one."""
    payloads = document.payloads
    records = {record: payloads.records[record] for record in payloads.records}
    weights = {key: (WEIGHTS, meta) for key, meta in payloads.weights.items()}
    constants = {key: (CONSTANTS, meta) for key, meta in payloads.constants.items()}
    moved = _buffers(document, spec)
    weights.update((key, value) for key, value in constants.items() if key in moved)
    constants = {key: value for key, value in constants.items() if key not in moved}
    files: dict[str, PackedFile | None] = {}
    for kind, values in (("weights", weights), ("constants", constants)):
        member = spec.member(kind, name)
        if member:
            metas = {key: _moved(folder, meta) for key, (folder, meta) in values.items()}
            files[member] = pack_state_dict(metas, records, "", payloads.encoded, untyped=spec.untyped)
    member = spec.member("sample_inputs", name)
    if member:
        files[member] = _pack_examples(name, payloads, spec, dropped_examples)
    return files


def _pack_examples(
    name: str, payloads: Payloads, spec: LayoutSpec, dropped_examples: list[tuple[str, str]] | None
) -> PackedFile | None:
    """Return the example inputs as the torch.save file that torch reads.

    None if there are none or they have no plain form; the program works without them.
    """
    if payloads.examples is None:
        return None
    samples, records = payloads.sample_inputs, payloads.records
    try:
        return pack_examples(payloads.examples, samples, records, SAMPLE_INPUTS, untyped=spec.untyped)
    except GraphwireError as error:
        if dropped_examples is not None:
            dropped_examples.append((name, error.problem))
        return None


def _moved(folder: str, meta: PayloadMeta) -> PayloadMeta:
    """Return a payload whose path starts at the archive's root, because weights and constants are in different folders."""
    return msgspec.structs.replace(meta, path_name=folder + meta.path_name if meta.path_name else "")


def _buffers(document: Document, spec: LayoutSpec) -> set[str]:
    """Return the constants that belong in the state dict: all of them in A1, the buffers in A2."""
    if not spec.constants:
        return set(document.payloads.constants)
    if spec.name != "A2":
        return set()
    try:
        specs = json.loads(document.data)["graph_module"]["signature"]["input_specs"]
        return {each["buffer"]["buffer_name"] for each in specs if each.get("buffer")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError("the document is not JSON in the schema of torch 2.2") from error


def _providers(documents: Iterable[Document]) -> dict[str, PluginRequirement]:
    """Return who provides the wire formats, by suffix, and by distribution what else programs in them need."""
    found: dict[str, PluginRequirement] = {}
    for each in documents:
        found.update(zip([each.suffix], each.providers[:1], strict=False))
        for needed in each.providers[1:]:
            known = found.get(needed.distribution, needed).provides
            provides = sorted({*known, *needed.provides})
            found[needed.distribution] = msgspec.structs.replace(needed, provides=provides)
    return found
