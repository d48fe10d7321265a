"""Rows of the tables `programs` and `weights`, from the facts that `graphwire inspect --json` prints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

import graphwire
from graphwire.analysis.load_report import Disclosure
from graphwire.analysis.summary import MethodInspection
from graphwire.api.saved_weights import list_weights
from graphwire.errors import GraphwireError
from graphwire.schema import WeightReferences
from graphwire.wire.archive.digests import CHUNK_BYTES
from graphwire.wire.payloads import WEIGHTS
from graphwire_fleet.work import Row


def program_row(method: MethodInspection, hash: str | None, contains: Sequence[Disclosure]) -> Row:
    """Return the row of a program."""
    summary, report = method.summary, method.report
    held = {"parameter": summary.parameters, "buffer": summary.buffers, "constant": summary.constants}
    sizes = {
        name: number
        for kind, each in held.items()
        for name, number in (
            (f"{kind}s", each.count),
            (f"{kind}_elements", each.elements),
            (f"{kind}_bytes", each.bytes),
        )
    }
    plain = msgspec.to_builtins
    return {
        "hash": hash,
        "format": method.format,
        "document_bytes": method.program_bytes,
        "stored_bytes": method.stored_bytes,
        "producer": report.producer,
        "torch_version": summary.torch_version,
        "schema_version": report.schema_version,
        "readable_from": report.readable_from,
        "opsets": list(summary.opset_versions.items()),
        "dialects": summary.dialects,
        "requires": summary.features,
        "plugins": plain(summary.plugins),
        "interface": str(summary.interface),
        "inputs": plain(summary.inputs),
        "outputs": plain(summary.outputs),
        "symbols": [
            {"name": each.name, "label": each.label, "range": each.range} for each in summary.symbols
        ],
        "guards": summary.guards,
        "nodes": summary.nodes,
        "subgraphs": summary.subgraphs,
        "values": summary.values,
        "operators": list(summary.operators.items()),
        **sizes,
        "modules": plain(summary.modules),
        "steps": plain(report.steps),
        "derived": report.derived,
        "absent": report.absent,
        "dropped": [{"what": each.what, "reason": each.reason} for each in report.dropped],
        "contains": [each.what for each in contains],
    }


def content_hash(archive: graphwire.Archive, method: str) -> str | None:
    """Return the content hash of a program; None if it has none, as one that is nested too deeply."""
    try:
        return graphwire.content_hash(archive, method=method)
    except GraphwireError:
        return None


def weight_rows(archive: graphwire.Archive, method: str, *, digests: bool = False) -> Iterator[Row]:
    """Yield a row for each weight of a program, in the order of its state dict.

    Args:
        archive: the file.
        method: the name of the program.
        digests: whether to read the weights, and compute the digests that the file does not list.
    """
    payloads = archive.payloads_of(method)
    references = archive.weights.references
    computed: dict[str, str] = {}
    for each in list_weights(payloads, references, archive.weights.divided):
        meta = payloads.weights.get(each.name)
        record = "" if meta is None else WEIGHTS + meta.path_name
        digest = _listed_digest(archive, references, record)
        held = payloads.records.get(record)
        if digest is None and digests and held is not None:
            if record not in computed:
                computed[record] = f"sha256:{hashlib.sha256(held.view()).hexdigest()}"
            digest = computed[record]
        yield {
            "name": each.name,
            "dtype": each.dtype,
            "shape": each.shape,
            "bytes": each.nbytes,
            "place": each.place,
            "tied_to": each.tied_to,
            "digest": digest,
            "crc": archive.listed_crc(record),
        }


def _listed_digest(
    archive: graphwire.Archive, references: WeightReferences | None, record: str
) -> str | None:
    """Return the digest of a record that the file lists; None if it lists none, or if looking would ask a server again."""
    outside = None if references is None else references.records.get(record)
    if outside is not None:
        kind = "sha256" if outside.nbytes <= CHUNK_BYTES else "chunks"
        return f"{kind}:{outside.sha256}" if outside.sha256 else None
    sha256 = None if archive.is_remote else archive.listed_digest(record)
    return None if sha256 is None else f"sha256:{sha256}"
