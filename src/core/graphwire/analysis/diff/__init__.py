"""Differences between two programs, as records and as text."""

from graphwire.analysis.diff.program_diff import Diff, diff
from graphwire.analysis.diff.text import diff_lines
