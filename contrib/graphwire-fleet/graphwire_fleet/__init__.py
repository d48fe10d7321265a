"""Commands on any number of exported programs: `graphwire fleet`."""

from __future__ import annotations

from typing import Any

import graphwire

__all__: list[str] = []


@graphwire.hookimpl
def graphwire_commands() -> list[Any]:
    """Return the command `fleet`."""
    from graphwire_fleet.command import FleetCommand

    return [FleetCommand()]
