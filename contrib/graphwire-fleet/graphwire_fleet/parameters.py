"""What the words mean that questions are asked with."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from graphwire.errors import GraphwireError
from graphwire_fleet.operator_names import plain_name, spellings

_MOST_NEAR = 3


class UnknownNameError(GraphwireError):
    """A question is asked with a name that nothing in the catalogue has."""


def operators_named(word: str, targets: Iterable[str]) -> Mapping[str, Any]:
    """Return the targets of nodes that a name means: with or without its namespace and its overload.

    Args:
        word: such as `cat`, `aten.cat`, `aten::cat.default` or `torch.ops.aten.cat`.
        targets: the targets in the catalogue.

    Raises:
        UnknownNameError: it means none.
    """
    spelled = {target: spellings(target) for target in targets}
    wanted = plain_name(word)
    found = sorted(target for target, names in spelled.items() if wanted in names)
    if not found:
        known = [name for names in spelled.values() for name in names]
        raise _unknown(f"no program of the catalogue calls an operator {word!r:.80}", wanted, known)
    return {"targets": found}


def distribution_named(word: str | None, names: Iterable[str]) -> Mapping[str, Any]:
    """Return the distribution of a name, in which `-`, `_` and the case of letters make no difference.

    Args:
        word: the name; None for any.
        names: those in the catalogue.

    Raises:
        UnknownNameError: it is none of them.
    """
    if word is None:
        return {"plugin": None}
    known = {_plain(name): name for name in names}
    if _plain(word) not in known:
        raise _unknown(f"no file of the catalogue needs a distribution {word!r:.80}", _plain(word), known)
    return {"plugin": known[_plain(word)]}


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name.strip()).lower()


def _unknown(problem: str, word: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a word that is none of the known ones, with the nearest."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=_MOST_NEAR)
    near += [name for name in names if word.lower() in name.lower() and name not in near][:_MOST_NEAR]
    return UnknownNameError(problem, remedy=f"There is {', '.join(near)}" if near else "")


def target_facts(word: str, _: Iterable[str] = ()) -> Mapping[str, Any]:
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
