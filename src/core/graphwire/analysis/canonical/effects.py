"""Which nodes may change places, judged by the names of their operators alone.

A node is of one of three kinds:

* **pure**: its results depend on its arguments alone. It may stand anywhere between the nodes it reads from and those that
  read from it.
* **ordered**: it has an effect that only nodes of this kind can see: it draws random numbers, asserts something, prints,
  passes a token on. Such nodes keep their order among each other; pure ones may pass them.
* **fixed**: it may change a tensor in place, or how the nodes after it compute (gradient mode, autocast), or nothing is
  known of it. Nothing passes it, in either direction, since any value may share memory with what it changes.

Without torch nothing is known of an operator but its name. So only ATen, the primitives and the functions on symbols can
be pure, and of these the ones that neither end like an in-place operator nor are listed here; an operator of any other
library is fixed. A test holds the lists against the schemas of the installed torch. A higher-order operator is what the
worst node in its subgraphs is.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

from graphwire.schema import Node


class Effect(enum.IntEnum):
    """How freely a node may move; the greater, the less."""

    PURE = 0
    ORDERED = 1
    FIXED = 2


_OVERLOAD = re.compile(r"torch\.ops\.(aten|prims)\.(\w+)\.(\w+)", re.ASCII)
_HIGHER_ORDER = "torch.ops.higher_order."
_FUNCTIONS = ("_operator.", "math.", "builtins.", "torch.sym_", "torch._sym_")
_GUARDLESS = "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless"

_RANDOM = frozenset(
    "_cudnn_attention_backward _cudnn_attention_forward _cudnn_init_dropout_state _cudnn_rnn"
    " _efficient_attention_forward _flash_attention_forward _fused_dropout _fused_sdp_choice _lstm_mps"
    " _native_multi_head_attention _nested_tensor_softmax_with_shape _sample_dirichlet"
    " _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps"
    " _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward"
    " _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward"
    " _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_fused_attention_overrideable _standard_gamma _transformer_encoder_layer_fwd"
    " _triton_scaled_dot_attention alpha_dropout bernoulli binomial cauchy dropout exponential feature_alpha_dropout"
    " feature_dropout geometric gru log_normal lstm miopen_rnn multinomial native_dropout normal normal_functional"
    " poisson rand rand_like randint randint_like randn randn_like random randperm rnn_relu rnn_tanh rrelu"
    " rrelu_with_noise_functional scaled_dot_product_attention uniform".split()
)
"""Operators that draw random numbers, or may, depending on an argument."""

_ASSERTIONS = frozenset(
    "_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar"
    " _linalg_check_errors _print _validate_compressed_sparse_indices _validate_sparse_bsc_tensor_args"
    " _validate_sparse_bsr_tensor_args _validate_sparse_compressed_tensor_args _validate_sparse_coo_tensor_args"
    " _validate_sparse_csc_tensor_args _validate_sparse_csr_tensor_args sym_constrain_range"
    " sym_constrain_range_for_size warn _make_dep_token _functional_sym_constrain_range"
    " _functional_sym_constrain_range_for_size".split()
)
"""Operators that check or say something."""

_MUTATING = frozenset(
    # Their schemas say so.
    "Delete _batch_norm_with_update _cudnn_attention_forward_no_dropout_inplace _cummax_helper _cummin_helper"
    " _flash_attention_forward_no_dropout_inplace _fused_moving_avg_obs_fq_helper _set_item append clear copy_to extend"
    " fused_moving_avg_obs_fake_quant insert manual_seed pop popitem record_stream remove resize retain_grad reverse"
    " rrelu_with_noise seed set_data setdefault update"
    # Their schemas do not: in training they update the running statistics that they are given.
    " _batch_norm_impl_index _native_batch_norm_legit batch_norm cudnn_batch_norm instance_norm miopen_batch_norm"
    " native_batch_norm".split()
)
"""Operators that change an argument, or a state, although their name does not end like an in-place operator's."""

_MUTATING_OVERLOADS = frozenset(
    "L OutScalar_Other OutScalar_Self OutTensor Q U X a dim_max dim_min dim_values dimname_values dimname_values_stable"
    " eigenvalues eigvals grad_input inverse names_dim_max names_dim_min names_dim_values result sign values"
    " values_stable".split()
)
"""Overloads that write into an argument, besides those with `out` in their name: each is named by that argument."""

_CONTAINERS = frozenset(
    "associative_scan cond flex_attention flex_attention_backward foreach_map hints_wrapper invoke_quant"
    " invoke_quant_packed invoke_subgraph map map_impl out_dtype run_const_graph scan strict_mode"
    " tag_activation_checkpoint while_loop while_loop_stack_output wrap wrap_activation_checkpoint wrap_with_autocast"
    " wrap_with_set_grad_enabled".split()
)
"""Higher-order operators that do what their subgraphs do, and nothing else."""

_ORDERED_HIGHER_ORDER = frozenset(
    "auto_functionalized auto_functionalized_v2 graphsafe_run_with_rng_state print run_and_save_rng_state"
    " run_with_rng_state triton_kernel_wrapper_functional with_effects".split()
)
"""Higher-order operators that change no tensor, around something that may have another effect."""


def effect_of(node: Node, inside: Iterable[Effect] = ()) -> Effect:
    """How freely a node may move.

    Args:
        node: the call of an operator.
        inside: the effects of the subgraphs among its arguments.
    """
    return max(_operator_effect(node), *inside, Effect.PURE)


def _operator_effect(node: Node) -> Effect:
    target = node.target
    overload = _OVERLOAD.fullmatch(target)
    if overload is not None:
        return _overload_effect(*overload.groups(), returns=bool(node.outputs))
    if target.startswith(_HIGHER_ORDER):
        name = target.removeprefix(_HIGHER_ORDER)
        if name in _CONTAINERS:
            return Effect.PURE
        return Effect.ORDERED if name in _ORDERED_HIGHER_ORDER else Effect.FIXED
    return Effect.PURE if target.startswith(_FUNCTIONS) or target == _GUARDLESS else Effect.FIXED


def _overload_effect(namespace: str, name: str, overload: str, *, returns: bool) -> Effect:
    if name in _ASSERTIONS:
        return Effect.ORDERED
    if name in _MUTATING or _is_in_place(name) or "out" in overload or overload in _MUTATING_OVERLOADS:
        return Effect.FIXED
    # Its schema says that it writes; and what is the compiler's own, which no exported program has.
    if namespace == "prims" and (name == "as_strided" or name.startswith("inductor_")):
        return Effect.FIXED
    if not returns:
        return Effect.FIXED
    return Effect.ORDERED if name in _RANDOM else Effect.PURE


def _is_in_place(name: str) -> bool:
    """Whether an operator's name is that of an in-place operator: `add_`, `__iadd__`."""
    return name.startswith("__i") if name.endswith("__") else name.endswith("_")
