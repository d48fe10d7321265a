"""`load_module`: the module that runs, without an exported program in between."""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from loaded_modules import assert_same_module
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

import graphwire
from graphwire import schema
from graphwire.errors import DecodeError, InputError, ValidationError, WeightsError


class _Model(nn.Module):
    """Has everything that a module has: a parameter, tied; buffers, one changed and one that is not saved; a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.linear.weight
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
        self.constant = torch.arange(4.0)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor, parts: dict[str, Tensor], *, times: int = 2) -> dict[str, Any]:
        self.count.add_(1)
        made = self.tied(self.linear(x)) * self.scale + self.constant + self.frozen * times
        return {"made": made, "parts": [parts["a"] + 1, parts["b"]], "count": self.count * 1}


def _program() -> ExportedProgram:
    torch.manual_seed(0)
    batch = Dim("batch", min=1, max=32)
    half = Dim("half", min=4, max=64)
    return export(
        _Model(),
        (torch.randn(3, 4), {"a": torch.randn(3, 2), "b": torch.randn(16)}),
        {"times": 3},
        dynamic_shapes={
            "x": {0: batch},
            "parts": {"a": {0: batch}, "b": {0: 2 * half}},
            "times": None,
        },
    )


@pytest.fixture(scope="module")
def data() -> bytes:
    return graphwire.dumps(_program())


def _call(batch: int = 5) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(batch, 4), {"a": torch.randn(batch, 2), "b": torch.randn(16)}), {"times": 3}


@pytest.mark.parametrize("check_guards", [True, False])
def test_it_equals_the_module_of_the_loaded_program(data: bytes, check_guards: bool) -> None:
    args, kwargs = _call()
    module = assert_same_module(data, args, kwargs, check_guards=check_guards)
    assert module.tied.weight is module.linear.weight
    assert "scale" not in module.state_dict()
    assert module.count == 1
    assert [name for name, each in module.named_parameters() if not each.requires_grad] == ["frozen"]


def test_every_way_to_load_gives_it(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    args, kwargs = _call()
    expected = graphwire.loads(data).module()(*args, **kwargs)
    weights = dict(graphwire.loads(data).state_dict)
    told: list[graphwire.LoadReport] = []
    with graphwire.open(path) as archive:
        made = [archive.module(), archive.module("model", copy=True, device="cpu")]
    made += [
        graphwire.load_module(path, verify=True, report=told.append),
        graphwire.load_module(str(path), copy=True, device="cpu"),
        graphwire.load_module(io.BytesIO(data), method="model"),
        graphwire.load_module(path, weights=weights),
    ]
    for module in made:
        torch.testing.assert_close(module(*args, **kwargs), expected, rtol=0, atol=0)
    assert len(told) == 1
    empty = graphwire.load_module(path, weights=None)
    assert {each.device.type for each in empty.parameters()} == {"meta"}
    assert graphwire.load_module(path, device="meta").linear.weight.is_meta  # type: ignore[union-attr]


def test_errors_are_those_of_a_load(data: bytes, tmp_path: Path) -> None:
    for options in ({"method": "other"}, {"weights": {"linear.weight": torch.zeros(2)}}, {"unknown_ops": 3}):
        with pytest.raises(graphwire.errors.GraphwireError) as loaded:
            graphwire.loads(data, **options)
        with pytest.raises(type(loaded.value)) as made:
            graphwire.load_module(data, **options)
        assert str(made.value) == str(loaded.value)
    with pytest.raises(graphwire.errors.ArchiveError, match="not an archive"):
        graphwire.load_module(b"nothing")
    with pytest.raises(WeightsError):
        graphwire.load_module(data, weights={})


def test_unavailable_operators_fail_when_they_are_called() -> None:
    program = export(nn.ReLU(), (torch.randn(2),))
    record, payloads = graphwire.to_schema(program)
    record.graph_module.graph.nodes[0].target = "torch.ops.nowhere.relu.default"
    file = io.BytesIO()
    graphwire.save(graphwire.from_schema(record, payloads, unknown_ops="opaque"), file)
    with pytest.raises(graphwire.errors.UnknownOperatorError, match=r"nowhere\.relu"):
        graphwire.load_module(file.getvalue())
    module = graphwire.load_module(file.getvalue(), unknown_ops="opaque")
    with pytest.raises(graphwire.errors.UnknownOperatorError, match=r"nowhere\.relu"):
        module(torch.randn(2))


# ---------------------------------------------------------------------------------------------------- what it serves for


def test_it_is_an_ordinary_graph_module(data: bytes) -> None:
    module = graphwire.load_module(data)
    args, kwargs = _call()
    expected = graphwire.loads(data).module()(*args, **kwargs)
    again = pickle.loads(pickle.dumps(module))
    copied = copy.deepcopy(module)
    for each in (copied, again):
        assert str(each.graph) == str(module.graph)
        assert each.code == module.code
        assert list(each.state_dict()) == list(module.state_dict())
        assert each.tied.weight is each.linear.weight
        torch.testing.assert_close(each(*args, **kwargs), expected, rtol=0, atol=0)
        with pytest.raises(InputError):
            each(args[0][:, :3], args[1], **kwargs)
        with pytest.raises(InputError):
            each(*args)
    assert module.count == 0, "the copies have buffers of their own"
    torch.testing.assert_close(
        torch.fx.Interpreter(module).run(*pytree.tree_leaves((args, kwargs))), expected
    )
    module.load_state_dict(again.state_dict())
    assert module.count == 1
    for mode in (module.train, module.eval):
        with pytest.raises(NotImplementedError):
            mode()
    assert module.to(torch.float64).linear.weight.dtype is torch.float64  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:You are calling torch.compile inside:UserWarning")
def test_a_branch_inside_a_branch_is_pickled() -> None:
    """torch would trace the code of its graphs again, which fails."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            def taken(x: Tensor) -> Tensor:
                return torch.cond(x.max() > 2, lambda x: x.sin() * self.w, lambda x: x.cos() + 1, (x,))

            return torch.cond(x.sum() > 0, taken, lambda x: x - 1, (x,))

    module = graphwire.load_module(graphwire.dumps(export(Branches(), (torch.ones(3),))))
    for again in (pickle.loads(pickle.dumps(each)) for each in (module, copy.deepcopy(module))):
        for path, each in module.named_modules():
            if isinstance(each, torch.fx.GraphModule):
                assert again.get_submodule(path).code == each.code
        for x in (torch.ones(3), -torch.ones(3), torch.full((3,), 3.0)):
            assert torch.equal(again(x), module(x))


def _plain() -> bytes:
    batch = Dim("batch", min=3, max=9)
    return graphwire.dumps(export(nn.Linear(4, 2), (torch.randn(5, 4),), dynamic_shapes=({0: batch},)))


def test_it_is_traced_and_the_trace_checks_its_inputs() -> None:
    traced = torch.fx.symbolic_trace(graphwire.load_module(_plain()))
    assert traced(torch.randn(6, 4)).shape == (6, 2)
    with pytest.raises(AssertionError, match=r"input\.shape\[0\] must be at most 9"):
        traced(torch.randn(10, 4))


@pytest.mark.parametrize("strict", [False, True])
def test_it_is_exported_again(strict: bool) -> None:
    module = graphwire.load_module(_plain())
    batch = Dim("batch", min=3, max=9)
    program = export(module, (torch.randn(5, 4),), dynamic_shapes=({0: batch},), strict=strict)
    assert program.module()(torch.randn(7, 4)).shape == (7, 2)
    again = graphwire.load_module(graphwire.dumps(program))
    with pytest.raises(InputError, match="must be at most 9"):
        again(torch.randn(10, 4))


def test_it_is_compiled() -> None:
    module = graphwire.load_module(_plain())
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    x = torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(compiled(x[:4]), module(x[:4]))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"input\.shape\[0\] is 2, must be at least 3"):
        compiled(x[:2])
    with pytest.raises(InputError, match=r"input\.shape\[0\] is 2, must be at least 3"):
        torch.compile(module, backend="eager")(x[:2])


_FRESH = """
import sys
import torch
before = set(sys.modules)
import graphwire
module = graphwire.load_module(sys.argv[1])
args = [torch.randn(5, 4), {"a": torch.randn(5, 2), "b": torch.randn(16)}]
module(*args, times=3)
print(sorted({*set(sys.modules) - before}))
"""


def test_a_fresh_process_imports_neither_sympy_nor_the_compiler(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FRESH, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout.replace("'", '"'))
    libraries = {
        "graphwire",
        "graphwire_plugins",
        "msgspec",
        "pluggy",
        "zlib_ng",
        "decimal",
        "_decimal",
        "fractions",
        "unicodedata",
    }
    others = [name for name in imported if name.split(".")[0] not in libraries]
    assert set(others) <= {"torch._functorch.config", "torch.utils._device"}
    own = [name for name in imported if name.startswith("graphwire.")]
    unneeded = (
        r"api\.(programs|files|compare)|analysis\.(summary|diff|canonical)|wire\.weights\.external_record|evolve\.steps"
        r"|cli|hooks|viewer|testing|specification|.*writer"
    )
    assert [name for name in own if re.match(rf"graphwire\.({unneeded})(\.|$)", name)] == []
    assert len(own) < 110


_RESIDENT = """
import re, sys
import torch
import graphwire
def resident():
    text = open("/proc/self/smaps_rollup").read()
    return int(re.search(r"Rss: +([0-9]+) kB", text)[1])
graphwire.load_module(sys.argv[1])
before = resident()
module = graphwire.load_module(sys.argv[2])
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_are_not_read_before_the_first_call(data: bytes, tmp_path: Path) -> None:
    """A GiB of weights is mapped."""
    small, large = tmp_path / "small.pt2", tmp_path / "large.pt2"
    small.write_bytes(data)
    weights = nn.Embedding.from_pretrained(torch.zeros(1 << 18, 1 << 10))
    graphwire.save(export(weights, (torch.tensor([3]),)), large)
    del weights
    assert large.stat().st_size > 1 << 30
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RESIDENT, small, large],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 8 << 10


# -------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, parts: (x[:, :3], parts), r"x\.shape\[1\] is 3, must be 4"),
        (lambda x, parts: (x.double()[None], parts), r"x\.ndim is 3, must be 2"),
        (lambda x, parts: (x.tolist(), parts), "structure"),
        (lambda x, parts: (3, parts), "x is an int, must be a tensor"),
        (
            lambda x, parts: (x, {**parts, "a": parts["a"][:2]}),
            r"parts\['a'\]\.shape\[0\] is 2, must be x\.shape\[0\], and x\.shape\[0\] is 5",
        ),
        (
            lambda x, parts: (x, {**parts, "b": torch.randn(130)}),
            r"parts\['b'\]\.shape\[0\] is 130, must be at most 128",
        ),
        (lambda x, parts: (x, {"a": parts["a"]}), "structure"),
        (lambda x, parts: (x, parts, x), "there are 3 positional arguments, must be 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(data: bytes, change: Callable[..., Any], message: str) -> None:
    args, kwargs = _call()
    for check_guards in (True, False):
        module = graphwire.load_module(data, check_guards=check_guards)
        module(*args, **kwargs)
        with pytest.raises(InputError, match=message):
            module(*change(*args), **kwargs)
    module.validate_inputs = False
    assert not isinstance(_failure(module, change(*args), kwargs), InputError)


def test_literals_and_keywords_are_checked(data: bytes) -> None:
    args, _ = _call()
    module = graphwire.load_module(data)
    with pytest.raises(InputError, match="times is 4, must be 3"):
        module(*args, times=4)
    with pytest.raises(InputError, match=r"the keyword arguments are \[\], must be \['times'\]"):
        module(*args)


def _failure(module: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
    try:
        module(*copy.deepcopy(args), **kwargs)
    except Exception as error:
        return error
    return None


class _Guarded(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[0] * 2 > y.shape[0] and x.shape[1] % 4 == 0:
            return x.sum() + y.sum()
        return x.sum() - y.sum()


def _guarded() -> ExportedProgram:
    """A program whose export found guards."""
    return export(
        _Guarded(),
        (torch.randn(6, 8), torch.randn(7)),
        dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO}},
    )


def _ranged() -> ExportedProgram:
    """A program with ranges and an equality."""
    size = Dim("size", min=3, max=12)
    return export(
        nn.Bilinear(4, 4, 2), (torch.randn(4, 4), torch.randn(4, 4)), dynamic_shapes=({0: size}, {0: size})
    )


@pytest.mark.parametrize("make", [_guarded, _ranged])
def test_what_both_refuse_of_random_shapes(make: Callable[[], ExportedProgram]) -> None:
    rng = random.Random(0)
    program = graphwire.dumps(make())
    ours, theirs = graphwire.load_module(program), graphwire.loads(program).module()
    refused = 0
    for _ in range(200):
        if make is _guarded:
            args = torch.randn(rng.randint(1, 14), 4 * rng.randint(0, 2)), torch.randn(rng.randint(1, 14))
        else:
            size = rng.randint(1, 14)
            args = (
                torch.randn(size, 4),
                torch.randn(rng.choice([size, size, size + 1]), rng.choice([4, 4, 5])),
            )
        one, other = _failure(ours, args, {}), _failure(theirs, args, {})
        assert (one is None) is (other is None), (*(each.shape for each in args), one, other)
        assert one is None or isinstance(one, InputError)
        refused += one is not None
    assert 20 < refused < 180, refused


def test_without_example_inputs_guards_and_ranks_are_checked() -> None:
    """torch cannot write its function of guards then, and checks ranks and shapes alone."""
    module = graphwire.load_module(graphwire.dumps(_guarded(), strip=["example_inputs"]))
    module(torch.randn(6, 8), torch.randn(7))
    with pytest.raises(InputError, match=r"x\.ndim is 3, must be 2"):
        module(torch.randn(6, 8, 1), torch.randn(7))
    with pytest.raises(InputError, match="must hold"):
        module(torch.randn(2, 8), torch.randn(7))


def test_guards_of_containers_among_any_number_of_arguments() -> None:
    class Joined(nn.Module):
        def forward(self, *args: Any) -> Tensor:
            return torch.cat([*args[0], args[1]["last"]], 1)

    given = ([torch.randn(5, 2), torch.randn(5, 1)], {"last": torch.randn(5, 3)})
    shapes = pytree.tree_map(lambda each: {0: Dim.AUTO, 1: Dim.AUTO}, given)
    program = export(Joined(), given, dynamic_shapes=(shapes,))
    assert any("L['args'][0][1]" in guard for guard in program._guards_code)
    module = assert_same_module(graphwire.dumps(program), given, violations=100)
    with pytest.raises(InputError, match=r"args_0\[1\]\.shape\[0\] is 3"):
        module([given[0][0], torch.randn(3, 1)], given[1])


def test_sizes_that_nothing_compares_need_not_be_there() -> None:
    class Sums(nn.Module):
        def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
            return x.sum() + y.sum() + z.sum()

    shapes = {"x": {0: Dim.AUTO}, "y": {0: Dim("rows", max=9), 1: Dim.AUTO}, "z": {0: Dim.AUTO, 1: Dim.AUTO}}
    args = (torch.randn(3), torch.randn(3, 4), torch.randn(4, 4))
    module = assert_same_module(
        graphwire.dumps(export(Sums(), args, dynamic_shapes=shapes)), args, violations=100
    )
    for given in ((torch.tensor(2.0), *args[1:]), (args[0], args[0], torch.tensor(2.0))):
        assert module(*given).ndim == 0
    with pytest.raises(InputError, match=r"y\.ndim is 0, must be 2"):
        module(args[0], torch.tensor(2.0), args[2])


class _Compared(nn.Module):
    def forward(self, x: Tensor, y: Tensor, n: int, m: int) -> Tensor:
        far = x.shape[0] * x.shape[1] >= 2 * y.shape[0] and n < m and x.shape[0] % y.shape[0] == 2
        return x.sum() + y.sum() if far else x.sum()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": "text"}, "y is a str, must be a tensor"),
        ({"x": None}, "x is a NoneType, must be a tensor"),
        ({"x": torch.ones(7, 6, 1), "y": 3}, "y is an int, must be a tensor"),
        ({"y": torch.tensor(2.0)}, r"y\.ndim is 0, must be 1"),
        ({"n": "text"}, "n is 'text', must be less than m, and m is 5"),
        ({"n": torch.ones(2)}, r"n is tensor\(\[1\., 1\.\]\), must be less than m, and m is 5"),
        ({"y": torch.ones(0)}, r"must hold, and x\.shape\[0\] is 7, y\.shape\[0\] is 0"),
    ],
)
def test_what_guards_cannot_read_is_named(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": torch.ones(7, 6), "y": torch.ones(5), "n": 3, "m": 5}
    sizes = {"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO}, "n": Dim.AUTO, "m": Dim.AUTO}
    module = graphwire.load_module(
        graphwire.dumps(export(_Compared(), tuple(given.values()), dynamic_shapes=sizes))
    )
    module(*given.values())
    with pytest.raises(InputError, match=message):
        module(*{**given, **changed}.values())


def test_guards_are_made_of_parsed_parts_alone() -> None:
    program = export(
        _Guarded(),
        (torch.randn(6, 8), torch.randn(7)),
        dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}},
    )
    record, payloads = graphwire.to_schema(program)
    record.guards_code = [
        "L['x'].size()[0] <= 2 ** 3",
        "math.floor(L['y'].size()[0] / 2) >= max(1, L['x'].size()[0] - 9)",
    ]
    record.range_constraints = {}
    file = graphwire.dumps(graphwire.from_schema(record, payloads))
    module = graphwire.load_module(file)
    module(torch.randn(6, 8), torch.randn(7))
    with pytest.raises(InputError, match=r"x\.shape\[0\] is 9, must be at most 2 \*\* 3"):
        module(torch.randn(9, 8), torch.randn(7))
    with pytest.raises(InputError, match=r"must hold, and y\.shape\[0\] is 1, x\.shape\[0\] is 8"):
        module(torch.randn(8, 8), torch.randn(1))


# -------------------------------------------------------------------------------------------------------- hostile files


def _two_inputs() -> tuple[schema.Program, Any]:
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x - y + torch.full((2,), float("inf"), device="cpu")

    return graphwire.to_schema(export(Model(), (torch.randn(2), torch.randn(2))))


def _refused(record: schema.Program, payloads: Any, message: str) -> None:
    with pytest.raises((ValidationError, DecodeError), match=message):
        graphwire.from_schema(record, payloads)


def test_targets_of_inputs_are_not_the_names_of_others() -> None:
    record, payloads = _two_inputs()
    noted = record.graph_module.graph.value_metadata
    noted["x"], noted["y"] = schema.ValueMetadata(target="y"), schema.ValueMetadata(target="x")
    _refused(record, payloads, "the argument name 'y' is the name of another input")


@pytest.mark.parametrize("name", ["inf", "device"])
def test_names_of_inputs_do_not_hide_what_code_uses(name: str) -> None:
    record, payloads = _two_inputs()
    record.graph_module.graph.value_metadata["x"] = schema.ValueMetadata(target=name)
    _refused(record, payloads, f"the name '{name}' of an argument hides")
    record, payloads = _two_inputs()
    call = record.graph_module.module_call_graph[0].signature
    assert call is not None
    call.forward_arg_names = [name, "y"]
    _refused(record, payloads, f"the name '{name}' of an argument hides")


def test_attributes_of_modules_are_not_replaced(data: bytes) -> None:
    record, payloads = graphwire.to_schema(graphwire.loads(data))
    text = msgspec.json.encode(record).replace(b'"linear.weight"', b'"forward.weight"')
    assert b'"forward.weight"' in text
    hostile = msgspec.json.decode(text, type=schema.Program)
    payloads.weights["forward.weight"] = payloads.weights.pop("linear.weight")
    with pytest.raises(DecodeError, match=r"'forward\.weight' cannot be the path of a parameter"):
        graphwire.from_schema(hostile, payloads)


# --------------------------------------------------------------------------------------------- descriptions of values


_LOOKS: dict[str, Callable[[Any], Any]] = {
    "item": lambda meta: meta["val"],
    "get": lambda meta: meta.get("val"),
    "in": lambda meta: "val" in meta and meta["val"],
    "pop": lambda meta: meta.pop("val"),
    "setdefault": lambda meta: meta.setdefault("val", 3),
    "iteration": lambda meta: dict(iter(list(meta.items())))["val"],
    "dict": lambda meta: dict(meta)["val"],
    "unpacking": lambda meta: {**meta}["val"],
    "update": lambda meta: _updated(meta)["val"],
    "or": lambda meta: ({} | meta)["val"],
    "copy": lambda meta: meta.copy()["val"],
    "copy.copy": lambda meta: copy.copy(meta)["val"],
    "length": lambda meta: len(meta) and meta["val"],
}


def _updated(meta: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    made.update(meta)
    return made


@pytest.mark.parametrize("look", _LOOKS)
def test_a_value_is_described_at_the_first_look(data: bytes, look: str) -> None:
    module = graphwire.load_module(data)
    node = next(iter(module.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)))
    found = _LOOKS[look](node.meta)
    assert isinstance(found, Tensor)
    assert isinstance(found.shape[0], torch.SymInt)
    assert found.shape[1] == 4


def test_who_sets_or_deletes_a_description_has_the_last_word(data: bytes) -> None:
    first, second, *_ = graphwire.load_module(data).graph.find_nodes(op="placeholder")
    first.meta["val"] = 3
    del second.meta["val"]
    assert first.meta["val"] == 3
    assert "val" not in second.meta
    with pytest.raises(KeyError, match="nothing"):
        first.meta["nothing"]
