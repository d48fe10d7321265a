"""What does each command read and print?

The command `graphwire` inspects, converts, compares and verifies files, and lists plugins, without torch.

Exit codes: 0 all is good; 1 problems or differences found; 2 it could not be done; 130 interrupted.
"""

from graphwire.cli.commands import main

__all__ = ["main"]
