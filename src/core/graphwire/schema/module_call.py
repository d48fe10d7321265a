"""The module call graph: which submodules were called, with which values. `unflatten` needs it."""

import msgspec

from graphwire.schema.graph import Argument


class ModuleCallSignature(msgspec.Struct, gc=False, omit_defaults=True):
    """The inputs, outputs and container structures of one module call."""

    inputs: list[Argument]
    """The flat inputs of the call, in the order of the leaves of `in_spec`: values of the graph by name, and
    literals."""
    outputs: list[Argument]
    """The flat outputs of the call, in the order of the leaves of `out_spec`."""
    in_spec: str
    """The structure of `(args, kwargs)`, as text of the treespec protocol."""
    out_spec: str
    """The structure of the result, as text of the treespec protocol."""
    forward_arg_names: list[str] | None = None
    """The names of the parameters of the module's `forward`, in order. Absent: unknown."""
    input_names: list[str | None] | None = None
    """Extension without requirement: for each input, its name if it is a literal, which carries none, else null.
    Absent: no literal has a name."""
    output_names: list[str | None] | None = None
    """Extension without requirement: for each output, its name if it is a literal, which carries none, else null.
    Absent: no literal has a name."""


class ModuleCallEntry(msgspec.Struct, gc=False):
    """One call of a module, by its qualified name (`name@1` for a second call); the first entry is the root."""

    fqn: str
    """The qualified name of the module; empty for the root."""
    signature: ModuleCallSignature | None = None
    """The interface of the call. Null or absent: the call's interface is not preserved."""


class NamedTupleDef(msgspec.Struct, gc=False):
    """The fields of a namedtuple that a treespec uses."""

    field_names: list[str]
    """The names of the fields, in order."""
