"""What a plugin's module imports."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["HEAVY_MODULES", "heavy_imports"]

HEAVY_MODULES = ("torch", "sympy", "numpy", "transformers")
"""What a plugin's module must not import before one of its functions needs it."""


def heavy_imports(module: str, heavy: tuple[str, ...] = HEAVY_MODULES) -> list[str]:
    """Which of some modules are loaded when a process of its own imports one.

    Raises:
        AssertionError: the module cannot be imported.
    """
    code = (
        f"import sys, importlib; importlib.import_module({module!r}); "
        f"print(*(name for name in {heavy!r} if name in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
