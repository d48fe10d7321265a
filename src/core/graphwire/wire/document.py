"""Encodes a program or tree as a document in a wire format, and decodes it.

A tree is what every wire format encodes. Values are checked against its definition quickly, and for all formats alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from itertools import chain
from math import isfinite
from typing import Any, TypeVar, cast

import msgspec

from graphwire.errors import (
    ArchiveError,
    EncodeError,
    FormatError,
    GraphwireError,
    LimitError,
    SchemaError,
    UnknownFormatError,
    unless_interrupted,
)
from graphwire.registry.calls import attributed, blamed
from graphwire.registry.discovery import remedies_of_broken
from graphwire.registry.interfaces import (
    BoundedFormat,
    CountingFormat,
    ProgramReader,
    RecordFormat,
    Tree,
    WireFormat,
)
from graphwire.registry.registry import Registry
from graphwire.schema import SCHEMA_VERSION, Program
from graphwire.schema.texts.treespec import PROTOCOL, TreeSpec, dump_json, parse_treespec
from graphwire.schema.trees import to_tree
from graphwire.wire.limits import DEFAULT_LIMITS, Limits

MAX_DEPTH = 400
"""The nesting depth of containers that every format supports. Decoders recurse on the C stack, so it must be bounded."""

MAX_RECORDS = 1 << 22
"""The most containers of a document that is decoded to records directly, without a tree. A record takes at most 400 bytes.
A program of 100,000 nodes has 1.5 to 3 million containers."""

_PLUGIN_DEPTH = MAX_DEPTH - 48
"""The nesting depth of a plugin's tree. The document around it takes the rest of `MAX_DEPTH`."""
_PLUGIN_NODES = 1 << 24
_ABOVE = 10**4300
"""The first integer of too many decimal digits. Python converts no more of them, and other JSON readers have such limits, too."""

_TREE_TYPES = frozenset({type(None), bool, int, float, str, bytes, list, dict})
_KEY_TYPES = frozenset({str})


def check_containers(counted: int, most: int) -> None:
    """Check the number of lists and dicts in a document against a limit.

    Raises:
        LimitError: the number exceeds it.
    """
    if counted > most:
        raise LimitError(
            f"the document may hold {counted:,} lists and dicts, more than {most:,}",
            remedy="Raise Limits.containers for a file that you trust",
        )


class TreeMeasure(msgspec.Struct, frozen=True):
    """Counts and types found by `measure_tree`."""

    kinds: frozenset[type]
    """The exact types that occur as values."""
    nodes: int
    """Values, including containers but not keys."""
    depth: int
    """Nesting depth of containers; 0 for a scalar."""
    texts: int
    """Text values and keys."""
    finite: bool
    """Whether no float is inf or nan."""


def measure_tree(
    tree: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_nodes: int | None = None,
    kinds_allowed: frozenset[type] = _TREE_TYPES,
) -> TreeMeasure:
    """Check that a value is a tree, and count what it contains.

    Types must match exactly: an instance of a subclass would be decoded as its base. The check takes about 0.1 µs for each
    node, because each level is a few passes in C; a recursive walk takes several times as long.

    Raises:
        FormatError: a value has a type that wire formats lack, or a key is not text; with its place. Or an integer has more
            than 4,300 digits.
        LimitError: containers are nested deeper than `max_depth` (as in a cycle), or there are more than `max_nodes` values.
    """
    level = [tree]
    kinds: set[type] = set()
    nodes = depth = texts = 0
    finite = True
    while level:
        nodes += len(level)
        if max_nodes is not None and nodes > max_nodes:
            raise LimitError(
                f"the document holds more than {max_nodes:,} values", remedy="Raise Limits.tree_nodes"
            )
        types = list(map(type, level))
        here = set(types)
        if not here <= kinds_allowed:
            raise _foreign(tree, kinds_allowed)
        kinds |= here
        if str in here:
            texts += types.count(str)
        if int in here:
            numbers = [value for value, kind in zip(level, types, strict=True) if kind is int]
            if max(numbers) >= _ABOVE or min(numbers) <= -_ABOVE:
                raise FormatError("an integer has more than 4,300 digits")
        if float in here and finite:
            finite = all(isfinite(value) for value, kind in zip(level, types, strict=True) if kind is float)
        dicts = (
            [value for value, kind in zip(level, types, strict=True) if kind is dict] if dict in here else []
        )
        lists = (
            [value for value, kind in zip(level, types, strict=True) if kind is list] if list in here else []
        )
        if not (dicts or lists):
            break
        depth += 1
        if depth > max_depth:
            raise LimitError(f"containers are nested more than {max_depth} deep")
        if not set(map(type, chain.from_iterable(dicts))) <= _KEY_TYPES:
            raise _foreign(tree, kinds_allowed)
        texts += sum(map(len, dicts))
        level = list(chain(chain.from_iterable(map(dict.values, dicts)), chain.from_iterable(lists)))
    return TreeMeasure(frozenset(kinds), nodes, depth, texts, finite)


def check_plugin_tree(
    tree: Any, who: str, place: str, *, escaped: bool = False, besides: frozenset[type] = frozenset()
) -> None:
    """Check that every wire format can store a plugin's tree, and read it back unchanged.

    Args:
        who: the plugin that returned the tree, such as `the constant codec packed`, for the message.
        place: the value that the tree represents.
        escaped: whether the document stores the tree as ASCII-only JSON text, which can represent a lone surrogate.
        besides: additional types of values that the caller encodes.

    Raises:
        EncodeError: the value is not a tree, is too deep or too large, or has text or an integer that a format cannot
            represent.
    """
    try:
        allowed = _TREE_TYPES | besides
        measure_tree(tree, max_depth=_PLUGIN_DEPTH, max_nodes=_PLUGIN_NODES, kinds_allowed=allowed)
        if not escaped and (error := _first_foreign(tree, allowed, surrogates=True)):
            raise error
    except (FormatError, LimitError) as error:
        raise EncodeError(
            f"{who} returns a value that no tree can contain: {error.problem}",
            place=f"{place}: {error.place}" if error.place else place,
            remedy="None, bool, int, float, str, bytes, lists, and dicts with text keys make a tree (exactly these types): "
            "let the plugin write such",
        ) from error


def check_expanded_size(
    value: Any,
    what: str,
    *,
    kinds: tuple[type, ...] = (list, tuple, dict),
    inner_of: Callable[[Any], Collection[Any]] | None = None,
    most: int = _PLUGIN_NODES,
) -> None:
    """Check how many values nested containers have when every shared one is written out each time it occurs.

    The check measures each container once.

    Args:
        what: a name for the value, for the message.
        kinds: the types that contain values.
        inner_of: returns the values inside a container. By default, lists, tuples and dicts have some.
        most: the maximum number of values.

    Raises:
        EncodeError: there are more values than a document may have.
    """
    inner_of = inner_of or _inner
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    rest = [value]
    while rest:
        here = rest[-1]
        if id(here) in sizes:  # `rest` has an entry for each place that the container occurs in
            rest.pop()
            continue
        inner = inner_of(here)
        entered.add(id(here))
        inside = [each for each in inner if isinstance(each, kinds)]
        missing = [each for each in inside if id(each) not in sizes and id(each) not in entered]
        if missing:
            rest += missing
            continue
        sizes[id(here)] = 1 + len(inner) + sum([sizes.get(id(each), 1) - 1 for each in inside])
        if sizes[id(here)] > most:
            raise EncodeError(
                f"{what} is more than {most:,} values, where what it shares is written out",
                remedy="Keep less there: a container that occurs twice is written twice",
            )
        rest.pop()


def _inner(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _foreign(tree: Any, allowed: frozenset[type]) -> FormatError:
    """Return the error for the first value, in document order, that a tree cannot contain."""
    return _first_foreign(tree, allowed) or FormatError("the tree changed while it was written")


def _first_foreign(tree: Any, allowed: frozenset[type], *, surrogates: bool = False) -> FormatError | None:
    rest: list[tuple[str, Any]] = [("", tree)]
    while rest:
        place, value = rest.pop()
        kind = type(value)
        if kind not in allowed:
            return FormatError(f"a {kind.__name__} is not a type that wire formats have", place=place)
        texts = (value,) if kind is str else value if kind is dict else ()
        for text in texts:
            if type(text) is not str:
                return FormatError(f"a key is a {type(text).__name__}, not text", place=place)
            if surrogates and re.search("[\ud800-\udfff]", text):
                problem = "has a lone surrogate, which no wire format can write, because UTF-8 has none"
                return FormatError(f"{text!r:.80} {problem}", place=place, remedy="Replace it by other text")
        if kind is dict:
            rest.extend((f"{place}.{key}" if place else key, value[key]) for key in reversed(value))
        elif kind is list:
            rest.extend((f"{place}[{index}]", value[index]) for index in reversed(range(len(value))))
    return None


# ---- decodes the JSON records of an archive (configs, manifest, references), and finds keys that occur twice in JSON text


_READ_DEPTH = MAX_DEPTH + 1  # a tag of the JSON format is one more container
_T = TypeVar("_T")


def decode_json_record(decoder: msgspec.json.Decoder[_T], data: bytes, what: str, place: str) -> _T:
    """Return the value of a JSON record. Unknown fields are ignored.

    Args:
        what: a name for the record, for the message.

    Raises:
        ArchiveError: the bytes are not JSON of the decoder's type, an object has a key twice, or lists and objects are
            nested deeper than 400.
    """
    try:
        value = decoder.decode(data)
        # A value that encodes to the same bytes lost nothing: neither an unknown field nor a key.
        if msgspec.json.encode(value) != data:
            tree = msgspec.json.decode(data)
            measure_tree(tree)
            if lost_a_key(tree, data):
                raise msgspec.DecodeError("a key occurs twice in one object")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LimitError) as error:
        raise ArchiveError(f"{what} damaged: {error}", place=place) from error
    return value


def lost_a_key(tree: Any, data: bytes) -> bool:
    """Whether a reader that keeps the last of two equal keys loses texts of a JSON text.

    A tree that encodes to the same bytes lost nothing. For other texts (with spaces, as torch writes them), texts are
    counted.
    """
    if msgspec.json.encode(tree) == data:
        return False
    return 2 * measure_tree(tree, max_depth=_READ_DEPTH).texts != _quotes(data)


def _quotes(data: bytes) -> int:
    """Count the quotes that open or close a text: all except escaped ones."""
    if b"\\" not in data:
        return data.count(b'"')
    without_pairs = data.replace(rb"\\", b"")
    return without_pairs.count(b'"') - without_pairs.count(rb"\"")


def same_tree(left: Any, right: Any) -> bool:
    """Return whether two values are identical: exact types, dict order, and the bits of floats, except that all nans are equal.

    Lists, tuples and dicts are compared by their elements, however deep they are.
    """
    rest = [(left, right)]
    while rest:
        one, other = rest.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, dict):
            one, other = list(one.items()), list(other.items())
        elif isinstance(one, float):  # The text differs for -0.0 and 0.0, and is the same for every nan.
            one, other = repr(one), repr(other)
        if isinstance(one, (list, tuple)):
            if len(one) != len(other):
                return False
            rest.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True


_FLAT_DEPTH = 32
"""The nesting depth of containers is below this in a program that `_is_flat` accepts."""
HEAD_BYTES = 64
"""How many bytes of a document's start a format receives to recognize it (`WireFormat.matches`)."""


def write_document(tree: Tree, wire_format: WireFormat, *, checked: bool = False) -> bytes:
    """Encode a tree as a document.

    Args:
        checked: whether to decode the document, and compare.

    Raises:
        FormatError: the format cannot represent something in the tree, or does not read what it wrote.
        LimitError: the tree is deeper than wire formats support.
    """
    given = to_tree(tree) if checked else tree  # a copy: an encoder may change what it encodes
    try:
        data = wire_format.encode(tree)
    except FormatError as error:
        raise _first_foreign(given, _TREE_TYPES, surrogates=True) or error from error.__cause__
    except GraphwireError:
        raise
    except (RecursionError, MemoryError) as error:
        problem = f"the tree is too deep or too large to be written as {wire_format.name}"
        raise attributed(LimitError(problem), wire_format) from error
    except ImportError as error:
        raise _lacks_library(wire_format, error) from error
    except unless_interrupted(Exception) as error:
        raise FormatError(f"the tree cannot be written as {wire_format.name} ({error})") from error
    if type(data) is not bytes:
        kind = type(data).__name__
        raise FormatError(f"the wire format {wire_format.name} returns a {kind} instead of bytes")
    if checked:
        _check_written(data, given, wire_format)
    return data


def _check_written(data: bytes, tree: Tree, wire_format: WireFormat) -> None:
    """Check that both ways in which a load reads the document of a program give this tree."""
    problem, cause = "it reads something else", None
    try:
        program = read_program(data, wire_format)
        read = [read_document(data, wire_format), *([] if program is None else [to_tree(program)])]
        if all(same_tree(each, tree) for each in read):
            return
    except GraphwireError as error:
        if isinstance(error.__cause__, ImportError):
            raise blamed(error, wire_format) from error.__cause__
        problem, cause = error.problem, error
    raise _at_fault(f"does not read what it wrote: {problem}", wire_format) from cause


def _at_fault(problem: str, wire_format: WireFormat) -> FormatError:
    remedy = "Update its plugin (`graphwire check-plugin` tests it); check_format=False leaves this check out"
    return blamed(FormatError(f"the wire format {wire_format.name} {problem}", remedy=remedy), wire_format)


def write_program(program: Program, wire_format: WireFormat, *, checked: bool = False) -> bytes:
    """Encode a program as a document.

    A format that encodes records (`RecordFormat`) receives the records of a flat program, which saves building and checking a
    tree. The check is not needed there: a flat graph has bounded depth, and the schema has neither bytes nor infinite floats.

    Args:
        checked: whether to decode the document, and compare.

    Raises:
        FormatError: the format cannot represent something in the program, or does not read what it wrote.
        LimitError: its subgraphs are nested deeper than wire formats support.
    """
    if _has(wire_format, "encode_records") and _is_flat(program):
        given = to_tree(program) if checked else None
        try:
            data = cast("RecordFormat", wire_format).encode_records(program)
        except FormatError as error:
            raise _first_foreign(to_tree(program), _TREE_TYPES, surrogates=True) or error from error.__cause__
        if checked:
            if not same_tree(to_tree(program), given):  # the caller's records, perhaps
                raise _at_fault("changes the records that it encodes", wire_format)
            _check_written(data, given, wire_format)
        return data
    return write_document(to_tree(program), wire_format, checked=checked)


def write_plain_json(tree: Tree, *, bare_tokens: bool) -> bytes:
    """Encode a tree as the plain JSON that torch reads, without the escapes of graphwire's JSON format.

    Args:
        bare_tokens: whether floats that are not finite become the tokens `Infinity`, `-Infinity` and `NaN`.

    Raises:
        FormatError: the tree contains bytes, or a float that is not finite without `bare_tokens`.
    """
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=bare_tokens, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the tree cannot be written as plain JSON ({error})") from error


def _has(wire_format: WireFormat, *methods: str) -> bool:
    """Return whether a format has optional methods. `isinstance` with a Protocol takes as long as writing a small program."""
    return all(callable(getattr(wire_format, each, None)) for each in methods)


def _is_flat(program: Program) -> bool:
    """Return whether a program has nothing of unbounded nesting depth: no subgraphs, general sequences or data of codecs."""
    nodes = program.graph_module.graph.nodes
    return not (
        program.requires
        or program.encoded_values
        or program.graph_module.graph.compositions
        or {node.is_hop_single_tensor_return for node in nodes} - {None}
    )


def read_program(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Program | None:
    """Decode a document that `write_program` wrote without a tree; return None for any other, which `read_document` decodes.

    The consistency of the program's fields is not checked.
    """
    size = memoryview(data).nbytes
    if not _has(wire_format, "encode_records", "decode_program") or limits.tree_depth < _FLAT_DEPTH:
        return None
    if limits.containers < MAX_RECORDS:
        return None
    if size > limits.program_bytes:
        return None
    if size > limits.tree_nodes and _most_values(data, wire_format) > limits.tree_nodes:
        return None
    program = cast("ProgramReader", wire_format).decode_program(data)
    if not isinstance(program, Program):
        return None
    current = (program.schema_version.major, program.schema_version.minor) == SCHEMA_VERSION
    return program if current and _is_flat(program) else None


def read_program_or_tree(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Program | dict[str, Tree]:
    """Decode a document to a program if that needs no tree, otherwise to the tree.

    Raises:
        FormatError: the bytes are not a document of this format.
        SchemaError: it is no mapping.
        LimitError: the document is larger or deeper than `limits` allow.
    """
    found = read_program(data, wire_format, limits) or read_document(data, wire_format, limits)
    if not isinstance(found, (Program, dict)):
        error = SchemaError(f"a program is a mapping, not {type(found).__name__}")
        raise attributed(error, wire_format)
    return found


def _most_values(data: bytes | bytearray | memoryview, wire_format: WireFormat) -> int:
    """Return a number that the values of a document do not exceed; each takes at least one byte."""
    if _has(wire_format, "most_values"):
        return cast("CountingFormat", wire_format).most_values(data)
    return memoryview(data).nbytes


def read_document(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> Tree:
    """Decode a document to a tree, and check its types, keys, depth and count whatever the format checked.

    Raises:
        FormatError: the bytes are not a document of this format.
        LimitError: the document is larger or deeper than `limits` allow.
    """
    size = memoryview(data).nbytes
    if size > limits.program_bytes:
        raise LimitError(
            f"the document has {size:,} bytes, more than {limits.program_bytes:,}",
            remedy="Raise Limits.program_bytes for a file that you trust",
        )
    try:
        if _has(wire_format, "decode_bounded"):
            tree = cast("BoundedFormat", wire_format).decode_bounded(data, limits.containers)
        else:
            tree = wire_format.decode(data)
    except GraphwireError:
        raise
    except (RecursionError, MemoryError) as error:
        problem = f"the {wire_format.name} document is too deep or too large to be read"
        raise attributed(LimitError(problem), wire_format) from error
    except ImportError as error:
        raise _lacks_library(wire_format, error) from error
    except unless_interrupted(Exception) as error:
        raise FormatError(f"the bytes are not a {wire_format.name} document ({error})") from error
    try:
        measure_tree(tree, max_depth=min(limits.tree_depth, MAX_DEPTH), max_nodes=limits.tree_nodes)
    except FormatError as error:
        blamed(error, wire_format)
        raise
    return tree


def _lacks_library(wire_format: WireFormat, error: ImportError) -> FormatError:
    library = f"the library {error.name}" if error.name else "its library"
    return FormatError(
        f"the wire format {wire_format.name} needs {library}, which cannot be imported here ({error})",
        remedy=f"Install {library.removeprefix('the library ')}",
    )


def detect_format(data: bytes | bytearray | memoryview, registry: Registry) -> WireFormat:
    """Return the one format that recognizes a document by its first bytes. If one in the box does, no other is asked.

    Raises:
        UnknownFormatError: no format recognizes it.
        FormatError: several formats recognize it, which is a bug in one of them; or none does, and one fails at it.
    """
    head = bytes(memoryview(data).cast("B")[:HEAD_BYTES])
    failures: list[Exception] = []

    def matches(wire_format: WireFormat) -> bool:
        try:
            return wire_format.matches(head)
        except unless_interrupted(Exception) as error:  # another format may recognize the document
            failures.append(error)
            return False

    matching = [*filter(matches, registry.formats_in_box)]
    known = () if matching else tuple(registry.wire_formats.values())
    matching = matching or [*filter(matches, known)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(sorted(each.name for each in matching))
        raise FormatError(f"the document's start matches several formats: {names}", remedy="Name the format")
    if failures:
        raise failures[0]
    names = ", ".join(sorted(each.name for each in known)) or "none"
    remedy = f"Installed formats: {names}. Install the plugin that wrote it, or name the format"
    raise UnknownFormatError(
        f"no installed format recognizes a document that starts with {head[:8]!r}",
        remedy=". ".join((remedy, *remedies_of_broken(registry, "wire_format"))),
    )


# ------------------------------------------------------------------ encodes a treespec as a document in any wire format
# the pair of protocol and spec, as in torch's JSON text.


def check_treespec_protocol(protocol: int | None) -> None:
    """Check that graphwire writes a protocol of treespecs; None is the newest.

    Raises:
        SchemaError: the protocol is not supported.
    """
    if protocol is not None and protocol != PROTOCOL:
        raise SchemaError(f"treespecs have no protocol {protocol}", remedy=f"Use {PROTOCOL}, the only one")


def write_treespec(spec: TreeSpec, wire_format: WireFormat, *, checked: bool = False) -> bytes:
    """Encode a treespec as a document.

    Args:
        checked: as in `write_document`.

    Raises:
        FormatError: the format cannot represent something in a context.
        LimitError: the treespec is deeper than wire formats support.
    """
    return write_document([PROTOCOL, to_tree(spec)], wire_format, checked=checked)


def read_treespec(
    data: bytes | bytearray | memoryview, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS
) -> TreeSpec:
    """Decode a document that `write_treespec` encoded.

    Raises:
        FormatError: the bytes are not a document of this format.
        SchemaError: the document is not a treespec.
        LimitError: it exceeds `limits`, or is nested too deeply.
    """
    try:
        text = dump_json(read_document(data, wire_format, limits))
    except EncodeError as error:
        raise SchemaError("a treespec holds nothing but JSON") from error
    return parse_treespec(text)
