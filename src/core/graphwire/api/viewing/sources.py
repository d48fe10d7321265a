"""The programs that a page shows, of a file or in another form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from graphwire.api.archive import Archive, open
from graphwire.api.argument_checks import programs_by_name
from graphwire.api.error_boundary import source_name
from graphwire.api.options import OpenOptions
from graphwire.api.programs import DEFAULT_METHOD, to_schema
from graphwire.errors import ArchiveError
from graphwire.hooks import Registry, registry_or_installed
from graphwire.schema import Program, WeightReferences
from graphwire.wire import Payloads
from graphwire.wire.archive import Readable

if TYPE_CHECKING:
    from torch.export import ExportedProgram

T = TypeVar("T")

Viewable: TypeAlias = "Readable | Archive | Program | ExportedProgram | Mapping[str, ExportedProgram]"
"""What a page can show: a file, an open archive, schema records, an `ExportedProgram`, or several by name."""


class Shown(msgspec.Struct, frozen=True):
    """One side of a page: the programs of a file, or programs in memory."""

    name: str
    """The name of the file, without its folder."""
    programs: dict[str, tuple[Program, Payloads]]
    archive: Archive | None
    """The file; None for programs in memory."""
    registry: Registry
    is_records: bool = False
    """Whether the program is records alone, which have no weights."""

    @property
    def references(self) -> WeightReferences | None:
        """Where the file says that weights are which it does not contain."""
        return None if self.archive is None else self.archive.weights.references


def paired_methods(a: Shown, b: Shown) -> dict[str, str]:
    """Return the programs of A that are compared, each with that of B. The only programs of two files form a pair."""
    if len(a.programs) == len(b.programs) == 1:
        return dict(zip(a.programs, b.programs, strict=True))
    return {name: name for name in a.programs if name in b.programs}


@contextmanager
def opened(source: Viewable, method: str | None, options: OpenOptions) -> Iterator[Shown]:
    """Yield the programs of a source, and close its file afterwards.

    Args:
        method: the only program to show, of several.

    Raises:
        GraphwireError: as `open`, `Archive.program_of` and `to_schema`.
    """
    registry = registry_or_installed(options.get("registry"))
    if isinstance(source, Archive):
        yield _of_archive(source, method)
    elif isinstance(source, Program):
        yield Shown("records", _chosen({DEFAULT_METHOD: (source, Payloads())}, method), None, registry, True)
    elif isinstance(source, Mapping) or hasattr(source, "graph_module"):
        programs = _chosen(programs_by_name(source, DEFAULT_METHOD), method)
        encoded = {name: to_schema(each, registry=registry) for name, each in programs.items()}
        yield Shown("program", encoded, None, registry)
    else:
        with open(source, **options) as archive:
            yield _of_archive(archive, method)


def _chosen(programs: dict[str, T], method: str | None) -> dict[str, T]:
    if method is None:
        return programs
    if method not in programs:
        names = ", ".join(map(repr, programs))
        raise ArchiveError(f"there is no program {method!r:.80}", remedy=f"There are {names}")
    return {method: programs[method]}


def _of_archive(archive: Archive, method: str | None) -> Shown:
    names = archive.methods if method is None else (archive.method(method),)
    programs = {name: (archive.program_of(name), archive.payloads_of(name)) for name in names}
    return Shown(Path(source_name(archive)).name, programs, archive, archive.registry)
