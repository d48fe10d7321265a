"""Save and load exported PyTorch programs as data files: any wire format, any torch since 2.1, no code execution.

import graphwire

graphwire.save(program, "model.pt2", format="msgpack")
program = graphwire.load("model.pt2")
"""

from graphwire.api import *  # noqa: F403 `graphwire.api` lists the public names
from graphwire.api import __all__ as __all__
