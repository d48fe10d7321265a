"""What tests of this folder share is imported by name: `spellings`, and the made-up programs of `test_canonical`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
