"""The layouts of archives: told apart, read and written; whatever is in them, nothing of it is loaded as code."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from inside.evolve import TARGETS
from inside.schema import LEAF, format_treespec
from inside.wire import (
    LAYOUTS,
    SAMPLE_INPUTS,
    WEIGHTS,
    ArchiveReader,
    ArchiveWriter,
    Document,
    Layout,
    StateDict,
    executable_members,
    layout_named,
    open_layout,
    package_reader as layouts,
    read_state_dict,
    schema_version_text,
    write_package,
)
from msgspec.structs import replace
from nightly import by_day

import graphwire
from graphwire import Payloads
from graphwire.errors import ArchiveError, DecodeError, EncodeError, GraphwireError, MissingRecordError
from graphwire.hooks import TreeSpec
from graphwire.schema import Argument, ExampleInputs, ScalarType, SymInt, TensorArgument


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def archive_of(members: Mapping[str, bytes], *, flat: bool) -> bytes:
    stream = io.BytesIO()
    with ArchiveWriter(stream, root="" if flat else "x", records={}) as archive:
        for name, data in members.items():
            archive.write(name, data, compress=False)
    return stream.getvalue()


def opened(members: Mapping[str, bytes], *, flat: bool = False) -> Layout:
    return open_layout(ArchiveReader(archive_of(members, flat=flat)))


def state_of(value: dict[str, torch.Tensor]) -> StateDict:
    return read_state_dict(ArchiveReader(saved(value)), WEIGHTS, "weight_")


EMPTY = saved({})
STATE = saved({"w": torch.arange(4.0), "p": torch.nn.Parameter(torch.ones(2))})
CONSTANTS = saved({"c": torch.tensor(7)})
DOCUMENT = json.dumps(
    {
        "schema_version": {"major": 7, "minor": 3},
        "graph_module": {"signature": {"input_specs": [{"buffer": {"buffer_name": "c"}}, {"parameter": {}}]}},
    }
).encode()

FLAT = {
    "A1": {"serialized_state_dict.json": STATE},
    "A2": {"serialized_state_dict.json": STATE, "serialized_constants.json": CONSTANTS},
    "A3": {"serialized_state_dict.pt": STATE, "serialized_constants.pt": CONSTANTS},
    "A4": {
        "serialized_state_dict.pt": STATE,
        "serialized_constants.pt": CONSTANTS,
        "serialized_example_inputs.pt": saved(((torch.ones(1), 3), {"k": None})),
    },
}
MEMBERS = {
    **{
        name: {
            "serialized_exported_program.json": DOCUMENT,
            **members,
            "version": b"1",
            "extra_files/a/b.txt": b"extra",
        }
        for name, members in FLAT.items()
    },
    "B1": {
        "models/model.json": DOCUMENT,
        "data/weights/model.pt": STATE,
        "data/constants/model.pt": CONSTANTS,
        "data/sample_inputs/model.pt": saved(((torch.ones(1), 3), {"k": None})),
        "extra/a/b.txt": b"extra",
    },
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_layout_is_told_by_its_members_and_read(name: str) -> None:
    layout = opened(MEMBERS[name], flat=name.startswith("A"))
    assert layout.spec is LAYOUTS[name]
    assert list(layout.members) == ["model"]
    assert layout.extra_files == ("a/b.txt",)
    payloads = layout.payloads_of("model")
    assert list(payloads.weights) == ["w", "p"]
    assert [payloads.weights[key].is_param for key in "wp"] == [False, True]
    assert list(payloads.constants) == ([] if name == "A1" else ["c"])
    assert (payloads.examples is not None) == (name in {"A4", "B1"})
    assert payloads.problems() == []
    assert set(layout.payload_records) == {
        member for member in MEMBERS[name] if member.startswith("data/") or member in FLAT.get(name, {})
    }


def test_layouts_are_found_by_name() -> None:
    assert layout_named("A3").name == "A3"
    assert layout_named("pt2").name == "B2"
    with pytest.raises(ArchiveError, match="no layout 'C9'"):
        layout_named("C9")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a/b": b""}, "Was it written by graphwire"),
        ({"data/aotinductor/model/x.so": b"\x7fELF"}, "compiled code, which is never loaded"),
        ({"models/README": b""}, "no program"),
    ],
)
def test_an_archive_without_a_program_is_refused(members: dict[str, bytes], words: str) -> None:
    with pytest.raises(MissingRecordError, match=words):
        opened(members)


@pytest.mark.parametrize("name", ["A2", "A3", "A4"])
def test_a_missing_state_dict_is_named(name: str) -> None:
    members = {key: data for key, data in MEMBERS[name].items() if "state_dict" not in key}
    layout = Layout(LAYOUTS[name], ArchiveReader(archive_of(members, flat=True)), [])
    with pytest.raises(MissingRecordError, match="serialized_state_dict"):
        layout.payloads_of("model")


@pytest.mark.parametrize("content", [b"no zip", b"PK\x03\x04", pickle.dumps({}), STATE[:-30]])
def test_a_damaged_state_dict_is_named(content: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"data/weights/model\.pt"):
        opened({**MEMBERS["B1"], "data/weights/model.pt": content}).payloads_of("model")


def test_a_hostile_state_dict_is_refused_and_the_rest_can_be_looked_at() -> None:
    hostile = saved({"w": torch.ones(1), "evil": pickle.Pickler, "c": Attack()})
    payloads = opened({**MEMBERS["B1"], "data/weights/model.pt": hostile}).payloads_of("model")
    assert list(payloads.weights) == ["w"]
    assert "pickle.Pickler" in payloads.unread["evil"]
    assert "posix.system" in payloads.unread["c"]
    assert {problem.kind for problem in payloads.problems()} == {"unread"}


class Attack:
    """Runs something when it is unpickled."""

    def __reduce__(self) -> Any:
        import os

        return os.system, ("echo attacked",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (saved(((Attack(),), {})), "posix.system"),
        (saved(((torch.ones(1), 3j), {})), "complex"),
        (saved([1, 2, 3]), "not a pair of arguments"),
        (saved(({}, ())), "not a pair of arguments"),
        (saved((({(1, 2): 3},), {})), "a tuple as the key"),
        (saved((({1, 2},), {})), "a set among the example inputs is not supported"),
        (saved(((1 << 70,), {})), "a int among the example inputs is not supported"),
        (b"garbage", "not an archive"),
        (saved(((torch.ones(2),), {}))[:-40], "no end record"),
    ],
)
def test_example_inputs_that_are_not_read_are_dropped_with_a_warning(content: bytes, words: str) -> None:
    payloads = opened({**MEMBERS["B1"], "data/sample_inputs/model.pt": content}).payloads_of("model")
    assert payloads.examples is None
    assert payloads.sample_inputs == {}
    (warning,) = payloads.warnings
    assert words in warning
    assert list(payloads.weights) == ["w", "p"]


@pytest.mark.parametrize("content", [b"", saved(None), saved({})])
def test_no_example_inputs_are_none_without_a_warning(content: bytes) -> None:
    payloads = opened({**MEMBERS["B1"], "data/sample_inputs/model.pt": content}).payloads_of("model")
    assert (payloads.examples, payloads.warnings) == (None, [])


def test_deeply_nested_example_inputs_are_dropped() -> None:
    nested: Any = 1
    for _ in range(150):
        nested = [nested]
    payloads = opened({**MEMBERS["B1"], "data/sample_inputs/model.pt": saved(((nested,), {}))}).payloads_of(
        "model"
    )
    assert "deep" in payloads.warnings[0]


# ---------------------------------------------------------------------------------------------- configs of B2


def config(**metas: Any) -> bytes:
    return json.dumps({"config": metas}).encode()


def entry(
    path: str, *, use_pickle: bool = False, size: int = 2, dtype: int = 7, device: str = "cpu"
) -> dict[str, Any]:
    return {
        "path_name": path,
        "is_param": False,
        "use_pickle": use_pickle,
        "tensor_meta": {
            "dtype": dtype,
            "sizes": [{"as_int": size}],
            "requires_grad": False,
            "device": {"type": device, "index": None},
            "strides": [{"as_int": 1}],
            "storage_offset": {"as_int": 0},
            "layout": 7,
        },
    }


def b2(weights: bytes, constants: bytes = config(), **members: bytes) -> Layout:
    return opened(
        {
            "models/model.json": DOCUMENT,
            "data/weights/model_weights_config.json": weights,
            "data/constants/model_constants_config.json": constants,
            **members,
        }
    )


def test_tensors_that_torch_pickled_are_read() -> None:
    members = {
        "data/weights/weight_0": saved(torch.nn.Parameter(torch.tensor([5.0, 6.0]))),
        "data/weights/weight_1": saved(torch.eye(2).to_sparse()),
    }
    layout = b2(config(w=entry("weight_0", use_pickle=True), s=entry("weight_1", use_pickle=True)), **members)
    payloads = layout.payloads_of("model")
    assert payloads.unread == {}
    meta = payloads.weights["w"]
    assert (meta.use_pickle, meta.is_param) == (False, True)
    assert (
        bytes(payloads.records[WEIGHTS + meta.path_name].view()) == torch.tensor([5.0, 6.0]).numpy().tobytes()
    )
    assert payloads.encoded["s"].codec == "sparse"
    assert not set(members) & payloads.records.keys()  # no pickle is taken along into another file
    assert payloads.problems() == []


def test_a_pickled_tensor_is_read_for_one_name() -> None:
    member = {"data/weights/weight_0": saved(torch.ones(2))}
    layout = b2(config(a=entry("weight_0", use_pickle=True), b=entry("weight_0", use_pickle=True)), **member)
    payloads = layout.payloads_of("model")
    assert list(payloads.weights) == ["a"]
    assert payloads.unread == {"b": "a pickle that another value also uses"}


def test_objects_that_torch_pickled_are_named_and_the_rest_is_read() -> None:
    layout = b2(
        config(w=entry("weight_0"), q=entry("weight_1", use_pickle=True)),
        config(
            script={**entry("custom_obj_0", use_pickle=True), "tensor_meta": None},
            opaque={**entry("opaque_obj_0", use_pickle=True), "tensor_meta": None},
        ),
        **{
            "data/weights/weight_0": bytes(8),
            "data/weights/weight_1": saved(Attack()),
            "data/constants/custom_obj_0": b"anything",
            "data/constants/opaque_obj_0": pickle.dumps(Attack()),
        },
    )
    payloads = layout.payloads_of("model")
    assert list(payloads.weights) == ["w"]
    assert payloads.unread.keys() == {"q", "script", "opaque"}
    assert "posix.system" in payloads.unread["q"]
    assert list(payloads.records) == ["data/weights/weight_0"]


def test_a_program_that_needs_what_is_not_read_is_refused_by_name() -> None:
    program, _ = graphwire.to_schema(_program())
    payloads = Payloads(unread={"weight": "a pickle of x.Y", "other": "a pickle of x.Z"})
    with pytest.raises(DecodeError, match=r"not read: weight \(a pickle of x\.Y\)\."):
        payloads.check_read(program)
    Payloads(unread={"other": "a pickle of x.Z"}).check_read(program)


def test_a_program_is_completed_with_what_stands_beside_it() -> None:
    program, own = graphwire.to_schema(_program())
    assert program.requires == []
    before = program.example_inputs
    state = state_of(
        {
            "s": torch.eye(2).to_sparse(),
            "c": torch.ones(1, dtype=torch.complex64).conj(),
            "m": torch.ones(1, device="meta"),
        }
    )
    payloads = Payloads({**own.weights, **state.metas}, encoded=state.encoded)
    payloads.complete(program)
    assert program.example_inputs is before
    assert list(program.encoded_values) == ["s"]
    assert program.requires == ["codecs", "lazy-bits", "placement"]
    payloads.complete(program)
    assert program.requires == ["codecs", "lazy-bits", "placement"]


def test_a_weight_on_the_meta_device_has_no_elements() -> None:
    layout = b2(config(w=entry("weight_0", device="meta")), **{"data/weights/weight_0": b""})
    payloads = layout.payloads_of("model")
    assert payloads.weights["w"].placement == "meta"
    assert payloads.problems() == []


# ------------------------------------------------------------------------------------------------------- write


def _document(state: dict[str, torch.Tensor], **fields: Any) -> Document:
    read = state_of(state)
    return Document(
        DOCUMENT, ".json", Payloads(read.metas, records=read.records, encoded=read.encoded, **fields)
    )


def written(
    documents: Mapping[str, Document], layout: str, extra: Mapping[str, bytes] | None = None
) -> bytes:
    stream = io.BytesIO()
    write_package(stream, documents, extra, layout=layout)
    return stream.getvalue()


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_written_is_read_again_and_always_the_same(name: str) -> None:
    document = _document({"w": torch.arange(4.0)})
    data = written({"model": document}, name, {"a/b": b"c"})
    assert data == written({"model": document}, name, {"a/b": b"c"})
    layout = open_layout(ArchiveReader(data))
    assert layout.spec.name == name
    assert layout.reader.read(layout.members["model"]) == DOCUMENT
    assert layout.extra_files == ("a/b",)
    payloads = layout.payloads_of("model")
    (record,) = payloads.records.values()
    assert bytes(record.view()) == torch.arange(4.0).numpy().tobytes()
    if LAYOUTS[name].is_flat:
        assert layout.reader.read("version") == b"7.3"


def test_the_oldest_layout_keeps_constants_among_the_weights() -> None:
    constants = read_state_dict(ArchiveReader(CONSTANTS), "data/constants/", "tensor_")
    for name, weights in (("A1", ["w", "c", "d"]), ("A2", ["w", "c"]), ("A3", ["w"])):
        document = _document(
            {"w": torch.arange(4.0)}, constants={**constants.metas, "d": constants.metas["c"]}
        )
        document.payloads.records = {**document.payloads.records, **constants.records}
        payloads = open_layout(ArchiveReader(written({"model": document}, name))).payloads_of("model")
        assert list(payloads.weights) == weights
        assert [*payloads.weights, *payloads.constants] == ["w", "c", "d"]


def test_example_inputs_are_written_where_they_have_a_plain_form() -> None:
    structure = TreeSpec("builtins.list", "null", [LEAF, LEAF])
    arguments = TreeSpec("builtins.tuple", "null", [LEAF, structure])
    keywords = TreeSpec("builtins.dict", '["k"]', [LEAF])
    spec = format_treespec(TreeSpec("builtins.tuple", "null", [arguments, keywords]))
    leaves = [Argument(as_tensor=TensorArgument("leaf_0")), Argument(as_int=3), Argument(as_none=True)]
    leaves.append(Argument(as_float="Infinity"))
    samples = read_state_dict(ArchiveReader(saved({"leaf_0": torch.ones(3)})), SAMPLE_INPUTS, "tensor_")
    document = _document({}, examples=ExampleInputs(spec, leaves), sample_inputs=samples.metas)
    document.payloads.records = samples.records
    for name in ("A4", "B1"):
        layout = open_layout(ArchiveReader(written({"model": document}, name)))
        assert layout.payloads_of("model").examples == document.payloads.examples
        member = layout.spec.member("sample_inputs", "model")
        (tensor, items), keyword = torch.load(io.BytesIO(layout.reader.read(member)), weights_only=True)
        assert torch.equal(tensor, torch.ones(3))
        assert (items, keyword) == ([3, None], {"k": float("inf")})
    document.payloads.examples = ExampleInputs(spec.replace("builtins.list", "user.Class"), leaves)
    assert (
        open_layout(ArchiveReader(written({"model": document}, "B1"))).payloads_of("model").examples is None
    )


def test_programs_of_one_archive_have_records_of_their_own() -> None:
    documents = {name: _document({"w": torch.full((3,), value)}) for name, value in (("a", 1.0), ("b", 2.0))}
    layout = open_layout(ArchiveReader(written(documents, "B1")))
    assert list(layout.members) == ["a", "b"]
    first, second = (layout.payloads_of(name) for name in "ab")
    assert not first.records.keys() & second.records.keys()
    again = written({name: Document(DOCUMENT, ".json", p) for name, p in (("a", first), ("b", second))}, "B2")
    payloads = open_layout(ArchiveReader(again)).payloads_of("b")
    assert (
        bytes(payloads.records[WEIGHTS + payloads.weights["w"].path_name].view())
        == torch.full((3,), 2.0).numpy().tobytes()
    )


@pytest.mark.parametrize("name", ["A1", "A2", "A3", "A4", "B1"])
def test_an_old_layout_holds_json_alone(name: str) -> None:
    document = replace(_document({}), suffix=".msgpack")
    with pytest.raises(ArchiveError, match="is JSON"):
        written({"model": document}, name)


@pytest.mark.parametrize("name", ["A1", "A2", "A3", "A4"])
def test_a_flat_layout_holds_one_program(name: str) -> None:
    with pytest.raises(ArchiveError, match="holds one program, not 2"):
        written({"a": _document({}), "b": _document({})}, name)


@pytest.mark.parametrize("data", [b"{}", b"[]", b"x", b'{"schema_version": "1"}', b"[" * 100_000])
def test_a_flat_layout_needs_the_schema_version(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="schema version"):
        schema_version_text(data)


READ = {
    "float8_e5m2": {"A2", "A3", "A4", "B1"},
    "uint16": {"A3", "A4", "B1"},
    "float8_e8m0fnu": {"A4", "B1"},
    "float4_e2m1fn_x2": {"B1"},
    "bfloat16": {"A1", "A2", "A3", "A4", "B1"},
}


@pytest.mark.parametrize("dtype", READ)
def test_element_types_that_a_release_does_not_have_are_refused(dtype: str) -> None:
    document = _document({"w": torch.zeros(4, dtype=torch.uint8)})
    weight = document.payloads.weights["w"]
    assert weight.tensor_meta is not None
    weight.tensor_meta = msgspec.structs.replace(
        weight.tensor_meta, dtype_name=dtype, dtype=ScalarType.UNKNOWN, sizes=[SymInt(as_int=1)]
    )
    for name in ("A1", "A2", "A3", "A4", "B1"):
        if name in READ[dtype]:
            written({"model": document}, name)
            continue
        with pytest.raises(EncodeError, match=rf"w: this release of torch has no storage of {dtype}"):
            written({"model": document}, name)


def test_the_oldest_layout_has_no_storage_of_two_types() -> None:
    words = torch.zeros(4, dtype=torch.int32)
    document = _document({"w": words})
    other = state_of({"v": words.view(torch.float32)}).metas["v"]
    document.payloads.weights["v"] = other
    for name in ("A2", "A3", "A4", "B1"):
        written({"model": document}, name)
    with pytest.raises(EncodeError, match=r"w: this release of torch has no storage of float32 and int32"):
        written({"model": document}, "A1")


def test_nothing_is_written_when_a_payload_has_no_form() -> None:
    document = _document({"w": torch.ones(2)})
    document.payloads.weights["w"].placement = "fake"
    stream = io.BytesIO()
    with pytest.raises(EncodeError, match="w: it has no elements"):
        write_package(stream, {"model": document}, layout="A4")
    assert stream.getvalue() == b""


# ----------------------------------------------------------------------------------------------------- the api


def _program() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


def _with_members(path: Path, members: Mapping[str, bytes]) -> bytes:
    reader = ArchiveReader(path)
    kept = {name: reader.read(name) for name in reader.names}
    return archive_of({**kept, **members}, flat=False)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data/aotinductor/model/kernel.so", b"x"),
        ("extra/tool.dll", b"MZ"),
        ("extra/noted", b"\x7fELF\x02"),
        ("extra/run.py", b"print()"),
        ("archive/data.pkl", b"\x80\x02N."),
        ("data/weights/hidden.PKL", b"\x80\x02N."),
    ],
)
def test_members_that_could_be_run_are_reported_and_never_loaded(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / "program.pt2"
    graphwire.save(_program(), path)
    assert graphwire.verify(path) == []
    data = _with_members(path, {name: content})
    (problem,) = (each for each in graphwire.verify(data) if each.kind != "manifest")
    assert problem.kind == "executable"
    assert name in problem.place
    assert [each.place for each in executable_members(ArchiveReader(data))] == [problem.place]
    graphwire.loads(data)


def test_example_inputs_of_a_user_s_class_are_dropped_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    torch.export.save(_program(), path)
    data = _with_members(path, {"data/sample_inputs/model.pt": saved(((Attack(),), {}))})
    with pytest.warns(UserWarning, match=r"the example inputs are dropped: .*posix\.system"):
        program = graphwire.loads(data)
    assert program.example_inputs is None


@pytest.mark.nightly
def test_a_changed_archive_is_read_or_refused() -> None:
    data = archive_of(MEMBERS["B1"], flat=False)
    for at in range(0, len(data), by_day(29, by_night=7)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        try:
            open_layout(ArchiveReader(bytes(changed))).payloads_of("model").problems()
        except GraphwireError:
            continue


def test_every_layout_is_detected_and_a_target_selects_it() -> None:
    assert set(layouts._DETECTED) == set(LAYOUTS)
    assert {target.layout for target in TARGETS.values()} - {None} == set(LAYOUTS)
