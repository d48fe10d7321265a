"""What a save named as lost is taken from a program and from what was loaded, so that nothing else may differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument, TokenArgument
from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen

from graphwire.errors import shown

Forget = Callable[[ExportedProgram, ExportedProgram, "re.Match[str]"], object]


def forget_named(told: Sequence[str], program: ExportedProgram, loaded: ExportedProgram) -> None:
    """Take from both programs, in place, what the warnings of a save name.

    Raises:
        AssertionError: a warning is of none of the kinds that are known here.
    """
    for text in told:
        names = (
            text.removeprefix("not saved: ").partition(". Files keep data in ")[0]
            if text.startswith("not saved: ")
            else text
        )
        for name in (
            re.split(r", (?=meta\[|the |graph_signature\.|hooks of |that )", names)
            if names != text
            else [text]
        ):
            for pattern, forget in _KINDS.items():
                if (match := re.fullmatch(pattern, name, re.DOTALL)) is not None:
                    forget(program, loaded, match)
                    break
            else:
                raise AssertionError(f"a save named what no test knows: {name}")


def _modules(*programs: ExportedProgram) -> Iterator[GraphModule]:
    for program in programs:
        yield from (each for each in program.graph_module.modules() if isinstance(each, GraphModule))


def _nodes(*programs: ExportedProgram) -> Iterator[Node]:
    return (node for module in _modules(*programs) for node in module.graph.nodes)


def _called(name: str, *programs: ExportedProgram) -> Iterator[Node]:
    return (node for node in _nodes(*programs) if node.name[:80] == name)


def _unread(program: ExportedProgram, _loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in [*_called(match[1], program)]:
        if node.op == "get_attr" and repr(node.target) == match[2] and not node.users:
            node.graph.erase_node(node)


def _examples(program: ExportedProgram, loaded: ExportedProgram, _: re.Match[str]) -> None:
    program._example_inputs = loaded._example_inputs = None


def _value(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in _called(match[1], program, loaded):
        node.meta.pop("val", None)


def _key(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in _nodes(program, loaded):
        _pop(node.meta, match[1])


def _key_of_module(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for module in _modules(program, loaded):
        if (module in (program.graph_module, loaded.graph_module)) is not bool(match[2]):
            _pop(module.meta, match[1])


def _pop(meta: dict[Any, Any], shown_key: str) -> None:
    for key in [each for each in meta if f"{shown(each):.80}" == shown_key]:
        del meta[key]


def _arguments(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in _called(match[1], program, loaded):
        if node.op != "call_function":
            node.args, node.kwargs = node.args[: node.op == "output"], {}


def _bindings(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in _called(match[1], program, loaded):
        node.meta.pop("unbacked_bindings", None)


def _target(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for node in _called(match["name"], program, loaded):
        if node.op in ("placeholder", "output"):
            node.target = node.name if node.op == "placeholder" else "output"


def _name(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    others = dict(loaded.graph_module.named_modules())
    for path, module in program.graph_module.named_modules():
        if isinstance(module, GraphModule) and (node := module.graph.output_node()).name[:80] == match[1]:
            for each in (node, others[path].graph.output_node()):
                each.name = "output"


def _type(program: ExportedProgram, loaded: ExportedProgram, _: re.Match[str]) -> None:
    for node in _nodes(program, loaded):
        node.type = None


def _spec(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    *path, name = match[2].split(".")
    index = int(match[1].partition("[")[2][:-1])
    holders = []
    for each in (program, loaded):
        holder: Any = getattr(each.graph_signature, match[1].partition("[")[0])[index]
        for part in path:
            holder = getattr(holder, part)
        holders.append(holder)
    setattr(holders[0], name, getattr(holders[1], name))


def _token(program: ExportedProgram, loaded: ExportedProgram, match: re.Match[str]) -> None:
    for entry in program.module_call_graph:
        signature: Any = entry.signature
        for arguments in (signature.inputs, signature.outputs) if signature else ():
            for index, each in enumerate(arguments):
                if type(each) is TokenArgument and each.name[:80] == match[1]:
                    arguments[index] = TensorArgument(each.name)


def _attribute(program: ExportedProgram, _loaded: ExportedProgram, match: re.Match[str]) -> None:
    holders: list[Any] = [
        program,
        *_modules(program),
        *(module.graph for module in _modules(program)),
        *_nodes(program),
    ]
    for holder in holders:
        for key in [each for each in vars(holder) if f"{each!r:.80}" == match[1]]:
            delattr(holder, key)


def _code(program: ExportedProgram, _loaded: ExportedProgram, _: re.Match[str]) -> None:
    for module in _modules(program):
        module.graph.set_codegen(CodeGen())
        module.recompile()


def _custom(program: ExportedProgram, _loaded: ExportedProgram, _: re.Match[str]) -> None:
    for holder in (*_modules(program), *_nodes(program)):
        if "custom" in holder.meta:
            holder.meta["custom"] = json.loads(json.dumps(holder.meta["custom"]))


def _nothing(*_: Any) -> None:
    """Nothing of it is lost."""


_KINDS: Mapping[str, Forget] = MappingProxyType(
    {
        r"the node '(.+)' reads the attribute ('.+'), which nothing uses: it is not saved": _unread,
        r"the example inputs are not saved: .+": _examples,
        r"the metadata of the node '(.+)' is not saved: it differs from the element that the node reads": _value,
        r"weights or constants differ from what the graph says of them .+": _nothing,
        r"meta\['unbacked_bindings'\] of (.+)": _bindings,
        r"meta\[(.+)\] of (?:the |(a sub))graph's module.*": _key_of_module,
        r"meta\[(.+)\](?: of .*)?": _key,
        r"the (?:arguments|default value) of (.+)": _arguments,
        r"the target (?:'.*' )?of (?P<name>.+)": _target,
        r"the name of (.+)": _name,
        r"the type of .+": _type,
        r"graph_signature\.(\w+\[\d+\])\.([\w.]+) \(.+\)": _spec,
        r"that values in meta\['custom'\] are tuples, or of others than JSON's types": _custom,
        r"the code generator of the graph": _code,
        r"that (.+) is a token in module_call_graph": _token,
        r"the attribute (\S+)(?: of (.+))?": _attribute,
    }
)
"""Each kind of what a save names, by what it says of it."""
