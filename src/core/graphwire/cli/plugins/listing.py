"""The command `plugins`, which lists the installed plugins."""

from __future__ import annotations

import argparse
from typing import Any

from graphwire.cli.files import add_json
from graphwire.cli.terminal import Output

__all__ = ["add_plugins"]


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "List the installed plugins, what they provide, and why inactive ones are inactive."
    add_json(parser)
    parser.set_defaults(run=_plugins)


def _plugins(arguments: argparse.Namespace, output: Output) -> int:
    import graphwire
    from graphwire.cli.reading.inspection import plugin_sections

    found = graphwire.plugins()
    if arguments.json:
        output.json([_plugin_tree(plugin) for plugin in found])
    elif not found:
        output.line("no plugins are installed")
    else:
        output.sections(plugin_sections(found))
    return 0


def _plugin_tree(plugin: Any) -> dict[str, Any]:
    fields = (
        "name",
        "distribution",
        "version",
        "api_version",
        "hooks",
        "names",
        "load_seconds",
        "status",
        "reason",
    )
    tree = {field: getattr(plugin, field) for field in fields}
    return tree | {
        "hooks": list(plugin.hooks),
        "names": {kind: list(of) for kind, of in plugin.names.items()},
        "refused": [each._asdict() for each in plugin.refused],
    }
