"""Weights and constants that codecs write: what the framework keeps of them, and that what is saved can be loaded."""

from __future__ import annotations

import enum
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from torch.testing._internal.two_tensor import TwoTensor

import graphwire
from graphwire.errors import EncodeError
from graphwire.hooks import Registry


class Eye(torch.Tensor):
    """A tensor that its size alone describes."""

    @staticmethod
    def __new__(cls, rows: int) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (rows, rows))

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.detach.default:
            return Eye(args[0].shape[0])
        full = [torch.eye(each.shape[0]) if isinstance(each, Eye) else each for each in args]
        return function(*full, **(kwargs or {}))


class EyeCodec:
    """Writes no tensor; what it does besides is set by a test."""

    name = "eye"
    tree: Any = None
    change: Callable[[Any], Any] = staticmethod(lambda made: made)
    parts: Callable[[], list[Any]] = list

    def owns(self, value: Any) -> bool:
        return type(value) is Eye

    def encode(self, value: Any) -> tuple[Any, list[Any]]:
        return (value.shape[0] if self.tree is None else self.tree), self.parts()

    def decode(self, tree: Any, tensors: Any) -> Any:
        return self.change(Eye(tree) if type(tree) is int else tensors)


def registry_of(codec: Any) -> Registry:
    return registry_with(constant_codecs=[codec])


@pytest.fixture
def program() -> Any:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def saved(program: Any, tmp_path: Path, registry: Registry | None = None) -> Path:
    file = tmp_path / "kept.pt2"
    graphwire.save(program, file, registry=registry)
    return file


KINDS: dict[str, Callable[[], Any]] = {
    "parameter": lambda: torch.nn.Parameter(Eye(2)),
    "frozen parameter": lambda: torch.nn.Parameter(Eye(2), requires_grad=False),
    "buffer": lambda: torch.nn.Buffer(Eye(2), persistent=False),
    "tensor": lambda: Eye(2),
    "tensor with gradients": lambda: Eye(2).requires_grad_(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("homes", list(itertools.product(["weights", "constants"], repeat=2)))
def test_a_value_without_tensors_is_what_it_was_where_it_was(
    kind: str, homes: tuple[str, str], program: Any
) -> None:
    registry, value = registry_of(EyeCodec()), KINDS[kind]()
    folders = {"weights": program.state_dict, "constants": program.constants}
    for name, home in zip(("one", "other"), homes, strict=True):
        folders[home][name] = value
    loaded = graphwire.loads(graphwire.dumps(program, registry=registry), registry=registry)
    folders = {"weights": loaded.state_dict, "constants": loaded.constants}
    one, other = (folders[home][name] for name, home in zip(("one", "other"), homes, strict=True))
    assert one is other
    assert type(one) is Eye
    assert isinstance(one, torch.nn.Parameter) == isinstance(value, torch.nn.Parameter)
    assert (one.requires_grad, getattr(one, "persistent", None)) == (
        value.requires_grad,
        getattr(value, "persistent", None),
    )
    assert sum(map(len, folders.values())) == 2


def test_a_codec_need_not_know_that_its_value_is_no_parameter(program: Any) -> None:
    codec = EyeCodec()
    codec.change = lambda made: torch.nn.Parameter(made)  # type: ignore[method-assign]
    program.state_dict["kept"] = Eye(2)
    data = graphwire.dumps(program, registry=registry_of(codec))
    kept = graphwire.loads(data, registry=registry_of(codec)).state_dict["kept"]
    assert not isinstance(kept, torch.nn.Parameter)
    assert not kept.requires_grad


def test_parts_take_no_name_of_another_value(program: Any) -> None:
    value = TwoTensor(torch.ones(2), torch.zeros(2))
    program.state_dict.update({"a": value, "a#0": torch.ones(1)})
    program.constants["a#1"] = torch.ones(3)
    loaded = graphwire.loads(graphwire.dumps(program))
    assert [type(each) for each in loaded.state_dict.values()] == [TwoTensor, torch.Tensor]
    assert loaded.constants["a#1"].tolist() == [1.0, 1.0, 1.0]


# ------------------------------------------------------------------------------------------- refused at save


FAULTS: dict[str, Callable[[Any], Any]] = {
    "raises": lambda made: 1 / 0,
    "gives nothing": lambda made: None,
    "gives another shape": lambda made: Eye(3),
    "gives another element type": lambda made: torch.ones(2, 2, dtype=torch.int32),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_codec_that_cannot_read_what_it_wrote_is_refused(name: str, program: Any, tmp_path: Path) -> None:
    codec = EyeCodec()
    codec.change = FAULTS[name]  # type: ignore[method-assign]
    program.state_dict["kept"] = Eye(2)
    with pytest.raises(EncodeError, match=r"^kept: .*the constant codec eye"):
        saved(program, tmp_path, registry_of(codec))
    assert list(tmp_path.iterdir()) == []


def test_a_codec_that_fails_at_the_question_costs_what_nobody_else_owns(program: Any, tmp_path: Path) -> None:
    codec = EyeCodec()
    codec.owns = lambda value: value.rows  # type: ignore[method-assign]
    registry = registry_of(codec)
    program.state_dict["kept"] = torch.eye(2).to_sparse()
    assert graphwire.load(saved(program, tmp_path, registry), registry=registry).state_dict["kept"].is_sparse
    program.state_dict["kept"] = Eye(2)
    with pytest.raises(
        EncodeError, match=r"^kept: .*`owns` of the constant codec 'eye' of .* fails: .*rows"
    ) as caught:
        saved(program, tmp_path, registry)
    assert "GRAPHWIRE_DISABLE_PLUGINS" in caught.value.remedy


def test_a_codec_that_writes_into_its_parts_is_refused_before_the_programs_own_are_touched(
    program: Any, tmp_path: Path
) -> None:
    own, codec = torch.ones(2, 2), EyeCodec()
    codec.tree, codec.parts = [], lambda: [own]  # type: ignore[method-assign]
    codec.change = lambda tensors: tensors[0].add_(1)  # type: ignore[method-assign]
    program.state_dict["kept"] = Eye(2)
    with pytest.raises(EncodeError, match="writes into the tensors that it reads"):
        saved(program, tmp_path, registry_of(codec))
    assert own.tolist() == [[1, 1], [1, 1]]


class Labelled(torch.Tensor):
    """A subclass that any process can import."""


def _unordered() -> Any:
    indices, values = torch.tensor([[0, 9]]), torch.ones(2)
    return torch.sparse_coo_tensor(indices, values, (3,), check_invariants=False)


def _not_here(module: str, qualname: str) -> Any:
    kind = type("Labelled", (torch.Tensor,), {})
    kind.__module__, kind.__qualname__ = module, qualname
    return torch.ones(2).as_subclass(kind)


class _Opaque:
    """No data."""


def _with_attribute(value: Any) -> Any:
    labelled = torch.ones(2).as_subclass(Labelled)
    labelled.note = value  # type: ignore[attr-defined]
    return labelled


class _LocalToATest(enum.Enum):
    ONE = 1


_LocalToATest.__qualname__ = "f.<locals>._LocalToATest"

NOT_LOADABLE: dict[str, Callable[[], Any]] = {
    "a class of a function": lambda: _not_here(__name__, "f.<locals>.Labelled"),
    "a class of the program that runs": lambda: _not_here("__main__", "Labelled"),
    "a class of no module": lambda: _not_here("nowhere.at.all", "Labelled"),
    "a class that another one hides": lambda: _not_here(__name__, "Labelled"),
    "indices beyond the sizes": _unordered,
    "an attribute that is an object": lambda: _with_attribute(_Opaque()),
    "an attribute that is a function": lambda: _with_attribute(lambda: None),
    "an attribute of a local enum": lambda: _with_attribute(_LocalToATest.ONE),
    "a layout of oneDNN": lambda: torch.ones(2, 2).to_mkldnn(),
    "inside a function transform": lambda: torch._C._functorch._add_batch_dim(torch.ones(2, 2), 0, 1),
    "an object": object,
}


@pytest.mark.parametrize("name", NOT_LOADABLE)
@pytest.mark.parametrize("home", ["state_dict", "constants"])
def test_what_a_fresh_process_could_not_load_is_refused_by_name(
    name: str, home: str, program: Any, tmp_path: Path
) -> None:
    getattr(program, home)["kept"] = NOT_LOADABLE[name]()
    with pytest.raises(EncodeError, match="kept"):
        saved(program, tmp_path)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- accepted, and loaded

_DENSE = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
LOADABLE: dict[str, Callable[[], Any]] = {
    "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "negative": lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "sparse on meta": lambda: _DENSE.to_sparse().to("meta"),
    "compressed on meta": lambda: _DENSE.to_sparse_csr().to("meta"),
    "a subclass on meta": lambda: TwoTensor(torch.ones(2, device="meta"), torch.ones(2, device="meta")),
    "a plain subclass on meta": lambda: torch.ones(2, device="meta").as_subclass(Labelled),
    "a subclass in a subclass": lambda: TwoTensor(TwoTensor(torch.ones(2), torch.ones(2)), torch.ones(2)),
    "compressed": lambda: _DENSE.to_sparse_csr(),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged),
    "expanded": lambda: TwoTensor(torch.ones(1).expand(3), torch.ones(1).expand(3)),
    "of no element": lambda: TwoTensor(torch.ones(0), torch.ones(0)),
    "a plain subclass": lambda: _with_attribute({"a": (1, torch.float32), "t": torch.ones(2)}),
    "of inference": torch.inference_mode()(lambda: TwoTensor(torch.ones(2), torch.ones(2))),
    "a frozen parameter": lambda: torch.nn.Parameter(TwoTensor(torch.ones(2), torch.ones(2)), requires_grad=False),
    "quantized": lambda: torch._empty_affine_quantized([2], scale=0.5, zero_point=3, dtype=torch.quint8),
    "a quantized parameter": lambda: torch.nn.Parameter(
        torch._empty_affine_quantized([2], scale=0.5, zero_point=3, dtype=torch.quint8), requires_grad=False
    ),
}  # fmt: skip

_LOADER = """
import sys, warnings
import importlib
sys.path.insert(0, sys.argv[2])
import torch, graphwire
importlib.import_module(sys.argv[3])
from torch.testing._internal.two_tensor import TwoTensor
warnings.simplefilter("ignore")
program = graphwire.load(sys.argv[1])
for name, value in {**program.state_dict, **program.constants}.items():
    print(name, type(value).__name__, isinstance(value, torch.nn.Parameter), value.requires_grad, tuple(value.shape),
          value.dtype, value.layout, value.device)
"""


_SYMBOL = re.compile(r"\bj\d+\b")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_accepted_is_loaded_by_a_fresh_process(program: Any, tmp_path: Path) -> None:
    lines = []
    for index, make in enumerate(LOADABLE.values()):
        for home in ("state_dict", "constants"):
            value = make()
            getattr(program, home)[f"{home}{index}"] = value
            lines.append(
                f"{home}{index} {type(value).__name__} {isinstance(value, torch.nn.Parameter)} {value.requires_grad} "
                f"{tuple(value.shape)} {value.dtype} {value.layout} {value.device}"
            )
    file = saved(program, tmp_path)
    root = Path(__file__).parents[__name__.count(".")]
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOADER, file, root, __name__],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },  # this module imports helpers of the tests
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    # Symbols of lengths are counted in each process.
    assert sorted(_SYMBOL.sub("j", told.stdout).splitlines()) == sorted(
        _SYMBOL.sub("j", each) for each in lines
    )
