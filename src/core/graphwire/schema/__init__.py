"""What a program is: typed records, without torch.

Exported here is what one asks of a graph signature, and what edits it: the answers of torch's `ExportGraphSignature`, its
`replace_all_uses`, and signatures from the name maps of torch 2.1.
"""

from graphwire.schema.arguments import value_name
from graphwire.schema.signature import GraphSignature
from graphwire.schema.signature_maps import NameMaps, signature_from_maps
from graphwire.schema.signature_names import (
    BackwardSignature,
    SignatureNames,
    replace_all_uses,
    replace_hook,
    with_outputs,
)

__all__ = [
    "BackwardSignature",
    "GraphSignature",
    "NameMaps",
    "SignatureNames",
    "replace_all_uses",
    "replace_hook",
    "signature_from_maps",
    "value_name",
    "with_outputs",
]
