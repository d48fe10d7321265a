"""aten.cholesky and aten.qr, which torch 2.14 no longer has: up to 2.11 they become the operators of `torch.linalg`, which every
release since 2.1 has and which compute the same. Files of 2.12 and 2.13 have the schema of 2.14, so nothing tells them apart."""

from __future__ import annotations

from typing import Final

from graphwire.evolve.new_values import NewValues
from graphwire.evolve.trees import Node, Record, Report, Where

__all__ = ["CHOLESKY", "LINALG_CHOLESKY", "LINALG_QR", "QR", "cholesky_up", "qr_up"]

CHOLESKY: Final = "torch.ops.aten.cholesky.default"
LINALG_CHOLESKY: Final = "torch.ops.aten.linalg_cholesky.default"
QR: Final = "torch.ops.aten.qr.default"
LINALG_QR: Final = "torch.ops.aten.linalg_qr.default"

_KEYWORD: Final = 2


def cholesky_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.11 → 2.12: whether the upper factor is wanted is passed by keyword."""
    inputs = [{**each, "kind": _KEYWORD} if each["name"] == "upper" else each for each in node["inputs"]]
    return [{**node, "target": LINALG_CHOLESKY, "inputs": inputs}]


def qr_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.11 → 2.12: the matrix is `A`, and `some` a mode."""
    inputs = [{**each, **_matrix_or_mode(each)} for each in node["inputs"]]
    return [{**node, "target": LINALG_QR, "inputs": inputs}]


def _matrix_or_mode(named: Record) -> Record:
    if named["name"] == "some":
        return {"name": "mode", "arg": {"as_string": "reduced" if named["arg"]["as_bool"] else "complete"}}
    return {"name": "A"} if named["name"] == "self" else {}
