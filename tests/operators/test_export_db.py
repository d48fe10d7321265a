"""Every example in torch's database of what export supports round-trips, if it exports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.export import export

DOES_NOT_EXPORT = {"dynamic_shape_round": "an example of what export refuses: rounding a dynamic size"}

GRAPH_DIFFERS = {
    (
        "optional_input",
        "strict",
    ): "an input that is no buffer says that it is persistent, which has no meaning",
    (
        "assume_constant_result",
        "decomposed",
    ): "a node without a result has None as `val`, which torch leaves out",
}
"""The examples whose loaded program computes the same and is not the same, and how it differs."""


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*were assigned during export:UserWarning")
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")
@pytest.mark.filterwarnings("ignore:Pred is a Python constant:UserWarning")
@pytest.mark.parametrize("mode", ["strict", "nonstrict", "decomposed"])
def test_every_example_that_exports_round_trips(mode: str, assert_round_trips: Callable[..., bool]) -> None:
    from torch._export.db.examples import all_examples

    wrong = []
    for index, (name, case) in enumerate(sorted(all_examples().items())):
        try:
            program = export(
                case.model,
                case.example_args,
                case.example_kwargs,
                dynamic_shapes=case.dynamic_shapes,
                strict=mode == "strict",
            )
        except Exception as error:
            if name not in DOES_NOT_EXPORT:
                wrong.append(f"{name} does not export: {error}")
            continue
        if name in DOES_NOT_EXPORT:
            wrong.append(f"{name} exports")
        if mode == "decomposed":
            program = program.run_decompositions()
        for format in ("json", ("msgpack", "cbor")[index % 2]):
            try:
                differs = assert_round_trips(program, case.example_args, case.example_kwargs, format)
                if differs is not ((name, mode) in GRAPH_DIFFERS):
                    wrong.append(f"the graph of {name} {'differs' if differs else 'is the same'}")
            except Exception as error:
                wrong.append(f"{name} in {format}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
