from __future__ import annotations

import json
import math
from typing import Any

import pytest

from graphwire.errors import LimitError
from graphwire_plugins.json_format import JsonFormat

FORMAT = JsonFormat()


def test_plain_trees_are_plain_json() -> None:
    tree: Any = {"as_tensor": {"name": "x"}, "list": [1, -2.5, True, None, "é"]}
    assert FORMAT.encode(tree) == '{"as_tensor":{"name":"x"},"list":[1,-2.5,true,null,"é"]}'.encode()


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        (b"\x00\xff", '{"$bytes":"AP8="}'),
        (b"", '{"$bytes":""}'),
        ([math.inf, -math.inf, math.nan], '[{"$float":"inf"},{"$float":"-inf"},{"$float":"nan"}]'),
        ({"$bytes": "AP8="}, '{"$$bytes":"AP8="}'),
        ({"$$float": "nan"}, '{"$$$float":"nan"}'),
        ({"$bytes": "AP8=", "more": 1}, '{"$bytes":"AP8=","more":1}'),
        ({"$other": 1}, '{"$other":1}'),
        ({"bytes": 1}, '{"bytes":1}'),
        (1 << 64, "18446744073709551616"),
        ("$bytes", '"$bytes"'),
    ],
    ids=repr,
)
def test_what_json_lacks_is_written_by_rule(tree: Any, written: str) -> None:
    assert FORMAT.encode(tree).decode() == written
    assert repr(FORMAT.decode(written.encode())) == repr(tree)


@pytest.mark.parametrize(
    "text", [r'{"a":"\\","b":"\""}', r'{"\\":"\\\\\"","\"":"\u0022"}', r'["\/", "\\\"\\"]']
)
def test_escapes_are_not_taken_for_twins(text: str) -> None:
    assert FORMAT.decode(text.encode()) == json.loads(text)


def test_deep_documents_with_bare_tokens_are_refused() -> None:
    with pytest.raises(LimitError):
        FORMAT.decode(b"[NaN," + b"[" * 100_000 + b"]" * 100_001)
