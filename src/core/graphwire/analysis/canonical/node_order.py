"""The canonical order of a graph's nodes, which does not depend on their original order.

Fixed nodes (see `analysis.canonical.node_order`) divide the nodes into segments. Within a segment, a heap holds the nodes whose
arguments are all available: the smallest operator name comes first, then the smallest ranks of the arguments, where a
value's rank is its number in the new order. Nodes that are still equal call the same operator on the same arguments. A digest
of the readers of their results decides between them, and then their original order.
"""

from __future__ import annotations

import enum
import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from graphwire.analysis.canonical.symbol_names import digest
from graphwire.errors import SchemaError
from graphwire.schema import Node

# -------------------------------------- effects of nodes: which nodes may be reordered, decided by operator names alone
# A node is of one of three kinds:
#
# * **pure**: its results depend only on its arguments. It may move anywhere between its producers and its readers.
# * **ordered**: it has an effect that only ordered nodes can see: it draws random numbers, asserts something, prints, or
#   passes on a token. Ordered nodes keep their relative order; pure nodes may move past them.
# * **fixed**: it may change a tensor in place, or change how later nodes compute (gradient mode, autocast), or its operator is
#   unknown. No node moves past it, in either direction, because any value may share memory with the tensor it changes.
#
# Without torch only the name of an operator is known. So only ATen operators, primitives and functions on symbols can be
# pure, unless their name ends like an in-place operator's or is listed here. Operators of other libraries are fixed. A test
# compares the lists with the schemas of the installed torch. A higher-order operator has the greatest effect found in its
# subgraphs.


class Effect(enum.IntEnum):
    """How freely a node may move: the greater the value, the less freely."""

    PURE = 0
    ORDERED = 1
    FIXED = 2


_OVERLOAD = r"(?a)torch\.ops\.(aten|prims)\.(\w+)\.(\w+)"
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
"""Operators that draw random numbers, always or depending on an argument."""

_ASSERTIONS = frozenset(
    "_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar"
    " _linalg_check_errors _print _validate_compressed_sparse_indices _validate_sparse_bsc_tensor_args"
    " _validate_sparse_bsr_tensor_args _validate_sparse_compressed_tensor_args _validate_sparse_coo_tensor_args"
    " _validate_sparse_csc_tensor_args _validate_sparse_csr_tensor_args sym_constrain_range"
    " sym_constrain_range_for_size warn _make_dep_token _functional_sym_constrain_range"
    " _functional_sym_constrain_range_for_size".split()
)
"""Operators that check a condition, print or warn."""

_MUTATING = frozenset(
    # Their schemas declare the mutation.
    "Delete _batch_norm_with_update _cudnn_attention_forward_no_dropout_inplace _cummax_helper _cummin_helper"
    " _flash_attention_forward_no_dropout_inplace _fused_moving_avg_obs_fq_helper _set_item append clear copy_to extend"
    " fused_moving_avg_obs_fake_quant insert manual_seed pop popitem record_stream remove resize retain_grad reverse"
    " rrelu_with_noise seed set_data setdefault update"
    # Their schemas do not declare it: in training they update the running statistics that they receive.
    " _batch_norm_impl_index _native_batch_norm_legit batch_norm cudnn_batch_norm instance_norm miopen_batch_norm"
    " native_batch_norm".split()
)
"""Operators that change an argument or state, although their name does not end like an in-place operator's."""

_MUTATING_OVERLOADS = frozenset(
    "L OutScalar_Other OutScalar_Self OutTensor Q U X a dim_max dim_min dim_values dimname_values dimname_values_stable"
    " eigenvalues eigvals grad_input inverse names_dim_max names_dim_min names_dim_values result sign values"
    " values_stable".split()
)
"""Overloads that write into an argument and have no `out` in their name: each is named after that argument."""

_CONTAINERS = frozenset(
    "associative_scan cond flex_attention flex_attention_backward foreach_map hints_wrapper invoke_quant"
    " invoke_quant_packed invoke_subgraph map map_impl out_dtype run_const_graph scan strict_mode"
    " tag_activation_checkpoint while_loop while_loop_stack_output wrap wrap_activation_checkpoint wrap_with_autocast"
    " wrap_with_set_grad_enabled".split()
)
"""Higher-order operators whose only effects are those of their subgraphs."""

_ORDERED_HIGHER_ORDER = frozenset(
    "auto_functionalized auto_functionalized_v2 graphsafe_run_with_rng_state print run_and_save_rng_state"
    " run_with_rng_state triton_kernel_wrapper_functional with_effects".split()
)
"""Higher-order operators that change no tensor, but may have another effect."""


def effect_of(node: Node, inside: Iterable[Effect] = ()) -> Effect:
    """Return the effect of a node.

    Args:
        node: the call of an operator.
        inside: the effects of the subgraphs among its arguments.
    """
    return max(_operator_effect(node), *inside, Effect.PURE)


def _operator_effect(node: Node) -> Effect:
    target = node.target
    overload = re.fullmatch(_OVERLOAD, target)
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
    # The schema of as_strided declares a write. inductor_* is internal to the compiler; no exported program contains it.
    if namespace == "prims" and (name == "as_strided" or name.startswith("inductor_")):
        return Effect.FIXED
    if not returns:
        return Effect.FIXED
    return Effect.ORDERED if name in _RANDOM else Effect.PURE


def _is_in_place(name: str) -> bool:
    """Return whether a name is that of an in-place operator: `add_`, `__iadd__`."""
    return name.startswith("__i") if name.endswith("__") else name.endswith("_")


class Step(NamedTuple):
    """The facts about a node that its canonical position depends on."""

    operator: str
    shape: bytes
    """The content of its inputs, without the names of the values."""
    uses: tuple[str, ...]
    """The values that it reads, in their order in `shape`."""
    makes: tuple[str, ...]
    """The values that are its results."""
    effect: Effect


def node_order(inputs: Sequence[str], steps: Sequence[Step], outputs: Sequence[str]) -> list[int]:
    """Return the indices of `steps` in canonical order. Takes O(n log n) time and linear memory.

    Args:
        inputs: the values that exist before any step, in canonical order.
        steps: the steps, in an order in which they can run.
        outputs: the values that are read after all steps.

    Raises:
        SchemaError: steps depend on each other's results in a cycle.
    """
    use_digests = _use_digests(inputs, steps, outputs)
    ranks = {name: rank for rank, name in enumerate(inputs)}
    order: list[int] = []
    for segment in _segments(steps):
        before = len(order)
        order.extend(_ordered(segment, steps, use_digests, ranks))
        if len(order) - before != len(segment):
            late = min(set(segment) - set(order))
            raise SchemaError("the node waits for its own results", place=f"nodes[{late}]")
    return order


def _segments(steps: Sequence[Step]) -> Iterable[list[int]]:
    """Yield the runs of steps that may be reordered and, between them, each fixed step alone."""
    segment: list[int] = []
    for index, step in enumerate(steps):
        if step.effect is Effect.FIXED:
            yield segment
            yield [index]
            segment = []
        else:
            segment.append(index)
    yield segment


def _ordered(
    segment: list[int], steps: Sequence[Step], use_digests: Sequence[bytes], ranks: dict[str, int]
) -> Iterable[int]:
    """Yield the indices of one segment in canonical order, and add the ranks of their results. Omits steps in a cycle."""
    waiting, readers = _dependencies(segment, steps, ranks)

    def entry(index: int) -> tuple[str, tuple[int, ...], bytes, bytes, int]:
        step = steps[index]
        # A value that no step makes, such as a constant referenced by name, has the lowest rank.
        used = tuple([ranks.get(name, -1) for name in step.uses])
        return step.operator, used, step.shape, use_digests[index], index

    heap = [entry(index) for index in segment if not waiting[index]]
    heapq.heapify(heap)
    while heap:
        index = heapq.heappop(heap)[-1]
        yield index
        for name in steps[index].makes:
            ranks.setdefault(name, len(ranks))
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(heap, entry(reader))


def _dependencies(
    segment: list[int], steps: Sequence[Step], ranks: Mapping[str, int]
) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return for each step the number of steps it waits for, and the steps that wait for it."""
    makers = {name: index for index in segment for name in steps[index].makes}
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    last_ordered = -1
    for index in segment:
        step = steps[index]
        awaited = {makers[name] for name in step.uses if name not in ranks and name in makers}
        if step.effect is Effect.ORDERED:
            if last_ordered >= 0:
                awaited.add(last_ordered)
            last_ordered = index
        waiting[index] = len(awaited)
        for each in awaited:
            readers.setdefault(each, []).append(index)
    return waiting, readers


# -------------------------------------------------------------------------------------------------------- readers


def _use_digests(inputs: Sequence[str], steps: Sequence[Step], outputs: Sequence[str]) -> list[bytes]:
    """Return for each step a digest of its readers: equal for steps that no reader distinguishes.

    A reader is identified by what it computes (a digest of its operator and of all it reads, down to the inputs), by the
    position at which it reads the value, and by the readers of its own results.
    """
    values = {name: digest(b"input", str(rank).encode()) for rank, name in enumerate(inputs)}
    computed: list[bytes] = []
    effects = 0
    for step in steps:
        effects += step.effect is not Effect.PURE
        turn = b"" if step.effect is Effect.PURE else str(effects).encode()
        read = [values.get(name, b"constant") for name in step.uses]
        computed.append(digest(step.operator.encode(), step.shape, turn, *read))
        for position, name in enumerate(step.makes):
            values.setdefault(name, digest(computed[-1], str(position).encode()))
    uses: dict[str, list[bytes]] = {}
    for position, name in enumerate(outputs):
        uses.setdefault(name, []).append(digest(b"output", str(position).encode()))
    found = [b""] * len(steps)
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if any(name in uses for name in step.makes):
            ways = [digest(*sorted(uses.get(name, ()))) for name in step.makes]
            found[index] = digest(*ways)
        own = digest(computed[index], found[index])
        for position, name in enumerate(step.uses):
            uses.setdefault(name, []).append(digest(own, str(position).encode()))
    return found
