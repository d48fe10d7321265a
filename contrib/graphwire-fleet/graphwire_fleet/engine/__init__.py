"""How is work done on any number of files, within bounds, in several processes or on several machines?"""

from graphwire_fleet.engine.runs import run

__all__ = ["run"]
