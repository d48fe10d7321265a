"""What the words mean that questions are asked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["operator_named", "target_facts"]


def operator_named(word: str) -> str:
    """Return the name of an operator as nodes have it: `aten.add.Tensor` of `aten::add.Tensor`."""
    return word.replace("::", ".").removeprefix("torch.ops.")


def target_facts(word: str) -> Mapping[str, Any]:
    """Return the name of a target, and its release of torch as a number: 2006 for 2.6, and 0 for a schema that no release reads.

    `2.6` means `torch-2.6`.

    Raises:
        SchemaVersionError: there is no such target.
    """
    from graphwire.errors import SchemaVersionError
    from graphwire.evolve.targets import target_named

    try:
        target = target_named(f"torch-{word}")
    except SchemaVersionError:
        target = target_named(word)
    major, _, minor = target.release.partition(".")
    release = 1000 * int(major) + int(minor) if major.isdigit() and minor.isdigit() else 0
    return {"target": target.name, "release": release}
