"""What a new release of torch changes is found, and is told with the place that has to know of it."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


watch = _script("watch")


@pytest.fixture(scope="module")
def facts() -> Any:
    return watch.facts_of(sys.executable, watch.private_uses())


def told(before: Any, after: Any) -> dict[str, list[Any]]:
    return {section.heading: section.changes for section in watch.compared(before, after) if section.changes}


@pytest.mark.slow
def test_nothing_changes_between_a_release_and_itself(facts: Any) -> None:
    assert told(facts, copy.deepcopy(facts)) == {}


@pytest.mark.slow
def test_all_that_the_bridge_uses_is_there(facts: Any) -> None:
    assert len(facts["names"]) > 40
    assert [name for name, kind in facts["names"].items() if kind is None] == []
    assert facts["attributes"]["_graph_module"] == ["ExportedProgram"]


@pytest.mark.slow
def test_a_release_that_cannot_be_installed_leaves_no_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SystemExit, match="pass the path of an interpreter"):
        watch.interpreter_of("99.0.0", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_is_new_and_what_is_gone_is_told(facts: Any) -> None:
    newer = copy.deepcopy(facts)
    newer["schema"]["Node"]["color"] = "str | None (optional)"
    newer["schema"]["Palette"] = {"colors": "list[str]"}
    newer["operators"]["torch.ops.aten.paint.default"] = "(Tensor self) -> Tensor"
    newer["operators"]["torch.ops.aten.paint.out"] = "(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    del newer["operators"]["torch.ops.aten.relu.default"]
    newer["operators"]["torch.ops.aten.gelu.default"] += " again"
    newer["higher_order"].append("repaint")
    newer["functions"].remove("_operator.add")
    newer["names"]["torch._C._get_schema"] = None
    newer["attributes"]["_graph_module"] = []
    found = {heading: [change.text for change in changes] for heading, changes in told(facts, newer).items()}
    assert found["Records of the schema"] == [
        "Node.color: not there → str | None (optional)",
        "Palette is new: colors",
    ]
    assert found["New operators"] == [
        "torch.ops.aten.paint.default(Tensor self) -> Tensor",
        "torch.ops.higher_order.repaint",
    ]
    gone = [text.partition("(")[0] for text in found["Operators that are gone"]]
    assert gone == ["_operator.add", "torch.ops.aten.relu.default"]
    (called,) = found["Operators that are called in another way"]
    assert called.startswith("torch.ops.aten.gelu.default(")
    assert called.endswith(" again")
    private = found["Private functions that the bridge uses"]
    assert private[0].endswith("→ not there")
    assert private[0].startswith("torch._C._get_schema")
    assert private[1] == "_graph_module: not there any more on ExportedProgram"


@pytest.mark.slow
def test_what_our_tables_have_is_known(facts: Any) -> None:
    older = copy.deepcopy(facts)
    older["torch"], older["schema_version"] = "2.11.0", [8, 17]
    del older["operators"]["torch.ops.aten._foreach_clone.default"]
    del older["schema"]["Node"]["name"]
    found = told(older, facts)
    assert [change.is_known for changes in found.values() for change in changes] == [True, True, True]
    assert set(found) == {"Version of the schema", "Records of the schema", "New operators"}
