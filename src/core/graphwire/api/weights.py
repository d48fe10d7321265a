"""Where does the caller want the weights of a program, and where are they?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from graphwire.errors import ArchiveError, EncodeError
from graphwire.wire.archive.source import type_text
from graphwire.wire.remote import RemoteFile, UniversalPath, located, url_of
from graphwire.wire.weights.matching import Names

if TYPE_CHECKING:
    pass

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
    names: Names | None = None
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
        from graphwire.wire.weights.reference_table import check_rank

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
    return located(weights, options)


def check_weights_choice(weights: object, *, tensors: bool) -> None:
    """Check the option `weights`.

    Args:
        tensors: whether it may be a mapping of names to tensors.

    Raises:
        ArchiveError: it is something else.
    """
    if isinstance(weights, str) and weights in ("map", "copy") and not Path(weights).exists():
        raise ArchiveError(
            f"weights={weights!r} is the path of weights, and there is none",
            remedy=f"Use copy={weights == 'copy'}",
        )
    if weights is None or isinstance(weights, (*STORE_CHOICES, Default)):
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
