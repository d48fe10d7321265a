"""The codecs of objects keep the contract that a plugin's codec does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphwire.testing import ConstantCodecContract
from graphwire_plugins.object_codecs import OpaqueValues, ScriptObjects

opaque_objects = pytest.importorskip("torch._library.opaque_object", reason="torch has it since 2.10")


LIBRARY_IS_HERE = True
"""Whether torch is installed with its test library of script classes. Loaded as this module is: a suite's module is all that
another process imports before it loads."""
try:
    from torch.testing._internal.torchbind_impls import load_torchbind_test_lib

    load_torchbind_test_lib()
except (ImportError, RuntimeError, OSError):
    LIBRARY_IS_HERE = False


def _script_classes() -> Any:
    """The script classes of torch's own tests."""
    if not LIBRARY_IS_HERE:
        pytest.skip("this torch is installed without its test library of script classes")
    return torch.classes._TorchScriptTesting


class TestScriptObjects(ConstantCodecContract):
    codec = ScriptObjects()
    shares_memory = False  # the classes of torch's tests give copies as their state
    examples = (
        lambda: _script_classes()._Foo(10, 20),
        lambda: _script_classes()._TensorQueue(torch.arange(3.0)),
    )

    def assert_same(self, actual: Any, expected: Any) -> None:
        assert actual._type().qualified_name() == expected._type().qualified_name()
        super().assert_same(actual.__getstate__(), expected.__getstate__())


class Rounding(getattr(opaque_objects, "OpaqueBase", object)):  # type: ignore[misc]
    """A value that torch is told to hold without looking inside."""

    def __init__(self, digits: int, modes: tuple[str, ...], offset: torch.Tensor | None = None) -> None:
        self.digits, self.modes, self.offset = digits, modes, offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rounding) and (self.digits, self.modes) == (other.digits, other.modes)

    def __hash__(self) -> int:
        return hash((self.digits, self.modes))

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Rounding({self.digits}, {self.modes})", {"Rounding": Rounding}


opaque_objects.register_opaque_type(Rounding, typ="value")


class TestOpaqueValues(ConstantCodecContract):
    codec = OpaqueValues()
    examples = (lambda: Rounding(2, ("half", "even")), lambda: Rounding(0, (), torch.arange(3.0)))

    def assert_same(self, actual: Any, expected: Any) -> None:
        assert actual == expected
        super().assert_same(actual.offset, expected.offset)
