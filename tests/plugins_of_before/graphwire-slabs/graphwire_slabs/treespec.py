"""The container type `Slabs`, and its treespec serializer for graphwire.

torch is imported when the type is needed, and no earlier: `graphwire plugins` stays fast.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from graphwire import hookimpl
from graphwire.errors import DecodeError, EncodeError
from graphwire.hooks import Tree, TreespecSerializer
from graphwire.schema.texts.treespec import dump_json, load_json

GRAPHWIRE_API = 1
"""The version of graphwire's plugin interface that this module uses."""

NAME = "graphwire_slabs.Slabs"
"""The type's name in files. Keep it when the class moves."""


@dataclass(frozen=True)
class Slabs:
    """A container of two values (the leaves) and a label (the context)."""

    first: Any
    second: Any
    label: str = ""


@functools.cache
def register() -> type[Slabs]:
    """Register `Slabs` as a pytree node with torch, once. Call this before an export with one."""
    from torch.utils import _pytree as pytree

    pytree.register_pytree_node(
        Slabs,
        lambda value: ([value.first, value.second], value.label),
        lambda leaves, label: Slabs(*leaves, label),
        serialized_type_name=NAME,
        flatten_with_keys_fn=lambda value: (
            [(pytree.GetAttrKey(name), getattr(value, name)) for name in ("first", "second")],
            value.label,
        ),
    )
    return Slabs


class SlabsSerializer:
    """The treespec serializer of `Slabs`, whose context is the label."""

    name = NAME
    version = 1

    def container(self) -> type:
        """Return the class, and register it with torch."""
        return register()

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        """Encode the context as JSON text, which torch's reader expects, and return it with its version.

        Raises:
            EncodeError: the label is no text.
        """
        if not isinstance(context, str):
            raise EncodeError(f"the label of a Slabs is {context!r:.80}, no text")
        return 1, dump_json(context)

    def load_context(self, tree: Tree, version: int) -> Any:
        """Decode the label.

        Raises:
            DecodeError: it is no text.
        """
        label = load_json(tree) if isinstance(tree, str) else None
        if not isinstance(label, str):
            raise DecodeError(f"the label of a Slabs is {tree!r:.80}, no text")
        return label

    def arity(self, container: type, context: Any) -> int | None:
        """Return 2, the number of leaves."""
        return 2


@hookimpl
def graphwire_treespec_serializers() -> list[TreespecSerializer]:
    """Return the treespec serializers of this plugin."""
    return [SlabsSerializer()]
