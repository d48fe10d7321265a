"""Calls of Triton kernels: a graph knows a kernel, and its constant arguments, by places in tables of the process.

A record has the kernel's module, name and source text, and the constants themselves. A process that loads looks the kernel up
among those that torch's table has; nothing is imported, and no source is compiled. Where it is not there, the node is complete
but for the kernel, and running it is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphwire.errors import DecodeError, EncodeError, UnknownOperatorError
from graphwire.schema.graph import Argument, ArgumentKind, NamedArgument

__all__ = ["MissingKernel", "decode_launch", "encode_launch", "is_launch"]

_INPUT = "launch"


@dataclass(frozen=True)
class MissingKernel:
    """A kernel that a program calls, and that this process does not have."""

    module: str
    name: str
    source: str

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UnknownOperatorError(
            f"the Triton kernel {self.module}.{self.name} is not in this process",
            remedy="Before you load, import its module and give it to torch: "
            "`torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.add_kernel(kernel)`",
        )


def is_launch(target: Any) -> bool:
    """Whether a higher-order operator calls a Triton kernel."""
    return str(target.name()).startswith("triton_kernel_wrapper_")


def encode_launch(
    args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
) -> list[NamedArgument]:
    """A call as one record.

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
    module, name, source = _identity(kernel)
    rest = {key: value for key, value in kwargs.items() if key not in ("kernel_idx", "constant_args_idx")}
    launch = {
        "kernel": {"module": module, "name": name, "source": source},
        "constants": dict(constants),
        "rest": rest,
    }
    return [NamedArgument(_INPUT, encode(launch), ArgumentKind.KEYWORD)]


def decode_launch(
    inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call; None for a record that torch wrote, which has another form.

    Raises:
        DecodeError: the record is none that `encode_launch` makes.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    if [named.name for named in inputs] != [_INPUT]:
        return None
    match decode(inputs[0].arg):
        case {
            "kernel": {"module": str(module), "name": str(name), "source": str(source)},
            "constants": dict(constants),
            "rest": dict(rest),
        }:
            wanted = (module, name, source)
            known = (each for each in table.id_to_kernel.values() if _identity(each) == wanted)
            kernel: Any = next(known, None) or MissingKernel(*wanted)
            places = (place for place, each in table.constant_args.items() if each == constants)
            place = next(places, None)
            return (), {
                "kernel_idx": table.add_kernel(kernel),
                "constant_args_idx": table.add_constant_args(constants) if place is None else place,
                **rest,
            }
    raise DecodeError("no call of a Triton kernel is described here")


def _identity(kernel: Any) -> tuple[str, str, str]:
    """The module, name and source text of a kernel; those of the function that others (a tuner, heuristics) wrap."""
    if isinstance(kernel, MissingKernel):
        return kernel.module, kernel.name, kernel.source
    while hasattr(getattr(kernel, "fn", None), "fn"):
        kernel = kernel.fn
    function = getattr(kernel, "fn", kernel)
    source = getattr(kernel, "src", "")
    return function.__module__, function.__qualname__, source if isinstance(source, str) else ""
