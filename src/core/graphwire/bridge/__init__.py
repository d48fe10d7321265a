"""How torch comes in and out: the only part of the core that imports torch, and none that it does not run on."""

import re
import warnings

import torch

from graphwire.errors import TorchReleaseError

OLDEST = (2, 8)
"""The oldest release of torch that graphwire runs on: it is tested on."""
NEWEST = (2, 15)
"""The newest release of torch that graphwire is tested on."""


def check_release(version: str) -> None:
    """Warn of a release of torch that is newer than those that graphwire is tested on.

    Args:
        version: as torch says it, such as `2.13.0+cpu`.

    Raises:
        TorchReleaseError: the release is older than graphwire runs on.
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
