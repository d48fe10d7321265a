"""Limits on the memory and work that reading a file may take. Real models never reach the defaults."""

from __future__ import annotations

from graphwire.wire.attempts import DEFAULT_ATTEMPTS, Attempts
from graphwire.wire.bounds import Bounds
from graphwire.wire.pickle_limits import DEFAULT_PICKLE_LIMITS, PickleLimits


class Limits(Bounds, frozen=True):
    """The limits that apply while a file is read. A caller who trusts a file raises some of them.

    Mapped payloads have no limit: they take no memory until they are used, and never reach past the end of the file.
    """

    program_bytes: int = 1 << 30
    """Bytes of one record that is read into memory, after inflation. A program of 10,000 nodes takes about 10 MiB."""
    inflate_ratio: int = 500
    """Inflated bytes for each deflated byte of a record. Programs of many equal layers reach about 40."""
    inflate_free_bytes: int = 16 << 20
    """In bytes. A record that inflates to at most this size may have any ratio."""
    unmapped_bytes: int = 64 << 30
    """Bytes read from a source that cannot be mapped (a pipe, a file object without a file)."""
    records: int = 1_000_000
    """Records of one archive."""
    name_bytes: int = 4096
    """Bytes of one record's name."""
    tree_depth: int = 400
    """Nesting depth of the containers in one document. A value above 400 has no effect (`plain_trees.MAX_DEPTH`)."""
    tree_nodes: int = 1 << 26
    """Values (containers and scalars, without keys) in one document."""
    containers: int = 1 << 23
    """Lists and dicts in one document, counted before any is created: an empty one takes 1 byte in the document and at least
    56 in memory. The count is slightly too high if text contains the same bytes. A program of 100,000 nodes has 1.5 to
    3 million."""
    pickle: PickleLimits = DEFAULT_PICKLE_LIMITS
    """The limits for each pickle in a file of torch: weights, constants, example inputs."""
    remote: Attempts = DEFAULT_ATTEMPTS
    """How often a server is asked for bytes of a file at a URL, and how long it may take."""


DEFAULT_LIMITS = Limits()
