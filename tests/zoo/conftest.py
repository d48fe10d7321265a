"""Puts the zoo and the uses of loaded programs where they are imported from."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).parent

for _folder in (_FOLDER, _FOLDER.parent / "constructs"):
    sys.path.append(str(_folder))
