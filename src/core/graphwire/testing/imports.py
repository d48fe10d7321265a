"""Check which heavy modules, such as torch, a plugin's module imports."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY_MODULES = ("torch", "sympy", "numpy", "transformers")
"""Modules that a plugin's module must import only inside its functions."""


def heavy_imports(module: str, heavy: tuple[str, ...] = HEAVY_MODULES) -> list[str]:
    """Import a module in a new process, and return which of the heavy modules that loads.

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
