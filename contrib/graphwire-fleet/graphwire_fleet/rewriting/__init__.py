"""How are many files written again, so that each is whole, and all of it can be undone?"""

from graphwire_fleet.rewriting.checking import check_torch
from graphwire_fleet.rewriting.destinations import check_destinations
from graphwire_fleet.rewriting.journal import Journal
from graphwire_fleet.rewriting.reports import Reported
from graphwire_fleet.rewriting.undoing import RESTORED, undo
from graphwire_fleet.rewriting.works import REWRITINGS

__all__ = ["RESTORED", "REWRITINGS", "Journal", "Reported", "check_destinations", "check_torch", "undo"]
