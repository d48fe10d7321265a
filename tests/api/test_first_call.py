"""A module of `load_module` answers its first call before its code is generated, and whatever uses it finds the code."""

from __future__ import annotations

import copy
import enum
import gc
import inspect
import os
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.bridge import ProgramModule, taken_attributes
from programs import decoder
from this_torch import RELEASE
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import graphwire
from graphwire.errors import InputError


class _Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor) -> Any:
        return self.inner(tokens)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("first") / "decoder.pt2"
    graphwire.save(decoder(1).program, found)
    return found


@pytest.fixture(scope="module")
def tokens() -> Tensor:
    (given,) = decoder(1).calls[0].args
    assert isinstance(given, Tensor)
    return given


@pytest.fixture(scope="module")
def expected(path: Path, tokens: Tensor) -> Any:
    return graphwire.load(path).module()(tokens)


def test_the_second_call_generates_the_code(path: Path, tokens: Tensor, expected: Any) -> None:
    module = graphwire.load_module(path)
    for has_code in (False, False, True):
        assert ("_code" in vars(module)) is has_code
        torch.testing.assert_close(module(tokens), expected, rtol=0, atol=0)
    with pytest.raises(InputError):
        graphwire.load_module(path)(tokens[0])
    assert type(module)._call_impl is nn.Module._call_impl
    assert "forward" not in vars(module)


_USES: dict[str, Callable[[Any, Tensor], Any]] = {
    "call": lambda module, x: module(x),
    "forward": lambda module, x: module.forward(x),
    "forward of its class": lambda module, x: type(module).forward(module, x),
    "compile": lambda module, x: torch.compile(module, backend="eager", fullgraph=True)(x),
    "compile inside": lambda module, x: torch.compile(_Outer(module), backend="eager", fullgraph=True)(x),
    "compile in place": lambda module, x: (module.compile(backend="eager"), module(x))[1],
    "symbolic trace": lambda module, x: torch.fx.symbolic_trace(module)(x),
    "symbolic trace inside": lambda module, x: torch.fx.symbolic_trace(_Outer(module))(x),
    "export": lambda module, x: torch.export.export(module, (x,)).module()(x),
    "export inside": lambda module, x: torch.export.export(_Outer(module), (x,)).module()(x),
    "strict export inside": lambda module, x: torch.export.export(_Outer(module), (x,), strict=True).module()(
        x
    ),
    "jit trace": lambda module, x: torch.jit.trace(module, (x,))(x),
    "make_fx": lambda module, x: make_fx(module)(x)(x),
    "copy": lambda module, x: copy.deepcopy(module)(x),
    "pickle": lambda module, x: pickle.loads(pickle.dumps(module))(x),
    "functional call": lambda module, x: torch.func.functional_call(
        module, {"tokens.weight": module.tokens.weight * 1}, (x,)
    ),
    "interpreter": lambda module, x: torch.fx.Interpreter(module).run(x),
    "recompile": lambda module, x: (module.recompile(), module(x))[1],
    "text": lambda module, x: (str(module), module.print_readable(print_output=False), module(x))[2],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize("use", _USES)
def test_what_uses_a_module_finds_its_code(
    use: str, calls: int, path: Path, tokens: Tensor, expected: Any
) -> None:
    module = graphwire.load_module(path)
    for _ in range(calls):
        module(tokens)
    torch.testing.assert_close(_USES[use](module, tokens), expected, rtol=0, atol=0)
    torch.testing.assert_close(module(tokens), expected, rtol=0, atol=0)
    assert list(inspect.signature(module.forward).parameters) == ["tokens"]
    assert module.code == graphwire.load(path).module().code


@pytest.mark.parametrize("calls", [0, 1])
def test_a_class_may_be_replaced_before_there_is_code(
    calls: int, path: Path, tokens: Tensor, expected: Any
) -> None:
    module = graphwire.load_module(path)
    for _ in range(calls):
        module(tokens)
    usual = type(module)
    for owner in (type("Replaced", (usual,), {}), usual):
        module.__class__ = owner
        for _ in range(3):
            torch.testing.assert_close(module(tokens), expected, rtol=0, atol=0)
        assert owner._call_impl is nn.Module._call_impl
    assert module.code == graphwire.load(path).module().code


def test_a_forward_that_somebody_set_is_called(path: Path, tokens: Tensor, expected: Any) -> None:
    module: Any = graphwire.load_module(path)
    module.forward = lambda *_: "set"
    assert [module(tokens), module(tokens)] == ["set", "set"]
    del module.forward
    torch.testing.assert_close(module(tokens), expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # up to torch 2.11
def test_hooks_and_the_profiler_see_the_first_call(path: Path, tokens: Tensor) -> None:
    module = graphwire.load_module(path)
    seen: list[str] = []
    module.register_forward_pre_hook(lambda *_: seen.append("before"))
    module.register_forward_hook(lambda *_: seen.append("after"))
    events = []
    for _ in range(3):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            module(tokens)
        events.append([each.name for each in profile.events() if each.name.startswith("aten::")])
    assert seen == ["before", "after"] * 3
    assert "aten::linear" in events[0]
    assert events[0] == events[1] == events[2]


def test_threads_call_one_module_at_once(path: Path, tokens: Tensor, expected: Any) -> None:
    for _ in range(5):
        module = graphwire.load_module(path)
        start = threading.Barrier(8)

        def call(module: Any = module, start: Any = start) -> Any:
            start.wait()
            return [module(tokens) for _ in range(4)]

        with ThreadPoolExecutor(8) as pool:
            for each in [pool.submit(call) for _ in range(8)]:
                for found in each.result():
                    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_values_are_dropped_after_their_last_use(path: Path, tokens: Tensor) -> None:
    """The peak of the first call is that of any other."""
    module = graphwire.load_module(path)
    peaks = []
    for _ in range(3):
        with torch.profiler.profile(profile_memory=True) as profile:
            module(tokens)
        held = peak = 0
        for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
            if event.name() == "[memory]":
                held += event.nbytes()
                peak = max(peak, held)
        peaks.append(peak)
    assert peaks[0] <= peaks[1] == peaks[2]


def test_a_module_is_freed(path: Path, tokens: Tensor) -> None:
    module: Any = graphwire.load_module(path)
    owner = type(module)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    with pytest.raises(AttributeError):
        owner.forward  # noqa: B018


def test_no_attribute_is_its_own(path: Path, tokens: Tensor) -> None:
    """Files may name their weights as they like, but for the attributes of torch's module, which are refused by all loads."""
    module: Any = graphwire.load_module(path)
    theirs = set(dir(torch.fx.GraphModule)) | taken_attributes()
    assert {name for name in dir(ProgramModule) if name not in theirs} == set()
    weights = {name.partition(".")[0] for name in module.state_dict()}
    for _ in range(3):
        assert {name for name in dir(module) if name not in theirs} - weights == set()
        module(tokens)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_process_that_forks_serves(path: Path, tokens: Tensor, expected: Any, calls: int) -> None:
    module = graphwire.load_module(path)
    for _ in range(calls):
        module(tokens)
    child = os.fork()
    if not child:
        try:
            torch.set_num_threads(1)  # the threads of OpenMP do not survive a fork
            os._exit(0 if all(torch.equal(module(tokens), expected) for _ in range(3)) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    torch.testing.assert_close(module(tokens), expected, rtol=0, atol=0)


class Level(enum.IntEnum):
    """Names of numbers."""

    LOW, HIGH = 1, 2


_WITH_MEMBERS = pytest.mark.skipif(RELEASE < (2, 12), reason="this torch saves no members of enumerations")


class OfSizes(torch.nn.Module):
    """Returns a `torch.Size`, of which torch's module makes a tuple."""

    def forward(self, x: torch.Tensor, level: Level) -> dict[str, Any]:
        return {"doubled": x * (2 if level == Level.LOW else 3), "shape": x.shape}


@_WITH_MEMBERS
def test_every_call_returns_the_containers_of_torchs_module() -> None:
    program = torch.export.export(OfSizes(), (torch.ones(2, 3), Level.LOW))
    expected, module = program.module(), graphwire.load_module(graphwire.dumps(program))
    for _ in range(3):
        made = module(torch.ones(2, 3), Level.LOW)
        assert type(made["shape"]) is type(expected(torch.ones(2, 3), Level.LOW)["shape"]) is tuple


@_WITH_MEMBERS
def test_members_of_enumerations_are_compared_as_torch_compares_them() -> None:
    program = torch.export.export(OfSizes(), (torch.ones(2, 3), Level.LOW))
    data = graphwire.dumps(program)
    for guards in (True, False):
        ours, torchs = graphwire.load_module(data, check_guards=guards), program.module(check_guards=guards)
        for given in (Level.LOW, Level.HIGH, 1, 2, True):
            results = [_answers(each, given) for each in (ours, torchs)]
            assert results[0] == results[1], (guards, given)
    with pytest.raises(graphwire.errors.GraphwireError, match=r"must be Level\.LOW"):
        graphwire.load_module(data, check_guards=False)(torch.ones(2, 3), 1)


def _answers(module: torch.nn.Module, given: object) -> bool:
    try:
        module(torch.ones(2, 3), given)
    except (AssertionError, RuntimeError, graphwire.errors.GraphwireError):
        return False
    return True
