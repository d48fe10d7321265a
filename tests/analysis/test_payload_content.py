"""The digest of a weight is one of its elements, wherever and however they lie."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from inside.analysis import payload_digests

from graphwire import Payloads
from graphwire.errors import MissingRecordError
from graphwire.schema import Device, Layout, PayloadMeta, ScalarType, SymInt, TensorMeta


class Bytes(NamedTuple):
    data: bytes

    @property
    def nbytes(self) -> int:
        return len(self.data)

    def view(self) -> memoryview:
        return memoryview(self.data)


def _meta(
    sizes: list[int], strides: list[int], offset: int = 0, record: str = "weight_0", **more: Any
) -> PayloadMeta:
    numbers = [[SymInt(as_int=number) for number in each] for each in (sizes, strides, [offset])]
    tensor = TensorMeta(
        ScalarType.BYTE, numbers[0], False, Device("cpu"), numbers[1], numbers[2][0], Layout.Strided
    )
    return PayloadMeta(record, True, False, tensor, **more)


def _digest(meta: PayloadMeta, data: bytes) -> str:
    payloads = Payloads({"w": meta}, records={f"data/weights/{meta.path_name}": Bytes(data)})
    return payload_digests(payloads)["weight", "w"]


BASE = _digest(_meta([2, 3], [3, 1]), b"abcdef")


@pytest.mark.parametrize(
    ("meta", "data"),
    [
        (_meta([2, 3], [3, 1], offset=4), b"----abcdef--"),
        (_meta([2, 3], [3, 1], record="weight_9"), b"abcdef"),
        (_meta([2, 3], [5, 1]), b"abc--def"),
        (_meta([2, 3], [6, 2]), b"a-b-c-d-e-f"),
    ],
)
def test_where_elements_lie_does_not_count(meta, data) -> None:
    assert _digest(meta, data) == BASE


@pytest.mark.parametrize(
    ("meta", "data"),
    [
        (_meta([2, 3], [3, 1]), b"abcdeg"),
        (_meta([3, 2], [2, 1]), b"abcdef"),
        (_meta([2, 3], [1, 2]), b"abcdef"),
        (_meta([2, 3], [3, 1], conj=True), b"abcdef"),
        (_meta([2, 3], [0, 1]), b"abc"),
    ],
)
def test_elements_and_shape_count(meta, data) -> None:
    assert _digest(meta, data) != BASE


def test_a_dimension_of_one_element_has_no_stride_that_counts() -> None:
    assert _digest(_meta([2, 1, 3], [3, 3, 1]), b"abcdef") == _digest(_meta([2, 1, 3], [3, 99, 1]), b"abcdef")


def test_sharing_counts() -> None:
    meta, other = _meta([2], [1]), _meta([2], [1], record="weight_1")
    records = {f"data/weights/weight_{index}": Bytes(b"ab") for index in range(2)}
    tied = payload_digests(Payloads({"a": meta, "b": meta}, records=records))
    loose = payload_digests(Payloads({"a": meta, "b": other}, records=records))
    assert tied["weight", "a"] != loose["weight", "a"]


def test_sharing_between_weights_and_constants_counts() -> None:
    meta = _meta([2], [1])
    records = {f"data/{folder}/weight_0": Bytes(b"ab") for folder in ("weights", "constants")}
    found = [
        payload_digests(Payloads({"a": meta}, {"b": _meta([2], [1], shared=shared)}, records=records))
        for shared in ("data/weights/weight_0", None)
    ]
    assert found[0]["weight", "a"] != found[1]["weight", "a"]


def test_a_record_that_is_missing_or_short_is_named() -> None:
    with pytest.raises(MissingRecordError, match="weight_0"):
        payload_digests(Payloads({"w": _meta([2], [1])}))
    with pytest.raises(MissingRecordError, match="needs 6 bytes"):
        _digest(_meta([2, 3], [3, 1]), b"abc")


def test_what_has_no_elements_needs_no_record() -> None:
    assert payload_digests(Payloads({"w": _meta([2], [1], placement="meta")}))
    assert payload_digests(Payloads({"w": _meta([0], [1])}))


def test_what_has_no_elements_shares_none() -> None:
    """torch writes one record for all empty weights; graphwire one for each."""
    together = {name: _meta([0, size], [size, 1]) for name, size in (("a", 3), ("b", 2))}
    apart = {
        name: _meta([0, size], [size, 1], record=f"weight_{size}") for name, size in (("a", 3), ("b", 2))
    }
    one, other = (payload_digests(Payloads(metas, records={})) for metas in (together, apart))
    assert one == other


def test_what_has_elements_shares_them_with_an_empty_part() -> None:
    metas = {"whole": _meta([2, 3], [3, 1]), "none": _meta([0], [1])}
    found = payload_digests(Payloads(metas, records={"data/weights/weight_0": Bytes(b"abcdef")}))
    assert found["weight", "whole"] != BASE
