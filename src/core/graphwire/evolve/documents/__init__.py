"""How is a document of one schema version structured, and how is it rewritten?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.documents.expression_text import (
        foreign_operations,
        rename_symbols,
        to_constructor,
        to_infix,
    )
    from graphwire.evolve.documents.free_names import free_name, value_names
    from graphwire.evolve.documents.range_bounds import (
        greatest_integer_from_infinity,
        infinity_from_greatest_integer,
        infinity_to_unbounded,
        narrow_ranges,
        report_small_sizes,
        unbounded_to_infinity,
    )
    from graphwire.evolve.documents.record_edits import (
        SureEdit,
        arm_edit,
        expression_edit,
        with_module,
        without,
    )
    from graphwire.evolve.documents.reserved_names import (
        name_symbols_by_operators,
        rename_builtin_names,
        rename_node_name_clashes,
    )
    from graphwire.evolve.documents.step import (
        AppliedStep,
        Step,
        literal_as_value,
        report_new_constructs,
        result_place,
    )
    from graphwire.evolve.documents.symbol_order import report_unmet_symbols, sort_symbols_first
    from graphwire.evolve.documents.trees import (
        MALFORMED,
        OURS,
        ROOT,
        Edit,
        Edits,
        Node,
        Record,
        Refuse,
        Report,
        Where,
        arguments_of,
        arm_of,
        name_of,
        node_label,
        refusing,
        rewrite,
        treespecs,
    )
    from graphwire.evolve.documents.versions import (
        COMPACT_5_3,
        RELEASES,
        first_release,
        is_current,
        release_of,
        releases_with,
        version_of,
        version_with,
    )
    from graphwire.evolve.documents.vocabulary import EXTENSIONS, FIELDS, TYPES, fields_of_torch
    from graphwire.schema import DRAFT, Version
else:
    __getattr__ = door(
        __name__,
        {
            ".expression_text": "foreign_operations rename_symbols to_constructor to_infix",
            ".free_names": "free_name value_names",
            ".range_bounds": (
                "greatest_integer_from_infinity infinity_from_greatest_integer infinity_to_unbounded "
                "narrow_ranges report_small_sizes unbounded_to_infinity"
            ),
            ".record_edits": "SureEdit arm_edit expression_edit with_module without",
            ".reserved_names": "name_symbols_by_operators rename_builtin_names rename_node_name_clashes",
            ".step": "AppliedStep Step literal_as_value report_new_constructs result_place",
            ".symbol_order": "report_unmet_symbols sort_symbols_first",
            ".trees": (
                "MALFORMED OURS ROOT Edit Edits Node Record Refuse Report Where arguments_of arm_of "
                "name_of node_label refusing rewrite treespecs"
            ),
            ".versions": "COMPACT_5_3 RELEASES first_release is_current release_of releases_with version_of version_with",
            ".vocabulary": "EXTENSIONS FIELDS TYPES fields_of_torch",
            "graphwire.schema": "DRAFT Version",
        },
    )

__all__ = [
    "COMPACT_5_3",
    "DRAFT",
    "EXTENSIONS",
    "FIELDS",
    "MALFORMED",
    "OURS",
    "RELEASES",
    "ROOT",
    "TYPES",
    "AppliedStep",
    "Edit",
    "Edits",
    "Node",
    "Record",
    "Refuse",
    "Report",
    "Step",
    "SureEdit",
    "Version",
    "Where",
    "arguments_of",
    "arm_edit",
    "arm_of",
    "expression_edit",
    "fields_of_torch",
    "first_release",
    "foreign_operations",
    "free_name",
    "greatest_integer_from_infinity",
    "infinity_from_greatest_integer",
    "infinity_to_unbounded",
    "is_current",
    "literal_as_value",
    "name_of",
    "name_symbols_by_operators",
    "narrow_ranges",
    "node_label",
    "refusing",
    "release_of",
    "releases_with",
    "rename_builtin_names",
    "rename_node_name_clashes",
    "rename_symbols",
    "report_new_constructs",
    "report_small_sizes",
    "report_unmet_symbols",
    "result_place",
    "rewrite",
    "sort_symbols_first",
    "to_constructor",
    "to_infix",
    "treespecs",
    "unbounded_to_infinity",
    "value_names",
    "version_of",
    "version_with",
    "with_module",
    "without",
]
