"""Puts this folder's programs where its tests import them from, and makes each once."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
