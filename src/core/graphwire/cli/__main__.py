"""`python -m graphwire.cli`."""

import sys

from graphwire.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
