"""What is found in one file? Rows of the tables of a catalogue, without torch."""

from graphwire_fleet.reading.works import READINGS, Inspecting, Reading, Targeting, Verifying, failure_of

__all__ = ["READINGS", "Inspecting", "Reading", "Targeting", "Verifying", "failure_of"]
