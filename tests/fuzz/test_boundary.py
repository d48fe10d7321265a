"""Whatever a file says, every public function gives a value or an error of ours that names the file, in words that control no
terminal and hold no command of the file's."""

from __future__ import annotations

import copy
import functools
import io
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from targets import FORMATS, documents, made_document
from trees import Slot, copied, slots

import graphwire
from graphwire.cli import main
from graphwire.errors import GraphwireError

EXAMPLES = 15 if settings().max_examples <= 100 else settings().max_examples
"""The nightly profile tries thousands."""
SEEDS = st.integers(min_value=0, max_value=2**64 - 1)

STEPS: dict[str, Callable[[Any], Any]] = {
    "inspect": graphwire.inspect,
    "verify": graphwire.verify,
    "content_hash": graphwire.content_hash,
    "diff": lambda file: graphwire.diff(file, documents()[0].data),
    "convert": lambda file: graphwire.convert(file, io.BytesIO(), format="msgpack"),
    "upgrade": lambda file: graphwire.upgrade(file, io.BytesIO()),
    "targets": graphwire.targets,
    "load": graphwire.load,
}
USES: tuple[Callable[[torch.export.ExportedProgram], Any], ...] = (
    lambda program: program.module(),
    str,
    lambda program: program.call_spec,
    lambda program: str(program.graph_signature),
    copy.deepcopy,
)
"""What is done with a loaded program before anything of it is called."""


def errors_of(file: Any, name: str) -> list[GraphwireError]:
    """The errors that the public functions raise for a file, each of which names it."""
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in STEPS.values():
            try:
                found = step(file)
            except GraphwireError as error:
                errors.append(error)
                continue
            if isinstance(found, torch.export.ExportedProgram):
                for use in USES:
                    use(found)
    for error in errors:
        assert name in error.file
        assert str(error).startswith(name)
    return errors


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_document_changed_anywhere_is_a_value_or_an_error_of_ours(seed: int) -> None:
    errors_of(made_document(random.Random(seed)), "the bytes")


# What is put in place of each value: another type, another variant, a number at an edge, nothing, the same twice.
CHANGES: tuple[Callable[[Slot], None], ...] = (
    lambda slot: slot.container.__delitem__(slot.key),
    lambda slot: slot.put([slot.value, copied(slot.value)]),
    lambda slot: slot.put({"as_none": True}),
    *(lambda slot, value=value: slot.put(value) for value in (None, True, -1, 2**63, 0.5, "", "x" * 5000, [], {})),
)  # fmt: skip


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_any_field_with_another_value_is_a_value_or_an_error_of_ours(seed: int) -> None:
    chance = random.Random(seed)
    document = chance.choice(documents())
    tree = copied(document.document)
    chance.choice(CHANGES)(chance.choice(slots(tree)))
    wire_format = chance.choice(FORMATS)
    member = f"models/model{wire_format.suffix}"
    changes = {"models/model.json": None, member: wire_format.encode(tree)}
    errors_of(document.with_records(changes), "the bytes")


@functools.cache
def files() -> Sequence[bytes]:
    """A good file in each wire format."""
    made = []
    for each in FORMATS:
        stream = io.BytesIO()
        graphwire.convert(documents()[0].data, stream, format=each.name)
        made.append(stream.getvalue())
    return made


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_file_that_is_cut_or_has_a_flipped_bit_is_a_value_or_an_error_of_ours(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(chance.choice(files()))
    if chance.randrange(2):
        del data[chance.randrange(len(data)) :]
    else:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    errors_of(bytes(data), "the bytes")


# ----------------------------------------------------------------------------------------------- texts of the file

HOSTILE = (
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\\x1b[31m",
    "evil; pip install evil-mirror #",
    "a\r\n  graphwire: all is well\u202e\u2066\u0085\u2028",
    "[link=http://evil.example][red]x[/red]",
    "\x9b2J" + "n" * 50_000,
)


def assert_is_harmless(text: str) -> None:
    """Nothing that controls a terminal, no more of a name than helps."""
    assert all(line.isprintable() for line in text.split("\n"))
    assert all(not line.startswith("  graphwire: all") for line in text.split("\n"))
    assert "n" * 10_000 not in text


@pytest.mark.parametrize("hostile", HOSTILE)
@settings(max_examples=max(4, EXAMPLES // 5), deadline=None)
@given(seed=SEEDS)
def test_a_text_of_the_file_controls_nothing(hostile: str, seed: int) -> None:
    chance = random.Random(seed)
    document = chance.choice(documents())
    tree = copied(document.document)
    texts = [slot for slot in slots(tree) if isinstance(slot.value, str)]
    chance.choice(texts).put(hostile)
    wire_format = chance.choice(FORMATS[1:])  # JSON takes no lone surrogates, but all of these
    member = f"models/model{wire_format.suffix}"
    data = document.with_records({"models/model.json": None, member: wire_format.encode(tree)})
    for error in errors_of(data, "the bytes"):
        assert_is_harmless(str(error))
        assert "pip install" not in error.remedy
    for problem in graphwire.verify(data):
        assert_is_harmless(str(problem))


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize(
    "place",
    ["plugins", "torch_version", "producer", "guards_code", "requires", "schema_version", "target", "name", "verifiers"],
)  # fmt: skip
def test_what_the_commands_print_controls_nothing(
    hostile: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = documents()[0]
    tree = copied(document.document)
    node = tree["graph_module"]["graph"]["nodes"][0]
    changes: dict[str, Callable[[], Any]] = {
        "plugins": lambda: tree.update(plugins=[{"distribution": hostile, "version": hostile, "provides": [hostile]}]),
        "guards_code": lambda: tree.update(guards_code=[hostile]),
        "requires": lambda: tree.update(requires=[hostile]),
        "schema_version": lambda: tree.update(schema_version=hostile),
        "verifiers": lambda: tree.update(verifiers=[hostile]),
        "target": lambda: node.update(target=hostile),
        "name": lambda: node.update(name=hostile),
    }  # fmt: skip
    changes.get(place, lambda: tree.update({place: hostile}))()
    file = tmp_path / "hostile.pt2"
    file.write_bytes(
        document.with_records({"models/model.json": None, "models/model.msgpack": FORMATS[1].encode(tree)})
    )
    for command in (
        ["inspect", "--nodes", file],
        ["verify", file],
        ["hash", file],
        ["upgrade", "--plan", file],
    ):
        main([str(each) for each in command])
        printed = capsys.readouterr()
        assert_is_harmless(printed.out)
        assert_is_harmless(printed.err)


@pytest.mark.parametrize("name", ["torchh-evil-mirror", "graphwire"])
def test_a_name_in_good_form_is_told_as_what_the_file_says(name: str) -> None:
    document = documents()[0]
    tree = copied(document.document)
    tree["plugins"] = [{"distribution": name, "version": "1", "provides": ["wire_format:x"]}]
    with pytest.raises(GraphwireError) as caught:
        graphwire.load(document.with_records({"models/model.json": FORMATS[0].encode(tree)}))
    assert "pip install" not in str(caught.value)
