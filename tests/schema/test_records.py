"""The records of the schema as Python objects: what holds for them beyond their fields."""

import gc
import subprocess
import sys
import textwrap

import pytest

from graphwire.schema import Argument, NamedArgument, Node, TensorArgument

NESTS = {
    "sequence": "Argument(as_sequence=SequenceValue('list', [nest]))",
    "mapping": "Argument(as_mapping=[MappingEntry(NONE, nest)])",
    "slice": "Argument(as_slice=SliceValue(nest, NONE, NONE))",
    "strings": "Argument(as_string_to_argument={'a': nest})",
    "subgraph": "Argument(as_graph=GraphArgument('g', Graph([], [nest], [], {}, {}, {})))",
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_deep_nest_can_be_let_go(nest: str) -> None:
    """Python's own containers are let go level by level without a call for each on the stack; so are records."""
    code = f"""
        import threading
        from graphwire.schema.graph import Argument, Graph, GraphArgument, MappingEntry, SequenceValue, SliceValue

        NONE = Argument(as_none=True)

        def run():
            nest = Argument(as_int=1)
            for _ in range(30_000):
                nest = {nest}

        threading.stack_size(1 << 18)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_collector_passes_by_what_a_program_has_thousands_of() -> None:
    argument = Argument(as_tensor=TensorArgument("x"))
    node = Node("torch.ops.aten.relu.default", [NamedArgument("self", argument)], [argument], {})
    assert not any(map(gc.is_tracked, (argument, node.inputs[0], node)))
