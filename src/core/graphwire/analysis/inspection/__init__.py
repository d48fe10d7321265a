"""What does a file contain, and what does loading it involve? Summaries and load reports."""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.analysis.inspection.interface_tree import Interface, InterfaceTree
    from graphwire.analysis.inspection.load_report import (
        LoadReport,
        NarrowedRange,
        Omission,
        StepReport,
        WriteReport,
    )
    from graphwire.analysis.inspection.node_costs import bytes_of_nodes, known_size, named_nodes
    from graphwire.analysis.inspection.process_groups import ProcessGroup, named_groups, with_group_names
    from graphwire.analysis.inspection.stripping import (
        STRIPPABLE,
        Disclosure,
        Strippable,
        disclosures,
        stripped,
    )
    from graphwire.analysis.inspection.summary import (
        Inspection,
        MethodInspection,
        ModuleSummary,
        Summary,
        nested_modules,
        summarize,
    )
    from graphwire.analysis.inspection.tensor_sizes import TensorSizes
else:
    __getattr__ = door(
        __name__,
        {
            ".interface_tree": "Interface InterfaceTree",
            ".load_report": "LoadReport NarrowedRange Omission StepReport WriteReport",
            ".node_costs": "bytes_of_nodes known_size named_nodes",
            ".process_groups": "ProcessGroup named_groups with_group_names",
            ".stripping": "STRIPPABLE Disclosure Strippable disclosures stripped",
            ".summary": "Inspection MethodInspection ModuleSummary Summary nested_modules summarize",
            ".tensor_sizes": "TensorSizes",
        },
    )

__all__ = [
    "STRIPPABLE",
    "Disclosure",
    "Inspection",
    "Interface",
    "InterfaceTree",
    "LoadReport",
    "MethodInspection",
    "ModuleSummary",
    "NarrowedRange",
    "Omission",
    "ProcessGroup",
    "StepReport",
    "Strippable",
    "Summary",
    "TensorSizes",
    "WriteReport",
    "bytes_of_nodes",
    "disclosures",
    "known_size",
    "named_groups",
    "named_nodes",
    "nested_modules",
    "stripped",
    "summarize",
    "with_group_names",
]
