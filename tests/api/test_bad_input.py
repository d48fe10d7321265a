"""What cannot be saved or loaded fails with one clear error of ours, and leaves no trace."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from small_programs import module_of
from torch import Tensor, nn
from torch.export import ExportedProgram, export

import graphwire
from graphwire import errors


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(nn.Linear(3, 2), (torch.ones(1, 3),))


@pytest.fixture(scope="module")
def data(program: ExportedProgram) -> bytes:
    return graphwire.dumps(program)


# ------------------------------------------------------------------------------------------------- damaged archives


@pytest.mark.parametrize(
    "junk",
    [b"", b"hello", b"PK", b'{"a": 1}', b"{", b"[]", b"\x82\xa1a\x01", b"\xd9\xd9\xf7\xa0", b"\xa1\x00"],
)
def test_a_file_of_another_kind_is_told_from_a_damaged_one(junk: bytes) -> None:
    assert {problem.kind for problem in graphwire.verify(junk)} == {"unrecognized"}


def test_a_flipped_bit_in_a_weight_is_noticed_when_asked(data: bytes) -> None:
    flipped = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = next(info for info in archive.infolist() if info.filename.endswith("weight_1"))
        weight = archive.read(info)
    start = data.index(weight, info.header_offset)
    flipped[start] ^= 1
    graphwire.loads(flipped)
    with pytest.raises(errors.ChecksumError, match="weight_1"):
        graphwire.loads(flipped, verify=True)
    with pytest.raises(errors.ChecksumError, match="weight_1"):
        graphwire.loads(flipped, copy=True)
    assert [problem.kind for problem in graphwire.verify(flipped)] == ["record"]


# ---------------------------------------------------------------------------------------------------------- formats


# ---------------------------------------------------------------------------------------------- what cannot be saved


@pytest.fixture
def unsayable() -> ExportedProgram:
    """A program with an argument that nothing can say."""
    program = export(module_of(lambda x: (x + 1).clamp(0.0, 1.0)), (torch.ones(3),))
    node = next(node for node in program.graph.nodes if node.name == "clamp")
    node.args = (node.args[0], object(), node.args[2])
    return program


def test_after_an_error_the_old_file_is_whole_and_alone(unsayable: ExportedProgram, tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"the old file")
    with pytest.raises(errors.EncodeError):
        graphwire.save(unsayable, path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


def test_a_crash_while_a_file_is_written_leaves_the_old_one(
    program: ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"the old file")
    extra: Any = {"good": b"", "bad": 7}
    with pytest.raises((TypeError, AttributeError, errors.GraphwireError)):
        graphwire.save(program, path, extra_files=extra)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


def test_no_program_at_all_is_refused() -> None:
    with pytest.raises(errors.EncodeError, match="no program"):
        graphwire.dumps({})


def test_metadata_that_is_no_data_is_refused() -> None:
    program = export(module_of(lambda x: x.sin()), (torch.ones(3),))
    next(iter(program.graph.nodes)).meta["custom"] = {"key": object()}
    with pytest.raises(errors.EncodeError, match=r"x: meta\['custom'\]"):
        graphwire.dumps(program)


def test_an_operator_that_no_handler_owns_is_named() -> None:
    program = export(module_of(lambda x: x.sin()), (torch.ones(3),))
    next(node for node in program.graph.nodes if node.name == "sin").target = len
    with pytest.raises(
        errors.EncodeError, match=r"sin: no operator handler supports <built-in function len>"
    ):
        graphwire.dumps(program)


# ---------------------------------------------------------------------------------------------- documents that lie


def test_records_that_were_made_wrong_are_refused(program: ExportedProgram) -> None:
    record, payloads = graphwire.to_schema(program)
    wrong = msgspec.convert(msgspec.to_builtins(record), type(record))
    wrong.graph_module.graph.nodes.clear()
    with pytest.raises(errors.ValidationError, match="dangling-reference"):
        graphwire.from_schema(wrong, payloads)


# --------------------------------------------------------------------------------- libraries that are not there at load

_LIBRARY = """
import torch

@torch.library.custom_op("graphwire_absent::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@triple.register_fake
def _(x):
    return torch.empty_like(x)
"""

_LOAD = """
import sys
import torch
import graphwire

try:
    graphwire.load(sys.argv[1])
except graphwire.errors.UnknownOperatorError as error:
    print(error)
import library
print(graphwire.load(sys.argv[1]).module()(torch.ones(2)).tolist())
"""


def test_a_custom_operator_that_is_not_registered_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(_LIBRARY)
    exec(_LIBRARY, {})
    program = export(module_of(lambda x: torch.ops.graphwire_absent.triple(x)), (torch.ones(2),))
    graphwire.save(program, tmp_path / "program.pt2")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD, tmp_path / "program.pt2"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    error, result = done.stdout.splitlines()
    assert "torch.ops.graphwire_absent.triple.default" in error
    assert "Import or install the library that registers graphwire_absent::triple" in error
    assert result == "[3.0, 3.0]"


def test_a_weight_of_a_class_that_does_not_say_what_it_consists_of_is_refused_by_name() -> None:
    class Odd(Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    program = export(nn.Linear(1, 1), (torch.ones(1, 1),))
    program.state_dict["bias"] = torch.zeros(1).as_subclass(Odd)
    with pytest.raises(errors.EncodeError, match=r"bias: .*Odd.* not a plain strided tensor.*codec"):
        graphwire.dumps(program)
