"""Validation rules of single values: symbolic integers, tensor metadata, devices, operator names, indices."""

from __future__ import annotations

from math import prod

from msgspec.structs import astuple

from graphwire.analysis.validation import legal_names
from graphwire.analysis.validation.legal_names import is_value_name, number_text, quoted
from graphwire.analysis.validation.walk import Place, Walk, report_arms
from graphwire.schema import (
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    Composition,
    CustomObjArgument,
    Device,
    Layout,
    Node,
    SymBool,
    SymExpr,
    SymFloat,
    SymInt,
    TensorMeta,
    ValueMetadata,
    fault_of_extents,
)
from graphwire.schema.texts import GRAMMARS, check_expression

_MOST = 2**63 - 1
"""The largest number of elements that torch can count."""
_USUAL_EXTENT = 1 << 26
"""With sizes, strides and an offset up to this, no element's index exceeds the countable range."""

_USUAL_DIMENSIONS = 8
_COUNTED_DIMENSIONS = 3
"""A tensor with fewer dimensions, all of usual extent, has no more elements than torch can count."""


def check_class(walk: Walk, place: Place | None, value: CustomObjArgument) -> None:
    if not legal_names.is_plain_text(value.class_fqn):
        walk.report(place, "path", f"{quoted(value.class_fqn)} cannot name a class")


def check_target(walk: Walk, place: Place | None, target: str) -> None:
    if target in walk.good_targets:
        return
    if legal_names.is_operator_name(target):
        walk.good_targets.add(target)
    else:
        walk.report(
            place, "target", f"{quoted(target)} is not an operator name such as torch.ops.aten.add.Tensor"
        )


def check_device(walk: Walk, place: Place | None, device: Device) -> None:
    key = (device.type, device.index)
    if key in walk.good_devices:
        return
    if is_value_name(device.type) and (device.index is None or 0 <= device.index < 1 << 15):
        walk.good_devices.add(key)
    else:
        index = "no index" if device.index is None else f"index {number_text(device.index)}"
        walk.report(place, "device", f"{quoted(device.type)} with {index} is not a device")


def _check_expression(walk: Walk, place: Place | None, expression: SymExpr) -> None:
    text, hint = expression.expr_str, expression.hint
    if text not in walk.good_expressions:
        walk.check_text((place, ".expr_str"), "expression", check_expression, text)
        if walk.texts[check_expression, text] is None:
            walk.good_expressions.add(text)
    if hint is not None and (hint.as_int, hint.as_bool, hint.as_float).count(None) != 2:
        report_arms(walk, (place, ".hint"), hint)


def check_symbol(walk: Walk, place: Place, value: SymInt | SymFloat | SymBool) -> None:
    if astuple(value).count(None) != 1:
        report_arms(walk, place, value)
    if value.as_expr is not None:
        _check_expression(walk, (place, ".as_expr"), value.as_expr)


def _check_extent(walk: Walk, place: Place, extent: SymInt) -> None:
    """Check a size, stride or offset that is not a plain number in the usual range."""
    whole, expression = extent.as_int, extent.as_expr
    if whole is None and expression is not None and expression.expr_str in walk.good_expressions:
        hint = expression.hint
        if hint is None or (hint.as_int is not None and hint.as_bool is None and hint.as_float is None):
            return
    check_symbol(walk, place, extent)
    if whole is not None and type(whole) is not int:
        walk.report(place, "extent", f"{whole!r} is not an integer")
    elif whole is not None and not 0 <= whole <= _MOST:
        walk.report(place, "extent", f"{number_text(whole)} is negative or beyond 64 bits")


def is_usual_meta(walk: Walk, meta: TensorMeta) -> bool:
    """Return True if a meta is certainly valid, and False if `check_meta` must decide.

    Most metas are certainly valid: strided tensors of few dimensions, whose extents are numbers in the usual range.
    """
    sizes, strides = meta.sizes, meta.strides
    if (
        not meta.dtype
        or meta.layout != Layout.Strided
        or meta.dtype_name is not None
        or meta.layout_name is not None
        or (meta.device.type, meta.device.index) not in walk.good_devices
        or len(sizes) != len(strides)
        or len(sizes) > _USUAL_DIMENSIONS
    ):
        return False
    for extent in (*sizes, *strides, meta.storage_offset):
        whole = extent.as_int
        if type(whole) is not int or not 0 <= whole <= _USUAL_EXTENT or extent.as_expr is not None:
            return False
    return len(sizes) < _COUNTED_DIMENSIONS or prod([size.as_int or 1 for size in sizes]) <= MAX_ELEMENTS


def check_meta(walk: Walk, place: Place, meta: TensorMeta) -> None:
    sizes, strides, offset = meta.sizes, meta.strides, meta.storage_offset
    wide, count = len(sizes) > MAX_DIMENSIONS, 1
    if len(sizes) != len(strides) and (strides or meta.layout == Layout.Strided):
        walk.report((place, ".strides"), "extent", f"there are {len(sizes)} sizes and {len(strides)} strides")
    for field, extents in ((".sizes", sizes), (".strides", strides)):
        for index, extent in enumerate(extents):
            whole = extent.as_int
            if type(whole) is not int or not 0 <= whole <= _MOST or extent.as_expr is not None:
                _check_extent(walk, (place, field, index), extent)
            elif whole > _USUAL_EXTENT:
                wide = True
            if whole and extents is sizes:
                count *= whole
    if wide or count > MAX_ELEMENTS or (offset.as_int or 0) > _USUAL_EXTENT:
        _check_reach(walk, place, meta)
    if offset.as_int != 0 or type(offset.as_int) is not int or offset.as_expr is not None:
        _check_extent(walk, (place, ".storage_offset"), offset)
    if (meta.device.type, meta.device.index) not in walk.good_devices:
        check_device(walk, (place, ".device"), meta.device)
    if not meta.dtype or not meta.layout or meta.dtype_name is not None or meta.layout_name is not None:
        _check_kinds(walk, place, meta)


def check_composition(walk: Walk, place: Place, composition: Composition) -> None:
    for index, integer in enumerate(composition.integers):
        check_symbol(walk, (place, f".integers[{index}]"), integer)
    for index, part in enumerate(composition.parts):
        here = (place, f".parts[{index}]")
        check_meta(walk, (here, ".meta"), part.meta)
        if part.composition is not None:
            check_composition(walk, (here, ".composition"), part.composition)


def _check_reach(walk: Walk, place: Place, meta: TensorMeta) -> None:
    sizes, strides = [size.as_int for size in meta.sizes], [stride.as_int for stride in meta.strides]
    offset = meta.storage_offset.as_int
    if not all(value is None or 0 <= value <= _MOST for value in (*sizes, *strides, offset)):
        return  # reported by _check_extent
    if fault := fault_of_extents(sizes, strides, offset):
        walk.report(place, "extent", fault)


def _check_kinds(walk: Walk, place: Place, meta: TensorMeta) -> None:
    """Check an element type or layout that may have a name instead of a number."""
    for kind, number, name, feature in (
        ("dtype", meta.dtype, meta.dtype_name, "dtypes"),
        ("layout", meta.layout, meta.layout_name, "layouts"),
    ):
        if name is not None:
            walk.use_feature(feature, place)
            if number != 0 or not name.isidentifier() or len(name) > legal_names.MAX_NAME:
                message = f"{quoted(name)} cannot name a {kind} with the number {number:d}"
                walk.report((place, f".{kind}"), "element-type", message)
        elif number == 0:
            walk.report((place, f".{kind}"), "element-type", f"the {kind} is unknown and has no name")


def check_indices(walk: Walk, place: Place, owner: Node | ValueMetadata) -> None:
    """Check the indices of a node or value into the tables of stack frames and node sources."""
    for field, indices, end, table in (
        ("stack", owner.stack, walk.frames, "stack_frames"),
        ("from_node", owner.from_node, walk.sources, "node_sources"),
    ):
        for position, index in enumerate(indices or ()):
            if not 0 <= index < end:
                message = f"the index {number_text(index)} is outside of {table}, which has {end} entries"
                walk.report((place, f".{field}[{position}]"), "index", message)


def check_metadata(walk: Walk, place: Place, metadata: dict[str, str]) -> None:
    """Check the texts that have a grammar, and stack traces: torch writes them into comments, which they must not end."""
    for key in metadata.keys() & GRAMMARS.keys():
        walk.check_text((place, f"[{key!r}]"), "json", GRAMMARS[key], metadata[key])
    check_lines(walk, (place, "['stack_trace']"), metadata.get("stack_trace", ""))


def has_unusual_line_ends(text: str) -> bool:
    """Return whether a text has characters other than a line feed that may end a line."""
    return "\r" in text or "\0" in text


def check_lines(walk: Walk, place: Place, text: str) -> None:
    if has_unusual_line_ends(text):
        walk.report(place, "text", "a stack trace must not have line ends other than line feeds")
