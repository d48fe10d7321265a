"""The release of torch that introduced each operator, to find operators that an older target does not support.

The tables come from the operator tables of the releases (2.1 to 2.15). They list only what was added after 2.1. They do not
list removals: the operators on named dimensions in 2.13, `cholesky` and `qr` in 2.14. Nor do they list operators of other
libraries: the user decides whether the target has them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from graphwire.evolve.planner import Change
from graphwire.evolve.step import RELEASES, version_with
from graphwire.evolve.trees import OURS, Edits, Node, Record, Report, Where, refusing, rewrite

if TYPE_CHECKING:
    from graphwire.evolve.operator_forms import FormEditor

_ATEN = "torch.ops.aten."
_PRIMS = "torch.ops.prims."
_HOP = "torch.ops.higher_order."

_OVERLOADS: Final[dict[str, str]] = {
    "2.2": """
        Generator _convert_weight_to_int4pack _foreach_add.Tensor _foreach_add_.Tensor _foreach_div.Tensor
        _foreach_div_.Tensor _mixed_dtypes_linear _weight_int4pack_mm all.dims any.dims initial_seed
        linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor logspace.Scalar_Tensor
        logspace.Tensor_Scalar logspace.Tensor_Tensor manual_seed.generator masked_scatter_backward seed""",
    "2.3": """
        _assert_scalar _chunk_cat _cslt_sparse_mm_search _functional_assert_scalar _fused_sgd
        _fused_sgd.tensor_lr _fused_sgd_ _fused_sgd_.tensor_lr _lazy_clone _linalg_eigvals
        _nested_get_jagged_dummy _nested_get_lengths _nested_get_offsets _nested_get_ragged_idx
        _nested_get_values _nested_get_values_copy _nested_view_from_jagged _nested_view_from_jagged_copy _print
        _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward _test_parallel_materialize _weight_int8pack_mm
        slice_inverse""",
    "2.4": """
        _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional _foreach_max
        _fused_adagrad _fused_adagrad_ _jagged_to_padded_dense_forward
        _nested_compute_contiguous_strides_offsets _padded_dense_to_jagged_forward
        _scaled_dot_product_cudnn_attention_backward _sparse_compressed_tensor_with_dims
        _sparse_semi_structured_addmm _sparse_semi_structured_apply _sparse_semi_structured_apply_dense
        _sparse_semi_structured_mm _sparse_semi_structured_tile batch_norm_backward get_autocast_dtype rms_norm""",
    "2.5": """
        _nested_get_max_seqlen _nested_get_min_seqlen _safe_softmax _scaled_dot_product_attention_math_for_mps
        _scaled_dot_product_fused_attention_overrideable
        _scaled_dot_product_fused_attention_overrideable_backward _spsolve _unsafe_masked_index
        _unsafe_masked_index_put_accumulate _wrapped_linear_prepack _wrapped_quantized_linear_prepacked""",
    "2.6": """
        _convert_weight_to_int4pack_for_cpu _foreach_lerp.ScalarList _foreach_lerp_.ScalarList _foreach_rsqrt
        _foreach_rsqrt_ _nested_from_padded_tensor _weight_int4pack_mm_for_cpu rrelu_with_noise_functional""",
    "2.7": """
        _cudnn_attention_forward _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _scaled_grouped_mm""",
    "2.8": """
        _fused_adagrad.tensor_lr _fused_adagrad_.tensor_lr _fused_rms_norm _grouped_mm
        _weight_int4pack_mm_with_scales_and_zeros addmm.dtype baddbmm.dtype bmm.dtype mm.dtype
        randint_like.Tensor""",
    "2.9": "_cudnn_attention_backward _fused_rms_norm_backward hash_tensor sym_is_contiguous",
    "2.10": """
        _scaled_grouped_mm_v2 _scaled_mm_v2 rand_like.generator randint_like.Tensor_generator
        randint_like.generator randint_like.low_generator_dtype randn_like.generator""",
    "2.11": """
        _flash_attention_forward.quantized _foreach_powsum.Scalar _scaled_dot_product_flash_attention.quantized
        _use_miopen_ctc_loss.Tensor _use_miopen_ctc_loss linalg__powsum miopen_ctc_loss.Tensor miopen_ctc_loss""",
    "2.12": """
        _flash_attention_forward_no_dropout_inplace _foreach_clone _philox_key_fold_in _philox_key_split
        _philox_normal _philox_normal_ _philox_uniform _philox_uniform_ _upsample_lanczos2d_aa
        _upsample_lanczos2d_aa.vec _upsample_lanczos2d_aa_backward""",
    "2.13": "_foreach_mm broadcast_shapes",
    "2.14": "_philox_key_fold_in.Tensor linalg_matrix_sqrth linalg_polar shallow_copy_data_",
    "2.15": """
        _cudnn_attention_forward_no_dropout_inplace _is_tracing _philox_randint _philox_randint_ _scaled_addmm
        _scaled_addmm_""",
}
"""ATen's overloads by the release that introduced them; those named `default` without that."""

_PRIMITIVES: Final[dict[str, str]] = {
    "2.2": "view_of_dtype",
    "2.3": "frexp",
    "2.4": "_make_token _sink_tokens",
}
"""Torch's primitive operators by the release that introduced them."""

_FUNCTIONS: Final[dict[str, str]] = {
    "2.1": """
        _operator.add _operator.eq _operator.floordiv _operator.ge _operator.gt _operator.le _operator.lt _operator.mod
        _operator.mul _operator.ne _operator.sub""",
    "2.3": "torch._sym_sqrt torch.sym_int torch.sym_ite torch.sym_max torch.sym_min torch.sym_not",
    "2.4": "torch.sym_float",
    "2.5": "_operator.pow",
    "2.6": "_operator.neg _operator.truediv",
    "2.7": "_operator.and_ math.trunc",
    "2.8": "_operator.or_",
    "2.12": "_operator.lshift _operator.rshift",
    "2.13": "_operator.abs _operator.getitem _operator.not_ math.ceil math.floor torch.sym_sum",
}
"""Functions on symbols by release: those that the reader finds by name and its verifier permits in a graph."""

_HIGHER_ORDER: Final[dict[str, str]] = {
    "2.2": "out_dtype",
    "2.5": "with_effects call_torchbind hints_wrapper strict_mode",
    "2.6": "scan flex_attention flex_attention_backward",
    "2.7": """
        invoke_subgraph aoti_call_delegate associative_scan executorch_call_delegate flat_apply foreach_map
        graphsafe_run_with_rng_state invoke_quant invoke_quant_packed run_const_graph tag_activation_checkpoint
        wrap_activation_checkpoint while_loop auto_functionalized wrap_with_set_grad_enabled wrap_with_autocast""",
    "2.8": "dynamo_bypassing_wrapper",
    "2.9": "while_loop_stack_output",
    "2.10": "auto_functionalized_v2 inductor_compiled_code local_map_hop print",
    "2.12": "inline_asm_elementwise invoke_leaf_function run_dtensor_rng_op",
    "2.14": "flex_gemm switch",
}
"""Higher-order operators, by the first release whose own loader, freshly started, reads and runs them.

Files of older releases contain some of them (while_loop and auto_functionalized since 2.3, wrap_with_set_grad_enabled since
2.4 …). graphwire reads these files, but the releases that wrote them fail on these operators, so graphwire writes none for
those releases.
"""


def _serialized(name: str, start: str = _ATEN) -> str:
    """Return the serialized name of a listed operator."""
    full = name if name.startswith("torch.ops.") else f"{start}{name}"
    return f"{full}.default" if full.startswith((_ATEN, _PRIMS)) and full.count(".") == 3 else full


_FIRST_RELEASE: Final[dict[str, str]] = {
    _serialized(name, start): release
    for start, table in ((_ATEN, _OVERLOADS), (_PRIMS, _PRIMITIVES), ("", _FUNCTIONS), (_HOP, _HIGHER_ORDER))
    for release, names in table.items()
    for name in names.split()
}
"""The first release of every listed operator."""

_UNREAD: Final = frozenset({f"{_HOP}triton_kernel_wrapper_functional"})
"""Operators that torch writes and no release of it reads."""

_PREDISPATCH = tuple(
    "torch._functorch.predispatch. torch._C. torch.amp. torch.autograd. torch.export. torch.fx.".split()
)
"""Prefixes of the names of functions that the reader of 2.13 is the first to call by name, whatever the function."""
_PREDISPATCH_RELEASE = "2.13"

_AGE: Final[dict[str, int]] = {release: index for index, release in enumerate(RELEASES)}


@functools.lru_cache(maxsize=4096)
def release_with(target: str) -> str | None:
    """Return the release of torch that first reads an operator, given by its serialized name.

    The oldest release where that is not known, as for the operators of other libraries; None if no release resolves the name.
    """
    release = _FIRST_RELEASE.get(target)
    if release is not None:
        return release
    if target.startswith("torch.ops.") and target not in _UNREAD:
        names = target.split(".")
        return "2.1" if len(names) == 5 or (len(names) == 4 and names[2] == "higher_order") else None
    return _PREDISPATCH_RELEASE if target.startswith(_PREDISPATCH) else None


def is_nameless(target: str, inputs: Iterable[str]) -> bool:
    """Report whether a call passes inputs by position where torch's reader looks them up by the parameters' names.

    Args:
        target: the operator, by its serialized name.
        inputs: the names of the node's inputs.
    """
    return target.startswith("torch.ops.") and not target.startswith(_HOP) and "" in inputs


def newest_release(releases: Iterable[str]) -> str:
    """Return the newest of some releases."""
    return max(releases, key=_AGE.__getitem__)


_DEFAULTS: Final[dict[str, Record | None]] = {
    "None": {"as_none": True},
    "False": {"as_bool": False},
    "0": {"as_int": 0},
    "1": {"as_int": 1},
    "right": {"as_string": "right"},
    "any": None,
}
"""The arguments that defaults in the next table stand for; None for one that may be omitted whatever its value."""

_PARAMETERS: Final[dict[str, str]] = {
    "2.2": """
        _scaled_mm use_fast_accum=False
        _cslt_sparse_mm alpha=None out_dtype=None""",
    "2.3": """
        _sparse_semi_structured_linear out_dtype=None
        _cslt_sparse_mm alg_id=0""",
    "2.4": """
        _foreach_norm.Scalar dtype=None
        mkldnn_reorder_conv3d_weight input_size=None
        _flash_attention_backward window_size_left=None window_size_right=None
        _flash_attention_forward window_size_left=None window_size_right=None seqused_k=None alibi_slopes=None
        _efficient_attention_forward window_size=None
        _efficient_attention_backward window_size=None shared_storage_dqdkdv=False""",
    "2.5": """
        pad_sequence padding_side=right
        scaled_dot_product_attention enable_gqa=False
        _scaled_dot_product_attention_math enable_gqa=False
        _fused_sdp_choice enable_gqa=False
        _nested_view_from_jagged min_seqlen=None max_seqlen=None
        _nested_view_from_jagged_copy min_seqlen=None max_seqlen=None""",
    "2.6": f"""
        _assert_tensor_metadata device=any layout=any
        _cslt_sparse_mm split_k=1
        {_PRIMS}device_put non_blocking=False""",
    "2.7": """
        stft align_to_window=None
        stft.center align_to_window=None""",
    "2.12": """
        _flash_attention_forward block_table=None num_splits=None
        _scaled_dot_product_attention_math_for_mps enable_gqa=False""",
    "2.14": """
        _cudnn_attention_forward seqused_k=None block_table=None""",
}
"""Parameters of ATen's overloads by the release that introduced them, each with the default with which it may be omitted.

A parameter that only adds to what an assertion checks may always be omitted. `out` overloads, and assertions
on the parts of sparse tensors, are in no exported graph.
"""

_CALLED_OTHERWISE: Final[dict[str, str]] = {
    "2.2": "_efficient_attention_forward _efficient_attention_backward",
    "2.3": "_efficient_attention_forward",
    "2.4": f"_scaled_dot_product_cudnn_attention {_PRIMS}var",
    "2.5": """
        _scaled_mm _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward""",
    "2.7": "_flash_attention_backward",
    "2.8": "_cslt_sparse_mm",
    "2.9": "_fused_rms_norm",
    "2.11": f"{_PRIMS}uniform",
}
"""Overloads whose parameters, their order, or whose results differ from those of the release before."""


class UncertainCall(msgspec.Struct, frozen=True):
    """A call of an operator that some release cannot read, although its schema version can express it."""

    target: str
    where: Where
    first: str | None
    """The release that introduced the operator; None if no release resolves its name."""
    nameless: bool
    """Whether inputs lack names."""


def uncertain_calls(tree: Record) -> list[UncertainCall]:
    """Return the calls in a document that depend on the release which reads it, and not on the version alone.

    These are the operators that came with a release without a schema version of its own; the operators whose name no release
    resolves; and calls whose inputs lack names.
    """
    found = []

    def check(node: Node, where: Where) -> None:
        target = node["target"]
        first = release_with(target)
        nameless = is_nameless(target, (named["name"] for named in node["inputs"]))
        if nameless or first is None or version_with(first) is None:
            found.append(UncertainCall(target, where, first, nameless))

    rewrite(tree, Edits(node=check))
    return found


def report_newer_operators(calls: Iterable[UncertainCall], release: str, report: Report) -> None:
    """Report those of `uncertain_calls` that a target of release `release` (`2.12`) cannot read."""
    age, refuse = _AGE.get(release, -1), refusing(report, OURS)
    for each in calls:
        if each.first is None:
            refuse(each.where, f"the operator {each.target}, by a name that torch's reader does not know")
        elif version_with(each.first) is None and _AGE[each.first] > age:
            refusing(report, f"torch-{each.first}")(each.where, f"the operator {each.target}")
        if each.nameless:
            refuse(each.where, f"inputs of {each.target} without their names")


def _refuse(edit: FormEditor) -> None:
    edit.refuse(f"the operator {edit.target}")


def _refuse_form(edit: FormEditor) -> None:
    edit.refuse(f"the operator {edit.target} in its present form")


def _without(parameters: Iterable[str]) -> Callable[[FormEditor], None]:
    """Return a change down that omits parameters (`NAME=DEFAULT`) with that value, and reports those with another one."""
    defaults = {name: _DEFAULTS[value] for name, _, value in (each.partition("=") for each in parameters)}

    def leave_out(edit: FormEditor) -> None:
        kept = []
        for index, named in enumerate(edit.node["inputs"]):
            name = named["name"]
            if name not in defaults:
                kept.append(named)
            elif defaults[name] is not None and named["arg"] != defaults[name]:
                edit.report(f"the parameter {name} of {edit.target}", f".inputs[{index}]")
                kept.append(named)
        edit.node["inputs"] = kept

    return leave_out


ARRIVALS: Final[tuple[Change, ...]] = (
    *(Change(release, target, down=_refuse) for target, release in _FIRST_RELEASE.items()),
    *(
        Change(release, _serialized(name), down=_refuse_form)
        for release, names in _CALLED_OTHERWISE.items()
        for name in names.split()
    ),
    *(
        Change(release, _serialized(name), down=_without(parameters))
        for release, rows in _PARAMETERS.items()
        for name, *parameters in map(str.split, rows.strip().splitlines())
    ),
)
"""Operators and parameters that a release introduced, as changes that only have a way down."""
