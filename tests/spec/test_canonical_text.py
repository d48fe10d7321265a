"""docs/spec/canonical.md: its lists are those of the code, and its examples come out byte for byte."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from inside.analysis import (
    _ASSERTIONS,
    _CONTAINERS,
    _MUTATING,
    _MUTATING_OVERLOADS,
    _ORDERED_HIGHER_ORDER,
    _RANDOM,
    SPEC_KINDS,
    content_bytes,
    content_hash,
    digest,
    expression_content,
    payload_contents,
    program_content,
    steps_of,
)
from inside.schema import program_from_tree
from specification import SPEC, blocks, examples, rules, words

from graphwire.hooks import parse_expression
from graphwire.schema import PayloadConfig

TEXT = (SPEC / "canonical.md").read_text(encoding="utf-8")


def hexadecimal(name: str) -> list[bytes]:
    found = re.search(rf"^```hex {name}\n(.*?)^```$", TEXT, re.M | re.S)
    assert found is not None
    return [bytes.fromhex(line) for line in found[1].split()]


def given_hash(name: str) -> str:
    found = re.search(rf"^```text {name}\n(.*)\n```$", TEXT, re.M)
    assert found is not None
    return found[1]


def test_trees_have_the_bytes_of_the_examples():
    for tree, expected in examples("canonical.md", "bytes"):
        assert content_bytes(tree).hex() == expected, tree
    assert digest(b"input", b"0").hex() in rules("canonical.md")["CAN-5"]


def test_expressions_have_the_contents_of_the_examples():
    for text, content in examples("canonical.md", "content"):
        found = expression_content(parse_expression(text), str)
        assert content_bytes(found) == content_bytes(content), text


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("CAN-28", _ASSERTIONS),
        ("CAN-29", _MUTATING),
        ("CAN-30", _MUTATING_OVERLOADS),
        ("CAN-31", _RANDOM),
        ("CAN-32", _CONTAINERS | _ORDERED_HIGHER_ORDER),
    ],
)
def test_the_lists_of_operators_are_those_of_the_code(rule, names):
    listed = words(rules("canonical.md")[rule])
    assert sorted(listed) == sorted(names)


def test_every_role_has_a_spec():
    table = TEXT.partition("**[CAN-11]**")[2].partition("**[CAN-12]**")[0]
    assert {word for word in words(table) if word in SPEC_KINDS} == set(SPEC_KINDS)
    assert {kind for _, kind, _ in SPEC_KINDS.values()} == set(re.findall(r'\["([a-z ]+)"', table))


@pytest.mark.parametrize("number", [1, 2])
def test_the_worked_examples_come_out(number):
    (document,), (tree,) = (
        blocks("canonical.md", f"document-{number}"),
        blocks("canonical.md", f"tree-{number}"),
    )
    program = program_from_tree(document)
    content = program_content(program)
    assert content == b"".join(hexadecimal(f"bytes-{number}"))
    assert msgspec.msgpack.decode(content) == tree
    assert content_hash(program) == given_hash(f"hash-{number}")


def test_the_steps_of_the_second_example_come_out():
    (document,) = blocks("canonical.md", "document-2")
    rows = re.findall(r"^\| `(torch\S+)` \| `(\w+)` \| `(\w+)` \| `(\w*)` \|$", TEXT, re.M)
    steps = steps_of(program_from_tree(document).graph_module.graph)
    assert [(step.operator, step.shape.hex()) for step in steps] == [row[:2] for row in rows]


class _Record:
    def __init__(self, data: bytes) -> None:
        self.data, self.nbytes = data, len(data)

    def view(self) -> memoryview:
        return memoryview(self.data)


class _Payloads:
    """The payload of the second example."""

    def __init__(self, config: PayloadConfig, elements: bytes) -> None:
        self.weights, self.constants = config.config, dict[str, Any]()
        self.records = {"data/weights/weight_0": _Record(elements)}


def test_the_weights_of_the_second_example_come_out():
    (document,), (config,) = blocks("canonical.md", "document-2"), blocks("canonical.md", "config-2")
    *_, elements = hexadecimal("payload-2")
    payloads = _Payloads(msgspec.convert(config, PayloadConfig), elements)
    assert content_bytes([payload_contents(payloads), []]) == b"".join(hexadecimal("weights-2"))
    assert content_hash(program_from_tree(document), payloads) == given_hash("hash-with-weights-2")
