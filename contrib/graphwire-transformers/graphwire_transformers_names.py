"""How transformers names the weights of its models in checkpoints: `stored_names`.

transformers renames, stacks, splits, transposes and permutes weights between a model and its checkpoint. What it does to a
model's weights is found by doing it to their indexes: each element of a tensor of indexes says where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from graphwire import Piece
from graphwire.errors import EncodeError

if TYPE_CHECKING:
    import torch

__all__ = ["pieces_of", "stored_names"]


def stored_names(model: Any, prefix: str = "") -> dict[str, str | list[Piece]]:
    """Return `names=` of a `graphwire.Checkpoint` for the checkpoint that `save_pretrained` writes of a model.

    Needs 8 bytes of memory for each element of the model's weights, on the CPU, and no elements: the model may be on the meta
    device.

    Args:
        model: a model of transformers.
        prefix: what the exported program's names have before the model's, such as `model.` for a wrapper's attribute.

    Raises:
        EncodeError: a stored tensor is not made of boxes of weights. The error names both.
    """
    import torch
    from transformers.core_model_loading import revert_weight_conversion

    # Tied weights have indexes of their own each: the checkpoint has one of their names, whichever.
    shapes: dict[str, torch.Size] = {}
    indexes: dict[str, torch.Tensor] = {}
    owners: list[tuple[int, str]] = []
    start = 0
    for name, value in model.state_dict().items():
        indexes[name] = torch.arange(start, start + value.numel()).reshape(value.shape)
        shapes[name] = value.shape
        if value.numel():
            owners.append((start, name))
        start += value.numel()
    starts = torch.tensor([first for first, _ in owners])
    found: dict[str, list[Piece]] = {}
    for stored, tensor in revert_weight_conversion(model, dict(indexes)).items():
        if tensor.numel() == 0:
            continue
        if tensor.dtype != torch.int64 or int(tensor.min()) < 0 or int(tensor.max()) >= start:
            raise EncodeError(f"transformers computes {stored!r}, and does not only move elements of weights")
        owner = torch.bucketize(tensor, starts, right=True) - 1
        for number in owner.unique().tolist():
            first, name = owners[number]
            try:
                made = list(_boxes(stored, tensor, owner == number, first, shapes[name]))
            except ValueError:
                raise EncodeError(
                    f"transformers stores {name!r} in {stored!r} in a way that no boxes describe"
                ) from None
            found.setdefault(prefix + name, []).extend(made)
    return {name: _simple(pieces, shapes[name.removeprefix(prefix)]) for name, pieces in found.items()}


def pieces_of(stored: str, tensor: torch.Tensor, shape: Sequence[int]) -> list[Piece]:
    """Return how a weight is made of a stored tensor, from the flat index in the weight of each stored element.

    Raises:
        ValueError: the elements are in no boxes.
    """
    import torch

    return list(_boxes(stored, tensor, torch.ones_like(tensor, dtype=torch.bool), 0, shape))


def _simple(pieces: list[Piece], shape: Sequence[int]) -> str | list[Piece]:
    """Return the name alone if a weight is one stored tensor in order."""
    if len(pieces) != 1:
        return pieces
    (piece,) = pieces
    order = piece.order is None or list(piece.order) == sorted(piece.order)
    whole = all(
        isinstance(each, slice) and each.indices(size) == (0, size, 1)
        for each, size in zip(piece.into, shape, strict=False)
    )
    return (
        piece.tensor if order and whole and len(piece.into) in (0, len(shape)) and not piece.part else pieces
    )


def _boxes(
    stored: str, tensor: torch.Tensor, mask: torch.Tensor, first: int, shape: Sequence[int]
) -> Iterator[Piece]:
    """Yield pieces that cover the elements of one weight in a stored tensor."""
    import torch

    box = []
    for dimension in range(tensor.ndim):
        others = [each for each in range(tensor.ndim) if each != dimension]
        there = mask.any(dim=tuple(others)) if others else mask
        places = there.nonzero().flatten()
        low, count = int(places[0]), len(places)
        step = int(places[1]) - low if count > 1 else 1
        if not torch.equal(places, torch.arange(low, low + count * step, step)):
            raise ValueError
        box.append((low, count, step))
    part = tuple(slice(low, low + (count - 1) * step + 1, step) for low, count, step in box)
    if not bool(mask[part].all()):
        raise ValueError
    whole = all(
        (low, step) == (0, 1) and count == size
        for (low, count, step), size in zip(box, tensor.shape, strict=True)
    )
    yield from _affine(stored, tensor[part] - first, box, shape, whole=whole)


def _affine(
    stored: str, indexes: torch.Tensor, box: list[tuple[int, int, int]], shape: Sequence[int], *, whole: bool
) -> Iterator[Piece]:
    """Yield pieces for a box: one if its indexes are an affine function of the position, otherwise one for each run of rows."""
    import torch

    base = int(indexes.flatten()[0])
    steps = []
    for dimension in range(indexes.ndim):
        start = [0] * indexes.ndim
        start[dimension] = min(1, indexes.shape[dimension] - 1)
        steps.append(int(indexes[tuple(start)]) - base)
    expected = torch.full((), base)
    for dimension, step in enumerate(steps):
        line = torch.arange(indexes.shape[dimension]) * step
        expected = expected + line.reshape([-1 if each == dimension else 1 for each in range(indexes.ndim)])
    if torch.equal(expected.expand(indexes.shape), indexes):
        yield _piece(stored, base, steps, box, shape, whole=whole)
        return
    for dimension in range(indexes.ndim):
        size = indexes.shape[dimension]
        if size == 1:
            continue
        moves = indexes.narrow(dimension, 1, size - 1) - indexes.narrow(dimension, 0, size - 1)
        rows = moves.movedim(dimension, 0).reshape(size - 1, -1)
        if bool((rows == rows[:, :1]).all()):  # each row is the one before, moved
            line = rows[:, 0].tolist()
            begin = 0
            while begin < size:
                end = begin + 1
                while end < size and line[end - 1] == line[begin]:
                    end += 1
                low, _, step = box[dimension]
                inner = [*box]
                inner[dimension] = (low + begin * step, end - begin, step)
                yield from _affine(
                    stored, indexes.narrow(dimension, begin, end - begin), inner, shape, whole=False
                )
                begin = end
            return
    raise ValueError


def _piece(
    stored: str,
    base: int,
    steps: Sequence[int],
    box: Sequence[tuple[int, int, int]],
    shape: Sequence[int],
    *,
    whole: bool,
) -> Piece:
    """Return the piece of a box whose dimensions move by `steps` in the weight."""
    strides, size = [0] * len(shape), 1
    for dimension in reversed(range(len(shape))):
        strides[dimension] = size
        size *= shape[dimension]
    begins, rest = [], base
    for stride in strides:
        begins.append(rest // stride)
        rest %= stride
    chosen: dict[int, tuple[int, int]] = {}
    for dimension, ((_, count, _), step) in enumerate(zip(box, steps, strict=True)):
        if count == 1:
            continue
        fits = [
            each
            for each, stride in enumerate(strides)
            if step > 0 and step % stride == 0 and begins[each] + (count - 1) * (step // stride) < shape[each]
        ]
        if not fits or fits[0] in chosen:
            raise ValueError
        chosen[fits[0]] = (dimension, step // strides[fits[0]])
    free = [dimension for dimension, (_, count, _) in enumerate(box) if count == 1]
    into: list[int | slice] = []
    order = []
    for each, begin in enumerate(begins):
        if each in chosen:
            dimension, jump = chosen[each]
            into.append(slice(begin, begin + (box[dimension][1] - 1) * jump + 1, jump))
            order.append(dimension)
        elif free:
            into.append(slice(begin, begin + 1, 1))
            order.append(free.pop(0))
        else:
            into.append(begin)
    if free:
        raise ValueError
    part = () if whole else tuple(slice(low, low + (count - 1) * step + 1, step) for low, count, step in box)
    return Piece(stored, tuple(into), part, None if order == sorted(order) else tuple(order))
