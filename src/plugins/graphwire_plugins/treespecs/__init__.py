"""The built-in treespec serializers, for container types of Python's standard library and of torch.

Dataclasses and other classes that a user registers with torch under a serialized name need no serializer here: the
bridge finds them in torch's own table.
"""

from __future__ import annotations

from graphwire.hooks import TreespecSerializer, hookimpl
from graphwire_plugins.treespecs.constants import ConstantFunctions, FunctionSchemas
from graphwire_plugins.treespecs.mappings import DefaultDict, Dict, OrderedDict
from graphwire_plugins.treespecs.sequences import Deque, List, NamedTuple, ReturnTypes, Size, Tuple


@hookimpl
def graphwire_treespec_serializers() -> list[TreespecSerializer]:
    """Return the built-in serializers."""
    containers: list[TreespecSerializer] = [Tuple(), List(), Dict(), OrderedDict(), DefaultDict(), Deque()]
    return [*containers, NamedTuple(), Size(), ReturnTypes(), ConstantFunctions(), FunctionSchemas()]
