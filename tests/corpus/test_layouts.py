"""Every file of the corpus opens in the layout of its release, and its weights are what torch reads in it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.bridge import DecodeContext, DecodedMode, FakeTensors, StorageTable, decode_payloads
from inside.evolve import target_named, version_of
from inside.wire import (
    CONSTANTS,
    LAYOUTS,
    SAMPLE_INPUTS,
    WEIGHTS,
    ArchiveReader,
    Document,
    Layout,
    open_layout,
    write_package,
)

from graphwire import Payloads
from graphwire.errors import GraphwireError
from graphwire.hooks import default_registry

COUNTS = {
    "2.1.0": 44,
    "2.2.2": 50,
    "2.3.1": 54,
    "2.5.1": 68,
    "2.6.0": 74,
    "2.7.1": 73,
    "2.8.0": 74,
    "2.9.1": 74,
    "2.11.0": 76,
    "2.12.1": 77,
    "2.13.0": 79,
}
WITH_USER_CLASSES = {"pytree_dataclass", "pytree_dataclass_tensors"}
FOLDERS = {"weights": WEIGHTS, "constants": CONSTANTS, "sample_inputs": SAMPLE_INPUTS}


def opened(path: Path) -> Layout:
    return open_layout(ArchiveReader(path))


def values(payloads: Payloads, kind: str) -> dict[str, Any]:
    """The payloads of a kind as tensors of torch."""
    metas = getattr(payloads, kind)
    context = DecodeContext(
        registry=default_registry(),
        fakes=FakeTensors(DecodedMode()),
        constants={},
        table=StorageTable(payloads.records, lambda device: device, graph_only=False),
        frames=[],
        sources=[],
    )
    return decode_payloads(context, metas, FOLDERS[kind], payloads.encoded, ties_noted=True)


def assert_same(left: torch.Tensor, right: torch.Tensor) -> None:
    assert type(left) is type(right)
    facts = ("dtype", "shape", "layout", "requires_grad", "device")
    assert [getattr(left, fact) for fact in facts] == [getattr(right, fact) for fact in facts]
    if left.layout is not torch.strided:
        assert torch.equal(left.to_dense(), right.to_dense())
        return
    assert (left.stride(), left.storage_offset()) == (right.stride(), right.storage_offset())
    assert left.untyped_storage().tolist() == right.untyped_storage().tolist()


def test_the_corpus_is_whole(files: list[Path], release: str) -> None:
    assert len(files) == COUNTS[release]


def test_the_layout_and_the_version_are_the_release_s(
    files: list[Path], release: str, layout_name: str
) -> None:
    for path in files:
        layout = opened(path)
        assert layout.spec.name == layout_name
        assert list(layout.members) == ["model"]
        document = json.loads(layout.reader.read(layout.members["model"]))
        target = target_named(f"torch-{release}")
        assert target.layout == layout_name
        assert target.version == version_of(document)


def test_every_payload_fits_its_record(files: list[Path]) -> None:
    for path in files:
        payloads = opened(path).payloads_of("model")
        assert payloads.unread == {}
        assert [p for p in payloads.problems() if p.kind != "unread"] == []
        used = {
            FOLDERS[kind] + meta.path_name for kind in FOLDERS for meta in getattr(payloads, kind).values()
        }
        assert used <= payloads.records.keys()
        for record in payloads.records.values():
            assert record.view().nbytes == record.nbytes


def _loaded(path: Path, member: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(member)]
        return torch.load(io.BytesIO(archive.read(name)), weights_only=True)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state")
@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
def test_weights_are_what_torch_reads(files: list[Path], layout_name: str) -> None:
    spec = LAYOUTS[layout_name]
    for path in files:
        payloads = opened(path).payloads_of("model")
        for kind in ("weights", "constants"):
            member = spec.member(kind, "model")
            if spec.has_configs or not member:
                continue
            expected = _loaded(path, member)
            found = values(payloads, kind)
            assert list(found) == list(expected) or payloads.encoded
            assert found.keys() == expected.keys()
            for name, tensor in expected.items():
                assert_same(found[name], tensor)
                assert [n for n in found if found[n] is found[name]] == [
                    n for n in expected if expected[n] is tensor
                ]


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_weights_of_the_newest_layout_are_what_torch_reads(files: list[Path], layout_name: str) -> None:
    if layout_name != "B2":
        pytest.skip("the weights are torch.save files")
    from torch.export.pt2_archive._package import PT2ArchiveReader, _load_constants, _load_state_dict

    for path in files:
        payloads = opened(path).payloads_of("model")
        with PT2ArchiveReader(str(path)) as archive:
            for kind, load in (("weights", _load_state_dict), ("constants", _load_constants)):
                expected = load(archive, "model")
                found = values(payloads, kind)
                assert list(found) == list(expected)
                for name, tensor in expected.items():
                    assert_same(found[name], tensor)


def test_example_inputs_are_what_torch_reads(files: list[Path], layout_name: str) -> None:
    spec = LAYOUTS[layout_name]
    for path in files:
        payloads = opened(path).payloads_of("model")
        if not spec.sample_inputs:
            assert payloads.examples is None
            continue
        if path.stem in WITH_USER_CLASSES:
            assert payloads.examples is None
            assert "gen." in payloads.warnings[0]
            continue
        expected = _loaded(path, spec.member("sample_inputs", "model"))
        leaves, structure = torch.utils._pytree.tree_flatten(expected)
        examples = payloads.examples
        assert examples is not None
        assert examples.spec == torch.utils._pytree.treespec_dumps(structure)
        found = values(payloads, "sample_inputs")
        assert len(examples.leaves) == len(leaves)
        for leaf, value in zip(examples.leaves, leaves, strict=True):
            if isinstance(value, torch.Tensor):
                assert leaf.as_tensor is not None
                assert_same(found[leaf.as_tensor.name], value)
            else:
                (literal,) = (
                    getattr(leaf, variant)
                    for variant in leaf.__struct_fields__
                    if getattr(leaf, variant) is not None
                )
                assert literal == value or (literal is True and value is None)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state")
@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
@pytest.mark.parametrize("target", LAYOUTS)
def test_payloads_are_the_same_after_another_layout(files: list[Path], target: str) -> None:
    for path in files[::7]:
        layout = opened(path)
        before = layout.payloads_of("model")
        version = json.dumps(
            {"schema_version": 1, "graph_module": {"signature": {"input_specs": []}}}
        ).encode()
        stream = io.BytesIO()
        write_package(stream, {"model": Document(version, ".json", before)}, {"a/b": b"x"}, layout=target)
        again = open_layout(ArchiveReader(stream.getvalue()))
        assert again.spec.name == target
        assert again.extra_files == ("a/b",)
        after = again.payloads_of("model")
        wanted, found = ({**values(p, "weights"), **values(p, "constants")} for p in (before, after))
        assert wanted.keys() == found.keys()
        for name, tensor in wanted.items():
            assert_same(found[name], tensor)
            assert [n for n in found if found[n] is found[name]] == [n for n in wanted if wanted[n] is tensor]
        if LAYOUTS[target].sample_inputs and not LAYOUTS[target].has_configs:
            assert after.examples == before.examples


def test_a_corpus_file_with_a_changed_byte_is_read_or_refused(files: list[Path]) -> None:
    path = files[len(files) // 2]
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 150)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        try:
            payloads = open_layout(ArchiveReader(bytes(changed))).payloads_of("model")
            payloads.problems()
        except GraphwireError:
            continue
