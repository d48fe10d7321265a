"""What does a page of a program show, and where does it go? `view`, and the facts that only Python can determine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from graphwire import errors, viewer
from graphwire.analysis.diff.renumbering import Renumbering, renumbering
from graphwire.analysis.diff.weights import Compared, PayloadSide, compare_payloads, compared_text
from graphwire.analysis.summary import named_nodes, nested_modules
from graphwire.api.archive import Archive, open
from graphwire.api.error_boundary import source_name
from graphwire.api.options import (
    OpenOptions,
    check_replaces_none,
    options_of,
    programs_by_name,
    public_function,
)
from graphwire.api.programs import DEFAULT_METHOD, to_schema
from graphwire.api.saved_weights import list_weights
from graphwire.evolve.targets import obstacles_by_target
from graphwire.registry.registry import Registry, registry_or_installed
from graphwire.schema import Program, WeightReferences
from graphwire.schema.trees import to_tree
from graphwire.wire.archive.atomic_file import atomic_write, write_all
from graphwire.wire.archive.source import Readable
from graphwire.wire.payloads import Payloads

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# ----------------------- `view`: a page that shows a program, or the difference of two, in the browser or in a notebook
# What makes the page is imported at the first call: `import graphwire` stays fast.


class View:
    """A page that shows a program, or the difference of two. A notebook shows it in place."""

    def __init__(self, title: str, chunks: Sequence[bytes], read: Sequence[Any] = ()) -> None:
        self.title = title
        """The names of the files."""
        self._page = b"".join(chunks)
        self._read = read

    @property
    def html(self) -> str:
        """The page: one file that loads nothing from anywhere."""
        return self._page.decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which is replaced atomically.

        Raises:
            ArchiveError: the path is a file that the page shows, or one with its weights.
            OSError: the path is not writable.
        """
        check_replaces_none(path, self._read)
        with atomic_write(path) as stream:
            write_all(stream, self._page)

    def show(self, *, browser: bool = True) -> Path:
        """Write the page to a temporary file, show it in the browser, and return the file.

        The file is kept, because the browser reads it later.

        Args:
            browser: whether to open the browser.
        """
        import tempfile
        import webbrowser

        folder = Path(tempfile.mkdtemp(prefix="graphwire-"))
        path = folder / "view.html"
        self.save(path)
        if browser:
            webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        title = errors.escaped(errors.shortened(self.title))
        return f"<View of {title}: {len(self._page):,} bytes of HTML; .show() opens it in the browser, .save(path) writes it>"

    def _repr_html_(self) -> str:
        from html import escape

        from graphwire.viewer import inline_frame

        frame = inline_frame(self._page)
        if frame is not None:
            return frame
        told = (
            f"The page of {escape(errors.shortened(self.title))} has {len(self._page) / (1 << 20):,.0f} MiB"
        )
        return f"<p>{told}, too much for a notebook: <code>.save(path)</code> writes it.</p>"


@public_function("source", "other")
@options_of(open)
def view(
    source: Viewable,
    other: Viewable | None = None,
    *,
    overlay: viewer.OverlayValues | None = None,
    output: str | os.PathLike[str] | None = None,
    method: str | None = None,
    weights: bool = False,
    targets: bool = False,
    use_torch: bool | None = None,
    **options: Unpack[OpenOptions],
) -> View:
    """Return a page that shows a program, or the difference of two: `View.show` opens it in the browser, a notebook in place.

    The page is one file. It contains the programs without the elements of their weights, and loads nothing from anywhere. Files
    are read without torch, which only adds the schemas of operators.

    Args:
        source: a file, an open archive, schema records, an `ExportedProgram`, or several by name.
        other: the same, for a program to compare with: the page then shows what changed from `source` to `other`.
        overlay: numbers by which the page colours nodes and modules, such as `{"latency [ms]": {"linear_3": 0.4}}`. A node inside
            a subgraph is `SUBGRAPH/NODE`.
        output: a file to write the page to.
        method: the only program to show, of a file with several.
        weights: whether to read the elements of all weights, for histograms and for how much they changed. Needs torch.
        targets: whether to list the releases of torch that the programs can be written for, which takes longest.
        use_torch: whether to import torch, if it is installed, for the schemas of operators; None: if it is imported already.

    Raises:
        ArchiveError: `output` is one of the files that are read. It stays as it is.
        EncodeError: an overlay names nothing that is there, or has no numbers; or an `ExportedProgram` contains something
            that the schema cannot represent.
        GraphwireError: as `open` and `Archive.program_of`.
    """
    sources = [source] if other is None else [source, other]
    wanted = content_of(
        sources, overlay or {}, method, options, weights=weights, targets=targets, use_torch=use_torch
    )
    made = View(*wanted)
    if output is not None:
        made.save(output)
    return made


# --------------------------------------------------------- the programs that a page shows, of a file or in another form


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
        raise errors.ArchiveError(f"there is no program {method!r:.80}", remedy=f"There are {names}")
    return {method: programs[method]}


def _of_archive(archive: Archive, method: str | None) -> Shown:
    names = archive.methods if method is None else (archive.method(method),)
    programs = {name: _shown_program(archive, name) for name in names}
    return Shown(Path(source_name(archive)).name, programs, archive, archive.registry)


def _shown_program(archive: Archive, name: str) -> tuple[Program, Payloads]:
    """Return a program and its payloads, also if it breaks rules of the format: a page only shows it, and lists the problems."""
    try:
        return archive.program_of(name), archive.payloads_of(name)
    except errors.ValidationError:
        program = archive.unchecked_program_of(name)
    try:
        return program, archive.payloads_of(name)
    except errors.ValidationError:
        return program, Payloads()


# ---------------------------------------------------------------------------- the facts about weights that a page shows
# where they are, what was compared and, on request, how elements are distributed.


def listed_weights(shown: Shown) -> dict[str, viewer.WeightFacts]:
    """Return where the weights of a file are, by name; nothing for programs in memory. Reads no elements."""
    return {
        each.name: viewer.WeightFacts(each.place)
        for _, payloads in shown.programs.values()
        for each in (() if shown.archive is None else list_weights(payloads, shown.references, 0))
    }


def weight_facts(shown: Shown) -> dict[str, viewer.WeightFacts]:
    """Return the distribution of the elements of all weights of a file, by name.

    Raises:
        EncodeError: torch is not installed.
        ChecksumError: the bytes of a weight are not those that were written.
        As `Record.view`.
    """
    _check_torch()
    from graphwire.bridge.weight_elements import element_facts
    from graphwire.wire.archive.manifest import verify_records

    listed = listed_weights(shown)
    found: dict[str, viewer.WeightFacts] = {}
    for _, payloads in shown.programs.values():
        verify_records(payloads.records.values())
        for name, each in element_facts(payloads).items():
            facts = replace(listed.get(name, viewer.WeightFacts()), not_finite=each.not_finite)
            if each.finite:
                histogram = viewer.Histogram(each.low, each.high, each.counts)
                facts = replace(facts, histogram=histogram, mean=each.mean, std=each.std)
            found[name] = facts
    return found


def compared_weights(
    a: Shown, b: Shown, *, elements: bool
) -> tuple[dict[str, dict[str, Compared]], dict[str, Renumbering]]:
    """Return what was compared of the weights and constants of two files, by program (of B) and section, as `diff` does.
    And return which layers have other numbers.

    Args:
        elements: whether to read and compare all elements.

    Raises:
        GraphwireError: as `diff`.
    """
    found, layers = {}, {}
    for name, other in paired_methods(a, b).items():
        before, after = (
            PayloadSide(program, None if shown.is_records else payloads)
            for shown, (program, payloads) in ((a, a.programs[name]), (b, b.programs[other]))
        )
        layers[other] = renumbering(before.program, after.program, (before.checksums, after.checksums))
        before = before._replace(renumbering=layers[other])
        found[other] = compare_payloads(before, after, elements=elements)[0]
    return found, layers


def weight_changes(
    compared: Mapping[str, Mapping[str, Compared]],
) -> dict[str, dict[str, viewer.WeightChange]]:
    """Return the weights that differ, by program and name, with how much if elements were read."""
    return {
        name: {
            weight: viewer.WeightChange(False, change.max_abs, change.cosine, change.norm)
            for section, each in sections.items()
            if section == "weight"
            for weight, change in each.differ.items()
        }
        for name, sections in compared.items()
    }


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise errors.EncodeError(
            "the elements of weights are read with torch, which is not installed",
            remedy="Install torch, or leave weights out",
        )


# --------------------------------------------------------------------------- the facts about one file that a page shows
# its inspection, problems, targets, and the schemas of its operators.


_MOST_OBSTACLES = 3


def facts_of(shown: Shown, *, targets: bool, use_torch: bool | None) -> viewer.FileFacts:
    """Return the facts about one file, without those about the elements of its weights.

    Args:
        targets: whether to list the releases of torch that the programs can be written for.
        use_torch: whether to import torch, if it is installed, for schemas of operators; None: if it is imported already.
    """
    archive = shown.archive
    has_torch = "torch" in sys.modules if use_torch is None else use_torch and find_spec("torch") is not None
    return viewer.FileFacts(
        name=shown.name,
        inspection=None if archive is None else _inspection(archive),
        problems=None
        if archive is None
        else [
            viewer.ProblemFact(each.kind, each.place, each.message)
            for each in archive.problems(payloads=False)
        ],
        targets=_targets(shown) if targets else None,
        methods={
            name: viewer.MethodFacts(_schemas(program, shown.registry) if has_torch else None)
            for name, (program, _) in shown.programs.items()
        },
        weights=listed_weights(shown) or None,
    )


def _inspection(archive: Archive) -> dict[str, Any] | None:
    try:
        tree: dict[str, Any] = msgspec.to_builtins(archive.inspect())
    except errors.ValidationError:
        return None  # the problems say why
    tree["records"] = len(tree["records"])
    for method in tree["methods"]:
        del method["summary"]
    return tree


def _targets(shown: Shown) -> list[viewer.TargetFact]:
    found: dict[str, list[errors.Obstacle]] = {}
    for program, _ in shown.programs.values():
        for target, obstacles in obstacles_by_target(to_tree(program)).items():
            if target.startswith("torch-"):
                found.setdefault(target, []).extend(obstacles)
    return [viewer.TargetFact(target, not each, _why_not(each)) for target, each in found.items()]


def _why_not(obstacles: list[errors.Obstacle]) -> str:
    texts = list(
        dict.fromkeys(
            f"{each.construct} ({each.node})" if each.node else each.construct for each in obstacles
        )
    )
    more = f" and {len(texts) - _MOST_OBSTACLES} more" if len(texts) > _MOST_OBSTACLES else ""
    return "; ".join(texts[:_MOST_OBSTACLES]) + more


def _schemas(program: Program, registry: Registry) -> dict[str, str]:
    from graphwire.bridge.graph.operators import operator_schemas

    return operator_schemas({node.target for _, node, _ in named_nodes(program)}, registry)


# --------------------------------------------------- collects what a page shows: its programs, and the facts about them


_TIMES = ("before", "after")
"""What tells two files of one name apart."""


def _overlay_names(program: Program) -> Iterator[str]:
    """Yield what an overlay can have numbers for: nodes, and modules with those around them."""
    yield from (name for name, _, _ in named_nodes(program))
    for module in nested_modules(program, {}):
        parts = module.name.split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def content_of(
    sources: Sequence[Viewable],
    overlay: viewer.OverlayValues,
    method: str | None,
    options: OpenOptions,
    *,
    weights: bool,
    targets: bool,
    use_torch: bool | None,
) -> tuple[str, list[bytes], list[Any]]:
    """Return the title of a page, the page in chunks, and the files that it was made from. Arguments are those of `view`.

    Args:
        sources: one program or, for a difference, two.
    """
    with ExitStack() as stack:
        sides = [stack.enter_context(opened(each, method, options)) for each in sources]
        if len(sides) == 2 and sides[0].name == sides[1].name:
            sides = [
                replace(each, name=f"{each.name} ({when})") for each, when in zip(sides, _TIMES, strict=True)
            ]
        files = [facts_of(each, targets=targets, use_torch=use_torch) for each in sides]
        compared, layers = (
            compared_weights(sides[0], sides[1], elements=weights) if len(sides) == 2 else ({}, {})
        )
        if weights:
            files = [
                replace(each, weights=weight_facts(side)) for each, side in zip(files, sides, strict=True)
            ]
        names = [
            {name for program, _ in side.programs.values() for name in _overlay_names(program)}
            for side in sides
        ]
        facts = viewer.Facts(
            files=files,
            weight_changes=weight_changes(compared) if len(sides) == 2 else None,
            compared={name: compared_text(each) for name, each in compared.items()},
            layers=layers,
            overlays=viewer.named_overlays(overlay, names, method),
        )
        archives = [
            viewer.embedded(each.programs, each.registry.wire_format("json"), each.references)
            for each in sides
        ]
        files_of = (each.archive for each in sides if each.archive is not None)
        read = [file for archive in files_of for file in (archive.file, *archive.weight_files())]
    return " and ".join(each.name for each in sides), viewer.page_chunks(facts, archives), read
