"""Exported PyTorch programs as durable data: any wire format, any version, nothing executed on load.

import graphwire

graphwire.save(program, "model.gw", format="msgpack")
program = graphwire.load("model.gw")
"""

from graphwire.api import *  # noqa: F403 `graphwire.api` lists the public names
from graphwire.api import __all__ as __all__
