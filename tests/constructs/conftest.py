"""Puts this folder's programs where its tests import them from, and makes each once."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).parent

sys.path.append(str(_FOLDER))
sys.path.append(str(_FOLDER.parent / "operators"))
