"""The options that several public functions take, each listed once.

A function that reads its options has them as keyword parameters, where they are documented: `save`, `load` and `open`. A
function that passes them on takes the mapping: `def dumps(program, **options: Unpack[SaveOptions])`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from graphwire.analysis.inspection import LoadReport, WriteReport
from graphwire.evolve.opsets import UnknownOps
from graphwire.hooks import Registry
from graphwire.wire import Limits

if TYPE_CHECKING:
    import torch

Containers: TypeAlias = Literal["named", "plain"]
Ranges: TypeAlias = Literal["exact", "narrowed"]
Weights: TypeAlias = Literal["map", "copy"]


class SaveOptions(TypedDict, total=False):
    """The options of `save`."""

    format: str
    target: str | None
    opset_version: Mapping[str, int] | None
    containers: Containers
    ranges: Ranges
    extra_files: Mapping[str, bytes | str] | None
    compress: bool
    report: Callable[[WriteReport], object] | None
    registry: Registry | None


class OpenOptions(TypedDict, total=False):
    """The options of `open`."""

    registry: Registry | None
    limits: Limits


class LoadOptions(OpenOptions, total=False):
    """The options of `load`."""

    method: str | None
    device: str | int | torch.device | None
    weights: Weights | None
    verify: bool
    unknown_ops: UnknownOps
    extra_files: MutableMapping[str, Any] | None
    report: Callable[[LoadReport], object] | None


F = TypeVar("F", bound=Callable[..., object])


def options_of(documented: Callable[..., object]) -> Callable[[F], F]:
    """Decorates a function that passes its `**options` on: `help` shows them as the keyword parameters that they are.

    Args:
        documented: the function whose keyword parameters they are.
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
