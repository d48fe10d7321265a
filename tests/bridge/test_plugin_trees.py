"""What plugins write of contexts and metadata is read again as it is saved: what a reader would refuse is refused then."""

from __future__ import annotations

from typing import Any

import pytest
from given_plugins import registry_with
from inside.bridge import decode_treespec, encode_treespec
from torch.utils import _pytree as pytree

from graphwire.errors import EncodeError


class Box:
    """A container of one thing."""


pytree.register_pytree_node(
    Box, lambda box: ([1], None), lambda items, context: Box(), serialized_type_name="plugin_trees.Box"
)


class BoxSerializer:
    """Writes what a test says."""

    name = "plugin_trees.Box"
    version = 2

    def __init__(self, dumped: Any, number: int | None = 1) -> None:
        self._dumped, self._number = dumped, number

    def container(self) -> type:
        return Box

    def dump_context(self, context: Any) -> Any:
        return self._dumped

    def load_context(self, tree: Any, version: int) -> Any:
        if tree == "raise":
            raise ZeroDivisionError("of the plugin")
        return tree

    def arity(self, container: type, context: Any) -> int | None:
        return self._number


def written(serializer: BoxSerializer) -> str:
    registry = registry_with(treespec_serializers=[serializer])
    text = encode_treespec(pytree.tree_structure([Box()]), registry)
    decode_treespec(text, registry)
    return text


@pytest.mark.parametrize("version", [0, 3, -1, True, "1", None, 1.0])
def test_a_version_that_the_serializer_does_not_read_is_refused_by_its_name(version: Any) -> None:
    with pytest.raises(EncodeError, match=r"plugin_trees\.Box.* version"):
        written(BoxSerializer((version, "x")))


def test_a_context_that_the_serializer_does_not_read_again_is_refused() -> None:
    with pytest.raises(EncodeError, match="could not decode"):
        written(BoxSerializer((1, "raise")))
