"""Whether the weights and constants of a program are what its graph says of them.

A program may hold others: who gives an exported program's state dict a weight of another element type leaves what the graph
says of it as it was. Such a program computes, and is saved and loaded as it is; its record names these values
(`Program.edited_values`). Of every other value, another element type, shape, layout or order of elements in memory means that
the file is damaged, or that its weights are another program's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from graphwire.analysis.validation.legal_names import number_text, quoted
from graphwire.errors import Problem
from graphwire.schema import Layout, PayloadMeta, Program, TensorMeta, held_by

_SHOWN = 10
"""Sizes of a tensor that are told."""


class TensorFacts(NamedTuple):
    """What is compared of a tensor. Sizes and strides count elements; None is one that is not known as a number."""

    dtype: str
    layout: str
    sizes: list[int | None]
    strides: list[int | None]
    """Of a strided tensor; those of others say nothing."""

    @property
    def text(self) -> str:
        """Such as `float32[2, 3]`."""
        layout = "" if self.layout == Layout.Strided.name else f"{self.layout:.80} "
        dtype = self.dtype if self.dtype.isidentifier() else quoted(self.dtype)
        return f"{layout}{dtype:.80}{_numbers(self.sizes)}"


def tensor_facts(meta: TensorMeta) -> TensorFacts:
    """What is compared of a tensor that a record describes."""
    return TensorFacts(
        meta.dtype_text,
        meta.layout_name or meta.layout.name,
        [size.as_int for size in meta.sizes],
        [stride.as_int for stride in meta.strides] if meta.layout == Layout.Strided else [],
    )


def difference(held: TensorFacts, stated: TensorFacts) -> str:
    """How a tensor is another one than its graph states, as one sentence; empty where it is not.

    What one side does not know as a number is not compared; nor is where the elements of one position, or of none, would lie.
    """
    if (held.dtype, held.layout) != (stated.dtype, stated.layout) or not _agree(held.sizes, stated.sizes):
        return f"it is {held.text}, and the graph says {stated.text}"
    if 0 not in held.sizes and held.strides and stated.strides:
        strides = [
            (one, other)
            for size, one, other in zip(held.sizes, held.strides, stated.strides, strict=False)
            if size != 1
        ]
        if not _agree([one for one, _ in strides], [other for _, other in strides]):
            return (
                f"it is {held.text} with strides {_numbers(held.strides)}, and the graph says "
                f"{_numbers(stated.strides)}"
            )
    return ""


def plain_differences(
    program: Program, weights: Mapping[str, PayloadMeta], constants: Mapping[str, PayloadMeta]
) -> Iterator[tuple[str, str]]:
    """Each payload that is another tensor than the graph says: its qualified name, and how. Values that codecs wrote are
    none of these."""
    stated = program.graph_module.graph.tensor_values
    for spec in program.graph_module.signature.input_specs:
        held = held_by(spec)
        if held is None or (value := stated.get(held.value)) is None:
            continue
        payload = weights.get(held.name) or constants.get(held.name)
        meta = None if payload is None else payload.tensor_meta
        if meta is None or meta == value:
            continue
        if told := difference(tensor_facts(meta), tensor_facts(value)):
            yield held.name, told


def weight_problems(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Every value that the signature names and the payloads lack, or have otherwise than the graph says.

    Args:
        unread: the names of payloads that are there and cannot be read.
    """
    return [
        *missing_values(program, weights, constants, unread),
        *mismatches(program, plain_differences(program, weights, constants)),
    ]


def missing_values(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Every value that the signature names and the payloads lack. Arguments are those of `weight_problems`."""
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


def mismatches(program: Program, differences: Iterable[tuple[str, str]]) -> list[Problem]:
    """The values, by name and difference, of which nobody noted that they were edited."""
    return [
        Problem(_place(name), "mismatch", told)
        for name, told in differences
        if name not in program.edited_values
    ]


def _place(name: str) -> str:
    return f"payloads[{quoted(name)}]"


def _agree(ones: list[int | None], others: list[int | None]) -> bool:
    return len(ones) == len(others) and all(
        one is None or other is None or one == other for one, other in zip(ones, others, strict=True)
    )


def _numbers(values: list[int | None]) -> str:
    shown = ["?" if value is None else number_text(value) for value in values[:_SHOWN]]
    return f"[{', '.join(shown)}{', …' if len(values) > _SHOWN else ''}]"
