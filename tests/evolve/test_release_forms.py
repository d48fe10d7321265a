"""Operators that changed between releases of one schema version get the form of the torch, or of the target, that reads them."""

from __future__ import annotations

import io
import lzma
from pathlib import Path

import pytest
import torch
from inside.bridge import parameters_of
from inside.evolve import (
    RELEASE_CHANGES as CHANGES,
    forms_of_parameters,
    forms_of_release,
    walk_nodes,
    with_forms,
)

import graphwire
from graphwire import LoadReport
from graphwire.testing import assert_same_values

DOCUMENTS = Path(__file__).parent / "documents"
"""Files of the releases' own `torch.export.save`, of one program that calls every operator of `CHANGES` that they have."""
FILES = {
    name: lzma.decompress((DOCUMENTS / f"{name}.pt2.xz").read_bytes())
    for name in ("torch_2_13", "torch_2_15")
}
MATRIX = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
POINTS = torch.arange(12.0).reshape(4, 3).sin()
HERE = "torch-" + ".".join(torch.__version__.split(".")[:2])


def computed(program: torch.export.ExportedProgram) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = program.module()(MATRIX, POINTS, torch.ones(6))
    return found


def expected(name: str) -> tuple[torch.Tensor, ...]:
    points = POINTS.clone().requires_grad_()
    (of_pairs,) = torch.autograd.grad(torch.pdist(points).sum(), points)
    between = torch.cdist(points, MATRIX)
    (of_both,) = torch.autograd.grad(between, points, between.detach())
    if name == "torch_2_15":
        return of_pairs, of_both
    return (
        of_pairs,
        of_both,
        torch.linalg.cholesky(MATRIX),
        torch.linalg.cholesky(MATRIX, upper=True),
        *torch.linalg.qr(POINTS),
        *torch.linalg.qr(POINTS, mode="complete"),
    )


def forms_in(data: bytes) -> set[tuple[str, tuple[str, ...]]]:
    """The operators that a file calls, each with the names of its arguments."""
    with graphwire.open(data) as archive:
        nodes = [node for _, node in walk_nodes(archive.program.graph_module.graph)]
    return {(node.target.split(".")[3], tuple(named.name for named in node.inputs)) for node in nodes}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_release_loads_and_computes_the_same(name: str) -> None:
    loaded = graphwire.loads(FILES[name])
    assert_same_values(computed(loaded), expected(name))
    again = graphwire.loads(graphwire.dumps(loaded))
    assert [node.target for node in again.graph.nodes] == [node.target for node in loaded.graph.nodes]


@pytest.mark.parametrize("name", FILES)
def test_the_report_of_a_load_names_what_got_another_form(name: str) -> None:
    told: list[LoadReport] = []
    graphwire.loads(FILES[name], report=told.append)
    rewritten = {step.step.split()[1]: step.nodes for step in told[0].steps if "of this torch" in step.step}
    has_older = bool(parameters_of("torch.ops.aten.qr.default"))
    if name == "torch_2_15":
        expected = {"_pdist_backward": 1, "_cdist_backward": 1} if has_older else {}
    else:
        expected = {} if has_older else {"_pdist_backward": 1, "_cdist_backward": 1, "cholesky": 2, "qr": 2}
    assert {operator.split(".")[1]: len(nodes) for operator, nodes in rewritten.items()} == expected


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["torch-2.15", "torch-2.14", "torch-2.13", "torch-2.10", "torch-2.4"])
def test_a_file_for_a_target_has_the_forms_of_its_release(name: str, target: str, tmp_path: Path) -> None:
    source, converted = tmp_path / "source.pt2", tmp_path / "converted.pt2"
    source.write_bytes(FILES[name])
    graphwire.convert(source, converted, target=target)
    newer = int(target.rpartition(".")[2]) >= 14
    gradient = "grad_output" if newer else "grad"
    forms = forms_in(converted.read_bytes())
    assert ("_pdist_backward", (gradient, "self", "p", "pdist")) in forms
    assert ("_cdist_backward", (gradient, "x1", "x2", "p", "cdist")) in forms
    if name == "torch_2_13":
        factorizations = {operator for operator, _ in forms} & {
            "cholesky",
            "qr",
            "linalg_cholesky",
            "linalg_qr",
        }
        assert factorizations == ({"linalg_cholesky", "linalg_qr"} if newer else {"cholesky", "qr"})
    assert_same_values(computed(graphwire.load(converted)), expected(name))


def test_torch_itself_reads_what_is_written_for_it() -> None:
    for name, data in FILES.items():
        written = graphwire.dumps(graphwire.loads(data), target=HERE)
        assert_same_values(computed(torch.export.load(io.BytesIO(written))), expected(name))


def test_what_fits_stays_and_what_went_up_comes_down() -> None:
    with graphwire.open(FILES["torch_2_15"]) as archive:
        newer = archive.program
    older = with_forms(newer, lambda: forms_of_release("2.13"))
    assert older != newer
    assert with_forms(older, lambda: forms_of_release("2.12")) is older
    assert with_forms(older, lambda: forms_of_release("2.14")) == newer


def test_what_a_torch_has_decides_as_its_release_does() -> None:
    older = {change.target: {change.older} for change in CHANGES}
    newer = {change.newer_target: {change.newer} for change in CHANGES}
    assert forms_of_parameters(lambda target: older.get(target, ())) == forms_of_release("2.13")
    assert forms_of_parameters(lambda target: newer.get(target, ())) == forms_of_release("2.14")


def test_a_torch_without_the_other_form_changes_nothing() -> None:
    assert forms_of_parameters(lambda _: ()) == {}
