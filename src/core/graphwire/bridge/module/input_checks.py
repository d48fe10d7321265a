"""Checks the inputs of a module that runs a program: their structure, and the conditions that they must meet."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

import torch

from graphwire import schema
from graphwire.bridge.module.input_conditions import Condition, input_conditions
from graphwire.bridge.signature import check_guards
from graphwire.bridge.torch_compat import pytree
from graphwire.bridge.torch_compat.private import HAS_GUARDS, assert_in_graph
from graphwire.errors import DecodeError, InputError, shown, unless_interrupted


def _is_dense(*numbers: int) -> int:
    """Return 1 if a tensor of these sizes, then strides, covers its memory without gaps and overlaps; otherwise 0."""
    half = len(numbers) // 2
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(numbers[:half], numbers[half:], strict=True) if n != 1):
        if stride != expected:
            return 0
        expected *= size
    return 1


def _equals(value: Any, literal: Any) -> bool:
    """Return whether a value equals a literal. A tensor of several elements has no answer."""
    try:
        return bool(value == literal)
    except unless_interrupted(RuntimeError):
        return False


def _has_int(value: Any) -> bool:
    """Return whether Python makes a whole number of a value."""
    try:
        int(value)
    except unless_interrupted(TypeError, ValueError, OverflowError, RuntimeError):
        return False
    return True


def _where(condition: Any, value: Any, otherwise: Any) -> Any:
    return value if condition else otherwise


NAMES: dict[str, Any] = {
    "Tensor": torch.Tensor,
    "abs": abs,
    "bool": bool,
    "equals": _equals,
    "float": float,
    "has_int": _has_int,
    "inf": math.inf,
    "int": int,
    "is_dense": _is_dense,
    "isinstance": isinstance,
    "math": math,
    "max": max,
    "min": min,
    "not_": operator.not_,
    "round": round,
    "str": str,
    "sym_max": torch.sym_max,
    "sym_min": torch.sym_min,
    "type": type,
    "where": _where,
}
"""All names that the code of conditions may use, besides those of inputs."""
_ATTRIBUTES = frozenset("size stride storage_offset item __neg__ ndim __qualname__".split()) | {
    name for name in dir(math) if name[0] != "_"
}
"""The attributes that it may read, besides those of sources."""


class InputChecks(torch.nn.Module):
    """Checks the inputs of a program. Its module calls it first, with the flat inputs.

    The checks are one generated function. Traced symbolically, they become assertions.
    """

    def __init__(
        self, names: Sequence[str], ranks: Mapping[int, int], conditions: Sequence[Condition]
    ) -> None:
        """Take the conditions.

        Args:
            names: the inputs, as messages show them.
            ranks: the ranks of the inputs that are tensors, by number, for messages.
            conditions: what must hold.
        """
        super().__init__()
        self._names = list(names)
        self._ranks = dict(ranks)
        self._conditions = list(conditions)
        self._is_impure = True
        """Removing nodes that nothing uses leaves calls of this alone."""
        tests = (f"if not ({each.code}): return {number}" for number, each in enumerate(self._conditions))
        self._first_broken = self._function(tests)

    def extra_repr(self) -> str:
        """Return the conditions, for display."""
        return "\n".join(each.stated(self._names) for each in self._conditions)

    def forward(self, *inputs: Any) -> None:
        """Raise unless the inputs meet all conditions.

        Raises:
            InputError: they do not; the message names the input and what it must be.
        """
        if any(isinstance(each, torch.fx.Proxy) for each in inputs):
            traced = (each for each in self._conditions if each.traced)
            tests = (f"assert_({each.code}, {each.stated(self._names)!r})" for each in traced)
            self._function(tests, assert_=assert_in_graph)(*inputs)
            return
        try:
            number = self._first_broken(*inputs)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
                raise  # a tracer's
            steps: Any = error.__traceback__
            number = steps.tb_next.tb_lineno - 2  # Each condition has a line of its own, after the first.
            raise InputError(self._message(self._conditions[number], inputs)) from error
        if number is not None:
            message = self._message(self._conditions[number], inputs)
            # torch's compiler shows the text of what it can make itself, and otherwise calls this again, uncompiled.
            raise ValueError(message) if torch.compiler.is_dynamo_compiling() else InputError(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the conditions, not the function."""
        return InputChecks, (self._names, self._ranks, self._conditions)

    def _function(self, lines: Iterable[str], **names: Any) -> Callable[..., int | None]:
        parameters = ", ".join(f"v{index}" for index in range(len(self._names)))
        body = "\n ".join([*lines, "return"])
        # What torch calls may import modules, with the function that its caller has for it. No condition can name it.
        scope = {**NAMES, **names, "__builtins__": {"__import__": __import__}}
        # The one `exec` of the package. Its text is made of numbers, `v0` …, names of `NAMES`, and texts of a file as literals.
        exec(compile(f"def check({parameters}):\n {body}\n", "<checks of a program's inputs>", "exec"), scope)  # noqa: S102
        check: Any = scope["check"]
        steps = {
            of
            for each in self._conditions
            for source in each.sources
            for kind, of in source.steps
            if kind != "item"
        }
        uses, parts = frozenset(check.__code__.co_names), check.__code__.co_consts
        if not uses <= {*NAMES, *names, *_ATTRIBUTES, *steps} or any(
            isinstance(each, CodeType) for each in parts
        ):
            raise DecodeError(
                f"a condition of the inputs uses {', '.join(sorted(uses))!s:.200}"
            )  # a text became code
        result: Callable[..., int | None] = check
        return result

    def _message(self, condition: Condition, inputs: Sequence[Any]) -> str:
        """Return what is wrong. Of an input that is no tensor, or one of another rank, only that is of use.

        What cannot be read comes first: an input of more dimensions may be none that is refused.
        """
        for each in sorted(condition.sources, key=lambda each: each.is_in(inputs)):
            if (rank := self._ranks.get(each.number)) is not None:
                given = inputs[each.number]
                if not isinstance(given, torch.Tensor):
                    return f"{self._names[each.number]} is {_kind(given)}, must be a tensor"
                if given.ndim != rank:
                    return f"{self._names[each.number]}.ndim is {given.ndim}, must be {rank}"
        return condition.message(self._names, inputs)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def input_checks(
    record: schema.Program,
    inputs: Sequence[schema.Argument],
    members: Mapping[int, enum.Enum],
    in_spec: Any,
    names: Sequence[str],
    *,
    guards: bool,
) -> tuple[InputChecks, list[str]]:
    """Return the checks of a program, and the guards that they drop: those that refer to no input.

    Args:
        inputs: the inputs of the graph that the caller passes.
        members: those of them that are members of an enumeration of numbers or texts.
        in_spec: the treespec of the program's arguments.
        names: the names of the parameters.
        guards: whether to check the program's guards too.

    Raises:
        DecodeError: a guard refers to something that is no input.
    """
    graph = record.graph_module.graph
    paths = list(pytree.input_paths(in_spec, names))
    numbers = {tuple(of for _, of in path): index for index, path in enumerate(paths)}
    of_guards, unchecked = check_guards(record, numbers, DecodeError)
    # As torch: without example inputs, it cannot write a function of guards.
    exact = not (guards and HAS_GUARDS) or record.example_inputs is None
    conditions = list(input_conditions(graph, inputs, record.range_constraints, members, exact=exact))
    known = {each.code for each in conditions}
    conditions += [each for each in of_guards if guards and each.code not in known]
    ranks = {
        index: len(graph.tensor_values[each.as_tensor.name].sizes)
        for index, each in enumerate(inputs)
        if each.as_tensor is not None
    }
    return InputChecks([_path_text(path) for path in paths], ranks, conditions), unchecked if guards else []


def _path_text(path: Sequence[tuple[str, Any]]) -> str:
    (_, name), *rest = path
    return name + "".join(f".{of}" if kind == "attribute" else f"[{shown(of)}]" for kind, of in rest)


# ----------------------------------------------------------------------------------------------------------- structure


_LEAVES = frozenset((torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None)))
"""The types of most arguments. They contain nothing."""


class StructureCheck:
    """Checks the structure of the arguments of a call: a hook that runs before `forward`."""

    def __init__(self, checks: InputChecks | None) -> None:
        """Take the checks of the inputs, if no node of the graph makes them."""
        self._checks = checks

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise unless the arguments fit.

        Raises:
            InputError: they have another structure than the program's.
        """
        if module.validate_inputs and not torch.compiler.is_compiling():
            leaves = _leaves(module._in_spec, args, kwargs)
            if self._checks is not None:
                self._checks(*leaves)


def _leaves(spec: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the flat arguments of a call, which have the structure of the program's."""
    by_position, by_name = pytree.children_of(spec)
    leaves: Sequence[Any]
    keywords = pytree.context_of(by_name)
    if kwargs.keys() != set(keywords):
        raise InputError(
            f"the keyword arguments are {sorted(kwargs)}, must be {sorted(keywords)}",
            remedy="Pass by keyword what was passed so at export, and the rest by position",
        )
    leaves = args if not kwargs else (*args, *[kwargs[key] for key in keywords])
    wanted = pytree.children_of(by_position)
    if len(args) != len(wanted):
        raise InputError(f"there are {len(args)} positional arguments, must be {len(wanted)}")
    if spec.num_leaves != len(leaves) or not _LEAVES.issuperset(map(type, leaves)):
        given = (tuple(args), {key: kwargs[key] for key in keywords})
        structure = pytree.flatten(given)[1]
        if not pytree.is_same_structure(structure, spec):
            raise InputError(f"the arguments have the structure {structure}, must have {spec}")
        leaves = pytree.flatten_by_spec(given, spec)
    return leaves
