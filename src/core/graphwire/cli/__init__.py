"""What does each command read and print?

The command `graphwire` inspects, converts, compares and verifies files, and lists plugins, without torch.

Exit codes: 0 success; 1 problems or differences found; 2 the command failed or its arguments are wrong; 130 interrupted.
"""

from graphwire.cli.commands import main

__all__ = ["main"]
