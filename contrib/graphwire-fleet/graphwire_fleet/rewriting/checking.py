"""Runs the programs of a file before and after it is rewritten, and compares what they return. This needs torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn

import graphwire
from graphwire.errors import DecodeError, EncodeError, GraphwireError, exception_text

BIT_EQUAL: Final = "bit-equal"
CLOSE: Final = "within tolerance"
NOT_CHECKED: Final = "no example inputs"


class CheckError(GraphwireError):
    """A rewritten program returns something else, or cannot be compared."""


def check_torch() -> None:
    """Check that torch is installed, without importing it.

    Raises:
        EncodeError: it is not.
    """
    if find_spec("torch") is None:
        raise EncodeError(
            "--check runs programs, and torch is not installed", remedy="Install torch, or leave --check out"
        )


def check(source: str, part: Path, options: Mapping[str, Any]) -> str:
    """Run each program of two files on its example inputs, and return how far all results are equal.

    What is compared: the outputs, the inputs that the program changes, and its buffers afterwards.

    Args:
        source: the file before.
        part: the file after.
        options: the options of `graphwire.open`.

    Returns:
        `bit-equal`; `within tolerance`, that of `torch.testing.assert_close`, if a result is not bit-equal; or
        `no example inputs` if no program has any.

    Raises:
        CheckError: a program returns something else, or one of both cannot be loaded or run.
    """
    with graphwire.open(source, **options) as archive:
        methods = archive.methods
    found = [_check_program(source, part, method, options) for method in methods]
    return next(level for level in (CLOSE, BIT_EQUAL, NOT_CHECKED) if level in found or level is NOT_CHECKED)


def _check_program(source: str, part: Path, method: str, options: Mapping[str, Any]) -> str:
    try:
        before = graphwire.load(source, method=method, **options)
    except GraphwireError as error:
        _refuse(method, "before", error)
    if before.example_inputs is None:
        return NOT_CHECKED
    storage = {name: value for name, value in options.items() if name != "storage_options"}
    try:
        after = graphwire.load(part, method=method, **storage)
    except GraphwireError as error:
        _refuse(method, "after", error)
    examples = before.example_inputs
    return _compare(method, _ran(method, "before", before, examples), _ran(method, "after", after, examples))


def _refuse(method: str, when: str, error: Exception) -> NoReturn:
    text = error.problem if isinstance(error, DecodeError) else exception_text(error)
    raise CheckError(
        f"the program cannot be run {when}: {text}",
        place=method,
        remedy="Make the programs run here (plugins, operators), or leave --check out",
    ) from error


def _ran(method: str, when: str, program: Any, examples: Any) -> Any:
    """Return all that a run of a program leaves behind."""
    import torch

    args, keywords = copy.deepcopy(examples)
    try:
        module = program.module()
        torch.manual_seed(0)
        with torch.no_grad():
            outputs = module(*args, **keywords)
    except Exception as error:  # noqa: BLE001 - whatever a program raises
        _refuse(method, when, error)
    return {"output": outputs, "input": (args, keywords), "buffer": dict(module.named_buffers())}


def _compare(method: str, before: Any, after: Any) -> str:
    import torch
    from torch.utils import _pytree as pytree

    (ours, spec), (theirs, other) = (
        pytree.tree_flatten_with_path(before),
        pytree.tree_flatten_with_path(after),
    )
    if spec != other:
        raise CheckError("the results have another structure after it", place=method)
    level = BIT_EQUAL
    for (path, a), (_, b) in zip(ours, theirs, strict=True):
        if _is_bit_equal(torch, a, b):
            continue
        level = CLOSE
        try:
            torch.testing.assert_close(b, a, equal_nan=True)
        except Exception as error:
            text = " ".join(str(error).split())
            raise CheckError(
                f"the result {pytree.keystr(path)} differs: {text}",
                place=method,
                remedy="The file is as it was; compare both programs with graphwire diff",
            ) from error
    return level


def _is_bit_equal(torch: Any, a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and repr(a) == repr(b)  # NaN too
    if (a.dtype, a.shape, a.layout, a.device) != (b.dtype, b.shape, b.layout, b.device):
        return False
    if a.layout is not torch.strided or a.is_quantized:
        return bool(torch.equal(a, b))
    return bool(
        torch.equal(_bytes(torch, a.detach().resolve_conj()), _bytes(torch, b.detach().resolve_conj()))
    )


def _bytes(torch: Any, tensor: Any) -> Any:
    return tensor.resolve_neg().contiguous().reshape(-1).view(torch.uint8)
