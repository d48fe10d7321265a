"""Summaries of programs and archives, and reports about loading and writing them."""

from graphwire.analysis.inspection.load_report import (
    LoadReport,
    NarrowedRange,
    Omission,
    StepReport,
    WriteReport,
)
from graphwire.analysis.inspection.summary import Inspection, MethodInspection, Summary, summarize
from graphwire.analysis.inspection.tensor_sizes import TensorSizes
