"""aten.rrelu_with_noise: up to 2.5 its schema did not say that it writes its noise. Since 2.6 it does, and a functional graph
calls rrelu_with_noise_functional, which gives the noise as a second result."""

from __future__ import annotations

from typing import Final

from graphwire.evolve.new_values import NewValues
from graphwire.evolve.trees import Node, Report, Where

__all__ = ["RRELU", "RRELU_FUNCTIONAL", "noise_down", "noise_up"]

RRELU: Final = "torch.ops.aten.rrelu_with_noise.default"
RRELU_FUNCTIONAL: Final = "torch.ops.aten.rrelu_with_noise_functional.default"


def noise_up(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.5 → 2.6."""
    noise = next(each["arg"]["as_tensor"]["name"] for each in node["inputs"] if each["name"] == "noise")
    stem = node["outputs"][0]["as_tensor"]["name"]
    name = graph.make_tensor(f"{stem}_noise", graph.meta(noise))
    return [
        {**node, "target": RRELU_FUNCTIONAL, "outputs": [*node["outputs"], {"as_tensor": {"name": name}}]}
    ]


def noise_down(graph: NewValues, node: Node, where: Where, report: Report) -> list[Node]:
    """2.6 → 2.5, where nothing uses the noise that comes out; else the operator stays, which 2.5 does not have."""
    result, noise = (output["as_tensor"]["name"] for output in node["outputs"])
    if graph.uses(noise):
        return [node]
    graph.drop_tensor(noise)
    return [{**node, "target": RRELU, "outputs": [{"as_tensor": {"name": result}}]}]
