"""Which private or changing parts of torch does graphwire use?"""

from typing import TYPE_CHECKING

from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import TreeSpec

from graphwire.bridge.torch_compat.distributed import is_in_job, kind_of_job_value, world_group, world_groups
from graphwire.bridge.torch_compat.fake_tensors import DecodedMode, FakeTensors, allow_tracing
from graphwire.bridge.torch_compat.metadata_runs import (
    CallBudget,
    accepts_numbers,
    flops_on_metadata,
    is_constructor,
    may_count_flops,
    run_on_metadata,
    why_not_run,
)
from graphwire.bridge.torch_compat.node_maker import NodeMaker
from graphwire.bridge.torch_compat.private import (
    as_parameter,
    buffer_mark,
    device_of,
    exported_program,
    expression_size,
    graph_module,
    guards_of,
    hint_symbolic_value,
    is_transformed,
    mark_buffer,
    mark_parameter_or_buffer,
    may_have_symbolic_sizes,
    mkldnn_layout,
    move_to_start,
    negative_view,
    no_torch_function,
    operators_in,
    parameter_or_buffer,
    schema_of,
    script_class_name,
    set_guards,
    symbolic_identities,
    symbolic_identity,
    symbolic_node,
    symbolic_parts,
)
from graphwire.bridge.torch_compat.process_state import preserved_process_state
from graphwire.bridge.torch_compat.pytree import (
    Registration,
    children_of,
    class_name,
    context_of,
    field_names,
    flatten,
    flatten_one,
    is_flattened,
    is_namedtuple,
    is_registered_by_fields,
    is_serialized_name,
    is_treespec,
    leaf_spec,
    make_treespec,
    nameless_fields,
    registration_by_fields,
    registration_by_name,
    registration_of,
    unflatten,
)
from graphwire.bridge.torch_compat.releases import (
    backed_values,
    opaque_type_name,
    opaque_types,
    output_kind,
    parameters_of,
    predispatch_functions,
    shape_function,
)
from graphwire.bridge.torch_compat.source_functions import function_table, name_of_function, operator_packet
from graphwire.bridge.torch_compat.verifiers import check_encoded, dialects_of, verifier_of
from graphwire.lazy import door

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._sympy.functions import FloorDiv, Where
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges

    from graphwire.bridge.torch_compat.symbolic import (
        constrain_for_size,
        declare_symbol,
        defer_assertion,
        fresh_unbacked_symbols,
        is_unbacked,
        replace_symbol,
        replacements,
        reserve_unbacked,
        symbolic_value,
        unbacked_bindings,
    )
else:
    __getattr__ = door(
        __name__,
        {
            "torch.fx.experimental.symbolic_shapes": "ShapeEnv",
            "torch.utils._sympy.functions": "FloorDiv Where",
            "torch.utils._sympy.numbers": "int_oo",
            "torch.utils._sympy.value_ranges": "ValueRanges",
            ".symbolic": "constrain_for_size declare_symbol defer_assertion fresh_unbacked_symbols is_unbacked "
            "replace_symbol replacements reserve_unbacked symbolic_value unbacked_bindings",
        },
    )

__all__ = [
    "CallBudget",
    "DecodedMode",
    "FakeTensor",
    "FakeTensors",
    "FloorDiv",
    "HigherOrderOperator",
    "NodeMaker",
    "OpOverload",
    "Registration",
    "ShapeEnv",
    "TreeSpec",
    "ValueRanges",
    "Where",
    "accepts_numbers",
    "allow_tracing",
    "as_parameter",
    "backed_values",
    "buffer_mark",
    "check_encoded",
    "children_of",
    "class_name",
    "constrain_for_size",
    "context_of",
    "declare_symbol",
    "defer_assertion",
    "device_of",
    "dialects_of",
    "exported_program",
    "expression_size",
    "field_names",
    "flatten",
    "flatten_one",
    "flops_on_metadata",
    "fresh_unbacked_symbols",
    "function_table",
    "graph_module",
    "guards_of",
    "hint_symbolic_value",
    "int_oo",
    "is_constructor",
    "is_flattened",
    "is_in_job",
    "is_namedtuple",
    "is_registered_by_fields",
    "is_serialized_name",
    "is_traceable_wrapper_subclass",
    "is_transformed",
    "is_treespec",
    "is_unbacked",
    "kind_of_job_value",
    "leaf_spec",
    "make_treespec",
    "mark_buffer",
    "mark_parameter_or_buffer",
    "may_count_flops",
    "may_have_symbolic_sizes",
    "mkldnn_layout",
    "move_to_start",
    "name_of_function",
    "nameless_fields",
    "negative_view",
    "no_torch_function",
    "opaque_type_name",
    "opaque_types",
    "operator_packet",
    "operators_in",
    "output_kind",
    "parameter_or_buffer",
    "parameters_of",
    "predispatch_functions",
    "preserved_process_state",
    "registration_by_fields",
    "registration_by_name",
    "registration_of",
    "replace_symbol",
    "replacements",
    "reserve_unbacked",
    "run_on_metadata",
    "schema_of",
    "script_class_name",
    "set_guards",
    "shape_function",
    "symbolic_identities",
    "symbolic_identity",
    "symbolic_node",
    "symbolic_parts",
    "symbolic_value",
    "unbacked_bindings",
    "unflatten",
    "verifier_of",
    "why_not_run",
    "world_group",
    "world_groups",
]
