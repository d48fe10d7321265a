"""Every family of constructs; importing this fills `construct.CONSTRUCTS`."""

from __future__ import annotations

import construct
import family_arguments
import family_constants
import family_containers
import family_higher_order
import family_metadata
import family_programs
import family_signatures
import family_symbols
import family_tensors

FAMILIES = (
    family_higher_order.operators.name,
    family_arguments.arguments.name,
    family_symbols.symbols.name,
    family_signatures.signatures.name,
    family_metadata.metadata.name,
    family_tensors.tensors.name,
    family_containers.containers.name,
    family_constants.constants.name,
    family_programs.programs.name,
)
CONSTRUCTS = construct.CONSTRUCTS
