"""Converts numbers, also symbolic ones, and the metadata of a tensor (type, shape, strides, device) to and from records."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from graphwire import schema
from graphwire.analysis.validation.value_rules import TensorFacts
from graphwire.bridge.context import DecodeContext, DescribedTensor, EncodeContext, SymbolicInteger
from graphwire.bridge.torch_compat import private
from graphwire.bridge.torch_compat.fake_tensors import with_own_storage
from graphwire.errors import DecodeError, ExpressionError, shown, unless_interrupted
from graphwire.schema import ScalarType, SparseMeta
from graphwire.schema.texts.infix import MAX_REASONED, MAX_REASONED_IN_ALL, growth_of, parse_infix
from graphwire.schema.texts.operations import Expression, evaluate, parse_expression, symbols_of

if TYPE_CHECKING:
    import sympy

# ------------------------------------------------- converts symbolic integers, floats and booleans to and from records


def encode_int(context: EncodeContext, value: int | torch.SymInt) -> schema.SymInt:
    """Encode an integer, plain or symbolic. Equal values share one record."""
    if isinstance(value, int):
        return context.plain.integers[value]
    return symbolic_integer(context, value).record


def encode_size(context: EncodeContext, value: int | torch.SymInt) -> schema.SymInt:
    """Encode a size, stride or offset of a tensor. A symbolic one whose expression is a number becomes that number: no tensor
    can have another value there."""
    if isinstance(value, torch.SymInt):
        expression, _ = private.symbolic_parts(value)
        if expression.is_Integer:
            return encode_int(context, int(expression))
    return encode_int(context, value)


def symbolic_integer(context: EncodeContext, value: torch.SymInt) -> SymbolicInteger:
    """Return the record of a symbolic integer, with a key that equal integers share. Nodes with the same parts are processed
    once."""
    node = private.symbolic_node(value)
    identity = private.symbolic_identity(node)
    known = context.integers.get(identity)
    if known is None:
        expression, hint = private.symbolic_parts(value)
        hinted = None if hint is None else schema.SymExprHint(as_int=int(hint))
        text = _text(context, expression)
        record = schema.SymInt(as_expr=schema.SymExpr(text, hinted))
        known = context.integers[identity] = SymbolicInteger(node, f"{text} = {hint}", record)
    return known


def encode_number(context: EncodeContext, value: Any) -> schema.SymInt | schema.SymFloat | schema.SymBool:
    """Encode an integer, float or boolean, plain or symbolic. torch writes no hint for a boolean."""
    if isinstance(value, bool):
        return schema.SymBool(as_bool=value)
    if isinstance(value, float):
        return schema.SymFloat(as_float=schema.encode_float(value))
    if isinstance(value, (int, torch.SymInt)):
        return encode_int(context, value)
    expression, hint = private.symbolic_parts(value)
    text = _text(context, expression)
    if isinstance(value, torch.SymBool):
        return schema.SymBool(as_expr=schema.SymExpr(text))
    known = None if hint is None else schema.SymExprHint(as_float=schema.encode_float(float(hint)))
    return schema.SymFloat(as_expr=schema.SymExpr(text, known))


def _text(context: EncodeContext, expression: sympy.Basic) -> str:
    text = context.expressions.get(expression)
    if text is None:
        from graphwire.bridge.tensors.expressions import encode_expression

        text = context.expressions[expression] = encode_expression(expression)
    return text


def decode_number(context: DecodeContext, record: schema.SymInt | schema.SymFloat | schema.SymBool) -> Any:
    """Decode an integer, float or boolean into the program's shape environment."""
    kind, variant = _NUMBERS[type(record)]
    if record.as_expr is None:
        literal = getattr(record, variant)
        return schema.decode_float(literal) if kind is float else literal
    text = record.as_expr.expr_str
    hint = None if kind is bool else getattr(record.as_expr.hint, variant, None)
    if kind is float and hint is not None:
        hint = schema.decode_float(hint)
    value = context.values.get((text, hint, kind))
    if value is None:
        import sympy

        from graphwire.bridge.torch_compat.symbolic import declare_symbol, symbolic_value

        expression = _expression(context, text)
        if kind is not bool and not isinstance(expression, sympy.Expr):
            raise DecodeError(f"{text!r:.80} is a boolean, where a number is expected")
        if hint is not None and isinstance(expression, sympy.Symbol):
            declare_symbol(context.shape_env, expression, None, hint)
        value = symbolic_value(context.shape_env, expression, kind, hint)
        context.values[text, hint, kind] = value
    return value


_NUMBERS: dict[type, tuple[type, str]] = {
    schema.SymInt: (int, "as_int"),
    schema.SymFloat: (float, "as_float"),
    schema.SymBool: (bool, "as_bool"),
}
"""The Python type of each record of numbers, and the variant of its literals and hints."""


def is_cheap_to_compute(context: DecodeContext, values: Iterable[Any]) -> bool:
    """Return whether torch's shape environment may compute with `values` now: their expressions are small, few came before,
    and no symbol of the program occurs in an exponent, where a large number could replace it."""
    sizes = [private.expression_size(value, MAX_REASONED) for value in values if type(value) is not int]
    context.reasoned += sum(sizes)
    small = max(sizes, default=0) <= MAX_REASONED and context.reasoned <= MAX_REASONED_IN_ALL
    return small and not context.exponents


def _expression(context: DecodeContext, text: str) -> sympy.Basic:
    """Return the expression of a text; parse it, and declare its symbols, at the first call."""
    expression = context.expressions.get(text)
    if expression is None:
        from graphwire.bridge.tensors.expressions import build_expression

        known = len(context.symbols)
        tree = parse_expression(text)
        exponents = growth_of(tree).exponents
        expression = build_expression(tree, context.symbols)
        replaced = context.shape_env.replacements
        if exponents and any(context.symbols[name] in replaced for name in exponents):
            raise ExpressionError(
                f"{text!r:.80} has a symbol in an exponent that another expression replaces"
            )
        context.exponents.update(exponents)
        context.expressions[text] = expression
        for name in list(context.symbols)[known:]:
            _declare(context, name)
    return expression


def _declare(context: DecodeContext, name: str) -> None:
    from graphwire.bridge.torch_compat.symbolic import declare_symbol, is_unbacked

    symbol = context.symbols[name]
    ranges = context.ranges.get(name) or _widest_range(symbol)
    declare_symbol(context.shape_env, symbol, ranges, None)
    if is_unbacked(symbol):
        context.pending.add(symbol)


def _widest_range(symbol: sympy.Symbol) -> Any:
    """Return the range of a symbol without a range in the document: torch expects one for every symbol."""
    import sympy

    from graphwire.bridge.torch_compat.symbolic import ValueRanges, int_oo

    infinity = int_oo if symbol.is_integer else sympy.oo
    lower = sympy.Integer(1) if symbol.is_integer and symbol.is_positive else -infinity
    return ValueRanges(lower, infinity)


def _check_ranges(constraints: Any) -> None:
    """Raise a TypeError unless ranges map expressions to ranges. Hashing other objects may fail, or never end."""
    for expression, ranges in constraints.items():
        import sympy

        from graphwire.bridge.torch_compat.symbolic import ValueRanges

        bounds = (ranges.lower, ranges.upper) if isinstance(ranges, ValueRanges) else (None,)
        if not all(isinstance(each, (sympy.Basic, int)) for each in (expression, *bounds)):
            raise TypeError(f"{shown(expression)} has {shown(ranges)} for its range")


def encode_ranges(constraints: Mapping[sympy.Basic, Any]) -> dict[str, schema.RangeConstraint]:
    """Encode the ranges of a program's symbols and expressions, by infix text. A bound that is not an integer (a range over the
    reals) is rounded to the integers inside the range."""
    _check_ranges(constraints)
    return {
        str(expression): schema.RangeConstraint(_bound(ranges.lower, up=True), _bound(ranges.upper, up=False))
        for expression, ranges in constraints.items()
    }


def _bound(bound: Any, *, up: bool) -> int | None:
    import sympy

    from graphwire.bridge.torch_compat.symbolic import int_oo

    if bound in (int_oo, -int_oo, sympy.oo, -sympy.oo):
        return None
    return int(sympy.ceiling(bound) if up else sympy.floor(bound))


_FLOATS = ("zf", "zuf")
"""The name prefixes of float symbols, whose ranges are of real numbers."""


def decode_ranges(constraints: Mapping[str, schema.RangeConstraint]) -> dict[str, Any]:
    """Decode the ranges of a document, by infix text."""
    ranges = {}
    for text, constraint in constraints.items():
        import sympy

        from graphwire.bridge.torch_compat.symbolic import ValueRanges, int_oo

        infinity = sympy.oo if text.startswith(_FLOATS) else int_oo
        lower = -infinity if constraint.min_val is None else sympy.Integer(constraint.min_val)
        upper = infinity if constraint.max_val is None else sympy.Integer(constraint.max_val)
        ranges[text] = ValueRanges(lower, upper)
    return ranges


def encode_replacements(context: EncodeContext, symbols: Iterable[sympy.Basic]) -> dict[str, str]:
    """Return the expressions that tracing found equal to `symbols`, by symbol. Symbols without one are absent."""
    integer = next(iter(context.integers.values()), None)
    if integer is None:
        return {}
    from graphwire.bridge.torch_compat.symbolic import replacements as torch_compat_replacements

    found = torch_compat_replacements(integer.node.shape_env, symbols)
    return {str(symbol): _text(context, expression) for symbol, expression in found.items()}


def decode_replacements(context: DecodeContext, replacements: Mapping[str, str]) -> None:
    """Add the equalities of a document to the shape environment. Its graph and ranges must be decoded before."""
    for name, text in replacements.items():
        from graphwire.bridge.torch_compat.symbolic import replace_symbol

        replace_symbol(context.shape_env, context.symbols[name], _expression(context, text))


def infer_hints(context: DecodeContext) -> None:
    """Infer the hints of symbols that occur only inside linear expressions (a program with only `2*s0` still needs `s0`), then
    the hints of conditions over symbols with hints."""
    if not context.values:
        return
    backed = private.backed_values(context.shape_env)
    trees: dict[str, Expression] = {}
    for text, hint, kind in context.values:
        if type(hint) is not int or kind is not int:
            continue
        free = context.expressions[text].free_symbols
        if len(free) != 1 or not free.isdisjoint(backed):
            continue
        (symbol,) = free
        tree = trees.get(text) or trees.setdefault(text, parse_expression(text))
        value = _solution(tree, symbol.name, hint)
        if value is not None:
            from graphwire.bridge.torch_compat.symbolic import declare_symbol

            declare_symbol(context.shape_env, symbol, None, value)
    known = {
        symbol.name: int(value) if value.is_Integer else float(value) for symbol, value in backed.items()
    }
    for (text, _, kind), condition in context.values.items():
        if kind is bool and {each.name for each in context.expressions[text].free_symbols} <= known.keys():
            held = evaluate(parse_expression(text), known)
            private.hint_symbolic_value(condition, None if held is None else bool(held))


def _solution(tree: Expression, name: str, hint: int) -> int | None:
    """Return the integer value of the tree's one symbol at which the tree equals `hint`, if the tree is linear."""
    origin, next_to_it = evaluate(tree, {name: 0}), evaluate(tree, {name: 1})
    if origin is None or next_to_it is None:
        return None
    slope = next_to_it - origin
    if type(slope) is not int or type(origin) is not int or slope == 0 or (hint - origin) % slope:
        return None
    value = (hint - origin) // slope
    return value if evaluate(tree, {name: value}) == hint else None


def _unseen_symbol(name: str) -> sympy.Symbol:
    """Return a symbol with torch's assumptions for its kind."""
    import sympy

    if name.startswith(_FLOATS):
        return sympy.Symbol(name)
    return sympy.Symbol(name, positive=None if name.startswith("u") else True, integer=True)


def ranges_by_expression(context: DecodeContext, ranges: Mapping[str, Any]) -> dict[sympy.Basic, Any]:
    """Return ranges by expression, from ranges by text. The graph must be decoded before. A symbol that is not in the graph
    gets the assumptions of torch's: a positive integer, an unbacked integer, or a float."""
    result = {}
    for text, values in ranges.items():
        expression = parse_infix(text)
        for name in symbols_of(expression):
            if name not in context.symbols:
                context.symbols[name] = _unseen_symbol(name)
                _declare(context, name)
                context.pending.discard(context.symbols[name])
        try:
            from graphwire.bridge.tensors.expressions import decode_expression

            result[decode_expression(expression, context.symbols)] = values
        except ExpressionError as error:
            error.within(f"range_constraints[{text[:80]!r}]")
            raise
    return result


# ----------------------- converts what torch knows of sparse tensors, beyond any tensor's metadata, to and from records


ROW_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr)
COLUMN_COMPRESSED = (torch.sparse_csc, torch.sparse_bsc)
_BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)

_INDEX_TYPES = {ScalarType.INT: torch.int32, ScalarType.LONG: torch.int64}
_INDEX_KINDS = {dtype: kind for kind, dtype in _INDEX_TYPES.items()}


def encode_sparse(tensor: torch.Tensor) -> SparseMeta | None:
    """Return the layout record of a sparse tensor; None for a layout without further properties."""
    layout = tensor.layout
    if layout is torch.sparse_coo:
        return SparseMeta(dense_dim=tensor.dense_dim(), coalesced=tensor.is_coalesced())
    if layout not in ROW_COMPRESSED + COLUMN_COMPRESSED:
        return None
    indices = tensor.crow_indices() if layout in ROW_COMPRESSED else tensor.ccol_indices()
    block = None
    if layout in _BLOCKED:
        rows, columns = tensor.values().shape[indices.dim() : indices.dim() + 2]
        block = [int(rows), int(columns)]
    return SparseMeta(dense_dim=tensor.dense_dim(), index_dtype=_INDEX_KINDS[indices.dtype], block=block)


def decode_sparse(
    record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype, layout: torch.layout
) -> torch.Tensor:
    """Return a sparse tensor without elements on the meta device, as export makes them.

    Raises:
        DecodeError: the record does not describe a tensor of these sizes.
    """
    try:
        if layout is torch.sparse_coo:
            return _coordinates(record, sizes, dtype)
        if layout in ROW_COMPRESSED + COLUMN_COMPRESSED:
            return _compressed(record, sizes, dtype, layout)
    except unless_interrupted(RuntimeError, ValueError, KeyError) as error:
        raise DecodeError(f"a tensor of layout {layout} is described wrongly: {error}") from error
    raise DecodeError(f"a graph cannot contain a value of layout {layout}")


def _coordinates(record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    sparse = len(sizes) - record.dense_dim
    if sparse < 0:
        raise ValueError(f"{record.dense_dim} of {len(sizes)} dimensions are dense")
    indices = torch.empty((sparse, 0), dtype=torch.int64, device="meta")
    values = torch.empty((0, *sizes[sparse:]), dtype=dtype, device="meta")
    return torch.sparse_coo_tensor(
        indices, values, sizes, is_coalesced=record.coalesced, check_invariants=False, device="meta"
    )


def _compressed(
    record: SparseMeta, sizes: Sequence[Any], dtype: torch.dtype, layout: torch.layout
) -> torch.Tensor:
    batch = len(sizes) - record.dense_dim - 2
    if batch < 0:
        raise ValueError(f"{record.dense_dim} of {len(sizes)} dimensions are dense")
    block = record.block or []
    side = 0 if layout in ROW_COMPRESSED else 1
    lines = sizes[batch + side] // (block[side] if block else 1)
    index_dtype = _INDEX_TYPES[record.index_dtype]
    outer = list(sizes[:batch])
    return torch.sparse_compressed_tensor(
        torch.empty([*outer, lines + 1], dtype=index_dtype, device="meta"),
        torch.empty([*outer, 0], dtype=index_dtype, device="meta"),
        torch.empty([*outer, 0, *block, *sizes[batch + 2 :]], dtype=dtype, device="meta"),
        sizes,
        layout=layout,
        check_invariants=False,
        device="meta",
    )


def name_in_torch(kind: torch.dtype | torch.layout) -> str:
    """Return torch's name of an element type or layout, without the prefix `torch.`."""
    return str(kind).removeprefix("torch.")


SCALAR_TYPES: dict[torch.dtype, schema.ScalarType] = {
    getattr(torch, name): kind for kind, name in schema.DTYPE_NAMES.items()
}
DTYPES: dict[schema.ScalarType, torch.dtype] = {kind: dtype for dtype, kind in SCALAR_TYPES.items()}
NAMED_DTYPES: dict[str, torch.dtype] = {
    name_in_torch(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)
}

LAYOUTS: dict[schema.Layout, torch.layout] = {
    kind: getattr(torch, name) for kind, name in schema.LAYOUT_NAMES.items()
}
LAYOUT_KINDS: dict[torch.layout, schema.Layout] = {layout: kind for kind, layout in LAYOUTS.items()}
NAMED_LAYOUTS: dict[str, torch.layout] = {
    name_in_torch(each): each for each in vars(torch).values() if isinstance(each, torch.layout)
}

MEMORY_FORMATS: dict[schema.MemoryFormat, torch.memory_format] = {
    kind: getattr(torch, name) for kind, name in schema.MEMORY_FORMAT_NAMES.items()
}
MEMORY_FORMAT_KINDS: dict[torch.memory_format, schema.MemoryFormat] = {
    f: kind for kind, f in MEMORY_FORMATS.items()
}


_META = torch.device("meta")
"""torch parses the name of a device at each call."""

_MOST_DEVICE = 127
"""The largest device index: torch stores it in eight bits, and wraps around."""


def encode_device(device: torch.device) -> schema.Device:
    """Encode a device."""
    return schema.Device(device.type, device.index)


def decode_device(context: DecodeContext, record: schema.Device) -> torch.device:
    """Return the device to use for a record, as the `device=` of the load maps it."""
    key = (record.type, record.index)
    device = context.devices.get(key)
    if device is None:
        if record.index is not None and not 0 <= record.index <= _MOST_DEVICE:
            raise DecodeError(f"the device {record.type!r}:{record.index} does not exist")
        try:
            named = torch.device(*key[: 1 if record.index is None else 2])
        except unless_interrupted(RuntimeError) as error:
            raise DecodeError(
                f"this torch does not support the device {record.type!r}:{record.index}"
            ) from error
        device = context.devices[key] = context.table.place_device(named)
    return device


def encode_plain_meta(context: EncodeContext, read: private.ReadTensor) -> schema.TensorMeta:
    """Encode the metadata of a tensor with elements, as it was read."""
    facts, strides, offset = read
    _, sizes, dtype, requires_grad, _, device = facts
    key = (dtype, (sizes, strides, offset), requires_grad, device)
    record = context.tensor_metas.get(key)
    if record is None:
        record = context.tensor_metas[key] = _tensor_meta(context, facts, strides, offset)
    return record


def encode_tensor_meta(context: EncodeContext, tensor: torch.Tensor) -> schema.TensorMeta:
    """Encode the metadata of a tensor. Equal tensors share one record."""
    read = private.facts_of_fake if type(tensor) is private.FakeTensor else private.facts_of
    layout, sizes, dtype, requires_grad, is_symbolic, device = facts = read(tensor)
    if layout is not torch.strided:
        # torch writes strides of 0 here, and needs them to read the document.
        return _tensor_meta(context, facts, (0,) * len(sizes), 0, encode_sparse(tensor))
    strides, offset = tensor.stride(), tensor.storage_offset()
    numbers: tuple[Any, ...] = (sizes, strides, offset)
    if is_symbolic:
        numbers = private.symbolic_identities((*sizes, *strides, offset))
    key = (dtype, numbers, requires_grad, device)
    record = context.tensor_metas.get(key)
    if record is None:
        same: Any = key
        if is_symbolic:  # symbolic numbers with other identities may be equal
            extents = [
                n if type(n) is int else symbolic_integer(context, n).key for n in (*sizes, *strides, offset)
            ]
            same = (key[0], tuple(extents), *key[2:])
            record = context.tensor_metas.get(same)
        if record is None:
            record = context.tensor_metas[same] = _tensor_meta(context, facts, strides, offset)
        context.tensor_metas[key] = record
    return record


def _tensor_meta(
    context: EncodeContext,
    facts: private.ReadFacts,
    strides: Sequence[Any],
    offset: Any,
    sparse: schema.SparseMeta | None = None,
) -> schema.TensorMeta:
    layout, sizes, dtype, requires_grad, is_symbolic, device = facts
    kind = SCALAR_TYPES.get(dtype)
    layout_kind = schema.Layout.Strided if layout is torch.strided else LAYOUT_KINDS.get(layout)
    names: dict[str, str] = {}
    if kind is None:
        names["dtype_name"] = name_in_torch(dtype)
        context.features.add("dtypes")
    if layout_kind is None:
        names["layout_name"] = name_in_torch(layout)
        context.features.add("layouts")
    plain = context.plain
    return schema.TensorMeta(
        dtype=kind or schema.ScalarType.UNKNOWN,
        sizes=[encode_size(context, each) for each in sizes] if is_symbolic else plain[sizes],
        requires_grad=requires_grad,
        device=context.devices.get(device) or context.devices.setdefault(device, encode_device(device)),
        strides=[encode_size(context, each) for each in strides] if is_symbolic else plain[strides],
        storage_offset=plain.integers[offset] if type(offset) is int else encode_size(context, offset),
        layout=layout_kind or schema.Layout.Unknown,
        sparse=sparse,
        **names,
    )


_QUANTIZED = frozenset("qint8 quint8 qint32 quint4x2 quint2x4".split())
"""Quantized element types: constant codecs make tensors of them, and graphs have no values of them."""


def decode_dtype(record: schema.TensorMeta) -> torch.dtype:
    """Return the element type of a record.

    Raises:
        DecodeError: the installed torch does not have the type.
    """
    dtype = DTYPES.get(record.dtype)
    if dtype is not None:
        return dtype
    dtype = NAMED_DTYPES.get(record.dtype_name or "")
    if dtype is None:
        raise DecodeError(
            f"this torch has no element type {record.dtype_text!r}", remedy="Install a newer torch"
        )
    if record.dtype_name in _QUANTIZED:
        raise DecodeError(f"torch cannot make a tensor of {record.dtype_name} without its scale")
    return dtype


def decode_layout(record: schema.TensorMeta) -> torch.layout:
    """Return the layout of a record.

    Raises:
        DecodeError: the installed torch does not have the layout.
    """
    layout = LAYOUTS.get(record.layout) or NAMED_LAYOUTS.get(record.layout_name or "")
    if layout is None:
        raise DecodeError(f"this torch has no layout {record.layout_name or record.layout!r}")
    return layout


def decode_tensor_meta(
    context: DecodeContext, record: schema.TensorMeta, *, input_value: bool
) -> torch.Tensor:
    """Return a new fake tensor with the type, shape, strides and device of a record.

    Args:
        input_value: whether it represents a graph input. Tracing the program again starts from inputs, so their storage has
            its full size, unless torch must not compute with the sizes. A value inside the graph gets its own empty storage;
            with symbolic sizes that is 20 times faster to make.
    """
    key = id(record)
    found = context.described.get(key)
    if found is None:
        found = context.described[key] = _described(context, record)
    if (empty := found.empty) is not None:
        return found.make(empty())
    _, dtype, layout, sizes, strides, offset, known, _, make = found
    if layout is not torch.strided:
        meta = decode_sparse(record.sparse or schema.SparseMeta(), sizes, dtype, layout)
    elif known or not input_value or not is_cheap_to_compute(context, (*sizes, *strides, offset)):
        drawn = context.drawn.get(key)
        if drawn is not None:
            meta = with_own_storage(drawn)
        else:
            meta = torch.empty(0, dtype=dtype, device=_META).as_strided(sizes, strides, offset)
            if not known:
                context.drawn[key] = meta
    else:
        meta = torch.empty_strided(sizes, strides, dtype=dtype, device=_META)
        if type(offset) is not int or offset != 0:
            meta = meta.as_strided(sizes, strides, offset)
    return make(meta)


def _described(context: DecodeContext, record: schema.TensorMeta) -> DescribedTensor:
    dtype, layout = decode_dtype(record), decode_layout(record)
    make = context.fakes.maker(decode_device(context, record.device), record.requires_grad)
    is_strided = layout is torch.strided
    extents = [*record.sizes, *(record.strides if is_strided else ()), record.storage_offset]
    *numbers, offset = [
        each.as_int if each.as_expr is None else decode_number(context, each) for each in extents
    ]
    rank = len(record.sizes)
    sizes, strides = numbers[:rank], numbers[rank:]
    known = not context.values or all(type(number) is int for number in (*numbers, offset))
    empty = None
    if known and offset == 0 and is_strided:
        empty = functools.partial(
            torch.empty_strided, tuple(sizes), tuple(strides), dtype=dtype, device=_META
        )
    return DescribedTensor(record, dtype, layout, sizes, strides, offset, known, empty, make)


def target_device(device: str | int | torch.device | None) -> torch.device | None:
    """Return the device that a caller requests.

    Raises:
        DecodeError: torch does not support the device.
    """
    if device is None or isinstance(device, torch.device):
        return device
    try:
        return torch.device(device)
    except unless_interrupted(RuntimeError, TypeError) as error:
        raise DecodeError(
            f"torch does not support the device {device!r:.80}",
            remedy="Use torch's device names: cpu, cuda, cuda:0",
        ) from error


def visible_facts(tensor: torch.Tensor) -> TensorFacts:
    """Return the facts to compare about a tensor that a codec makes: its outer properties, without the strides of its
    parts."""
    kind = LAYOUT_KINDS.get(tensor.layout)
    layout = name_in_torch(tensor.layout) if kind is None else kind.name
    sizes = [size if type(size) is int else None for size in tensor.shape]
    return TensorFacts(name_in_torch(tensor.dtype), layout, sizes, [])
