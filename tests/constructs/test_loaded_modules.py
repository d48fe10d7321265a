"""What `load_module` makes of a file equals `load(file).module()`: for every program of the constructs, database and demo.

By day a third of them.
"""

from __future__ import annotations

import pytest
from construct import quiet
from gate_programs import CASES
from loaded_modules import assert_same_module
from nightly import by_day, one_in

import graphwire


@pytest.mark.nightly
@pytest.mark.parametrize("name", one_in(4, by_day(list(CASES)[::3], by_night=list(CASES))))
def test_a_module_equals_that_of_the_loaded_program(name: str) -> None:
    with quiet():
        try:
            case = CASES[name]()
        except Exception as error:
            pytest.skip(f"torch does not export it: {error}")
        if case is None:
            pytest.skip("it cannot be run here")
        data = graphwire.dumps(case.program)
        for check_guards in (True, False):
            assert_same_module(
                data,
                case.call.args,
                case.call.kwargs,
                check_guards=check_guards,
                violations=by_day(8, by_night=200),
            )
