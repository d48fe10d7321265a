"""Programs that say what must not be done or computed: operators, expressions, guards, structure, versions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hostile import Attack, Change, Tree, Victim, append, drop, get, put

from graphwire.errors import (
    DecodeError,
    GraphwireError,
    MissingPluginError,
    OpsetError,
    SchemaError,
    UnknownOperatorError,
    ValidationError,
)

G = "graph_module.graph"
NODE = f"{G}.nodes[0]"
SIGNATURE = "graph_module.signature"


def _document(
    name: str, told: str, *changes: Change, error: type[Exception] | None = ValidationError
) -> Attack:
    return Attack(name, lambda victim: victim.with_document(*changes), error, told)


def _size(text: str, hint: int) -> Tree:
    return {"as_expr": {"expr_str": text, "hint": {"as_int": hint}}}


def _old(name: str, schema: str, told: str, change: Change, error: type[Exception] = SchemaError) -> Attack:
    """A bare document of an older schema, changed."""

    def make(_victim: Victim) -> bytes:
        (case, *_) = json.loads((_GOLDEN / f"{schema}.json").read_text())
        change(case["older"])
        return json.dumps(case["older"]).encode()

    return Attack(name, make, error, told)


_GOLDEN = Path(__file__).parents[1] / "evolve" / "golden"

_X = f"{G}.tensor_values['x'].sizes"
_WEIGHT = "parameters['fn.weight']"

FOUND_BY_FUZZING = [
    _document("symbols without ranges", "", put("range_constraints", {}), error=None),
    _document(
        "a size that is a truth value",
        "is a boolean",
        put(f"{_X}[0]", _size("StrictGreaterThan(Symbol('s0', positive=True, integer=True), Integer(1))", 1)),
        error=DecodeError,
    ),
    _document(
        "a size that divides by nothing",
        "",
        put(f"{_X}[0]", _size("Mod(Integer(5), Symbol('s9', positive=True, integer=True))", 1)),
        error=None,
    ),
    _old("a draft whose parameters are a text", "draft_2022", "problems", put("parameters", "x")),
    _old(
        "a draft whose sizes are texts", "draft_2022", "fn.weight.*draft", put(f"{_WEIGHT}.meta.sizes", ["3"])
    ),
    _old(
        "a draft whose offset is infinite",
        "draft_2022",
        "fn.weight.*draft",
        put(f"{_WEIGHT}.storage.data.offset", math.inf),
    ),
    _old(
        "a stack trace at an infinite line",
        "compact_5_3",
        "compact-5.3",
        put("graph_module.graph.nodes[0].metadata.stack_trace", [[0, math.inf]]),
    ),
    _old("constants that are a text", "1", "constants", put("graph_module.graph.constants", "x")),
]

# ------------------------------------------------------------------------------------------------------- operators

_UNKNOWN = (
    "os.system",
    "builtins.eval",
    "builtins.exec",
    "builtins.getattr",
    "builtins.__import__",
    "torch.load",
    "torch.hub.load",
    "torch.ops.load_library",
    "torch.ops.load_library.default",
    "torch.ops.aten.add.__class__",
    "torch.ops.aten.add.__globals__",
    "torch.ops.aten.__dict__.default",
    "torch.ops.aten.__init__.__globals__",
    "torch.ops.aten.add.Tensor.__call__",
    "torch.ops.aten.add.Tensor.op.__globals__",
    "torch.ops.__class__.mro.default",
    "torch.ops.torch.ops.aten",
    "torch.ops.os.system.default",
    "torch.ops.higher_order.__class__",
    "torch.ops.higher_order.os.system",
    "torch.ops.higher_order.HigherOrderOperator",
    "torch.utils.cpp_extension.load_inline",
    "torch._C._jit_get_operation",
    "torch._C._LoadLibrary",
    "torch.amp.autocast_mode.torch.hub.load",
    "torch.export.load",
    "torch.fx._symbolic_trace.symbolic_trace",
    "torch.autograd.graph.__builtins__",
    "_operator.attrgetter",
    "_operator.methodcaller",
    "_operator.call",
    "_operator.setitem",
    "_operator.delitem",
    "_operator.itemgetter",
    "math.factorial",
    "math.perm",
    "torch.sym_int.__globals__",
    "torch.symeig",
    "#graphwire:none",
)
OPERATORS = [
    _document(
        "a long name of no operator", r"nodes\[0\].target.*\[target\]", put(f"{NODE}.target", "a" * 100_000)
    ),
    *(
        _document(
            f"the operator {name}",
            r"nodes\[0\].*operator",
            put(f"{NODE}.target", name),
            error=UnknownOperatorError,
        )
        for name in _UNKNOWN
    ),
    *(
        _document(
            f"the operator {name} as an argument",
            "operator",
            put(f"{NODE}.inputs[1].arg", {"as_operator": name}),
            error=DecodeError,
        )
        for name in ("os.system", "torch.ops.load_library.default", "_operator.attrgetter")
    ),
    _document(
        "an argument that the operator does not have",
        r"nodes\[0\].*no parameter evil",
        put(f"{NODE}.inputs[0].name", "evil"),
        error=DecodeError,
    ),
    _document(
        "a needed argument dropped",
        r"nodes\[0\].*(input|weight)",
        drop(f"{NODE}.inputs[1]"),
        error=DecodeError,
    ),
    _document(
        "more positional arguments than the operator has",
        r"nodes\[0\]",
        *[append(f"{NODE}.inputs", {"name": "", "arg": {"as_int": 1}, "kind": 1})] * 5,
        error=DecodeError,
    ),
    _document("the newest opset of all", "aten", put("opset_version", {"aten": 10**9}), error=OpsetError),
    _document(
        "an opset of a namespace that nobody has",
        "mars",
        put("opset_version", {"aten": 10, "mars": 3}),
        error=OpsetError,
    ),
    _document("a negative opset", r"opset_version.*\[version\]", put("opset_version", {"aten": -1})),
]

# ----------------------------------------------------------------------------------------------------- expressions


def _size(text: Any, hint: Any = 4) -> Change:
    return put(
        f"{G}.tensor_values['linear'].sizes[0]", {"as_expr": {"expr_str": text, "hint": {"as_int": hint}}}
    )


def _nested(head: str, depth: int) -> str:
    return f"{head}(" * depth + "Integer(1)" + ")" * depth


_EXPRESSIONS = {
    "a call": "__import__('os').system('id')",
    "an overlong symbol": f"Symbol('{'a' * 100_000}')",
    "an integer of many digits": f"Integer({'9' * 10_000})",
    "a tower of powers": "Pow(Integer(9), Pow(Integer(9), Pow(Integer(9), Integer(9))))",
    "a huge exponent": "Pow(Integer(9), Integer(999999999999))",
    "a huge exponent of a power of two": "PowByNatural(Integer(2), Integer(99999999999))",
    "a shift beyond measure": "LShift(Integer(1), Integer(99999999999))",
    "a chain of squares": "Pow(" * 60 + "Integer(3)" + ", Integer(2))" * 60,
}
EXPRESSIONS = [
    _document(
        f"a size that is {what}",
        r"sizes\[0\].*(\[expression\]|expression)|linear.*(power|number|large)",
        _size(text),
        error=GraphwireError,
    )
    for what, text in _EXPRESSIONS.items()
]

_RANGES = {
    "a tower of powers": "9**9**9**9",
    "a huge exponent": "s0**99999999999",
    "an integer of many digits": "9" * 10_000,
    "a float of many digits": "1." + "9" * 10_000,
}
RANGES = [
    _document(
        f"a range of {what}",
        r"range_constraints.*",
        put("range_constraints", {text: {"min_val": 1, "max_val": 2}}),
        error=GraphwireError,
    )
    for what, text in _RANGES.items()
] + [
    _document(
        "a range beyond all numbers",
        r"",
        put("range_constraints", {"s77": {"min_val": 2, "max_val": 10**4000}}),
        error=None,
    ),
]

_GUARDS = {
    "a call": "__import__('os').system('id')",
    "a subclass walk": "().__class__.__bases__[0].__subclasses__()",
    "a key with a quote": 'L["a\'b"].size()[0] == 1',
    "a power tower": "9**9**9**9 > 1",
    "a huge exponent": "9**99999999 > 1",
    "a huge integer": "9" * 5_000 + " > 1",
    "a repeated text": "'a' * 9999999999",
    "a repeated list": "[0] * 9999999999",
    "overlong": "1 == 1 or " * 20_000 + "1",
    "an await": "await L['x']",
    "a yield": "(yield 1)",
    "an ellipsis": "... == 1",
    "a matrix product": "L['x'] @ L['x']",
}
GUARDS = [
    _document(f"a guard that is {what}", r"guards_code\[0\].*\[guard\]", put("guards_code", [text]))
    for what, text in _GUARDS.items()
]

# ------------------------------------------------------------------------------------------------------- structure


def _cond(tree: Tree) -> Tree:
    return next(node for node in get(tree, f"{G}.nodes") if node["target"].endswith("cond"))


def _two_subgraphs_of_one_name(tree: Tree) -> None:
    _cond(tree)["inputs"][2]["arg"]["as_graph"]["name"] = _cond(tree)["inputs"][1]["arg"]["as_graph"]["name"]


STRUCTURE = [
    _document(
        "a parameter below another one",
        r"input_specs|lin.weight",
        put(f"{SIGNATURE}.input_specs[1].parameter.parameter_name", "lin.weight.x"),
        error=GraphwireError,
    ),
    _document(
        "a buffer that is a parameter",
        r"b_b|buffer|parameter",
        put(
            f"{SIGNATURE}.input_specs[0]",
            {"buffer": {"arg": {"name": "p_lin_weight"}, "buffer_name": "lin.weight", "persistent": True}},
        ),
        error=None,
    ),
    _document(
        "two subgraphs of one name", r"two different subgraphs", _two_subgraphs_of_one_name, error=DecodeError
    ),
    _document(
        "a subgraph as an output",
        r"\[misplaced\]",
        put(
            f"{NODE}.outputs[0]",
            {
                "as_graph": {
                    "name": "g",
                    "graph": {
                        "inputs": [],
                        "outputs": [],
                        "nodes": [],
                        "tensor_values": {},
                        "sym_int_values": {},
                        "sym_bool_values": {},
                    },
                }
            },
        ),
    ),
    _document(
        "more outputs than the operator returns",
        r"linear",
        append(f"{NODE}.outputs", {"as_int": 3}),
        error=GraphwireError,
    ),
    _document(
        "thousands of dimensions",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes", [{"as_int": 1}] * 5000),
        put(f"{G}.tensor_values['linear'].strides", [{"as_int": 1}] * 5000),
    ),
    _document("a dialect that is a module", r"verifiers", put("verifiers", ["os"]), error=DecodeError),
    _document(
        "a plugin to be installed",
        "evil",
        put("plugins", [{"distribution": "evil", "version": "1", "provides": ["op_handler:evil"]}]),
        error=MissingPluginError,
    ),
    _document("elements put behind nobody", "", put(f"{G}.placed", {"linear": "nobody"}), error=None),
    _document(
        "an example input that is a node",
        r"example_inputs|not loaded",
        put(
            "example_inputs.leaves[0]",
            {
                "as_graph": {
                    "name": "g",
                    "graph": {
                        "inputs": [],
                        "outputs": [],
                        "nodes": [],
                        "tensor_values": {},
                        "sym_int_values": {},
                        "sym_bool_values": {},
                    },
                }
            },
        ),
        error=None,
    ),
    _document(
        "more example inputs than their spec has",
        "",
        append("example_inputs.leaves", {"as_int": 1}),
        error=None,
    ),
]
