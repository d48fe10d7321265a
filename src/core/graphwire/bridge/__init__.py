"""How are programs of torch converted to records and back? The only core package that imports torch.

Importing it rejects torch releases that graphwire does not support.
"""

import re
import warnings

from graphwire.errors import TorchReleaseError

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise TorchReleaseError(
        "torch is not installed, and only files can be read, converted and compared without it",
        remedy="Install it: pip install 'graphwire[torch]'",
    ) from error

OLDEST = (2, 8)
"""The oldest release of torch that graphwire supports and is tested on."""
NEWEST = (2, 15)
"""The newest release of torch that graphwire is tested on."""


def check_release(version: str) -> None:
    """Warn about a torch release newer than the tested ones, and reject one older than the supported ones.

    Args:
        version: torch's own version text, such as `2.13.0+cpu`.

    Raises:
        TorchReleaseError: the release is older than the oldest supported one.
    """
    found = re.match(r"(\d+)\.(\d+)", version, re.ASCII)
    release = (int(found[1]), int(found[2])) if found else NEWEST
    tested = f"torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if release < OLDEST:
        raise TorchReleaseError(
            f"graphwire runs on {tested}, and torch {version} is installed",
            remedy="Install a newer torch; without it, files can still be inspected, converted and compared",
        )
    if release > NEWEST:
        warnings.warn(f"graphwire is tested on {tested}; torch {version} is newer", UserWarning, stacklevel=2)


check_release(torch.__version__)
