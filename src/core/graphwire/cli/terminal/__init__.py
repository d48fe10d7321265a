"""How does a command print, within the terminal's width, and in colour where it is wanted?"""

from graphwire.cli.terminal.option_names import as_command
from graphwire.cli.terminal.output import ColorChoice, Output, failure_lines
from graphwire.cli.terminal.sections import Section, escaped, size_text

__all__ = [
    "ColorChoice",
    "Output",
    "Section",
    "as_command",
    "escaped",
    "failure_lines",
    "size_text",
]
