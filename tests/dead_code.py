"""Lists the names in the code that nothing uses, and fails where there are any. `make lint` runs it.

vulture finds them; `pyproject.toml` configures it. Python files and the examples in the documentation count as users. Tests do
not, and neither does a module's `__all__`, except the package's (`PACKAGE`).
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from vulture import Vulture
from vulture.config import make_config

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/core/graphwire/__init__.py"
"""The module whose `__all__` others import from. Others export a name by `import X as X`, which vulture knows."""
_EXAMPLE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


class _Users(Vulture):
    """vulture, with the names of an `__all__` used in the package only."""

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.filename == PACKAGE:
            super().visit_Assign(node)


def main() -> int:
    """Print every name without a user.

    Returns:
        1 where there is one, otherwise 0.
    """
    config = make_config(["--config", str(ROOT / "pyproject.toml")])
    users = _Users(ignore_names=config["ignore_names"], ignore_decorators=config["ignore_decorators"])
    users.scavenge(config["paths"], exclude=config["exclude"])
    failed = users.exit_code != 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "contrib").rglob("*.md")]:
        for example in _EXAMPLE.findall(page.read_text()):
            users.scan(example, filename=page)
    unused = [item for item in users.get_unused_code() if item.filename.suffix == ".py"]
    for item in unused:
        place = item.filename.resolve().relative_to(ROOT)
        print(f"{place}:{item.first_lineno}: the {item.typ} {item.name} has no user")
    return 1 if unused or failed else 0


if __name__ == "__main__":
    sys.exit(main())
