"""Write `documents/opset_N.pt2`: the model of the tests as each version of the library saved it.

    python tests/make_documents.py

The operators of old versions are here as they were; each version is defined in a process of its own, since torch has one
table of operators a process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).parent / "documents"

SCHEMAS = {
    1: ("project(Tensor x, Tensor weight) -> Tensor",),
    2: ("project(Tensor x, Tensor weight, bool transposed) -> Tensor",),
    3: (
        "project(Tensor x, Tensor weight, bool transposed) -> Tensor",
        "unit(Tensor x, float eps) -> Tensor",
    ),
}
for _version in SCHEMAS:
    SCHEMAS[_version] += ("soften(Tensor x, float width=1.0) -> Tensor",)
    if _version < 3:
        SCHEMAS[_version] += ("norm_project(Tensor x, Tensor weight, float eps) -> Tensor",)


def _kernels() -> dict[str, Any]:
    import torch

    def unit(x: Any, eps: float) -> Any:
        return x / (x.norm(dim=-1, keepdim=True) + eps)

    return {
        "project": lambda x, weight, transposed=False: x @ (weight.T if transposed else weight),
        "unit": unit,
        "norm_project": lambda x, weight, eps: unit(x, eps) @ weight,
        "soften": lambda x, width=1.0: width * torch.tanh(x / width),
    }


def _model(version: int) -> Any:
    """The same computation with the operators of each version."""
    import torch

    # The operators of old versions are defined below. Only `apply` comes from the library, because it never changed.
    if version == 4:
        from graphwire_linops.operators import Pointwise, apply
    else:
        Pointwise, apply = _apply_alone()
    ops = torch.ops.linops

    def project(x: Any, weight: Any) -> Any:
        return ops.project(x, weight) if version == 1 else ops.project(x, weight, False)

    def norm_project(x: Any, weight: Any) -> Any:
        return ops.norm_project(x, weight, 1e-3) if version < 3 else project(ops.unit(x, 1e-3), weight)

    def soften(x: Any, *width: float) -> Any:
        return ops.soften(x, *width) if version < 4 else ops.smooth(x, *(width or (1.0,)))

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 16).view(4, 4), requires_grad=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            h = norm_project(project(x, self.weight), self.weight)
            branch = torch.cond(x.sum() > 0, soften, lambda h: soften(h, 0.125), (h,))
            return soften(h), soften(h, 0.25), branch, apply(h, Pointwise.SOFTPLUS)

    return Model()


def _apply_alone() -> tuple[Any, Any]:
    """Return `apply` without the rest of the library, whose operators have version 4."""
    import torch

    kept = torch.library.custom_op

    def nothing(*_: Any, **__: Any) -> Any:
        return lambda function: type("Nothing", (), {"register_fake": staticmethod(lambda fake: fake)})

    torch.library.custom_op = nothing  # type: ignore[assignment]
    try:
        from graphwire_linops.operators import Pointwise, apply
    finally:
        torch.library.custom_op = kept
    return Pointwise, apply


def write(version: int) -> None:
    """Write the document of one version."""
    import torch
    from graphwire_linops.plugin import LinopsApply, LinopsOverloads

    import graphwire
    from graphwire.hooks import PluginInfo, Registry
    from graphwire.registry.discovery import find_plugins, load_plugin

    library = torch.library.Library("linops", "FRAGMENT")
    for schema in SCHEMAS.get(version, ()):
        library.define(schema)
        name = schema.partition("(")[0]
        library.impl(name, _kernels()[name], "CompositeExplicitAutograd")

    class Plugin:
        @graphwire.hookimpl
        def graphwire_op_handlers(self) -> list[Any]:
            handlers = [LinopsOverloads(), LinopsApply()]
            for handler in handlers:
                handler.opset_version = version
            return handlers

    info = PluginInfo("linops", "graphwire-linops", f"1.{version}.0")
    registry = Registry([*find_plugins(frozenset({"graphwire"})), load_plugin(info, Plugin)])
    model = _model(version)
    n = torch.export.Dim("n", min=1, max=64)
    program = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: n},))
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.stack_trace is not None:  # The path of this file must not be stored.
                node.stack_trace = node.stack_trace.replace(str(Path(__file__).parent), "tests")
    DOCUMENTS.mkdir(exist_ok=True)
    graphwire.save(program, DOCUMENTS / f"opset_{version}.pt2", registry=registry)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(int(sys.argv[1]))
    else:
        for each in (1, 2, 3, 4):
            subprocess.run([sys.executable, __file__, str(each)], check=True)
