"""Texts that torch writes into Python: names, paths, keywords, metadata."""

from __future__ import annotations

import json
from typing import Any

from hostile import Attack, Change, Tree, get, put

from graphwire.errors import DecodeError, ValidationError

G = "graph_module.graph"
BARE_CALL = "breakpoint()"


def _renamed(new: str) -> Any:
    """The file with the value `linear` under another name, wherever it stands."""
    return lambda victim: victim.with_text('"linear"', json.dumps(new))


_VALUES = {
    "a call": BARE_CALL,
    "a statement": "x; import os",
    "a soft constant": "None",
    "debug": "__debug__",
    "a comma": "a, b",
    "a full-width letter": "ｅval",
    "a ligature": "ﬁle",
    "a zero-width joiner": "a\u200db",
    "a null": "a\0b",
    "a comment": "a#",
    "an equals sign": "a=b",
    "NoneType": "NoneType",
    "fx_pytree": "fx_pytree",
    "pytree": "pytree",
}
VALUES = [
    Attack(f"a value named as {what}", _renamed(name), ValidationError, r"cannot name a value.*\[name\]")
    for what, name in _VALUES.items()
] + [
    # What an argument of a model can be named: torch's code gives such a value another name where it needs the global.
    Attack(f"a value named as {name}", _renamed(name), None)
    for name in ("device", "inf", "nan", "getattr", "slice", "operator", "exec")
]


def _document(
    name: str, told: str, *changes: Change, error: type[Exception] | None = ValidationError
) -> Attack:
    return Attack(name, lambda victim: victim.with_document(*changes), error, told)


NODE = f"{G}.nodes[0]"
CALLS = "graph_module.module_call_graph"
LEAF = {"type": None, "context": None, "children_spec": []}


def _tuple(*children: Tree) -> Tree:
    return {"type": "builtins.tuple", "context": "null", "children_spec": list(children)}


def _keyword(key: Any, kind: str = "builtins.dict") -> str:
    keyed = {"type": kind, "context": json.dumps([key]), "children_spec": [LEAF]}
    return json.dumps([1, _tuple(_tuple(LEAF), keyed)])


def _cond(tree: Tree) -> Tree:
    return next(node for node in get(tree, f"{G}.nodes") if node["target"].endswith("cond"))


def _subgraph_named(name: str) -> Change:
    def change(tree: Tree) -> None:
        _cond(tree)["inputs"][1]["arg"]["as_graph"]["name"] = name

    return change


def _subgraph_node(name: str) -> Change:
    def change(tree: Tree) -> None:
        _cond(tree)["inputs"][1]["arg"]["as_graph"]["node"] = name

    return change


def _inner_value(tree: Tree) -> None:
    graph = _cond(tree)["inputs"][1]["arg"]["as_graph"]["graph"]
    text = json.dumps(graph).replace('"sin"', '"import"')
    graph.clear()
    graph.update(json.loads(text))


TEXTS = [
    _document(
        "a subgraph named as a method of modules",
        "'forward' cannot be an attribute",
        _subgraph_named("forward"),
        error=DecodeError,
    ),
    _document(
        "a subgraph named as a table of modules",
        "'_modules' cannot be an attribute",
        _subgraph_named("_modules"),
        error=DecodeError,
    ),
    _document(
        "a subgraph's reader named as a statement", r"as_graph.*\[name\]", _subgraph_node("x=breakpoint();y")
    ),
    _document("a value in a subgraph named as a keyword", r"as_graph.graph.*\[name\]", _inner_value),
    _document(
        "a literal input named as a call",
        r"input_specs\[4\].*\[(name|wrong-kind)\]",
        put(
            "graph_module.signature.input_specs[4]",
            {"constant_input": {"name": BARE_CALL, "value": {"as_int": 1}}},
        ),
    ),
    _document(
        "a module call at a call",
        "",
        put(f"{CALLS}[1].fqn", "a.'+b+'"),
        error=None,  # a text like any other
    ),
    _document(
        "a module call at a dunder",
        r"module_call_graph\[1\].fqn.*\[path\]",
        put(f"{CALLS}[1].fqn", "__init__.__globals__"),
    ),
    _document(
        "a keyword argument called as a positional one",
        r"in_spec.*names both a keyword argument and a positional one.*\[name\]",
        put(f"{CALLS}[0].signature.forward_arg_names", None),
        lambda tree: get(tree, f"{CALLS}[0].signature").update(
            in_spec=get(tree, f"{CALLS}[0].signature.in_spec").replace("scale", "arg_0")
        ),
    ),
    _document(
        "a keyword of the input spec that is a call",
        r"in_spec.*\[(name|treespec)\]",
        put(f"{CALLS}[0].signature.in_spec", _keyword("a':breakpoint(),'b")),
    ),
    _document(
        "a keyword of the input spec that is a keyword",
        r"in_spec.*\[(name|treespec)\]",
        put(f"{CALLS}[0].signature.in_spec", _keyword("lambda")),
    ),
    _document(
        "a keyword of the input spec that is a number",
        r"in_spec.*\[(name|treespec)\]",
        put(f"{CALLS}[0].signature.in_spec", _keyword(3)),
    ),
    _document(
        "a keyword of the input spec behind another version",
        r"in_spec",
        put(f"{CALLS}[0].signature.in_spec", _keyword("a':breakpoint(),'b", "builtins.dict@2")),
    ),
    _document(
        "a keyword of the input spec behind an escape",
        r"in_spec.*\[(name|treespec)\]",
        put(f"{CALLS}[0].signature.in_spec", _keyword("\\':breakpoint(),\\'")),
    ),
    _document(
        "a namespace that is a call",
        r"opset_version.*\[name\]",
        put("opset_version", {"aten": 10, "x'+breakpoint()+'": 1}),
    ),
    _document(
        "a provenance with an unknown action",
        r"node_sources.0.*action",
        put(
            "graph_module.node_sources",
            [
                {
                    "name": "a",
                    "target": "b",
                    "graph_id": 1,
                    "pass_name": "p",
                    "action": "launch",
                    "from_node": [],
                }
            ],
        ),
        error=DecodeError,
    ),
    _document(
        "a provenance nested without end",
        r"nodes\[0\].metadata.*\[(json|metadata)\]",
        put(f"{NODE}.metadata['from_node']", '[{"from_node":' * 50_000),
    ),
]
