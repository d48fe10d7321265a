"""How are FX graphs converted to records and back?"""

from graphwire.bridge.graph.arguments import (
    class_name_of,
    decode_argument,
    encode_argument,
    is_owned_by_codec,
)
from graphwire.bridge.graph.graph import decode_graph, encode_graph
from graphwire.bridge.graph.metadata import (
    decode_declared,
    decode_sources,
    encode_custom,
    encode_declared,
    unread_metadata,
)
from graphwire.bridge.graph.operators import check_operators
from graphwire.bridge.graph.propagation import check_arguments
from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.bridge.graph.unknown_operators import OpaqueOperator
from graphwire.bridge.graph.values import LITERAL_ARMS, literal_of

__all__ = [
    "LITERAL_ARMS",
    "OpaqueOperator",
    "check_arguments",
    "check_operators",
    "class_name_of",
    "decode_argument",
    "decode_declared",
    "decode_graph",
    "decode_sources",
    "decode_treespec",
    "encode_argument",
    "encode_custom",
    "encode_declared",
    "encode_graph",
    "encode_treespec",
    "is_owned_by_codec",
    "literal_of",
    "unread_metadata",
]
