"""What does a page of a program show, and where does it go? `view`, and the facts that only Python can determine."""

from graphwire.api.viewing.page_view import View, view

__all__ = ["View", "view"]
