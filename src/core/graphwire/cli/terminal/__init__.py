"""How does a command print, within the terminal's width, and in colour where it is wanted?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.cli.terminal.option_names import as_command
    from graphwire.cli.terminal.output import ColorChoice, Output, columns, failure_lines, failure_tree
    from graphwire.cli.terminal.sections import Section, escaped, size_text
else:
    __getattr__ = door(
        __name__,
        {
            ".option_names": "as_command",
            ".output": "ColorChoice Output columns failure_lines failure_tree",
            ".sections": "Section escaped size_text",
        },
    )

__all__ = [
    "ColorChoice",
    "Output",
    "Section",
    "as_command",
    "columns",
    "escaped",
    "failure_lines",
    "failure_tree",
    "size_text",
]
