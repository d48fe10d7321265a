"""Without `contrib/graphwire-linops`, a file that needs its operators says what is missing, and can be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from inside.schema import ProcessNumbers
from torch.export import ExportedProgram

import graphwire
from graphwire.errors import MissingPluginError, UnknownOperatorError

DISTRIBUTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-linops"
DOCUMENTS = DISTRIBUTION / "tests/documents"
NEWEST, OLDEST = DOCUMENTS / "opset_4.pt2", DOCUMENTS / "opset_1.pt2"


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
