"""What people make of an exported program with FX passes comes back as it was, or is refused at save.

10 examples by default; `make test-nightly` tries thousands, and edits random programs too.
"""

from __future__ import annotations

import copy
import functools
import io
import itertools
import operator
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attribute_differences import lost_attributes
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from inside.api import DEFECT
from inside.testing import Snapshot, differences, snapshot
from named_losses import forget_named
from nightly import IS_NIGHTLY, by_day, one_in
from random_programs import ExportableProgram, exportable_programs
from random_programs.edits import EDITS, edit
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import TensorArgument

import graphwire
from graphwire.errors import EncodeError, GraphwireWarning, ValidationError
from graphwire.hooks import default_registry
from graphwire.schema import ValueMetadata
from graphwire.testing import assert_same_values

FORMATS = sorted(default_registry().wire_formats)
X = torch.tensor([[0.5, -2.0, 3.0, 1.0], [4.0, 0.25, -1.0, 2.0], [1.5, 2.5, -3.5, 0.0]])


class Elements(nn.Module):
    """Results of many kinds, taken apart; subgraphs; state that changes, and that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("total", torch.ones(4))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> Any:
        a, b = torch.topk(x, 2)
        c, d = torch.split(x, 2, dim=1)
        e = torch.cond(x.sum() > 0, lambda x: (x.sin(), x.cos() + 1), lambda x: (x.cos(), x * 2), (x,))
        f = torch.cond(x.sum() < 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))
        self.total.add_(1)
        g, h = self.other(f).chunk(2, dim=1)
        return {"a": a * 2 + c, "b": [b, d - a]}, e[0] + self.linear(f) + self.total, c * d, g + g, h, e[1]


class Sizes(nn.Module):
    """Arithmetic on sizes, a loop, and a size that only a run knows."""

    def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> Any:
        z = x[:, :2] + y
        rows = x.shape[0]
        q = torch.arange(rows) + rows * 2
        p = torch.while_loop(
            lambda i, _v: i < 3,
            lambda i, v: (i + 1, v.sin() * torch.tensor([1.0, 2.0])),
            (torch.tensor(0), z),
        )
        u = (x > 0).sum().item()
        torch._check(u >= 0)
        torch._check(u < 100)
        return (
            q.sum() + z.sum(),
            p[1],
            torch.unbind(torch.ones(3, 2))[1] + p[0],
            rows + 1,
            torch.ones(u).sum(),
        )


class Nested(nn.Module):
    """Control flow inside control flow, and inputs that change."""

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.map import map as map_over
        from torch._higher_order_ops.scan import scan

        c, ys = scan(lambda c, y: (c + y, c * y.sin()), torch.zeros(4), x)
        m = map_over(lambda a, b: torch.cond(a.sum() > 0, lambda a: a + 1, lambda a: a - b, (a,)), x, c)
        x.add_(1)
        values, indices = torch.sort(x)
        return c, ys, m, values, torch.max(x, dim=0).values, torch.std_mean(x), [indices, None]


def _exported(model: nn.Module, **options: Any) -> ExportedProgram:
    torch.manual_seed(0)
    return export(model, (X.clone(),), **options)


MAKERS: dict[str, Callable[[], ExportedProgram]] = {
    "elements": lambda: _exported(Elements()),
    "elements-decomposed": lambda: _exported(Elements()).run_decompositions(),
    "sizes": lambda: _exported(
        Sizes(), kwargs={"y": torch.ones(2)}, dynamic_shapes={"x": {0: Dim("rows", min=2, max=50)}, "y": None}
    ),
    "nested": lambda: _exported(Nested()),
}


@functools.cache
def made(name: str) -> ExportedProgram:
    return MAKERS[name]()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What torch has to say of an edited program is not what is tested."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        yield


REFUSALS = (
    "torch does not accept the program",
    "a graph cannot contain",
    "which is not an attribute of the graph's own module",
    "a program cannot return as_constant",
    "an input that is used has",
    "and its `arg` a ",
    "the spec has ",
    "the spec names ",
    "no reader accepts these names",
    "has no value in its metadata",
    "torch does not make such programs",
    "is the path of a parameter and of a buffer",
)
"""What an edited program may be refused for, at save."""


def assert_comes_back(program: ExportedProgram, args: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> bool:
    """Fail unless a program comes back from every format, or is refused at save. Whether it came back.

    Args:
        args: what it is called with; None not to call it.
    """
    before = snapshot(program)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", GraphwireWarning)
            data = {name: graphwire.dumps(program, format=name) for name in FORMATS}
        named = [str(each.message) for each in told if each.category is GraphwireWarning]
    except (EncodeError, ValidationError) as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert any(text in refused for text in REFUSALS), refused
        return False
    assert list(differences(snapshot(program), before)) == [], "saving changed the program"
    for each in data.values():
        assert graphwire.verify(each) == []
        loaded = graphwire.loads(each)
        assert graphwire.dumps(loaded) == data["json"], "the second save differs"
        forget_named(named, program, loaded)
        before = snapshot(program) if named else before
        found = [line for line in differences(snapshot(loaded), before) if not _is_derived(line)]
        found += lost_attributes(program, loaded)
        assert found == [], [*named, *found]
        assert_same_values(_outcome(loaded, args, kwargs), _outcome(program, args, kwargs))
    return True


def _is_derived(line: str) -> bool:
    """Whether a difference is in what is found at load: which of several nodes that know a symbol brings it, the values of
    results, which an edit may leave behind those of the nodes that are returned, and the order of keywords, of schemas."""
    return (
        "unbacked_bindings" in line or ".nodes.output.meta.val" in line or ".kwargs has another order" in line
    )


def _outcome(program: ExportedProgram, args: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> Any:
    """What a program returns, or that it fails."""
    if args is None:
        return None
    torch.manual_seed(0)
    try:
        return copy.deepcopy(program).module()(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception:
        return "it fails"


def edited(name: str, chance: random.Random) -> tuple[ExportedProgram, list[str]]:
    program = copy.deepcopy(made(name))
    return program, edit(program, chance, count=chance.randint(1, 6))


@settings(
    max_examples=by_day(10, by_night=settings().max_examples),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate],
)
@given(name=st.sampled_from(sorted(MAKERS)), seed=st.integers(0, 1 << 32))
def test_any_edited_program_comes_back_or_is_refused_at_save(name: str, seed: int) -> None:
    program, done = edited(name, random.Random(seed))
    try:
        # A loop whose body was edited may have no end.
        assert_comes_back(program, None if name == "sizes" else (X,), {})
    except AssertionError as error:
        raise AssertionError("\n  ".join(["after these edits:", *done, str(error)])) from error


@pytest.mark.skipif(not IS_NIGHTLY, reason="edits of random programs take as long as they themselves")
@settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(made=exportable_programs(), seed=st.integers(0, 1 << 32))
def test_any_edited_random_program_comes_back_or_is_refused_at_save(
    made: ExportableProgram, seed: int
) -> None:
    program = made.program
    done = edit(program, random.Random(seed), count=4)
    try:
        assert_comes_back(program, None, {})
    except AssertionError as error:
        raise AssertionError("\n  ".join(["after these edits:", *done, str(error)])) from error


@pytest.mark.parametrize("kind", EDITS)
def test_every_edit_finds_something_to_do(kind: str) -> None:
    names = ("elements", "sizes")
    kinds = [kind] if kind != "remove_input" else [*["insert_input"] * 5, kind]  # an input that nothing uses
    tries = (
        edit(copy.deepcopy(made(name)), random.Random(seed), count=len(kinds), kinds=kinds)
        for seed, name in itertools.product(range(50), names)
    )
    assert any(done.startswith(f"{kind}: ") for each in tries for done in each)


def readers_of(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.target is operator.getitem and node.users]


def legal_places(graph: torch.fx.Graph, reader: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes that a copy may stand in front of: behind what it reads, up to the last node that uses it."""
    nodes = list(graph.nodes)
    last = max(nodes.index(user) for user in reader.users)
    yield from nodes[nodes.index(reader.args[0]) + 1 : last + 1]


def with_copy(name: str, reader: int, place: int, early: bool) -> ExportedProgram | None:
    """A program with a copy of one of its readers in one of the places where it may stand; None where there is none.

    Args:
        early: whether a node right behind the copy uses it, and others that node.
    """
    program = copy.deepcopy(made(name))
    graph = program.graph
    first = readers_of(graph)[reader]
    at = next(itertools.islice(legal_places(graph, first), place, None), None)
    if at is None:
        return None
    behind = {*itertools.dropwhile(lambda node: node is not at, graph.nodes)}
    with graph.inserting_before(at):
        other = graph.node_copy(first)
        other.meta = copy.copy(first.meta)
        used = other
        if early and isinstance(other.meta["val"], torch.Tensor) and other.meta["val"].is_floating_point():
            used = graph.call_function(torch.ops.aten.mul.Tensor, (other, 1.0))
            used.meta = copy.copy(other.meta)
    for user in [user for user in first.users if user in behind and user.op != "output"]:
        user.replace_input_with(first, used)
    graph.lint()
    program.graph_module.recompile()
    return program


@pytest.mark.nightly
def test_a_copy_of_a_reader_comes_back_from_wherever_it_stands() -> None:
    tried = 0
    for reader in range(len(readers_of(made("elements").graph))):
        for place in itertools.count() if IS_NIGHTLY else itertools.count(0, 6):
            program = with_copy("elements", reader, place, early=place % 12 == 0)
            if program is None:
                break
            before = snapshot(program)
            loaded = graphwire.loads(graphwire.dumps(program))
            assert list(differences(snapshot(loaded), before)) == []
            tried += 1
    assert tried > 12


def test_a_copy_is_the_value_of_the_first_where_torch_reads_the_file() -> None:
    program = with_copy("elements-decomposed", 0, 0, early=True)
    assert program is not None
    data = graphwire.dumps(program)
    with graphwire.open(data) as archive:
        assert archive.program.graph_module.graph.copies
        assert "results" not in archive.program.requires
    of_torch = torch.export.load(io.BytesIO(graphwire.dumps(program, target="torch-2.13")))
    assert_same_values(_outcome(of_torch, (X,), {}), _outcome(program, (X,), {}))


@pytest.mark.parametrize("entry_follows", [True, False])
def test_a_copy_that_is_returned_is_named_by_calls_as_it_was(entry_follows: bool) -> None:
    program = export(Twice(), (X,))
    (first,) = (node for node in readers_of(program.graph) if node.args[1] == 0)
    with program.graph.inserting_after(first):
        other = program.graph.node_copy(first)
    other.meta = copy.copy(first.meta)
    output = program.graph.output_node()
    specs = program.graph_signature.output_specs
    output.args = ((other, *output.args[0][1:]),)  # type: ignore[index]
    specs[0].arg = TensorArgument(other.name)
    entry = program.module_call_graph[0].signature
    assert entry is not None
    entry.outputs = [TensorArgument((other if entry_follows else first).name), *entry.outputs[1:]]
    program.graph_module.recompile()
    assert assert_comes_back(program, (X,), {})
    torch.export.load(io.BytesIO(graphwire.dumps(program)))


class Twice(nn.Module):
    """Uses an element, and returns it."""

    def forward(self, x: torch.Tensor) -> Any:
        a, b = torch.topk(x, 2)
        return a, a + 1, b


def test_a_copy_of_a_name_that_is_given_already_is_refused() -> None:
    program = with_copy("elements", 0, 0, early=False)
    assert program is not None
    record, payloads = graphwire.to_schema(program)
    graph = record.graph_module.graph
    graph.copies = {"topk": next(iter(graph.copies.values())), "no name": next(iter(graph.copies.values()))}
    with pytest.raises(ValidationError) as refused:
        graphwire.from_schema(record, payloads)
    places = {(problem.place, problem.kind) for problem in refused.value.problems}
    assert ("graph_module.graph.copies['topk']", "duplicate") in places
    assert ("graph_module.graph.copies['no name']", "name") in places


def test_uses_of_a_copy_that_are_nowhere_are_none() -> None:
    program = with_copy("elements", 0, 0, early=False)
    assert program is not None
    record, payloads = graphwire.to_schema(program)
    for each in record.graph_module.graph.copies.values():
        each.uses = {"nobody": [0], "": [7, -1, 10**30], "topk": [0]}
    loaded = graphwire.from_schema(record, payloads)
    assert_same_values(_outcome(loaded, (X,), {}), _outcome(program, (X,), {}))


def _state(program: ExportedProgram) -> Snapshot:
    described: Snapshot = snapshot(program)["graph_module"]
    return described


@pytest.mark.parametrize("name", ["folded", "kept.inner", "folded_1"])
def test_constants_that_a_branch_reads_come_back_under_the_names_of_their_nodes(name: str) -> None:
    program = copy.deepcopy(made("elements"))
    branch = next(
        each
        for path, each in program.graph_module.named_modules()
        if path.startswith("true_graph") and isinstance(each, torch.fx.GraphModule)
    )
    (sin,) = branch.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    owner: Any = branch
    *path, last = name.split(".")
    for part in path:
        owner.add_module(part, nn.Module())
        owner = getattr(owner, part)
    owner.register_buffer(last, torch.ones(3, 4))
    with branch.graph.inserting_before(sin):
        readers = [branch.graph.create_node("get_attr", name, name=each) for each in ("one", "two", None)]
        for reader in readers[1:]:
            reader.meta["val"] = sin.meta["val"]
        total = functools.reduce(lambda a, b: _added(branch.graph, sin, a, b), readers)
    sin.replace_all_uses_with(total, delete_user_cb=lambda user: user is not total)
    total.replace_input_with(readers[0], sin) if total.args[0] is readers[0] else None
    branch.graph.lint()
    branch.recompile()
    assert assert_comes_back(program, (X,), {})


def _added(graph: torch.fx.Graph, like: torch.fx.Node, a: torch.fx.Node, b: torch.fx.Node) -> torch.fx.Node:
    node = graph.call_function(torch.ops.aten.add.Tensor, (a, b))
    node.meta = dict(like.meta)
    return node


def test_a_constant_that_the_program_itself_reads_is_refused_at_save() -> None:
    program = copy.deepcopy(made("elements"))
    program.graph_module.register_buffer("folded", torch.ones(3, 4))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.topk.default)
    with program.graph.inserting_before(call):
        reader = program.graph.get_attr("folded")
    reader.meta["val"] = call.args[0].meta["val"]  # type: ignore[union-attr]
    call.replace_input_with(call.args[0], reader)  # type: ignore[arg-type]
    program.graph_module.recompile()
    with pytest.raises(EncodeError, match=r"torch does not accept the program.*folded"):
        graphwire.dumps(program)


def test_a_node_that_states_nothing_is_used_as_it_was() -> None:
    program = copy.deepcopy(made("elements"))
    (mul,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.topk.default)
    for node in [mul, *mul.users]:
        node.meta["val"] = None
    returned = program.graph.output_node().all_input_nodes
    assert assert_comes_back(program, (X,), {}) is not any(user in returned for user in mul.users)


def test_an_input_that_states_nothing_is_refused_at_save() -> None:
    program = copy.deepcopy(made("elements"))
    x = program.graph.find_nodes(op="placeholder")[-1]
    del x.meta["val"]
    with pytest.raises(EncodeError, match=rf"graph\.{x.name}: an input that is used has no value"):
        graphwire.dumps(program)


def test_an_element_that_states_something_else_comes_back_so() -> None:
    program = copy.deepcopy(made("elements"))
    readers = [node for node in program.graph.nodes if node.target is operator.getitem]
    for node in readers:
        value = node.meta["val"]
        with value.fake_mode:
            node.meta["val"] = torch.empty([3, *value.shape], dtype=torch.float64)
    assert len(readers) > 4
    assert assert_comes_back(program, (X,), {})


STATEMENTS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda _: 7,
    "text": lambda _: "x",
    "a tuple": lambda value: (value,),
    "nothing in a tuple": lambda _: (),
    "a dict in a list": lambda value: [1, None, {"a": value, 2: (True, 0.5)}],
    "a type": lambda _: torch.float32,
    "a complex number": lambda _: 1j,
}
"""What a node may be told to make, whatever it makes."""


@pytest.mark.parametrize("what", STATEMENTS)
@pytest.mark.parametrize("of", one_in(3, ["elements", "a node", "a whole"]))
def test_what_nodes_state_wrongly_comes_back_or_is_refused(what: str, of: str) -> None:
    program = copy.deepcopy(made("elements-decomposed"))
    calls = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    readers = readers_of(program.graph)
    for node in {"a node": calls[:1], "elements": readers, "a whole": [readers[0].args[0]]}[of]:
        node.meta["val"] = STATEMENTS[what](node.meta["val"])
    assert_comes_back(program, (X,), {})


@pytest.mark.parametrize("whole", [(None, None), ("x", "y"), (1, True)])
def test_elements_that_are_stated_to_be_literals_are_still_used(whole: Any) -> None:
    program = copy.deepcopy(made("elements"))
    (call,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.topk.default)
    call.meta["val"] = whole
    returned = program.graph.output_node().all_input_nodes
    used = [user for user in call.users if user not in returned]
    assert used
    for reader in [each for each in call.users if each in returned]:
        with program.graph.inserting_after(reader):
            other = program.graph.call_function(torch.ops.aten.clone.default, (reader,))
        other.meta = dict(reader.meta)
        reader.replace_all_uses_with(other, delete_user_cb=lambda user, other=other: user is not other)
        specs = program.graph_signature.output_specs
        for spec in specs:
            spec.arg.name = other.name if spec.arg.name == reader.name else spec.arg.name
    program.graph_module.recompile()
    assert assert_comes_back(program, (X,), {})


def test_what_the_reader_of_a_constant_states_comes_back() -> None:
    program = copy.deepcopy(made("elements"))
    branch: Any = program.graph_module.true_graph_0
    (sin,) = branch.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    held = (
        torch.ones(3, 4),
        nn.Parameter(torch.ones(3, 4)),
        nn.Parameter(torch.ones(3, 4), requires_grad=False),
    )
    stated = [
        sin.meta["val"],
        *(program.graph.find_nodes(op="placeholder")[index].meta["val"] for index in (0, -2)),
    ]
    for (index, value), said in itertools.product(enumerate(held), stated):
        setattr(branch, f"held_{index}", value)
        with branch.graph.inserting_before(sin):
            reader = branch.graph.get_attr(f"held_{index}")
            reader.meta["val"] = said
            total = _added(branch.graph, sin, sin.args[0], reader)
        sin.args = (total,)
    branch.recompile()
    assert assert_comes_back(program, (X,), {})


def test_an_older_release_reads_nodes_that_are_called_as_it_calls_others() -> None:
    program = export(Spread(), (X,))
    first, second = program.graph.find_nodes(op="call_function", target=torch.ops.aten.std_mean.correction)
    names = first.name, second.name
    first._rename("other")
    second._rename(names[0])
    first._rename(names[1])
    program.graph_module.recompile()
    loaded = graphwire.loads(graphwire.dumps(program, target="torch-2.9"))
    assert_same_values(_outcome(loaded, (X,), {}), _outcome(program, (X,), {}))


class Spread(nn.Module):
    """The same call twice, whose results nothing uses once."""

    def forward(self, x: torch.Tensor) -> Any:
        a, b = torch.std_mean(x)
        torch.std_mean(x)
        return a, b


def _by_keyword(node: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema else "abcdefgh"
    return (), {**dict(zip(names, node.args, strict=False)), **node.kwargs}


CALLS: dict[str, Callable[[torch.fx.Node], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "by keyword": _by_keyword,
    "by keyword from the second on": lambda node: (
        node.args[:1],
        dict([*_by_keyword(node)[1].items()][1:]),
    ),
    "twice": lambda node: (node.args, _by_keyword(node)[1]),
    "by a keyword of nobody": lambda node: (node.args, {**node.kwargs, "nobodys": 1}),
    "one too many": lambda node: ((*node.args, 1), dict(node.kwargs)),
    "nothing": lambda node: ((), {}),
}


@pytest.mark.parametrize("way", CALLS)
def test_whatever_a_call_passes_comes_back_or_is_refused_at_save(way: str) -> None:
    for name in ("elements", "sizes"):
        program = copy.deepcopy(made(name))
        nodes = {node.target: node for node in program.graph.nodes if node.op == "call_function"}
        for node in nodes.values():
            before = node.args, node.kwargs
            args, kwargs = CALLS[way](node)
            node.args, node.kwargs = args, kwargs
            data, refused = b"", None
            try:
                data = graphwire.dumps(program)
            except EncodeError as error:
                refused = error
            if refused is not None:
                assert node.name in refused.place
                assert DEFECT not in str(refused)
            else:
                loaded = next(each for each in graphwire.loads(data).graph.nodes if each.name == node.name)
                assert (str(loaded.args), loaded.kwargs.keys()) == (str(node.args), node.kwargs.keys())
            node.args, node.kwargs = before


def test_an_argument_that_would_be_lost_is_named() -> None:
    program = copy.deepcopy(made("elements"))
    node = next(node for node in program.graph.nodes if node.target is torch.ops.aten.add.Tensor)
    node.args = (*node.args, 2)
    with pytest.raises(EncodeError, match="takes alpha by keyword only"):
        graphwire.dumps(program)
    node.args, node.kwargs = node.args[:2], {"other": node.args[0]}
    with pytest.raises(EncodeError, match="gets other by position and by keyword"):
        graphwire.dumps(program)


@pytest.mark.parametrize("name", ["elements", "nested"])
def test_an_input_that_was_renamed_is_the_argument_it_was(name: str) -> None:
    program = copy.deepcopy(made(name))
    for owner in program.graph_module.modules():
        for node in owner.graph.nodes if isinstance(owner, torch.fx.GraphModule) else ():
            if node.op == "placeholder" and owner is not program.graph_module:
                node._rename(f"renamed_{node.name}")
        if isinstance(owner, torch.fx.GraphModule):
            owner.recompile()
    assert assert_comes_back(program, (X,), {})


@pytest.mark.parametrize("targets", [["a", "a"], ["in valid", "b"], ["class", "b"]])
def test_arguments_that_no_code_can_have_are_refused(targets: list[str]) -> None:
    record, payloads = graphwire.to_schema(made("sizes"))
    graph = record.graph_module.graph
    for argument, target in zip(graph.inputs[-2:], targets, strict=True):
        assert argument.as_tensor is not None
        graph.value_metadata[argument.as_tensor.name] = ValueMetadata(target=target)
    with pytest.raises(ValidationError, match="value_metadata"):
        graphwire.from_schema(record, payloads)


class Builtins(nn.Module):
    """Inputs that are named like functions of Python."""

    def forward(self, input: torch.Tensor, print: None = None, *, max: torch.Tensor) -> torch.Tensor:
        input.add_(1)
        return input * 2 + max


def test_a_deep_copy_whose_inputs_got_other_names_comes_back() -> None:
    program = export(Builtins(), (torch.ones(2, 3), None), {"max": torch.ones(3)})
    program = program.run_decompositions()  # so that the signature has a changed input
    other = copy.deepcopy(program)
    assert [node.name for node in other.graph.nodes][:3] == ["input_1", "print_1", "max_1"]
    args, kwargs = (torch.ones(2, 3), None), {"max": torch.ones(3)}
    for format in FORMATS:
        loaded = graphwire.loads(graphwire.dumps(other, format=format))
        assert [node.name for node in loaded.graph.nodes] == [node.name for node in other.graph.nodes]
        loaded.validate()
        given = copy.deepcopy(args), copy.deepcopy(args)
        assert_same_values(loaded.module()(*given[0], **kwargs), Builtins()(*given[1], **kwargs))
        assert_same_values(given[0], given[1])


def test_a_signature_that_has_the_names_of_other_inputs_is_refused_at_save() -> None:
    program = copy.deepcopy(made("sizes"))
    first, second = program.graph_signature.input_specs[-2:]
    first.arg, second.arg = second.arg, first.arg
    with pytest.raises(EncodeError, match="torch does not accept the program"):
        graphwire.dumps(program)


@pytest.mark.parametrize("name", ["elements", "nested", "sizes"])
@given(st.randoms(use_true_random=False))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nodes_in_another_order_or_of_equal_names_are_refused_or_load(
    name: str, chance: random.Random
) -> None:
    program = copy.deepcopy(made(name))
    nodes = list(program.graph.nodes)
    elements = [each for each in nodes if each.target is operator.getitem]
    element = chance.choice(elements or nodes)
    if chance.random() < 0.3:
        chance.choice(nodes).name = chance.choice(nodes).name
    elif chance.random() < 0.5:
        element.prepend(chance.choice([*element.users, *nodes]))
    else:
        chance.choice([*element.users, *nodes]).append(element)
    try:
        data = graphwire.dumps(program)
    except (EncodeError, ValidationError):
        return
    graphwire.loads(data)
