"""Constant codecs in the box: constants and weights of torch itself that are no plain strided tensors."""

from __future__ import annotations

from graphwire.hooks.hookspecs import hookimpl
from graphwire.hooks.interfaces import ConstantCodec
from graphwire_plugins.constants.sparse import SparseTensors

__all__ = ["SparseTensors", "graphwire_constant_codecs"]


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """The codec of sparse tensors."""
    return [SparseTensors()]
