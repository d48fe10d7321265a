"""What reads files here: the installed versions of graphwire, its plugins and torch."""

from __future__ import annotations

from importlib import metadata

import graphwire

_ALWAYS = ("graphwire", "graphwire-fleet", "torch")


def readers() -> list[str]:
    """Return the distributions that decide what is found in a file, such as `graphwire 0.1.0`, sorted.

    torch is never imported, but its release decides which versions of operators are installed.
    """
    found = {f"{each.distribution} {each.version}" for each in graphwire.plugins() if each.distribution}
    for name in _ALWAYS:
        try:
            found.add(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return sorted(found)
