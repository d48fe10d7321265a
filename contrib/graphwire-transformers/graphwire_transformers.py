"""A graphwire plugin for the container types of transformers: `ModelOutput`s and key-value caches.

| type | context |
|---|---|
| `transformers.modeling_outputs.*` | the names of the fields that are set |
| `DynamicCache`, version 1 | the names of its two lists of tensors, as transformers wrote it before it had sliding windows |
| `DynamicCache`, version 2 | also the sliding window of each layer, in tokens; None for a layer without one |
| `StaticCache` | for each layer its length in tokens and the names of its tensors; if it slides, also the tokens it has seen |
| `EncoderDecoderCache` | which layers of the cross-attention cache are filled; its two caches are its children |

transformers registers `ModelOutput`s with torch, and on request `DynamicCache`. This module registers the other two. It
imports transformers only when a program has one of these types.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from graphwire import hookimpl
from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import Tree, TreeSpec, TreespecSerializer, dump_json, load_json

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""

_CACHES = "transformers.cache_utils"
_LISTS = ["key_cache", "value_cache"]
_STATIC_TENSORS = ("keys", "values", "cumulative_length")


@functools.cache
def register() -> None:
    """Register the caches with torch. Call this before an export with a cache; a load does not need it."""
    from torch.utils import _pytree as pytree
    from transformers import cache_utils
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    if cache_utils.DynamicCache not in pytree.SUPPORTED_NODES:
        register_dynamic_cache_export_support()
    for kind, flatten, unflatten in (
        (cache_utils.StaticCache, _flatten_static, _unflatten_static),
        (cache_utils.EncoderDecoderCache, _flatten_pair, _unflatten_pair),
    ):
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                flatten,
                unflatten,
                serialized_type_name=f"{_CACHES}.{kind.__name__}",
                flatten_with_keys_fn=functools.partial(_with_keys, flatten),
            )


def _with_keys(flatten: Any, value: Any) -> tuple[list[tuple[Any, Any]], Any]:
    from torch.utils._pytree import SequenceKey

    leaves, context = flatten(value)
    return [(SequenceKey(index), leaf) for index, leaf in enumerate(leaves)], context


# ------------------------------------------------------------------------------------------------------ model outputs


class ModelOutputs:
    """The treespec serializer of the classes in `transformers.modeling_outputs`."""

    name = "transformers.modeling_outputs"
    version = 1

    def container(self) -> Mapping[str, type]:
        """Return each class by its name; classes in the module of a model are found once that module is imported."""
        from transformers import modeling_outputs
        from transformers.utils import ModelOutput

        return {
            f"{self.name}.{name}": kind
            for name, kind in vars(modeling_outputs).items()
            if isinstance(kind, type) and issubclass(kind, ModelOutput)
            # Some classes are also there under older names.
            if (kind.__module__, kind.__name__) == (self.name, name)
        }

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Encode the names of the fields, as torch does."""
        return 1, dump_json(list(context))

    def load_context(self, tree: Tree, version: int) -> Any:
        """Decode the names of the fields.

        Raises:
            DecodeError: the context is not a list of names, or has a name twice.
        """
        names = load_json(tree) if isinstance(tree, str) else None
        if not isinstance(names, list) or not all(
            isinstance(each, str) and each.isidentifier() for each in names
        ):
            raise DecodeError(f"the fields of a ModelOutput are not names: {tree!r:.80}")
        if len(set(names)) < len(names):
            raise DecodeError("a field of a ModelOutput is listed twice")
        return names

    def arity(self, container: type, context: Any) -> int | None:
        """Return the number of fields."""
        return len(context)


# ---------------------------------------------------------------------------------------------------------- all caches


def _cache_class(name: str) -> type:
    import transformers

    register()
    return getattr(transformers, name.rpartition(".")[2])


def _strange_context(name: str, context: Any) -> EncodeError:
    return EncodeError(
        f"the context of a {name.rpartition('.')[2]} is {context!r:.120}, which no version can encode",
        remedy="Call graphwire_transformers.register() before other code registers the cache with torch",
    )


class _CacheOfOneVersion(abc.ABC):
    """A treespec serializer of a cache whose context is plain data, validated by `is_context`."""

    name: str
    version = 1

    @abc.abstractmethod
    def is_context(self, context: Any) -> bool: ...

    def container(self) -> type:
        """Return the class, and register it with torch."""
        return _cache_class(self.name)

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Encode the context as JSON text.

        Raises:
            EncodeError: other code registered the cache with torch, with another context.
        """
        if not self.is_context(context):
            raise _strange_context(self.name, context)
        return 1, dump_json(context)

    def load_context(self, tree: Tree, version: int) -> Any:
        """Decode the context.

        Raises:
            DecodeError: it is not a context of the cache.
        """
        context = load_json(tree) if isinstance(tree, str) else None
        if not self.is_context(context):
            raise DecodeError(f"this is not a context of {self.name.rpartition('.')[2]}: {tree!r:.80}")
        return context


# ------------------------------------------------------------------------------------------------------ dynamic caches


@functools.cache
def _knows_windows() -> bool:
    """Return whether the installed transformers has sliding windows in the context of a `DynamicCache`."""
    from torch.utils import _pytree as pytree
    from transformers import DynamicCache

    register()
    _, context = pytree.SUPPORTED_NODES[DynamicCache].flatten_fn(DynamicCache())
    return bool(context != _LISTS)


class DynamicCaches:
    """The treespec serializer of `DynamicCache`, whose children are lists of keys and values, with a tensor for each layer."""

    name = f"{_CACHES}.DynamicCache"
    version = 2

    def container(self) -> type:
        """Return the class, which transformers registers with torch."""
        return _cache_class(self.name)

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Encode the context as torch does, so that torch's file of the program has the same content hash.

        Version 2, another encoding of the windows, is only read.

        Raises:
            EncodeError: other code than transformers registered the cache with torch.
        """
        match context:
            case ["key_cache", "value_cache"]:
                return 1, dump_json(context)
            case [["key_cache", "value_cache"], None]:
                return 1, dump_json(_LISTS)
            case [["key_cache", "value_cache"], list(windows)] if _are_windows(windows):
                return 1, dump_json([["key_cache", "value_cache"], list(windows)])
        raise _strange_context(self.name, context)

    def load_context(self, tree: Tree, version: int) -> Any:
        """Decode the context of either version to the form of the installed transformers.

        Raises:
            DecodeError: it is not a context, or has sliding windows that the installed transformers does not support.
        """
        windows: Any = None
        match version, tree:
            case 1, str(text):
                match load_json(text):
                    case ["key_cache", "value_cache"]:
                        pass
                    case [["key_cache", "value_cache"], list(windows)] if _are_windows(windows):
                        pass
                    case _:
                        raise DecodeError(f"this is not a context of a DynamicCache: {tree!r:.80}")
            case 2, {"windows": list(windows), **rest} if not rest and _are_windows(windows):
                pass
            case _:
                raise DecodeError(f"this is not a context of a DynamicCache: {tree!r:.80}")
        if _knows_windows():
            return [list(_LISTS), windows]
        if any(window is not None for window in windows or ()):
            raise DecodeError(
                "the cache has layers with a sliding window, which the installed transformers does not support",
                remedy="Install a newer transformers",
            )
        return list(_LISTS)

    def fit_context(self, context: Any, children: Sequence[TreeSpec]) -> Any:
        """Complete a context of version 1 for a transformers with sliding windows: no layer has one."""
        match context:
            case [lists, None]:
                return [lists, [None] * len(children[0].children)]
        return context

    def arity(self, container: type, context: Any) -> int | None:
        """Return 2: a list of keys and a list of values."""
        return 2


def _are_windows(windows: list[Any]) -> bool:
    return all(each is None or (type(each) is int and each > 0) for each in windows)


# ------------------------------------------------------------------------------------------------------- static caches


def _count_of(layer: Any) -> str:
    """Return the attribute of a sliding layer that counts tokens, a Python number that tracing turns into a constant."""
    return "cumulative_length_int" if hasattr(layer, "cumulative_length_int") else "cumulative_length"


def _flatten_static(cache: Any) -> tuple[list[Any], Any]:
    from transformers.cache_utils import StaticLayer, StaticSlidingWindowLayer

    leaves: list[Any] = []
    layers: list[Any] = []
    for layer in cache.layers:
        if type(layer) not in (StaticLayer, StaticSlidingWindowLayer) or not layer.is_initialized:
            raise TypeError(
                f"a StaticCache with a layer {type(layer).__name__} cannot be taken apart: StaticLayer and "
                "StaticSlidingWindowLayer can, after early_initialization"
            )
        tensors = [name for name in _STATIC_TENSORS if type(getattr(layer, name, 0)) is not int]
        leaves += [getattr(layer, name) for name in tensors]
        seen = [getattr(layer, _count_of(layer))] if type(layer) is StaticSlidingWindowLayer else []
        layers.append([layer.max_cache_len, tensors, *seen])
    return leaves, layers


def _unflatten_static(leaves: Sequence[Any], context: Any) -> Any:
    from transformers.cache_utils import StaticCache, StaticLayer, StaticSlidingWindowLayer

    rest = iter(leaves)
    layers = []
    for length, tensors, *seen in context:
        if seen:
            layer = StaticSlidingWindowLayer(max_cache_len=length, sliding_window=length)
            setattr(layer, _count_of(layer), seen[0])
        else:
            layer = StaticLayer(max_cache_len=length)
        for name in tensors:
            setattr(layer, name, next(rest))
        # torch also unflattens structures whose leaves are placeholders, names or None.
        if hasattr(layer.keys, "shape") and len(layer.keys.shape) == 4 and hasattr(layer.values, "shape"):
            layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
            layer.batch_size, layer.num_heads = layer.max_batch_size, _ = layer.keys.shape[:2]
            layer.k_head_dim, layer.v_head_dim = layer.keys.shape[-1], layer.values.shape[-1]
        layer.is_initialized = True
        layers.append(layer)
    cache = StaticCache.__new__(StaticCache)
    super(StaticCache, cache).__init__(layers=layers)
    return cache


class StaticCaches(_CacheOfOneVersion):
    """The treespec serializer of initialized `StaticCache`s (`early_initialization`). The context describes the layers."""

    name = f"{_CACHES}.StaticCache"

    def is_context(self, context: Any) -> bool:
        """Return whether it has a positive length and tensor names for each layer, and the seen tokens for sliding ones."""
        if not isinstance(context, list):
            return False
        for layer in context:
            match layer:
                case [int(length), list(tensors), *seen] if type(length) is int and length > 0:
                    if seen and (len(seen) > 1 or type(seen[0]) is not int or seen[0] < 0):
                        return False
                    if tensors not in (list(_STATIC_TENSORS), list(_STATIC_TENSORS[:2])):
                        return False
                case _:
                    return False
        return True

    def arity(self, container: type, context: Any) -> int | None:
        """Return the number of tensors of all layers."""
        return sum(len(layer[1]) for layer in context)


# ---------------------------------------------------------------------------------------------- encoder-decoder caches


def _flatten_pair(cache: Any) -> tuple[list[Any], Any]:
    updated = [[layer, filled] for layer, filled in cache.is_updated.items()]
    return [cache.self_attention_cache, cache.cross_attention_cache], updated


def _unflatten_pair(leaves: Sequence[Any], context: Any) -> Any:
    from transformers import EncoderDecoderCache

    # The constructor inspects the caches, which may be placeholders here.
    cache = EncoderDecoderCache.__new__(EncoderDecoderCache)
    cache.self_attention_cache, cache.cross_attention_cache = leaves
    cache.is_updated = dict(context)
    return cache


class EncoderDecoderCaches(_CacheOfOneVersion):
    """The treespec serializer of `EncoderDecoderCache`, whose children are two caches. The context lists the filled layers."""

    name = f"{_CACHES}.EncoderDecoderCache"

    def is_context(self, context: Any) -> bool:
        """Return whether it has a number and a bool for each layer."""
        return isinstance(context, list) and all(
            isinstance(each, list) and [type(part) for part in each] == [int, bool] for each in context
        )

    def arity(self, container: type, context: Any) -> int | None:
        """Return 2: the two caches."""
        return 2


@hookimpl
def graphwire_treespec_serializers() -> list[TreespecSerializer]:
    """Return the serializers of transformers' container types."""
    return [ModelOutputs(), DynamicCaches(), StaticCaches(), EncoderDecoderCaches()]
