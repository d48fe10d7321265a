"""Bounds on what a file may make us do, with defaults that real models never meet."""

from __future__ import annotations

from dataclasses import dataclass

from graphwire.wire.pickle_limits import DEFAULT_PICKLE_LIMITS, PickleLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds in force while a file is read. A caller who trusts a file raises them with `dataclasses.replace`.

    Mapped payloads have no bound of their own: they take no memory until they are used, and never reach past the file.
    """

    program_bytes: int = 1 << 30
    """Bytes of one record that is read into memory (after inflation). A 10,000-node program takes about 10 MiB."""
    inflate_ratio: int = 500
    """Bytes out for each byte in, of a deflated record. Programs of many equal layers come to about 40."""
    inflate_free_bytes: int = 16 << 20
    """Records that inflate to at most so many bytes may have any ratio."""
    unmapped_bytes: int = 64 << 30
    """Bytes read from a source that can only be read from front to back (a pipe, an object without a file)."""
    records: int = 1_000_000
    """Members of one archive."""
    name_bytes: int = 4096
    """Bytes of one member's name."""
    tree_depth: int = 400
    """Containers inside each other in one document. No format of ours reaches further than 400 (`tree.MAX_DEPTH`)."""
    tree_nodes: int = 1 << 26
    """Values (containers and scalars, without keys) in one document."""
    containers: int = 1 << 23
    """Lists and dicts in one document, told before any is made: an empty one is a byte or more there, and 56 and more in
    memory. Counted a little too high where text looks like one. A program of 100,000 nodes has 1.5 million."""
    pickle: PickleLimits = DEFAULT_PICKLE_LIMITS
    """The bounds on each pickle of an old file: weights, constants, example inputs."""


DEFAULT_LIMITS = Limits()
