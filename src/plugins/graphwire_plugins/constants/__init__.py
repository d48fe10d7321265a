"""Constant codecs in the box: constants and weights that are no plain strided tensors."""

from __future__ import annotations

from graphwire.hooks import ConstantCodec, hookimpl
from graphwire_plugins.constants.jagged import JaggedTensors
from graphwire_plugins.constants.objects import OpaqueValues, ScriptObjects
from graphwire_plugins.constants.quantized import QuantizedTensors
from graphwire_plugins.constants.sparse import SparseTensors
from graphwire_plugins.constants.subclasses import PlainSubclasses, TensorSubclasses

__all__ = [
    "JaggedTensors",
    "OpaqueValues",
    "PlainSubclasses",
    "QuantizedTensors",
    "ScriptObjects",
    "SparseTensors",
    "TensorSubclasses",
    "graphwire_constant_codecs",
]


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """The codecs of torch's own kinds of tensors and objects; the first that owns a value writes it."""
    return [
        SparseTensors(),
        QuantizedTensors(),
        JaggedTensors(),
        TensorSubclasses(),
        PlainSubclasses(),
        ScriptObjects(),
        OpaqueValues(),
    ]
