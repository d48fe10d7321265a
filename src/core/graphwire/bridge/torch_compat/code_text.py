"""Makes the nodes of a graph as torch does, three times as fast, and writes exactly its Python code, four times as fast.

torch names each node through a namespace and a contextual `repr`, marks each line with a counter, and searches all lines for the
marks. In a graph of ordinary nodes each line follows from its node alone, so the text is written in one pass. Any other graph is
left to torch: whatever torch writes in a special way, and whatever Python's compiler would reject.

torch gives each node a name that no other node, no builtin and no global of the code has. The names of parameters, and the
targets of placeholders, it writes as they are. So names of inputs are kept apart from the other names of the code, and paths of
weights from the attributes of modules: a module computes what the graph says.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import keyword
import math
import operator
import os
import re
import types
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import graph as fx_graph
from torch.fx.experimental import _config as fx_config
from torch.fx.graph import CodeGen, Graph, PythonCode, _PyTreeCodeGen, _PyTreeInfo
from torch.fx.graph_module import _forward_from_src
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.node import Node, _get_qualified_name
from torch.utils import _pytree

from graphwire.errors import unless_interrupted

Names = dict[Node, str]
"""The name of each node in the code."""


class _OtherText(Exception):  # noqa: N818 # control flow
    """Raised if torch must write the code."""


def python_code(graph: Graph) -> PythonCode | None:
    """Return what `graph.python_code("self")` returns; None if torch must write it."""
    codegen = graph._codegen
    if type(codegen) not in (CodeGen, _PyTreeCodeGen) or codegen._body_transformer is not None:
        return None
    if getattr(fx_config, "enrich_profiler_metadata", False) or any(each in os.environ for each in _SETTINGS):
        return None
    if not _is_torchs_text():
        return None
    try:
        return _written(graph)
    except _OtherText:
        return None


_SETTINGS = ("FX_GRAPH_SHOW_STRIDE", "FX_GRAPH_SHOW_DEVICE", "FX_GRAPH_SHOW_META")
"""The environment variables that change torch's text."""


@functools.cache
def _is_torchs_text() -> bool:
    """Return whether the installed torch writes a graph with every form of node and argument as this module does."""
    graph = Graph()
    x, unused = graph.placeholder("input"), graph.placeholder("unused")
    unused.name = "other"
    weight = graph.create_node("get_attr", "layers.0.weight")
    values = (1, 2.5, math.inf, "text", None, True, torch.float32, torch.device("cpu"), torch.strided)
    total = graph.call_function(
        torch.ops.aten.add.Tensor, (x, weight), {"alpha": 2, "others": [values, (x,)]}
    )
    part = graph.call_function(operator.getitem, (total, slice(0, x, None)))
    graph.call_function(torch.sym_max, (part, {"key": [weight, (part, 1)]}))
    product = graph.call_function(operator.mul, (-2, graph.call_function(operator.neg, (part,))))
    graph.call_module("checks", (x, unused))
    graph.output((product, [x], None))
    spec = _pytree.tree_structure(((0,), {"unused": 0}))
    try:
        if _written(graph) != graph.python_code("self"):
            return False
        graph._codegen = _PyTreeCodeGen(_PyTreeInfo(["input", "unused"], spec, spec))
        return bool(_written(graph) == graph.python_code("self"))
    except unless_interrupted(Exception):  # a release whose generator has other parts
        return False


def _written(graph: Graph) -> PythonCode:
    nodes = list(graph.nodes)
    if not nodes or nodes[-1].op != "output":
        raise _OtherText
    named = _names(nodes)
    names = dict(zip(nodes, named, strict=True))
    last = len(nodes) - 1
    parameters: list[str] = []
    callees: dict[int, tuple[str | None, str]] = {}
    lines: list[str] = []
    numbers: list[int] = []
    for index, (node, name, freed) in enumerate(zip(nodes, named, _freed_after(nodes, names), strict=True)):
        op, args, target = node.op, node._args, node.target
        if node.type is not None or not _MARKS.isdisjoint(dict.keys(node.meta)):  # no look at values
            raise _OtherText
        if op == "call_function":
            callee = callees.get(id(target))
            if callee is None:
                callee = callees[id(target)] = _callee(target)
            pattern, function = callee
            texts = [names[each] if type(each) is Node else _text(each, names) for each in args]
            if pattern is None:
                if kwargs := node._kwargs:
                    texts += _keywords(kwargs, names)
                line = f"    {name} = {function}({', '.join(texts)})"
            elif len(args) < pattern.count("{}") or (
                target is operator.getitem and type(args[0]) is not Node
            ):
                raise _OtherText  # Python warns of `1[0]`
            else:
                line = f"    {name} = {pattern.format(*texts)}"
        elif op == "placeholder":
            if args:
                raise _OtherText
            parameters.append(target)
            if target == name:
                continue
            line = f"    {name} = {target}"
        elif op in {"get_attr", "call_module"}:
            line = f"    {name} = {_attribute(target)}{_called(node, names) if op == 'call_module' else ''}"
        elif op == "output" and index == last:
            line = f"    {graph._codegen.generate_output(_Text(_text(args[0], names)))}"
        else:
            raise _OtherText
        lines.append(f"{line};  {freed} = None" if freed else line)
        numbers.append(index)
    lines.append("    ")  # torch ends the last line, and indents what follows it
    numbers.append(last)
    code = "\n".join(lines)
    _check_names(parameters)
    if "# COUNTER: " in code or len(set(parameters)) < len(parameters) or "self" in parameters:
        raise _OtherText
    prologue = graph._codegen.gen_fn_def(parameters, "")
    return PythonCode(
        f"\n\n\n{prologue}\n{code}",
        {name: each.obj for name, each in fx_graph._custom_builtins.items()},
        _lineno_map=dict(enumerate(numbers, prologue.count("\n") + 1)),
        **_START,
    )


_START: dict[str, Any] = {"_prologue_start": 4} if "_prologue_start" in vars(PythonCode) else {}
"""The line of the function's head, which torch counts from a later release than 2.8 on."""


class WaitingForward:
    """The `forward` of a module's class, whose code is compiled when somebody first looks at it.

    Python's compiler takes as long as the nodes of a graph, and whoever uses `ExportedProgram.module()` never runs this code.
    """

    def __init__(self, code: PythonCode) -> None:
        self._forward: Any = None
        self.__globals__ = code.globals

        def compile_code() -> None:
            if self._forward is None:
                self._forward = _forward_from_src(code.src, code.globals)

        setattr(compile_code, _CONSTANT, True)
        self._compile = compile_code

    def __get__(self, instance: Any, owner: Any) -> Any:
        self._compile()
        if instance is None:
            return self._forward
        # torch's compiler follows a partial function, and no bound method that is made here.
        bind = functools.partial if torch.compiler.is_dynamo_compiling() else types.MethodType
        return bind(self._forward, instance)


WAITS = bool(_START)
"""Whether torch's compiler follows a `WaitingForward`. That of 2.8 does not, in a strict export."""
_CONSTANT = "_dynamo_marked_constant"
"""The mark of a function that torch's compiler calls while it traces. To set it by `torch.compiler` imports the compiler."""


class _Text(str):
    """A text that is its own representation: `generate_output` writes that of what is returned."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _names(nodes: list[Node]) -> list[str]:
    """Return the name of each node in the code. A unique identifier that hides no name of Python or torch stays."""
    names = [node.name for node in nodes]
    if (
        len(set(names)) == len(names)
        and all(map(str.isidentifier, names))
        and "".join(names).isascii()
        and fx_graph._illegal_names.keys().isdisjoint(names)
    ):
        return names
    namespace = fx_graph._Namespace()
    for name, each in fx_graph._custom_builtins.items():
        namespace.create_name(name, each.obj)
    return [namespace.create_name(name, node) for name, node in zip(names, nodes, strict=True)]


def _freed_after(nodes: list[Node], names: Names) -> list[str | None]:
    """Return the values that are not used after each node, joined by `=`."""
    used: set[Node] = set()
    freed: list[str | None] = []
    for node in reversed(nodes):
        ended = [names[each] for each in node._input_nodes if each not in used]
        if ended:
            used.update(node._input_nodes)
        if not node.users:
            ended.append(names[node])
        freed.append(" = ".join(ended) if ended and node.op not in _FREE_NOTHING else None)
    freed.reverse()
    return freed


_FREE_NOTHING = frozenset(("placeholder", "output"))
_MARKS = frozenset(("is_wrapped", "boxed_arg_indices"))
"""The metadata that makes torch write a node in a way of its own; arguments in boxes since 2.15."""
_RESERVED = frozenset((*keyword.kwlist, "__debug__"))


def _check_names(names: Iterable[str]) -> None:
    """Raise unless each name is valid where it is assigned, called or passed."""
    for name in names:
        if not name.isidentifier() or name in _RESERVED:
            raise _OtherText


def _callee(target: Any) -> tuple[str | None, str]:
    """Return torch's pattern of an operator of Python; for any other target None and the name that calls it."""
    if getattr(target, "__module__", "") == "_operator":
        pattern = fx_graph.magic_methods.get(target.__name__)
        if pattern is None or target.__name__ in fx_graph.inplace_methods:
            raise _OtherText
        return pattern, ""
    if not fx_graph._is_from_torch(target) or getattr(target, "_boxed_arg_indices", None):
        raise _OtherText
    return None, _overload_name(target) if type(target) is OpOverload else _qualified_name(target)


def _qualified_name(target: Any) -> str:
    name = _get_qualified_name(target)
    _check_names(name.split("."))
    return name


_overload_name: Callable[[OpOverload], str] = functools.lru_cache(maxsize=4096)(_qualified_name)
"""Cached, since the name of an overload never changes."""


def _attribute(path: str) -> str:
    text = "self"
    for part in path.split("."):
        # torch writes `self.lambda`, which Python's compiler rejects, and wide letters, which it reads as plain ones
        if keyword.iskeyword(part) or not (part.isascii() or unicodedata.is_normalized("NFKC", part)):
            text = f'getattr({text}, "{part}")'
            continue
        if not part.isdecimal():
            _check_names((part,))
        text = fx_graph._format_target(text, part)
    return text


def _called(node: Node, names: Names) -> str:
    return f"({', '.join([*(_text(each, names) for each in node._args), *_keywords(node._kwargs, names)])})"


def _keywords(kwargs: dict[str, Any], names: Names) -> list[str]:
    _check_names(kwargs)
    return [f"{name} = {_text(value, names)}" for name, value in kwargs.items()]


def _text(value: Any, names: Names) -> str:
    kind = type(value)
    if kind in _SIMPLE:
        return repr(value)
    write = _WRITERS.get(kind)
    if write is None:
        raise _OtherText
    return write(value, names)


def _list(values: list[Any], names: Names) -> str:
    if _SIMPLE.issuperset(map(type, values)):
        return list.__repr__(values)
    return f"[{', '.join([names[each] if type(each) is Node else _text(each, names) for each in values])}]"


def _tuple(values: tuple[Any, ...], names: Names) -> str:
    if len(values) == 1:
        return f"({_text(values[0], names)},)"
    return f"({', '.join([_text(each, names) for each in values])})"


def _dict(values: dict[Any, Any], names: Names) -> str:
    return f"{{{', '.join([f'{_text(key, names)}: {_text(each, names)}' for key, each in values.items()])}}}"


def _slice(value: slice, names: Names) -> str:
    return f"slice({_text(value.start, names)}, {_text(value.stop, names)}, {_text(value.step, names)})"


_SIMPLE = frozenset(
    (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
)
_WRITERS: dict[type, Callable[[Any, Names], str]] = {
    Node: lambda node, names: names[node],
    **dict.fromkeys((list, immutable_list), _list),
    tuple: _tuple,
    **dict.fromkeys((dict, immutable_dict), _dict),
    slice: _slice,
}
"""What writes each other type of argument. torch writes the rest, and subclasses, in ways of its own, and complex numbers in one
that depends on the release."""


_UNLIFTED = frozenset(("torch", "fx_pytree", "pytree", "getattr"))
"""What the code of `ExportedProgram.module()` may call beside what the code of the graph calls."""


def choose_targets(graph: torch.fx.Graph, paths: Iterable[str]) -> None:
    """Give each placeholder whose target may become the name of another node its own name as target.

    Args:
        paths: the attributes that nodes may read later, when the program is unlifted.
    """
    for node in ambiguous_inputs(graph, paths):
        node.target = node.name


def ambiguous_inputs(graph: torch.fx.Graph, paths: Iterable[str]) -> list[torch.fx.Node]:
    """Return the placeholders whose targets may become the names of other nodes. The arguments are those of `choose_targets`."""
    illegal = fx_graph._illegal_names
    inputs = [each for each in graph.find_nodes(op="placeholder") if each.target != each.name]
    inputs = [each for each in inputs if each.target not in illegal]
    if not inputs:
        return []
    names = {node.name for node in graph.nodes}
    # torch numbers these names until they are free; it keeps the others.
    stems = {_stem(name) for name in (*paths, *(name for name in names if name in illegal))}
    first = {*itertools.takewhile(lambda node: node.op == "placeholder", graph.nodes)}
    return [
        node for node in inputs if node not in first or node.target in names or _stem(node.target) in stems
    ]


def _stem(name: str) -> str:
    """Return what all names have in common that torch may derive from a name or path."""
    return re.sub(r"(?a)[\W_]", "", name.rstrip("0123456789_")).lower()


def hiding_parameter(
    module: torch.fx.GraphModule, parameters: Collection[str] = (), *, is_new: bool = False
) -> str | None:
    """Return a parameter that hides what generated code means by its name, in a module or one inside it; None if there is none.

    Args:
        module: the module, whose graphs may have changed since their code was generated.
        parameters: the names of the parameters that the module has once it is unlifted.
        is_new: whether the code is that of the graphs, so that it need not be generated again.
    """
    for each in module.modules():
        if not isinstance(each, torch.fx.GraphModule):
            continue
        info = getattr(each.graph._codegen, "pytree_info", None)
        names = {str(node.target) for node in each.graph.find_nodes(op="placeholder")}
        names.update(() if info is None else info.orig_args, parameters if each is module else ())
        forward = vars(type(each)).get("forward") or inspect.getattr_static(type(each), "forward")
        known = getattr(forward, "__globals__", {})
        names = {name for name in names if name in fx_graph._illegal_names or name in known}
        is_builtin = _WRITTEN.isdisjoint(names) and names <= fx_graph._illegal_names.keys()
        if names and not (is_builtin and _calls_only_torch(each.graph)):
            code = each.code if is_new else (python_code(each.graph) or each.graph.python_code("self")).src
            used = _names_used(code, names)
            names &= used | _UNLIFTED if parameters and each is module else used
            if names:
                return min(names)
    return None


_WRITTEN = frozenset((*_UNLIFTED, *fx_graph._custom_builtins))
"""The names by which code calls what is no node, where it calls operators of torch alone."""
_NAMELESS = _SIMPLE | {Node}
"""The types of arguments whose text has no other names."""


def has_own_code(graph: torch.fx.Graph) -> bool:
    """Return whether somebody gave a graph a generator of code that is not torch's, or changes the code that torch's makes."""
    codegen = graph._codegen
    return not type(codegen).__module__.startswith("torch.") or codegen._body_transformer is not None


def _calls_only_torch(graph: torch.fx.Graph) -> bool:
    """Return whether the code of a graph certainly uses only `_WRITTEN` and the names of nodes, none of which is Python's own."""
    if type(graph._codegen) not in (CodeGen, _PyTreeCodeGen) or graph._codegen._body_transformer is not None:
        return False
    for node in graph.nodes:
        if node.type is not None:
            return False
        if node.op == "call_function" and type(node.target) is OpOverload:
            for each in (*node._args, *node._kwargs.values()):
                if not _NAMELESS.issuperset(map(type, each if type(each) is immutable_list else (each,))):
                    return False
        elif node.op not in {"placeholder", "output"}:
            return False
    return True


def may_hide(names: Iterable[str]) -> bool:
    """Return whether a name may hide what the code of a graph means by it, if the graph calls operators and builtins alone."""
    return any(
        name in fx_graph._illegal_names or name.startswith(("math_", "operator_", "_operator_"))
        for name in names
    )


_OF_PARAMETERS = re.compile(
    r"^\s*(?:def .*|[\w, ]+, = fx_pytree\.tree_flatten_spec\(.*|\w+ = \w+)$", re.MULTILINE
)
"""The lines of generated code that declare parameters, or only give them to nodes."""


def _names_used(code: str, wanted: Collection[str]) -> set[str]:
    """Return the names that generated code uses, apart from its parameters where it only gives them to nodes.

    Args:
        wanted: the names that matter. Code whose other lines have none of these words is not parsed.
    """
    used: set[str] = set()
    rest = _OF_PARAMETERS.sub("", code)
    if not any(re.search(rf"{name}(?!\w)(?<![\w.]{name})", rest) for name in map(re.escape, wanted)):
        return used
    try:
        functions = ast.parse(code).body
    except SyntaxError:  # an argument without a literal: the code cannot run
        return used
    for function in functions:
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            match statement:
                case ast.Assign(targets=[ast.Name()], value=ast.Name()):
                    continue  # a node for a parameter
                case ast.Assign(targets=[ast.Tuple()]):
                    continue  # the leaves of the parameters
            used.update(each.id for each in ast.walk(statement) if isinstance(each, ast.Name))
    return used


@functools.cache
def taken_attributes() -> frozenset[str]:
    """Return the attributes that the module of a program has, or that torch sets when it unlifts the program."""
    graph: Any = torch.fx.Graph()
    graph.set_codegen(fx_graph._PyTreeCodeGen(fx_graph._PyTreeInfo([], None, None)))
    made = torch.fx.GraphModule({}, graph)
    return frozenset(
        (*dir(made), *_SET_BY_THE_COMPILER, "_guards_fn", "range_constraints", "validate_inputs")
    )


@functools.cache
def _taken_below() -> frozenset[str]:
    return frozenset((*dir(torch.nn.Module()), *_SET_BY_THE_COMPILER))


_SET_BY_THE_COMPILER = ("___needs_generation_tag_patch", "___needs_mutation_patch")
"""The attributes that torch's compiler gives the classes of modules when it first traces one."""


_BREAKS = frozenset("\n\r\0")
"""What no text of Python's code has between its quotes."""


def path_fault(held: Iterable[tuple[str, str]]) -> str | None:
    """Return why attributes cannot all be set on the module of a program; None if they can.

    Args:
        held: the kind and path of each.
    """
    found: dict[str, tuple[str, str]] = {}
    taken, taken_below = taken_attributes(), _taken_below()
    held = list(held)
    if _are_usual_paths([path for _, path in held], taken, taken_below):
        return None
    for kind, path in held:
        # Python normalizes names in code: a wide letter reads the attribute of the plain one.
        read = path if path.isascii() else unicodedata.normalize("NFKC", path)
        other, of = found.setdefault(read, (path, kind))
        if of != kind and other == path:
            return f"{path!r:.80} is the path of a {of} and of a {kind}"
        if other != path:
            return f"{path!r:.80} cannot be the path of a {kind}: Python's code reads {read!r:.80} by it, the path of a {of}"
        if not _BREAKS.isdisjoint(path):
            return f"{path!r:.80} cannot be the path of a {kind}: Python's compiler rejects code with this line break or null"
        first, *below = read.split(".")
        if read == "self" or first in taken or not taken_below.isdisjoint(below):
            return f"{path!r:.80} cannot be the path of a {kind}: the module of a program has another attribute of that name"
    free: set[str] = set()
    for read, (path, kind) in found.items():
        above = read
        while (above := above.rpartition(".")[0]) and above not in free:
            if above in found:
                return f"{path!r:.80} cannot be the path of a {kind}: a {found[above][1]} is at {found[above][0]!r:.80}"
            free.add(above)
    return None


def _are_usual_paths(paths: list[str], taken: Collection[str], taken_below: frozenset[str]) -> bool:
    """Return True if attributes at all paths can certainly be set on a module, and False if `path_fault` must look at each."""
    distinct, joined = set(paths), ".".join(paths)
    if len(distinct) < len(paths) or not joined.isascii() or any(each in joined for each in _BREAKS):
        return False
    if not taken_below.isdisjoint(joined.split(".")) or "self" in distinct:
        return False
    if not {path.partition(".")[0] for path in paths}.isdisjoint(taken):
        return False
    above = {path.rpartition(".")[0] for path in paths} - {""}
    while above and distinct.isdisjoint(above):
        above = {path.rpartition(".")[0] for path in above} - {""}
    return not above


_new_node, _init_node = Node.__new__, Node.__mro__[1].__init__
"""What torch's constructor of a node calls, after checks of the operation and the target."""


class NodeMaker:
    """Adds nodes to a graph, at its point of insertion.

    torch's method searches the arguments of each node for symbolic numbers, takes each name apart with a regular expression, and
    computes the hash of each target in Python. Here a target is looked up by its identity, and torch checks it at its first node.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        namespace = graph._graph_namespace
        self._used = namespace._used_names
        self._counts = namespace._base_count
        self._names: dict[Any, str] = namespace._obj_to_name
        self._insert_last = graph._insert
        """Inserts at the end, where most nodes are added."""
        self._append = getattr(graph._root, "_prepend", graph._insert)  # in C since torch 2.9
        self._rows: dict[Any, dict[Node, None]] = {}
        """The rows of the graph's table of nodes, by operation, or by the id of what a node calls."""

    def make(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None
    ) -> Node:
        """Add a node.

        Args:
            op: "call_function", "get_attr", "placeholder" or "output".
            name: the name of the node, if it is an identifier that no other node has and Python allows; otherwise torch chooses a
                similar one. None lets torch choose.
        """
        graph = self._graph
        if (
            name is None
            or name in self._used
            or name in fx_graph._illegal_names
            or not (name.isidentifier() and name.isascii())
        ):
            node = graph.create_node(op, target, name=name)
            node._update_args_kwargs(args, kwargs)  # `create_node` would search them
            return node
        key = id(target) if op == "call_function" else op
        row = self._rows.get(key)
        if row is None:
            node = Node(graph, name, op, target, args, kwargs)
            row = self._rows[key] = graph._find_nodes_lookup_table.table[
                op, target if op == "call_function" else None
            ]
        else:
            node = _new_node(Node)
            _init_node(node, graph, name, op, target, None)
            node._update_args_kwargs(args, kwargs)
        self._used.add(name)
        if name[-1] in "0123456789":
            stem, _, number = name.rpartition("_")
        else:  # as half of all names
            stem = number = ""
        if stem and number.isdecimal():
            self._counts[stem] = int(number)
        else:
            self._counts.setdefault(name, 0)
        self._names[node] = name
        insert = graph._insert
        (self._append if insert is self._insert_last else insert)(node)
        row[node] = None
        graph._len += 1
        return node
