"""Where does the caller want the weights of a program, and where are those that its file lacks?"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.errors import ArchiveError, EncodeError, GraphwireError, Ignored, Problem, WeightsError
from graphwire.registry.registry import Registry
from graphwire.schema import PluginRequirement, RecordReference, StoreReference, WeightReferences
from graphwire.wire.archive.source import Closing, RemoteFile, UniversalPath, located, type_text, url_of
from graphwire.wire.limits import DEFAULT_LIMITS, Limits
from graphwire.wire.payloads import CONSTANTS, WEIGHTS, Payloads

if TYPE_CHECKING:
    from pathlib import Path

    from graphwire.wire.archive.manifest import RecordCache
    from graphwire.wire.weights.external_record import ExternalRecord
    from graphwire.wire.weights.folder import Folder, RemoteFolder
    from graphwire.wire.weights.matching import WeightRecord
    from graphwire.wire.weights.opened_stores import OpenedStores, StorePlace


# --------------------------------------- how callers say where weights are: `Checkpoint`, `Blobs`, and the two defaults


class Default(Enum):
    """The default places of weights."""

    IN_FILE = "in the program's file"
    AS_SAVED = "where the file states"

    def __repr__(self) -> str:
        return f"graphwire.{self.name}"


IN_FILE: Final = Default.IN_FILE
"""`save` and `convert` write the weights into the program's file."""
AS_SAVED: Final = Default.AS_SAVED
"""`load`, `open` and `convert` take the weights from where the file states: its own records, or the files it refers to."""


_ARGUMENTS: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    (
        "names",
        lambda given: given is None or callable(given) or isinstance(given, Mapping),
        "a mapping of names in the program to stored names, or a function",
    ),
    ("shard", lambda given: isinstance(given, Mapping), "a mapping of stored names to dimensions"),
    ("kind", lambda given: given is None or isinstance(given, str), "the name of a weight store"),
)
"""Arguments of `Checkpoint`: whether a value is of a right type, and which types are."""


class Checkpoint(msgspec.Struct, frozen=True):
    """Weights that exist already: a file or folder of a weight store, such as safetensors shards with their index.

    `save` compares them with the program's weights and writes a reference. `load` takes weights from it.
    """

    location: str | os.PathLike[str] | UniversalPath | RemoteFile
    """The file, index file or folder, or a URL. The caller names it, so it may consist of symbolic links, as a hub cache does."""
    names: Mapping[str, Any] | Callable[[str], Any] | None = None
    """How weights are named there: a mapping from names in the program, or a function. A value is a name, or `Piece`s of the
    weight. By default names are equal, apart from one common prefix, which a warning reports."""
    check: Literal["bytes", "names"] = "bytes"
    """What `save` compares. "bytes" reads everything once, and records digests. "names" compares names, types and shapes, and
    reads no elements; `verify` then has nothing to compare."""
    rest: Literal["error", "file"] = "error"
    """What `save` does with weights that are not there, or differ: an error that lists them, or the program's file keeps them."""
    ranks: int | None = None
    """For a tensor-parallel program: between how many ranks the stored tensors of `shard` are divided. None for any other."""
    rank: int = 0
    """The rank whose weights the saved program has; in a load, the rank whose weights to read, for which `load(rank=)` is the
    shorter spelling."""
    shard: Mapping[str, int] = {}
    """For each pattern of stored names (`*` matches anything) the dimension that ranks divide equally."""
    kind: str | None = None
    """The name of the weight store. None finds it by the location."""

    def __post_init__(self) -> None:
        _check_location(self)
        for option, is_good, wanted in _ARGUMENTS:
            if not is_good(value := getattr(self, option)):
                raise ArchiveError(f"{option}= of Checkpoint is {type_text(value)}", remedy=f"Pass {wanted}")
        for name, allowed in (("check", ("bytes", "names")), ("rest", ("error", "file"))):
            if getattr(self, name) not in allowed:
                raise ArchiveError(
                    f"{name}={getattr(self, name)!r:.80} is not a choice of Checkpoint",
                    remedy=f"Choose {' or '.join(map(repr, allowed))}",
                )
        ranks = check_rank("ranks", self.ranks)
        if check_rank("rank", self.rank) is None:
            raise ArchiveError(
                "Checkpoint(…, rank=None) names no rank", remedy="Leave rank= out, or pass an integer"
            )
        rank = self.rank
        if ranks is None:
            if rank or self.shard:
                raise ArchiveError(
                    f"{'shard' if self.shard else 'rank'}= is of weights that are divided between ranks, and ranks= is not given",
                    remedy="Pass ranks=, the number of ranks, such as torch.distributed.get_world_size()",
                )
            return
        if ranks < 1 or not 0 <= rank < ranks:
            raise ArchiveError(
                f"rank {rank} is none of {ranks} ranks",
                remedy=f"Pass rank= from 0 to {ranks - 1}" if ranks > 0 else "Pass ranks= of 1 or more",
            )
        for pattern, dimension in dict[Any, Any](self.shard).items():
            if not isinstance(pattern, str) or type(dimension) is not int:
                raise ArchiveError(
                    f"shard= has {dimension!r:.80} for {pattern!r:.200}",
                    remedy='It has a dimension for each pattern of stored names, such as {"*.up.weight": 0}',
                )
        if ranks > 1 and not self.shard:
            raise ArchiveError(
                f"ranks={ranks}, and shard= divides nothing between them",
                remedy='Pass shard=, such as {"*.up.weight": 0}, or leave ranks= out if all ranks have equal weights',
            )
        if ranks > 1 and self.rest == "file":
            raise ArchiveError(
                'the file cannot keep weights of several ranks (rest="file"): nobody knows those of the others',
                remedy="Leave rest= out, and divide or name all weights with shard= and names=",
            )


class Blobs(msgspec.Struct, frozen=True):
    """A content-addressed folder: each storage is a file named by its digest, written once for any number of programs."""

    location: str | os.PathLike[str] | UniversalPath | RemoteFile
    """The folder, or its URL."""

    def __post_init__(self) -> None:
        _check_location(self)


def _check_location(choice: Checkpoint | Blobs) -> None:
    location: object = choice.location
    if isinstance(location, (str, os.PathLike, RemoteFile)) or url_of(location) is not None:
        return
    raise ArchiveError(
        f"location= of {type(choice).__name__} is {type_text(location)}",
        remedy="Pass a path or a URL",
    )


WeightChoice: TypeAlias = str | os.PathLike[str] | UniversalPath | RemoteFile | Checkpoint | Blobs
"""Where weights are. A path or URL is that of a store: `save` writes it, `load` reads it."""
SaveWeights: TypeAlias = WeightChoice | Default | None
LoadWeights: TypeAlias = WeightChoice | Mapping[str, Any] | Default | None


STORE_CHOICES: Final = (str, os.PathLike, RemoteFile, Checkpoint, Blobs)
"""The types of choices that name a store, after `located_weights`."""


def located_weights(weights: Any, options: Mapping[str, Any] | None) -> Any:
    """Return the option `weights` with `RemoteFile`s in place of URLs.

    Args:
        options: the options of their file systems.
    """
    if isinstance(weights, (Checkpoint, Blobs)):
        return replace(weights, location=located(weights.location, options))
    return weights if isinstance(weights, Default) else located(weights, options)


def check_weights_choice(weights: object, *, tensors: bool) -> None:
    """Check the option `weights`.

    Args:
        tensors: whether it may be a mapping of names to tensors.

    Raises:
        ArchiveError: it is something else.
    """
    if weights is None or isinstance(weights, (Default, *STORE_CHOICES)):
        return
    if tensors and isinstance(weights, Mapping):
        return
    also = ", a mapping of names to tensors" if tensors else ""
    raise ArchiveError(
        f"weights= is {type_text(weights)}", remedy=f"Pass a path, a Checkpoint, Blobs{also}, or None"
    )


def check_target_weights(target: str | None, weights: object) -> None:
    """Check where weights are written, for a target.

    Raises:
        ArchiveError: it is no place of weights.
        EncodeError: no torch release reads weights outside of the file.
    """
    check_weights_choice(weights, tensors=False)
    if target is not None and not isinstance(weights, Default):
        raise EncodeError(
            f"{target} reads weights inside the file only", remedy="Leave weights= out, or target="
        )


_NONE = "the file was saved without weights"
_GIVE = "Pass weights=: a file or folder of weights, or a mapping of names to tensors; weights=None loads the graph alone"


class AttachedWeights(Closing):
    """The weights of an open file that are not in it.

    Args:
        references: where the file states that they are; None if all weights are in the file.
        file: the file, as the caller gave it. Its folder is where references start.
        choice: where the caller says that the weights are.
        rank: the rank of a program that is divided between ranks; None for any other.
        limits: bound what is read, and how often a server is asked.
        cache: keeps the weights of remote stores that the file names.

    Raises:
        ArchiveError: there is no such rank.
    """

    def __init__(
        self,
        references: WeightReferences | None,
        file: object,
        choice: LoadWeights,
        rank: int | None,
        registry: Registry,
        limits: Limits = DEFAULT_LIMITS,
        cache: RecordCache | None = None,
    ) -> None:
        self.references = references
        self._choice = choice
        self.is_given = isinstance(choice, STORE_CHOICES)
        """Whether the caller names a store that replaces the weights."""
        self._rank = check_rank("rank", rank)
        if isinstance(choice, Checkpoint) and choice.ranks is not None and rank is not None:
            self._choice = replace(choice, rank=rank)
            rank = rank if references is not None and references.ranks else None
        self._registry = registry
        self._table = dict(records_of_rank(references or WeightReferences(), rank))
        self._file = file
        if references is not None and isinstance(file, (str, os.PathLike)):  # nothing else needs its folder
            from pathlib import Path  # here: most files have their weights, and its import takes long

            self._file = Path(os.fsdecode(file)).absolute()
        self._limits = limits
        self._cache = cache
        self._stores: list[OpenedStores] = []
        self._saved: OpenedStores | None = None

    @cached_property
    def _folder(self) -> Folder | RemoteFolder | None:
        """The folder of the file; None if the file has none."""
        from pathlib import Path

        from graphwire.wire.weights.folder import Folder, RemoteFolder

        if isinstance(self._file, RemoteFile):
            return RemoteFolder(self._file, self._limits.remote)
        return Folder(self._file.parent) if isinstance(self._file, Path) else None

    @property
    def divided(self) -> int:
        """The number of ranks that weights are divided between if none was chosen; 0 if they can be read."""
        ranks = 0 if self.references is None else len(self.references.ranks)
        return ranks if ranks > 1 and self._rank is None else 0

    def attach(self, payloads: Payloads, *, copied: bool) -> None:
        """Add the records that a program needs and its file lacks to its payloads.

        Raises:
            WeightsError: weights are not where the caller says, or have other types or shapes; the error lists all.
            ArchiveError: no store recognizes the place.
        """
        wanted = {WEIGHTS + meta.path_name for meta in payloads.weights.values()}
        wanted |= {meta.shared for meta in payloads.constants.values() if meta.shared is not None}
        table = {name: each for name, each in self._table.items() if name in wanted}
        if not table and not self.is_given:
            return
        records = {**payloads.records}
        stores = self._saved_stores() if not self.is_given else None
        from graphwire.wire.weights.external_record import ExternalRecord

        if stores is not None:
            records |= {
                name: ExternalRecord(stores, name, each, copied=copied) for name, each in table.items()
            }
        else:
            sized = self._saved_stores()
            records |= {name: ExternalRecord(sized, name, each) for name, each in table.items()}
            payloads.records = records
            records |= self._given(payloads, table, copied)
        # A file in which a weight is elsewhere lacks the copy that a constant has of it.
        for meta in payloads.constants.values():
            if meta.shared is not None and meta.shared in records:
                records.setdefault(CONSTANTS + meta.path_name, records[meta.shared])
        payloads.records = records

    def check(self, payloads: Payloads) -> None:
        """Check that the weights are there, without reading elements; those of remote files are fetched ahead from now on.

        Raises:
            MissingPluginError: no plugin in force provides a store that they are in.
            WeightsError: files or tensors are missing or changed; the error lists all of them.
        """
        records = self._external(payloads)
        if problems := self._problems(records):
            from graphwire.wire.weights.matching import RANK_REMEDY

            remedies = {"no-weights": _GIVE, "rank": RANK_REMEDY}
            raise WeightsError(problems, remedy=remedies.get(problems[0].kind, _FETCH))
        for record in records:
            record.expect()

    def _problems(self, records: list[ExternalRecord]) -> list[Problem]:
        """Return what is wrong with the files of records, without reading elements."""
        empty = [each for each in records if each.nbytes and not each.reference.regions]
        if empty:
            return [Problem(WEIGHTS.rstrip("/"), "no-weights", f"{_NONE} ({len(empty)} are missing)")]
        found: list[Problem] = []
        for stores in dict.fromkeys(each.stores for each in records):
            of_stores = [each.reference for each in records if each.stores is stores]
            found += stores.problems(of_stores)
        return found

    def damage(self, payloads: Payloads) -> list[GraphwireError]:
        """Read all external weights, and return an error for each record whose bytes are not those that were saved."""
        return _damage(self._external(payloads))

    def problems_of_all(self, payloads: Payloads) -> list[Problem]:
        """Return what is wrong with a program's weights, of every rank if none was chosen. Reads all elements."""
        records = self._external(payloads)
        if self.divided and records and self.references is not None:
            from graphwire.wire.weights.external_record import ExternalRecord

            names = {name for name, each in payloads.records.items() if isinstance(each, ExternalRecord)}
            saved = records[0].stores
            stores = self._opened(self.references, saved.places, checked=saved.checked)
            records = [
                ExternalRecord(stores, name, each)
                for name, each in self.references.records.items()
                if name in names
            ] + [
                ExternalRecord(stores, f"{name} of rank {rank}", each)
                for rank, table in enumerate(self.references.ranks)
                for name, each in table.items()
                if name in names
            ]
        if problems := self._problems(records):
            return problems
        return [Problem(each.place, "weights", each.problem) for each in _damage(records)]

    def references_from(self, file: object) -> WeightReferences | None:
        """Return the references as a file in another folder has them: all, or those of the chosen rank.

        Raises:
            ArchiveError: a store is not below that folder.
        """
        if self.references is None or self._folder is None:
            return self.references
        from graphwire.api.saved_weights import folder_of, relative_folder

        here, there = self._folder.path, folder_of(file)
        stores = []
        for each in self.references.stores:
            folder = None if each.folder is None else relative_folder(_below(here, each.folder), there)
            if folder is None and each.folder is not None:
                raise ArchiveError(
                    f"the weights in {self._folder.shown(each.folder)!r} are not below the folder of the new file",
                    remedy="Write it beside the old one, or pass weights=graphwire.IN_FILE to write them into it",
                )
            stores.append(msgspec.structs.replace(each, folder=folder))
        if self._rank is None:
            return msgspec.structs.replace(self.references, stores=stores)
        return msgspec.structs.replace(self.references, stores=stores, records=self._table, ranks=[])

    def files(self) -> Iterator[str]:
        """Yield the paths or URLs of the files that the weights are in, as the file states them. Nothing is opened."""
        stores = [] if self.references is None else self.references.stores
        for each, place in zip(stores, self._saved_stores().places, strict=True):
            if place is not None:
                # The folder of the program has more than weights.
                yield from _files_of(place, each.files, is_folder=not each.location and bool(each.folder))

    def close(self) -> None:
        """Close the stores. Mapped memory stays valid."""
        for stores in self._stores:
            stores.close()

    # ---------------------------------------------------------------------------------------------------------- places

    def _saved_stores(self) -> OpenedStores:
        """Return the stores that the file names."""
        if self._saved is None:
            from graphwire.wire.weights.opened_stores import StorePlace

            references = self.references or WeightReferences()
            places = [
                None
                if each.folder is None or self._folder is None
                else StorePlace(each.kind, self._folder.at(each.folder), each.location)
                for each in references.stores
            ]
            self._saved = self._opened_for_ranks(references, places, cache=self._cache)
        return self._saved

    def _opened_for_ranks(self, *of: Any, **options: Any) -> OpenedStores:
        """Open stores of weights that may be divided between ranks."""
        lost = f"the weights are divided between {self.divided} ranks" if self.divided else ""
        ranks = 0 if self.references is None else len(self.references.ranks)
        return self._opened(*of, unusable=lost, maps=ranks < 2, **options)

    def _opened(
        self, references: WeightReferences, places: list[StorePlace | None], **options: Any
    ) -> OpenedStores:
        """Open stores, which are closed with the file. Options are those of `OpenedStores`."""
        from graphwire.wire.weights.opened_stores import OpenedStores

        stores = OpenedStores(references, places, self._registry, limits=self._limits, **options)
        self._stores.append(stores)
        return stores

    def _external(self, payloads: Payloads) -> list[ExternalRecord]:
        if not self._stores:
            return []
        from graphwire.wire.weights.external_record import ExternalRecord

        found = [each for each in payloads.records.values() if isinstance(each, ExternalRecord)]
        return list({id(each): each for each in found}.values())

    @property
    def plugins(self) -> list[PluginRequirement]:
        """The plugins of the stores that the file refers to, as far as the file names them."""
        if self.references is None or not self.references.providers:
            return []
        from graphwire.wire.weights.reference_table import store_requirements

        return store_requirements(self.references)

    def _given(self, payloads: Payloads, table: Collection[str], copied: bool) -> dict[str, ExternalRecord]:
        """Return the records of a program as tensors of the store that the caller names."""
        from graphwire.wire.weights.opened_stores import find_store, store_named

        choice = self._choice
        assert isinstance(choice, STORE_CHOICES)  # `is_given`
        chosen = chosen_checkpoint(choice)
        attempts = self._limits.remote
        place = find_store(self._registry, chosen.location, chosen.kind, links=True, attempts=attempts)
        store = store_named(self._registry, place.kind)
        references = self.references
        if references is not None and references.stores and chosen.names is None and table:
            kinds = {self._registry.weight_stores.get(each.kind) for each in references.stores}
            if all(each is not None and each.takes_storages == store.takes_storages for each in kinds):
                from graphwire.wire.weights.external_record import ExternalRecord

                places = [place] * len(references.stores)
                stores = self._opened_for_ranks(references, places, checked=store.takes_storages)
                return {
                    name: ExternalRecord(stores, name, self._table[name], copied=copied) for name in table
                }
        from graphwire.wire.weights.matching import weight_records

        stores, found = records_in_store(
            weight_records([payloads]), chosen, place, self._registry, copied=copied, limits=self._limits
        )
        self._stores.append(stores)
        return found


def _below(folder: Path | str, name: str) -> Path | str:
    return f"{folder}/{name}".rstrip("/") if isinstance(folder, str) else folder / name


_FETCH = "Fetch the files, or pass weights= with the place of the weights"


def _damage(records: Iterable[ExternalRecord]) -> list[GraphwireError]:
    errors: list[GraphwireError] = []
    for record in records:
        try:
            record.verify()
        except GraphwireError as error:
            errors.append(error)
    return errors


def chosen_checkpoint(choice: WeightChoice) -> Checkpoint:
    """Return a choice of weights to read as a `Checkpoint`."""
    if isinstance(choice, Checkpoint):
        return choice
    return Checkpoint(choice.location, kind="blobs") if isinstance(choice, Blobs) else Checkpoint(choice)


def store_files(choice: WeightChoice, registry: Registry) -> Iterator[str]:
    """Yield the paths or URLs of the files that a caller names with a choice of weights, whether they are there or not."""
    chosen = chosen_checkpoint(choice)
    if not os.path.isdir(str(chosen.location)):  # noqa: PTH112
        yield str(chosen.location)
    with Ignored(GraphwireError, OSError):
        from graphwire.wire.weights.opened_stores import find_store, store_named

        place = find_store(registry, chosen.location, chosen.kind, links=True)
        index = store_named(registry, place.kind).open(place.folder, place.location)
        yield from _files_of(place, index.files if place.location else (), is_folder=not place.location)


def _files_of(place: StorePlace, names: Iterable[str], *, is_folder: bool) -> Iterator[str]:
    yield from (place.folder.shown(name) for name in (place.location, *names) if name)
    if is_folder:
        yield os.fspath(place.folder.path)
        yield from (place.folder.shown(name) for name in place.folder.names() if not name.endswith("/"))


def records_in_store(
    records: Mapping[str, WeightRecord],
    chosen: Checkpoint,
    place: StorePlace,
    registry: Registry,
    *,
    copied: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[OpenedStores, dict[str, ExternalRecord]]:
    """Return records of weights as tensors of a store, found by name.

    Raises:
        WeightsError: weights are missing there, or have other shapes or types; the error lists all of them.
    """
    from graphwire.wire.weights.matching import match_records
    from graphwire.wire.weights.opened_stores import OpenedStores, store_named

    index = store_named(registry, place.kind).open(place.folder, place.location)
    match = match_records(
        records,
        index.tensors,
        chosen.names,
        rank=(chosen.rank, chosen.ranks or 1),
        shard=chosen.shard,
        partly=True,
    )
    if match.missing:
        raise WeightsError(
            match.missing,
            remedy=f"{place.shown} has other weights; Checkpoint(…, names=) renames them, shard= divides them",
        )
    from graphwire.api.saved_weights import warn_of_prefix

    warn_of_prefix(match.prefix, place)
    references = WeightReferences([StoreReference(place.kind, place.location, None)])
    maps = (chosen.ranks or 1) == 1
    stores = OpenedStores(references, [place], registry, checked=False, maps=maps, limits=limits)
    from graphwire.wire.weights.external_record import ExternalRecord

    return stores, {
        name: ExternalRecord(stores, name, each, copied=copied) for name, each in match.records.items()
    }


_A_RANK = "Pass an integer, such as torch.distributed.get_rank()"


def check_rank(name: str, rank: object) -> int | None:
    """Return a rank, or a number of ranks, after a check that it is an integer or None.

    Args:
        name: the argument, for messages.

    Raises:
        ArchiveError: it is something else.
    """
    if rank is None:
        return None
    if not isinstance(rank, bool):
        with suppress(TypeError):
            return operator.index(rank)  # type: ignore[arg-type]
    raise ArchiveError(f"{name}={rank!r:.80} is not an integer", remedy=_A_RANK)


def records_of_rank(references: WeightReferences, rank: int | None) -> Mapping[str, RecordReference]:
    """Return the records that one rank of a program has.

    Args:
        rank: the rank; None for a program that is not divided. The records of all ranks have equal names and sizes.

    Raises:
        ArchiveError: there is no such rank.
    """
    count = len(references.ranks)
    if rank is not None and not count:
        raise ArchiveError(
            f"there is no rank {rank}: the weights are not divided between ranks",
            remedy="Leave rank= out: all ranks load the same weights",
        )
    if rank is not None and not 0 <= rank < count:
        raise ArchiveError(
            f"there is no rank {rank}: the weights are divided between {count} ranks",
            remedy=f"Pass rank= from 0 to {count - 1}",
        )
    return {**references.records, **references.ranks[rank or 0]} if count else references.records
