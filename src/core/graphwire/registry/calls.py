"""Calls into plugins. A registry has providers of plugins whose methods name the plugin in whatever they raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graphwire import errors
from graphwire.process import paused_gc
from graphwire.registry.interfaces import Chunk, MetadataKey, StoredTensor, StoreIndex
from graphwire.registry.provisions import BY_KIND, MOST, YIELDING, Provision, error_text, methods_of, shown
from graphwire.schema import FileFacts, Program

if TYPE_CHECKING:
    from graphwire.registry.discovery import PluginInfo

BLOCK_VARIABLE = "GRAPHWIRE_DISABLE_PLUGINS"
"""Environment variable: plugins not to load, by entry-point or distribution name, separated by commas."""

_ERRORS: Mapping[str, type[errors.GraphwireError]] = {
    "wire_format": errors.FormatError,
    "op_handler": errors.EncodeError,
    "op_handler resolve": errors.UnknownOperatorError,
    "op_handler decode_node": errors.DecodeError,
    "treespec_serializer": errors.DecodeError,
    "treespec_serializer dump_context": errors.EncodeError,
    "opset_upgrader": errors.PluginError,
    "constant_codec": errors.EncodeError,
    "constant_codec decode": errors.DecodeError,
    "metadata_key": errors.DecodeError,
    "weight_store": errors.ArchiveError,
    "command": errors.PluginError,
}
"""The class of what a method of a kind of provider raises, where it is none of ours."""


def remedy_of_broken(plugin: PluginInfo | None) -> str:
    """Return what to do about a plugin that breaks the contract. Another one may have its name, and none its distribution."""
    named = plugin.distribution if plugin is not None and plugin.distribution else "it"
    return f"Update or uninstall it, or name {named} in {BLOCK_VARIABLE}"


def _is_pair(value: Any, first: Any, second: Any) -> bool:
    return (
        type(value) is tuple
        and len(value) == 2
        and isinstance(value[0], first)
        and isinstance(value[1], second)
    )


def _is_index(tensors: object, files: object) -> bool:
    if not (isinstance(tensors, Mapping) and isinstance(files, Mapping)):
        return False
    # Another mapping may look at a tensor only when it is asked for it.
    known = tensors.values() if type(tensors) is dict else ()
    facts: list[Any] = [*files.values()]
    return all(map(_is_stored, known)) and all(
        isinstance(each, FileFacts) and type(each.nbytes) is int and type(each.index_sha256) is str
        for each in facts
    )


def _is_stored(value: object) -> bool:
    """Whether a tensor of a store has fields of the right types. What they say is compared with the program."""
    if not isinstance(value, StoredTensor):
        return False
    fields: list[Any] = [*value]
    dtype, shape, chunks = fields
    known = isinstance(dtype, str) and _are_numbers(shape) and isinstance(chunks, (tuple, list))
    return known and all(isinstance(each, Chunk) and _is_chunk([*each]) for each in chunks)


def _is_chunk(fields: list[Any]) -> bool:
    file, offset, start, sizes, strides = fields
    numbers = [(offset,), start, sizes, () if strides is None else strides]
    return (isinstance(file, str) or hasattr(file, "read_into")) and all(map(_are_numbers, numbers))


def _are_numbers(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(each, SupportsIndex) for each in value)


_RESULTS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "wire_format encode": (lambda value: type(value) is bytes, "bytes"),
    "wire_format encode_records": (lambda value: type(value) is bytes, "bytes"),
    "wire_format decode_program": (lambda value: value is None or isinstance(value, Program), "a Program or None"),
    "wire_format most_values": (lambda value: type(value) is int, "an int"),
    "op_handler name_of": (lambda value: value is None or type(value) is str, "text or None"),
    "op_handler decode_node": (
        lambda value: value is None or _is_pair(value, (tuple, list), Mapping),
        "a pair of arguments and keyword arguments, or None",
    ),
    "treespec_serializer dump_context": (lambda value: _is_pair(value, object, object), "a version and a tree"),
    "treespec_serializer arity": (
        lambda value: value is None or (type(value) is int and 0 <= value < 1 << 63),
        "a number of children or None",
    ),
    "constant_codec encode": (
        lambda value: _is_pair(value, object, Sequence) and not isinstance(value[1], (str, bytes)),
        "a tree and a list of tensors",
    ),
    "weight_store find": (
        lambda value: value is None or (type(value) is str and len(value) <= 4096),
        "a location or None, in at most 4,096 characters",
    ),
    "weight_store open": (
        lambda value: type(value) is StoreIndex and _is_index(*value),
        "a StoreIndex of StoredTensor and FileFacts by name",
    ),
    "weight_store write": (lambda value: _is_pair(value, str, Mapping), "a location and a mapping of names"),
    "weight_store damaged": (lambda value: isinstance(value, Iterable), "an iterator of problems"),
    "weight_store unused": (lambda value: isinstance(value, Iterable), "an iterator of files"),
    "metadata_key section": (lambda value: isinstance(value, Iterable), "rows of two texts"),
    # Of a function that rewrites a node. Methods of the editor return values, and a lambda returns what they do.
    "opset_upgrader": (lambda value: value is None or isinstance(value, tuple), "None: it changes the node by its methods"),
}  # fmt: skip
"""What methods return, where graphwire would fail at something else, or ignore it."""


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "wire_format matches": bool,
    "constant_codec owns": bool,
    "weight_store keeps": bool,
    "treespec_serializer container": lambda value: dict(value) if isinstance(value, Mapping) else value,
    "op_handler decode_node": lambda value: value and (tuple(value[0]), dict(value[1])),
    "constant_codec encode": lambda value: (value[0], list(value[1])),
    "weight_store write": lambda value: (value[0], dict(value[1])),
    "weight_store open": lambda value: value._replace(files=dict(value.files)),
}
"""What graphwire reads of results, which runs code of the plugin if their classes are its own."""


_READS = frozenset(
    ("decode", "decode_bounded", "decode_program", "decode_node", "load_context", "open", "read_into")
)
"""Methods that read what a file has, so that its damage may be what they fail at."""


E = TypeVar("E", bound=errors.GraphwireError)


def blamed(error: E, provider: Any) -> E:
    """Name the plugin of a provider, or of an upgrader's function, and what to do, in an error of what it returned or did."""
    owner = getattr(provider, "owning_plugin", None)
    if owner is not None and BLOCK_VARIABLE not in error.remedy:
        _advise(error, f"The {owner} is at fault", owner)
    return error


def attributed(error: E, provider: Any) -> E:
    """Name the plugin of a provider, or the plugin itself, in an error that it may raise with good reason."""
    owner = provider if isinstance(provider, Struct) else getattr(provider, "owning_plugin", None)
    if owner is not None and BLOCK_VARIABLE not in error.remedy:
        _advise(error, f"The {owner} found this. If it is wrong", owner)
    return error


def _advise(error: errors.GraphwireError, fault: str, owner: Any) -> None:
    remedy = remedy_of_broken(owner)
    text = f"{fault}: {remedy[0].lower()}{remedy[1:]}"
    error.remedy = ". ".join(filter(None, (error.remedy, text)))


@contextmanager
def calling(
    owner: PluginInfo | None,
    what: str,
    kind: type[errors.GraphwireError],
    *passing: type[BaseException],
    reads: bool = False,
) -> Iterator[None]:
    """Name the plugin, and what to do, in what the block raises, which runs code of the plugin.

    Args:
        owner: the plugin.
        what: what is called, such as ``"`find` of the weight store 'zarr'"``.
        kind: the class that foreign exceptions become, the plugin's exit included.
        passing: exceptions that pass unchanged, besides warnings that are errors, interrupts, and what the system refuses to
            functions of graphwire. Each `GraphwireError` passes; one that the plugin raised gets its name.
        reads: whether it reads a file, which may be damaged.
    """
    try:
        yield
    except errors.unless_interrupted(BaseException) as error:
        of_system = isinstance(error, OSError) and not isinstance(error, FileExistsError)
        passes = isinstance(error, (Warning, *passing)) or (of_system and _is_own(error))
        if passes or _is_ours(error):
            if isinstance(error, errors.GraphwireError) and not _is_own(error):
                attributed(error, owner)
            raise
        name = getattr(error, "name", None) if isinstance(error, ImportError) else None
        remedy = remedy_of_broken(owner)
        if type(name) is str and name and name.partition(".")[0] != "graphwire":
            raise kind(
                f"{what} of {owner} needs the library {name}, which cannot be imported here ({error_text(error)})",
                remedy=f"Install {name}. If that is no library, the plugin is broken: {remedy}",
            ) from error
        if reads:
            remedy = f"If the file is not damaged, the plugin is broken: {remedy}"
        raise kind(f"{what} of {owner} fails: {error_text(error)}", remedy=remedy) from error


_OF_PROCESS = {
    "the default element type of torch": ("torch", "get_default_dtype", "set_default_dtype"),
    "the default device of torch": ("torch", "get_default_device", "set_default_device"),
    "whether torch is deterministic": (
        "torch",
        "get_deterministic_debug_mode",
        "set_deterministic_debug_mode",
    ),
    "whether torch records gradients": ("torch", "is_grad_enabled", "set_grad_enabled"),
    "the working directory": ("os", "getcwd", "chdir"),
}
"""What a plugin can change for others, with the module and its functions that read and set it. Filters of warnings are not
here: a library may add some when it is imported."""


_OF_THREAD = ("set_grad_enabled", "set_default_device")
"""Set what another thread cannot change for this one."""


def _other_threads() -> dict[int, tuple[int, int]]:
    """Where each other thread stands in its code. One that waits, as the helpers of notebooks and servers do, stands still."""
    own = {each.ident for each in threading.enumerate() if each.name.startswith("graphwire-")}
    own.add(threading.get_ident())
    # The call holds the interpreter's list of threads. Before Python 3.12 a collection may begin inside, what it calls lets other
    # threads run, and one that wants the list waits for ever, with the interpreter's lock.
    with paused_gc():
        frames = sys._current_frames()
    return {thread: (id(frame), frame.f_lasti) for thread, frame in frames.items() if thread not in own}


@contextmanager
def restored_process() -> Iterator[list[str]]:
    """A context that restores what its block changes of the process; it yields a list, which then says what.

    If another thread ran meanwhile, nobody knows whose change it is, so what is not the thread's own stays.
    """
    changed = list[str]()
    before = []
    for what, (module, get, set) in _OF_PROCESS.items():
        functions = sys.modules.get(module)
        if functions is None:  # torch may not be imported, and an error for each function would take long
            continue
        with errors.Ignored(OSError, AttributeError):  # a folder that is gone, or another module of the name
            before.append((what, get, set, functions, getattr(functions, get)()))
    others = _other_threads()
    try:
        yield changed
    finally:
        for what, get, set, functions, value in before:
            with errors.Ignored(OSError):
                if getattr(functions, get)() != value and (set in _OF_THREAD or others == _other_threads()):
                    # Without a device of its own, torch uses no mode for it, as before.
                    getattr(functions, set)(None if str(value) == "cpu" else value)
                    changed.append(what)


def _is_ours(error: BaseException) -> bool:
    """Whether an exception is a `GraphwireError` whose parts are texts. A plugin may raise any object of the class."""
    parts = [getattr(error, name, None) for name in ("problem", "place", "remedy")]
    return isinstance(error, errors.GraphwireError) and all(type(each) is str for each in parts)


def _is_own(error: BaseException) -> bool:
    """Whether a function of graphwire, which the plugin called, raised it."""
    trace, module = error.__traceback__, ""
    while trace is not None:
        module, trace = str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_next
    return module.startswith("graphwire.") and module != __name__


class CalledProvider:
    """A provider of a plugin. Its attributes are those at registration, its methods name the plugin in what they raise, and it is
    equal to the provider."""

    def __init__(self, provider: Any, members: Mapping[str, Any]) -> None:
        vars(self).update(members, __wrapped__=provider, __module__=getattr(provider, "__module__", ""))

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ is getattr(other, "__wrapped__", other)

    def __hash__(self) -> int:
        return id(self.__wrapped__)

    def __repr__(self) -> str:
        return f"<{shown(self.__wrapped__)} of a plugin>"


def isolated(provision: Provision, owner: PluginInfo) -> Provision:
    """Return a provision of a plugin whose provider names the plugin in whatever its methods raise."""
    kind, facts, provider = provision.kind, provision.facts, provision.provider
    if isinstance(provider, MetadataKey):
        section = provider.section
        if section is not None:
            called = _called(section, "section", kind, f"the metadata key {provider.name!r}", owner)
            provider = replace(provider, section=called)
        return replace(provision, provider=provider)
    name = facts.get("name") or facts["namespace"]
    shown_name = f"the {'operator handler' if kind == 'op_handler' else kind.replace('_', ' ')} {name!r}"
    if kind == "opset_upgrader":
        shown_name = f"the step {name} {facts['from_version']} -> {facts['to_version']}"
        operators = {
            operator: _called(function, operator, kind, shown_name, owner)
            for operator, function in facts["operators"].items()
        }
        facts = MappingProxyType({**facts, "operators": MappingProxyType(operators)})
    methods = {
        method: _called(function, method, kind, shown_name, owner)
        for protocol in (BY_KIND[kind].protocol, *BY_KIND[kind].optional)
        for method in methods_of(protocol)
        if callable(function := getattr(provider, method, None))
    }
    return replace(
        provision,
        facts=facts,
        provider=CalledProvider(provider, {**facts, **methods, "owning_plugin": owner}),
    )


def _called(
    function: Callable[..., Any], method: str, kind: str, of: str, owner: PluginInfo
) -> Callable[..., Any]:
    error = _ERRORS.get(f"{kind} {method}", _ERRORS[kind])
    checked = _RESULTS.get(f"{kind} {method}", _RESULTS.get(kind))
    plain = _PLAIN.get(f"{kind} {method}")
    what = f"`{method}` of {of}"
    # A reader or writer of bytes turns these two into an error of its own.
    by_caller = kind == "wire_format" and method in ("encode", "decode", "decode_bounded")
    passing = (MemoryError, RecursionError) if by_caller else ()

    def call(*given: Any, **options: Any) -> Any:
        with calling(owner, what, error, *passing, reads=method in _READS):
            with restored_process() as changed:
                result = function(*given, **options)
            if changed:
                raise error(
                    f"{what} of {owner} changes {changed[0]} for the whole process, which is restored",
                    remedy=remedy_of_broken(owner),
                )
            if checked is not None and not checked[0](result):
                raise error(
                    f"{what} of {owner} returns {shown(result)}, not {checked[1]}",
                    remedy=remedy_of_broken(owner),
                )
            if plain is not None:
                result = plain(result)
        if isinstance(result, StoreIndex):
            named, tensors = _NamedBytes(of, owner), result.tensors
            if type(tensors) is not dict:
                return result._replace(tensors=_CalledMapping(tensors, owner, what, named))
            return result._replace(tensors={name: named.of(each) for name, each in tensors.items()})
        if method == "section":
            return _each(map(_row, result), owner, what, error, MOST)
        return _each(result, owner, what, error) if method in YIELDING else result

    if kind == "opset_upgrader":  # what it did to a node may turn out to be wrong when the program is checked
        vars(call)["owning_plugin"] = owner
    return wraps(function)(call) if hasattr(function, "__name__") else call


_MOST_ITEMS = 1 << 24
"""The most that a method of a plugin may yield; it stops one that yields without end."""


def _each(
    items: Iterable[Any],
    owner: PluginInfo,
    what: str,
    error: type[errors.GraphwireError],
    most: int = _MOST_ITEMS,
) -> Iterator[Any]:
    with calling(owner, what, error):
        for count, each in enumerate(items):
            if count == most:
                raise ValueError(f"it yields more than {most:,}")
            yield each


def _row(row: Any) -> tuple[str, str]:
    if type(row) not in (tuple, list) or len(row) != 2:
        raise ValueError(f"a row is {shown(row)}, not a pair of texts")
    return f"{row[0]}", f"{row[1]}"


class _NamedBytes(Struct, frozen=True):
    """Lets the bytes that a store reads by itself name its plugin, as the store's methods do."""

    store: str
    owner: PluginInfo

    def of(self, tensor: StoredTensor) -> StoredTensor:
        """Return a tensor of the store whose bytes do so."""
        if all(isinstance(each.file, str) for each in tensor.chunks):
            return tensor
        return tensor._replace(chunks=tuple(map(self._of_chunk, tensor.chunks)))

    def _of_chunk(self, chunk: Chunk) -> Chunk:
        if isinstance(chunk.file, str):
            return chunk
        called = _called(chunk.file.read_into, "read_into", "weight_store", self.store, self.owner)
        return chunk._replace(
            file=CalledProvider(chunk.file, {"read_into": called, "owning_plugin": self.owner})
        )


class _CalledMapping(Mapping[str, Any]):
    """The tensors of a store that looks at one when it is asked for it."""

    def __init__(self, tensors: Mapping[str, Any], owner: PluginInfo, what: str, named: _NamedBytes) -> None:
        self._tensors, self._owner, self._what, self._named = tensors, owner, what, named

    def __getitem__(self, name: str) -> Any:
        with calling(self._owner, self._what, errors.ArchiveError, KeyError):
            found = self._tensors[name]
        if not _is_stored(found):
            raise errors.ArchiveError(
                f"{self._what} of {self._owner} returns {shown(found)} as {shown(name)}, not a StoredTensor",
                remedy=remedy_of_broken(self._owner),
            )
        return self._named.of(found)

    def __iter__(self) -> Iterator[str]:
        return _each(self._tensors, self._owner, self._what, errors.ArchiveError)

    def __len__(self) -> int:
        with calling(self._owner, self._what, errors.ArchiveError):
            return len(self._tensors)
