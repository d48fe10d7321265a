"""Whatever names a tampered file has: the code that torch generates from it computes what its graph says, or it is refused.

torch's interpreter, which runs the nodes and reads no code, says what a graph computes.
"""

from __future__ import annotations

import ast
import builtins
import copy
import io
import itertools
import json
import re
import warnings
from contextlib import suppress
from keyword import kwlist
from typing import Any

import pytest
import torch
from hostile import CONSTANTS, DOCUMENT, WEIGHTS, Victim, get
from hypothesis import example, given, settings, strategies as st
from inside.bridge import Condition, InputChecks, Source, guard_condition, taken_attributes
from inside.schema import check_guard
from nightly import by_day
from torch import Tensor, nn
from torch.export import Dim, export

import graphwire
from graphwire.errors import DecodeError, EncodeError, ExpressionError, GraphwireError, InputError

GRAPH = "graph_module.graph"
CALL = "graph_module.module_call_graph[0].signature"
few = settings(max_examples=by_day(25, by_night=settings().max_examples))


class Model(nn.Module):
    """Weights whose paths have numbers, a buffer that changes, a branch, and arguments that code writes with names of its own."""

    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.weight = nn.Parameter(torch.full((2,), 5.0))
        self.register_buffer("b", torch.ones(2))
        self.c = torch.tensor([1.0, 7.0])

    def forward(self, x: Tensor, y: Tensor, *, z: Tensor) -> Tensor:
        self.b.add_(1)
        most = torch.full((2,), float("inf"), device="cpu").clamp(max=3)
        taken = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))
        return self.layers[0](x) * 2 - y + most / z + self.weight * self.b + taken + self.c


INPUTS = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 9.0])
KEYWORDS = {"z": torch.tensor([0.5, 4.0])}


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    PROGRAM = export(Model(), INPUTS, KEYWORDS)
    GOOD = Victim.of(graphwire.dumps(PROGRAM))
    MODULE = PROGRAM.module()
    CODE = MODULE.code
NAMES = sorted(
    {*re.findall(r"[A-Za-z_]\w*", CODE), "inf", "nan", "device", "_in_spec"} | {"math", "x_1", "b_1"}
)
"""What a name can clash with: all words of generated code, beside the names of Python."""

names = st.sampled_from(NAMES) | st.sampled_from(dir(builtins))
values = st.sampled_from(["p_layers_0_weight", "p_weight", "b_b", "x", "y", "z"])


def _interpreted(program: torch.export.ExportedProgram) -> Tensor:
    held = {**program.state_dict, **program.constants}
    given = iter(copy.deepcopy((*INPUTS, *KEYWORDS.values())))
    arguments = [
        held[spec.target].clone() if spec.target in held else next(given)
        for spec in program.graph_signature.input_specs
    ]
    result: Tensor = torch.fx.Interpreter(program.graph_module).run(*arguments)[-1]
    return result


@pytest.mark.filterwarnings("ignore")
@example({"x": "weight"}, None, {})
@example({"x": "layers_0_weight"}, None, {})
@example({"x": "getattr"}, None, {})
@example({}, ["getattr", "y", "z"], {})
@example({}, ["fx_pytree", "y", "z"], {})
@example({}, ["pytree", "y", "z"], {})
@example({"x": "add"}, None, {"add": ""})
@few
@given(
    st.dictionaries(values, names, max_size=3),
    st.none() | st.lists(names, min_size=3, max_size=3).map(lambda given: [*given[:2], "z"]),
    st.dictionaries(values | names, st.just("") | values | names, max_size=2),
)
def test_names_change_nothing(
    targets: dict[str, str], arguments: list[str] | None, placed: dict[str, str]
) -> None:
    def change(tree: Any) -> None:
        graph = get(tree, GRAPH)
        graph["value_metadata"] = {**graph.get("value_metadata", {})}
        for name, target in targets.items():
            graph["value_metadata"][name] = {**graph["value_metadata"].get(name, {}), "target": target}
        if arguments is not None:
            get(tree, CALL)["forward_arg_names"] = arguments
        graph["placed"] = placed

    _loads_what_it_shows(GOOD.with_document(change))


_NAME = re.compile(r'"([A-Za-z_][\w.]*)"')
NAMED = ("name", "as_name", "node", "fqn", "target", "parameter_name", "buffer_name", "tensor_constant_name")
"""The fields of the document whose texts are names."""


def _named(tree: Any) -> set[str]:
    if isinstance(tree, list):
        return set().union(*map(_named, tree))
    if not isinstance(tree, dict):
        return set()
    own = {value for key, value in tree.items() if key in NAMED and isinstance(value, str)}
    return own.union(*map(_named, tree.values())) - {""}


every = st.sampled_from(sorted(_named(GOOD.document)))


@pytest.mark.filterwarnings("ignore")
@few
@given(every, every | names, st.booleans(), st.sets(st.integers(0, 9), max_size=3))
def test_names_that_are_swapped_anywhere_change_nothing(
    one: str, other: str, swaps: bool, places: set[int]
) -> None:
    """Everywhere in the file, or at some places of the document alone."""
    put = {one: other, other: one} if swaps else {one: other}

    def changed(record: str) -> bytes:
        at = itertools.count()

        def renamed(found: re.Match[str]) -> str:
            is_meant = found[1] in put and (not places or next(at) in places)
            return f'"{put[found[1]]}"' if is_meant else found[0]

        return _NAME.sub(renamed, GOOD.records[record].decode()).encode()

    _loads_what_it_shows(GOOD.with_records({each: changed(each) for each in (DOCUMENT, WEIGHTS, CONSTANTS)}))


def _loads_what_it_shows(data: bytes) -> None:
    given = copy.deepcopy((INPUTS, KEYWORDS))
    with suppress(GraphwireError):
        program = graphwire.loads(data)
        try:
            expected = _interpreted(program)
        except (RuntimeError, TypeError):  # a valid program whose operators refuse what they are given
            return
        assert torch.equal(program.module()(*given[0], **given[1]), expected)
    with suppress(GraphwireError):
        module = graphwire.load_module(io.BytesIO(data))
        module.graph.set_codegen(torch.fx.graph.CodeGen())
        inputs = copy.deepcopy((*INPUTS, *KEYWORDS.values()))
        expected = torch.fx.Interpreter(copy.deepcopy(module)).run(*inputs)[-1]
        given = copy.deepcopy((INPUTS, KEYWORDS))
        assert torch.equal(graphwire.load_module(io.BytesIO(data))(*given[0], **given[1]), expected)


# ---------------------------------------------------------------------------------------- what the module of a program holds

attributes = st.sampled_from(
    sorted({*dir(MODULE), *NAMES, "weight.b", "c.c", "layers", "true_graph_0.c", "layers.0"} - {*kwlist})
)
"""Without keywords, by which torch cannot read an attribute: `module()` raises its `SyntaxError`."""


def _widened(name: str, at: int) -> str:
    """The name with a letter that Python's code reads as the plain one."""
    at %= len(name)
    return f"{name[:at]}{chr(ord(name[at]) + 0xFEE0)}{name[at + 1 :]}" if name[at].isalpha() else name


@pytest.mark.filterwarnings("ignore")
@example("weight", "_in_spec")
@example("true_graph_0", "validate_inputs")
@example("c", "b")
@example("c", "_out_spec")
@example("b", "_guards_fn")
@example("weight", "true_graph_0.weight")
@example("weight", "ｔraining")
@example("weight", "ｃ.T")
@example("weight", "layers.ｔraining")
@example("b", "ｂ")
@example("b", "___needs_generation_tag_patch")
@given(
    st.sampled_from(["weight", "b", "c", "true_graph_0"]),
    attributes | st.builds(_widened, attributes, st.integers(0, 20)),
)
def test_attributes_replace_nothing(old: str, new: str) -> None:
    def renamed(record: str) -> bytes:
        return GOOD.records[record].replace(f'"{old}"'.encode(), f'"{new}"'.encode())

    # Two weights of one name are a damaged config. Of a wide letter, torch's code reads the plain one, which nothing has.
    with suppress(GraphwireError, *(() if new.isascii() else (AttributeError,))):
        _loads_what_it_shows(
            GOOD.with_records({each: renamed(each) for each in (DOCUMENT, WEIGHTS, CONSTANTS)})
        )


@pytest.mark.parametrize("name", ["a\n", "a\nb", "\r", "a\0"])
def test_paths_that_end_a_text_of_python_are_refused(name: str) -> None:
    with pytest.raises(EncodeError, match="Python's compiler rejects"):
        graphwire.dumps(export(TwoBuffers("bias", name), INPUTS[:1]))
    good = Victim.of(graphwire.dumps(export(TwoBuffers("bias", "second"), INPUTS[:1])))
    written = json.dumps(name).encode()
    renamed = {each: good.records[each].replace(b'"second"', written) for each in (DOCUMENT, WEIGHTS)}
    for load in (graphwire.loads, graphwire.load_module):
        with pytest.raises(DecodeError, match="Python's compiler rejects"):
            load(good.with_records(renamed))


@pytest.mark.parametrize("path", ["ｂｉａｓ", "ﬁ", "lambda.𝐛"])
def test_paths_that_python_reads_as_another_run(path: str) -> None:
    """torch's own module fails: its code reads the plain letters."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            *above, name = path.split(".")
            home = nn.Module() if above else self
            if above:
                self.add_module(*above, home)
            home.register_buffer(name, torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.get_buffer(path)

    module = graphwire.load_module(graphwire.dumps(export(Plain(), INPUTS[:1])))
    for _ in range(2):  # the second call runs generated code
        assert torch.equal(module(*INPUTS[:1]), INPUTS[0] + 1)


@pytest.mark.parametrize(
    "name", ["_in_spec", "_out_spec", "_guards_fn", "validate_inputs", "meta", "code", "self"]
)
def test_attributes_that_torch_takes_are_refused_by_a_save(name: str) -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer(name, torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.get_buffer(name)

    with pytest.raises(EncodeError, match=f"'{name}' cannot be the path of a buffer"):
        graphwire.dumps(export(Plain(), INPUTS[:1]))


class TwoBuffers(nn.Module):
    """Computes with two buffers, whose paths Python's code may take for one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__()
        self.paths = one, other
        self.register_buffer(one, torch.ones(2))
        self.register_buffer(other, torch.full((2,), 10.0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.get_buffer(self.paths[0]) + self.get_buffer(self.paths[1])


@pytest.mark.parametrize("other", ["ｂｉａｓ", "𝐛ias", "biaſ"])
def test_paths_that_python_reads_as_one_are_refused(other: str) -> None:
    with pytest.raises(EncodeError, match="Python's code reads 'bias' by it"):
        graphwire.dumps(export(TwoBuffers("bias", other), INPUTS[:1]))
    good = Victim.of(graphwire.dumps(export(TwoBuffers("bias", "second"), INPUTS[:1])))
    renamed = {
        each: good.records[each].replace(b'"second"', f'"{other}"'.encode()) for each in (DOCUMENT, WEIGHTS)
    }
    for load in (graphwire.loads, graphwire.load_module):
        with pytest.raises(GraphwireError, match="Python's code reads 'bias' by it"):
            load(good.with_records(renamed))


class Held(nn.Module):
    """Weights and constants of each kind that a module holds."""

    u: Tensor
    t: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.register_buffer("u", torch.full((2,), 2.0))
        self.register_buffer("t", torch.full((2,), 3.0), persistent=False)
        self.k = torch.full((2,), 4.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.w * self.u + self.t * self.k


@pytest.mark.filterwarnings("ignore:A model attribute")
@pytest.mark.parametrize("config", [WEIGHTS, CONSTANTS])
@pytest.mark.parametrize("name", [*"wutk"])
@pytest.mark.parametrize("change", [{"is_param": True}, {"is_param": False}, {"requires_grad": True}])
def test_what_a_loaded_program_holds_is_what_its_module_takes(
    config: str, name: str, change: dict[str, bool]
) -> None:
    good = Victim.of(graphwire.dumps(export(Held(), INPUTS[:1])))
    tree = json.loads(good.records[config])
    if (entry := tree["config"].get(name)) is None:
        return
    (entry if "is_param" in change else entry["tensor_meta"]).update(change)
    data = good.with_records({config: json.dumps(tree).encode()})
    results = []
    for load in (lambda: graphwire.loads(data).module(), lambda: graphwire.load_module(data)):
        with suppress(GraphwireError):
            results.append(load()(*INPUTS[:1]))
    assert len(results) in (0, 2)
    assert all(torch.equal(each, Held()(*INPUTS[:1])) for each in results)


@pytest.mark.filterwarnings("ignore:A model attribute")
@pytest.mark.parametrize("name", [*"wutk"])
@pytest.mark.parametrize("flips", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_a_weight_is_held_as_its_input_says_wherever_a_file_has_it(
    name: str, flips: bool, moves: bool
) -> None:
    good = Victim.of(graphwire.dumps(export(Held(), INPUTS[:1])))
    tree, records = good.document, dict[str, bytes]()
    configs = {each: json.loads(good.records[each]) for each in (WEIGHTS, CONSTANTS)}
    own, other = sorted(configs.values(), key=lambda config: name not in config["config"])
    if moves:
        entry = other["config"][name] = own["config"].pop(name)
        folders = ["data/weights/", "data/constants/"]
        moved = {each + entry["path_name"]: good.records.get(each + entry["path_name"]) for each in folders}
        records = dict.fromkeys(moved, next(filter(None, moved.values())))
    for spec in get(tree, "graph_module.signature.input_specs"):
        if flips and (buffer := spec.get("buffer", {})).get("buffer_name") == name:
            buffer["persistent"] ^= True
    records |= {each: json.dumps(config).encode() for each, config in configs.items()}
    data = good.with_records({**records, DOCUMENT: json.dumps(tree).encode()})
    modules = []
    for load in (lambda: graphwire.loads(data).module(), lambda: graphwire.load_module(data)):
        with suppress(GraphwireError):
            modules.append(load())
    assert len(modules) == 2
    assert len({tuple(each.state_dict()) for each in modules}) < 2
    assert all(torch.equal(each(*INPUTS[:1]), Held()(*INPUTS[:1])) for each in modules)


def test_a_constant_that_is_a_parameter_is_refused_by_a_save() -> None:
    program = export(Held(), INPUTS[:1])
    program.constants["k"] = nn.Parameter(program.constants["k"])
    with pytest.raises(EncodeError, match="'k' is a parameter") as refused:
        graphwire.dumps(program)
    assert "Detach it" in str(refused.value.remedy)
    program.constants["k"] = program.constants["k"].detach()
    graphwire.dumps(program)


def test_all_attributes_that_torch_takes_are_known() -> None:
    own = {"layers", "weight", "b", "c", "true_graph_0", "false_graph_0"}
    # torch's compiler adds an attribute to classes of modules when it is first used.
    assert set(dir(MODULE)) - own - set(dir(torch.fx.GraphModule)) <= taken_attributes()


# ------------------------------------------------------------------------------------------------------- honest models


@pytest.mark.parametrize("name", ["inf", "device", "getattr"])
def test_torchs_own_clashes_are_refused_by_a_save(name: str) -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2)])

        def forward(self, x: Tensor, inf: Tensor) -> Tensor:
            return self.layers[0](x) + inf + torch.full((2,), float("inf"), device="cpu").clamp(max=3)

    program = export(Plain(), INPUTS)
    (call,) = [each for each in program.module_call_graph if not each.fqn]
    call.signature.forward_arg_names[1] = name
    for node in program.graph.find_nodes(op="placeholder"):
        if node.target == "inf":
            node.target = node.name = "other"
    with pytest.raises((EncodeError, DecodeError), match=f"the name '{name}' of an argument hides"):
        graphwire.dumps(program)


# ------------------------------------------------------------------------------------------------- checks of the inputs

_HOSTILE_KEYS = ["torch.os.abort()", "Tensor", "v1", "isinstance(v0, Tensor)", "_source_0_", "{0.code}", "}{"]
_RUNS = "torch.sys.exit(3)"


@example(*_HOSTILE_KEYS[:2])
@example("{1}", "_source_1_")
@example("_source_1_", "+().__class__+")
@given(*[st.sampled_from([*_HOSTILE_KEYS, "_source_1_", "v0"]) | st.text(max_size=12)] * 2)
def test_keys_of_guards_stay_texts(first: str, second: str) -> None:
    guard = f"L['x']['{first}'] % 2 <= L['y']['{second}'].size()[0]"
    with suppress(ExpressionError):
        check_guard(guard)
        condition = guard_condition(guard, {("x",): 0, ("y",): 1})
        assert condition is not None
        read = list(ast.walk(ast.parse(condition.code)))
        assert {each.id for each in read if isinstance(each, ast.Name)} == {"v0", "v1"}
        assert [each.attr for each in read if isinstance(each, ast.Attribute)] == ["size"]
        assert {each.value for each in read if isinstance(each, ast.Constant)} == {2, 0, first, second}
        assert all(text in condition.message(["x", "y"], [3, 4]) for text in (repr(first), repr(second)))


@pytest.mark.parametrize("key", ["it's", 'say "x"', "a\nb", "a\\b"])
def test_a_save_names_keys_that_guards_cannot_quote(key: str) -> None:
    """torch pastes guards into a text in quotes."""

    class Product(nn.Module):
        def forward(self, parts: dict[str, Tensor]) -> Tensor:
            return parts[key] @ parts["w"]

    parts = {key: torch.ones(3, 5), "w": torch.ones(5, 4)}
    shapes = ({each: {0: Dim.AUTO, 1: Dim.AUTO} for each in parts},)
    with pytest.raises(EncodeError, match="no reader accepts these guards") as refused:
        graphwire.dumps(export(Product(), (parts,), dynamic_shapes=shapes))
    assert "Rename the keys" in str(refused.value.remedy)


@pytest.mark.parametrize(
    "code",
    ["v0.numpy()", "().__class__", "(lambda: 1)()", "__import__('os')", "print(v0)"],
)
def test_code_that_reads_more_than_its_sources_is_refused(code: str) -> None:
    with pytest.raises(DecodeError, match="a condition of the inputs uses"):
        InputChecks(["x"], {}, [Condition(code, Source(0, (("item", "numpy"),)), "")])


def test_keys_of_guards_do_not_run() -> None:
    record, payloads = graphwire.to_schema(PROGRAM)
    record.guards_code = [f"L['x']['{_RUNS}'] == 1"]
    module = graphwire.load_module(graphwire.dumps(graphwire.from_schema(record, payloads)))
    with pytest.raises(InputError, match="is not there, must be 1"):
        module(*INPUTS, **KEYWORDS)


@pytest.mark.parametrize("depth", [100, 189, 190, 191, 199])
@pytest.mark.parametrize("head", ["abs(", "1 + (", "max(1, ", "("])
def test_guards_of_any_depth_run_or_are_refused(head: str, depth: int) -> None:
    def change(tree: Any) -> None:
        tree["guards_code"] = [f"{head * depth}L['x'].size()[0]{')' * depth} > 0"]

    for load in (lambda data: graphwire.loads(data).module(), graphwire.load_module):
        with suppress(*(() if depth == 100 else (GraphwireError,))):
            load(GOOD.with_document(change))(*INPUTS, **KEYWORDS)


@pytest.mark.parametrize("name", ["lambda", "None", "class", "match"])
def test_paths_with_keywords_run(name: str) -> None:
    """torch's own module fails: it writes `self.lambda`, which Python's compiler rejects."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module(name, nn.ModuleDict({name: nn.Linear(2, 2)}))

        def forward(self, x: Tensor) -> Tensor:
            linear: Tensor = self.get_submodule(f"{name}.{name}")(x)
            return linear

    model = Plain()
    data = graphwire.dumps(export(model, INPUTS[:1]))
    assert graphwire.load(io.BytesIO(data)).state_dict.keys() == model.state_dict().keys()
    assert torch.equal(graphwire.load_module(io.BytesIO(data))(*INPUTS[:1]), model(*INPUTS[:1]))
