"""Validation rules of single values: symbolic integers, tensor metadata, devices, operator names, indices.

The weights and constants of a program match the metadata in its graph. A program may legitimately have other weights: replacing a
weight in an exported program's state dict by one of another element type does not change the graph. Such a program runs, is saved
and loaded unchanged, and lists these values in `Program.edited_values`. For any other value, a different element type, shape,
layout or order of elements in memory means that the file is damaged, or that its weights belong to another program.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from keyword import kwlist
from math import prod
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import astuple

from graphwire.errors import GraphwireError, Problem
from graphwire.schema import (
    DTYPE_NAMES,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    Argument,
    Composition,
    CustomObjArgument,
    Device,
    Held,
    Layout,
    Node,
    PayloadMeta,
    Program,
    SymBool,
    SymExpr,
    SymFloat,
    SymInt,
    TensorMeta,
    ValueMetadata,
    fault_of_extents,
    held_in,
)
from graphwire.schema.texts.metadata import GRAMMARS

# ---------------------------------------------------------------------------------------- rules for names in a document
# Names of values and parameters become code, so they are identifiers. All others are texts.
#
# torch writes the parts of an attribute path between double quotes without escaping them, unless they are identifiers
# (`torch/fx/graph.py`, `_format_target`). So these texts have no `"` and no backslash, which would end such a text too early.
# With a line break in one, Python's compiler rejects all of the code.


MAX_NAME = 4096
"""The maximum length of a name in bytes of UTF-8. torch joins a module path into one name; real names stay below 300."""

_KEYWORDS = frozenset({*kwlist, "__debug__"})
_RESERVED = _KEYWORDS | {"self", "torch", "pytree", "fx_pytree", "NoneType"}
"""Names that values must not have: keywords, `self`, and the globals of generated code. torch itself cannot run a program
with such an input."""
_NAMES = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*\n)*")
_PATHS = re.compile(r"(?:[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\n)*")
_USUAL_PATH = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_NAMESPACE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_OPERATOR = re.compile(
    r"(?:torch(?:\.[A-Za-z_][A-Za-z0-9_]*)*|(?!torch\.)[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)|#[A-Za-z0-9_.]+:[^:\s\"'\\`]+"
)

LETTERS = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0180-\u01c3\u01cd-\u01f0\u01f4-\u024f\u1e00-\u1e99"
    "\u1e9c-\u1eff\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce\u0400-\u0481\u048a-\u052f\u0531-\u0556\u0561-\u0586\u05d0-\u05ea"
    "\u0620-\u064a\u0679-\u06d3\u0904-\u0939\u0e01-\u0e30\u0e32\u0e40-\u0e46\u10d0-\u10fa\u1200-\u1248\u3041-\u3096\u30a1-\u30fa\u30fc"
    "\u3400-\u4db5\u4e00-\u9fbb\uac00-\ud7a3"
)
MARKS = "\u0660-\u0669\u0900-\u0903\u093e-\u094d\u0966-\u096f\u0e31\u0e34-\u0e37\u0e50-\u0e59"
"""The letters of identifiers besides those of ASCII, and what may follow the first character, as ranges of code points. From
Unicode 7.0 on they are what Python takes, and NFKC changes no text of them: Python reads the name that is written."""
OWN_ATTRIBUTES = frozenset(
    """
    __abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __base__ __bases__
    __basicsize__ __call__ __class__ __closure__ __code__ __delattr__ __dict__ __dictoffset__ __dir__ __doc__ __eq__
    __firstlineno__ __flags__ __format__ __func__ __ge__ __getattr__ __getattribute__ __getstate__ __globals__ __gt__
    __hash__ __init__ __init_subclass__ __instancecheck__ __itemsize__ __le__ __lt__ __module__ __mro__ __name__
    __ne__ __new__ __or__ __prepare__ __qualname__ __reduce__ __reduce_ex__ __repr__ __ror__ __self__ __setattr__
    __setstate__ __sizeof__ __slots__ __static_attributes__ __str__ __subclasscheck__ __subclasses__ __subclasshook__
    __text_signature__ __type_params__ __weakref__ __weakrefoffset__ __wrapped__
    """.split()
)
"""What objects, classes, functions and modules of Python have themselves: a weight of such a name would replace it."""


def is_dunder(name: str) -> bool:
    """Return whether `name` has the form that Python reserves for special attributes, such as `__class__`."""
    return name[:2] == "__" and name[-2:] == "__"


def is_value_name(name: str) -> bool:
    """Return whether `name` can be a local variable of generated code: an ASCII identifier, like the names that torch makes."""
    return (
        name.isidentifier()
        and name.isascii()
        and name not in _RESERVED
        and name[:2] + name[-2:] != "____"
        and len(name) <= MAX_NAME
    )


def are_value_names(given: Collection[str]) -> bool:
    """Return True if all names certainly pass `is_value_name`, and False if each must be checked with it."""
    text = _joined(given, _NAMES)
    return text is not None and "\n__" not in text and _RESERVED.isdisjoint(given)


def is_identifier(name: str) -> bool:
    """Return whether `name` is an identifier of the profile that all readers share, and Python reads it as it is written."""
    fits = name.isidentifier() if name.isascii() else _identifier().fullmatch(name) is not None
    return fits and length_of(name) <= MAX_NAME


@functools.cache
def _identifier() -> re.Pattern[str]:
    # Few names need it, and to compile its sets of characters takes a tenth of the time of a command.
    return re.compile(f"[A-Za-z_{LETTERS}][A-Za-z0-9_{LETTERS}{MARKS}]*")


def is_parameter_name(name: str, *, keyword: bool) -> bool:
    """Return whether `name` can name an argument in an operator's schema (`self`) or, if `keyword`, a keyword argument."""
    return is_identifier(name) and not is_dunder(name) and not (keyword and name in _KEYWORDS)


def is_own_path(path: str) -> bool:
    """Return whether `path` can be an attribute that a graph reads from its own module: torch writes it as code and derives a
    value's name from it."""
    return is_value_name(path.replace(".", "_")) and not any(
        part in _KEYWORDS or is_dunder(part) for part in path.split(".")
    )


def is_attribute_path(path: str) -> bool:
    """Return whether `path` can be a qualified name, such as `layers.0.weight`."""
    if _USUAL_PATH.fullmatch(path) is not None and "__" not in path:
        return len(path) <= MAX_NAME
    return path_fault(path) is None


def path_fault(path: str) -> str | None:
    """Return what is wrong with a name that cannot be an attribute path, and None if it can."""
    if fault := text_fault(path):
        return fault
    parts = path.split(".")
    if "" in parts:
        return f"{quoted(path)} is not an attribute path such as layers.0.weight: a part is empty"
    if '"' in path or "\\" in path:
        return (
            f"{quoted(path)} is not an attribute path: torch writes such names into code between double quotes, without "
            "escapes, so they cannot have '\"' or a backslash; rename it"
        )
    if taken := OWN_ATTRIBUTES.intersection(parts):
        return f"{quoted(path)} is not an attribute path: {min(taken)} is an attribute of every module"
    return None


def text_fault(text: str) -> str | None:
    """Return what is wrong with a text that names something, and None if nothing is."""
    if not text:
        return "an empty text names nothing"
    if len(text) > MAX_NAME or length_of(text) > MAX_NAME:
        return f"{quoted(text)} has {length_of(text):,} bytes of UTF-8: names have at most {MAX_NAME:,}"
    if not text.isascii() and text.encode("utf-8", "replace") != text.encode("utf-8", "surrogatepass"):
        return f"{quoted(text)} has a lone surrogate, which no wire format can write, because UTF-8 has none; rename it"
    return None


def length_of(text: str) -> int:
    """Return the length of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def are_attribute_paths(given: Collection[str]) -> bool:
    """Return True if all names certainly pass `is_attribute_path`, and False if each must be checked with it."""
    text = _joined(given, _PATHS)
    return text is not None and "__" not in text


def _joined(given: Collection[str], form: re.Pattern[str]) -> str | None:
    """Return the names, each between line feeds, or None if one is too long or has another form."""
    text = "\n".join(["", *given, ""])
    is_good = form.fullmatch(text, 1) and text.count("\n") == len(given) + 1
    return text if is_good and max(map(len, given), default=0) <= MAX_NAME else None


def is_namespace(name: str) -> bool:
    """Return whether `name` can be the namespace of operators."""
    return len(name) <= MAX_NAME and _NAMESPACE.fullmatch(name) is not None


def is_operator_name(name: str) -> bool:
    """Return whether `name` has the form of a serialized operator: `torch.ops.aten.add.Tensor`, `#namespace:name`."""
    return len(name) <= MAX_NAME and _OPERATOR.fullmatch(name) is not None


def quoted(text: str) -> str:
    """Return `text` for a message: escaped, and truncated to 80 characters."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}…"


def number_text(number: int) -> str:
    """Return `number` for a message. Python refuses to print integers of several thousand digits, so a long one is described."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


# ---------------------------- the state of a validation during its walk through a document: tables, caches and problems


Place = tuple[Any, str] | tuple[Any, str, str | int]
"""The path before a step, the step, and an index or key if the step leads into a list or mapping. `path_of` makes text of it,
only to report a problem."""


def path_of(place: Place | None) -> str:
    """Return the text of a place, such as `graph_module.graph.nodes[7]`."""
    steps: list[str] = []
    while place is not None:
        place, step, *keys = place
        for key in keys:
            steps.append(f"[{key}]" if isinstance(key, int) else f"[{quoted(key)}]")
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".")


class Walk:
    """The state of one validation: the document's tables, caches of valid parts, and the problems found."""

    def __init__(self, program: Program, sound: Mapping[int, Any] = MappingProxyType({})) -> None:
        self.problems: list[Problem] = []
        self.sound = sound
        """See `validate`."""
        self.frames = len(program.graph_module.stack_frames)
        self.sources = len(program.graph_module.node_sources)
        self.features: dict[str, Place | None] = {}
        self.texts: dict[tuple[Callable[[str], Any], str], str | None] = {}
        self.good_expressions: set[str] = set()
        self.good_keywords: set[str] = set()
        self.good_inputs: set[tuple[str, ...]] = set()
        """Tuples with the names of all inputs of a node."""
        self.in_specs: dict[tuple[str, bool], list[tuple[str, str]]] = {}
        """The kind and message of each fault of a call's input spec, by the spec and whether torch generates names for the
        positional arguments."""
        self.calls: dict[str, Node] = {}
        """The operators that are called so far, by names that are legal, each with the first of its nodes."""
        self.good_devices: set[tuple[str, int | None]] = {("cpu", None)}
        self.alone = Argument()
        """With the `as_tensor` of an argument, it equals the argument if that has no other variant. Comparing them takes a third
        of the time of counting variants."""
        self.good_metas: set[int] = set()
        """Ids of records, which the program keeps alive. Equal metas are mostly the same record."""

    def report(self, place: Place | None, kind: str, message: str) -> None:
        self.problems.append(Problem(path_of(place), kind, message))

    def use_feature(self, feature: str, place: Place | None) -> None:
        self.features.setdefault(feature, place)

    def check_text(self, place: Place | None, kind: str, parse: Callable[[str], Any], text: str) -> None:
        """Check a text against its grammar. Parses each distinct text once, and reports every place of an invalid one."""
        key = (parse, text)
        if key not in self.texts:
            try:
                parse(text)
                self.texts[key] = None
            except (GraphwireError, ValueError) as error:
                self.texts[key] = str(error)
        fault = self.texts[key]
        if fault is not None:
            self.report(place, kind, fault)

    def check_path(self, place: Place | None, path: str) -> None:
        if not is_attribute_path(path) and (fault := path_fault(path)):
            self.report(place, "path", fault)

    def check_name(self, place: Place | None, name: str) -> None:
        if not is_value_name(name):
            fault = (
                "not a plain identifier" if len(name) <= MAX_NAME else f"longer than {MAX_NAME:,} characters"
            )
            self.report(place, "name", f"{quoted(name)} cannot name a value: it is {fault}")


def variants_of(union: Any) -> list[str]:
    """Return the variants of a union that are set."""
    return [variant for variant in union.__struct_fields__ if getattr(union, variant) is not None]


def report_variants(walk: Walk, place: Place | None, union: Any) -> None:
    found = " and ".join(variants_of(union)) or "none"
    walk.report(
        place, "variant", f"exactly one variant of {type(union).__name__} must be set; set here: {found}"
    )


_MOST = 2**63 - 1
"""The largest number of elements that torch can count."""
_USUAL_EXTENT = 1 << 26
"""With sizes, strides and an offset up to this, no element's index exceeds the countable range."""

_USUAL_DIMENSIONS = 8
_COUNTED_DIMENSIONS = 3
"""A tensor with fewer dimensions, all of usual extent, has no more elements than torch can count."""


def check_class(walk: Walk, place: Place | None, value: CustomObjArgument) -> None:
    if fault := text_fault(value.class_fqn):
        walk.report(place, "path", f"it cannot name a class: {fault}")


def check_target(walk: Walk, place: Place | None, target: str) -> None:
    if target not in walk.calls and not is_operator_name(target):
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
        from graphwire.schema.texts.infix import check_expression  # programs with static shapes have none

        walk.check_text((place, ".expr_str"), "expression", check_expression, text)
        if walk.texts[check_expression, text] is None:
            walk.good_expressions.add(text)
    if hint is not None and (hint.as_int, hint.as_bool, hint.as_float).count(None) != 2:
        report_variants(walk, (place, ".hint"), hint)


def check_symbol(walk: Walk, place: Place, value: SymInt | SymFloat | SymBool) -> None:
    if astuple(value).count(None) != 1:
        report_variants(walk, place, value)
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
        or (count := len(sizes)) != len(strides)
        or count > _USUAL_DIMENSIONS
    ):
        return False
    for extent in (*sizes, *strides, meta.storage_offset):
        whole = extent.as_int
        if type(whole) is not int or not 0 <= whole <= _USUAL_EXTENT or extent.as_expr is not None:
            return False
    return count < _COUNTED_DIMENSIONS or prod([size.as_int or 1 for size in sizes]) <= MAX_ELEMENTS


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


def check_payload(walk: Walk, place: Place, meta: TensorMeta, placement: str | None) -> None:
    """Check the description of a tensor in a config: one that has, or would have, strided elements in a record."""
    if id(meta) in walk.good_metas:
        return
    if is_usual_meta(walk, meta):  # which is strided
        walk.good_metas.add(id(meta))
        return
    check_meta(walk, place, meta)
    if placement != "fake" and meta.layout != Layout.Strided:
        walk.report((place, ".layout"), "element-type", "the elements of a payload are strided")


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


_NUMBERED = frozenset(DTYPE_NAMES.values())
"""The names of element types with a number, which is written instead."""


def _check_kinds(walk: Walk, place: Place, meta: TensorMeta) -> None:
    """Check an element type or layout that may have a name instead of a number."""
    for kind, number, name, feature in (
        ("dtype", meta.dtype, meta.dtype_name, "dtypes"),
        ("layout", meta.layout, meta.layout_name, "layouts"),
    ):
        if name is not None:
            walk.use_feature(feature, place)
            if number != 0 or not is_identifier(name) or name in _NUMBERED:
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


_SHOWN = 10
"""The largest number of sizes of a tensor to show in a message."""


class TensorFacts(msgspec.Struct, frozen=True):
    """The facts about a tensor that are compared. Sizes and strides count elements; None means that the number is unknown."""

    dtype: str
    layout: str
    sizes: list[int | None]
    strides: list[int | None]
    """Only for a strided tensor; empty for other layouts."""

    @property
    def text(self) -> str:
        """The facts as text, such as `float32[2, 3]`."""
        layout = "" if self.layout == Layout.Strided.name else f"{self.layout:.80} "
        dtype = self.dtype if self.dtype.isidentifier() else quoted(self.dtype)
        return f"{layout}{dtype:.80}{_numbers(self.sizes)}"


def tensor_facts(meta: TensorMeta) -> TensorFacts:
    """Return the facts to compare about a tensor that a record describes."""
    return TensorFacts(
        meta.dtype_text,
        meta.layout_name or meta.layout.name,
        [size.as_int for size in meta.sizes],
        [stride.as_int for stride in meta.strides] if meta.layout == Layout.Strided else [],
    )


def tensor_difference(held: TensorFacts, stated: TensorFacts) -> str:
    """Return how a tensor differs from the metadata in its graph, as one sentence; empty if it does not.

    Numbers that are unknown on one side are not compared, nor strides of dimensions of size 1 and of tensors without elements.
    """
    same_kind = (held.dtype, held.layout, len(held.sizes)) == (stated.dtype, stated.layout, len(stated.sizes))
    if not same_kind or not all(map(_agree, held.sizes, stated.sizes)):
        return f"it is {held.text}, but the graph states {stated.text}"
    strides = zip(held.sizes, held.strides, stated.strides, strict=False)
    if 0 in held.sizes or all(size == 1 or _agree(one, other) for size, one, other in strides):
        return ""
    return (
        f"it is {held.text} with strides {_numbers(held.strides)}, but the graph states "
        f"{_numbers(stated.strides)}"
    )


def payload_differences(
    program: Program,
    needed: Sequence[Held],
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the difference of each payload that does not match the graph. Ignores values that codecs
    wrote.

    Args:
        needed: what the signature refers to.
    """
    stated = program.graph_module.graph.tensor_values
    equal: set[tuple[int, int]] = set()  # ids of records that the arguments keep alive
    for held in needed:
        if (value := stated.get(held.value)) is None:
            continue
        payload = weights.get(held.name) or constants.get(held.name)
        meta = None if payload is None else payload.tensor_meta
        if meta is None or meta is value or (id(meta), id(value)) in equal:
            continue
        if meta == value:
            equal.add((id(meta), id(value)))
            continue
        if text := tensor_difference(tensor_facts(meta), tensor_facts(value)):
            yield held.name, text


def weight_problems(
    program: Program,
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Return a problem for every value in the signature that the payloads lack, or that does not match the graph.

    Args:
        unread: the names of payloads that exist and cannot be read.
    """
    needed = held_in(program.graph_module.signature)
    return [
        *missing_values(program, needed, weights, constants, unread),
        *mismatch_problems(program, payload_differences(program, needed, weights, constants)),
    ]


def missing_values(
    program: Program,
    needed: Sequence[Held],
    weights: Mapping[str, PayloadMeta],
    constants: Mapping[str, PayloadMeta],
    unread: Collection[str] = (),
) -> list[Problem]:
    """Return a problem for every value in the signature that the payloads lack. Arguments are those of `weight_problems`, and
    what the signature refers to."""
    known = (constants, program.encoded_values, unread)
    parts = {part: name for name, encoded in program.encoded_values.items() for part in encoded.tensors}
    return [
        Problem(
            _place(part),
            "missing-payload",
            f"the part {quoted(part)} of {quoted(name)} is not among the payloads",
        )
        for part, name in parts.items()
        if part not in weights and not any(part in names for names in known)
    ] + [
        Problem(
            _place(held.name),
            "missing-payload",
            f"the program's {held.kind} {quoted(held.name)} is not among its weights and constants",
        )
        for held in needed
        if held.name not in weights and not any(held.name in names for names in known)
    ]


def mismatch_problems(program: Program, differences: Iterable[tuple[str, str]]) -> list[Problem]:
    """Return a problem for each difference, by name, of a value that the program does not list as edited. A file of torch lists
    none, so there the kind is `edited`."""
    kind = "edited" if program.producer is None else "mismatch"
    return [
        Problem(_place(name), kind, text) for name, text in differences if name not in program.edited_values
    ]


def _place(name: str) -> str:
    return f"payloads[{quoted(name)}]"


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _numbers(values: list[int | None]) -> str:
    shown = ["?" if value is None else number_text(value) for value in values[:_SHOWN]]
    return f"[{', '.join(shown)}{', …' if len(values) > _SHOWN else ''}]"
