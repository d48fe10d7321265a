"""What is asked about a catalogue, and how is the answer given?"""

from graphwire_fleet.asking.answers import QueryError, answer, ask, opened
from graphwire_fleet.asking.printing import print_answer, write_answer

__all__ = ["QueryError", "answer", "ask", "opened", "print_answer", "write_answer"]
