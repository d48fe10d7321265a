"""Puts the zoo, the uses of loaded programs, and the table of `tests/transformers` where they are imported from."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).parent

for _folder in (_FOLDER, _FOLDER.parent / "constructs", _FOLDER.parent / "transformers"):
    sys.path.append(str(_folder))
