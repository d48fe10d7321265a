"""`python -m graphwire`: the command, where its script is not on the path."""

import sys

from graphwire.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
