"""Which private or changing parts of torch does graphwire use?"""

from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import TreeSpec
from torch.utils._sympy.functions import FloorDiv, Where
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from graphwire.bridge.torch_compat.distributed import is_in_job, kind_of_job_value, world_group, world_groups
from graphwire.bridge.torch_compat.metadata_runs import (
    CallBudget,
    accepts_numbers,
    flops_on_metadata,
    is_constructor,
    may_count_flops,
    run_on_metadata,
    why_not_run,
)
from graphwire.bridge.torch_compat.private import (
    FakeTensors,
    allow_tracing,
    as_parameter,
    buffer_mark,
    constrain_for_size,
    declare_symbol,
    defer_assertion,
    device_of,
    exported_program,
    expression_size,
    fake_value_mode,
    fresh_unbacked_symbols,
    graph_module,
    guards_of,
    hint_symbolic_value,
    is_transformed,
    is_unbacked,
    mark_buffer,
    mark_parameter_or_buffer,
    may_have_symbolic_sizes,
    mkldnn_layout,
    move_to_start,
    negative_view,
    new_shape_env,
    no_torch_function,
    operators_in,
    parameter_or_buffer,
    replace_symbol,
    replacements,
    reserve_unbacked,
    schema_of,
    script_class_name,
    set_guards,
    symbolic_identities,
    symbolic_identity,
    symbolic_node,
    symbolic_parts,
    symbolic_value,
    unbacked_bindings,
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
