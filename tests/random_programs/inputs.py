"""What a program is given and what its model holds, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from random_programs import parts
from random_programs.scope import REFUSALS
from random_programs.text import function_of

__all__ = ["LITERALS", "Inputs", "container", "indented", "model_lines", "state_lines"]

_ONE_SHAPES = ("()", "(4,)", "(3, 4)", "(4, 4)", "(1, 4)", "(2, 3, 4)", "(0, 4)", "(1,)")
_DYNAMIC_SHAPES = {
    "(n, 4)": "{0: rows}",
    "(n,)": "{0: rows}",
    "(3, n)": "{1: rows}",
    "(m, 4)": "{0: columns}",
    "(n, m)": "{0: rows, 1: columns}",
    "(2 * n, 4)": "{0: 2 * rows}",
    "(n + 1, 4)": "{0: rows + 1}",
}
"""Shapes with dynamic sizes, and what is said of them to torch. Derived sizes need a size that has a name."""
_NAMED_SIZES = ('Dim("{}", min=2, max=64)', 'Dim("{}")', 'Dim("{}", max=1000)')
_UNNAMED_SIZES = ("Dim.AUTO", "Dim.DYNAMIC", "Dim.AUTO(min=2, max=40)")


def container(draw: st.DrawFn, leaf: Callable[[], str], depth: int = 2) -> str:
    """The text of a value: a leaf, or a container of such values."""
    kind = draw(st.sampled_from(("", "", "", *_CONTAINERS))) if depth else ""
    if not kind:
        return leaf()
    least, most = (2, 2) if kind in _OF_TWO else (0, 3)
    inner = [container(draw, leaf, depth - 1) for _ in range(draw(st.integers(least, most)))]
    return _CONTAINERS[kind](inner)


def _dict(inner: Sequence[str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in zip(_KEYS, inner, strict=False))}}}"


_KEYS = ("'a'", "'b c'", "3")
_CONTAINERS: dict[str, Callable[[list[str]], str]] = {
    "tuple": lambda inner: f"({''.join(f'{each}, ' for each in inner)})",
    "list": lambda inner: f"[{', '.join(inner)}]",
    "dict": _dict,
    "ordered": lambda inner: f"collections.OrderedDict({_dict(inner)})",
    "default": lambda inner: f"collections.defaultdict(list, {_dict(inner)})",
    "pair": lambda inner: f"Pair({', '.join(inner)})",
    "box": lambda inner: f"Box({', '.join(inner)})",
}
_OF_TWO = ("pair", "box")


LITERALS = ("None", "3", "0.5", "True", '"text"', "-1")


class Inputs:
    """The inputs of a program while they are drawn."""

    def __init__(self, draw: st.DrawFn, numbers: Iterator[int]) -> None:
        self._draw, self._numbers = draw, numbers
        self.lines: list[str] = []
        self.sizes: dict[str, str] = {}
        """What is said of the tensors with dynamic sizes."""
        self.is_named = draw(st.booleans())

    def leaf(self) -> str:
        """The expression of a literal or of a new tensor."""
        if self._draw(st.integers(0, 5)) == 5:
            return self._draw(st.sampled_from(LITERALS))
        return self.tensor()

    def tensor(self) -> str:
        """The name of a new tensor."""
        draw, name = self._draw, f"t{next(self._numbers)}"
        dtype = draw(st.sampled_from(parts.DTYPES))
        dynamic = [each for each in _DYNAMIC_SHAPES if self.is_named or not set("+*") & set(each)]
        shape = draw(st.sampled_from((*_ONE_SHAPES, *dynamic)))
        self.lines.append(f"{name} = values({shape}, torch.{dtype}, {len(self.lines)})")
        if shape in _DYNAMIC_SHAPES:
            self.sizes[name] = _DYNAMIC_SHAPES[shape]
        return name

    def size_name(self, name: str) -> str:
        """What torch is told of a dynamic size."""
        return self._draw(st.sampled_from(_NAMED_SIZES if self.is_named else _UNNAMED_SIZES)).format(name)


_HELD = (
    "nn.Parameter({v})",
    "nn.Parameter({v}.t())",
    "nn.Parameter({v}, requires_grad=False)",
    "{v}",
    "{v}.transpose(0, -1)",
    "{v}[..., ::2]",
    "{v}[:1].expand(3, 4)",
    "{v}[1:]",
)
_HELD_AGAIN = (
    "{earlier}",
    "nn.Parameter({earlier}.detach())",
    "torch.Tensor.detach({earlier})[:1]",
    "torch.Tensor.detach({earlier}).view(-1)[2:]",
)
"""How a tensor that a module holds is made."""


def state_lines(draw: st.DrawFn) -> list[str]:
    """The lines that make a model's parameters, buffers, constants and modules."""
    lines: list[str] = []
    for index in range(draw(st.integers(0, 3))):
        dtype, shape = (
            draw(st.sampled_from(parts.DTYPES)),
            draw(st.sampled_from(("(3, 4)", "(4, 4)", "(2, 4)"))),
        )
        forms = _HELD_AGAIN if lines and draw(st.integers(0, 3)) == 3 else _HELD
        made = draw(st.sampled_from(forms)).format(
            v=f"values({shape}, torch.{dtype}, {index})",
            earlier=f"self.h{draw(st.integers(0, index - 1)) if index else 0}",
        )
        buffer = f'self.register_buffer("h{index}", {made}, persistent={draw(st.booleans())})'
        # torch makes no module of a program with a buffer that is a parameter.
        is_buffer = not made.startswith(("nn.Parameter", "self.")) and draw(st.integers(0, 4)) < 4
        _hold(lines, buffer if is_buffer else f"self.h{index} = {made}")
    for name in draw(st.lists(st.sampled_from(sorted(parts.MODULES)), max_size=2, unique=True)):
        _hold(lines, f"self.{name} = {parts.MODULES[name][0]}")
    return lines


def _hold(lines: list[str], line: str) -> None:
    """Add a line, if a model can be made with it."""
    try:
        function_of((), tuple(model_lines([*lines, line])), "Model()")()
    except REFUSALS:
        return
    lines.append(line)


def model_lines(state: Sequence[str]) -> list[str]:
    """The model's class, without what it computes."""
    init = ["super().__init__()", "torch.manual_seed(0)", *state] if state else ["super().__init__()"]
    return indented("class Model(nn.Module):", indented("def __init__(self):", init))


def indented(head: str, lines: Sequence[str]) -> list[str]:
    """Lines below the one that they belong to."""
    return [head, *(f"    {line}" if line else line for line in lines)]
