"""Random programs that torch exports, as a hypothesis strategy.

    from hypothesis import given
    from random_programs import ExportableProgram, exportable_programs

    @given(exportable_programs())
    def test_something(made: ExportableProgram) -> None:
        ... made.program ...

A program is drawn as Python source: operators of many kinds and element types, control flow, containers, parameters and
buffers of every form, dynamic sizes and arithmetic with them. A failing example is shown as that source, to be pasted and
run as it is.
"""

from random_programs.strategy import ExportableProgram, exportable_programs, program_sources

__all__ = ["ExportableProgram", "exportable_programs", "program_sources"]
