"""What each arrow of the pipeline costs: the steps of a save and of a load one by one, and the floors under them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samples import Row
from timing import Bench, Times, processor_seconds

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["measure"]


class _Nowhere:
    """A stream that takes everything and keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


class _Clock:
    """The times of named steps over all turns."""

    def __init__(self) -> None:
        self.times: dict[str, Times] = {}

    def __call__(self, step: str, run: Callable[[], Any]) -> Any:
        started, started_cpu = time.perf_counter(), processor_seconds()
        result = run()
        cpu, wall = processor_seconds() - started_cpu, time.perf_counter() - started
        times = self.times.setdefault(step, Times([], []))
        times.wall.append(wall)
        times.cpu.append(cpu)
        return result


def measure(bench: Bench) -> Iterator[Row]:
    """Rows of each step, of the first chosen program saved as JSON."""
    from cases import PROGRAMS

    from graphwire.process import paused_gc

    name = bench.programs[0]
    program, file = PROGRAMS[name](), bench.folder / "steps.pt2"
    clocks = {"save": _Clock(), "load": _Clock(), "floor": _Clock()}
    for _ in range(bench.turns + 1):
        bench.done(f"steps: {name}")
        with paused_gc():
            _save(program, file, clocks["save"])
            _load(file, clocks["load"])
            _floors(program, clocks["floor"])
    for action, clock in clocks.items():
        for step, times in clock.times.items():
            warm = Times(times.wall[1:], times.cpu[1:])
            yield from warm.rows(f"steps/{name}/{action}", step)


def _save(program: ExportedProgram, file: Path, clock: _Clock) -> None:
    import graphwire
    from graphwire.bridge.program import encode_program, record_tables
    from graphwire.hooks import default_registry
    from graphwire.wire.archive.atomic_file import atomic_write
    from graphwire.wire.document import write_program
    from graphwire.wire.package_writer import write_package
    from graphwire.wire.payloads import Document

    registry = default_registry()
    json = registry.wire_format("json")
    tables = clock("storages found", lambda: record_tables([program]))
    record, payloads = clock("program → records", lambda: encode_program(program, registry, tables))
    data = clock("records → bytes", lambda: write_program(record, json))
    documents = {"model": Document(data, ".json", payloads)}
    clock("archive (deflate, checksums)", lambda: write_package(_Nowhere(), documents))

    def write() -> None:
        with atomic_write(file) as stream:
            write_package(stream, documents)

    clock("archive to a synced, replaced file", write)
    clock("all of save", lambda: graphwire.save(program, file))


def _load(file: Path, clock: _Clock) -> None:
    import graphwire
    from graphwire import from_schema
    from graphwire.analysis.validation.program_rules import check_valid
    from graphwire.bridge.torch_compat.verifiers import check_program
    from graphwire.hooks import default_registry
    from graphwire.wire.package_reader import Package

    with clock("directory read", lambda: Package(file, default_registry())) as package:
        program = clock("bytes → records (inflate, decode)", lambda: package.program_or_tree_of("model"))
        payloads = clock("weights' configuration", lambda: package.layout.payloads_of("model"))
        clock("records checked", lambda: check_valid(program))
        made = clock("records → program", lambda: from_schema(program, payloads))
    clock("  of which torch's verifiers", lambda: check_program(made))
    clock("all of load", lambda: graphwire.load(file))


def _floors(program: ExportedProgram, clock: _Clock) -> None:
    import msgspec
    import torch

    import graphwire
    from graphwire.bridge.torch_compat.fake_tensors import DecodedMode, FakeTensors
    from graphwire.schema import Program

    record, _ = graphwire.to_schema(program)
    data = clock("msgspec: records → JSON", lambda: msgspec.json.encode(record))
    decoder = msgspec.json.Decoder(Program)
    clock("msgspec: JSON → records", lambda: decoder.decode(data))
    clock("zlib: deflate at level 6", lambda: zlib.compress(data, 6))

    def nodes() -> torch.fx.Graph:
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in program.graph.nodes:
            made[node] = graph.node_copy(node, made.__getitem__)
        return graph

    graph = clock("FX: nodes created", nodes)
    values = [
        value for node in program.graph.nodes if isinstance(value := node.meta.get("val"), torch.Tensor)
    ]
    empty = torch.empty(0, device="meta")
    make = FakeTensors(DecodedMode()).maker(torch.device("cpu"), False)
    clock("torch: a fake tensor for each value", lambda: [make(empty) for _ in values])
    clock("torch: code of the graph generated", lambda: torch.fx.GraphModule(program.graph_module, graph))
