"""A stranger's operators work: `contrib/graphwire-linops` is installed by pip in an environment of its own, found there by
its entry point, and loaded when a program needs it; and without it a file says what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inside.schema import ProcessNumbers
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import MissingPluginError, UnknownOperatorError

DISTRIBUTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-linops"
DOCUMENTS = DISTRIBUTION / "tests/documents"
NEWEST, OLDEST = DOCUMENTS / "opset_4.pt2", DOCUMENTS / "opset_1.pt2"

QUIET = 'import warnings; warnings.filterwarnings("ignore", message="Failed to initialize NumPy")\n'

LOAD = (
    QUIET
    + """
import sys
import torch
import graphwire

assert "graphwire_linops.operators" not in sys.modules
for path in sys.argv[1:]:
    print(len(graphwire.load(path).module()(torch.ones(2, 4))))
assert "graphwire_linops.operators" in sys.modules
"""
)

UNNEEDED = (
    QUIET
    + """
import sys
import torch
import graphwire

program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
graphwire.loads(graphwire.dumps(program))
assert "graphwire_linops.operators" not in sys.modules
"""
)


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("linops")
    done = environment.install("--no-deps", "--no-build-isolation", DISTRIBUTION)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.slow
def test_its_operators_are_loaded_when_a_program_needs_them_and_only_then(environment: Any) -> None:
    assert environment.run("-c", LOAD, OLDEST, NEWEST).split() == ["4", "4"]
    environment.run("-c", UNNEEDED)


@pytest.mark.slow
def test_its_plugin_is_listed(environment: Any) -> None:
    plugins = json.loads(environment.run("-m", "graphwire", "plugins", "--json"))
    (linops,) = [plugin for plugin in plugins if plugin["distribution"] == "graphwire-linops"]
    assert linops["hooks"] == ["graphwire_op_handlers", "graphwire_opset_upgraders"]
    assert "torch.ops.linops." in linops["names"]["op_handler"]


@pytest.mark.slow
def test_the_command_shows_the_way_of_an_old_file_and_goes_it(environment: Any, tmp_path: Path) -> None:
    path = tmp_path / "upgraded.pt2"
    plan = environment.run("-m", "graphwire", "upgrade", OLDEST, "--plan")
    assert "linops 2 -> 3: 1 node" in plan
    assert "norm_project" in plan
    environment.run("-m", "graphwire", "upgrade", OLDEST, "--output", path)
    assert environment.run("-c", LOAD, path).split() == ["4"]


@pytest.mark.slow
def test_it_is_not_loaded_where_it_is_not_allowed(environment: Any) -> None:
    done = environment.attempt("-c", LOAD, NEWEST, GRAPHWIRE_DISABLE_PLUGINS="graphwire-linops")
    assert done.returncode != 0
    assert "MissingPluginError" in done.stderr
    assert "GRAPHWIRE_DISABLE_PLUGINS" in done.stderr
    assert "pip install" not in done.stderr


@pytest.mark.slow
def test_its_own_tests_pass(environment: Any, tmp_path: Path) -> None:
    summary = environment.run_tests(DISTRIBUTION / "tests", tmp_path)
    assert "passed" in summary
    assert "failed" not in summary


# ---------------------------------------------------------------------------------------------------------- without it


def test_without_it_one_message_says_what_to_install_for_which_nodes() -> None:
    with pytest.raises(MissingPluginError) as caught:
        graphwire.load(OLDEST)
    text = str(caught.value)
    assert "comes from 'graphwire-linops>=1.1.0': check" in text
    assert "nodes[0]: the operator torch.ops.linops.project.default comes with graphwire-linops 1.1.0" in text
    for name in ("norm_project.default", "soften.default", "torch.ops.higher_order.linops_apply"):
        assert name in text
    assert {problem.kind for problem in caught.value.problems} == {"missing-plugin"}


def test_without_it_a_file_is_inspected_verified_and_converted(tmp_path: Path) -> None:
    assert graphwire.inspect(NEWEST).methods
    assert graphwire.verify(NEWEST) == []
    graphwire.convert(NEWEST, tmp_path / "converted.pt2", format="msgpack")


def traces(program: ExportedProgram) -> list[str]:
    """Return the stack traces of a program, with counters of generated code as a file has them."""
    numbers = ProcessNumbers()
    return [numbers.trace(node.meta.get("stack_trace", "")) for node in program.graph.nodes]


@pytest.mark.parametrize("path", [OLDEST, NEWEST], ids=["oldest", "newest"])
def test_without_it_the_graph_can_be_looked_at_and_saved_as_it_was(path: Path, tmp_path: Path) -> None:
    loaded = graphwire.load(path, unknown_ops="opaque")
    assert "linops" in str(loaded.graph)
    with pytest.raises(UnknownOperatorError, match="graphwire-linops>=1"):
        loaded.module()(torch.ones(2, 4))
    again = tmp_path / "again.pt2"
    graphwire.save(loaded, again)
    assert graphwire.content_hash(again, weights=True) == graphwire.content_hash(path, weights=True)
    once_more = graphwire.load(again, unknown_ops="opaque")
    assert traces(loaded) == traces(once_more)
    assert graphwire.dumps(once_more) == again.read_bytes()
