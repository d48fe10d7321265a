"""Checks that the weights and constants of a program match the metadata in its graph.

A program may legitimately have other weights: replacing a weight in an exported program's state dict by one of another
element type does not change the graph. Such a program runs, is saved and loaded unchanged, and lists these values in
`Program.edited_values`. For any other value, a different element type, shape, layout or order of elements in memory means
that the file is damaged, or that its weights belong to another program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from graphwire.analysis.validation.value_rules import number_text, quoted
from graphwire.errors import Problem
from graphwire.schema import Layout, PayloadMeta, Program, TensorMeta, held_by

_SHOWN = 10
"""The largest number of sizes of a tensor to show in a message."""


class TensorFacts(msgspec.Struct, frozen=True):
    """The facts about a tensor that are compared. Sizes and strides count elements; None means that the number is unknown."""

    dtype: str
    layout: str
    sizes: list[int | None]
    strides: list[int | None]
    """Only for a strided tensor; empty for other layouts."""

    @property
    def text(self) -> str:
        """The facts as text, such as `float32[2, 3]`."""
        layout = "" if self.layout == Layout.Strided.name else f"{self.layout:.80} "
        dtype = self.dtype if self.dtype.isidentifier() else quoted(self.dtype)
        return f"{layout}{dtype:.80}{_numbers(self.sizes)}"


def tensor_facts(meta: TensorMeta) -> TensorFacts:
    """Return the facts to compare about a tensor that a record describes."""
    return TensorFacts(
        meta.dtype_text,
        meta.layout_name or meta.layout.name,
        [size.as_int for size in meta.sizes],
        [stride.as_int for stride in meta.strides] if meta.layout == Layout.Strided else [],
    )


def tensor_difference(held: TensorFacts, stated: TensorFacts) -> str:
    """Return how a tensor differs from the metadata in its graph, as one sentence; empty if it does not.

    Numbers that are unknown on one side are not compared, nor strides of dimensions of size 1 and of tensors without elements.
    """
    same_kind = (held.dtype, held.layout, len(held.sizes)) == (stated.dtype, stated.layout, len(stated.sizes))
    if not same_kind or not all(map(_agree, held.sizes, stated.sizes)):
        return f"it is {held.text}, but the graph states {stated.text}"
    strides = zip(held.sizes, held.strides, stated.strides, strict=False)
    if 0 in held.sizes or all(size == 1 or _agree(one, other) for size, one, other in strides):
        return ""
    return (
        f"it is {held.text} with strides {_numbers(held.strides)}, but the graph states "
        f"{_numbers(stated.strides)}"
    )


def payload_differences(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the difference of each payload that does not match the graph. Ignores values that codecs
    wrote."""
    stated = program.graph_module.graph.tensor_values
    for spec in program.graph_module.signature.input_specs:
        held = held_by(spec)
        if held is None or (value := stated.get(held.value)) is None:
            continue
        payload = weights.get(held.name) or constants.get(held.name)
        meta = None if payload is None else payload.tensor_meta
        if meta is None or meta == value:
            continue
        if text := tensor_difference(tensor_facts(meta), tensor_facts(value)):
            yield held.name, text


def weight_problems(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Return a problem for every value in the signature that the payloads lack, or that does not match the graph.

    Args:
        unread: the names of payloads that exist and cannot be read.
    """
    return [
        *missing_values(program, weights, constants, unread),
        *mismatch_problems(program, payload_differences(program, weights, constants)),
    ]


def missing_values(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Return a problem for every value in the signature that the payloads lack. Arguments are those of `weight_problems`."""
    known = (constants, program.encoded_values, unread)
    return [
        Problem(
            _place(held.name),
            "missing-payload",
            f"the program's {held.kind} {quoted(held.name)} is not among its weights and constants",
        )
        for held in map(held_by, program.graph_module.signature.input_specs)
        if held is not None and held.name not in weights and not any(held.name in names for names in known)
    ]


def mismatch_problems(program: Program, differences: Iterable[tuple[str, str]]) -> list[Problem]:
    """Return a problem for each difference, by name, of a value that the program does not list as edited. A file of torch lists
    none, so there the kind is `edited`."""
    kind = "edited" if program.producer is None else "mismatch"
    return [
        Problem(_place(name), kind, text) for name, text in differences if name not in program.edited_values
    ]


def _place(name: str) -> str:
    return f"payloads[{quoted(name)}]"


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _numbers(values: list[int | None]) -> str:
    shown = ["?" if value is None else number_text(value) for value in values[:_SHOWN]]
    return f"[{', '.join(shown)}{', …' if len(values) > _SHOWN else ''}]"
