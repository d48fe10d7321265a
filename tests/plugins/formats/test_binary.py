"""What msgpack and CBOR say on the wire, and what they refuse to read."""

from __future__ import annotations

import cbor2
import msgpack
import msgspec
import pytest
import torch
from inside.schema import to_tree

import graphwire
from graphwire.schema import SymInt
from graphwire_plugins.cbor_format import CborFormat
from graphwire_plugins.msgpack_format import MsgpackFormat

CBOR, MSGPACK = CborFormat(), MsgpackFormat()


@pytest.mark.parametrize(
    "head", ["830200000374726565", "83a50000037472656500", "80ff", "8101", "de0001", "df000000", "de0001a5"]
)
def test_msgpack_does_not_recognize(head: str) -> None:
    assert MSGPACK.matches(bytes.fromhex(head)) is (head == "de0001a5")


def test_other_readers_read_ours() -> None:
    tree = {"a": [1, -2.5, None, True, b"x", "é"]}
    assert cbor2.loads(CBOR.encode(tree)[3:]) == tree
    assert msgpack.unpackb(MSGPACK.encode(tree)) == tree


class Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.unbind(0)[::-1])


@pytest.mark.parametrize("size", [3, int.from_bytes(b"+offset+"), 1 << 70])
def test_metas_that_differ_in_their_offset_alone_are_the_bytes_of_cbor2(size: int) -> None:
    """The format encodes what they share once, and finds the place of the offset by a number that a size may have, too."""
    program, _ = graphwire.to_schema(torch.export.export(Parts(), (torch.randn(40, 3),)))
    metas = program.graph_module.graph.tensor_values
    metas.update(
        {
            name: msgspec.structs.replace(meta, sizes=[SymInt(as_int=size)])
            for name, meta in list(metas.items())[::2]
        }
    )
    data = CborFormat().encode_records(program)
    assert data == b"\xd9\xd9\xf7" + cbor2.dumps(to_tree(program))
    assert len({str(meta.storage_offset) for meta in metas.values()}) == 40
