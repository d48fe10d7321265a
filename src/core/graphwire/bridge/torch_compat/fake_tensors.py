"""Fake tensors of a decoded program's metadata, and the mode that they belong to.

torch imports `torch._dynamo` to make a fake tensor mode or a shape environment, which takes longer than all of a load. A program
with static shapes needs neither until somebody traces it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table, meta_table
from torch._functorch import config as functorch_config
from torch._library import simple_registry
from torch._ops import OpOverload
from torch._subclasses.fake_impls import _is_tensor_constructor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


class DecodedMode(FakeTensorMode):
    """The fake tensor mode of a decoded program. At its first use it sets itself up and becomes a plain `FakeTensorMode` over a
    shape environment for the symbols that a document declares.

    It runs no real kernel until `allow_tracing`.
    """

    def __init__(self) -> None:
        """Set only what decoding sets. Any other attribute is absent, and `__getattr__` sets it up."""
        self.allow_fallback_kernels = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name=name, obj=self)
        DecodedMode._set_up(self)  # another thread may have made it a plain mode meanwhile
        return getattr(self, name)

    def _set_up(self) -> None:
        """Become what torch's constructor makes, in an order in which threads may use the mode at once."""
        from torch.fx.experimental import symbolic_shapes

        environment = symbolic_shapes.ShapeEnv(assume_static_by_default=True)
        made = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment)
        state: dict[str, Any] = self.__dict__
        for name, value in vars(made).items():
            state.setdefault(name, value)
        self.__class__ = FakeTensorMode


def allow_tracing(mode: FakeTensorMode) -> None:
    """Let the mode of a complete program trace like the mode of an export: try the real kernel of a torch operator without a
    fake one, and hide the addresses of tensors."""
    mode.allow_fallback_kernels = True
    mode._allow_unsafe_data_ptr_access = False


_CPU = torch.device("cpu")


def _attributes_on(device: torch.device) -> dict[str, Any]:
    """Return the attributes of a fake tensor on a device: all but the mode are the same for each. On the CPU they stay so."""
    mode = DecodedMode()
    # What the constructor reads, which would set up the mode otherwise.
    mode.allow_meta = functorch_config.fake_tensor_allow_meta
    mode._allow_unsafe_data_ptr_access = functorch_config.fake_tensor_allow_unsafe_data_ptr_access
    return vars(FakeTensor(mode, torch.empty(0, device="meta"), device))


@functools.cache
def _cpu_attributes() -> dict[str, Any]:
    return _attributes_on(_CPU)


_META = torch.device("meta")
_set_storage = getattr(torch, "_functionalize_unsafe_set", None)


def with_own_storage(meta: torch.Tensor) -> torch.Tensor:
    """Return a meta tensor like another one, whose storage is empty, with an empty storage of its own.

    torch takes five times as long to set symbolic sizes anew: it asks each of them in Python what it is.
    """
    if _set_storage is None:
        return torch.empty(0, dtype=meta.dtype, device=_META).as_strided(
            meta.shape, meta.stride(), meta.storage_offset()
        )
    own = torch.empty(0, dtype=meta.dtype, device=_META)
    storage = own.detach()
    own.data = meta
    _set_storage(own, storage)
    return own


_make_subclass, _hide_address = torch.Tensor._make_subclass, torch._C._set_throw_on_mutable_data_ptr


class FakeTensors:
    """Makes the fake tensors of a mode.

    The constructor of a fake tensor computes attributes that are the same for all tensors of one device. That takes four
    times as long as the tensor itself, so it is called once for each device.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._attributes: dict[torch.device, dict[str, Any]] = {}
        self._makers: dict[tuple[torch.device, bool], Callable[[torch.Tensor], FakeTensor]] = {}

    def maker(self, device: torch.device, requires_grad: bool) -> Callable[[torch.Tensor], FakeTensor]:
        """Return the function that makes a fake tensor on `device` with the sizes, strides and type of a meta tensor, of which it
        takes ownership."""
        known = self._makers.get((device, requires_grad))
        if known is not None:
            return known
        attributes = self._attributes.get(device)
        if attributes is None:
            made = _cpu_attributes() if device == _CPU else _attributes_on(device)
            # A copy of an instance's own dict shares its keys, and takes a third of the memory of another dict.
            attributes = self._attributes[device] = made.copy()
            attributes["fake_mode"] = self.mode
        copy = attributes.copy

        def make(meta: torch.Tensor) -> FakeTensor:
            fake: FakeTensor = _make_subclass(
                FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
            )
            _hide_address(fake)
            fake.__dict__ = copy()
            return fake

        self._makers[device, requires_grad] = make
        return make


# ------------------------------------------------------------------------------- runs torch operators on metadata alone
# Selects operators for which only a fake or meta kernel runs.


_OWN = frozenset(("aten", "prims"))
"""The namespaces whose kernels torch itself registers."""
_UNCHECKED = "backward|::_thnn_|::quantized_|::fbgemm_"
"""Operators that only torch itself calls. Some end the process if their arguments do not match."""
_COMPOSITE = DispatchKey.CompositeImplicitAutograd
_MOST_CALLS = 1_000
"""The most operators that one operator may call."""
_MOST_RESULTS = 10_000
"""The most tensors that one operator may return in a list."""
_COUNTED = frozenset(("chunks", "sections"))
"""Parameters that set the number of parts a tensor is split into."""


class BoundExceededError(Exception):
    """An operator exceeds its bound on calls or results."""


def why_not_run(operator: Any) -> str | None:
    """Return why an operator may not run on metadata; None if it may.

    An operator may run if it is an overload that mutates no argument, takes and returns tensors, and either has a fake or
    meta kernel or belongs to torch. A body of other operators is accepted only for torch's operators, and only if torch
    registered it.
    """
    if type(operator) is not OpOverload:
        return "it is not an operator of torch's dispatcher"
    schema = operator._schema
    if schema.is_mutable or any(each.alias_info and each.alias_info.is_write for each in schema.arguments):
        return "it changes its arguments"
    if not schema.returns:
        return "it returns no result"
    if not any("Tensor" in str(each.type) for each in schema.arguments) and not is_constructor(operator):
        return "it takes no tensor"
    name = operator.name()
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "Python"):
        return "its library runs its own code in place of a fake kernel"
    if operator.namespace in _OWN:
        if re.search(_UNCHECKED, operator._schema.name):
            return "its kernels do not check their arguments"
        return "its parts are registered by another library" if _is_patched(operator) else None
    if _has_composite(operator) or (operator in decomposition_table and operator not in meta_table):
        return "its library defines it by a body of other operators, which would run"
    if simple_registry.singleton.find(name).fake_impl.kernel is None and not (
        torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta")
    ):
        return "its library registers no fake kernel"
    return None


def is_constructor(operator: OpOverload) -> bool:
    """Return whether one of torch's operators creates a tensor from sizes alone."""
    return operator.namespace in _OWN and bool(_is_tensor_constructor(operator))


def accepts_numbers(operator: OpOverload) -> bool:
    """Return whether one of torch's operators accepts a number in place of a tensor."""
    name = operator._schema.name.rpartition("::")[2]  # torch's list has names without a namespace
    return operator.namespace in _OWN and bool(torch._C._should_allow_numbers_as_tensors(name))


def _has_composite(operator: OpOverload) -> bool:
    return _COMPOSITE in operator.py_kernels or bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
    )


def _is_patched(operator: OpOverload) -> bool:
    """Return whether a library other than torch registered the Python kernel that runs for one of torch's operators on
    metadata."""
    kernels = [operator.py_kernels.get(_COMPOSITE), decomposition_table.get(operator)]
    kernels += [meta_table.get(operator), simple_registry.singleton.find(operator.name()).fake_impl.kernel]
    if any(not _is_from_torch(kernel) for kernel in kernels if kernel is not None):
        return True
    namespace, _, overload = operator.name().partition("::")
    return f"{namespace}/{overload}/CompositeImplicitAutograd" in torch.library._impls


def _is_from_torch(kernel: Any) -> bool:
    return str(getattr(kernel, "__module__", "")).partition(".")[0] == "torch"


def run_on_metadata(
    mode: FakeTensorMode, operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run an operator on the fake tensors of a mode, without side effects. `why_not_run` must be None for it.

    The call bypasses the kernels that precede the mode (autograd, autocast), so the mode handles the call first.

    Raises:
        BoundExceededError: the operator calls too many operators, or returns too many tensors.
        Exception: any error of the fake kernel.
    """
    with (
        torch.no_grad(),
        torch._C._DisableAutocast(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(DispatchKey.ADInplaceOrView)),
        _counted(mode),
        mode,
    ):
        return operator(*args, **kwargs)


@contextmanager
def _counted(mode: FakeTensorMode) -> Iterator[None]:
    """A context that bounds the number of operators a mode runs, and the number of results of each."""
    asked = mode.dispatch
    calls = 0

    def dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        nonlocal calls
        calls += 1
        if calls > _MOST_CALLS:
            raise BoundExceededError(f"it consists of more than {_MOST_CALLS:,} operators")
        if isinstance(func, OpOverload) and any("List[" in str(each.type) for each in func._schema.returns):
            count = _results(func, args, kwargs or {})
            if count is None or count > _MOST_RESULTS:
                raise BoundExceededError(f"{func} may return more than {_MOST_RESULTS:,} tensors")
        return asked(func, types, args, kwargs)

    mode.dispatch = dispatch
    try:
        yield
    finally:
        del mode.dispatch


def _results(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """Return an upper bound on the length of the list that an operator returns; None if there is no bound."""
    named = dict(zip((each.name for each in operator._schema.arguments), args, strict=False)) | dict(kwargs)
    sizes = [size for value in named.values() for size in _sizes(value)]
    if any(size is None for size in sizes):
        return None
    largest = max((size for size in sizes if size is not None), default=1)
    for name, value in named.items():
        if name == "split_size" and type(value) is int:
            return -(-largest // value) if value > 0 else 1
        if name in _COUNTED and type(value) is int:
            return value
    lists = max((len(value) for value in named.values() if isinstance(value, (list, tuple))), default=0)
    return lists or largest


def _sizes(value: Any) -> Iterator[int | None]:
    """Yield the sizes of the tensors in an argument; None for a size that is unknown before the program runs."""
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, torch.Tensor):
            for size in each.shape:
                yield size if type(size) is int else size.node.hint if size.node.has_hint() else None
