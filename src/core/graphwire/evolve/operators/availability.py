"""The release of torch that introduced each operator, to find operators that an older target does not support.

The tables come from the operator tables of the releases (2.1 to 2.15). They list only what was added after 2.1. They do not
list removals: the operators on named dimensions in 2.13, `cholesky` and `qr` in 2.14. Nor do they list operators of other
libraries: the user decides whether the target has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from graphwire.evolve.documents import (
    OURS,
    RELEASES,
    Edits,
    Node,
    Record,
    Report,
    Where,
    refusing,
    rewrite,
    version_with,
)
from graphwire.evolve.operators.form_editor import FormEditor
from graphwire.evolve.opsets import Change

_ATEN = "torch.ops.aten."
_PRIMS = "torch.ops.prims."
_HOP = "torch.ops.higher_order."

_OVERLOADS: Final[dict[str, str]] = {
    "2.2": """
        Generator.default _convert_weight_to_int4pack.default _foreach_add.Tensor _foreach_add_.Tensor
        _foreach_div.Tensor _foreach_div_.Tensor _mixed_dtypes_linear.default _weight_int4pack_mm.default all.dims
        any.dims initial_seed.default linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor
        logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor manual_seed.generator
        masked_scatter_backward.default seed.default""",
    "2.3": """
        _assert_scalar.default _chunk_cat.default _cslt_sparse_mm_search.default _functional_assert_scalar.default
        _fused_sgd.default _fused_sgd.tensor_lr _fused_sgd_.default _fused_sgd_.tensor_lr _lazy_clone.default
        _linalg_eigvals.default _nested_get_jagged_dummy.default _nested_get_lengths.default
        _nested_get_offsets.default _nested_get_ragged_idx.default _nested_get_values.default
        _nested_get_values_copy.default _nested_view_from_jagged.default _nested_view_from_jagged_copy.default
        _print.default _scaled_dot_product_cudnn_attention.default _scaled_dot_product_flash_attention_for_cpu.default
        _scaled_dot_product_flash_attention_for_cpu_backward.default _test_parallel_materialize.default
        _weight_int8pack_mm.default slice_inverse.default""",
    "2.4": """
        _batch_norm_no_update.default _batch_norm_with_update.default _batch_norm_with_update_functional.default
        _foreach_max.default _fused_adagrad.default _fused_adagrad_.default _jagged_to_padded_dense_forward.default
        _nested_compute_contiguous_strides_offsets.default _padded_dense_to_jagged_forward.default
        _scaled_dot_product_cudnn_attention_backward.default _sparse_compressed_tensor_with_dims.default
        _sparse_semi_structured_addmm.default _sparse_semi_structured_apply.default
        _sparse_semi_structured_apply_dense.default _sparse_semi_structured_mm.default
        _sparse_semi_structured_tile.default batch_norm_backward.default get_autocast_dtype.default rms_norm.default""",
    "2.5": """
        _nested_get_max_seqlen.default _nested_get_min_seqlen.default _safe_softmax.default
        _scaled_dot_product_attention_math_for_mps.default _scaled_dot_product_fused_attention_overrideable.default
        _scaled_dot_product_fused_attention_overrideable_backward.default _spsolve.default
        _unsafe_masked_index.default _unsafe_masked_index_put_accumulate.default _wrapped_linear_prepack.default
        _wrapped_quantized_linear_prepacked.default""",
    "2.6": """
        _convert_weight_to_int4pack_for_cpu.default _foreach_lerp.ScalarList _foreach_lerp_.ScalarList
        _foreach_rsqrt.default _foreach_rsqrt_.default _nested_from_padded_tensor.default
        _weight_int4pack_mm_for_cpu.default rrelu_with_noise_functional.default""",
    "2.7": """
        _cudnn_attention_forward.default _dyn_quant_matmul_4bit.default _dyn_quant_pack_4bit_weight.default
        _scaled_grouped_mm.default""",
    "2.8": """
        _fused_adagrad.tensor_lr _fused_adagrad_.tensor_lr _fused_rms_norm.default _grouped_mm.default
        _weight_int4pack_mm_with_scales_and_zeros.default addmm.dtype baddbmm.dtype bmm.dtype mm.dtype
        randint_like.Tensor""",
    "2.9": """
        _cudnn_attention_backward.default _fused_rms_norm_backward.default hash_tensor.default
        sym_is_contiguous.default""",
    "2.10": """
        _scaled_grouped_mm_v2.default _scaled_mm_v2.default rand_like.generator randint_like.Tensor_generator
        randint_like.generator randint_like.low_generator_dtype randn_like.generator""",
    "2.11": """
        _flash_attention_forward.quantized _foreach_powsum.Scalar _scaled_dot_product_flash_attention.quantized
        _use_miopen_ctc_loss.Tensor _use_miopen_ctc_loss.default linalg__powsum.default miopen_ctc_loss.Tensor
        miopen_ctc_loss.default""",
    "2.12": """
        _flash_attention_forward_no_dropout_inplace.default _foreach_clone.default _philox_key_fold_in.default
        _philox_key_split.default _philox_normal.default _philox_normal_.default _philox_uniform.default
        _philox_uniform_.default _upsample_lanczos2d_aa.default _upsample_lanczos2d_aa.vec
        _upsample_lanczos2d_aa_backward.default""",
    "2.13": "_foreach_mm.default broadcast_shapes.default",
    "2.14": """
        _philox_key_fold_in.Tensor linalg_matrix_sqrth.default linalg_polar.default shallow_copy_data_.default""",
    "2.15": """
        _cudnn_attention_forward_no_dropout_inplace.default _is_tracing.default _philox_randint.default
        _philox_randint_.default _scaled_addmm.default _scaled_addmm_.default""",
}
"""ATen's overloads by the release that introduced them."""

_PRIMITIVES: Final[dict[str, str]] = {
    "2.2": "view_of_dtype.default",
    "2.3": "frexp.default",
    "2.4": "_make_token.default _sink_tokens.default",
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


_FIRST_RELEASE: Final[dict[str, str]] = {
    f"{start}{name}": release
    for start, table in ((_ATEN, _OVERLOADS), (_PRIMS, _PRIMITIVES), ("", _FUNCTIONS), (_HOP, _HIGHER_ORDER))
    for release, names in table.items()
    for name in names.split()
}
"""The first release of every listed operator."""

_UNREAD: Final = frozenset({f"{_HOP}triton_kernel_wrapper_functional"})
"""Operators that torch writes and no release of it reads."""

_PREDISPATCH = (
    "torch._functorch.predispatch.",
    "torch._C.",
    "torch.amp.",
    "torch.autograd.",
    "torch.export.",
    "torch.fx.",
)
"""Prefixes of the names of functions that the reader of 2.13 is the first to call by name, whatever the function."""
_PREDISPATCH_RELEASE = "2.13"

_AGE: Final[dict[str, int]] = {release: index for index, release in enumerate(RELEASES)}


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
        _scaled_mm.default use_fast_accum=False
        _cslt_sparse_mm.default alpha=None out_dtype=None""",
    "2.3": """
        _sparse_semi_structured_linear.default out_dtype=None
        _cslt_sparse_mm.default alg_id=0""",
    "2.4": """
        _foreach_norm.Scalar dtype=None
        mkldnn_reorder_conv3d_weight.default input_size=None
        _flash_attention_backward.default window_size_left=None window_size_right=None
        _flash_attention_forward.default window_size_left=None window_size_right=None seqused_k=None alibi_slopes=None
        _efficient_attention_forward.default window_size=None
        _efficient_attention_backward.default window_size=None shared_storage_dqdkdv=False""",
    "2.5": """
        pad_sequence.default padding_side=right
        scaled_dot_product_attention.default enable_gqa=False
        _scaled_dot_product_attention_math.default enable_gqa=False
        _fused_sdp_choice.default enable_gqa=False
        _nested_view_from_jagged.default min_seqlen=None max_seqlen=None
        _nested_view_from_jagged_copy.default min_seqlen=None max_seqlen=None""",
    "2.6": f"""
        _assert_tensor_metadata.default device=any layout=any
        _cslt_sparse_mm.default split_k=1
        {_PRIMS}device_put.default non_blocking=False""",
    "2.7": """
        stft.default align_to_window=None
        stft.center align_to_window=None""",
    "2.12": """
        _flash_attention_forward.default block_table=None num_splits=None
        _scaled_dot_product_attention_math_for_mps.default enable_gqa=False""",
}
"""Parameters of ATen's overloads by the release that introduced them, each with the default with which it may be omitted.

A parameter that only adds to what an assertion checks may always be omitted. `out` overloads, and assertions
on the parts of sparse tensors, are in no exported graph.
"""

_CALLED_OTHERWISE: Final[dict[str, str]] = {
    "2.2": "_efficient_attention_forward.default _efficient_attention_backward.default",
    "2.3": "_efficient_attention_forward.default",
    "2.4": f"_scaled_dot_product_cudnn_attention.default {_PRIMS}var.default",
    "2.5": """
        _scaled_mm.default _scaled_dot_product_cudnn_attention.default
        _scaled_dot_product_cudnn_attention_backward.default""",
    "2.7": "_flash_attention_backward.default",
    "2.8": "_cslt_sparse_mm.default",
    "2.9": "_fused_rms_norm.default",
    "2.11": f"{_PRIMS}uniform.default",
}
"""Overloads whose parameters, their order, or whose results differ from those of the release before."""


def report_newer_operators(tree: Record, release: str, report: Report) -> None:
    """Report operators that a target of release `release` (`2.12`) cannot read and whose introduction no schema version marks.

    These are the operators that came later, with a release without a schema version of its own; the operators whose name no
    release resolves; and calls whose inputs lack names.
    """
    age, refuse = _AGE.get(release, -1), refusing(report, OURS)

    def check(node: Node, where: Where) -> None:
        target = node["target"]
        first = release_with(target)
        if first is None:
            refuse(where, f"the operator {target}, by a name that torch's reader does not know")
        elif version_with(first) is None and _AGE[first] > age:
            refusing(report, f"torch-{first}")(where, f"the operator {target}")
        if is_nameless(target, (named["name"] for named in node["inputs"])):
            refuse(where, f"inputs of {target} without their names")

    rewrite(tree, Edits(node=check))


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


def _overload(name: str) -> str:
    return name if name.startswith("torch.ops.") else f"{_ATEN}{name}"


ARRIVALS: Final[tuple[Change, ...]] = (
    *(Change(release, target, down=_refuse) for target, release in _FIRST_RELEASE.items()),
    *(
        Change(release, _overload(name), down=_refuse_form)
        for release, names in _CALLED_OTHERWISE.items()
        for name in names.split()
    ),
    *(
        Change(release, _overload(name), down=_without(parameters))
        for release, rows in _PARAMETERS.items()
        for name, *parameters in map(str.split, rows.strip().splitlines())
    ),
)
"""Operators and parameters that a release introduced, as changes that only have a way down."""
