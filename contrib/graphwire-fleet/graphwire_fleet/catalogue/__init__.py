"""Where are the rows of many files kept, and how are they found again?"""

from graphwire_fleet.catalogue.catalogues import Catalogue, compact, open_catalogue
from graphwire_fleet.catalogue.folders import Folder, folder_at
from graphwire_fleet.catalogue.parts import UnreadablePartError
from graphwire_fleet.catalogue.roots import roots_of
from graphwire_fleet.catalogue.views import add_views, check_damage, connect, lock_down

__all__ = [
    "Catalogue",
    "Folder",
    "UnreadablePartError",
    "add_views",
    "check_damage",
    "compact",
    "connect",
    "folder_at",
    "lock_down",
    "open_catalogue",
    "roots_of",
]
