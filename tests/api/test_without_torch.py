"""What is done without torch, and what torch's own serializer has no part in; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_RUN = """
import sys
import graphwire
path = sys.argv[1]
{work}
print(sorted(name for name in sys.modules if name.split(".")[0] in ("torch", "sympy", "numpy")))
"""


def _printed(script: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("", id="import"),
        pytest.param("with graphwire.open(path) as archive: archive.program, archive.payloads", id="open"),
        pytest.param("assert graphwire.inspect(path).methods", id="inspect"),
        pytest.param("assert graphwire.verify(path) == []", id="verify"),
        pytest.param("graphwire.convert(path, path + '.cbor', format='cbor')", id="convert"),
        pytest.param(
            "program = graphwire.open(path).program\n"
            "for format in ('json', 'msgpack', 'cbor'):\n"
            "    assert graphwire.decode(graphwire.encode(program, format)) == program",
            id="encode and decode",
        ),
        pytest.param("assert len(graphwire.plugins()) >= 5", id="plugins"),
    ],
)
def test_torch_is_not_imported(work: str, small_file: Path) -> None:
    assert _printed(_RUN.format(work=work), small_file) == "[]"


_SERIALIZER = """
import io, sys
import torch
import graphwire

class Model(torch.nn.Module):
    def forward(self, x):
        return {"sum": x + x.shape[0], "best": x.topk(2)}

sizes = ({0: torch.export.Dim("rows", min=4, max=64)},)
program = torch.export.export(Model(), (torch.ones(6, 3),), dynamic_shapes=sizes)
before = {name for name in sys.modules if name.startswith("torch._export.serde")}
data = graphwire.dumps(program)
loaded = graphwire.loads(data)
loaded.module()(torch.ones(8, 3))
print(sorted({name for name in sys.modules if name.startswith("torch._export.serde")} - before))
"""


def test_torch_s_own_serializer_has_no_part_in_saving_and_loading() -> None:
    assert _printed(_SERIALIZER) == "[]"
