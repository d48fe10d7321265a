"""Typed options of `save`, `load` and `open`, for functions that pass them on.

`save`, `load` and `open` have their options as keyword parameters and document them. A function that passes options on takes
the mapping: `def dumps(program, **options: Unpack[SaveOptions])`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from graphwire.analysis.inspection import LoadReport, Strippable, WriteReport
from graphwire.api.argument_checks import StorageOptions
from graphwire.api.weights import LoadWeights, SaveWeights
from graphwire.evolve.opsets import UnknownOps
from graphwire.hooks import Registry
from graphwire.wire import Limits

if TYPE_CHECKING:
    import torch

Containers: TypeAlias = Literal["named", "plain"]
Ranges: TypeAlias = Literal["exact", "narrowed"]
Groups: TypeAlias = "Mapping[str, str | torch.distributed.ProcessGroup]"


class SaveOptions(TypedDict, total=False):
    """The options of `save`."""

    format: str
    target: str | None
    opset_version: Mapping[str, int] | None
    containers: Containers
    ranges: Ranges
    extra_files: Mapping[str, bytes | str] | None
    compress: bool
    weights: SaveWeights
    strip: Collection[Strippable] | bool
    report: Callable[[WriteReport], object] | None
    registry: Registry | None
    storage_options: StorageOptions


class OpenOptions(TypedDict, total=False):
    """The options of `open`."""

    registry: Registry | None
    limits: Limits
    weights_from: LoadWeights
    rank: int | None
    storage_options: StorageOptions
    cache: str | os.PathLike[str] | None


class LoadOptions(TypedDict, total=False):
    """The options of `load`."""

    registry: Registry | None
    limits: Limits
    method: str | None
    device: str | int | torch.device | None
    weights: LoadWeights
    copy: bool
    rank: int | None
    verify: bool
    unknown_ops: UnknownOps
    groups: Groups | None
    extra_files: MutableMapping[str, Any] | None
    report: Callable[[LoadReport], object] | None
    storage_options: StorageOptions
    cache: str | os.PathLike[str] | None


F = TypeVar("F", bound=Callable[..., object])


def options_of(documented: Callable[..., object]) -> Callable[[F], F]:
    """Make `help` show the `**options` of the decorated function as keyword parameters.

    Args:
        documented: the function that has these keyword parameters.
    """
    options = [
        each for each in inspect.signature(documented).parameters.values() if each.kind is each.KEYWORD_ONLY
    ]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *options])
        return function

    return decorate
