"""Files of other kinds, which people drop on the page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import torch
from safetensors.torch import save


def other_files() -> Iterator[tuple[str, bytes]]:
    """Yield names and contents."""
    yield "weights.safetensors", save({f"layers.{index}.weight": torch.ones(8, 4) for index in range(5)})
    yield "empty.pt2", b""
    yield "notes.txt", b"nothing of this kind"
    yield "numbers.csv", b"node,ms\nlinear,0.5\n"
    yield "run.json", b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "linear", "dur": 5}]}'
    yield "old.pkl", b"\x80\x04\x95" + bytes(30)
    yield "photo.png", b"\x89PNG\r\n\x1a\n" + bytes(30)
    yield "nested.json", b"[" * 100_000
    yield "bomb.pt2", _zip({"model/models/model.json": bytes(300_000_000)})
    yield "outside.pt2", _zip({"../../models/model.json": b"{}"})
    checkpoint = io.BytesIO()
    torch.save({"weight": torch.ones(3)}, checkpoint)
    yield "checkpoint.pt", checkpoint.getvalue()
    nodes = b"".join(
        _field(1, _field(1, b"x") + _field(2, b"y") + _field(4, name)) for name in (b"Conv", b"Relu", b"Conv")
    )
    graph = nodes + _field(5, _field(8, b"w")) + _field(11, _field(1, b"x")) + _field(12, _field(1, b"y"))
    opset = _field(1, b"") + bytes([2 << 3, 18])
    yield (
        "model.onnx",
        bytes([8, 8]) + _field(2, b"pytorch") + _field(3, b"2.13.0") + _field(7, graph) + _field(8, opset),
    )


def _zip(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a message of Protocol Buffers, shorter than 128 bytes."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content
