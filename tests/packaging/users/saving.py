"""A program of a user who exports models: every function for an ExportedProgram."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import torch
from torch.export import ExportedProgram

import graphwire
from graphwire.schema import Program


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"sum": self.linear(x)}


def save_and_print(program: ExportedProgram, file: Path, **options: Unpack[graphwire.SaveOptions]) -> None:
    graphwire.save(program, file, **options)
    print("saved", file)


def load_there(file: Path, **options: Unpack[graphwire.LoadOptions]) -> ExportedProgram:
    loaded: ExportedProgram = graphwire.load(file, **options)
    return loaded


def main(folder: Path) -> None:
    program = torch.export.export(Model(), (torch.ones(3, 4),))
    reports: list[graphwire.WriteReport] = []
    file = folder / "model.pt2"
    save_and_print(program, file, format="msgpack", extra_files={"labels.txt": "a"}, report=reports.append)
    graphwire.save({"forward": program, "other": program}, folder / "both.pt2", strip=True)
    graphwire.save(program, folder / "lean.pt2", weights=graphwire.Blobs(folder / "blobs"))
    data: bytes = graphwire.dumps(program, compress=False)
    extra: dict[str, bytes] = {"labels.txt": b""}
    loads: list[graphwire.LoadReport] = []
    loaded = load_there(file, extra_files=extra, report=loads.append, unknown_ops="opaque")
    same = graphwire.loads(data, device="cpu")
    bare = graphwire.load(file, weights=None)
    graphwire.bind(bare, {"linear.weight": torch.ones(4, 4), "linear.bias": torch.ones(4)})
    record, payloads = graphwire.to_schema(loaded)
    typed: Program = record
    back: ExportedProgram = graphwire.from_schema(typed, payloads)
    spec: str = graphwire.treespec_dumps(back.call_spec.in_spec)
    packed: bytes = graphwire.treespec_dumps(back.call_spec.in_spec, format="cbor")
    print(spec, packed, graphwire.diff(same, back).same, graphwire.content_hash(back))
    print(graphwire.supports(back, "torch-2.6"), graphwire.inspect(back))


if __name__ == "__main__":
    main(Path())
