"""The quantized weights of torchao, and its operators.

A weight is written as the plain tensors that it consists of (packed integers, scales, zero points) and the rest of it (block
sizes, element types, how activations are quantized) as data: what `torch.export.save` pickles. The class is one that torchao
itself defines, found after torchao is imported, in the table of its own classes; a file imports nothing.

torchao is imported when a program has one of its weights or operators, and no earlier.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from graphwire import hookimpl
from graphwire.errors import DecodeError, GraphwireError, UnknownTypeError
from graphwire.hooks import ConstantCodec, OpHandler, Tree
from graphwire_plugins.constants.subclasses import TensorSubclasses
from graphwire_plugins.ops.overloads import LibraryOverloads

__all__ = ["TorchaoOperators", "TorchaoTensors"]

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module is written for."""


@functools.cache
def _import_torchao() -> None:
    """Let torchao register its classes and operators. What it says of kernels for other machines is no concern of a load."""
    with warnings.catch_warnings(action="ignore"), _quiet("torchao"), _quiet("torch.utils._pytree"):
        import torchao.quantization  # noqa: F401


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _classes() -> dict[str, type]:
    """torchao's own quantized tensors by module and qualified name."""
    from torchao.utils import TorchAOBaseTensor

    found: dict[str, type] = {}
    kinds = [TorchAOBaseTensor]
    while kinds:
        for kind in type.__subclasses__(kinds.pop()):
            kinds.append(kind)
            if kind.__module__.partition(".")[0] == "torchao":
                found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return found


class TorchaoTensors:
    """torchao's tensors: the tree is that of the box's own codec for tensor subclasses, and the version of torchao."""

    name = "torchao"

    def owns(self, value: Any) -> bool:
        """Whether `value` is of a class of torchao's: then somebody has imported torchao."""
        kind = type(value)
        return "torchao" in sys.modules and kind in _classes().values()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """The tree and the inner tensors, which share the value's memory."""
        tree, tensors = TensorSubclasses().encode(value)
        assert isinstance(tree, dict)
        return {"torchao": importlib.metadata.version("torchao"), **tree}, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """The quantized tensor again.

        Raises:
            DecodeError: the tree or the tensors are none that `encode` makes.
            UnknownTypeError: the installed torchao has no such class.
        """
        match tree:
            case {"torchao": str(written), "class": str(name), **rest}:
                _import_torchao()
            case _:
                raise DecodeError(f"no tensor of torchao is described by {tree!r:.200}")
        if name not in _classes():
            raise UnknownTypeError(
                f"the installed torchao has no tensor {name!r:.200}", remedy=_remedy(written)
            )
        try:
            return TensorSubclasses().decode({"class": name, **rest}, tensors)
        except GraphwireError as error:
            error.remedy = error.remedy or _remedy(written)
            raise


def _remedy(written: str) -> str:
    return (
        f"It was written with torchao {written!r:.40}; installed is {importlib.metadata.version('torchao')}"
    )


class TorchaoOperators:
    """The namespace `torch.ops.torchao`, which torchao keeps no versions of."""

    namespace = "torchao"
    prefixes = ("torch.ops.torchao.",)
    opset_version = 0
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """None: graphwire's own handler names every overload of a library, and finds that it is this one's."""

    def resolve(self, name: str) -> Any | None:
        """The overload of that name, once torchao has registered it with torch."""
        if not name.startswith(self.prefixes):
            return None
        _import_torchao()
        return LibraryOverloads().resolve(name)


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """The codec of quantized weights."""
    return [TorchaoTensors()]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """The handler of torchao's operators."""
    return [TorchaoOperators()]
