"""How is a document of one schema version structured, and how is it rewritten?"""

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
from graphwire.evolve.documents.record_edits import SureEdit, arm_edit, expression_edit, with_module, without
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
    DRAFT,
    RELEASES,
    Version,
    first_release,
    release_of,
    version_of,
    version_with,
)
from graphwire.evolve.documents.vocabulary import EXTENSIONS, FIELDS, TYPES, fields_of_torch
