"""How are programs of torch converted to records and back? The only core package that imports torch.

Importing it rejects torch releases that graphwire does not support.
"""

from __future__ import annotations

import re

from graphwire.errors import TorchReleaseError, warn
from graphwire.version import NEWEST_TORCH, OLDEST_TORCH, TESTED_TORCH

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise TorchReleaseError(
        "torch is not installed, and only files can be read, converted and compared without it",
        remedy="Run: pip install 'graphwire[torch]'",
    ) from error


def check_release(version: str) -> None:
    """Warn about a torch release newer than the tested ones, and reject one older than the supported ones.

    Args:
        version: torch's own version text, such as `2.13.0+cpu`.

    Raises:
        TorchReleaseError: the release is older than the oldest supported one.
    """
    found = re.match(r"(\d+)\.(\d+)", version, re.ASCII)
    release = (int(found[1]), int(found[2])) if found else NEWEST_TORCH
    if release < OLDEST_TORCH:
        raise TorchReleaseError(
            f"graphwire runs on {TESTED_TORCH}, and torch {version} is installed",
            remedy="Install a newer torch; without it, files can still be inspected, converted and compared",
        )
    if release > NEWEST_TORCH:
        warn(f"graphwire is tested on {TESTED_TORCH}; torch {version} is newer", UserWarning)


check_release(torch.__version__)
