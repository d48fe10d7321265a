"""States of script objects: what torch gives comes back, and nothing else reaches torch's C++."""

from __future__ import annotations

import logging
import multiprocessing
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from graphwire.errors import DecodeError, EncodeError, GraphwireError
from graphwire_plugins.constants import JaggedTensors, PlainSubclasses, QuantizedTensors
from graphwire_plugins.object_codecs import ScriptObjects, encode_data
from graphwire_plugins.script_states import STATES

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")

_QUANTIZED = "__torch__.torch.classes.quantized."


def _whole(*sizes: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(sizes), 0.1, 0, torch.qint8)


def _by_channel(*sizes: int) -> torch.Tensor:
    scales, zeros = torch.rand(sizes[0]).double() + 0.1, torch.zeros(sizes[0]).long()
    return torch.quantize_per_channel(torch.randn(sizes), scales, zeros, 0, torch.qint8)


_PACKED: dict[str, Callable[[Any], Any]] = {
    "linear": lambda ops: ops.linear_prepack(_whole(6, 8), torch.randn(6)),
    "linear by channel": lambda ops: ops.linear_prepack(_by_channel(6, 8), None),
    "convolution": lambda ops: ops.conv2d_prepack(
        _whole(4, 3, 3, 3), torch.randn(4), [1, 1], [0, 1], [1, 2], 1
    ),
    "convolution in groups": lambda ops: ops.conv2d_prepack(
        _by_channel(4, 1, 3, 3), None, [2, 1], [0, 1], [1, 2], 4
    ),
    "convolution of volumes": lambda ops: ops.conv3d_prepack(
        _whole(4, 3, 3, 3, 3), None, [1, 1, 1], [0, 1, 1], [1, 2, 1], 1
    ),
    "transposed": lambda ops: ops.conv_transpose2d_prepack(
        _whole(4, 3, 3, 3), torch.randn(6), [2, 2], [0, 1], [1, 1], [1, 1], 2
    ),
}


def _packed() -> Iterator[Any]:
    """An object of each kind that this machine packs."""
    for name, make in _PACKED.items():
        try:
            yield make(torch.ops.quantized)
        except RuntimeError:
            logging.getLogger(__name__).info("this machine packs no %s", name)


@pytest.fixture(params=_PACKED)
def packed(request: pytest.FixtureRequest) -> Any:
    try:
        return _PACKED[request.param](torch.ops.quantized)
    except RuntimeError as error:
        pytest.skip(f"this machine packs none: {error}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def test_packed_parameters_come_back(packed: Any) -> None:
    again = ScriptObjects().decode(*ScriptObjects().encode(packed))
    assert again._type().qualified_name() == packed._type().qualified_name()
    assert _same(again.__getstate__(), packed.__getstate__())


@pytest.mark.parametrize("name", ["aten.OpaqueObject", "c10d.ProcessGroup", "somebody.Elses"])
def test_a_class_whose_states_nobody_knows_is_left_to_a_plugin(name: str) -> None:
    with pytest.raises(DecodeError, match="graphwire cannot check states of") as caught:
        ScriptObjects().decode({"class": f"__torch__.torch.classes.{name}", "state": "x"}, [])
    assert "constant codec" in caught.value.remedy


def test_every_class_of_torch_that_takes_a_state_has_a_row_or_a_reason() -> None:
    setters = [each for each in torch._C._jit_get_custom_class_schemas() if each.name == "__setstate__"]
    names = {str(each.arguments[0].type) for each in setters}
    # XNNPACK's operators of torch 2.8 pack their weights for the processor.
    xnnpack = (f"xnnpack.{name}OpContext" for name in ("Conv2d", "Linear", "TransposeConv2d"))
    dropped = {f"{_QUANTIZED}EmbeddingPackedParamsBase"} | {
        f"__torch__.torch.classes.{name}" for name in ("rnn.CellParamsBase", "aten.OpaqueObject", *xnnpack)
    }
    torchs = {name for name in names if "_TorchScriptTesting" not in name}
    assert torchs - dropped <= set(STATES)


@pytest.mark.parametrize(
    ("place", "number"),
    [(0, 3), (1, 0), (1, -1), (3, -1), (5, 0), (7, 1), (9, 0), (9, -1), (9, 3), (10, 1), (10, 2)],
)
def test_a_number_of_a_convolution_that_ends_the_process_is_refused(place: int, number: int) -> None:
    tensors: list[Any] = []
    config = torch.tensor([2, 1, 1, 0, 1, 1, 2, 0, 0, 1, 0], dtype=torch.int16)
    config[place] = number
    # A transposed one of this weight has three outputs, not four.
    state = encode_data(("2", [config, _whole(4, 3, 3, 3)], [torch.randn(4)]), tensors)
    with pytest.raises(DecodeError, match="not valid for a"):
        ScriptObjects().decode({"class": f"{_QUANTIZED}Conv2dPackedParamsBase", "state": state}, tensors)


def _changed(value: Any, rnd: random.Random) -> Any:
    """A state with something in it that does not belong there."""
    if isinstance(value, (list, tuple)) and value and rnd.random() < 0.9:
        items, index = list(value), rnd.randrange(len(value))
        how = rnd.random()
        if how < 0.85:
            items[index] = _changed(items[index], rnd)
        elif how < 0.92:
            del items[index]
        else:
            items.insert(index, items[index])
        return type(value)(items)
    if isinstance(value, torch.Tensor):
        try:
            return rnd.choice(_TENSORS)(value, rnd)
        except RuntimeError:  # torch does not do this to every quantized tensor
            return None
    if type(value) is int:
        return rnd.choice([0, 1, -1, 2, 2**15, 2**62])
    return rnd.choice([None, 1, "2", "3", [], torch.ones(4), [torch.ones(3)]])


def _poked(value: torch.Tensor, rnd: random.Random) -> torch.Tensor:
    if value.is_floating_point() or value.is_quantized:
        return torch.randn(value.shape)
    poked = value.clone()
    poked[rnd.randrange(poked.numel())] = rnd.choice([0, 1, -1, 2, 3, 4, 100, 32767, -32768])
    return poked


_TENSORS: list[Callable[[torch.Tensor, random.Random], Any]] = [
    _poked,
    _poked,
    lambda value, rnd: rnd.choice([torch.empty(0), torch.ones(()), torch.empty(3, device="meta"), None]),
    lambda value, rnd: torch.ones(4).to_sparse(),
    lambda value, rnd: _whole(*rnd.choices([1, 2, 3, 4, 8], k=rnd.randrange(1, 6))),
    lambda value, rnd: _by_channel(*rnd.choices([1, 2, 3, 4, 8], k=rnd.randrange(1, 6))),
    lambda value, rnd: value.transpose(0, -1),
    lambda value, rnd: value.as_strided([10**6] * value.dim(), [0] * value.dim()),
    lambda value, rnd: value[..., :1] if value.dim() else value,
]


def _fuzz(rounds: int) -> None:
    """Decodes states at random. In a process of its own, which torch's C++ may end."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    codec = ScriptObjects()
    made = 0
    for each in _packed():
        name, state = str(each._type().qualified_name()), torch.ScriptObject.__getstate__(each)[0]
        for seed in range(rounds):
            rnd, wrong = random.Random(seed), state
            for _ in range(rnd.choice([1, 1, 2, 3])):
                wrong = _changed(wrong, rnd)
            tensors: list[Any] = []
            tree: Any = {"class": name, "state": encode_data(wrong, tensors)}
            try:
                codec.decode(tree, tensors)
                made += 1
            except GraphwireError:
                continue
    assert made


def test_no_state_ends_the_process() -> None:
    child = multiprocessing.get_context("spawn").Process(target=_fuzz, args=(150,))
    child.start()
    child.join(120)
    assert child.exitcode == 0


# ------------------------------------------------------------------------------------------------------ other codecs


def test_tensors_that_repeat_their_memory_are_not_copied() -> None:
    large = torch.zeros(1, dtype=torch.int8).expand(10**12)
    with pytest.raises(DecodeError, match="larger than its memory"):
        QuantizedTensors().decode({"scheme": "per_tensor", "scale": 1.0, "zero_point": 0}, [large])
    tree: Any = {"dimension": 1, "shortest": None, "longest": None, "lengths": False}
    tree |= {"parameter": False, "requires_grad": False}
    with pytest.raises(DecodeError, match="larger than its memory"):
        JaggedTensors().decode(tree, [torch.ones(3, 2), torch.zeros(1, dtype=torch.int64).expand(10**12)])


def test_a_scale_for_each_channel_has_as_many_as_there_are_channels() -> None:
    tree: Any = {"scheme": "per_channel", "axis": 0}
    integers, scales, zeros = (
        torch.zeros(3, 2, dtype=torch.int8),
        torch.ones(3).double(),
        torch.zeros(3).long(),
    )
    assert QuantizedTensors().decode(tree, [integers, scales, zeros]).shape == (3, 2)
    for parts, axis in (
        ([integers, scales[:2], zeros[:2]], 0),
        ([integers, scales, zeros], 1),
        ([integers, scales, zeros], 2),
        ([integers, scales, zeros], -1),
        ([integers, zeros, zeros], 0),
    ):
        with pytest.raises(DecodeError):
            QuantizedTensors().decode({**tree, "axis": axis}, parts)


class Tagged(torch.Tensor):
    """A tensor with an attribute."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    tag: str = ""


@pytest.mark.parametrize("name", ["detach", "requires_grad", "shape", "__torch_dispatch__"])
def test_an_attribute_does_not_stand_before_a_method(name: str) -> None:
    value = torch.Tensor._make_subclass(Tagged, torch.ones(2))
    value.tag = "kept"
    tree: Any
    tree, tensors = PlainSubclasses().encode(value)
    assert PlainSubclasses().decode(tree, tensors).tag == "kept"
    with pytest.raises(DecodeError, match="would hide its methods"):
        PlainSubclasses().decode({**tree, "state": {"dict": [[name, 1]]}}, tensors)


def test_an_uninitialized_parameter_is_refused() -> None:
    tree: Any = {
        "class": "torch.nn.parameter.UninitializedParameter",
        "requires_grad": False,
        "state": {"dict": []},
    }
    with pytest.raises(DecodeError, match="has no elements"):
        PlainSubclasses().decode(tree, [torch.ones(2)])


def test_an_object_whose_state_could_not_be_loaded_is_not_saved() -> None:
    make = torch.ops.mkldnn_prepacked.conv2d_prepack
    try:
        value = make(torch.randn(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], 1, [1, 3, 8, 8], "relu")
    except RuntimeError as error:
        pytest.skip(f"this torch is built without it: {error}")
    with pytest.raises(EncodeError, match="not valid for a"):
        ScriptObjects().encode(value)  # torch leaves `relu` out of the state
