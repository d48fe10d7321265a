"""Writes facts and archives into the page, in a form that no text of a program can leave."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib.resources import files

import msgspec

from graphwire.viewer.facts import Facts

_PLACEHOLDER = b"<!-- graphwire:data -->"
"""Where the page takes its data. The page without data is a viewer for files that are dropped on it."""

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""Characters of markup, in JSON. Other characters beyond ASCII are escaped by JSON itself."""


def page_pieces(facts: Facts, archives: Sequence[bytes]) -> list[bytes]:
    """Return a page, in pieces.

    Args:
        facts: what the page shows beside the archives.
        archives: one archive or, for a difference, two (`embedded`).
    """
    before, placeholder, after = _template().partition(_PLACEHOLDER)
    assert placeholder, "page.html has no place for data"
    pieces = [before, b'<script type="application/json" id="graphwire-facts">', _json(facts), b"</script>\n"]
    for index, archive in enumerate(archives):
        head = f'<script type="application/octet-stream" id="graphwire-file-{index}">'
        pieces += [head.encode(), base64.b64encode(archive), b"</script>\n"]
    return [*pieces, after]


def _template() -> bytes:
    return files("graphwire.viewer").joinpath("page.html").read_bytes()


def _json(facts: Facts) -> bytes:
    """Return facts as JSON in ASCII, without a character that could end a script or begin a tag."""
    text = json.dumps(msgspec.to_builtins(facts), allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode("ascii")
