"""The table of functions and classes that `source_fn_stack` may name: those of torch and of Python.

A name in a file is a key of this table, or the name of an operator in `torch.ops`. A file causes no import and no lookup
of a module's attributes. Provenance is never called.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import re
import types
from typing import Any

import torch

_MODULES = (
    torch.functional,
    torch.nn.functional,
    torch.fft,
    torch.linalg,
    torch.nested,
    torch.nn.init,
    torch.sparse,
    torch.special,
    torch.signal.windows,
)
"""The modules whose functions programs call, in addition to `torch` itself."""
_HOMES = frozenset(
    (
        *(module.__name__ for module in _MODULES),
        *(f"torch._C._{name}" for name in ("fft", "linalg", "nested", "nn", "sparse", "special")),
        "torch.signal.windows.windows",
    )
)
"""The `__module__` values of these modules' own functions. Other values mark functions they import."""
_BUILTINS = (
    "abs all any bool complex dict divmod enumerate filter float getattr int isinstance iter len list map max min next "
    "pow range reversed round set slice sorted str sum tuple zip"
).split()
_PACKET = r"(?a)torch\._?ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)"


@functools.cache
def function_table() -> dict[str, Any]:
    """Return the functions of torch and Python, tensor methods and layers, by their names in `source_fn_stack`."""
    python = [f for module in (operator, math) for f in vars(module).values() if inspect.isbuiltin(f)]
    functions = [
        f
        for module in _MODULES
        for f in vars(module).values()
        if inspect.isroutine(f) and getattr(f, "__module__", None) in _HOMES
    ]
    layers = [kind for kind in vars(torch.nn).values() if isinstance(kind, type)]
    methods = [f for f in vars(torch._C.TensorBase).values() if isinstance(f, types.MethodDescriptorType)]
    own = [
        f for f in vars(torch).values() if inspect.isroutine(f) and getattr(f, "__module__", None) == "torch"
    ]
    named = [*own, *python, *(getattr(builtins, name) for name in _BUILTINS), *methods, *functions, *layers]
    return {name_of_function(f): f for f in named}


def name_of_function(function: Any) -> str:
    """Return the name that torch writes for a function or class in `source_fn_stack`."""
    if isinstance(function, types.MethodDescriptorType):
        return f"torch.Tensor.{function.__name__}"  # it has no module, and torch writes none
    name = getattr(function, "__name__", None) or type(function).__name__
    module = getattr(function, "__module__", None) or ""
    if module == "torch._ops" or module.startswith("torch._ops."):
        module = f"torch.ops{module.removeprefix('torch._ops')}"
    return f"{module}.{name}"


def operator_packet(name: str) -> Any | None:
    """Return the packet (all overloads) of an operator that torch's dispatcher knows, such as `torch.ops.aten.add`."""
    match = re.fullmatch(_PACKET, name)
    if match is None:
        return None
    namespace, operation = match.groups()
    if not torch._C._jit_get_schemas_for_operator(f"{namespace}::{operation}"):
        return None
    # An operator may have the name of an attribute of torch's namespace object.
    found = getattr(getattr(torch.ops, namespace), operation)
    return found if isinstance(found, torch._ops.OpOverloadPacket) else None
