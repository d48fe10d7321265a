"""How transformers names the weights of its models in checkpoints: `stored_names`.

transformers renames, stacks, splits, transposes and permutes weights between a model and its checkpoint. What it does to a
model's weights is found by doing it to tensors without elements, which finds those that are only renamed, and then, layer by
layer, to the indexes of the others: each element of a tensor of indexes says where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from graphwire import Piece
from graphwire.errors import EncodeError

if TYPE_CHECKING:
    import torch

_Shapes: TypeAlias = "Mapping[str, Sequence[int]]"
_REMEDY = 'Name such weights yourself, with `graphwire.Piece`s, or keep them in the file: Checkpoint(…, names=, rest="file")'


class _ScatteredError(Exception):
    """The elements of a weight are in no boxes of a stored tensor."""


def stored_names(model: Any, prefix: str = "") -> dict[str, str | list[Piece]]:
    """Return `names=` of a `graphwire.Checkpoint` for the checkpoint that `save_pretrained` writes of a model.

    Reads no elements, so the model may be on the meta device. Weights that are only renamed need no memory; others, such as the
    experts of Mixtral, need about 25 bytes for each of their elements in one layer, on the CPU, and one layer of each kind is
    looked at.

    Args:
        model: a model of transformers.
        prefix: what the exported program's names have before the model's, such as `model.` for a wrapper's attribute.

    Raises:
        EncodeError: a stored tensor is computed, or not made of boxes of weights. The error names the stored tensor, the
            weights and the operations of transformers.
    """
    # Tied weights have indexes of their own each: the checkpoint has one of their names, whichever.
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    renamed = _renamed(model, shapes)
    found: dict[str, list[Piece]] = {name: [Piece(stored)] for stored, name in renamed.items()}
    rest = {name: shape for name, shape in shapes.items() if name not in found}
    converted: dict[str, list[Piece]] = {}
    stored: set[str] = set()
    known: dict[object, dict[str, list[Piece]]] = {}
    for layer, group in _layers(rest).items():
        names = _stored_shapes(model, group)
        stored |= names.keys()
        # Layers with equal names and shapes are stored alike.
        alike = (
            tuple((name.removeprefix(layer), shape) for name, shape in group.items()),
            tuple(names.values()),
        )
        if alike not in known:
            known[alike] = _numbered(_converted(model, group), group, names)
        converted |= _named(known[alike], group, names)
    if rest and stored != _stored_shapes(model, rest).keys():  # a conversion spans layers
        converted = _converted(model, rest)
    return {prefix + name: _simple(pieces, shapes[name]) for name, pieces in (found | converted).items()}


def _renamed(model: Any, shapes: _Shapes) -> dict[str, str]:
    """Return the weights that are stored as they are, under any name: each one's name by the stored one."""
    sketch = _sketch(shapes)
    names = {id(tensor): name for name, tensor in sketch.items()}
    # A tensor that was changed in place is the same object, and has another version.
    return {
        stored: names[id(tensor)]
        for stored, tensor in _reverted(model, sketch).items()
        if id(tensor) in names and tensor._version == 0
    }


def _stored_shapes(model: Any, shapes: _Shapes) -> dict[str, tuple[int, ...]]:
    """Return the stored tensors that transformers makes of weights, in the order in which it makes them."""
    reverted = _reverted(model, _sketch(shapes))
    return {stored: tuple(tensor.shape) for stored, tensor in reverted.items() if tensor.numel()}


def _numbered(
    pieces: dict[str, list[Piece]], group: Iterable[str], stored: Iterable[str]
) -> dict[str, list[Piece]]:
    """Return pieces with positions in place of the names of weights and of stored tensors."""
    weights = {name: str(index) for index, name in enumerate(group)}
    tensors = {name: str(index) for index, name in enumerate(stored)}
    return _renamed_pieces(pieces, weights, tensors)


def _named(
    pieces: dict[str, list[Piece]], group: Iterable[str], stored: Iterable[str]
) -> dict[str, list[Piece]]:
    """Return pieces with names in place of positions: the reverse of `_numbered`."""
    weights = {str(index): name for index, name in enumerate(group)}
    tensors = {str(index): name for index, name in enumerate(stored)}
    return _renamed_pieces(pieces, weights, tensors)


def _renamed_pieces(
    pieces: dict[str, list[Piece]], weights: Mapping[str, str], tensors: Mapping[str, str]
) -> dict[str, list[Piece]]:
    return {
        weights[name]: [each._replace(tensor=tensors[each.tensor]) for each in made]
        for name, made in pieces.items()
    }


def _sketch(shapes: _Shapes) -> dict[str, torch.Tensor]:
    import torch

    return {name: torch.empty(tuple(shape), device="meta") for name, shape in shapes.items()}


def _reverted(model: Any, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    from transformers.core_model_loading import revert_weight_conversion

    reverted: dict[str, torch.Tensor] = revert_weight_conversion(model, dict(tensors))
    return reverted


def _layers(shapes: _Shapes) -> dict[str, dict[str, Sequence[int]]]:
    """Return weights grouped by what their names have up to the first number."""
    groups: dict[str, dict[str, Sequence[int]]] = {}
    for name, shape in shapes.items():
        words = name.split(".")
        number = next((index for index, word in enumerate(words) if word.isdecimal()), 0)
        groups.setdefault(".".join(words[: number + 1]) if number else "", {})[name] = shape
    return groups


def _converted(model: Any, shapes: _Shapes) -> dict[str, list[Piece]]:
    """Return the pieces of weights that transformers converts together."""
    import torch

    indexes: dict[str, torch.Tensor] = {}
    owners: list[tuple[int, str]] = []
    start = 0
    for name, shape in shapes.items():
        count = torch.Size(shape).numel()
        indexes[name] = torch.arange(start, start + count).reshape(tuple(shape))
        if count:
            owners.append((start, name))
        start += count
    starts = torch.tensor([first for first, _ in owners])
    found: dict[str, list[Piece]] = {}
    # Elements that are only moved are the same with indexes that count down. Added and multiplied constants are not.
    backwards = _reverted(model, {name: start - 1 - each for name, each in indexes.items()})
    for stored, tensor in _reverted(model, indexes).items():
        if tensor.numel() == 0:
            continue
        other = backwards.pop(stored, None)
        if (
            tensor.dtype != torch.int64
            or other is None
            or other.dtype != torch.int64
            or other.shape != tensor.shape
            or int(tensor.min()) < 0
            or int(tensor.max()) >= start
            or not torch.equal(other, start - 1 - tensor)
        ):
            raise _refusal(model, shapes, stored, "computes it, and does not only move elements of weights")
        owner = torch.bucketize(tensor, starts, right=True) - 1
        for number in owner.unique().tolist():
            first, name = owners[number]
            try:
                made = list(_boxes(stored, tensor, owner == number, first, shapes[name]))
            except _ScatteredError:
                raise _refusal(
                    model, [name], stored, f"stores {name!r} in it in a way that no boxes describe"
                ) from None
            found.setdefault(name, []).extend(made)
    return found


def _refusal(model: Any, names: Iterable[str], stored: str, problem: str) -> EncodeError:
    """Return the error for a stored tensor, with the operations that make it."""
    operations = ", ".join(dict.fromkeys(each for name in names for each in _operations(model, name)))
    by = f" (by {operations})" if operations else ""
    return EncodeError(f"transformers {problem}{by}", place=f"stored tensor {stored!r}", remedy=_REMEDY)


def _operations(model: Any, name: str) -> Iterator[str]:
    """Yield the names of the operations that transformers applies to a weight before it stores it."""
    from transformers.conversion_mapping import get_model_conversion_mapping

    conversions = getattr(model, "_weight_conversions", None)
    for each in conversions or get_model_conversion_mapping(model, add_legacy=False):
        reverse = each.reverse_transform()
        operations = getattr(reverse, "operations", ())
        if operations and reverse.rename_source_key(name)[1] is not None:
            yield from (type(operation).__name__ for operation in operations)


def pieces_of(stored: str, tensor: torch.Tensor, shape: Sequence[int]) -> list[Piece]:
    """Return how a weight is made of a stored tensor.

    Args:
        stored: the name of the stored tensor.
        tensor: for each stored element, its flat index in the weight.
        shape: the sizes of the weight.

    Raises:
        EncodeError: the elements are in no boxes.
    """
    import torch

    try:
        return list(_boxes(stored, tensor, torch.ones_like(tensor, dtype=torch.bool), 0, shape))
    except _ScatteredError:
        raise EncodeError(
            f"a weight of shape {list(shape)} is stored in it in a way that no boxes describe",
            place=f"stored tensor {stored!r}",
            remedy=_REMEDY,
        ) from None


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
            raise _ScatteredError
        box.append((low, count, step))
    part = tuple(slice(low, low + (count - 1) * step + 1, step) for low, count, step in box)
    if not bool(mask[part].all()):
        raise _ScatteredError
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
    raise _ScatteredError


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
            raise _ScatteredError
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
        raise _ScatteredError
    part = () if whole else tuple(slice(low, low + (count - 1) * step + 1, step) for low, count, step in box)
    return Piece(stored, tuple(into), part, None if order == sorted(order) else tuple(order))
