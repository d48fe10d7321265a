"""Every example in torch's database of what export supports round-trips, if it exports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from higher_order import MODES, TRIED_MODES, formats_of
from torch.export import export

DOES_NOT_EXPORT = {"dynamic_shape_round": "an example of what export refuses: rounding a dynamic size"}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*were assigned during export:UserWarning")
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")
@pytest.mark.filterwarnings("ignore:Pred is a Python constant:UserWarning")
@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("mode", TRIED_MODES)
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
        for format in formats_of(index + MODES.index(mode)):
            try:
                if assert_round_trips(program, case.example_args, case.example_kwargs, format):
                    wrong.append(f"the graph of {name} differs")
            except Exception as error:
                wrong.append(f"{name} in {format}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
