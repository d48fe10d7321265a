"""How do two programs differ?"""

from graphwire.analysis.diff.program_diff import Diff, diff
from graphwire.analysis.diff.text import diff_lines
