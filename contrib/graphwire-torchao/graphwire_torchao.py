"""A graphwire plugin for the quantized weights and the operators of torchao.

A weight is stored as its plain tensors (packed integers, scales, zero points) and, as data, the rest that `torch.export.save`
pickles (block sizes, element types, quantization of activations). Its class must be one that torchao defines; it is looked up
by name among the subclasses of torchao's base class, so a file cannot cause an import.

torchao is imported only when a program has one of its weights or operators.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, cast

from graphwire import hookimpl
from graphwire.errors import DecodeError, GraphwireError, UnknownTypeError
from graphwire.hooks import ConstantCodec, OpHandler, Tree
from graphwire_plugins.constants import TensorSubclasses
from graphwire_plugins.ops import LibraryOverloads

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""


@functools.cache
def _import_torchao() -> None:
    """Import torchao, which registers its classes and operators, without its warnings about kernels for other machines."""
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
    """Return torchao's quantized tensor classes, by module and qualified name."""
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
    """The constant codec of torchao's tensors: the tree of graphwire's codec for tensor subclasses, with torchao's version."""

    name = "torchao"

    def owns(self, value: Any) -> bool:
        """Return whether `value` is a tensor of torchao. If torchao is not imported, it is not."""
        kind = type(value)
        return "torchao" in sys.modules and kind in _classes().values()

    def encode(self, value: Any) -> tuple[Tree, Sequence[Any]]:
        """Return the tree and the inner tensors, which share the value's memory."""
        tree, tensors = TensorSubclasses().encode(value)
        assert isinstance(tree, dict)
        return {"torchao": importlib.metadata.version("torchao"), **tree}, tensors

    def decode(self, tree: Tree, tensors: Sequence[Any]) -> Any:
        """Return the quantized tensor.

        Raises:
            DecodeError: `encode` cannot have made the tree or the tensors.
            UnknownTypeError: the installed torchao has no such class.
        """
        match tree:
            case {"torchao": str(written), "class": str(name), **rest}:
                _import_torchao()
            case _:
                raise DecodeError(f"this does not describe a tensor of torchao: {tree!r:.200}")
        if name not in _classes():
            raise UnknownTypeError(
                f"the installed torchao has no tensor {name!r:.200}", remedy=_remedy(written)
            )
        try:
            return TensorSubclasses().decode({"class": name, **cast("dict[str, Any]", rest)}, tensors)
        except GraphwireError as error:
            error.remedy = error.remedy or _remedy(written)
            raise


def _remedy(written: str) -> str:
    return (
        f"It was written with torchao {written!r:.40}; installed is {importlib.metadata.version('torchao')}"
    )


class TorchaoOperators:
    """The operator handler of the namespace `torch.ops.torchao`, which torchao does not version."""

    namespace = "torchao"
    prefixes = ("torch.ops.torchao.",)
    opset_version = 0
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """Return None: graphwire's handler of all library overloads names them and assigns them to this one."""

    def resolve(self, name: str) -> Any | None:
        """Return the overload with a name, after an import of torchao."""
        if not name.startswith(self.prefixes):
            return None
        _import_torchao()
        return LibraryOverloads().resolve(name)


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """Return the codec of quantized weights."""
    return [TorchaoTensors()]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """Return the handler of torchao's operators."""
    return [TorchaoOperators()]
