"""How is work done on any number of files, within bounds, in several processes or on several machines?"""

from graphwire_fleet.engine.bounded import FleetError
from graphwire_fleet.engine.progress import CLEAR
from graphwire_fleet.engine.runs import Files, Summary, run

__all__ = ["CLEAR", "Files", "FleetError", "Summary", "run"]
