"""Does a plugin keep the contract of its hook?

Contract suites for plugin authors: subclass one, name your provider, and pytest runs the contract on it.

The suites and strategies need pytest and hypothesis (`pip install graphwire[test]`). `assert_same_program` and
`assert_same_values` need neither. No other package of graphwire imports this one.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graphwire.testing.command import CommandContract as CommandContract, run_command as run_command
    from graphwire.testing.constant_codec import ConstantCodecContract as ConstantCodecContract
    from graphwire.testing.op_handler import OpHandlerContract as OpHandlerContract
    from graphwire.testing.opset import OpsetContract as OpsetContract
    from graphwire.testing.programs import (
        assert_same_program as assert_same_program,
        assert_same_values as assert_same_values,
    )
    from graphwire.testing.strategies import trees as trees
    from graphwire.testing.treespec import TreespecContract as TreespecContract
    from graphwire.testing.weight_store import WeightStoreContract as WeightStoreContract
    from graphwire.testing.wire_format import WireFormatContract as WireFormatContract

_MODULES: Final = {
    "CommandContract": "command",
    "ConstantCodecContract": "constant_codec",
    "OpHandlerContract": "op_handler",
    "OpsetContract": "opset",
    "TreespecContract": "treespec",
    "WeightStoreContract": "weight_store",
    "WireFormatContract": "wire_format",
    "assert_same_program": "programs",
    "assert_same_values": "programs",
    "run_command": "command",
    "trees": "strategies",
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    """Import a public name on first access, so that other modules of the package load without pytest and hypothesis."""
    if name in _MODULES:
        full = f"{__name__}.{_MODULES[name]}"
        try:
            # pytest explains only the assertions of test files, and of modules that are registered before they are imported.
            if (pytest := sys.modules.get("pytest")) and full not in sys.modules:
                pytest.register_assert_rewrite(full)
            module = importlib.import_module(full)  # noqa: TID251 a module of this package
        except ModuleNotFoundError as error:
            remedy = "Run: pip install 'graphwire[test]'"
            raise ModuleNotFoundError(f"{error}. {remedy}", name=error.name) from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(_MODULES)
