"""What does each command read and print?

The command `graphwire`: look into, convert and verify archives, and list plugins, without torch.

Exit codes: 0 all is well; 1 problems were found, or an error; 2 the command line is wrong; 130 interrupted.
"""

from graphwire.cli.commands import main

__all__ = ["main"]
