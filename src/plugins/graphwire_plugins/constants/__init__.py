"""The built-in constant codecs, for constants and weights that are not plain strided tensors."""

from __future__ import annotations

from graphwire.hooks import ConstantCodec, hookimpl
from graphwire_plugins.constants.jagged import JaggedTensors
from graphwire_plugins.constants.objects import OpaqueValues, ScriptObjects
from graphwire_plugins.constants.quantized import QuantizedTensors
from graphwire_plugins.constants.sparse import SparseTensors
from graphwire_plugins.constants.subclasses import PlainSubclasses, TensorSubclasses


@hookimpl
def graphwire_constant_codecs() -> list[ConstantCodec]:
    """Return the codecs for torch's own kinds of tensors and objects. The first that owns a value encodes it."""
    tensors: list[ConstantCodec] = [SparseTensors(), QuantizedTensors(), JaggedTensors(), TensorSubclasses()]
    return [*tensors, PlainSubclasses(), ScriptObjects(), OpaqueValues()]
