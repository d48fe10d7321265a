"""Shows a page inside a notebook."""

from __future__ import annotations

from html import escape
from typing import Final

MOST_BYTES: Final = 4 << 20
"""The size of the largest page that a notebook gets: a notebook stores what it shows."""


def inline_frame(page: bytes) -> str | None:
    """Return HTML that shows a page in a frame of its own, without access to the notebook; None if the page is too large."""
    if len(page) > MOST_BYTES:
        return None
    source = escape(page.decode("utf-8"), quote=True)
    style = "width:100%;height:640px;border:1px solid #8888"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{source}"></iframe>'
