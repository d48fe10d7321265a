"""Which files do the words of a command line name? They are listed lazily, with sizes and stamps, and none is read."""

from graphwire_fleet.sources.listing import files_of
from graphwire_fleet.sources.trees import has_local_file, local_file

__all__ = ["files_of", "has_local_file", "local_file"]
