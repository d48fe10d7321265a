"""A provider that fails when it is asked, or answers with what is none: an error of ours that says whose it is."""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import dataclasses
import os
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import Plugin, registry_with
from inside.registry import HOOKS, Hook, find_plugins, load_plugin
from nightly import one_in
from torch.utils import _pytree as pytree

import graphwire
from graphwire.cli import main
from graphwire.errors import (
    EncodeError,
    FormatError,
    GraphwireError,
)
from graphwire.hooks import MetadataKey, OpsetStep, PluginInfo, Registry, StoredTensor, StoreIndex, hookimpl
from graphwire_plugins.json_format import JsonFormat


def fails(*_: Any) -> Any:
    raise RuntimeError("of the plugin")


def made(**members: Any) -> Any:
    """An object with these members; functions are its methods."""
    return type("Provider", (), {k: staticmethod(v) if callable(v) else v for k, v in members.items()})()


FORMAT = {
    "name": "failing",
    "suffix": ".failing",
    "media_type": "application/x",
    "encode": lambda tree: b"x",
    "decode": fails,
    "matches": lambda head: False,
}
HANDLER = {
    "namespace": "failing",
    "prefixes": ("torch.ops.gw_failing.",),
    "opset_version": 0,
    "convention": "schema",
    "name_of": lambda target: None,
    "resolve": lambda name: None,
}
CODEC = {
    "name": "failing",
    "owns": lambda value: isinstance(value, torch.Tensor) and value.is_sparse,
    "encode": lambda value: ({}, []),
    "decode": fails,
}


def registry(hook: str, members: dict[str, Any]) -> Registry:
    return registry_with(**{hook: [made(**members)]})


@torch.library.custom_op("gw_failing::relu", mutates_args=())
def relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@relu.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return relu(x)


@pytest.fixture(scope="module")
def program() -> Any:
    program = torch.export.export(Model(), (torch.ones(2),))
    program.constants["sparse"] = torch.ones(2, 2).to_sparse()
    return program


def loads(program: Any, registry: Registry) -> Any:
    return graphwire.loads(graphwire.dumps(program), registry=registry)


FORMATS, HANDLERS, CODECS = (
    "wire_formats",
    "op_handlers",
    "constant_codecs",
)


# ---------------------------------------------------------------------- every method of every hook, in everything done


@dataclasses.dataclass
class Box:
    x: Any


pytree.register_pytree_node(
    Box,
    lambda box: ([box.x], None),
    lambda xs, _: Box(*xs),
    serialized_type_name="tests.hooks.Box",
    flatten_with_keys_fn=lambda box: ([(pytree.GetAttrKey("x"), box.x)], None),
)


class Bytes:
    """Bytes that a store reads by itself."""

    size = 8

    def __init__(self, read_into: Any) -> None:
        self.read_into = read_into


def reads_ones(offset: int, view: memoryview) -> int:
    view[:] = torch.ones(2).numpy().tobytes()[offset : offset + view.nbytes]
    return view.nbytes


WORKING: dict[str, dict[str, Any]] = {
    "wire_format": FORMAT
    | {
        "encode": JsonFormat().encode,
        "decode": JsonFormat().decode,
        "decode_bounded": lambda buffer, most: JsonFormat().decode(buffer),
        "encode_records": JsonFormat().encode_records,
        "decode_program": lambda buffer: None,
        "most_values": len,
    },
    "op_handler": HANDLER
    | {
        "opset_version": 2,
        "name_of": lambda target: NAME if target is torch.ops.gw_failing.relu.default else None,
        "resolve": lambda name: torch.ops.gw_failing.relu.default if name == NAME else None,
        "encode_node": lambda target, args, kwargs, encode: None,
        "decode_node": lambda target, inputs, decode: None,
    },
    "treespec_serializer": {
        "name": "tests.FailingBox",
        "version": 1,
        "container": lambda: Box,
        "dump_context": lambda context: (1, None),
        "load_context": lambda tree, version: None,
        "fit_context": lambda context, children: None,
        "arity": lambda container, context: 1,
    },
    "constant_codec": CODEC
    | {
        "encode": lambda value: ({}, [value.to_dense()]),
        "decode": lambda tree, tensors: tensors[0].to_sparse(),
    },
    "weight_store": {
        "name": "failing",
        "takes_storages": False,
        "find": lambda folder, location: location if location.endswith(".failing") else None,
        "read_into": reads_ones,
        "keeps": lambda dtype: True,
        "write": lambda folder, location, tensors: (location, {name: name for name in tensors}),
        "damaged": lambda folder: iter(()),
        "unused": lambda folder, used, older_than: iter(()),
    },
    "opset_upgrader": {"up": lambda edit: None, "down": lambda edit: None},
    "metadata_key": {"section": lambda values: [(name, "text") for name in values]},
    "command": {
        "name": "failing",
        "help": "fails",
        "add": lambda parser: None,
        "run": lambda arguments, output: 0,
    },
}
NAME = "torch.ops.gw_failing.relu.default"
METHODS = [
    (hook, name)
    for hook in HOOKS
    for protocol in (hook.protocol, *hook.optional)
    for name, member in vars(protocol).items()
    if isinstance(member, types.FunctionType) and not name.startswith("_")
]
OF_VALUES = {
    "opset_upgrader": ("up", "down"),
    "metadata_key": ("section",),
    "command": ("run",),
    "weight_store": ("read_into",),
}
"""What graphwire calls of what providers hold or return, and of no provider itself."""
SITES = METHODS + [(hook, name) for hook in HOOKS for name in OF_VALUES.get(hook.kind, ())]


FAILING = PluginInfo("failing", "gw-failing", "1.5")


def upgraders(up: Any, down: Any) -> list[OpsetStep]:
    return [OpsetStep("failing", 1, 2, {NAME: up}), OpsetStep("failing", 2, 1, {NAME: down})]


def stores(read_into: Any, open: Any = None, **members: Any) -> list[Any]:
    index = StoreIndex({"weight": StoredTensor.whole("float32", (2,), Bytes(read_into))}, {})
    return [made(open=open or (lambda folder, location: index), **members)]


def commands(add: Any, run: Any, **members: Any) -> list[Any]:
    def adding(parser: Any) -> None:
        parser.set_defaults(run=run)
        add(parser)

    return [made(add=adding, **members)]


MAKERS: dict[str, Callable[..., list[Any]]] = {
    "opset_upgrader": upgraders,
    "weight_store": stores,
    "command": commands,
    "metadata_key": lambda section: [MetadataKey("failing", section=section)],
}


def providers(kind: str, members: dict[str, Any]) -> list[Any]:
    return MAKERS.get(kind, lambda **members: [made(**members)])(**members)


def installed(hook: Hook, members: dict[str, Any]) -> Registry:
    whole = {kind: WORKING[kind] for kind in ("op_handler", "opset_upgrader", "metadata_key")} | {
        hook.kind: members
    }
    plugin = Plugin(**{f"{kind}s": providers(kind, each) for kind, each in whole.items()})
    return Registry([*find_plugins(frozenset({"graphwire"})), load_plugin(FAILING, lambda: plugin)])


class Needing(torch.nn.Module):
    """A program that needs the plugin of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, box: Box) -> Any:
        return Box(relu(box.x) * self.weight)


def everything(program: Any, registry: Registry, folder: Path, format: str, store: str) -> dict[str, Any]:
    """What is done, by name: functions that are called in this order."""
    file, other = folder / "a.pt2", folder / "b.pt2"
    apart = folder / f"weights.{store}"
    common: Any = {"registry": registry}
    older: Any = {"opset_version": {"failing": 1}}
    return {
        "save": lambda: graphwire.save(program, file, format=format, **common),
        "load": lambda: graphwire.load(file, **common),
        "inspect": lambda: graphwire.inspect(file, **common),
        "verify": lambda: graphwire.verify(file, **common),
        "convert": lambda: graphwire.convert(file, other, format="msgpack", **common),
        "upgrade": lambda: graphwire.upgrade(file, other, **common),
        "hash": lambda: graphwire.content_hash(file, **common),
        "diff": lambda: graphwire.diff(file, file, **common),
        "save weights": lambda: graphwire.save(program, other, weights=str(apart), **common),
        "load weights": lambda: graphwire.load(other, **common),
        "decode": lambda: graphwire.decode(
            graphwire.encode(graphwire.to_schema(program, **common)[0], **common), **common
        ),
        "other weights": lambda: graphwire.load(file, weights=str(apart), **common),
        "load module": lambda: graphwire.load_module(file, **common),
        "weights": lambda: graphwire.weights(file, **common),
        "records": lambda: graphwire.from_schema(*graphwire.to_schema(program, **common), **common),
        "down": lambda: graphwire.save(program, other, **older, **common),
        "plan": lambda: graphwire.plan_upgrade(other, **common),
        "up": lambda: graphwire.load(other, **common),
    }


@pytest.fixture(scope="module")
def needing() -> Any:
    program = torch.export.export(Needing(), (Box(torch.ones(2)),))
    program.constants["sparse"] = torch.ones(2, 2).to_sparse()
    for node in program.graph.nodes:
        node.meta["failing"] = "a note"
    return program


@pytest.fixture(scope="module")
def plain() -> Any:
    return torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


@pytest.mark.filterwarnings("ignore:the treespec serializer 'tests.FailingBox' of plugin")
@pytest.mark.parametrize("site", one_in(2, SITES), ids=lambda site: f"{site[0].kind} {site[1]}")
def test_what_a_provider_raises_names_its_plugin_and_disturbs_nobody_else(
    site: tuple[Hook, str], needing: Any, plain: Any, tmp_path: Path
) -> None:
    hook, method = site
    bad, good = (installed(hook, WORKING[hook.kind] | more) for more in ({method: fails}, {}))
    (info,) = (each for each in bad.plugins if each.distribution == "gw-failing")
    assert info.status == "active", info.reason
    for act in everything(plain, bad, tmp_path, "json", "safetensors").values():
        act()
    format = "failing" if hook.kind == "wire_format" else "json"
    store = "failing" if hook.kind == "weight_store" else "safetensors"
    known = everything(needing, good, tmp_path, format, "safetensors")
    for name, act in everything(needing, bad, tmp_path, format, store).items():
        told = failure_of(act)
        if "of the plugin" in told:
            assert "gw-failing==1.5" in told, (name, told)
            assert "GRAPHWIRE_DISABLE_PLUGINS" in told, (name, told)
        if told and name == "save":
            known["save"]()  # what follows needs a file


# ------------------------------------------------------------------------------------ results of whatever kind, and rude methods


async def waits(*_: Any) -> Any: ...


def yields(*_: Any) -> Any:
    yield 1


class Rude:
    """Fails at whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("of the plugin")

    __len__ = __iter__ = __bool__ = __repr__ = __str__ = __eq__ = fails  # type: ignore[assignment]
    __hash__ = object.__hash__


def clears(method: Callable[..., Any]) -> Callable[..., Any]:
    def cleared(*given: Any) -> Any:
        result = method(*given)
        for each in given:
            if isinstance(each, (dict, list)):
                each.clear()
        return result

    return cleared


def closes(method: Callable[..., Any]) -> Callable[..., Any]:
    def closed(*given: Any) -> Any:
        result = method(*given)
        for each in given:
            for name in ("release", "close"):
                with contextlib.suppress(Exception):
                    getattr(each, name)()
        return result

    return closed


def endless(*_: Any) -> Any:
    return endless()


def exhausts(*_: Any) -> Any:
    raise MemoryError


def full(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


DEEDS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    **{
        f"returns {what}": lambda method, made=made: lambda *_: made()
        for what, made in {
            "None": lambda: None,
            "3": lambda: 3,
            "text": lambda: "x" * 5_000_000,
            "a long number": lambda: 10**6000,
            "True": lambda: True,
            "a list": lambda: [1],
            "a pair": lambda: (1, 2),
            "a mapping": lambda: {1: 2},
            "a class": lambda: int,
            "bytes": lambda: b"zz",
            "what fails at everything": Rude,
            "a generator": yields,
        }.items()
    },
    "exits": lambda method: lambda *_: sys.exit(3),
    "recurses": lambda method: endless,
    "runs out of memory": lambda method: exhausts,
    "finds a full disk": lambda method: full,
    "clears what it is given": clears,
    "closes what it is given": closes,
}


UNBLAMED = (
    "No such file",
    "has other weights; Checkpoint",
    "no store of weights recognizes",
    "install the plugins that provide their treespec serializers",
)
"""What is true of files, whoever made them: the next step of a store that wrote nothing, and of a serializer whose container is
another class."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case",
    one_in(43, [(*each, deed) for each in SITES if each[0].kind != "command" for deed in DEEDS]),
    ids=lambda case: f"{case[0].kind} {case[1]} {case[2]}",
)
def test_whatever_a_method_does_ends_with_an_error_that_names_its_plugin_or_does_no_harm(
    case: tuple[Hook, str, str], needing: Any, tmp_path: Path
) -> None:
    hook, method, deed = case
    working = WORKING[hook.kind]
    done = working.get(method) or (lambda *_: StoreIndex({}, {}))
    good, bad = (installed(hook, working | {method: did}) for did in (done, DEEDS[deed](done)))
    format = "failing" if hook.kind == "wire_format" else "json"
    store = "failing" if hook.kind == "weight_store" else "safetensors"
    known = everything(needing, good, tmp_path, format, "safetensors")
    known["save weights"]()
    for name, act in everything(needing, bad, tmp_path, format, store).items():
        told = failure_of(act)
        if told and not any(each in told for each in UNBLAMED):
            assert "gw-failing==1.5" in told, (name, told)
            assert "GRAPHWIRE_DISABLE_PLUGINS" in told, (name, told)
            assert "defect of graphwire" not in told, (name, told)
            assert len(told) < 5_000, name
        if name == "save":
            known["save"]()  # what follows needs a good file


def lists(hooks: Callable[[], Any], kind: str) -> Any:
    return lambda: types.SimpleNamespace(**{f"graphwire_{kind}s": hookimpl(hooks)})


def absent() -> Any:
    raise ImportError("No module named 'gw_absent'", name="gw_absent")


BROKEN: dict[str, Callable[[str, str], Any]] = {
    "a coroutine": lambda kind, method: with_method(kind, method, waits),
    "a generator": lambda kind, method: with_method(kind, method, yields),
    "no method": lambda kind, method: with_method(kind, method, None),
    "no import": lambda kind, method: absent,
    "no list": lambda kind, method: lists(lambda: None, kind),
    "a list that fails": lambda kind, method: lists(fails, kind),
    "a list that exits": lambda kind, method: lists(sys.exit, kind),
}


def with_method(kind: str, method: str, function: Any) -> Any:
    return lists(lambda: [made(**WORKING[kind] | {method: function})], kind)


NOBODYS: dict[str, dict[str, Callable[[Any, Path, Registry], Any]]] = {
    "weight_store": {
        "save": lambda program, folder, registry: graphwire.save(
            program, folder / "b.pt2", weights=str(folder / "x.failing"), registry=registry
        ),
        "load": lambda program, folder, registry: graphwire.load(
            folder / "a.pt2", weights=str(folder / "x.failing"), registry=registry
        ),
    },
    "wire_format": {
        "save": lambda program, folder, registry: graphwire.dumps(
            program, format="failing", registry=registry
        ),
        "decode": lambda program, folder, registry: graphwire.decode(b"\0strange", registry=registry),
        "treespec": lambda program, folder, registry: graphwire.treespec_loads(
            b"\0strange", registry=registry
        ),
    },
    "constant_codec": {
        "save": lambda program, folder, registry: graphwire.dumps(with_object(program), registry=registry)
    },
}
"""Where graphwire looks for a provider by something else than a name that a file has."""


def with_object(program: Any) -> Any:
    program = copy.copy(program)
    program._constants = {**program.constants, "kept": object()}
    return program


@pytest.mark.parametrize("kind", NOBODYS)
@pytest.mark.parametrize("how", BROKEN)
def test_where_nobody_has_what_is_needed_each_broken_plugin_that_might_is_named(
    kind: str, how: str, plain: Any, tmp_path: Path
) -> None:
    method = next(name for hook, name in METHODS if hook.kind == kind)
    info = PluginInfo("another", "gw-failing", "1.5")  # a format of a plugin's name would name that plugin
    registry = Registry(
        [*find_plugins(frozenset({"graphwire"})), load_plugin(info, BROKEN[how](kind, method))]
    )
    graphwire.save(plain, tmp_path / "a.pt2", registry=registry)
    for name, act in NOBODYS[kind].items():
        told = failure_of(lambda act=act: act(plain, tmp_path, registry))
        assert "`another` of gw-failing==1.5 is broken: " in told, (name, told)
        assert "GRAPHWIRE_DISABLE_PLUGINS" in told, (name, told)
    other = next(each for each in NOBODYS if each != kind)
    for act in NOBODYS[other].values():
        is_known = how in ("a coroutine", "a generator", "no method")
        assert ("gw-failing" in failure_of(lambda act=act: act(plain, tmp_path, registry))) is not is_known


class Ends(BaseException):
    """What nobody expects."""


class Unprintable(Exception):
    """Whoever prints it ends."""

    def __str__(self) -> str:
        raise SystemExit(4)


def provider_of(registry: Registry, hook: Hook) -> Any:
    """The provider of the plugin that fails, as the registry gives it to all callers."""
    found = {
        "wire_format": lambda: registry.wire_formats["failing"],
        "op_handler": lambda: registry.op_handler(NAME),
        "treespec_serializer": lambda: registry.container_types.serializers["tests.FailingBox"],
        "constant_codec": lambda: registry.constant_codecs["failing"],
        "weight_store": lambda: registry.weight_stores["failing"],
        "command": lambda: registry.commands["failing"],
    }
    return found[hook.kind]()


def site_of(hook: Hook, method: str, function: Any) -> Callable[[], Any]:
    """What calls a function that a plugin has as this method, as the registry gives it to all callers."""
    registry = installed(hook, WORKING[hook.kind] | {method: function})
    found = {
        "up": lambda: registry.opset_steps[-2].operators[NAME],
        "down": lambda: registry.opset_steps[-1].operators[NAME],
        "section": lambda: registry.metadata_keys["failing"].section,
        "read_into": lambda: (
            provider_of(registry, hook).open(None, "").tensors["weight"].chunks[0].file.read_into
        ),
    }
    called = found.get(method, lambda: getattr(provider_of(registry, hook), method))()
    return lambda: called(argparse.ArgumentParser())


OF_REGISTRY = [(hook, name) for hook, name in SITES if name != "run"]
"""What the registry gives. The command line calls the function that a command sets."""


@pytest.mark.parametrize(
    ("hook", "method"), OF_REGISTRY, ids=[f"{hook.kind} {name}" for hook, name in OF_REGISTRY]
)
def test_whatever_a_method_raises_or_ends_with_names_the_plugin_for_every_caller(
    hook: Hook, method: str
) -> None:
    odd = (
        Unprintable(),
        ImportError("no x", name=Unprintable()),
        EncodeError(3),
        EncodeError.__new__(EncodeError),
    )  # type: ignore[arg-type]
    ends = (SystemExit(0), GeneratorExit(), Ends(), StopIteration(), BaseExceptionGroup("two", [Ends()]))
    for raised in (
        KeyError("x"),
        ImportError("no x", name="x"),
        RuntimeError("\ud800\x1b[31m\n" * 9999),
        *odd,
        *ends,
    ):

        def raises(*_: Any, raised: BaseException = raised) -> Any:
            raise raised

        with pytest.raises(GraphwireError) as caught:
            site_of(hook, method, raises)()
        assert f"`{NAME if method in ('up', 'down') else method}` of the " in caught.value.problem
        assert "gw-failing==1.5" in caught.value.problem
        assert "GRAPHWIRE_DISABLE_PLUGINS" in caught.value.remedy
        assert len(str(caught.value)) < 2000
        if isinstance(raised, ImportError) and raised.name == "x":
            assert "needs the library x" in caught.value.problem
    for passing in (KeyboardInterrupt(), UserWarning("as an error"), EncodeError("its own")):

        def passes(*_: Any, passing: BaseException = passing) -> Any:
            raise passing

        with pytest.raises(type(passing)):
            site_of(hook, method, passes)()
        if isinstance(passing, GraphwireError):
            assert "gw-failing==1.5 found this. If it is wrong: update or uninstall it, or" in passing.remedy


@pytest.mark.parametrize(
    ("hook", "method"), OF_REGISTRY, ids=[f"{hook.kind} {name}" for hook, name in OF_REGISTRY]
)
def test_a_method_that_changes_the_process_is_told_and_changes_nothing(hook: Hook, method: str) -> None:
    where = Path.cwd()
    for change in (
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_device("meta"),
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.set_grad_enabled(False),
        lambda: os.chdir("/"),
    ):
        changes = lambda *_, change=change: change()  # noqa: E731
        with pytest.raises(GraphwireError, match=r"gw-failing==1.5 changes .* for the whole process"):
            site_of(hook, method, changes)()
        assert torch.get_default_dtype() is torch.float32
        assert torch.get_default_device() == torch.ones(1).device == torch.device("cpu")
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.is_grad_enabled()
        assert Path.cwd() == where


def test_no_plugin_is_blamed_for_what_another_thread_changes() -> None:
    """One that waits cannot have changed anything: tests in several processes have such threads, and so have notebooks."""
    codec = next(each for each in HOOKS if each.kind == "constant_codec")
    begun, changed, ends = threading.Event(), threading.Event(), threading.Event()

    def owns(value: Any) -> bool:
        begun.set()
        return changed.wait(10)

    def other() -> None:
        begun.wait(10)
        torch.set_default_dtype(torch.float64)
        changed.set()
        ends.wait(10)

    def changes(value: Any) -> bool:
        torch.set_default_dtype(torch.float16)
        return True

    waits, bad = (
        provider_of(installed(codec, WORKING["constant_codec"] | {"owns": owns}), codec)
        for owns in (owns, changes)
    )
    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert waits.owns(None) is True
        assert torch.get_default_dtype() is torch.float64
        with pytest.raises(GraphwireError, match="changes the default element type"):
            bad.owns(None)
        assert torch.get_default_dtype() is torch.float64
    finally:
        ends.set()
        thread.join()
        torch.set_default_dtype(torch.float32)


def test_only_the_registry_has_providers_that_are_not_isolated() -> None:
    """Whoever calls a method gets the provider from a registry; this looks for those who unwrap one, or load one themselves."""
    source = Path(graphwire.__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("__wrapped__", "_index", "accepted"))
        or (isinstance(node, ast.Name) and node.id in ("unwrap", "provisions_of"))
    }
    ours = {each for each in found if not each.startswith("registry/")}
    assert ours == set(), "these reach a plugin's provider past the registry"
    assert {"registry/calls.py", "registry/discovery.py", "registry/registry.py"} <= found


def failure_of(act: Callable[[], object]) -> str:
    try:
        act()
    except (GraphwireError, FileNotFoundError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "add",
    [fails, lambda parser: parser.set_defaults(run=fails), lambda parser: parser.set_defaults(run=None)],
    ids=["add", "run", "no run"],
)
def test_a_command_that_fails_ends_with_one_message(
    add: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = installed(HOOKS[-1], WORKING["command"] | {"add": add})
    monkeypatch.setattr("graphwire.registry.registry.default_registry", lambda: registry)
    assert main(["failing"]) != 0
    told = capsys.readouterr().err
    assert "the command 'failing' of plugin `failing` of gw-failing==1.5" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("method", ["add", "run"])
@pytest.mark.parametrize("deed", DEEDS)
def test_whatever_a_command_does_ends_with_a_number_or_one_message(
    method: str, deed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    working = WORKING["command"]
    registry = installed(HOOKS[-1], working | {method: DEEDS[deed](working[method])})
    monkeypatch.setattr("graphwire.registry.registry.default_registry", lambda: registry)
    try:
        code = main(["failing"])
    except SystemExit as ended:  # which `run` may do
        assert method == "run"
        code = ended.code  # type: ignore[assignment]
    assert type(code) is int
    assert 0 <= code < 256
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert len(told) < 2000
    assert not told or "gw-failing==1.5" in told or "No space left" in told


WRONG: list[tuple[str, str, Any, str]] = [
    ("weight_store", "find", 3, "not a location or None"),
    ("weight_store", "open", {"a": 1}, "not a StoreIndex of"),
    ("weight_store", "open", StoreIndex(None, None), "not a StoreIndex of"),  # type: ignore[arg-type]
    ("weight_store", "open", StoreIndex({"a": 3}, {"b": 4}), "not a StoreIndex of"),  # type: ignore[dict-item]
    ("weight_store", "write", None, "not a location and a mapping"),
    ("wire_format", "encode", "text", "not bytes"),
    ("wire_format", "most_values", 1.5, "not an int"),
    ("op_handler", "name_of", 3, "not text or None"),
    ("op_handler", "decode_node", 3, "not a pair of arguments"),
    ("treespec_serializer", "dump_context", 3, "not a version and a tree"),
    ("treespec_serializer", "arity", "x", "not a number of children or None"),
    ("treespec_serializer", "arity", 1 << 1100, "not a number of children or None"),
    ("constant_codec", "encode", 3, "not a tree and a list"),
]


STORED = StoredTensor.whole("float32", (2,), "x")
FIELDS = [
    *(
        STORED._replace(**{name: bad})
        for name in STORED._fields
        for bad in (3, None, (None,), (1.5,), object())
    ),
    *(
        STORED._replace(chunks=(STORED.chunks[0]._replace(**{name: bad}),))
        for name in STORED.chunks[0]._fields
        for bad in (None, "x", 1.5, (None,), ("x",))
        if (name, bad) not in (("file", "x"), ("strides", None))
    ),
]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_field_of_a_wrong_type_in_a_tensor_of_a_store_names_the_plugin(lazy: bool) -> None:
    (hook,) = (each for each in HOOKS if each.kind == "weight_store")
    for wrong in FIELDS:
        tensors: Any = types.MappingProxyType({"a": wrong}) if lazy else {"a": wrong}
        opened = {"open": lambda *_, tensors=tensors: StoreIndex(tensors, {})}
        provider = provider_of(installed(hook, WORKING["weight_store"] | opened), hook)
        with pytest.raises(GraphwireError, match=r"gw-failing==1.5 returns .*not a Stor.*GRAPHWIRE_DISABLE"):
            assert provider.open(None).tensors["a"], wrong


@pytest.mark.parametrize(("kind", "method", "result", "told"), WRONG)
def test_a_result_of_a_wrong_type_names_the_plugin(kind: str, method: str, result: Any, told: str) -> None:
    (hook,) = (each for each in HOOKS if each.kind == kind)
    provider = provider_of(installed(hook, WORKING[kind] | {method: lambda *_: result}), hook)
    with pytest.raises(GraphwireError, match=f"gw-failing==1.5 returns .*{told}"):
        getattr(provider, method)(None)


def fails_as_ours(*_: Any) -> Any:
    raise FormatError("of the plugin")


FORGETFUL: dict[str, Any] = {
    "clears what it is given": lambda folder, location, tensors: (location, dict.fromkeys([*tensors], tensors.clear() or "x")),
    "writes nothing": lambda folder, location, tensors: (location, {}),
    "names what is no text": lambda folder, location, tensors: (location, dict.fromkeys(tensors, 3)),
    "writes elsewhere": lambda folder, location, tensors: (f"../{location}", {each: each for each in tensors}),
    "does not find it again": lambda folder, location, tensors: (location, {each: each for each in tensors}),
}  # fmt: skip


@pytest.mark.parametrize("write", FORGETFUL.values(), ids=FORGETFUL)
def test_a_store_that_loses_weights_is_named_and_no_file_refers_to_it(
    write: Any, plain: Any, tmp_path: Path
) -> None:
    hook = next(each for each in HOOKS if each.kind == "weight_store")
    registry = installed(hook, WORKING["weight_store"] | {"write": write})
    told = failure_of(
        lambda: graphwire.save(
            plain, tmp_path / "a.pt2", weights=str(tmp_path / "x.failing"), registry=registry
        )
    )
    assert "the weight store 'failing' d" in told
    assert "gw-failing==1.5 is at fault" in told
    assert not (tmp_path / "a.pt2").exists()


@pytest.mark.parametrize("find", [fails, fails_as_ours, lambda folder, location: location])
def test_no_store_takes_the_files_of_a_built_in_one(find: Any, plain: Any, tmp_path: Path) -> None:
    hook = next(each for each in HOOKS if each.kind == "weight_store")
    registry = installed(hook, WORKING["weight_store"] | {"find": find})
    graphwire.save(plain, tmp_path / "a.pt2", weights=str(tmp_path / "x.safetensors"), registry=registry)
    loaded = graphwire.load(tmp_path / "a.pt2", weights=str(tmp_path / "x.safetensors"), registry=registry)
    assert torch.equal(loaded.state_dict["weight"], plain.state_dict["weight"])
