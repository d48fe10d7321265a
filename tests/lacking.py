"""What releases of torch cannot do that tests need: failures that are expected there, so that a row that is wrong fails.

Each row says on which releases, why, and which tests cannot pass.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Lack(NamedTuple):
    """Something that keeps tests from passing on releases of torch."""

    first: tuple[int, int]
    last: tuple[int, int]
    """The releases, both included."""
    why: str
    """What is said of torch."""
    tests: str
    """A pattern of the identifiers of the tests."""


_TABLE = "is not the release whose constructs docs/coverage.md lists"

LACKS: tuple[Lack, ...] = (
    Lack((2, 8), (2, 12), _TABLE, r"test_the_coverage_table_has_a_row_for_every_construct"),
    Lack((2, 14), (2, 15), _TABLE, r"test_the_coverage_table_has_a_row_for_every_construct"),
    Lack(
        (2, 8),
        (2, 8),
        "has no guards of programs",
        r"test_every_guard_that_torch_export_writes"
        r"|test_load_module\.py::test_(what_both_refuse_of_random_shapes\[_guarded|without_example_inputs_guards"
        r"|guards_of_containers|what_guards_cannot_read_is_named\[changed[2456]|sizes_that_nothing_compares)",
    ),
    Lack((2, 9), (2, 9), "writes guards that it cannot run", r"test_guards_of_containers_among_any_number"),
    Lack((2, 9), (2, 9), "cannot run a pickled branch", r"test_a_branch_inside_a_branch_is_pickled"),
    Lack((2, 8), (2, 9), "compiles a hook apart in a strict export", r"test_it_is_exported_again\[True\]"),
    Lack(
        (2, 8), (2, 10), "compiles no text of a refused input", r"test_load_module\.py::test_it_is_compiled"
    ),
    Lack(
        (2, 8),
        (2, 9),
        "compiles no code that waits",
        r"test_the_code_of_a_loaded_graph_is_compiled_at_the_first",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "has no functions before dispatch",
        r"TestPredispatchFunctions::test_(every_program|a_name_resolves|programs|the_file|threads|whatever)"
        r"|corpus/test_loading\.py::test_each_file_computes.*\[2\.13\.0(-json|-cbor)?\]",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "defers no guards to run time",
        r"[\[-]guards\b|\[symbols: assertions at run time|test_fuzz\.py::.*\[trees\]",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "does not export DTensors as inputs",
        r"test_dtensors\.py::test_(a_program_of_dtensors|the_guide)",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "does not export these",
        r"test_constructs\.py::.*\[(higher-order operators: (associative_scan|flex_attention with score_mod|vmap before)"
        r"|signatures: a mutated parameter)",
    ),
    Lack(
        (2, 8),
        (2, 9),
        "does not export these",
        r"test_(constructs|plugin_data)\.py::.*\[(constants: an opaque value as input|higher-order operators: print"
        r"|constants: a tensor subclass as input and as output|the tree of a value in the graph\]"
        r"|programs: (flex_attention with a block mask|recurrent layers))",
    ),
    Lack(
        (2, 8),
        (2, 11),
        "does not export these",
        r"test_hop_db\.py::test_a_(subgraph_takes|derivative)",
    ),
    Lack(
        (2, 8),
        (2, 9),
        "exports other examples than later releases",
        r"test_export_db\.py::test_every_example.*\[(nonstrict|decomposed)\]",
    ),
    Lack(
        (2, 8),
        (2, 11),
        "exports other examples than later releases",
        r"test_export_db\.py::test_every_example.*\[strict\]"
        r"|test_hop_db\.py::test_every_operator.*\[(nonstrict|decomposed)\]",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "writes no offsets into storages and other truths",
        r"test_the_hash_is_that.*\[(decoder|multiple_outputs)"
        r"|test_its_hash.*\[(higher-order operators: (cond that returns|while_loop with unbacked)"
        r"|programs: (a view of|the same, dec)|symbols: (derived|checks joined|nonzero, taken)"
        r"|tensors: (a weight: (a storage|conj)|two (weights|constants) over|a buffer that is not saved, over a part"
        r"|a constant over))",
    ),
    Lack(
        (2, 8),
        (2, 10),
        "does not export members of enumerations",
        r"test_(constructs|loaded_modules)\.py::.*\[constants: a member of an (Int|Str)?Enum as input",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "refuses inputs where no size fits",
        r"test_the_attack_fails\[a size that divides by nothing",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "writes a torch.save file of weights",
        r"test_a_mapped_weight_is_a_tensor_without_a_copy",
    ),
    Lack((2, 8), (2, 8), "does not read the newest layout", r"test_weights_of_the_newest_layout.*\[2\."),
    Lack(
        (2, 9),
        (2, 9),
        "does not read which weights need a gradient",
        r"test_weights_of_the_newest_layout.*\[2\.",
    ),
    Lack((2, 8), (2, 9), "takes more calls itself", r"test_a_node_costs_no_more_calls_than_it_did"),
    Lack(
        (2, 8),
        (2, 8),
        "does not decompose a program that changes a parameter",
        r"mutated_parameter_decomposed",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "saves no complex numbers",
        r"test_torch_interop\.py::(?!test_only_what).*\[arguments_of_every_kind",
    ),
    Lack(
        (2, 8),
        (2, 11),
        "saves no results that nothing reads",
        r"test_(we_read_)?what_torch_wrote.*\[custom_operator_decomposed",
    ),
    Lack(
        (2, 8),
        (2, 8),
        "does not export this scan",
        r"test_an_operator_that_came_later_within_a_schema_version",
    ),
    Lack((2, 8), (2, 9), "has no BitwiseFn_bitwise_xor", r"test_every_operation_of_the_grammar_can_be_built"),
    Lack((2, 8), (2, 9), "has no torch.fx.traceback.annotate", r"[\[-]annotated\b|\[metadata: annotations"),
    Lack(
        (2, 8), (2, 12), "counts an operator with names as changed", r"test_the_overloads_and_their_versions"
    ),
    Lack(
        (2, 15),
        (2, 15),
        "names and reads what operators return",
        r"test_what_torch_cannot_say_is_refused_by_torch_cleanly\[topk\]"
        r"|test_without_the_plugin_plain_containers"
        r"|test_torch_reads_what_requires_no_extension\[(containers|annotated)\]"
        r"|test_we_save_what_torch_does_not\[(containers|annotated)\]",
    ),
)


def lack_of(test: str, release: tuple[int, int]) -> str | None:
    """Why a test cannot pass on a release of torch; None where it can.

    Args:
        test: the identifier that pytest gives it, `tests/FOLDER/FILE.py::NAME[PARAMETERS]`.
    """
    for lack in LACKS:
        if lack.first <= release <= lack.last and re.search(lack.tests, test):
            return f"torch {release[0]}.{release[1]} {lack.why}"
    return None
