"""A loaded program serves for everything that the one that was saved serves for, with the same results.

Both are used in each way of `uses.py`, and where the one that was saved fails, nothing is asked of the loaded one. Every program
is tried by `make test-gate`; by day two are.
"""

from __future__ import annotations

import pytest
from construct import quiet
from gate_programs import CASES
from nightly import by_day
from torch.export import ExportedProgram
from uses import USES, Inputs, outcomes, used

SAMPLE = (
    "small: structured",
    "higher-order operators: cond in cond, several results",
)
"""What is tried by day: a plain program, and an operator with nested graphs."""
TRIED = by_day(SAMPLE, by_night=tuple(CASES))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_loaded_program_serves_for_what_the_saved_one_serves_for(name: str) -> None:
    with quiet():
        try:
            case = CASES[name]()
        except Exception as error:
            pytest.skip(f"torch does not export it: {error}")
        if case is None:
            pytest.skip("it cannot be run here")
        found = outcomes(case.program, case.call)
    wrong = [f"{use}: {each.defect[:1200]}" for use, each in found.items() if each.defect is not None]
    assert not wrong, "\n".join(wrong)
    refusal = found["is_called"].refusal
    assert refusal is None or "only supports CUDA tensors" in refusal, (
        "what the program computes was not compared"
    )


def test_what_a_use_writes_into_the_parts_of_a_wrapper_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    with quiet():
        case = CASES["constants: a buffer of a tensor subclass"]()
    assert case is not None
    (wrapper,) = case.program.state_dict.values()

    def writes(program: ExportedProgram, call: Inputs) -> None:
        wrapper.inner.add_(1)

    monkeypatch.setitem(USES, "writes", writes)
    before = wrapper.inner.clone()
    assert used("writes", case.program, case.call)[1] is None
    assert wrapper.inner.equal(before)
