"""What all tests share: the programs of the demo and of `tests/api` are imported as `programs` and `small_programs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

_ROOT = Path(__file__).resolve().parents[1]

# Each registers container types with torch, so a process may load it once only, under one name.
for _folder in ("contrib/demo", "tests/api"):
    sys.path.append(str(_ROOT / _folder))

# The same examples on every run, so that a change and not chance decides; `HYPOTHESIS_PROFILE=default` looks further.
settings.register_profile("steady", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
