"""Does a reader keep the rules of the format? What graphwire finds in a file, and the suite that other readers run."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from graphwire import errors
from graphwire.analysis.canonical.content_hashing import content_hash
from graphwire.analysis.neutral import canonical_json, digest_of_elements, neutral_record, pairs, tagged
from graphwire.api.archive import Archive, open
from graphwire.api.options import public_function
from graphwire.process import TYPE_ANALYSIS, Threads
from graphwire.registry.registry import default_registry
from graphwire.schema import PayloadMeta, SchemaVersion, WeightReferences
from graphwire.wire.archive.manifest import MANIFEST
from graphwire.wire.archive.source import RemoteFile, UniversalPath, located, open_source
from graphwire.wire.document import read_document
from graphwire.wire.limits import DEFAULT_LIMITS
from graphwire.wire.package_reader import NO_MANIFEST, PROVIDERS
from graphwire.wire.payloads import CONSTANTS, SAMPLE_INPUTS, WEIGHTS, Payloads
from graphwire.wire.weights.reference_table import REFERENCES

# ---- read a whole file, check all of it, and return what a reader finds in it as neutral JSON (`docs/spec/neutral.md`)


_BARE_TREES: Final = frozenset({".json", ".msgpack", ".cbor"})
_ALLOWED: Final = frozenset({"edited", "executable", "no-weights", "unowned", "unread"})
"""The kinds of problems that a valid file may have: weights that were edited before torch wrote them, extra files with code,
weights that whoever loads it gives, bytes between records, and pickles."""


@public_function("file")
def neutral(file: str | os.PathLike[str] | UniversalPath) -> bytes:
    """Return the canonical neutral JSON of a file.

    Args:
        file: the path or URL of an archive, or of a document that ends with `.json`, `.msgpack` or `.cbor`: a bare tree.

    Raises:
        ValidationError: the file violates rules of the format; the error lists all of them.
        GraphwireError: the file cannot be read.
    """
    place: Any = located(file)
    name = place.name if isinstance(place, RemoteFile) else os.fspath(place)
    if (suffix := Path(name).suffix) in _BARE_TREES:
        wire_format = default_registry().wire_format_of_suffix(suffix)
        with closing(open_source(place, DEFAULT_LIMITS)) as source:
            data = source.read_at(0, source.size)
        return canonical_json({"tree": tagged(read_document(data, wire_format, DEFAULT_LIMITS))})
    with open(place) as archive:
        problems = [each for each in archive.problems() if not _is_allowed(each)]
        if problems:
            raise errors.ValidationError(problems)
        return canonical_json(_archive_form(archive))


def _is_allowed(problem: errors.Problem) -> bool:
    return problem == NO_MANIFEST or problem.kind in _ALLOWED


def _archive_form(archive: Archive) -> dict[str, Any]:
    programs = {name: archive.program_of(name) for name in archive.methods}
    references = archive.weights.references
    return {
        "archive": _record_forms(archive),
        "programs": pairs((name, _program_form(archive, name)) for name in programs),
        "payloads": pairs((name, _payload_forms(archive, name)) for name in programs),
        "hash": pairs((name, content_hash(program)) for name, program in programs.items()),
    } | ({} if references is None else {"references": neutral_record(references)})


def _record_forms(archive: Archive) -> dict[str, Any]:
    """Return what the archive consists of, except what depends on the wire format."""
    excluded = {*archive.documents, MANIFEST, PROVIDERS}
    records = [
        {"name": name, "nbytes": tagged(archive.record_size(name)), "sha256": digest}
        for name, digest in archive.record_digests().items()
        if name not in excluded
    ]
    return {"layout": archive.layout.partition(" ")[0], "manifest": archive.has_manifest, "records": records}


def _program_form(archive: Archive, name: str) -> Any:
    """Return a program with the schema version of its document."""
    major, _, minor = archive.report(name).schema_version.partition(".")
    version = SchemaVersion(int(major), int(minor or 0))
    program = msgspec.structs.replace(archive.program_of(name), schema_version=version)
    if archive.payloads_of(name).examples is not None:  # from a pickle, which other readers need not read
        program.example_inputs = None
    return neutral_record(program)


# ------------------------------------------------------------------------------------------------------------- payloads


def _payload_forms(archive: Archive, name: str) -> dict[str, Any]:
    payloads = archive.payloads_of(name)
    samples = {} if payloads.examples is not None else payloads.sample_inputs
    return {
        kind: pairs(
            (fqn, _payload_form(meta, folder, payloads, archive))
            for fqn, meta in table.items()
            if (folder, fqn) not in payloads.unlisted
        )
        for kind, folder, table in (
            ("weights", WEIGHTS, payloads.weights),
            ("constants", CONSTANTS, payloads.constants),
            ("sample_inputs", SAMPLE_INPUTS, samples),
        )
    }


def _payload_form(meta: PayloadMeta, folder: str, payloads: Payloads, archive: Archive) -> dict[str, Any]:
    name, references = folder + meta.path_name, archive.weights.references
    if meta.shared is not None and name not in archive.names:
        name = meta.shared  # the constant has no copy of its own
    where = "nowhere" if meta.placement is not None else _where(name, references)
    form = neutral_record(meta) | {"where": where}
    record = payloads.records.get(name)
    is_here = where in ("file", "store") and not meta.use_pickle
    if is_here and record is not None and meta.tensor_meta is not None:
        form["sha256"] = digest_of_elements(record.view(), meta.tensor_meta)
    return form


def _where(name: str, references: WeightReferences | None) -> str:
    """Return where a record is: in the file, in a store, or with whoever loads the file; `ranks` if that depends on the rank."""
    if references is None:
        return "file"
    if any(name in table for table in references.ranks):
        return "ranks"
    reference = references.records.get(name)
    if reference is None:
        return "file"
    return "store" if reference.regions else "caller"


_OF_WEIGHTS: Final = frozenset({"store", "changed", "missing", "size", "tensor", "weights"})
"""The kinds of problems of references."""
_OF_ARCHIVES: Final = frozenset({"archive", "manifest", "record"})
_WEIGHTS_PLACE: Final = re.compile(
    r"data/|weights$|.*_config\.json|[^ /]+: |.* record '(data/|serialized_(state|constants|example))"
)


def refusal(error: errors.GraphwireError) -> str:
    """Return the class of a refusal (NEU-20): `archive`, `document` or `weights`."""
    if isinstance(error, errors.WeightsError) or REFERENCES in error.place:
        return "weights"
    if not isinstance(error, errors.ValidationError):
        of_documents = isinstance(error, errors.SchemaError | errors.FormatError | errors.ExpressionError)
        return "document" if of_documents else "archive"
    place, kind, _ = error.problems[0]
    if kind in _OF_ARCHIVES:
        return "archive"
    return "weights" if kind in _OF_WEIGHTS or _WEIGHTS_PLACE.match(place) else "document"


# ------------------------------------------------------------ comparison of what a reader prints with what it must find


OUTPUT_PARTS: Final = {
    "archive": "archive",
    "documents": "programs",
    "payloads": "payloads",
    "references": "references",
    "hash": "hash",
    "trees": "tree",
}
"""The parts that are keys of the output, and the key of each."""
CASE_PARTS: Final = ("json", "msgpack", "cbor", "optional", "schema-8", "torch-save", "older")
"""The parts that are no keys: wire formats, fields that a reader may ignore, and old files."""
PARTS: Final = (*OUTPUT_PARTS, *CASE_PARTS)
"""All parts that a reader can claim."""

_MISSING: Final = object()


def first_difference(expected: Any, found: Any, parts: Collection[str]) -> str:
    """Return the place and kind of the first difference of two outputs, or an empty text.

    Args:
        expected: neutral JSON, parsed.
        found: what the reader printed, parsed.
        parts: the parts that the reader claims. Others are not compared.
    """
    keys = [key for part, key in OUTPUT_PARTS.items() if part in parts]
    if not isinstance(found, dict):
        return f"$: an object is expected, not {shown(found)}"
    rest: list[tuple[str, Any, Any]] = [
        (f"$.{key}", expected.get(key, _MISSING), found.get(key, _MISSING)) for key in reversed(keys)
    ]
    with_optional = "optional" in parts
    while rest:
        place, wanted, given = rest.pop()
        if isinstance(wanted, dict) and isinstance(given, dict):
            if (numbers := _floats(wanted, given)) is not None:
                if not _same_float(*numbers):
                    return f"{place}: {shown(wanted)} is expected, not {shown(given)}"
                continue
            names = [*wanted, *(name for name in given if name not in wanted)]
            rest.extend(
                (f"{place}.{name}", wanted.get(name, _MISSING), given.get(name, _MISSING))
                for name in reversed(names)
                if with_optional or name != "optional"
            )
        elif isinstance(wanted, list) and isinstance(given, list):
            if len(wanted) != len(given):
                return (
                    f"{place}: {len(wanted)} items are expected, not {len(given)}{_first_item(wanted, given)}"
                )
            rest.extend((f"{place}[{at}]", wanted[at], given[at]) for at in reversed(range(len(wanted))))
        elif type(wanted) is not type(given) or wanted != given:
            return f"{place}: {shown(wanted)} is expected, not {shown(given)}"
    return ""


def _first_item(wanted: list[Any], given: list[Any]) -> str:
    """Return where two lists of different lengths first differ."""
    same = 0
    while same < min(len(wanted), len(given)) and wanted[same] == given[same]:
        same += 1
    longer = wanted if len(wanted) > len(given) else given
    return f"; from item {same} on: {shown(longer[same])}"


def _floats(wanted: dict[str, Any], given: dict[str, Any]) -> tuple[str, str] | None:
    match wanted, given:
        case {"float": str(one), **more}, {"float": str(other), **others} if not more and not others:
            return one, other
    return None


def _same_float(wanted: str, given: str) -> bool:
    try:
        one, other = float.fromhex(wanted), float.fromhex(given)
    except (ValueError, OverflowError):
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def shown(value: Any) -> str:
    """Return a value as short text."""
    if value is _MISSING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


# ----------------------------------------------------------------------- runs another reader over the conformance suite
# each file to one process of a command, its output compared.


INDEX = "index.json"
"""The list of the suite's files."""
REFUSED = 1
"""The exit code of a reader that refuses a file."""


class SuiteCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of the suite."""

    file: str
    """Its path in the suite; of a vector, its name with the wire format as suffix."""
    valid: bool
    about: str
    needs: tuple[str, ...]
    """The parts that a reader must claim to be given the file."""
    rules: tuple[str, ...] = ()
    """The rules that a valid file tries, or those that a reader may name when it refuses an invalid one."""
    hex: str | None = None
    """The bytes of a vector, which has no file of its own."""
    tree: Any = None
    """What a reader finds in a valid vector."""
    classes: tuple[str, ...] = ()
    """The classes that a reader may name when it refuses an invalid file."""


class CaseResult(msgspec.Struct, frozen=True):
    """What a reader made of one file."""

    case: SuiteCase
    problem: str
    """Empty if the reader is right."""
    seconds: float


class _Index(msgspec.Struct):
    version: int
    cases: list[SuiteCase]


class _Vectors(msgspec.Struct):
    format: str
    vectors: list[dict[str, Any]]


with TYPE_ANALYSIS:
    _read_index = msgspec.json.Decoder(_Index).decode
    _read_vectors = msgspec.json.Decoder(_Vectors).decode


def suite_cases(folder: Path) -> list[SuiteCase]:
    """Return every case of a suite: its files, and the trees in `trees/`.

    Raises:
        ArchiveError: the folder is not a suite.
    """
    try:
        cases = _read_index((folder / INDEX).read_bytes()).cases
        for path in sorted((folder / "trees").glob("*.json")):
            table = _read_vectors(path.read_bytes())
            cases += [_vector(table.format, row) for row in table.vectors]
    except errors.unless_interrupted(OSError, msgspec.MsgspecError, KeyError) as error:
        raise errors.ArchiveError(
            f"{str(folder)!r} is not a conformance suite ({error})",
            remedy="Pass --suite with the folder `conformance` of graphwire's sources",
        ) from error
    return cases


def _vector(wire_format: str, row: dict[str, Any]) -> SuiteCase:
    return SuiteCase(
        f"trees/{row['name']}.{wire_format}",
        row["valid"],
        row["name"].replace("_", " "),
        ("trees", wire_format),
        tuple(row["rules"]),
        row["hex"],
        row.get("tree"),
    )


def run_suite(
    folder: Path,
    command: Sequence[str],
    *,
    parts: Collection[str] = PARTS,
    only: str = "",
    jobs: int = 1,
    timeout: float = 60.0,
) -> list[CaseResult]:
    """Give each file of a suite to a reader, and compare what it prints.

    Args:
        folder: the suite.
        command: the reader's command line, to which the path of a file is added.
        parts: the parts that the reader claims.
        only: a text that the names of files contain; by default all files.
        jobs: how many readers run at the same time.
        timeout: the seconds that a reader may take for a file.

    Raises:
        ArchiveError: the folder is not a suite.
    """
    chosen = [case for case in suite_cases(folder) if only in case.file and set(case.needs) <= set(parts)]
    with tempfile.TemporaryDirectory() as scratch, Threads(jobs, "graphwire-readers") as threads:
        runs = [
            threads.submit(_run, folder, Path(scratch, str(number)), case, command, parts, timeout)
            for number, case in enumerate(chosen)
        ]
        return [run.result() for run in runs]


def _run(
    folder: Path,
    scratch: Path,
    case: SuiteCase,
    command: Sequence[str],
    parts: Collection[str],
    timeout: float,
) -> CaseResult:
    path = folder / case.file
    if case.hex is not None:
        path = scratch.with_suffix(path.suffix)
        path.write_bytes(bytes.fromhex(case.hex))
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [*command, os.fspath(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CaseResult(case, f"the reader takes more than {timeout:g} seconds", timeout)
    seconds = time.monotonic() - started
    return CaseResult(case, _problem(folder, case, ended, parts), seconds)


def _problem(
    folder: Path, case: SuiteCase, ended: subprocess.CompletedProcess[bytes], parts: Collection[str]
) -> str:
    """Return what is wrong with a reader's output, or an empty text."""
    code = ended.returncode
    if code not in (0, REFUSED):
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"the reader ends with the code {code}: {last:.200}"
    if not case.valid:
        return _wrong_refusal(case, ended.stdout) if code == REFUSED else "the reader accepts the file"
    if code == REFUSED:
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"the reader refuses the file: {last:.300}"
    try:
        found = json.loads(ended.stdout)
    except (ValueError, RecursionError) as error:
        return f"the reader does not print JSON ({error}): {shown(ended.stdout[:80])}"
    if case.hex is not None:
        return first_difference({"tree": case.tree}, found, parts)
    expected = json.loads((folder / case.file).with_suffix(".expected.json").read_bytes())
    return first_difference(expected, found, parts)


def _wrong_refusal(case: SuiteCase, stdout: bytes) -> str:
    """Return what is wrong with the reason that a reader prints, or an empty text: it need not print one."""
    try:
        found = json.loads(stdout)
    except (ValueError, RecursionError):
        return ""
    reason = found.get("refused") if isinstance(found, dict) else None
    allowed = (*case.rules, *case.classes)
    if reason is None or reason in allowed or not case.classes:
        return ""
    return f"the reader refuses the file because of {shown(reason)}, which is none of {', '.join(allowed)}"


def rule_counts(results: Sequence[CaseResult]) -> dict[str, tuple[int, int]]:
    """Return, for each rule in the order of its number, how many cases were passed and failed."""
    counts: dict[str, list[int]] = {}
    for result in results:
        for rule in result.case.rules:
            counts.setdefault(rule, [0, 0])[bool(result.problem)] += 1
    return {rule: (counts[rule][0], counts[rule][1]) for rule in sorted(counts, key=_numbered)}


def _numbered(rule: str) -> tuple[str, int]:
    name, _, number = rule.partition("-")
    return name, int(number) if re.fullmatch("[0-9]+", number) else 0


def failures(results: Sequence[CaseResult]) -> Iterator[CaseResult]:
    """Yield the results of the files that the reader gets wrong."""
    return (result for result in results if result.problem)
