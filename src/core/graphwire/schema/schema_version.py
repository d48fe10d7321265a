"""Versions of torch's schema: of a document, or the first that supports a construct."""

from __future__ import annotations

from typing import NamedTuple


class Version(NamedTuple):
    """A version of the schema."""

    major: int
    minor: int = 0
    variant: str = ""

    def __str__(self) -> str:
        if self == DRAFT:
            return "draft-2022"
        number = str(self.major) if self.major < 3 else f"{self.major}.{self.minor}"
        return f"{self.variant}-{number}" if self.variant else number


DRAFT = Version(0)
