"""Plugins that are broken or that want what is another's, each as a module's source, and what is said of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from given_plugins import put_distribution

PRELUDE = """
from graphwire import hookimpl
from graphwire.registry.interfaces import MetadataKey, OpsetStep

class Format:
    name, suffix, media_type = "NAME", ".SUFFIX", "application/x"
    def encode(self, tree): return b"x"
    def decode(self, buffer): return None
    def matches(self, head): return False

class Handler:
    namespace, prefixes, opset_version, convention = "NAME", ("torch.ops.NAME.",), 1, "schema"
    def name_of(self, target): return None
    def resolve(self, name): return None

class Serializer:
    name, version = "NAME.Box", 1
    def container(self): return Format
    def dump_context(self, context): return 1, None
    def load_context(self, tree, version): return None
    def arity(self, container, context): return None

class Codec:
    name = "NAME"
    def owns(self, value): return False
    def encode(self, value): return {}, []
    def decode(self, tree, tensors): return None
"""
RELU = "torch.ops.aten.relu.default"


def formats(changes: str) -> str:
    return f"class Own(Format):\n    {changes}\n\n@hookimpl\ndef graphwire_wire_formats(): return [Own()]\n"


def handlers(changes: str) -> str:
    return f"class Own(Handler):\n    {changes}\n\n@hookimpl\ndef graphwire_op_handlers(): return [Own()]\n"


def serializers(changes: str) -> str:
    return f"class Own(Serializer):\n    {changes}\n\n@hookimpl\ndef graphwire_treespec_serializers(): return [Own()]\n"


def codecs(changes: str) -> str:
    return f"class Own(Codec):\n    {changes}\n\n@hookimpl\ndef graphwire_constant_codecs(): return [Own()]\n"


def steps(*given: str) -> str:
    return f"@hookimpl\ndef graphwire_opset_upgraders(): return [{', '.join(given)}]\n"


def keys(*given: str) -> str:
    return f"@hookimpl\ndef graphwire_metadata_keys(): return [{', '.join(given)}]\n"


class Rival(NamedTuple):
    """One plugin."""

    source: str
    reason: str = ""
    """What its reason says when nobody else's plugin is there; empty for one that is active then."""
    together: str = ""
    """What its reason says when all of these are there, if that is something else."""


_WITHOUT = "@hookimpl\ndef graphwire_wire_formats():"
_SAME_STEP = steps(
    'OpsetStep("shared", 1, 2, {"shared.f": print})', 'OpsetStep("shared", 2, 3, {"shared.NAME": print})'
)

RIVALS: dict[str, Rival] = {
    # on import
    "absent": Rival(
        "import no_such_module_anywhere",
        "it needs a library that is not installed (ModuleNotFoundError: No module named 'no_such_module_anywhere')",
    ),
    "syntax": Rival("def", "SyntaxError"),
    "exits": Rival("import sys; sys.exit(0)", "SystemExit: 0"),
    "stops": Rival("class Stop(BaseException): pass\nraise Stop('now')", "Stop: now"),
    "mute": Rival("class Mute(Exception):\n    def __str__(self): raise self\nraise Mute", "Mute"),
    "recurses": Rival("def f(): f()\nf()", "RecursionError"),
    "prints": Rival("print('{')\n" + formats("pass")),
    "newer": Rival(
        "GRAPHWIRE_API = 1000\n" + formats("pass"), "written for version 1000 of the plugin interface"
    ),
    # hooks
    "forgot": Rival(f"{_WITHOUT} [Format()]", "graphwire_wire_formats returns None; is a `return` missing?"),
    "klass": Rival(
        f"{_WITHOUT} return [Format]",
        "provides the class Format, not a valid WireFormat: it is a class; provide an instance",
    ),
    "text": Rival(f"{_WITHOUT} return 'json'", "returns 'json', not a list of WireFormat"),
    "mapping": Rival(f"{_WITHOUT} return {{'a': Format()}}", "returns a dict, not a list"),
    "endless": Rival(f"{_WITHOUT}\n    while True: yield Format()", "provides more than 10,000 things"),
    "late": Rival(f"{_WITHOUT}\n    yield Format()\n    raise OSError('late')", "OSError: late"),
    "lazy": Rival(
        f"{_WITHOUT.replace('def', 'async def')} return [Format()]", "coroutine, and calling it does nothing"
    ),
    "asks": Rival(
        _WITHOUT.replace("()", "(tree)") + " return []", "takes (tree), and is called with no arguments"
    ),
    "misspelt": Rival(
        _WITHOUT.replace("formats", "format") + " return []", "unknown hook 'graphwire_wire_format'"
    ),
    "unmarked": Rival(
        formats("pass") + "\ndef graphwire_op_handlers(): return [Handler()]",
        "graphwire_op_handlers is not marked with `@graphwire.hookimpl`",
    ),
    # wire formats
    "json": Rival(
        formats("name = 'json'"), "the wire format 'json' is registered by plugin `json` of graphwire"
    ),
    "suffix": Rival(
        formats("suffix = '.json'"), "the wire format '.json' is registered by plugin `json` of graphwire"
    ),
    "spaced": Rival(formats("name = 'Bad Name'"), "`name` is 'Bad Name', not lower-case letters"),
    "dotless": Rival(formats("suffix = 'x.y'"), "`suffix` is 'x.y', not a dot and then"),
    "medium": Rival(formats("media_type = 'json'"), "`media_type` is 'json', not a media type"),
    "arity": Rival(
        formats("def encode(self): return b''"), "`encode` takes (), and is called with one argument"
    ),
    "keyword": Rival(formats("def decode(self, *, buffer): return 0"), "`decode` takes (*, buffer), and"),
    "waits": Rival(
        formats("async def encode(self, tree): return b''"), "`encode` is a generator or a coroutine"
    ),
    "half": Rival(formats("decode = None"), "it has no method `decode`"),
    "bounded": Rival(formats("def decode_bounded(self, buffer): ..."), "`decode_bounded` takes (buffer)"),
    "reader": Rival(formats("def decode_program(self, buffer): ..."), "and no method `encode_records`"),
    "raises": Rival(formats("name = property(lambda self: 1 / 0)"), "`name` raises ZeroDivisionError"),
    "odd": Rival(
        "class Odd(str):\n    def __hash__(self): raise OSError\n    def __eq__(self, other): return True\n"
        + formats("name = Odd('odd')"),
        "`name` is a Odd, not text",
    ),
    "greedy": Rival(formats("def matches(self, head): return True")),
    # operator handlers
    "aten": Rival(
        handlers("namespace, opset_version = 'aten', 99"),
        "the op handler 'torch.ops.aten.' is registered by plugin `ops` of graphwire",
    ),
    "relu": Rival(
        handlers("prefixes = ('torch.ops.aten.relu.',)"),
        "the op handler 'torch.ops.aten.relu.' is registered by plugin `ops`",
    ),
    "wide": Rival(
        handlers("prefixes = ('torch.ops.',)"), "the op handler 'torch.ops.' is registered by plugin `ops`"
    ),
    "cond": Rival(
        handlers("prefixes = ('torch.ops.higher_order.cond',)"),
        "'torch.ops.higher_order.cond' is registered by plugin `ops`",
    ),
    "getitem": Rival(
        handlers("prefixes = ('_operator.getitem',)"), "'_operator.getitem' is registered by plugin `ops`"
    ),
    "negative": Rival(handlers("opset_version = -1"), "`opset_version` is -1, not a number from 0"),
    "truth": Rival(handlers("opset_version = True"), "`opset_version` is True, not an int"),
    "manner": Rival(handlers("convention = 'own'"), "`convention` is 'own', not schema, symbolic or generic"),
    "single": Rival(
        handlers("prefixes = 'torch.ops.NAME.'"), "`prefixes` is 'torch.ops.NAME.', not a sequence"
    ),
    "one_way": Rival(
        handlers("def encode_node(self, target, args, kwargs, encode): ..."), "no method `decode_node`"
    ),
    "uneven": Rival(
        "class Old(Handler): opset_version, prefixes = 2, ('torch.ops.NAME_old.',)\n"
        "@hookimpl\ndef graphwire_op_handlers(): return [Handler(), Old()]",
        "its handlers of the namespace 'NAME' give the versions 1 and 2",
    ),
    "names_all": Rival(handlers("def name_of(self, target): return 'torch.ops.NAME.x'")),
    "fails": Rival(handlers("def name_of(self, target): raise OSError\n    resolve = name_of")),
    # steps
    "strides": Rival(
        steps('OpsetStep("NAME", 1, 3)'), "it goes from version 1 to 3, but the versions of a step"
    ),
    "gap": Rival(
        steps('OpsetStep("NAME", 1, 2)', 'OpsetStep("NAME", 4, 5)', 'OpsetStep("NAME", 9, 8)'),
        "the history of 'NAME' has no step from 2 to 3",
    ),
    "zero": Rival(steps('OpsetStep("NAME", 0, 1)'), "`from_version` is 0, not a number from 1"),
    "of_relu": Rival(
        steps(f'OpsetStep("NAME", 1, 2, {{"{RELU}": lambda edit: edit.refuse("no")}})'),
        f"the operator '{RELU}' is registered by plugin `ops` of graphwire",
    ),
    "of_aten": Rival(
        steps('OpsetStep("aten", 9, 10, {"torch.ops.aten.x": print})', 'OpsetStep("aten", 10, 11)'),
        "the namespace 'aten' is registered by plugin `opsets` of graphwire",
    ),
    "unasked": Rival(steps('OpsetStep("NAME", 1, 2, {"NAME.f": lambda: None})'), "that of NAME.f takes ()"),
    "yields": Rival(
        "def upgrade(edit): yield\n" + steps('OpsetStep("NAME", 1, 2, {"NAME.f": upgrade})'),
        "that of NAME.f is a generator or a coroutine",
    ),
    # containers
    "tuple": Rival(
        serializers("name = 'builtins.tuple'"),
        "treespec serializer 'builtins.tuple' is registered by plugin `treespecs`",
    ),
    "versioned": Rival(serializers("version = 0"), "`version` is 0, not a number from 1"),
    "at": Rival(serializers("name = 'NAME@2'"), "`name` is 'NAME@2', not a name without spaces and `@`"),
    "arity_of": Rival(
        serializers("def arity(self, container): ..."), "`arity` takes (container), and is called with 2"
    ),
    "is_tuple": Rival(serializers("def container(self): return tuple")),
    # codecs
    "sparse": Rival(
        codecs("name = 'sparse'"),
        "the constant codec 'sparse' is registered by plugin `constants` of graphwire",
    ),
    "treeless": Rival(
        codecs("def decode(self, tensors): ..."), "`decode` takes (tensors), and is called with 2"
    ),
    "owns_all": Rival(
        codecs("def owns(self, value): return True\n    def encode(self, value): raise OSError")
    ),
    "cannot_tell": Rival(codecs("def owns(self, value): raise OSError")),
    # metadata
    "val": Rival(keys('MetadataKey("val")'), "'val' is kept without being declared"),
    "seq_nr": Rival(keys('MetadataKey("seq_nr")'), "'seq_nr' is a key that torch writes into every program"),
    "bare": Rival(keys('"stage"'), "not a valid MetadataKey"),
    # two of one thing, each in order alone
    "twin_one": Rival(
        formats("name = 'twin'"), "", "the wire format 'twin' is registered by plugin `twin_one` of gw-rival-"
    ),
    "twin_two": Rival(formats("name = 'twin'"), "", "and by plugin `twin_two` of gw-rival-twin-two==1.5"),
    "version_one": Rival(
        handlers("namespace = 'library'"),
        "",
        "the namespace 'library' is registered by plugin `ver",
    ),
    "version_two": Rival(
        handlers("namespace, opset_version = 'library', 2"), "", "and by plugin `version_two` of gw-rival-"
    ),
    "step_one": Rival(
        _SAME_STEP, "", "the opset upgrader 'shared 1->2 shared.f' is registered by plugin `step_one`"
    ),
    "step_two": Rival(_SAME_STEP, "", "and by plugin `step_two` of gw-rival-step-two==1.5"),
    "inner": Rival(
        handlers("prefixes = ('torch.ops.uneven_not.', 'torch.ops.names_all.deep.')"),
        "",
        "the op handler 'torch.ops.names_all.deep.' is registered by plugin `names_all`",
    ),
}


def install(folder: Path, *names: str) -> None:
    """Put distributions of some of these plugins into a folder, as an installer leaves them there."""
    for name in names:
        source = RIVALS[name].source
        text = source if name in ("absent", "syntax") else PRELUDE + source
        text = text.replace("SUFFIX", name.replace("_", "")).replace("NAME", name)
        module, entry = f"gw_rival_{name}", f"[graphwire]\n{name} = gw_rival_{name}\n"
        put_distribution(folder, module.replace("_", "-"), "1.5", entry, **{module: text})
