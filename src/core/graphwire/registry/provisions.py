"""Checks of what a plugin's hooks return, when a registry is built. A plugin keeps the contract, or is refused whole."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from types import FunctionType, MappingProxyType
from typing import Any

import msgspec

from graphwire.errors import GraphwireError, unless_interrupted
from graphwire.registry import interfaces

MOST = 10_000
"""The maximum number of providers of one hook. It stops a hook that yields without end."""


YIELDING = ("damaged", "unused")
"""The methods that may be generators."""


class WrongError(Exception):
    """What a hook returns, or an attribute of a provider, breaks the contract."""


def shown(value: object) -> str:
    """Return a value of foreign code as text; its `repr` is called only if it is Python's own."""
    if isinstance(value, type):
        return f"the class {value.__qualname__:.60}"
    plain = type(value) in (str, bytes, bool, float, type(None))
    plain = plain or (
        type(value) is int and value.bit_length() < 1 << 10
    )  # Python refuses to write longer ones
    return f"{value!r:.60}" if plain else f"a {type(value).__qualname__}"


def error_text(error: BaseException) -> str:
    """Return an error of foreign code on one line."""
    try:
        if isinstance(error, GraphwireError):
            return str(error.problem)
        text = " ".join(f"{type(error).__name__}: {error}".split())
    except unless_interrupted(BaseException):  # even its text may fail
        text = f"{type(error).__name__}"
    return f"{text:.500}".removesuffix(": ")


def _call_problem(function: Any, count: int, *, may_yield: bool = False) -> str:
    """Return why a function cannot be called with `count` positional arguments; an empty string if it can."""
    lazy = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if lazy or (inspect.isgeneratorfunction(function) and not may_yield):
        return "is a generator or a coroutine, and calling it does nothing"
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


# ---------------------------------------- checks of attributes: each returns the value to keep, or raises WrongError


def _text(pattern: str, what: str, flags: int = re.ASCII) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        # Not a subclass: it could define its own comparison and hash.
        if type(value) is not str or not value:
            raise WrongError(f"{shown(value)}, not text")
        if re.fullmatch(pattern, value, flags) is None:
            raise WrongError(f"{value!r:.80}, not {what}")
        return value

    return check


def _number(first: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int:
            raise WrongError(f"{shown(value)}, not an int")
        if value < first:
            raise WrongError(f"{value}, not a number from {first}")
        return value

    return check


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise WrongError(f"{shown(value)}, not True or False")
    return value


_operator_name = _text(r"[A-Za-z_][\w.:]*", "a name of letters, digits, dots and colons")


def _prefixes(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise WrongError(f"{shown(value)}, not a sequence of text")
    prefixes = tuple(map(_operator_name, islice(value, MOST)))
    if not prefixes:
        raise WrongError("empty")
    if twice := [each for each, count in Counter(prefixes).items() if count > 1]:
        raise WrongError(f"a list that has {twice[0]!r:.80} twice")
    return prefixes


def _operators(value: Any) -> Mapping[str, Callable[..., None]]:
    if not isinstance(value, Mapping):
        raise WrongError(f"{shown(value)}, not a mapping from names to functions")
    operators = {_operator_name(name): function for name, function in dict(value).items()}
    for name, function in operators.items():
        if not callable(function):
            raise WrongError(f"not a mapping from names to functions: {name} has {shown(function)}")
    return MappingProxyType(operators)


def _names_of_operators(value: Any) -> frozenset[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise WrongError(f"{shown(value)}, not a collection of names")
    return frozenset(map(_operator_name, islice(value, MOST)))


_identifier = _text(r"[A-Za-z_]\w*", "an identifier")
_plain_name = _text(r"[a-z][a-z0-9_]*", "lower-case letters, digits and `_`, a letter first")
_word = _text(r"[^\s@]+", "a name without spaces and `@`", 0)


class Hook(msgspec.Struct, frozen=True):
    """One of the eight hooks, and the interface of its providers."""

    kind: str
    """The kind of provider, such as `wire_format`."""
    name: str
    """The hook's name in `interfaces`."""
    protocol: type
    attributes: Mapping[str, Callable[[Any], Any]]
    """The check of each attribute; `?` follows the name of one that may be absent."""
    optional: tuple[type, ...] = ()
    """Protocols of which a provider has all methods or none."""


HOOKS: tuple[Hook, ...] = (
    Hook(
        "wire_format",
        "graphwire_wire_formats",
        interfaces.WireFormat,
        {
            "name": _plain_name,
            "suffix": _text(r"\.[a-z0-9]+", "a dot and then lower-case letters and digits"),
            "media_type": _text(r"[\w.+-]+/[\w.+-]+", "a media type such as application/json"),
        },
        (
            interfaces.BoundedFormat,
            interfaces.RecordFormat,
            interfaces.ProgramReader,
            interfaces.CountingFormat,
        ),
    ),
    Hook(
        "op_handler",
        "graphwire_op_handlers",
        interfaces.OpHandler,
        {
            "namespace": _identifier,
            "prefixes": _prefixes,
            "opset_version": _number(0),
            "convention": _text("schema|symbolic|generic", "schema, symbolic or generic"),
            "keeps?": _prefixes,
        },
        (interfaces.NodeCodec,),
    ),
    Hook(
        "treespec_serializer",
        "graphwire_treespec_serializers",
        interfaces.TreespecSerializer,
        {"name": _word, "version": _number(1)},
        (interfaces.FittingTreespecSerializer,),
    ),
    Hook(
        "opset_upgrader",
        "graphwire_opset_upgraders",
        interfaces.OpsetUpgrader,
        {
            "namespace": _identifier,
            "from_version": _number(1),
            "to_version": _number(1),
            "operators": _operators,
            "propagates?": _names_of_operators,
        },
    ),
    Hook("constant_codec", "graphwire_constant_codecs", interfaces.ConstantCodec, {"name": _plain_name}),
    Hook("metadata_key", "graphwire_metadata_keys", interfaces.MetadataKey, {"name": _word}),
    Hook(
        "weight_store",
        "graphwire_weight_stores",
        interfaces.WeightStore,
        {"name": _plain_name, "takes_storages": _flag},
        (interfaces.PrunableStore,),
    ),
    Hook(
        "command",
        "graphwire_commands",
        interfaces.Command,
        {
            "name": _text(r"[a-z][a-z0-9-]*", "lower-case letters, digits and dashes, a letter first"),
            "help": _text(
                r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}", "one line of at most 200 characters", 0
            ),
        },
    ),
)
_BY_NAME = {hook.name: hook for hook in HOOKS}
BY_KIND = {hook.kind: hook for hook in HOOKS}
"""The hook of each kind of provider."""


class Provision(msgspec.Struct, frozen=True):
    """One provider, with its attributes at registration. Later changes of the attributes have no effect."""

    kind: str
    provider: Any
    facts: Mapping[str, Any]
    """Its attributes by name."""
    names: tuple[str, ...]
    """The names that it registers."""


class Provisions(msgspec.Struct, frozen=True):
    """What a plugin provides."""

    hooks: list[str]
    """The hooks that it implements."""
    accepted: list[Provision]
    registered: dict[str, tuple[str, ...]]
    """All names that it registers, by kind, as far as they are known."""
    problems: list[str]
    """How it breaks the contract, in sentences without a full stop."""


def provisions_of(plugin: Any, *, trusted: bool = False) -> Provisions:
    """Call a plugin's hooks, and check each provider that they return.

    Args:
        plugin: the module or object that has the hook implementations.
        trusted: do not check its functions, nor the attributes and methods of its providers. What ships in the box is checked
            by a test; here it would take a twentieth of the time of a small command.
    """
    found = Provisions([], [], {}, [])
    for name, function in _implementations(plugin, found.problems):
        try:
            hook = _BY_NAME[name]
            providers = _returned(hook, function, trusted=trusted)
        except KeyError:
            found.problems.append(f"unknown hook {name!r}; there are {', '.join(_BY_NAME)}")
            continue
        except WrongError as error:
            found.problems.append(f"{name} {error}")
            continue
        found.hooks.append(name)
        for provider in providers:
            facts, wrong = _checked(hook, provider, trusted=trusted)
            names = _names(hook.kind, facts)
            found.registered[hook.kind] = (*found.registered.get(hook.kind, ()), *names)
            if wrong:
                found.problems.append(
                    f"{name} provides {shown(provider)}, not a valid {hook.protocol.__name__}: {'; '.join(wrong)}"
                )
            else:
                found.accepted.append(Provision(hook.kind, provider, MappingProxyType(facts), names))
    found.problems.extend(_contradictions(found))
    return found


def _contradictions(found: Provisions) -> Iterable[str]:
    """Yield what is wrong between the providers of one plugin."""
    for kind, names in found.registered.items():
        twice = ", ".join(sorted(name for name, count in Counter(names).items() if count > 1))
        if twice and kind != "metadata_key":
            yield f"{BY_KIND[kind].name} provides {twice} twice"
    versions: dict[str, set[int]] = {}
    history: dict[str, set[int]] = {}
    for each in found.accepted:
        if each.kind == "op_handler":
            versions.setdefault(each.facts["namespace"], set()).add(each.facts["opset_version"])
        elif each.kind == "opset_upgrader" and each.facts["to_version"] > each.facts["from_version"]:
            history.setdefault(each.facts["namespace"], set()).add(each.facts["from_version"])
    for namespace, given in versions.items():
        if len(given) > 1:
            numbers = " and ".join(map(str, sorted(given)))
            yield f"its handlers of the namespace {namespace!r} give the versions {numbers}"
    for namespace, starts in history.items():
        gap = next((one + 1 for one, other in pairwise(sorted(starts)) if other > one + 1), None)
        if gap is not None:
            yield f"the history of {namespace!r} has no step from {gap} to {gap + 1}"


def _implementations(plugin: Any, problems: list[str]) -> list[tuple[str, Any]]:
    """Return a plugin's functions that are marked as hooks, by hook; the problem if none is, or one lacks the mark."""
    found, unmarked = [], []
    for name in dir(plugin):
        try:
            function = getattr(plugin, name)
            options = getattr(function, f"{interfaces.PROJECT}_impl", None)
        except unless_interrupted(Exception):  # an unreadable attribute is not a hook
            continue
        if isinstance(options, dict):
            found.append((options.get("specname") or name, function))
        elif name in _BY_NAME and not hasattr(function, f"{interfaces.PROJECT}_spec"):
            unmarked.append(f"{name} is not marked with `@graphwire.hookimpl`")
    if found:
        problems.extend(unmarked)
    else:
        problems.append(
            "it implements none of the hooks; are its functions marked with `@graphwire.hookimpl`?"
        )
    return found


def _returned(hook: Hook, function: Any, *, trusted: bool) -> list[Any]:
    """Return the providers that one implementation of a hook returns."""
    options = getattr(function, f"{interfaces.PROJECT}_impl")
    if options.get("wrapper") or options.get("hookwrapper"):
        raise WrongError("is a wrapper, which graphwire does not support")
    if problem := "" if trusted else _call_problem(function, 0, may_yield=True):
        raise WrongError(problem)
    try:
        result = function()
        if result is None:
            raise WrongError("returns None; is a `return` missing?")
        if isinstance(result, (str, bytes, Mapping, type)) or not isinstance(result, Iterable):
            raise WrongError(f"returns {shown(result)}, not a list of {hook.protocol.__name__}")
        providers = list(islice(result, MOST + 1))
    except WrongError:
        raise
    except unless_interrupted(
        BaseException
    ) as error:  # foreign code: not even its exit may affect the other plugins
        raise WrongError(f"fails: {error_text(error)}") from error
    if len(providers) > MOST:
        raise WrongError(f"provides more than {MOST:,} things")
    return providers


def _checked(hook: Hook, provider: Any, *, trusted: bool) -> tuple[dict[str, Any], list[str]]:
    """Return a provider's attributes, as far as they are valid, and what is wrong with the provider."""
    if isinstance(provider, type):
        return {}, ["it is a class; provide an instance"]
    facts: dict[str, Any] = {}
    wrong: list[str] = []
    for key, check in hook.attributes.items():
        name, optional = key.rstrip("?"), key.endswith("?")
        try:
            # A property that raises AttributeError is there, and broken.
            absent = optional or not hasattr(type(provider), name)
            value = getattr(provider, name, None) if absent else getattr(provider, name)
            if value is not None:
                facts[name] = value if trusted else check(value)
            elif not optional:
                wrong.append(f"it has no `{name}`")
        except WrongError as error:
            wrong.append(f"`{name}` is {error}")
        except unless_interrupted(Exception) as error:  # a property is foreign code
            wrong.append(f"`{name}` raises {error_text(error)}")
    wrong += [] if trusted else _method_problems(provider, hook, facts)
    return facts, wrong or _further_problems(hook, provider, facts)


def _names(kind: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that a provider registers, as far as its attributes are valid."""
    if kind == "op_handler":
        return tuple(facts.get("prefixes", ()))
    if kind == "opset_upgrader":
        if not {"namespace", "from_version", "to_version"} <= facts.keys():
            return ()
        step = step_name(facts["namespace"], facts["from_version"], facts["to_version"])
        return tuple(f"{step} {operator}" for operator in facts.get("operators", ())) or (step,)
    return tuple(facts[each] for each in ("name", "suffix") if each in facts)


def step_name(namespace: str, from_version: int, to_version: int) -> str:
    """Return the name under which a step of a namespace is listed."""
    return f"{namespace} {from_version}->{to_version}"


def _further_problems(hook: Hook, provider: Any, facts: Mapping[str, Any]) -> list[str]:
    if hook.kind == "opset_upgrader" and abs(facts["to_version"] - facts["from_version"]) != 1:
        return [
            f"it goes from version {facts['from_version']} to {facts['to_version']}, but the versions of a step are one apart"
        ]
    if hook.kind == "command" and facts["name"] in interfaces.OWN_COMMANDS:
        return [f"graphwire has a command {facts['name']!r}"]
    if hook.kind == "metadata_key":
        if not isinstance(provider, interfaces.MetadataKey):
            return ["it is not made by `MetadataKey(name)`"]
        section: Any = provider.section
        if section is not None and not callable(section):
            return ["its `section` is not a function"]
        if facts["name"] in interfaces.OWN_METADATA:
            return [f"{facts['name']!r} is kept without being declared"]
        if facts["name"] in interfaces.TORCH_METADATA:
            return [f"{facts['name']!r} is a key that torch writes into every program for its own use"]
    return []


def methods_of(protocol: type) -> dict[str, int]:
    """Return the methods that a Protocol itself defines, with the number of arguments of each."""
    return {
        name: member.__code__.co_argcount - 1
        for name, member in vars(protocol).items()
        if isinstance(member, FunctionType) and not name.startswith("_")
    }


def _method_problems(provider: Any, hook: Hook, facts: Mapping[str, Any]) -> list[str]:
    """Return the problems with a provider's methods, required and optional, and with its functions of operators."""
    if hook.protocol is interfaces.MetadataKey:
        return []
    wrong = [
        f"`operators` is a mapping with an unusable function: that of {name} {problem}"
        for name, function in facts.get("operators", {}).items()
        if (problem := _call_problem(function, 1))
    ]
    required = methods_of(hook.protocol)
    known = dict(required)
    for protocol in hook.optional:
        own = methods_of(protocol)
        known |= own
        there = [name for name in own if _method(provider, name) is not None]
        # `ProgramReader` is a `RecordFormat`, and needs the methods of both.
        inherited = {name for base in protocol.__mro__ if base in hook.optional for name in methods_of(base)}
        if there and (lacking := [f"`{name}`" for name in inherited if _method(provider, name) is None]):
            wrong.append(f"it has `{there[0]}` and no method {', '.join(sorted(lacking))}")
    for name, count in known.items():
        method = _method(provider, name)
        if method is None and name in required:
            wrong.append(f"it has no method `{name}`")
        elif method is not None and (problem := _call_problem(method, count, may_yield=name in YIELDING)):
            wrong.append(f"`{name}` {problem}")
    return wrong


def _method(provider: Any, name: str) -> Any:
    try:
        method = getattr(provider, name, None)
    except unless_interrupted(Exception):  # a property is foreign code
        return None
    return method if callable(method) else None
