"""Calls of Triton kernels, which a graph refers to by indices into tables of the process.

A record stores the kernel's module, name and source text, its tuning, and the constant arguments. A load looks the
kernel up among those in torch's table; it imports nothing and compiles no source. If the kernel is missing, only that
part of the node is incomplete: running the node raises an error that names the kernel.

torch tunes a kernel anew in each trace (`num_warps=8` in a call, configurations computed by heuristics). A process that
has the kernel itself can therefore have it tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from graphwire.errors import DecodeError, EncodeError, UnknownOperatorError
from graphwire.lazy import imported
from graphwire.schema import Argument, ArgumentKind, NamedArgument

_INPUT = "launch"
_TYPE = "triton.language"
"""The only key of the data that represents an element type of Triton."""
_CONFIGURED = frozenset({"kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg"})
"""The fields of a configuration that are plain data. Only these are passed to Triton."""
_LISTS = {"key": "keys", "reset_to_zero": "reset_to_zero", "restore_value": "restore_value"}
"""Names of arguments that tuning uses: Triton's parameter, and the attribute of its tuner."""


class MissingKernel(msgspec.Struct, frozen=True):
    """A kernel that a program calls and that this process does not have."""

    module: str
    name: str
    source: str
    tuning: list[Any] = []
    """The kernel's wrappers from the outside in: configurations to try, or heuristics."""

    def __hash__(self) -> int:
        return hash((self.module, self.name, self.source))

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UnknownOperatorError(
            f"the Triton kernel {self.module}.{self.name} is not in this process",
            remedy="Before you load, import its module and register it with torch: "
            "`torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.add_kernel(kernel)`",
        )


class TritonType(msgspec.Struct, frozen=True):
    """An element type of Triton (`fp32`) in a process that has not imported Triton."""

    name: str


def is_launch(target: Any) -> bool:
    """Whether a higher-order operator calls a Triton kernel."""
    return str(target.name()).startswith("triton_kernel_wrapper_")


def encode_launch(
    args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
) -> list[NamedArgument]:
    """Encode a kernel call as one record.

    Raises:
        EncodeError: the table has no such kernel, or a constant cannot be written.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    kernel = table.id_to_kernel.get(kwargs.get("kernel_idx", -1))
    constants = table.constant_args.get(kwargs.get("constant_args_idx", -1))
    if args or kernel is None or constants is None:
        raise EncodeError(
            "torch's table has no Triton kernel, or no constant arguments, under the number in this call",
            remedy="Save in the process that exported the program",
        )
    rest = {key: value for key, value in kwargs.items() if key not in ("kernel_idx", "constant_args_idx")}
    kernel = _described(kernel)
    identity: dict[str, Any] = {"module": kernel.module, "name": kernel.name, "source": kernel.source}
    launch = {
        "kernel": {**identity, "tuning": kernel.tuning} if kernel.tuning else identity,
        "constants": {key: _encode_constant(value) for key, value in constants.items()},
        "rest": rest,
    }
    return [NamedArgument(_INPUT, encode(launch), ArgumentKind.KEYWORD)]


def decode_launch(
    inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Decode the arguments of a kernel call; return None for a record that torch wrote, which has another form.

    Raises:
        DecodeError: `encode_launch` does not make such a record.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    if [named.name for named in inputs] != [_INPUT]:
        return None
    match decode(inputs[0].arg):
        case {
            "kernel": {"module": str(module), "name": str(name), "source": str(source), **more},
            "constants": dict(texts),
            "rest": dict(rest),
        } if isinstance(tuning := more.get("tuning", []), list):
            constants = {key: _decode_constant(value) for key, value in texts.items()}
            wanted = MissingKernel(module, name, source, tuning)
            kernels = list(reversed(table.id_to_kernel.values()))
            places = (place for place, each in reversed(table.constant_args.items()) if each == constants)
            place = next(places, None)
            return (), {
                "kernel_idx": table.add_kernel(_found(wanted, kernels) or wanted),
                "constant_args_idx": table.add_constant_args(constants) if place is None else place,
                **rest,
            }
    raise DecodeError("the record does not describe a call of a Triton kernel")


def _described(kernel: Any) -> MissingKernel:
    """Return what a file stores about a kernel: its function, and its wrappers."""
    if isinstance(kernel, MissingKernel):
        return kernel
    tuning = []
    while hasattr(getattr(kernel, "fn", None), "fn"):
        tuning.append(_layer(kernel))
        kernel = kernel.fn
    function = getattr(kernel, "fn", kernel)
    source = getattr(kernel, "src", "")
    text = source if isinstance(source, str) else ""
    return MissingKernel(function.__module__, function.__qualname__, text, tuning)


def _layer(wrapper: Any) -> dict[str, Any]:
    """Return one wrapper of a kernel as data, with functions replaced by their names."""
    if not hasattr(wrapper, "configs"):
        return {key: _named(value) for key, value in getattr(wrapper, "values", {}).items()}
    lists = {name: list(getattr(wrapper, attribute)) for name, attribute in _LISTS.items()}
    return {
        "configs": [
            {key: _named(value) for key, value in sorted(vars(config).items()) if value is not None}
            for config in wrapper.configs
        ],
        **{name: each for name, each in lists.items() if each},
    }


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(each) for key, each in value.items()}
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else _encode_constant(value)


def _found(wanted: MissingKernel, kernels: Iterable[Any]) -> Any:
    """Return the wanted kernel: one of `kernels`, or one of them with the wanted tuning; None if there is neither."""
    for kernel in kernels:
        if _described(kernel) == wanted:
            return kernel
    match wanted.tuning:
        case [{"configs": [*configs], **lists}, *inner] if _is_plain(configs, lists):
            kernel = _found(MissingKernel(wanted.module, wanted.name, wanted.source, inner), kernels)
            if kernel is not None and not isinstance(kernel, MissingKernel):
                return _tuned(kernel, configs, lists)
    return None


def _is_plain(configs: Sequence[Any], lists: Mapping[Any, Any]) -> bool:
    """Whether configurations are plain data."""
    return (
        all(isinstance(each, dict) and _CONFIGURED.issuperset(each) for each in configs)
        and all(isinstance(each.get("kwargs", {}), dict) for each in configs)
        and all(key in _LISTS and isinstance(each, list) for key, each in lists.items())
    )


def _tuned(kernel: Any, configs: Sequence[Mapping[str, Any]], lists: Mapping[Any, Any]) -> Any:
    """Return a kernel with configurations to try, built like torch's own; None if Triton is not imported."""
    triton = imported("triton")
    if triton is None:
        return None
    made = []
    for config in configs:
        constants = {key: _decode_constant(value) for key, value in config.get("kwargs", {}).items()}
        made.append(triton.Config(**{**config, "kwargs": constants}))
    return triton.autotune(configs=made, **{"key": [], **lists})(kernel)


def _encode_constant(value: Any) -> Any:
    """Encode a constant argument; an element type of Triton is replaced by its name."""
    is_type = (type(value).__module__, type(value).__name__) == ("triton.language.core", "dtype")
    return {_TYPE: value.name} if is_type or isinstance(value, TritonType) else value


def _decode_constant(value: Any) -> Any:
    match value:
        case {"triton.language": str(name)} if len(value) == 1:
            language = imported("triton.language")
            try:
                return TritonType(name) if language is None else language.dtype(name)
            except AssertionError:
                raise DecodeError(f"{name[:80]!r} is not an element type of Triton") from None
    return value
