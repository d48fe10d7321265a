"""A file records which distribution serves its container types, and says so where it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from given_plugins import Plugin
from inside.registry import LoadedPlugin, find_plugins, load_plugin
from nightly import one_in
from torch.utils import _pytree as pytree

import graphwire
from graphwire.errors import (
    DecodeError,
    MissingFormatError,
    MissingPluginError,
    ValidationError,
)
from graphwire.hooks import PluginInfo, Registry, Tree, TreeSpec
from graphwire.schema import PluginRequirement
from graphwire_plugins.json_format import JsonFormat
from graphwire_plugins.ops import LibraryOverloads
from graphwire_plugins.safetensors import SafetensorsStore


@dataclass
class Row:
    cells: list[Any]


pytree.register_pytree_node(
    Row,
    lambda row: (row.cells, len(row.cells)),
    lambda cells, _: Row(list(cells)),
    flatten_with_keys_fn=lambda row: (
        [(pytree.SequenceKey(i), cell) for i, cell in enumerate(row.cells)],
        len(row.cells),
    ),
)


class Rows:
    """Version 1 said nothing, and version 2 says the length."""

    name = "tests.Row"
    version = 2

    def container(self) -> type:
        return Row

    def dump_context(self, context: Any) -> tuple[int, Tree]:
        return 2, context

    def load_context(self, tree: Tree, version: int) -> Any:
        if version == 1 and tree is None:
            return None
        if version == 2 and type(tree) is int:
            return tree
        raise DecodeError(f"no context of a Row: {tree!r:.80}")

    def fit_context(self, context: Any, children: list[TreeSpec]) -> Any:
        return len(children) if context is None else context

    def arity(self, container: type, context: Any) -> int | None:
        return context


class Model(torch.nn.Module):
    def forward(self, row: Row) -> Row:
        return Row([cell + 1 for cell in row.cells])


INSTALLED = find_plugins(frozenset({"graphwire"}))


def loaded(info: PluginInfo, **provided: list[Any]) -> LoadedPlugin:
    return load_plugin(info, lambda: Plugin(**provided))


REGISTRY = Registry([*INSTALLED, loaded(PluginInfo("rows", "gw-rows", "1.5"), treespec_serializers=[Rows()])])


@pytest.fixture(scope="module")
def program() -> Any:
    return torch.export.export(Model(), (Row([torch.ones(2), torch.zeros(3)]),))


def test_a_file_records_who_serves_its_containers(program: Any) -> None:
    with graphwire.open(graphwire.dumps(program, registry=REGISTRY), registry=REGISTRY) as archive:
        (requirement,) = archive.program.plugins
    assert (requirement.distribution, requirement.version) == ("gw-rows", "1.5")
    assert requirement.provides == ["treespec_serializer:tests.Row"]


class Doubles(LibraryOverloads):
    """Handles the operators of one library."""

    namespace = "gw_doubles"
    prefixes = keeps = ("torch.ops.gw_doubles.",)
    opset_version = 2


@torch.library.custom_op("gw_doubles::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_fake(torch.empty_like)


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.gw_doubles.double(x)


def test_each_save_records_who_handles_an_operator_whatever_was_saved_before() -> None:
    program = torch.export.export(Doubled(), (torch.ones(2),))
    handled = loaded(PluginInfo("doubles", "gw-doubles", "1.5"), op_handlers=[Doubles()])
    for registry, provides in [(Registry(INSTALLED), []), (Registry([*INSTALLED, handled]), ["gw-doubles"])]:
        for _ in range(2):
            record, _ = graphwire.to_schema(program, registry=registry)
            assert [each.distribution for each in record.plugins] == provides
            assert ("gw_doubles" in record.opset_version) is bool(provides)


def test_without_the_plugin_one_message_says_what_to_install_and_where_it_is_needed(program: Any) -> None:
    data = graphwire.dumps(program, registry=REGISTRY)
    with pytest.raises(MissingPluginError) as caught:
        graphwire.loads(data, registry=Registry(INSTALLED))
    text = str(caught.value)
    assert "comes from 'gw-rows>=1.5': check" in text
    assert "the container type tests.Row comes with gw-rows 1.5" in text
    assert "module_call_graph[0].signature.in_spec" in text


@pytest.mark.parametrize(
    ("distribution", "version"),
    [("x'; rm -rf ~; '", "1"), ("x", "1' --index-url='http://evil"), ("", "1"), ("-r", "1"), ("x y", "1")],
)
def test_a_name_that_would_be_more_in_a_command_line_is_refused(
    program: Any, distribution: str, version: str
) -> None:
    record, payloads = graphwire.to_schema(program, registry=REGISTRY)
    record.plugins = [PluginRequirement(distribution, version, ["treespec_serializer:tests.Row"])]
    with pytest.raises(ValidationError, match="is not a valid distribution"):
        graphwire.from_schema(record, payloads, registry=Registry(INSTALLED))


def test_a_context_of_an_older_version_is_made_to_fit_the_structure(program: Any) -> None:
    record, payloads = graphwire.to_schema(program, registry=REGISTRY)
    for call in record.graph_module.module_call_graph:
        if call.signature is not None:
            for field in ("in_spec", "out_spec"):
                text = getattr(call.signature, field)
                setattr(
                    call.signature,
                    field,
                    text.replace('"tests.Row@2", "context": 2', '"tests.Row", "context": null'),
                )
    assert '"tests.Row", "context": null' in record.graph_module.module_call_graph[0].signature.in_spec
    loaded = graphwire.from_schema(record, payloads, registry=REGISTRY)
    result = loaded.module()(Row([torch.ones(2), torch.zeros(3)]))
    assert [cell.tolist() for cell in result.cells] == [[2.0, 2.0], [1.0, 1.0, 1.0]]


def test_containers_of_plugins_are_imported_only_when_a_program_has_them() -> None:
    asked = []

    class Heavy(Rows):
        name = "tests.Heavy"

        def container(self) -> type:
            asked.append(self.name)
            return Row

    heavy = loaded(PluginInfo("heavy", "gw-heavy", "1"), treespec_serializers=[Heavy()])
    registry = Registry([*INSTALLED, heavy])
    plain = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    graphwire.loads(graphwire.dumps(plain, registry=registry), registry=registry)
    assert asked == []
    assert registry.container_types.named("tests.Heavy") is not None
    assert asked == ["tests.Heavy"]


# ----------------------------------------------------------------------------------------------- all that is missing


class _Handler:
    namespace, prefixes, opset_version, convention = "gw_lacking", ("torch.ops.gw_lacking.",), 1, "schema"

    def name_of(self, target: Any) -> str | None:
        return "torch.ops.gw_lacking.f.default" if target is torch.ops.gw_lacking.f.default else None

    def resolve(self, name: str) -> Any:
        return torch.ops.gw_lacking.f.default if name == "torch.ops.gw_lacking.f.default" else None


class _Codec:
    name = "lacking"

    def owns(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_sparse

    def encode(self, value: Any) -> Any:
        return {}, [value.to_dense()]

    def decode(self, tree: Tree, tensors: Any) -> Any:
        return tensors[0].to_sparse()


class _Store(SafetensorsStore):
    name = "lacking"

    def find(self, folder: Any, location: str) -> str | None:
        return location if location.endswith(".lacking") else None


class _Format(JsonFormat):
    name, suffix, media_type = "lacking", ".lacking", "application/x"

    def matches(self, head: bytes) -> bool:
        return False


PROVIDERS = {
    "wire_formats": _Format(),
    "op_handlers": _Handler(),
    "treespec_serializers": Rows(),
    "constant_codecs": _Codec(),
    "weight_stores": _Store(),
}


@torch.library.custom_op("gw_lacking::f", mutates_args=())
def _f(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@_f.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Lacking(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, row: Row) -> Row:
        return Row([_f(cell) * self.weight for cell in row.cells])


def with_plugins(*hooks: str) -> Registry:
    plugins = [
        loaded(PluginInfo(hook, distribution(hook), "1.5"), **{hook: [PROVIDERS[hook]]}) for hook in hooks
    ]
    return Registry([*INSTALLED, *plugins])


@pytest.fixture(scope="module")
def lacking_program() -> Any:
    program = torch.export.export(Lacking(), (Row([torch.ones(2)]),))
    program.constants["sparse"] = torch.ones(2, 2).to_sparse()
    return program


def distribution(hook: str) -> str:
    return f"gw-{hook.partition('_')[0]}"


def loads_from_url(file: Path, registry: Registry) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for each in file.parent.iterdir():
        memory.pipe(f"/lacking/{each.name}", each.read_bytes())
    graphwire.load("memory://lacking/a.pt2", registry=registry)


FILE_LOADS: dict[str, Any] = {
    "load": lambda file, registry: graphwire.load(file, registry=registry),
    "load_module": lambda file, registry: graphwire.load_module(file, registry=registry),
    "verify=True": lambda file, registry: graphwire.load(file, registry=registry, verify=True),
    "remote": loads_from_url,
}


@pytest.mark.parametrize("there", [(), *((hook,) for hook in PROVIDERS)], ids=["none", *PROVIDERS])
def test_one_message_lists_every_plugin_of_a_file_that_is_missing(
    there: tuple[str, ...], lacking_program: Any, tmp_path: Path
) -> None:
    file, everything = tmp_path / "a.pt2", with_plugins(*PROVIDERS)
    format = "lacking" if "wire_formats" not in there else "json"
    weights = str(tmp_path / "w.lacking")
    graphwire.save(lacking_program, file, format=format, weights=weights, registry=everything)
    assert graphwire.load(file, registry=everything) is not None
    some = with_plugins(*there)
    lacking = {distribution(hook) for hook in PROVIDERS if hook not in there}
    for name, act in FILE_LOADS.items():
        with pytest.raises(MissingPluginError) as caught:
            act(file, some)
        told = str(caught.value)
        assert f"needs {len(lacking)} plugin" in told, name
        assert len(caught.value.problems) == len(lacking), name
        for each in map(distribution, PROVIDERS):
            assert (f"{each}>=1.5" in told) is (each in lacking), (name, told)
    if format == "json":
        listed = graphwire.inspect(file, registry=Registry(INSTALLED)).methods[0].summary.plugins
        assert {each.distribution for each in listed} == set(map(distribution, PROVIDERS)) - {"gw-wire"}
        return
    with pytest.raises(MissingFormatError, match=f"needs {len(lacking)} plugin"):
        graphwire.inspect(file, registry=some)
    told = [each.message for each in graphwire.verify(file, registry=some)]
    assert [sum(f"comes with {each} " in text for text in told) for each in lacking] == [1] * len(lacking), (
        told
    )


OTHER_ACTS: dict[str, Any] = {
    "inspect": lambda file, registry: graphwire.inspect(file, registry=registry),
    "hash": lambda file, registry: graphwire.content_hash(file, registry=registry),
    "weights": lambda file, registry: graphwire.weights(file, registry=registry),
    "plan": lambda file, registry: graphwire.plan_upgrade(file, registry=registry),
    "opaque": lambda file, registry: graphwire.load(file, unknown_ops="opaque", registry=registry),
    "upgrade": lambda file, registry: graphwire.upgrade(file, file.with_name("b.pt2"), registry=registry),
    "convert": lambda file, registry: graphwire.convert(
        file, file.with_name("b.pt2"), format="cbor", registry=registry
    ),
    "weights into the file": lambda file, registry: graphwire.convert(
        file, file.with_name("b.pt2"), weights=graphwire.IN_FILE, registry=registry
    ),
    "weights elsewhere": lambda file, registry: graphwire.convert(
        file, file.with_name("b.pt2"), weights=str(file.with_name("o.safetensors")), registry=registry
    ),
    "other weights": lambda file, registry: graphwire.load(
        file, weights=str(file.with_name("w.lacking.safetensors")), registry=registry
    ),
}
SUBSETS = [hooks for count in range(len(PROVIDERS)) for hooks in combinations(PROVIDERS, count)]


@pytest.mark.parametrize("there", one_in(16, SUBSETS), ids="-".join)
def test_what_the_message_lists_is_all_that_has_to_be_installed(
    there: tuple[str, ...], lacking_program: Any, tmp_path: Path
) -> None:
    file, everything = tmp_path / "a.pt2", with_plugins(*PROVIDERS)
    format = "json" if len(there) % 2 else "lacking"
    weights = str(tmp_path / "w.lacking")
    graphwire.save(lacking_program, file, format=format, weights=weights, registry=everything)
    for name, act in (FILE_LOADS | OTHER_ACTS).items():
        try:
            act(file, with_plugins(*there))
        except MissingPluginError as error:
            listed = {hook for hook in PROVIDERS if f"{distribution(hook)}>=1.5" in str(error)}
            assert not listed & {*there}, name
            act(file, with_plugins(*there, *listed))


def test_a_comparison_lists_every_plugin_that_either_file_needs(lacking_program: Any, tmp_path: Path) -> None:
    everything, registry = with_plugins(*PROVIDERS), Registry(INSTALLED)
    files = [tmp_path / "a.pt2", tmp_path / "b.pt2"]
    graphwire.save(
        torch.export.export(torch.nn.ReLU(), (torch.ones(2),)),
        files[0],
        format="lacking",
        registry=everything,
    )
    graphwire.save(lacking_program, files[1], format="lacking", registry=everything)
    for a, b in (files, files[::-1]):
        with pytest.raises(MissingPluginError, match="each of the two files needs plugins") as caught:
            graphwire.diff(a, b, registry=registry)
        told = str(caught.value)
        assert all(f"{each}>=1.5" in told for each in map(distribution, PROVIDERS) if each != "gw-weight"), (
            told
        )
        assert all(str(file) in told for file in files)


def test_weights_that_the_caller_gives_hide_no_other_plugin(lacking_program: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.pt2"
    graphwire.save(
        lacking_program, file, weights=str(tmp_path / "w.lacking"), registry=with_plugins(*PROVIDERS)
    )
    with pytest.raises(MissingPluginError, match="needs 3 plugins"):
        graphwire.load(file, weights=str(tmp_path / "w.lacking"), registry=Registry(INSTALLED))
