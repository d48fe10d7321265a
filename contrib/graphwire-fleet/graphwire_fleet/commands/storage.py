"""The option `--storage-options` of actions that read no files by patterns."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["storage_options"]


def storage_options(text: str) -> dict[str, Any]:
    """Return the options of a file system from JSON."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("this is not a JSON object, such as '{\"anon\": true}'")
    return found
