"""How is a document of one schema version structured, and how is it rewritten?"""

from graphwire.evolve.documents.expression_text import (
    foreign_operations,
    renamed_symbols,
    to_constructor,
    to_infix,
)
from graphwire.evolve.documents.free_names import free_name, value_names
from graphwire.evolve.documents.module_stacks import (
    module_stack_down,
    module_stack_up,
    stack_with_commas,
    stack_without_commas,
)
from graphwire.evolve.documents.plain_values import (
    TABLES,
    Value,
    decode_value,
    defined_values,
    encode_value,
    mapped,
    subgraphs,
)
from graphwire.evolve.documents.range_bounds import (
    from_infinity,
    greatest_integer_from_infinity,
    infinity_from_greatest_integer,
    narrow_ranges,
    report_small_sizes,
    to_infinity,
)
from graphwire.evolve.documents.record_edits import of_arm, of_expression, without
from graphwire.evolve.documents.reserved_names import (
    with_operators_names,
    without_builtin_names,
    without_names_of_nodes,
)
from graphwire.evolve.documents.step import AppliedStep, Step, literal_as_value, place_of_results, report_new
from graphwire.evolve.documents.symbol_order import report_unmet_symbols, symbols_first
from graphwire.evolve.documents.trees import (
    MALFORMED,
    OURS,
    ROOT,
    Edit,
    Edits,
    Node,
    Record,
    Report,
    Where,
    arm_of,
    call_of,
    name_of,
    node_label,
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
