"""What the programs are that go between releases, and what each must compute. Runs on every torch since 2.1.

`corpus-NAME` is a file of `tests/corpus`, whose reference says what eager computed; any other name is a program of the tests,
whose calls and results stand beside it, as torch 2.8 or later pickled them.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

TESTS = Path(__file__).resolve().parents[1]
RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def corpus_reference() -> Any:
    """The corpus's own checker, with its operators and containers registered."""
    return sys.modules.get("corpus_reference") or _module(
        "corpus_reference", TESTS / "corpus" / "reference.py"
    )


def test_programs() -> dict[str, Any]:
    """The makers of the tests' programs by name, on a torch that graphwire runs on; elsewhere their containers and operators
    are registered, and there is no maker."""
    if RELEASE < (2, 8):
        _stand_in()
        return {}
    sys.path[:0] = [str(TESTS / "api"), str(TESTS.parent / "contrib" / "demo")]
    import functools

    from programs import PROGRAMS, decoder
    from small_programs import SMALL_PROGRAMS

    return {**SMALL_PROGRAMS, **PROGRAMS, "decoder": functools.partial(decoder, 1)}


def _mix(parts: Any, weight: float, bias: Any, axes: list[int], mode: str = "sum") -> Any:
    total = torch.stack(list(parts)).sum(0) * weight
    total = total if bias is None else total + bias
    return total, total.mean(axes) if mode == "mean" else total.sum(axes), [part + 1 for part in parts]


_OPERATORS: dict[str, Any] = {
    "note(Tensor x) -> Tensor": torch.clone,
    "mix(Tensor[] parts, float weight, Tensor? bias, SymInt[] axes, str mode='sum') -> (Tensor, Tensor, Tensor[])": _mix,
}
"""The operators of `small_programs` that a stand-in can have on any release."""


def _stand_in() -> None:
    """A module in place of `small_programs` with what its programs and pickles need."""

    class Pair(NamedTuple):
        left: Any
        right: Any

    class Box:
        def __init__(self, content: Any, label: Any = None) -> None:
            self.content, self.label = content, label

    module = types.ModuleType("small_programs")
    for kind in (Pair, Box):  # as the pickles call them
        kind.__module__, kind.__qualname__ = module.__name__, kind.__name__
        setattr(module, kind.__name__, kind)
    sys.modules[module.__name__] = module
    named = {} if RELEASE < (2, 2) else {"serialized_type_name": "graphwire_test.Pair"}
    if hasattr(pytree, "_register_namedtuple"):
        pytree._register_namedtuple(Pair, **named)
    operators = torch.library.Library("graphwire_test", "DEF")
    for schema, implementation in _OPERATORS.items():
        operators.define(schema)
        operators.impl(schema.partition("(")[0], implementation, "CompositeExplicitAutograd")
    module._operators = operators  # type: ignore[attr-defined]


def check(program: Any, case: Path) -> str | None:
    """What an exported program computes that it should not; None where all is right.

    Args:
        case: where the case stands, without suffix: `….io.json` and `….io.npz` of the corpus, or `….case` of a test.
    """
    if case.with_name(f"{case.name}.io.json").exists():
        problem: str | None = corpus_reference().check_program(program, str(case))
        return problem
    module = program.module()
    calls = torch.load(
        case.with_name(f"{case.name}.case"), **({} if RELEASE < (2, 4) else {"weights_only": False})
    )
    with torch.no_grad():
        for index, (args, kwargs, expected) in enumerate(calls):
            found = module(*copy.deepcopy(args), **copy.deepcopy(kwargs))
            problem = _difference(_leaves(expected), _leaves(found))
            if problem is not None:
                return f"call {index}: {problem}"
    return None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (tuple, list)) or type(value).__name__ == "deque":
        return [leaf for item in value for leaf in _leaves(item)]
    if type(value).__name__ == "Box":
        return _leaves([value.content, value.label])
    return [value]


def _difference(expected: list[Any], found: list[Any]) -> str | None:
    if len(expected) != len(found):
        return f"{len(found)} values instead of {len(expected)}"
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if isinstance(one, torch.Tensor):
            try:
                torch.testing.assert_close(other.detach(), one.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
            except AssertionError as error:
                return f"value {index}: {str(error).splitlines()[0]}"
        elif repr(one) != repr(other):
            return f"value {index}: {other!r} instead of {one!r}"
    return None
