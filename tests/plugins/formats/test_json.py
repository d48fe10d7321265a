from __future__ import annotations

import json
import math
from typing import Any

import pytest

from graphwire.errors import FormatError, LimitError
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


def test_an_escaped_tag_is_a_tag() -> None:
    assert FORMAT.decode(rb'{"\u0024bytes":"AP8="}') == b"\x00\xff"
    assert FORMAT.decode(rb'{"$byt\u0065s":"AP8="}') == b"\x00\xff"


DAMAGED_TAGS = ['{"$bytes":1}', '{"$bytes":"A"}', '{"$bytes":"A A="}', '{"$bytes":"é"}', '{"$bytes":null}']
DAMAGED_TAGS += ['{"$float":"x"}', '{"$float":1.0}', '{"$float":"NaN"}', '{"$float":{"$float":"inf"}}']


@pytest.mark.parametrize("text", DAMAGED_TAGS)
def test_a_damaged_tag_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"\$(bytes|float)"):
        FORMAT.decode(text.encode())


def test_bare_tokens_of_older_torch_are_read() -> None:
    tree: Any = FORMAT.decode(b'{"a": [NaN, Infinity, -Infinity, 1.5], "b": "\\u00e9 NaN"}')
    assert math.isnan(tree["a"][0])
    assert tree["a"][1:] == [math.inf, -math.inf, 1.5]
    assert tree["b"] == "é NaN"


def test_a_text_that_names_a_token_is_text() -> None:
    assert FORMAT.decode(b'["NaN", "-Infinity"]') == ["NaN", "-Infinity"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"b":{"x":[{"k":1,"l":2,"k":3}]}}',
        r'{"a":"\\","a":"\""}',
        r'{"a":1,"\u0061":2}',
        '{"a":NaN,"a":1}',
        r'{"\"":1,"\"":2}',
        r'{"\\\"":1,"\\\"":2}',
    ],
)
def test_a_key_that_occurs_twice_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="occurs twice"):
        FORMAT.decode(text.encode())


@pytest.mark.parametrize(
    "text", [r'{"a":"\\","b":"\""}', r'{"\\":"\\\\\"","\"":"\u0022"}', r'["\/", "\\\"\\"]']
)
def test_escapes_are_not_taken_for_twins(text: str) -> None:
    assert FORMAT.decode(text.encode()) == json.loads(text)


NO_JSON = [
    b"",
    b" ",
    b"{",
    b"[1,]",
    b'{"a":1,}',
    b"{'a':1}",
    b"{1:2}",
    b"nul",
    b"nan",
    b"Infinit",
    b"// x\n1",
    b"1 2",
]
NO_JSON += [
    b"01",
    b"1.",
    b"+1",
    b".5",
    b"[1e999]",
    b"[NaN, 1e999]",
    b"[NaN",
    b"1" * 5000,
    b"[NaN," + b"1" * 5000 + b"]",
]
NO_JSON += [b'"\n"', b'"\\x"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800"', b'["\\udc00", NaN]']
NO_JSON += [b"\xef\xbb\xbf{}", "{}".encode("utf-16")]


@pytest.mark.parametrize("data", NO_JSON)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        FORMAT.decode(data)


def test_space_around_tokens_is_read() -> None:
    data = b' \t\r\n{ "a" : [ 1 , 2 ] } \n'
    assert FORMAT.decode(data) == {"a": [1, 2]}
    assert FORMAT.matches(data)


def test_too_large_an_integer_is_refused() -> None:
    with pytest.raises(FormatError, match="4,300"):
        FORMAT.encode({"a": 10**5000})


def test_deep_documents_with_bare_tokens_are_refused() -> None:
    with pytest.raises(LimitError):
        FORMAT.decode(b"[NaN," + b"[" * 100_000 + b"]" * 100_001)
