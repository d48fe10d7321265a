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
    SchemaVersionError,
    UnknownOperatorError,
    UnsupportedFeatureError,
    ValidationError,
)

G = "graph_module.graph"
NODE = f"{G}.nodes[0]"
SIGNATURE = "graph_module.signature"
CALLS = "graph_module.module_call_graph"


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
    _document("a program that requires a list", "requires", put("requires", [[]]), error=SchemaError),
    _document(
        "a program that requires a mapping", "requires", put("requires", [{"a": 1}]), error=SchemaError
    ),
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

_NO_NAMES = (
    "os.system",
    "builtins.eval",
    "torch.ops.aten.add.Tensor()",
    "torch.ops.aten.add.Tensor; import os",
    "__import__('os').system",
    "torch.ops..add.Tensor",
    "",
    "torch.ops.aten.add.Tensor\n",
    "a" * 100_000,
    "#aten:add\nx",
)
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
    *(
        _document(
            f"no operator's name: {name[:40]!r}",
            r"nodes\[0\].target.*\[target\]|graph_module.*target",
            put(f"{NODE}.target", name),
        )
        for name in _NO_NAMES[2:]
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
        "an argument given twice",
        r"nodes\[0\].inputs\[1\].name.*\[duplicate\]",
        put(f"{NODE}.inputs[1].name", "input"),
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

_SYMBOL = "Symbol('s77', positive=True, integer=True)"


def _size(text: Any, hint: Any = 4) -> Change:
    return put(
        f"{G}.tensor_values['linear'].sizes[0]", {"as_expr": {"expr_str": text, "hint": {"as_int": hint}}}
    )


def _nested(head: str, depth: int) -> str:
    return f"{head}(" * depth + "Integer(1)" + ")" * depth


_EXPRESSIONS = {
    "a call": "__import__('os').system('id')",
    "an attribute": "Symbol('s0').__class__",
    "a lambda": "Lambda(Symbol('x'), Symbol('x'))",
    "a function outside of the table": "factorial(Integer(99999))",
    "an evaluation": "sympify('1+1')",
    "infix text": "2*s0",
    "a format string": "f'{1}'",
    "a symbol of a keyword": "Symbol('lambda')",
    "a symbol of a dunder": "Symbol('__class__')",
    "a symbol with a call": "Symbol('a()')",
    "a symbol in full width": "Symbol('ｘ')",
    "an overlong symbol": f"Symbol('{'a' * 100_000}')",
    "a symbol with an assumption that runs": "Symbol('x', commutative=print)",
    "an unknown assumption": "Symbol('x', evil=True)",
    "an integer of many digits": f"Integer({'9' * 10_000})",
    "a float of a huge precision": "Float('1.0', precision=99999)",
    "a fraction of nothing": "Rational(1, 0)",
    "deep nesting": _nested("Abs", 100_000),
    "nesting just beyond": _nested("Abs", 201),
    "no end": "Add(Integer(1),",
    "too many ends": "Integer(1))))",
    "no operand": "Add(, Integer(1))",
    "two expressions": "Integer(1) Integer(2)",
    "a wrong arity": "Pow(Integer(1))",
    "a tower of powers": "Pow(Integer(9), Pow(Integer(9), Pow(Integer(9), Integer(9))))",
    "a huge exponent": "Pow(Integer(9), Integer(999999999999))",
    "a huge exponent of a power of two": "PowByNatural(Integer(2), Integer(99999999999))",
    "a shift beyond measure": "LShift(Integer(1), Integer(99999999999))",
    "a chain of squares": "Pow(" * 60 + "Integer(3)" + ", Integer(2))" * 60,
    "an unterminated text": "Symbol('s0",
    "a null": "Integer(1)\0",
    "nothing": "",
    "a megabyte of sums": "Add(" + "Integer(1), " * 100_000 + "Integer(1))",
}
EXPRESSIONS = [
    _document(
        f"a size that is {what}",
        r"sizes\[0\].*(\[expression\]|expression)|linear.*(power|number|large)",
        _size(text),
        error=GraphwireError,
    )
    for what, text in _EXPRESSIONS.items()
    if what != "a megabyte of sums"
]

_RANGES = {
    "a call": "os.system('id')",
    "an attribute": "s0.__class__",
    "a tower of powers": "9**9**9**9",
    "a huge exponent": "s0**99999999999",
    "a chain of relations": "1 < s0 < 3",
    "a subscript": "s0[0]",
    "a statement": "s0; import os",
    "deep nesting": "(" * 100_000 + "s0" + ")" * 100_000,
    "a chain of negations": "-" * 100_000 + "s0",
    "a chain of nots": "~" * 100_000 + "s0",
    "an integer of many digits": "9" * 10_000,
    "a float of many digits": "1." + "9" * 10_000,
    "nothing": "",
    "a text": "'s0'",
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
        "an empty range",
        r"range_constraints.*\[range\]",
        put("range_constraints", {"s77": {"min_val": 9, "max_val": 2}}),
    ),
    _document(
        "a range to a truth value",
        r"range_constraints",
        put("range_constraints", {"s77": {"min_val": True, "max_val": 2}}),
        error=SchemaError,
    ),
    _document(
        "a range beyond all numbers",
        r"",
        put("range_constraints", {"s77": {"min_val": 2, "max_val": 10**4000}}),
        error=None,
    ),
]

_GUARDS = {
    "a call": "__import__('os').system('id')",
    "a call of a source's method": "L['x'].tolist()",
    "an attribute": "L['x'].__class__",
    "a private attribute": "L['x']._backward_hooks",
    "a subclass walk": "().__class__.__bases__[0].__subclasses__()",
    "a lambda": "(lambda: 1)()",
    "a walrus": "(x := 1)",
    "a comprehension": "[x for x in L['x']]",
    "an f-string": "f'{1}' == ''",
    "a statement": "1 == 1; import os",
    "a line": "1 == 1\nimport os",
    "a comment": "1 == 1 #",
    "a key with a quote": 'L["a\'b"].size()[0] == 1',
    "a key with a backslash": "L['a\\x27'] == 1",
    "a key with double quotes": "L['a\"+b+\"'].size()[0] == 1",
    "a power tower": "9**9**9**9 > 1",
    "a hidden power tower": "(9**64)**64 > 1",
    "a power of a power in a sum": "(1 + 9**60)**60 > 1",
    "a computed exponent": "9**(60*60*60*60) > 1",
    "a huge exponent": "9**99999999 > 1",
    "a huge shift": "1 << 99999999999",
    "a huge integer": "9" * 5_000 + " > 1",
    "a negative exponent": "9**-99999999 > 1",
    "a repeated text": "'a' * 9999999999",
    "a repeated list": "[0] * 9999999999",
    "the whole dictionary": "L == 1",
    "globals": "G['x'] == 1",
    "builtins": "__builtins__ == 1",
    "a starred call": "max(*L['x']) == 1",
    "a keyword in a call": "max(1, key=print) == 1",
    "a chain of comparisons": "1 < 2 < 3",
    "deep nesting": "(" * 50_000 + "1" + ")" * 50_000,
    "a chain of negations": "-" * 90_000 + "1",
    "a chain of nots": "not " * 20_000 + "1",
    "a chain of attributes": "L['x']" + ".a" * 40_000,
    "a chain of calls": "L['x']" + ".size()" * 12_000,
    "a chain of sums": "1" + "+1" * 45_000,
    "overlong": "1 == 1 or " * 20_000 + "1",
    "unicode": "L['x'].ｓize()[0] == 1",
    "an import": "import os",
    "an await": "await L['x']",
    "a yield": "(yield 1)",
    "nothing": "",
    "a null": "1 == 1\0",
    "bytes": "b'a' == b'a'",
    "a complex number": "1j == 1",
    "an ellipsis": "... == 1",
    "a number in a word": "1or 2 == 1",
    "a hexadecimal number": "0x10 == 16",
    "a matrix product": "L['x'] @ L['x']",
}
GUARDS = [
    _document(f"a guard that is {what}", r"guards_code\[0\].*\[guard\]", put("guards_code", [text]))
    for what, text in _GUARDS.items()
]

# ------------------------------------------------------------------------------------------------------- structure


def _cond(tree: Tree) -> Tree:
    return next(node for node in get(tree, f"{G}.nodes") if node["target"].endswith("cond"))


def _deep_graphs(tree: Tree) -> None:
    graph = get(tree, G)
    node = _cond(tree)
    branch = node["inputs"][1]["arg"]["as_graph"]
    text = json.dumps(graph)
    del text
    inner = branch["graph"]
    for _ in range(60):
        inner = {
            **inner,
            "nodes": [
                {
                    **inner["nodes"][0],
                    "inputs": [{"name": "", "arg": {"as_graph": {"name": "g", "graph": inner}}, "kind": 1}],
                }
            ],
        }
    branch["graph"] = inner


def _deep_lists(tree: Tree) -> None:
    argument: Tree = {"as_int": 1}
    for _ in range(150):
        argument = {"as_sequence": {"kind": "list", "items": [argument]}}
    tree["requires"] = ["sequences"]
    put(f"{NODE}.inputs[2].arg", argument)(tree)


def _subgraph(change: Change) -> Change:
    return lambda tree: change(_cond(tree)["inputs"][1]["arg"]["as_graph"]["graph"])


def _two_subgraphs_of_one_name(tree: Tree) -> None:
    _cond(tree)["inputs"][2]["arg"]["as_graph"]["name"] = _cond(tree)["inputs"][1]["arg"]["as_graph"]["name"]


STRUCTURE = [
    _document(
        "a reference to nothing",
        r"nodes\[0\].inputs\[0\].*\[dangling-reference\]",
        put(f"{NODE}.inputs[0].arg.as_tensor.name", "nobody"),
    ),
    _document(
        "a reference to a later value",
        r"nodes\[0\].inputs\[0\].*\[use-before-definition\]",
        put(f"{NODE}.inputs[0].arg.as_tensor.name", "mul"),
    ),
    _document(
        "a reference to itself",
        r"nodes\[0\].inputs\[0\].*\[use-before-definition\]",
        put(f"{NODE}.inputs[0].arg.as_tensor.name", "linear"),
    ),
    _document(
        "a value that two nodes make",
        r"\[duplicate\]",
        put(f"{G}.nodes[1].outputs[0].as_tensor.name", "linear"),
    ),
    _document(
        "two inputs of one name", r"\[duplicate\]", put(f"{G}.inputs[1].as_tensor.name", "p_lin_weight")
    ),
    _document(
        "an argument without a variant",
        r"nodes\[0\].inputs\[0\].arg.*\[variant\]",
        put(f"{NODE}.inputs[0].arg", {}),
    ),
    _document(
        "an argument with two variants",
        r"nodes\[0\].inputs\[0\].arg.*\[variant\]",
        put(f"{NODE}.inputs[0].arg", {"as_int": 1, "as_tensor": {"name": "x"}}),
    ),
    _document(
        "an argument with an unknown variant",
        r"nodes\[0\].inputs\[0\].arg",
        put(f"{NODE}.inputs[0].arg", {"as_pickle": "x"}),
        error=SchemaError,
    ),
    _document(
        "an argument with a variant and an unknown one",
        r"nodes\[0\].inputs\[0\].arg",
        put(f"{NODE}.inputs[0].arg", {"as_tensor": {"name": "x"}, "as_pickle": "x"}),
        error=SchemaError,
    ),
    _document("an output without a variant", r"outputs\[0\].*\[variant\]", put(f"{G}.outputs[0]", {})),
    _document("a value that nothing is known of", r"\[missing-value\]", drop(f"{G}.tensor_values['linear']")),
    _document(
        "a value that nothing makes",
        r"\[undefined-value\]",
        lambda t: get(t, f"{G}.tensor_values").update(ghost=get(t, f"{G}.tensor_values['linear']")),
    ),
    _document(
        "a value of another kind",
        r"\[wrong-kind\]",
        put(f"{NODE}.inputs[2].arg", {"as_sym_int": {"as_name": "x"}}),
    ),
    _document(
        "fewer input specs than inputs", r"input_specs.*\[count\]", drop(f"{SIGNATURE}.input_specs[0]")
    ),
    _document(
        "more input specs than inputs",
        r"input_specs.*\[count\]",
        append(f"{SIGNATURE}.input_specs", {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}),
    ),
    _document(
        "an input spec of another value",
        r"input_specs\[0\].*\[mismatch\]",
        put(f"{SIGNATURE}.input_specs[0].parameter.arg.name", "x"),
    ),
    _document(
        "a parameter below another one",
        r"input_specs|lin.weight",
        put(f"{SIGNATURE}.input_specs[1].parameter.parameter_name", "lin.weight.x"),
        error=GraphwireError,
    ),
    _document(
        "an input spec with two variants",
        r"input_specs\[0\].*\[variant\]",
        put(
            f"{SIGNATURE}.input_specs[0].buffer",
            {"arg": {"name": "p_lin_weight"}, "buffer_name": "b", "persistent": True},
        ),
    ),
    _document(
        "an input spec without a variant",
        r"input_specs\[0\].*\[variant\]",
        put(f"{SIGNATURE}.input_specs[0]", {}),
    ),
    _document(
        "a mutation of a buffer that is none",
        r"output_specs\[0\].*\[dangling-reference\]",
        put(
            f"{SIGNATURE}.output_specs[0]",
            {"buffer_mutation": {"arg": {"name": "cond"}, "buffer_name": "nobody"}},
        ),
    ),
    _document(
        "a gradient of a parameter that is none",
        r"output_specs\[0\].*\[dangling-reference\]",
        put(
            f"{SIGNATURE}.output_specs[0]",
            {"gradient_to_parameter": {"arg": {"name": "cond"}, "parameter_name": "nobody"}},
        ),
    ),
    _document("outputs without specs", r"output_specs.*\[count\]", put(f"{SIGNATURE}.output_specs", [])),
    _document(
        "a signature that points to no weight",
        r"lin.weights",
        put(f"{SIGNATURE}.input_specs[0].parameter.parameter_name", "lin.weights"),
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
        "a subgraph that uses what it does not have",
        r"as_graph.graph.*\[dangling-reference\]",
        _subgraph(put("nodes[0].inputs[0].arg.as_tensor.name", "x")),
    ),
    _document("a subgraph without nodes", r"as_graph.graph.*", _subgraph(put("nodes", []))),
    _document(
        "two subgraphs of one name", r"two different subgraphs", _two_subgraphs_of_one_name, error=DecodeError
    ),
    _document("subgraphs nested too deeply", r"too-deep|deeper|deep", _deep_graphs, error=GraphwireError),
    _document("arguments nested too deeply", r"too-deep|deeper|deep", _deep_lists, error=GraphwireError),
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
        "fewer outputs than the operator returns",
        r"nodes\[1\].*linear",
        put(f"{NODE}.outputs", []),
        error=GraphwireError,
    ),
    _document(
        "more outputs than the operator returns",
        r"linear",
        append(f"{NODE}.outputs", {"as_int": 3}),
        error=GraphwireError,
    ),
    _document(
        "a negative size",
        r"sizes\[0\].*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes[0]", {"as_int": -1}),
    ),
    _document(
        "a size beyond 64 bits",
        r"sizes\[0\].*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes[0]", {"as_int": 2**63}),
    ),
    _document(
        "a negative stride",
        r"strides\[0\].*\[extent\]",
        put(f"{G}.tensor_values['linear'].strides[0]", {"as_int": -1}),
    ),
    _document(
        "more elements than 64 bits count",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes", [{"as_int": 2**40}] * 2),
    ),
    _document(
        "more elements in a view of one",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes", [{"as_int": 2**40}] * 2),
        put(f"{G}.tensor_values['linear'].strides", [{"as_int": 0}] * 2),
    ),
    _document(
        "an input of more bytes than there are",
        r"x.*\[extent\]",
        put(f"{G}.tensor_values['x'].sizes", [{"as_int": 2**62}, {"as_int": 1}]),
    ),
    _document(
        "a reach beyond 64 bits",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].strides", [{"as_int": 2**62}, {"as_int": 2**62}]),
        put(f"{G}.tensor_values['linear'].sizes", [{"as_int": 4}, {"as_int": 4}]),
    ),
    _document(
        "an offset beyond 64 bits",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].storage_offset", {"as_int": 2**63 - 1}),
    ),
    _document(
        "thousands of dimensions",
        r"linear.*\[extent\]",
        put(f"{G}.tensor_values['linear'].sizes", [{"as_int": 1}] * 5000),
        put(f"{G}.tensor_values['linear'].strides", [{"as_int": 1}] * 5000),
    ),
    _document(
        "a size that is text",
        r"sizes",
        put(f"{G}.tensor_values['linear'].sizes[0]", {"as_int": "4"}),
        error=SchemaError,
    ),
    _document(
        "an element type that is none",
        r"dtype",
        put(f"{G}.tensor_values['linear'].dtype", 4000),
        error=SchemaError,
    ),
    _document("a dialect that is a module", r"verifiers", put("verifiers", ["os"]), error=DecodeError),
    _document(
        "an unknown extension", "telepathy", put("requires", ["telepathy"]), error=UnsupportedFeatureError
    ),
    _document("an extension required for nothing", r"\[unneeded-requirement\]", put("requires", ["slices"])),
    _document(
        "an extension used without notice",
        r"\[missing-requirement\]",
        put(
            f"{NODE}.inputs[2].arg",
            {"as_slice": {"start": {"as_int": 0}, "stop": {"as_int": 1}, "step": {"as_none": True}}},
        ),
    ),
    _document("a newer schema", "schema_version", put("schema_version.major", 9), error=SchemaVersionError),
    _document("an absurd schema", "schema_version", put("schema_version.major", 10**30), error=SchemaError),
    _document(
        "a schema before the first", "schema_version", put("schema_version.major", -1), error=SchemaError
    ),
    _document(
        "a schema that is text",
        "schema_version",
        put("schema_version", "__import__('os')"),
        error=SchemaError,
    ),
    _document(
        "a plugin to be installed",
        "evil",
        put("plugins", [{"distribution": "evil", "version": "1", "provides": ["op_handler:evil"]}]),
        error=MissingPluginError,
    ),
    _document("a graph that is a list", "graph_module", put("graph_module", []), error=SchemaError),
    _document("a document that is a list", "", lambda t: t.clear(), error=SchemaError),
    _document(
        "a module call of unknown values",
        r"module_call_graph\[0\]",
        put(f"{CALLS}[0].signature.inputs", [{"as_tensor": {"name": "breakpoint()"}}]),
    ),
    _document(
        "more names than inputs of a module call",
        r"module_call_graph\[0\].*\[count\]",
        put(f"{CALLS}[0].signature.input_names", ["x"]),
    ),
    _document(
        "a root call that is not first",
        r"module_call_graph\[0\].fqn.*\[mismatch\]",
        put(f"{CALLS}[0].fqn", "lin"),
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
