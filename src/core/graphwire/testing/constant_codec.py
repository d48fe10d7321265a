"""Contract tests of a constant codec, for a plugin's tests to subclass.

from graphwire.testing import ConstantCodecContract

class TestPacked(ConstantCodecContract):
    codec = PackedTensors()
    examples = (lambda: pack(torch.ones(3)), lambda: pack(torch.zeros(0)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from graphwire.api.loading import load, loads
from graphwire.api.programs import dumps, from_schema, save, to_schema
from graphwire.errors import DecodeError, GraphwireError, unless_interrupted
from graphwire.registry.interfaces import ConstantCodec, Tree
from graphwire.registry.registry import Registry
from graphwire.testing.programs import assert_same_values
from graphwire.testing.suites import ProviderSuite, registry_with, saved_again
from graphwire.wire.document import measure_tree, same_tree

_PLAIN: list[Any] = [None, True, 3, 2.5, "text", b"bytes", [], {}, object(), torch.ones(2), torch.nn.ReLU()]
"""Values that no codec owns. Plain tensors need no codec."""

_JUNK: tuple[Any, ...] = (
    *(None, True, -1, 3.5, "", "text", b"", [], {}, [[]], {"x": 1}, [None], "os.system"),
    *({"class": "os.system"}, {"class": "builtins.eval", "state": ["1"]}),
    {"object": "os:system", "state": {}},
)


class ConstantCodecContract(ProviderSuite):
    """Contract tests of a constant codec. Subclass it as `TestSomething`, and set the first two attributes.

    Attributes:
        codec: the codec to test.
        examples: functions that each make a constant that the codec owns. Together they cover every form that
            matters.
        shares_memory: whether encoded tensors share the memory of the constant. False if torch only returns copies.
    """

    hook, attribute = "graphwire_constant_codecs", "codec"
    codec: ConstantCodec
    examples: Sequence[Callable[[], Any]]
    shares_memory: bool = True

    def assert_same(self, actual: Any, expected: Any) -> None:
        """Override: assert that two constants are the same, if comparing their values is not enough."""
        assert_same_values(actual, expected)

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the installed plugins, with this codec added if it is not among them."""
        return registry_with(self.codec)

    def test_it_owns_its_constants_and_nothing_plain(self) -> None:
        assert self.examples, "`examples` is empty"
        for make in self.examples:
            assert self.codec.owns(make()) is True, "`owns` is not True for an example"
        for value in _PLAIN:
            assert self.codec.owns(value) is False, f"`owns` is not False for {type(value).__name__}"

    def test_a_constant_comes_back(self) -> None:
        for make in self.examples:
            value = make()
            self._assert_again(self.codec.decode(*self.codec.encode(value)), value)

    def test_a_constant_is_a_tree_and_tensors(self) -> None:
        for make in self.examples:
            tree, tensors = self.codec.encode(make())
            measure_tree(tree)
            assert all(isinstance(tensor, torch.Tensor) for tensor in tensors), (
                "`encode` returns something else than tensors"
            )

    def test_the_same_constant_makes_the_same_tree_and_no_tensor_is_copied(self) -> None:
        for make in self.examples:
            value = make()
            (one, tensors), (other, more) = self.codec.encode(value), self.codec.encode(value)
            assert same_tree(one, other), "the same constant makes another tree"
            assert len(tensors) == len(more), "the same constant makes another number of tensors"
            for first, second in zip(tensors, more, strict=True):
                assert_same_values(first, second)
                assert first is second or not self.shares_memory or _storage(first) == _storage(second), (
                    "`encode` copies a tensor"
                )

    def test_a_file_keeps_it(self, registry: Registry) -> None:
        for make in self.examples:
            value = make()
            program = _program()
            program.constants["kept"] = value
            record, payloads = to_schema(program, registry=registry)
            assert [each.codec for each in record.encoded_values.values()][:1] == [self.codec.name], (
                "another codec encodes the example"
            )
            loaded = from_schema(record, payloads, registry=registry)
            self._assert_again(loaded.constants["kept"], value)

    @pytest.mark.parametrize("requires_grad", [False, True])
    @pytest.mark.parametrize("is_param", [False, True])
    def test_a_file_keeps_what_every_weight_has(
        self, is_param: bool, requires_grad: bool, registry: Registry
    ) -> None:
        """A codec encodes only the value. The framework stores whether it is a parameter, requires gradients or has two names."""
        for make in self.examples:
            value = _as_weight(make(), is_param, requires_grad)
            if value is None:
                continue
            program = _program()
            program.state_dict.update(kept=value, tied=value)
            program.constants["kept_too"] = value
            loaded = loads(dumps(program, registry=registry), registry=registry)
            again = loaded.state_dict["kept"]
            self._assert_again(again, value)
            assert isinstance(again, torch.nn.Parameter) == is_param, (
                "a parameter is none after a load, or the other way round"
            )
            assert again.requires_grad == requires_grad, "`requires_grad` is another after a load"
            assert loaded.state_dict["tied"] is again, "two names of one weight are two weights after a load"
            assert loaded.constants["kept_too"] is again, (
                "a weight that is a constant, too, is two after a load"
            )

    def test_another_process_loads_what_this_one_wrote(self, registry: Registry, tmp_path: Path) -> None:
        """The tree and tensors must contain the whole value: state of a codec or its classes does not reach the process that
        loads the file."""
        program = _program()
        values = {f"kept_{index}": make() for index, make in enumerate(self.examples)}
        program.constants.update(values)
        file = tmp_path / "kept.pt2"
        save(program, file, registry=registry)
        again = load(saved_again(type(self), file), registry=registry).constants
        for name, value in values.items():
            self._assert_again(again[name], value)

    def test_whatever_stands_in_a_file_is_a_constant_or_refused(self) -> None:
        for make in self.examples:
            tree, tensors = self.codec.encode(make())
            for junk in (*_JUNK, *_damaged(tree)):
                for given in (tensors, [], [*tensors, *tensors], [torch.ones(3)] * len(tensors)):
                    with suppress(GraphwireError):
                        self.codec.decode(junk, given)

    def test_what_is_no_tree_of_its_own_is_refused(self) -> None:
        trees: list[Tree] = ["os.system", {"class": "builtins.eval", "state": ["1"]}]
        for junk in trees:
            with pytest.raises(DecodeError):
                self.codec.decode(junk, [])

    def test_threads_do_not_meet(self) -> None:
        values = [make() for make in self.examples]

        def work(_: int) -> None:
            for value in values:
                self.assert_same(self.codec.decode(*self.codec.encode(value)), value)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(16)))

    def _assert_again(self, again: Any, value: Any) -> None:
        assert type(again) is type(value), "a load makes another class"
        self.assert_same(again, value)


def _program() -> ExportedProgram:
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def _damaged(tree: Tree) -> list[Tree]:
    """Return the variants of a tree in which one entry is removed or replaced."""
    if not isinstance(tree, dict):
        return []
    fewer: list[Tree] = [{k: v for k, v in tree.items() if k != key} for key in tree]
    junk: list[Tree] = [None, -1, "os.system", [[]], {}]
    other: list[Tree] = [{**tree, key: value} for key in tree for value in junk]
    return fewer + other


def _as_weight(value: Any, is_param: bool, requires_grad: bool) -> Any:
    """Return the value as a parameter or buffer; None if torch or its class does not support that."""
    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter) > is_param:
        return None
    try:
        if is_param:
            return torch.nn.Parameter(value, requires_grad=requires_grad)
        return value.requires_grad_(requires_grad)
    except unless_interrupted(RuntimeError):
        return None


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.untyped_storage().data_ptr(), tensor.storage_offset()
