"""Compares weights and constants with the graph's description of them: recorded by a save, checked by a load."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from graphwire.analysis.validation import (
    mismatch_problems,
    missing_values,
    payload_differences,
    tensor_difference,
    tensor_facts,
)
from graphwire.bridge.tensors.codecs import class_name
from graphwire.bridge.tensors.tensor_metas import visible_facts
from graphwire.errors import DecodeError, GraphwireWarning, Problem, ValidationError
from graphwire.schema import Program, held_by
from graphwire.wire import Payloads

_SHOWN = 5
"""The most values that a warning lists."""


def record_edited_values(record: Program, payloads: Payloads, values: Mapping[str, Any]) -> None:
    """Record, with a warning, the names of weights and constants that differ from the graph's description. That may be
    intended, and mostly is not.

    Args:
        values: the weights and constants by qualified name.
    """
    edited = list(_differences(record, payloads, values))
    if edited:
        record.edited_values = [name for name, _ in edited]
        warnings.warn(
            f"{_summary(edited)}. Both are saved unchanged; export the program again if the graph shall match",
            GraphwireWarning,
            stacklevel=3,
        )


def check_weights(record: Program, payloads: Payloads, values: Mapping[str, Any]) -> None:
    """Raise if weights or constants are missing, or differ from the graph's description without being recorded as edited.

    torch records no edits, so for a program that torch wrote a difference is a warning.

    Args:
        values: the weights and constants by qualified name.

    Raises:
        DecodeError: all of them are missing, as in a document without payloads.
        ValidationError: some are missing or differ; the error lists all of them.
    """
    missing = missing_values(record, payloads.weights, payloads.constants, payloads.unread)
    if missing and not payloads.weights and not payloads.constants:
        raise DecodeError(
            f"the program needs {len(missing)} weights and constants, and all are missing ({missing[0].message})",
            remedy="Pass them: from_schema(program, payloads)",
        )
    differences = [
        each for each in _differences(record, payloads, values) if each[0] not in record.edited_values
    ]
    if differences and record.producer is None:
        warnings.warn(
            f"{_summary(differences)}. Somebody edited them before the program was saved, or they are another program's",
            GraphwireWarning,
            stacklevel=3,
        )
        differences = []
    problems = [*missing, *mismatch_problems(record, differences), *_wrong_kinds(record, values)]
    if problems:
        raise ValidationError(
            problems, remedy="The file is damaged, or these are the weights of another program"
        )


def _wrong_kinds(record: Program, values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield each coded value that contradicts the signature: an object as a weight, or a tensor as an object."""
    if not record.encoded_values:
        return
    for spec in record.graph_module.signature.input_specs:
        held = held_by(spec)
        if held is None or held.name not in record.encoded_values or held.name not in values:
            continue
        is_tensor = isinstance(values[held.name], torch.Tensor)
        if is_tensor is (spec.custom_obj is not None):
            kind = class_name(values[held.name])
            place = f"encoded_values[{held.name!r:.80}]"
            what = "an object" if is_tensor else f"a {held.kind}, a tensor"
            message = f"{held.name!r:.80} is {what}, but decodes to a {kind}"
            yield Problem(place, "kind", message)


def _differences(record: Program, payloads: Payloads, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each tensor that differs from the graph's description, with the difference: plain ones, then those of codecs."""
    yield from payload_differences(record, payloads.weights, payloads.constants)
    if not record.encoded_values:
        return
    stated = record.graph_module.graph.tensor_values
    for held in filter(None, map(held_by, record.graph_module.signature.input_specs)):
        tensor = values.get(held.name)
        if held.name not in record.encoded_values or not isinstance(tensor, torch.Tensor):
            continue
        if held.value in stated and (
            how := tensor_difference(visible_facts(tensor), tensor_facts(stated[held.value]))
        ):
            yield held.name, how


def _summary(differences: Sequence[tuple[str, str]]) -> str:
    shown = [f"{name}: {how}" for name, how in differences[:_SHOWN]]
    more = len(differences) - len(shown)
    rest = f"; and {more} more" if more else ""
    return f"weights or constants differ from what the graph says of them ({'; '.join(shown)}{rest})"
