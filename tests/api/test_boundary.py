"""The boundary of the API: whatever is raised below leaves it as an error of ours, with file, record, format and place."""

from __future__ import annotations

import collections
import io
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import registry_with
from inside.wire import DEFAULT_ATTEMPTS
from small_programs import module_of
from torch import Tensor
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import (
    ArchiveError,
    DecodeError,
    EncodeError,
    GraphwireError,
    MissingRecordError,
)
from graphwire.hooks import Registry
from graphwire.schema import Argument, ExampleInputs, Program
from graphwire_plugins.constants import SparseTensors
from graphwire_plugins.json_format import JsonFormat


class Strange(Exception):
    """An exception of nobody's, that cannot even be told."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


FOREIGN = [
    ArithmeticError,
    AssertionError,
    AttributeError,
    KeyError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RecursionError,
    RuntimeError,
    StopIteration,
    Strange,
    TimeoutError,
    TypeError,
    UserWarning,
    ValueError,
    struct.error,
]


class Switch:
    """What the parts of the plugin below raise now; None for nothing."""

    raises: type[BaseException] | None = None

    def __call__(self) -> None:
        if self.raises is not None:
            raise self.raises("not now")


SWITCH = Switch()


@pytest.fixture(autouse=True)
def _nothing_raises() -> Iterator[None]:
    yield
    SWITCH.raises = None


class Box:
    """A container that a process registers with torch."""

    def __init__(self, item: Tensor) -> None:
        self.item = item


def _unflatten(items: Any, _context: Any) -> Box:
    SWITCH()
    return Box(*items)


pytree.register_pytree_node(
    Box,
    lambda box: ([box.item], None),
    _unflatten,
    serialized_type_name="tests.boundary.Box",
    flatten_with_keys_fn=lambda box: ([(pytree.GetAttrKey("item"), box.item)], None),
)


@torch.library.custom_op("boundary_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    """An operator of the plugin."""
    return x * 2


twice.register_fake(torch.empty_like)


class Handler:
    """A handler for one operator, which asks the switch at each step."""

    namespace, opset_version, convention = "boundary_tests", 0, "generic"
    prefixes = ("torch.ops.boundary_tests.",)

    def name_of(self, target: Any) -> str | None:
        return "torch.ops.boundary_tests.twice.default" if target is twice._opoverload else None

    def resolve(self, name: str) -> Any:
        return twice._opoverload if name.endswith("twice.default") else None

    def encode_node(self, *_: Any) -> None:
        SWITCH()

    def decode_node(self, *_: Any) -> None:
        SWITCH()


class Format(JsonFormat):
    """A wire format whose reader and writer ask the switch."""

    name, suffix, media_type = "switched", ".switched", "application/x"

    def encode(self, tree: Any) -> bytes:
        SWITCH()
        return super().encode(tree)

    def decode_bounded(self, buffer: Any, containers: int) -> Any:
        SWITCH()
        return super().decode_bounded(buffer, containers)

    def matches(self, head: bytes) -> bool:
        return False

    encode_records = decode_program = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(module_of(lambda x: torch.relu(x) + 1), (torch.ones(3),))


@pytest.fixture(scope="module")
def path(program: ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("boundary") / "good.pt2"
    graphwire.save(program, path)
    return path


# ----------------------------------------------------------------------------------------------- what plugins raise


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_a_container_type_raises_costs_the_example_inputs_alone(kind: type[Exception]) -> None:
    data = graphwire.dumps(export(module_of(lambda box: box.item + 1), (Box(torch.ones(2)),)))
    SWITCH.raises = kind
    with pytest.warns(UserWarning, match=rf"boundary.*Box fails: {kind.__name__}"):
        loaded = graphwire.loads(data)
    assert loaded.example_inputs is None


@pytest.mark.filterwarnings("default")  # or else a warning is of the caller, who made it an error
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_a_plugin_raises_is_an_error_of_ours_that_names_it_and_the_node(
    kind: type[Exception],
) -> None:
    registry = registry_with(op_handlers=[Handler()])
    program = export(module_of(lambda x: twice(x)), (torch.ones(3),))
    data = graphwire.dumps(program, registry=registry)
    SWITCH.raises = kind
    with pytest.raises(DecodeError, match=rf"plugin `Plugin` fails: {kind.__name__}") as caught:
        graphwire.loads(data, registry=registry)
    assert isinstance(caught.value.__cause__, kind)
    assert (caught.value.file, caught.value.record, caught.value.format) == (
        "the bytes",
        "models/model.json",
        "json",
    )
    assert caught.value.place.startswith("graph.nodes[0]")
    assert "GRAPHWIRE_DISABLE_PLUGINS" in caught.value.remedy
    with pytest.raises(EncodeError, match=rf"plugin `Plugin` fails: {kind.__name__}") as saving:
        graphwire.dumps(program, registry=registry)
    assert saving.value.place == "graph.twice"


class TimeLimit(TimeoutError):
    """What the handler of a signal raises; of this class, a request to a server is tried again."""


class AskedPlugin:
    """A plugin with each part that other code may do without: whoever asks it meets the time limit."""

    def __init__(self, step: str) -> None:
        self.step = step

    def _asked(self, step: str) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGUSR1)

    @graphwire.hookimpl
    def graphwire_op_handlers(self) -> list[Any]:
        self._asked("hook")
        handler = Handler()
        handler.name_of = lambda target: self._asked("name_of")  # type: ignore[assignment]
        return [handler]

    @graphwire.hookimpl
    def graphwire_wire_formats(self) -> list[Any]:
        made = Format()
        made.matches = lambda head: bool(self._asked("matches"))  # type: ignore[method-assign]
        return [made]

    @graphwire.hookimpl
    def graphwire_constant_codecs(self) -> list[Any]:
        codec: Any = SparseTensors()
        codec.name, codec.owns = "asked", lambda value: bool(self._asked("owns"))
        return [codec]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", ["name_of", "matches", "owns", "unflatten", "hook", "request"])
def test_a_time_limit_in_a_part_that_others_can_do_without_reaches_the_caller(step: str) -> None:
    registry = None if step == "hook" else Registry.discover().extended(AskedPlugin(step))
    program = export(module_of(lambda box: box.item + 1), (Box(torch.ones(2)),))
    data = graphwire.dumps(program)
    program.constants["sparse"] = torch.eye(2).to_sparse()
    next(iter(program.graph.nodes)).meta["source_fn_stack"] = [("of no handler", len)]
    calls: dict[str, Callable[[], object]] = {
        "name_of": lambda: graphwire.dumps(program, registry=registry),
        "owns": lambda: graphwire.dumps(program, registry=registry),
        "matches": lambda: graphwire.decode(b"no document", registry=registry),
        "unflatten": lambda: graphwire.loads(data),
        "request": lambda: DEFAULT_ATTEMPTS.run(
            "s3://a/b", "read", lambda: signal.raise_signal(signal.SIGUSR1)
        ),
        "hook": lambda: Registry.discover().extended(AskedPlugin(step)),
    }
    SWITCH.raises = (lambda _: signal.raise_signal(signal.SIGUSR1)) if step == "unflatten" else None  # type: ignore[assignment]

    def limit(*_: object) -> None:
        raise TimeLimit

    handler = signal.signal(signal.SIGUSR1, limit)
    try:
        with pytest.raises(TimeLimit):
            calls[step]()
    finally:
        signal.signal(signal.SIGUSR1, handler)


# ---------------------------------------------------------------------------------------------- what our own raises


@pytest.mark.parametrize("kind", [each for each in FOREIGN if each not in (MemoryError, UserWarning)])
def test_what_a_reader_raises_is_told_with_its_file_record_format_and_place(
    kind: type[Exception], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise kind("on account of the document")

    monkeypatch.setattr("graphwire.bridge.graph.graph.decode_inputs", fails)
    with pytest.raises(DecodeError) as caught:
        graphwire.load(path)
    error = caught.value
    assert (error.file, error.record, error.format) == (str(path), "models/model.json", "json")
    assert error.place == "graph.nodes[0] (relu)"
    assert str(error).startswith(f"{path}: record 'models/model.json' (json): graph.nodes[0] (relu): ")
    assert isinstance(error.__cause__, kind)


def opened(use: Callable[[graphwire.Archive], Any]) -> Callable[[Any], Any]:
    """What is done with an archive, of a file."""

    def read(file: Any) -> Any:
        with graphwire.open(file) as archive:
            return use(archive)

    return read


READERS: dict[str, Callable[[Any], Any]] = {
    "load": graphwire.load,
    "open": opened(lambda archive: archive.program),
    "payloads": opened(lambda archive: archive.payloads),
    "report": opened(lambda archive: archive.report("model")),
    "targets of an archive": opened(lambda archive: archive.targets("model")),
    "inspect": graphwire.inspect,
    "convert": lambda file: graphwire.convert(file, io.BytesIO()),
    "upgrade": lambda file: graphwire.upgrade(file, io.BytesIO()),
    "plan_upgrade": graphwire.plan_upgrade,
    "canonicalize": graphwire.canonicalize,
    "content_hash": graphwire.content_hash,
    "diff": lambda file: graphwire.diff(file, file),
    "supports": lambda file: graphwire.supports(file, "torch-2.9"),
    "targets": graphwire.targets,
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_names_the_file(reader: str, path: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ArchiveError) as caught:
        READERS[reader](cut)
    assert str(caught.value).startswith(f"{cut}: ")
    with pytest.raises(ArchiveError, match=r"^the bytes: "):
        READERS[reader](cut.read_bytes())
    with pytest.raises(ArchiveError, match=r"^the stream: "):
        READERS[reader](io.BytesIO(cut.read_bytes()))


@pytest.mark.parametrize("reader", [name for name in READERS if name != "payloads"])
@pytest.mark.parametrize("format", ["json", "msgpack", "cbor"])
def test_a_document_that_is_cut_off_is_told_with_file_record_and_format(
    reader: str, format: str, program: ExportedProgram, tmp_path: Path
) -> None:
    from inside.wire import ArchiveReader, ArchiveWriter

    whole = ArchiveReader(graphwire.dumps(program, format=format))
    cut = tmp_path / "cut.pt2"
    member = f"models/model.{format}"
    with cut.open("wb") as stream, ArchiveWriter(stream) as archive:
        for name in whole.names:
            if name.startswith(("models/", "data/")):
                data = whole.read(name)
                archive.write(name, data[: len(data) // 2] if name == member else data, compress=False)
    with pytest.raises(GraphwireError) as caught:
        READERS[reader](cut)
    assert caught.value.file.startswith(str(cut))
    assert (caught.value.record, caught.value.format) == (member, format)


def test_a_bare_document_has_a_format_and_no_record(program: ExportedProgram, tmp_path: Path) -> None:
    record, _ = graphwire.to_schema(program)
    document = tmp_path / "document.json"
    document.write_bytes(graphwire.encode(record)[:-20])
    with pytest.raises(GraphwireError) as caught:
        READERS["open"](document)
    assert (caught.value.file, caught.value.record, caught.value.format) == (str(document), "", "json")
    with pytest.raises(GraphwireError, match=r"^the bytes \(json\): "):
        graphwire.decode(document.read_bytes())


def test_an_error_about_the_records_of_weights_is_not_told_of_the_document(path: Path) -> None:
    with graphwire.open(path) as archive, pytest.raises(MissingRecordError) as caught:
        archive.read_extra("absent")
    assert (caught.value.file, caught.value.record) == (str(path), "")


def test_a_call_with_other_arguments_is_the_usual_error(path: Path) -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        graphwire.load()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        graphwire.load(path, unknown=1)  # type: ignore[call-arg]


def test_of_several_programs_the_error_of_a_save_names_one(program: ExportedProgram) -> None:
    broken = export(module_of(lambda x: (x + 1).clamp(0.0, 1.0)), (torch.ones(3),))
    node = next(node for node in broken.graph.nodes if node.name == "clamp")
    node.args = (node.args[0], object(), node.args[2])
    with pytest.raises(EncodeError, match=r"^program 'other': graph.clamp"):
        graphwire.dumps({"one": program, "other": broken})


# ------------------------------------------------------------------------------------- what module() would fail on

LACKS: dict[str, tuple[Callable[[Program], Any], str]] = {
    "a dialect": (lambda record: record.verifiers.clear(), "verifiers: .*no dialect"),
    "calls": (
        lambda record: record.graph_module.module_call_graph.clear(),
        "module_call_graph: .*first call",
    ),
    "a signature": (
        lambda record: setattr(record.graph_module.module_call_graph[0], "signature", None),
        "module_call_graph: .*first call",
    ),
    "an operand": (
        lambda record: next(
            node for node in record.graph_module.graph.nodes if node.target == "_operator.mul"
        ).inputs.pop(),
        r"nodes\[\d+\].*takes 2 arguments by position, not 1",
    ),
}


@pytest.mark.parametrize("what", LACKS)
def test_a_program_that_lacks_what_module_asks_for_is_refused(what: str) -> None:
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}
    program = export(module_of(lambda x: torch.ones(x.shape[0] * 2)), (torch.ones(3),), dynamic_shapes=sizes)
    record, payloads = graphwire.to_schema(program)
    change, told = LACKS[what]
    change(record)
    with pytest.raises(DecodeError, match=f"^the records: .*{told}"):
        graphwire.from_schema(record, payloads)


@pytest.mark.parametrize("given", [[1.0], {"x": 1.0}, ((1.0,), {1: 2.0}), ((1.0, 2.0), {}), ((), {"y": 1.0})])
def test_example_inputs_of_another_structure_are_dropped(given: Any, program: ExportedProgram) -> None:
    record, payloads = graphwire.to_schema(program)
    leaves, spec = pytree.tree_flatten(given)
    record.example_inputs = ExampleInputs(
        graphwire.treespec_dumps(spec), [Argument(as_float=leaf) for leaf in leaves]
    )
    with pytest.warns(UserWarning, match="structure differs from"):
        loaded = graphwire.from_schema(record, payloads)
    assert loaded.example_inputs is None
    loaded.module()


class Sized(torch.nn.Module):
    """Takes what its caller likes."""

    def forward(self, x: torch.Tensor, *sizes: Any, **more: Any) -> Any:
        return x.expand(sizes[0]) * sizes[1]["a"][0], [each + 1 for each in more.values()]


def _calls() -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    x = torch.ones(2)
    rest = ({"a": (x,)}, collections.OrderedDict(a=[x]), {"a": [x], "b": None})
    for size, held, more in zip(
        (torch.Size([3, 2]), (3, 2), [3, 2]), rest, ({}, {"y": x, "b": x}, {"self_": x}), strict=True
    ):
        yield (x, size, held), more


@pytest.mark.parametrize("strict", [False, True])
def test_example_inputs_that_torch_has_are_loaded(strict: bool) -> None:
    for args, kwargs in _calls() if not strict else [next(_calls())]:
        program = export(Sized(), args, kwargs, strict=strict)
        for named in (True, False):
            if not named:
                program.module_call_graph[0].signature.forward_arg_names = None
            loaded = graphwire.loads(graphwire.dumps(program))
            structure = pytree.tree_structure(loaded.example_inputs)
            assert structure == pytree.tree_structure(program.example_inputs)
            loaded.module()


# ----------------------------------------------------------------------------------------------------- what passes


class Stream(io.RawIOBase):
    """A file object that fails as its library does."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        raise Strange

    def write(self, data: Any) -> int:
        if len(data):
            raise Strange
        return 0


def test_what_the_caller_gave_raises_what_it_raises(
    program: ExportedProgram, path: Path, tmp_path: Path
) -> None:
    with pytest.raises(Strange):
        graphwire.load(Stream())
    with pytest.raises(Strange):
        graphwire.save(program, Stream())  # type: ignore[arg-type]
    with pytest.raises(Strange):
        graphwire.convert(path, Stream())  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        graphwire.load(path, report=lambda _: 1 / 0)
    with pytest.raises(FileNotFoundError):
        graphwire.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        graphwire.save(program, tmp_path / "absent" / "program.pt2")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_the_process_is_left_as_it_is(
    kind: type[BaseException], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SWITCH.raises = kind
    monkeypatch.setattr("graphwire.bridge.graph.graph.decode_inputs", lambda *_: SWITCH())
    with pytest.raises(kind):
        graphwire.load(path)


def test_a_warning_that_the_caller_made_an_error_is_left_as_it_is() -> None:
    data = graphwire.dumps(export(module_of(lambda box: box.item + 1), (Box(torch.ones(2)),)))
    SWITCH.raises = ValueError
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="example inputs"):
            graphwire.loads(data)
