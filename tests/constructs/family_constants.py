"""Weights and constants that are not plain tensors."""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import logging
from typing import Any

import torch
from construct import Family, holding
from torch import Tensor, nn
from torch._higher_order_ops.torchbind import enable_torchbind_tracing
from torch.export import Dim, ExportedProgram, export
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

constants = Family("constants")


class Scaled(torch.Tensor):
    """A tensor that is another one times a number, as a quantized weight is."""

    inner: Tensor
    scale: float
    note: Any

    @staticmethod
    def __new__(cls, inner: Tensor, scale: float, note: Any = None) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
        )
        made.inner, made.scale, made.note = inner, scale, note
        return made

    def __tensor_flatten__(self) -> Any:
        return ["inner"], {"scale": self.scale, "note": self.note}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["inner"], context["scale"], context["note"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (
            torch.ops.aten.detach.default,
            torch.ops.aten.clone.default,
            torch.ops.aten.alias.default,
        ):
            (value,) = args
            made = Scaled(function(value.inner), value.scale, value.note)
            return return_and_correct_aliasing(function, args, kwargs, made)
        plain = [value.inner * value.scale if isinstance(value, Scaled) else value for value in args]
        return function(*plain, **kwargs)


def _with_parameter(weight: Tensor) -> ExportedProgram:
    parameter = nn.Parameter(weight, requires_grad=False)
    return export(holding(lambda self, x: x * self.weight, weight=parameter), (torch.ones(3),), strict=False)


_NOTE = {"type": torch.int8, "sizes": torch.Size([1, 2]), "rows": (1, [2.5, None]), 3: "keys"}
constants.add(
    "a tensor subclass", lambda: _with_parameter(Scaled(torch.ones(3), 2.0, _NOTE)), (torch.ones(3),)
)
constants.add(
    "a tensor subclass in a tensor subclass",
    lambda: _with_parameter(Scaled(Scaled(torch.ones(3), 3.0), 2.0)),
    (torch.ones(3),),
)
constants.add(
    "a tensor subclass, decomposed",
    lambda: _with_parameter(Scaled(torch.ones(3), 2.0)).run_decompositions(),
    (torch.ones(3),),
)


constants.add(
    "a buffer of a tensor subclass",
    lambda: export(
        holding(lambda self, x: x * self.scaled, scaled=nn.Buffer(Scaled(torch.ones(3), 2.0))),
        (torch.ones(3),),
        strict=False,
    ),
    (torch.ones(3),),
)
constants.exported(
    "a tensor subclass as input and as output",
    lambda x, y: (x + y, x.clone()),
    TwoTensor(torch.ones(3, 2), torch.zeros(3, 2)),
    torch.ones(3, 2),
    calls=((TwoTensor(torch.ones(5, 2), torch.zeros(5, 2)), torch.ones(5, 2)),),
    dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
    strict=False,
)


class Named(nn.Parameter):
    """A parameter that knows more of itself, as those of libraries that place or load weights do."""

    axes: tuple[str, ...]


def _with_named() -> ExportedProgram:
    weight = Named(torch.ones(3))
    weight.axes = ("rows",)
    return export(holding(lambda self, x: x * self.weight, weight=weight), (torch.ones(3),))


constants.add("a parameter of a subclass, with attributes", _with_named, (torch.ones(3),))


def _with_constant(value: Any) -> ExportedProgram:
    """A program that holds a constant which its graph does not read: export cannot trace what is made of these."""
    program = export(holding(lambda self, x: x + 1), (torch.ones(2),))
    program.constants["held"] = value
    return program


_QUANTIZED = torch.tensor([[0.5, 1.0], [2.0, 4.0]])
constants.add(
    "quantized per tensor",
    lambda: _with_constant(torch.quantize_per_tensor(_QUANTIZED, 0.5, 3, torch.quint8)),
    (torch.ones(2),),
)
constants.add(
    "quantized per channel",
    lambda: _with_constant(
        torch.quantize_per_channel(
            _QUANTIZED, torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([0, 1]), 0, torch.qint8
        )
    ),
    (torch.ones(2),),
)
constants.add(
    "jagged",
    lambda: _with_constant(
        torch.nested.nested_tensor_from_jagged(torch.arange(10.0).reshape(5, 2), torch.tensor([0, 2, 5]))
    ),
    (torch.ones(2),),
)

# ------------------------------------------------------------------------------------------------ script objects

try:
    from torch.testing._internal.torchbind_impls import (
        init_torchbind_implementations,
        load_torchbind_test_lib,
    )

    load_torchbind_test_lib()
    with contextlib.suppress(RuntimeError):  # somebody has registered them already
        init_torchbind_implementations()
    _HAS_SCRIPT_CLASSES = True
except (ImportError, RuntimeError, OSError):
    logging.getLogger(__name__).info("this torch is installed without its test library of script classes")
    _HAS_SCRIPT_CLASSES = False

if _HAS_SCRIPT_CLASSES:
    _classes = torch.classes._TorchScriptTesting
    _operators = torch.ops._TorchScriptTesting
    constants.exported(
        "a script object, called by an operator",
        holding(lambda self, x: x + _operators.takes_foo(self.held, x), held=_classes._Foo(10, 20)),
        torch.ones(2, 3),
        context=enable_torchbind_tracing,
        strict=False,
    )
    constants.exported(
        "call_torchbind",
        holding(lambda self, x: x + self.held.add_tensor(x), held=_classes._Foo(10, 20)),
        torch.ones(2, 3),
        context=enable_torchbind_tracing,
        strict=False,
    )
    constants.add(
        "a script object whose state holds tensors",
        lambda: _with_constant(_classes._TensorQueue(torch.arange(3.0))),
        (torch.ones(2),),
    )

# --------------------------------------------------------------------------------------------- members of enumerations


class Side(enum.Enum):
    """Names that stand for themselves."""

    LEFT, RIGHT = "left", "right"


class Level(enum.IntEnum):
    """Names of numbers, whose values torch checks."""

    LOW, HIGH = 1, 2


class Scale(enum.StrEnum):
    """Names of texts."""

    LINEAR, LOG = "linear", "log"


for _member in (Side.RIGHT, Level.LOW, Scale.LOG):
    constants.exported(
        f"a member of an {type(_member).__base__.__name__} as input",
        lambda x, first, rest: x + 1 if first in (Side.RIGHT, Level.HIGH) else x * len(rest),
        torch.ones(2),
        _member,
        {"others": [*type(_member)]},
    )

# ------------------------------------------------------------------------------------------------- opaque values

try:
    from torch._opaque_base import OpaqueBase as _OpaqueBase  # 2.11 and 2.12 ask for it
except ImportError:
    _OpaqueBase = object


class Rounding(_OpaqueBase):  # type: ignore[misc, valid-type]
    """A value that torch is told to hold without looking inside."""

    def __init__(self, digits: int, modes: tuple[str, ...]) -> None:
        self.digits, self.modes = digits, modes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rounding) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.digits, self.modes))

    def __repr__(self) -> str:
        return f"Rounding({self.digits}, {self.modes})"

    def __fx_repr__(self) -> Any:
        return repr(self), {"Rounding": Rounding}


def _opaque() -> Any:
    from torch._library.opaque_object import get_opaque_type_name, is_opaque_type, register_opaque_type

    if not is_opaque_type(Rounding):
        register_opaque_type(Rounding, typ="value")
    library = torch.library.Library("graphwire_opaque", "FRAGMENT")
    library.define(f"rounded(Tensor x, {get_opaque_type_name(Rounding)} how) -> Tensor")
    library.impl("rounded", lambda x, how: x.round(decimals=how.digits), "CompositeExplicitAutograd")
    torch.library.register_fake("graphwire_opaque::rounded", lambda x, how: torch.empty_like(x), lib=library)
    return library


if importlib.util.find_spec("torch._library.opaque_object") is not None:  # since 2.10
    _LIBRARY = _opaque()
    constants.exported(
        "an opaque value",
        holding(
            lambda self, x: torch.ops.graphwire_opaque.rounded(x, self.how), how=Rounding(2, ("half", "even"))
        ),
        torch.ones(3) / 3,
        strict=False,
    )
constants.exported(
    "an opaque value as input",
    lambda x, how: torch.ops.graphwire_opaque.rounded(x, how),
    torch.ones(3) / 3,
    Rounding(1, ("half",)),
    strict=False,
)
