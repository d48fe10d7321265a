"""Element types, layouts and places of tensors."""

from __future__ import annotations

from typing import Any

import torch
from construct import Family, holding
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram, export

tensors = Family("tensors")

_DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype)}, key=str)
_QUANTIZED = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}


def _of_type(dtype: torch.dtype) -> ExportedProgram:
    elements = torch.arange(32, dtype=torch.uint8)
    weight = elements.view(dtype) if dtype is not torch.bool else elements > 7
    module = holding(lambda self, x: (x, self.weight), weight=nn.Buffer(weight))
    return export(module, (torch.ones(2),), strict=False)


for _dtype in _DTYPES:
    if _dtype not in _QUANTIZED:
        tensors.add(
            f"a weight of {str(_dtype).removeprefix('torch.')}",
            lambda d=_dtype: _of_type(d),
            (torch.ones(2),),
        )


def _held(weight: Tensor) -> ExportedProgram:
    """A program that returns a weight with something that it computes."""
    module = holding(lambda self, x: (x + 1, self.weight), weight=nn.Buffer(weight))
    return export(module, (torch.ones(2),), strict=False)


_GRID = torch.arange(24.0).reshape(2, 3, 4)
_LAYOUTS: dict[str, Any] = {
    "sparse COO": lambda: torch.eye(3).to_sparse(),
    "sparse CSR": lambda: torch.eye(3).to_sparse_csr(),
    "sparse CSC": lambda: torch.eye(3).to_sparse_csc(),
    "sparse BSR": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "sparse BSC": lambda: torch.eye(4).to_sparse_bsc((2, 2)),
    "a storage offset": lambda: _GRID.reshape(-1)[6:12],
    "channels last": lambda: torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "expanded": lambda: torch.ones(1, 3).expand(4, 3),
    "transposed": lambda: _GRID.transpose(0, 2),
    "a scalar": lambda: torch.tensor(2.5),
    "no elements": lambda: torch.empty(0, 3),
    "conjugate and negative bits": lambda: torch.ones(3, dtype=torch.complex64).conj().imag,
}
for _name, _make in _LAYOUTS.items():
    tensors.add(f"a weight: {_name}", lambda make=_make: _held(make()), (torch.ones(2),))


def _aliased() -> ExportedProgram:
    whole = torch.arange(12.0)
    module = holding(
        lambda self, x: (x + self.head.sum(), self.tail), head=nn.Buffer(whole[:8]), tail=nn.Buffer(whole[4:])
    )
    return export(module, (torch.ones(2),), strict=False)


tensors.add("two weights over one storage in part", _aliased, (torch.ones(2),))


_ALIASES: dict[str, Any] = {
    "a buffer that is not saved, over a parameter": lambda whole: {
        "kept": nn.Parameter(whole),
        "lent": nn.Buffer(whole, persistent=False),
    },
    "a buffer that is not saved, over a part of a parameter": lambda whole: {
        "kept": nn.Parameter(whole[:8]),
        "lent": nn.Buffer(whole[4:], persistent=False),
    },
    "a constant over a part of a buffer": lambda whole: {"kept": nn.Buffer(whole[2:]), "lent": whole[:4]},
    "a buffer that is a constant too": lambda whole: {"kept": nn.Buffer(whole), "lent": whole},
    "two constants over one storage": lambda whole: {"kept": whole[:4], "lent": whole[2:]},
    "one tensor as two buffers, one of them not saved": lambda whole: {
        "kept": (whole, True),
        "lent": (whole, False),
    },
}


def _sharing(attributes: dict[str, Any]) -> ExportedProgram:
    plain = {name: value for name, value in attributes.items() if not isinstance(value, tuple)}
    module = holding(lambda self, x: x + self.kept.sum() + self.lent.sum(), **plain)
    for name, value in attributes.items():
        if isinstance(value, tuple):
            module.register_buffer(name, value[0], persistent=value[1])
    return export(module, (torch.ones(2),), strict=False)


for _name, _make in _ALIASES.items():
    tensors.add(_name, lambda make=_make: _sharing(make(torch.arange(12.0))), (torch.ones(2),))


def _two_ways() -> ExportedProgram:
    weight = nn.Parameter(torch.arange(12.0))
    return _sharing({"kept": weight, "lent": (weight, False)})


# torch makes a program and no module of it.
tensors.add("a parameter as a buffer that is not saved", _two_ways, refusal="is a parameter")


def _on_meta() -> ExportedProgram:
    with torch.device("meta"):
        return export(nn.Linear(2, 3), (torch.ones(1, 2),))


def _fake() -> ExportedProgram:
    with FakeTensorMode():
        return export(nn.Linear(2, 3), (torch.ones(1, 2),))


tensors.add("weights on the meta device", _on_meta)
tensors.add("fake weights", _fake)
tensors.exported(
    "sparse inputs and values", lambda x: x.to_sparse().to_dense() + 1, torch.eye(3), strict=False
)


def _mkldnn() -> ExportedProgram:
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    program.state_dict["weight"] = torch.ones(2, 2).to_mkldnn()
    return program


tensors.add("a weight of layout mkldnn", _mkldnn, refusal="no constant codec owns it")
