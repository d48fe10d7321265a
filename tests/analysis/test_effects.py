"""What may move, held against the schemas and tags of every operator of the installed torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from inside.analysis import Effect, effect_of

from graphwire.schema import Argument, Node, TensorArgument

RESULT = [Argument(as_tensor=TensorArgument("a"))]


def _effect(target: str, *, returns: bool = True) -> Effect:
    return effect_of(Node(target, [], RESULT if returns else [], {}))


def _overloads() -> Iterator[tuple[str, Any, Any]]:
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace not in ("aten", "prims"):
            continue
        overload = schema.overload_name or "default"
        found = getattr(getattr(getattr(torch.ops, namespace), name), overload, None)
        yield f"torch.ops.{namespace}.{name}.{overload}", schema, found


def test_no_operator_that_writes_into_an_argument_counts_as_pure_or_ordered() -> None:
    wrong = [
        target
        for target, schema, _ in _overloads()
        if any(
            argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments
        )
        and _effect(target, returns=bool(schema.returns)) is not Effect.FIXED
    ]
    assert wrong == []


def test_no_operator_that_draws_random_numbers_counts_as_pure() -> None:
    wrong = [
        target
        for target, _, found in _overloads()
        if found is not None
        and torch.Tag.nondeterministic_seeded in found.tags
        and _effect(target) is Effect.PURE
    ]
    assert wrong == []


def test_no_operator_without_results_counts_as_pure() -> None:
    wrong = [
        target
        for target, schema, _ in _overloads()
        if not schema.returns and _effect(target, returns=False) is Effect.PURE
    ]
    assert wrong == []


def test_core_operators_that_only_compute_are_pure() -> None:
    """A rule that held everything in place would pass the tests above."""
    fixed = [
        target
        for target, _, found in _overloads()
        if found is not None
        and torch.Tag.core in found.tags
        and torch.Tag.nondeterministic_seeded not in found.tags
        and not found._schema.is_mutable
        and found._schema.returns
        and _effect(target) is not Effect.PURE
    ]
    assert fixed == ["torch.ops.aten._native_batch_norm_legit.no_stats"]  # its other overloads do write


@pytest.mark.parametrize(
    ("target", "effect"),
    [
        ("_operator.mul", Effect.PURE),
        ("math.floor", Effect.PURE),
        ("torch.sym_max", Effect.PURE),
        ("torch._C._set_grad_enabled", Effect.FIXED),
        ("torch.amp.autocast_mode._enter_autocast", Effect.FIXED),
        ("torch.ops.aten._assert_scalar.default", Effect.ORDERED),
        ("torch.ops.aten.sym_constrain_range_for_size.default", Effect.ORDERED),
        ("torch.ops.aten.batch_norm.default", Effect.FIXED),
        ("torch.ops.aten._native_batch_norm_legit_no_training.default", Effect.PURE),
        ("torch.ops.aten.index_put_.default", Effect.FIXED),
        ("torch.ops.aten.__iand__.Tensor", Effect.FIXED),
        ("torch.ops.aten.__and__.Tensor", Effect.PURE),
        ("torch.ops.mine.anything.default", Effect.FIXED),
        ("torch.ops.higher_order.cond", Effect.PURE),
        ("torch.ops.higher_order.with_effects", Effect.ORDERED),
        ("torch.ops.higher_order.triton_kernel_wrapper_mutation", Effect.FIXED),
        ("torch.ops.higher_order.nobody_knows", Effect.FIXED),
    ],
)
def test_the_kind_of_an_operator(target, effect) -> None:
    assert _effect(target, returns="_assert" not in target and "constrain" not in target) is effect


@pytest.mark.parametrize("inside", list(Effect))
def test_a_higher_order_operator_is_what_the_worst_of_its_subgraphs_is(inside) -> None:
    node = Node("torch.ops.higher_order.cond", [], RESULT, {})
    assert effect_of(node, [Effect.PURE, inside]) is inside
