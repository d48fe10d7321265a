"""The module call graph: which submodules were called, with which values. `unflatten` needs it."""

from __future__ import annotations

import msgspec

from graphwire.schema.graph import Argument


class ModuleCallSignature(msgspec.Struct, gc=False, omit_defaults=True):
    """The inputs, outputs and container structures of one module call."""

    inputs: list[Argument]
    outputs: list[Argument]
    in_spec: str
    """The structure of `(args, kwargs)`, as text of the treespec protocol."""
    out_spec: str
    """The structure of the result, as text of the treespec protocol."""
    forward_arg_names: list[str] | None = None
    """The names of the module's `forward` parameters, in order."""
    input_names: list[str | None] | None = None
    """Extension without requirement: the names of inputs that are literals, and therefore carry none."""
    output_names: list[str | None] | None = None
    """Extension without requirement: the names of outputs that are literals, and therefore carry none."""


class ModuleCallEntry(msgspec.Struct, gc=False):
    """One call of a module, by its qualified name (`name@1` for a second call); the first entry is the root."""

    fqn: str
    signature: ModuleCallSignature | None = None


class NamedTupleDef(msgspec.Struct, gc=False):
    """The fields of a namedtuple that a treespec uses."""

    field_names: list[str]
