"""Lets a module answer its first call before its code is generated: the call runs the nodes of the graph one by one.

Python's compiler takes a quarter of the time from a file to the first answer, as long as hundreds of nodes take to run. So the
second call generates the code, or whoever looks for it earlier: some attributes of the class of such a module, which each graph
module has for itself, are descriptors that put the usual ones in their place.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Collection
from contextlib import suppress
from operator import attrgetter
from typing import Any

import torch

from graphwire.bridge.torch_compat.code_text import may_hide
from graphwire.bridge.torch_compat.private import OpOverload, generate_code
from graphwire.bridge.torch_compat.pytree import flatten_by_spec, unflatten_as_torch
from graphwire.process import one_build_at_a_time

_CALL = torch.nn.Module.__call__.__code__
_PLAIN = (
    *(torch.fx.Node, int, float, bool, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_CALLED = (OpOverload, types.BuiltinFunctionType)


def may_wait(module: torch.fx.GraphModule, names: Collection[str]) -> bool:
    """Return whether the code of a module can certainly be generated later, with the meaning that its graph has.

    Args:
        names: the parameters of the module.
    """
    return (
        not may_hide(names)
        and not any(isinstance(each, torch.fx.GraphModule) for each in module.modules() if each is not module)
        and all(
            (node.op != "call_function" or type(node.target) in _CALLED)
            and (node.op != "placeholder" or not may_hide((node.target,)))
            and all(map(_is_plain, node.args))
            and all(map(_is_plain, node.kwargs.values()))
            for node in module.graph.nodes
        )
    )


def _is_plain(argument: Any) -> bool:
    return isinstance(argument, _PLAIN) or (
        isinstance(argument, (tuple, list)) and all(map(_is_plain, argument))
    )


def wait(module: torch.fx.GraphModule) -> None:
    """Let a module without code generate it when it is needed."""
    for name in ("forward", "_call_impl", "_code"):
        setattr(type(module), name, _Waiting(module, name))


def be_usual(owner: Any, *names: str) -> None:
    """Remove what waits from the class of a module, which may have been replaced by a subclass, as parametrizations do.

    `forward` becomes that of the class.
    """
    for each in owner.__mro__:
        for name in names:
            if isinstance(vars(each).get(name), _Waiting):
                with suppress(AttributeError):  # another thread was faster
                    setattr(each, name, owner.forward) if name == "forward" else delattr(each, name)


def generate(module: torch.fx.GraphModule) -> None:
    """Generate the code of a module that has none yet."""
    with one_build_at_a_time():
        if "_code" not in vars(module):
            generate_code(module, runs=True)


class _Waiting:
    """An attribute of the class of a module that puts the usual one in its place when it is read, but for the first call."""

    def __init__(self, module: torch.fx.GraphModule, name: str) -> None:
        self._module = weakref.ref(module)
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        module = self._module()
        if module is None:
            raise AttributeError(self._name)
        if self._name == "_call_impl" and sys._getframe(1).f_code is _CALL and not torch.jit.is_tracing():
            be_usual(owner, "_call_impl")
            return functools.partial(_first_call, module)
        generate(module)
        return getattr(owner if instance is None else instance, self._name)


def _first_call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    if "forward" in vars(module):  # somebody has set another, or this is the first call in another thread
        return module._call_impl(*args, **kwargs)
    # `forward` of an instance comes before that of its class.
    vars(module)["forward"] = functools.partial(_run, module)
    try:
        return module._call_impl(*args, **kwargs)
    finally:
        vars(module).pop("forward", None)


def _run(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return what the code of a module returns."""
    leaves = iter(flatten_by_spec((args, kwargs), module._in_spec))
    values: dict[torch.fx.Node, Any] = {}
    uses: dict[torch.fx.Node, int] = {}
    for node in module.graph.nodes:
        target: Any = node.target
        if node.op == "placeholder":
            value = next(leaves)
        elif node.op == "get_attr":
            value = attrgetter(target)(module)
        else:
            passed = torch.fx.map_arg(node.args, values.__getitem__)
            if node.op == "output":
                return unflatten_as_torch(passed[0], module._out_spec)
            named = torch.fx.map_arg(node.kwargs, values.__getitem__) if node.kwargs else {}
            value = (attrgetter(target)(module) if node.op == "call_module" else target)(*passed, **named)
        if count := len(node.users):
            values[node], uses[node] = value, count
        del value
        for each in node.all_input_nodes:  # A value is dropped after its last use.
            uses[each] -= 1
            if not uses[each]:
                del values[each]
    raise AssertionError("a graph has an output")
