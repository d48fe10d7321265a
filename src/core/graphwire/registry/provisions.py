"""Validation of what a plugin's hooks return: each provider is read once and checked before use."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from types import FunctionType, MappingProxyType, MethodType
from typing import Any, NamedTuple

import msgspec
import pluggy

from graphwire.errors import GraphwireError, PluginError
from graphwire.registry import hookspecs
from graphwire.registry.interfaces import (
    OWN_COMMANDS,
    OWN_METADATA,
    TORCH_METADATA,
    BoundedFormat,
    Command,
    ConstantCodec,
    CountingFormat,
    FittingTreespecSerializer,
    MetadataKey,
    NodeCodec,
    OpHandler,
    OpsetUpgrader,
    ProgramReader,
    RecordFormat,
    TreespecSerializer,
    WireFormat,
)
from graphwire.registry.weight_stores import WeightStore

# ----------------------- checks of single providers: the types of their attributes, and the signatures of their methods


MOST = 10_000
"""The maximum number of providers of one hook. It stops a hook that yields without end."""


class RefusedError(Exception):
    """A provider or a hook that cannot be used."""

    def __init__(self, reason: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.names = names


_LAZY = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def call_problem(function: Any, count: int, *, may_yield: bool = False) -> str:
    """Return why a function cannot be called with `count` positional arguments; an empty string if it can."""
    plain = function.__func__ if type(function) is MethodType else function
    code = getattr(plain, "__code__", None) if type(plain) is FunctionType else None
    lazy = _LAZY & ~inspect.CO_GENERATOR if may_yield else _LAZY
    if code is not None and code.co_flags & lazy:
        return "is a generator or a coroutine, and calling it does nothing"
    if code is not None and not hasattr(plain, "__wrapped__"):
        # The same result as `inspect`, 30 times faster.
        most = code.co_argcount - (plain is not function)
        least = most - len(plain.__defaults__ or ())
        keywords = code.co_kwonlyargcount > len(plain.__kwdefaults__ or {})
        if least <= count and (count <= most or code.co_flags & inspect.CO_VARARGS) and not keywords:
            return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return ""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        given = {0: "no arguments", 1: "one argument"}.get(count, f"{count} arguments")
        return f"takes {signature!s:.80}, and is called with {given}"
    return ""


def type_text(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__:.60}"
    kind = type(value).__qualname__
    told_whole = type(value) in (str, bytes, int, bool, float, type(None))
    return f"{kind} {value!r:.60}" if told_whole else f"a {kind}"


def _shown(value: object) -> str:
    plain = type(value) in (str, bytes, int, bool, float)
    return f"{value!r:.60}" if plain else type_text(value)


def error_text(error: BaseException) -> str:
    """Return an error of foreign code on one line."""
    try:
        if isinstance(error, GraphwireError):
            return error.problem
        text = " ".join(f"{type(error).__name__}: {error}".split())
    except Exception:  # noqa: BLE001 even its text may fail
        text = f"{type(error).__name__}"
    return f"{text:.500}".removesuffix(": ")


def _text(pattern: str, what: str, flags: int = re.ASCII) -> Callable[[Any], str]:
    """Return a check that an attribute is text that matches a pattern."""
    form = re.compile(pattern, flags)

    def check(value: Any) -> str:
        # Not a subclass: it could define its own comparison and hash.
        if type(value) is not str or not value:
            raise RefusedError(f"{_shown(value)}, not text")
        if form.fullmatch(value) is None:
            raise RefusedError(f"{value!r:.80}, not {what}")
        return value

    return check


def _number(first: int) -> Callable[[Any], int]:
    """Return a check that an attribute is a number, at least `first`."""

    def check(value: Any) -> int:
        if type(value) is not int:
            raise RefusedError(f"{_shown(value)}, not an int")
        if value < first:
            raise RefusedError(f"{value}, not a number from {first}")
        return value

    return check


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise RefusedError(f"{_shown(value)}, not True or False")
    return value


_operator_name = _text(r"[A-Za-z_][\w.:]*", "a name of letters, digits, dots and colons")


def _prefixes(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise RefusedError(f"{type_text(value)}, not a sequence of text")
    prefixes = tuple(map(_operator_name, islice(value, MOST)))
    if not prefixes:
        raise RefusedError("empty")
    if twice := [each for each, count in Counter(prefixes).items() if count > 1]:
        raise RefusedError(f"a list that has {twice[0]!r:.80} twice")
    return prefixes


def _operators(value: Any) -> Mapping[str, Callable[..., None]]:
    if not isinstance(value, Mapping):
        raise RefusedError(f"{type_text(value)}, not a mapping from names to functions")
    operators = {}
    for name, function in dict(value).items():
        operators[_operator_name(name)] = function
        if not callable(function):
            raise RefusedError(f"not a mapping from names to functions: {name} has {type_text(function)}")
        if problem := call_problem(function, 1):
            raise RefusedError(f"a mapping with an unusable function: that of {name} {problem}")
    return MappingProxyType(operators)


def _names_of_operators(value: Any) -> frozenset[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise RefusedError(f"{type_text(value)}, not a collection of names")
    return frozenset(map(_operator_name, islice(value, MOST)))


_identifier = _text(r"[A-Za-z_]\w*", "an identifier")
_plain_name = _text(r"[a-z][a-z0-9_]*", "lower-case letters, digits and `_`, a letter first")
_word = _text(r"[^\s@]+", "a name without spaces and `@`", 0)
ATTRIBUTES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "wire_format": {
        "name": _plain_name,
        "suffix": _text(r"\.[a-z0-9]+", "a dot and then lower-case letters and digits"),
        "media_type": _text(r"[\w.+-]+/[\w.+-]+", "a media type such as application/json"),
    },
    "op_handler": {
        "namespace": _identifier,
        "prefixes": _prefixes,
        "opset_version": _number(0),
        "convention": _text("schema|symbolic|generic", "schema, symbolic or generic"),
    },
    "treespec_serializer": {"name": _word, "version": _number(1)},
    "opset_upgrader": {
        "namespace": _identifier,
        "from_version": _number(1),
        "to_version": _number(1),
        "operators": _operators,
    },
    "constant_codec": {"name": _plain_name},
    "metadata_key": {"name": _word},
    "weight_store": {"name": _plain_name, "takes_storages": _flag},
    "command": {
        "name": _text(r"[a-z][a-z0-9-]*", "lower-case letters, digits and dashes, a letter first"),
        "help": _text(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}", "one line of at most 200 characters", 0),
    },
}
"""The check of each required attribute, by kind and name. It returns the value to keep, or raises RefusedError."""
OPTIONAL: dict[str, dict[str, Callable[[Any], Any]]] = {
    "op_handler": {"keeps": _prefixes},
    "opset_upgrader": {"propagates": _names_of_operators},
}
"""The checks of optional attributes."""


class Hook(msgspec.Struct, frozen=True):
    """One of the eight hooks, and the interface of its providers."""

    kind: str
    """The kind of provider, such as `wire_format`."""
    name: str
    """The hook's name in `hookspecs`."""
    protocol: type
    optional: tuple[type, ...] = ()
    """Protocols of which a provider must have all methods or none."""


HOOKS: tuple[Hook, ...] = (
    Hook(
        "wire_format",
        "graphwire_wire_formats",
        WireFormat,
        (BoundedFormat, RecordFormat, ProgramReader, CountingFormat),
    ),
    Hook("op_handler", "graphwire_op_handlers", OpHandler, (NodeCodec,)),
    Hook(
        "treespec_serializer",
        "graphwire_treespec_serializers",
        TreespecSerializer,
        (FittingTreespecSerializer,),
    ),
    Hook("opset_upgrader", "graphwire_opset_upgraders", OpsetUpgrader),
    Hook("constant_codec", "graphwire_constant_codecs", ConstantCodec),
    Hook("metadata_key", "graphwire_metadata_keys", MetadataKey),
    Hook("weight_store", "graphwire_weight_stores", WeightStore),
    Hook("command", "graphwire_commands", Command),
)


class Provision(msgspec.Struct, frozen=True):
    """One provider, with its attributes at registration. Later changes of the attributes have no effect."""

    kind: str
    provider: Any
    facts: Mapping[str, Any]
    """Its attributes by name."""
    names: tuple[str, ...]
    """The names that it claims."""


class Refusal(NamedTuple):
    """Something unusable that a plugin provides, while the rest of the plugin may be usable."""

    kind: str
    """The kind of provider, such as `wire_format`; `hook` for a function that is not a hook."""
    names: tuple[str, ...]
    """The names that it claims, as far as they are known."""
    reason: str
    """One sentence without a full stop."""
    is_conflict: bool = False
    """Whether another plugin claims the same name, so that one of them may have to be removed."""

    def __str__(self) -> str:
        return self.reason


class Provisions(msgspec.Struct, frozen=True):
    """What a plugin provides: its hooks, and the accepted and refused providers."""

    hooks: tuple[str, ...]
    """The hooks that it implements and that return providers."""
    accepted: tuple[Provision, ...]
    refused: tuple[Refusal, ...]


def provisions_of(plugin: Any) -> Provisions:
    """Call a plugin's hooks, and check each provider that they return.

    Raises:
        PluginError: it implements no hook.
    """
    hooks: list[str] = []
    accepted: list[Provision] = []
    refused: list[Refusal] = []
    by_name = {hook.name: hook for hook in HOOKS}
    for name, function in _implementations(plugin):
        hook = by_name.get(name)
        try:
            if hook is None:
                refused.append(
                    Refusal("hook", (name,), f"unknown hook {name!r}; there are {', '.join(by_name)}")
                )
            else:
                provided = _returned(hook, function)
                if name not in hooks:
                    hooks.append(name)
                for provider in provided:
                    try:
                        accepted.append(_provision(hook, provider))
                    except RefusedError as error:
                        refused.append(
                            Refusal(hook.kind, error.names, f"{name} provides {type_text(provider)}, {error}")
                        )
        except RefusedError as error:
            refused.append(Refusal(hook.kind if hook else "hook", (), str(error)))
    if not hooks and not refused:
        raise PluginError(
            "it implements none of the hooks; are its functions marked with `@graphwire.hookimpl`?"
        )
    accepted, repeated = _without_repeated(accepted)
    accepted, uneven = _without_uneven(accepted)
    return Provisions(tuple(hooks), tuple(accepted), (*refused, *repeated, *uneven))


def _without_repeated(provisions: Sequence[Provision]) -> tuple[list[Provision], list[Refusal]]:
    """Drop the provisions that claim a name which another one of the same plugin claims."""
    counts = Counter(
        (each.kind, name) for each in provisions if each.kind != "metadata_key" for name in each.names
    )
    repeated = {key for key, count in counts.items() if count > 1}
    if not repeated:
        return list(provisions), []
    kept = [each for each in provisions if not any((each.kind, name) in repeated for name in each.names)]
    refused = []
    for hook in HOOKS:
        lost = [each for each in provisions if each.kind == hook.kind and each not in kept]
        if lost:
            twice = ", ".join(sorted(name for kind, name in repeated if kind == hook.kind))
            names = tuple(dict.fromkeys(name for each in lost for name in each.names))
            refused.append(Refusal(hook.kind, names, f"{hook.name} provides {twice} twice"))
    return kept, refused


def _without_uneven(provisions: Sequence[Provision]) -> tuple[list[Provision], list[Refusal]]:
    """Drop the operator handlers that disagree on the version of their namespace."""
    versions: dict[str, set[int]] = {}
    for each in provisions:
        if each.kind == "op_handler":
            versions.setdefault(each.facts["namespace"], set()).add(each.facts["opset_version"])
    uneven = {namespace for namespace, of in versions.items() if len(of) > 1}
    if not uneven:
        return list(provisions), []
    wrong = [each for each in provisions if each.kind == "op_handler" and each.facts["namespace"] in uneven]
    refused = []
    for namespace in sorted(uneven):
        names = tuple(name for each in wrong if each.facts["namespace"] == namespace for name in each.names)
        given = " and ".join(map(str, sorted(versions[namespace])))
        reason = f"its handlers of the namespace {namespace!r} give the versions {given}"
        refused.append(Refusal("op_handler", names, reason))
    return [each for each in provisions if each not in wrong], refused


# --------------------------------------------------------------------------------------------------------------- hooks


def _implementations(plugin: Any) -> list[tuple[str, Any]]:
    """Return a plugin's functions that are marked as hooks, and those that have a hook's name without the mark."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    known = {hook.name for hook in HOOKS}
    found = []
    for name in dir(plugin):
        try:
            options = manager.parse_hookimpl_opts(plugin, name)
            if options is not None:
                found.append((options.get("specname") or name, getattr(plugin, name)))
            elif name in known and not hasattr(getattr(plugin, name), f"{hookspecs.PROJECT}_spec"):
                found.append((name, _Unmarked()))
        except Exception:  # noqa: BLE001 an unreadable attribute is not a hook
            if name in known:
                found.append((name, _Unmarked()))
    marked = any(not isinstance(function, _Unmarked) for _, function in found)
    return found if marked else []


class _Unmarked:
    """Represents a function with a hook's name that lacks the mark."""


def _returned(hook: Hook, function: Any) -> list[Any]:
    """Return the providers that one implementation of a hook returns."""
    if isinstance(function, _Unmarked):
        raise RefusedError(f"{hook.name} is not marked with `@graphwire.hookimpl`")
    options = getattr(function, f"{hookspecs.PROJECT}_impl", {})
    if options.get("wrapper") or options.get("hookwrapper"):
        raise RefusedError(f"{hook.name} is a wrapper, which graphwire does not support")
    if problem := call_problem(function, 0, may_yield=True):
        raise RefusedError(f"{hook.name} {problem}")
    try:
        result = function()
        if result is None:
            raise RefusedError(f"{hook.name} returns None; is a `return` missing?")
        if isinstance(result, (str, bytes, Mapping, type)) or not isinstance(result, Iterable):
            raise RefusedError(
                f"{hook.name} returns {type_text(result)}, not a list of {hook.protocol.__name__}"
            )
        providers = list(islice(result, MOST + 1))
    except (RefusedError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 foreign code: not even its exit may affect the other plugins
        raise RefusedError(f"{hook.name} fails: {error_text(error)}") from None
    if len(providers) > MOST:
        raise RefusedError(f"{hook.name} provides more than {MOST:,} things")
    return providers


# ----------------------------------------------------------------------------------------------------------- providers


def _provision(hook: Hook, provider: Any) -> Provision:
    """Check a provider, and return it as a provision."""
    if isinstance(provider, type):
        raise RefusedError(f"not a valid {hook.protocol.__name__}: it is a class; provide an instance")
    facts: dict[str, Any] = {}
    wrong: list[str] = []
    for name, check in ATTRIBUTES[hook.kind].items():
        value = _attribute(provider, name, wrong)
        if value is None:
            continue
        try:
            facts[name] = check(value)
        except RefusedError as error:
            wrong.append(f"`{name}` is {error}")
        except Exception as error:  # noqa: BLE001 as above: for example a foreign mapping class
            wrong.append(f"`{name}` cannot be read: {error_text(error)}")
    for name, check in OPTIONAL.get(hook.kind, {}).items():
        try:
            if (value := getattr(provider, name, None)) is not None:
                facts[name] = check(value)
        except RefusedError as error:
            wrong.append(f"`{name}` is {error}")
        except Exception as error:  # noqa: BLE001 a property is foreign code
            wrong.append(f"`{name}` raises {error_text(error)}")
    wrong += _method_problems(provider, hook)
    if not wrong:
        wrong += _further_problems(hook, provider, facts)
    names = _names(hook.kind, facts)
    if wrong:
        raise RefusedError(f"not a valid {hook.protocol.__name__}: {'; '.join(wrong)}", names)
    return Provision(hook.kind, provider, MappingProxyType(facts), names)


def _attribute(provider: Any, name: str, wrong: list[str]) -> Any:
    """Return an attribute of a provider; if there is none, None, and append the problem to `wrong`."""
    try:
        value = getattr(provider, name)
    except AttributeError as error:
        hidden = isinstance(getattr(type(provider), name, None), property)
        wrong.append(f"`{name}` raises {error_text(error)}" if hidden else f"it has no `{name}`")
    except Exception as error:  # noqa: BLE001 a property is foreign code
        wrong.append(f"`{name}` raises {error_text(error)}")
    else:
        if value is not None:
            return value
        wrong.append(f"it has no `{name}`")
    return None


def _names(kind: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that a provider claims, as far as its attributes are valid."""
    if kind == "op_handler":
        return tuple(facts.get("prefixes", ()))
    if kind == "opset_upgrader":
        if not {"namespace", "from_version", "to_version"} <= facts.keys():
            return ()
        step = step_name(facts["namespace"], facts["from_version"], facts["to_version"])
        return tuple(f"{step} {operator}" for operator in facts.get("operators", ())) or (step,)
    if kind == "wire_format":
        return tuple(facts[each] for each in ("name", "suffix") if each in facts)
    return (facts["name"],) if "name" in facts else ()


def step_name(namespace: str, from_version: int, to_version: int) -> str:
    """Return the name under which a step of a namespace is listed."""
    return f"{namespace} {from_version}->{to_version}"


def _further_problems(hook: Hook, provider: Any, facts: Mapping[str, Any]) -> list[str]:
    if hook.kind == "opset_upgrader" and abs(facts["to_version"] - facts["from_version"]) != 1:
        return [
            f"it goes from version {facts['from_version']} to {facts['to_version']}, but the versions of a step are one apart"
        ]
    if hook.kind == "command" and facts["name"] in OWN_COMMANDS:
        return [f"graphwire has a command {facts['name']!r}"]
    if hook.kind == "metadata_key":
        if not isinstance(provider, MetadataKey):
            return ["it is not made by `MetadataKey(name)`"]
        if facts["name"] in OWN_METADATA:
            return [f"{facts['name']!r} is kept without being declared"]
        if facts["name"] in TORCH_METADATA:
            return [f"{facts['name']!r} is a key that torch writes into every program for its own use"]
    return []


# ------------------------------------------------------------------------------------------------------------- methods


def _methods_of(protocol: type) -> dict[str, int]:
    """Return the methods that a Protocol itself defines, with the number of arguments of each."""
    return {
        name: member.__code__.co_argcount - 1
        for name, member in vars(protocol).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


_METHODS = {
    hook.protocol: _methods_of(hook.protocol) for hook in HOOKS if hook.protocol is not MetadataKey
} | {protocol: _methods_of(protocol) for hook in HOOKS for protocol in hook.optional}


def _method_problems(provider: Any, hook: Hook) -> list[str]:
    """Return the problems with a provider's methods, required and optional."""
    wrong = []
    for name, count in _METHODS.get(hook.protocol, {}).items():
        method = _method(provider, name)
        if method is None:
            wrong.append(f"it has no method `{name}`")
        elif problem := call_problem(method, count):
            wrong.append(f"`{name}` {problem}")
    for protocol in hook.optional:
        methods = {name: _method(provider, name) for name in _METHODS[protocol]}
        there = {name: method for name, method in methods.items() if method is not None}
        if there and len(there) < len(methods):
            lacking = ", ".join(f"`{name}`" for name in methods if name not in there)
            wrong.append(f"it has `{next(iter(there))}` and no method {lacking}")
        for name, method in there.items():
            if problem := call_problem(method, _METHODS[protocol][name]):
                wrong.append(f"`{name}` {problem}")
    if (
        hook.kind == "wire_format"
        and _method(provider, "decode_program")
        and not _method(provider, "encode_records")
    ):
        wrong.append("it has `decode_program` and no method `encode_records`")
    return wrong


def _method(provider: Any, name: str) -> Any:
    try:
        method = getattr(provider, name, None)
    except Exception:  # noqa: BLE001 a property is foreign code
        return None
    return method if callable(method) else None
