"""docs/errors.md has every class of `graphwire.errors`, each with an example that raises it."""

from __future__ import annotations

import re
from pathlib import Path

from documents import blocks_of

from graphwire import errors

PAGE = (Path(__file__).resolve().parents[2] / "docs/errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##+ (\w+)\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def below(kind: type[Exception]) -> set[str]:
    """The public classes of a tree."""
    own = set() if kind.__name__.startswith("_") else {kind.__name__}
    return own.union(*(below(each) for each in kind.__subclasses__() if each.__module__ == errors.__name__))


def test_every_class_has_a_section() -> None:
    assert set(SECTIONS) == below(errors.GraphwireError) | {"GraphwireWarning"}


def test_every_section_shows_its_error() -> None:
    for name in set(SECTIONS) - {"GraphwireWarning"}:
        shown = "".join(
            block.text for block in blocks_of(SECTIONS[name]) if block.shown or block.language == "console"
        )
        assert f"{name}: " in shown, name
