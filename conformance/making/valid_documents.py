"""Valid files: documents. Every argument variant, every extension, names, numbers, texts, signatures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from making.documents import (
    LEAF,
    Tree,
    container,
    graph,
    meta,
    named,
    node,
    program,
    relu,
    simple,
    symbolic,
    taking,
    tensor,
    treespec,
)
from making.files import FORMATS, Archive, Case, Payload, numbers

SIZE = "Symbol('s0', positive=True, integer=True)"


def case(group: str, name: str, about: str, tree: Tree, wire_format: str = "json", **archive: Any) -> Case:
    """A valid file with one program."""
    made = Archive({"model": tree}, wire_format=wire_format, **archive)
    data = (made.small() if group in SMALL else made).build()
    return Case(f"{group}/{name}", about, data, needs=(wire_format,))


SMALL = ("arguments", "expressions", "infix", "treespecs", "guards", "values", "signatures", "extensions")
"""The groups whose files have no more records than a reader needs."""


def arguments() -> dict[str, tuple[Tree, str]]:
    """By name of a case: an argument, and the extension that it needs."""
    body = graph(
        [tensor("a")],
        [tensor("r")],
        [relu("a", "r")],
        {"a": meta(), "r": meta()},
        is_single_tensor_return=True,
    )
    tuple_spec = treespec(container("builtins.tuple", None, LEAF, container("builtins.list", None, LEAF)))
    plain: dict[str, Tree] = {
        "none": {"as_none": True},
        "tensor": tensor("x"),
        "tensors": {"as_tensors": [{"name": "x"}, {"name": "y"}]},
        "tensors_empty": {"as_tensors": []},
        "int": {"as_int": -3},
        "int_zero": {"as_int": 0},
        "int_smallest": {"as_int": -(2**63)},
        "int_largest": {"as_int": 2**63 - 1},
        "int_beyond_doubles": {"as_int": 2**53 + 1},
        "int_beyond_64_bits": {"as_int": -(2**70)},
        "none_that_is_false": {"as_none": False},
        "ints": {"as_ints": [0, -1, 2**62 + 1, 9007199254740993]},
        "ints_empty": {"as_ints": []},
        "float": {"as_float": 0.1},
        "float_whole": {"as_float": 3.0},
        "float_written_as_integer": {"as_float": 3},
        "float_negative_zero": {"as_float": -0.0},
        "float_zero": {"as_float": 0.0},
        "float_smallest": {"as_float": 5e-324},
        "float_largest": {"as_float": 1.7976931348623157e308},
        "float_infinite": {"as_float": "Infinity"},
        "float_negative_infinite": {"as_float": "-Infinity"},
        "float_nan": {"as_float": "NaN"},
        "floats": {
            "as_floats": [
                -0.0,
                1e16,
                1e21,
                123456789012345680.0,
                2.2250738585072014e-308,
                "NaN",
                "-Infinity",
                1,
            ]
        },
        "string": {"as_string": "text"},
        "string_empty": {"as_string": ""},
        "string_that_looks_like_a_number": {"as_string": "Infinity"},
        "string_of_all_kinds": {
            "as_string": '\x00\x1f\x7f\u0080\u00e9\u2028\u2029\ufeff\uffff\U0001f600"\\/\b\f\n\r\t'
        },
        "strings": {"as_strings": ["", "a", "__proto__", "\u00e9 is not e\u0301"]},
        "sym_int": named("as_sym_int", "n"),
        "sym_int_literal": {"as_sym_int": {"as_int": 7}},
        "sym_ints": {"as_sym_ints": [{"as_name": "n"}, {"as_int": 0}]},
        "device": {"as_device": {"type": "cuda", "index": 1}},
        "device_without_index": {"as_device": {"type": "cpu", "index": None}},
        "device_without_the_field_index": {"as_device": {"type": "meta"}},
        "bool_true": {"as_bool": True},
        "bool_false": {"as_bool": False},
        "bools": {"as_bools": [True, False]},
        "sym_bool": named("as_sym_bool", "b"),
        "sym_bools": {"as_sym_bools": [{"as_name": "b"}, {"as_bool": False}]},
        "graph": {"as_graph": {"name": "body", "graph": body}},
        "graph_read_by_a_node_of_another_name": {
            "as_graph": {"name": "body", "graph": body, "node": "body_1"}
        },
        "optional_tensors": {"as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}]},
        "optional_tensor": {"as_optional_tensor": {"as_tensor": {"name": "y"}}},
        "optional_tensor_none": {"as_optional_tensor": {"as_none": True}},
        "operator": {"as_operator": "torch.ops.aten.add.Tensor"},
        "sym_float": named("as_sym_float", "f"),
        "sym_floats": {"as_sym_floats": [{"as_name": "f"}, {"as_float": 0.5}]},
        "complex": {"as_complex": {"real": 1.5, "imag": "NaN"}},
        "complex_of_integers": {"as_complex": {"real": 1, "imag": -0.0}},
        "nested_tensors": {"as_nested_tensors": [[{"name": "x"}], []]},
        "int_lists": {"as_int_lists": [[1, 2], []]},
        "float_lists": {"as_float_lists": [[0.5, "Infinity"], []]},
        "dict": {"as_string_to_argument": {"key": {"as_int": 1}, "": {"as_none": True}}},
        "dict_order": {
            "as_string_to_argument": {
                key: {"as_int": at} for at, key in enumerate(("10", "b", "9", "a", "__proto__", "1"))
            }
        },
    }
    found = {name: (each, "") for name, each in plain.items()}
    items = [{"as_int": 1}, tensor("x"), {"as_sequence": {"kind": "tuple", "items": []}}]
    spec = {"name": "_spec_0", "spec": tuple_spec}
    found |= {
        "sequence_list": ({"as_sequence": {"kind": "list", "items": items}}, "sequences"),
        "sequence_tuple": ({"as_sequence": {"kind": "tuple", "items": items}}, "sequences"),
        "mapping": (
            {
                "as_mapping": [
                    {"key": {"as_int": 3}, "value": tensor("x")},
                    {"key": {"as_bool": True}, "value": {"as_none": True}},
                ]
            },
            "mappings",
        ),
        "slice": (
            {
                "as_slice": {
                    "start": {"as_none": True},
                    "stop": named("as_sym_int", "n"),
                    "step": {"as_int": 2},
                }
            },
            "slices",
        ),
        "range": ({"as_range": {"start": 0, "stop": -5, "step": -1}}, "ranges"),
        "dtype_name": ({"as_dtype_name": "float4_e2m1fn_x2"}, "dtypes"),
        "layout_name": ({"as_layout_name": "jagged"}, "layouts"),
        "treespec": ({"as_treespec": tuple_spec}, "treespecs"),
        "treespec_of_an_attribute": ({"as_treespec": spec}, "treespecs"),
        "treespec_of_a_node": ({"as_treespec": {**spec, "node": "spec_1"}}, "treespecs"),
    }
    return found


DTYPES = (*range(1, 14), *range(28, 36))


def argument_cases() -> Iterator[Case]:
    """A file for each variant, and for the edges of its values."""
    for name, (argument, feature) in arguments().items():
        yield case(
            "arguments",
            name,
            f"a node takes {name.replace('_', ' ')}",
            taking(argument, requires=feature, whole=False),
        )
    yield case(
        "arguments",
        "scalar_types",
        "every element type that has a number",
        taking(*({"as_scalar_type": number} for number in DTYPES)),
    )
    yield case(
        "arguments",
        "layouts",
        "every layout that has a number",
        taking(*({"as_layout": n} for n in range(1, 8))),
    )
    yield case(
        "arguments",
        "memory_formats",
        "every memory format",
        taking(*({"as_memory_format": number} for number in range(1, 5))),
    )
    whole_results = node(
        "torch.ops.conformance.several.default", [], [tensor("first"), tensor("second")], "several"
    )
    tree = taking(
        {"as_results": "several"},
        requires="results",
        extra_nodes=[whole_results],
        tensor_values={name: meta() for name in ("x", "y", "z", "first", "second")},
    )
    yield case("arguments", "results", "an argument that is all results of a node", tree)
    payload = Payload("tensor_0", numbers(6), meta(), is_param=False)
    for name, held in (
        ("constant", "graph::0.table"),
        ("constant_read_by_a_node", {"name": "graph::0.table", "node": "table_1"}),
    ):
        tree = taking({"as_constant": held}, requires="constants")
        yield case(
            "arguments",
            name,
            "an argument that is a constant of the program",
            tree,
            constants={"graph::0.table": payload},
        )
    kinds = taking({"as_int": 1}, {"as_int": 2}, {"as_int": 3}, {"as_int": 4})
    inputs = kinds["graph_module"]["graph"]["nodes"][-1]["inputs"]
    del inputs[0]["kind"]
    inputs[1]["kind"], inputs[2]["kind"], inputs[3]["kind"] = None, 0, 2
    inputs[3]["tuples"] = True
    yield case("arguments", "kinds", "inputs by position, by keyword, and of no stated kind", kinds)
    everything = arguments()
    features = " ".join(sorted({feature for _, feature in everything.values() if feature}))
    tree = taking(*(argument for argument, _ in everything.values()), requires=features)
    for wire_format in FORMATS:
        yield case(
            "formats", f"arguments_{wire_format}", "every argument, in each wire format", tree, wire_format
        )


# -------------------------------------------------------------------------------------------------------------- values


def value_cases() -> Iterator[Case]:
    """Metadata of values: element types, layouts, sizes, strides, expressions."""
    metas = {f"of_{number}": meta(number) for number in DTYPES}
    yield case(
        "values",
        "dtypes",
        "a value of each element type",
        program(graph([*map(tensor, metas)], [], [], metas)),
    )
    tree = program(
        graph([tensor("q")], [], [], {"q": meta(0, dtype_name="float4_e2m1fn_x2")}), requires=["dtypes"]
    )
    yield case("values", "dtype_name", "a value of an element type without a number", tree)
    layouts = {f"of_{number}": meta(7, layout=number, strides=[]) for number in range(1, 7)}
    yield case(
        "values",
        "layouts",
        "a value of each layout",
        program(graph([*map(tensor, layouts)], [], [], layouts)),
    )
    tree = program(
        graph([tensor("j")], [], [], {"j": meta(layout=0, layout_name="jagged")}), requires=["layouts"]
    )
    yield case("values", "layout_name", "a value of a layout without a number", tree)
    sparse = {
        "coo": meta(layout=1, strides=[], sparse={"dense_dim": 1, "coalesced": True}),
        "bsr": meta(layout=4, strides=[], sparse={"index_dtype": 4, "block": [1, 3]}),
        "plain": meta(layout=2, strides=[], sparse={}),
    }
    yield case(
        "values",
        "sparse",
        "details of sparse layouts",
        program(graph([*map(tensor, sparse)], [], [], sparse)),
    )
    odd = {
        "transposed": meta(7, (3, 2), (1, 3)),
        "expanded": meta(7, (4, 2), (0, 1)),
        "with_offset": meta(7, (2,), (5,), storage_offset={"as_int": 7}),
        "scalar": meta(7, ()),
        "empty": meta(7, (0, 4)),
        "many": meta(7, (1,) * 16),
        "learnt": meta(requires_grad=True, device={"type": "cuda", "index": 0}),
    }
    yield case(
        "values",
        "strides",
        "transposed, expanded, shifted and empty tensors",
        program(graph([*map(tensor, odd)], [], [], odd)),
    )
    yield from _expression_cases()


EXPRESSIONS = {
    "integer": "Integer(-3)",
    "large_integer": f"Integer({2**80})",
    "rational": "Rational(1, 2)",
    "float": "Float('0.5', precision=53)",
    "float_precise": "Float('1.25e-30', precision=113)",
    "symbol": SIZE,
    "symbol_without_assumptions": "Symbol('u0')",
    "symbol_negated_assumption": "Symbol('u0', integer=True, zero=False)",
    "sum": f"Add({SIZE}, Integer(-1))",
    "product": f"Mul(Integer(2), {SIZE}, Symbol('s1', integer=True))",
    "power": f"Pow({SIZE}, Integer(2))",
    "floor_division": f"FloorDiv(Add({SIZE}, Integer(7)), Integer(8))",
    "modulo": f"Mod({SIZE}, Integer(8))",
    "python_modulo": f"PythonMod({SIZE}, Integer(-8))",
    "modular_indexing": f"ModularIndexing({SIZE}, Integer(2), Integer(3))",
    "maximum": f"Max(Integer(1), {SIZE}, Symbol('s1', integer=True))",
    "infinity": "Min(int_oo, Symbol('u0', integer=True))",
    "negative_infinity": "Max(-int_oo, Symbol('u0', integer=True))",
    "piecewise": f"Piecewise(ExprCondPair(Integer(1), StrictLessThan({SIZE}, Integer(3))), ExprCondPair(Integer(0), true))",
    "opaque": f"TruncToInt(OpaqueUnaryFn_sqrt(ToFloat({SIZE})))",
    "without_operands": "IsNonOverlappingAndDenseIndicator()",
    "leading_zeros": "Add(Integer(-007), Rational(02, 04))",
    "spaces": f"  Add( {SIZE} ,Integer( 1 ) )  ",
}
"""Expressions in constructor text."""

INFIX = {
    "symbol": "s0",
    "product_and_sum": "2*s0 - 1",
    "difference": "s0 - s1 - 2",
    "negative": "-s0",
    "negative_product": "-2*s0",
    "negative_of_a_power": "-s0**2",
    "power_of_a_sum": "(s0 + 1)**2",
    "power_with_negative_exponent": "s0**(-2)",
    "division": "s0/2",
    "division_by_a_product": "s0/(2*s1)",
    "fraction": "3/4",
    "floor_division": "((s0 + 7)//8)",
    "call": "Max(1, s0)",
    "modulo": "Mod(s0, 8)",
    "relation": "s0 < 4",
    "equation": "Eq(s0, 4)",
    "conjunction": "(s0 < 4) & (s1 >= 2)",
    "negation": "~(s0 < 4)",
    "nested": "(s0 + 1)*(s0 - 1)",
    "root": "sqrt(s0)",
    "float": "0.5*s0",
    "float_exponent": "1.5e-3*s0",
    "infinity": "Max(-int_oo, u0)",
    "piecewise": "Piecewise((1, s0 < 3), (0, True))",
    "parentheses": "(((s0)))",
    "sum_in_a_difference": "s0 - (s1 + 2)",
}
"""Expressions in infix text."""


def _expression_cases() -> Iterator[Case]:
    for name, text in EXPRESSIONS.items():
        sizes = {"x": meta(7, (1, 1)) | {"sizes": [symbolic(text), {"as_int": 3}]}}
        tree = program(graph([tensor("x")], [tensor("x")], [], sizes))
        yield case("expressions", name, f"a size in constructor text: {text}", tree)
    for name, text in INFIX.items():
        tree = simple(range_constraints={text: {"min_val": 2, "max_val": None}})
        yield case("infix", name, f"a key of range_constraints in infix text: {text}", tree)
    hints = graph(
        [named("as_sym_int", "n")],
        [],
        [
            node("torch.ops.conformance.number.default", [], [named("as_sym_float", "f")], "f"),
            node("torch.ops.conformance.truth.default", [], [named("as_sym_bool", "b")], "b"),
        ],
        sym_int_values={"n": symbolic(SIZE, as_int=2**60 + 1)},
        sym_float_values={"f": symbolic("Symbol('zuf0', real=True)", as_float="NaN")},
        sym_bool_values={"b": symbolic(f"GreaterThan({SIZE}, Integer(2))", as_bool=False)},
    )
    yield case("values", "hints", "values that are expressions, with hints of each kind", program(hints))
    known = graph(
        [named("as_sym_int", "n")],
        [],
        [
            node("torch.ops.conformance.number.default", [], [named("as_sym_float", "f")], "f"),
            node("torch.ops.conformance.truth.default", [], [named("as_sym_bool", "b")], "b"),
        ],
        sym_int_values={"n": {"as_int": 0}},
        sym_float_values={"f": {"as_float": -0.0}},
        sym_bool_values={"b": {"as_bool": False}},
    )
    yield case("values", "known", "values that are known: 0, -0.0, false", program(known))
    ranges = {
        "s0": {"min_val": 2, "max_val": None},
        "u0": {"min_val": None, "max_val": 2**70},
        "u1": {"min_val": -(2**63) + 1, "max_val": 2**63 - 1},
        "u2": {"min_val": None, "max_val": None},
    }
    yield case(
        "values",
        "ranges",
        "ranges without bounds, and with bounds beyond 64 bits",
        simple(range_constraints=ranges),
    )


# ------------------------------------------------------------------------------------------------------------- the rest

SPECS: dict[str, Tree] = {
    "leaf": LEAF,
    "tuple": container("builtins.tuple", None, LEAF, LEAF),
    "list": container("builtins.list", None, LEAF),
    "empty": container("builtins.tuple", None),
    "dict": container("builtins.dict", ["b", "a"], LEAF, LEAF),
    "dict_of_odd_keys": container("builtins.dict", ["10", "9", "__proto__", 1, True, None, 0.5], *[LEAF] * 7),
    "ordered_dict": container("collections.OrderedDict", ["z", "a"], LEAF, LEAF),
    "default_dict": container(
        "collections.defaultdict",
        {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["a"]},
        LEAF,
    ),
    "deque": container("collections.deque", 3, LEAF, LEAF),
    "named_tuple": container("conformance.Pair", ["left", "right"], LEAF, LEAF),
    "nested": container(
        "builtins.tuple",
        None,
        container("builtins.dict", ["a"], container("builtins.list", None, LEAF)),
        LEAF,
    ),
    "context_that_is_no_json": {"type": "conformance.Own", "context": "key=value", "children_spec": [LEAF]},
    "context_of_a_later_version": {
        "type": "conformance.Own@2",
        "context": {"tuple": [1, 2]},
        "children_spec": [LEAF],
    },
    "context_null": {"type": "builtins.tuple", "context": None, "children_spec": [LEAF]},
}
"""Structures of containers."""

GUARDS = {
    "comparison": "L['x'].size()[0] <= 10",
    "modulo": "L['x'].size()[0] % 8 == 0",
    "chain_of_and": "L['x'].size()[0] > 1 and L['y'].size()[0] > 1 and L['x'].size()[0] < 64",
    "or_in_and": "(L['x'] == 1 or L['y'] == 2) and L['z'] == 3",
    "and_in_or": "L['x'] == 1 or L['y'] == 2 and L['z'] == 3",
    "not": "not L['x'] == 1",
    "negative": "L['x'] >= -1",
    "negative_index": "L['x'][-1] == 0",
    "arithmetic": "2*L['x'] + L['y']//3 - L['z']**2 != 7 / 2",
    "left_to_right": "L['x'] - L['y'] - L['z'] == 0",
    "power_of_powerless": "-L['x']**2 == 4",
    "functions": "max(L['x'], 1, 2) == min(math.floor(L['y']), torch.sym_max(1, 2))",
    "constants": "L['x'] < math.inf and L['y'] < inf",
    "conditional": "(1 if L['x'] == 1 else 2) == L['y']",
    "attributes": "L['self']._base.storage_offset() == 0",
    "float": "L['x'] == 0.5 and L['y'] == 1e-3 and L['z'] == True",
    "deep_source": "L['args'][0]['key'][1].size()[2] == 4",
    "bits": "(L['x'] & 1 | 2) ^ 3 == 0",
    "precedence": "L['x'] + 2 * L['y'] == (L['x'] + 2) * L['y']",
}
"""Guards."""


def text_cases() -> Iterator[Case]:
    """Structures of containers, and guards."""
    for name, spec in SPECS.items():
        tree = simple()
        tree["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = treespec(spec)
        if name == "named_tuple":
            tree["graph_module"]["treespec_namedtuple_fields"] = {
                "conformance.Pair": {"field_names": ["left", "right"]}
            }
        count = json_leaves(spec)
        contents = tree["graph_module"]["graph"]
        contents["outputs"] = [tensor("relu")] * count
        tree["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": tensor("relu")}}] * count
        yield case("treespecs", name, f"what the program returns: {name.replace('_', ' ')}", tree)
    unusual = simple()
    text = (
        '[1, {"children_spec": [ {"type":null,"context":null,"children_spec":[]} ],'
        ' "context": [NaN, "\\ud800"], "type": "conformance.Own"}]'
    )
    unusual["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = text
    yield case(
        "treespecs", "unusual_text", "other order and spaces than torch's, NaN, a lone surrogate", unusual
    )
    for name, text in GUARDS.items():
        yield case("guards", name, f"a guard: {text}", simple(guards_code=[text]))


def json_leaves(spec: Tree) -> int:
    """Count the leaves of a treespec."""
    return 1 if spec["type"] is None else sum(map(json_leaves, spec["children_spec"]))


def signature_cases() -> Iterator[Case]:
    """Every role of inputs and outputs."""
    payload = Payload("weight_0", numbers(6), meta())
    buffer = Payload("weight_1", numbers(6, seed=9), meta(), is_param=False)
    constant = Payload("tensor_0", numbers(6, seed=5), meta(), is_param=False)
    scratch = Payload("tensor_1", numbers(6, seed=7), meta(), is_param=False)
    given: list[tuple[Tree, Tree]] = [
        (tensor("p"), {"parameter": {"arg": {"name": "p"}, "parameter_name": "layer.weight"}}),
        (tensor("b"), {"buffer": {"arg": {"name": "b"}, "buffer_name": "mean", "persistent": True}}),
        (tensor("t"), {"buffer": {"arg": {"name": "t"}, "buffer_name": "scratch", "persistent": False}}),
        (
            tensor("c"),
            {
                "tensor_constant": {
                    "arg": {"name": "c"},
                    "tensor_constant_name": "lifted_tensor_0",
                    "persistent": True,
                }
            },
        ),
        (tensor("k"), {"token": {"arg": {"name": "k"}}}),
        (tensor("x"), {"user_input": {"arg": tensor("x")}}),
        ({"as_int": 1}, {"user_input": {"arg": {"as_int": 1}, "name": "literal"}}),
    ]
    literals: list[Tree] = [
        {"as_none": True},
        {"as_int": 3},
        {"as_float": "-Infinity"},
        {"as_string": "s"},
        {"as_bool": False},
    ]
    for index, value in enumerate(literals):
        given.append((value, {"constant_input": {"name": f"constant_{index}", "value": value}}))
    x = {"name": "x"}
    returned: list[tuple[Tree, Tree]] = [
        (tensor("x"), {"buffer_mutation": {"arg": x, "buffer_name": "mean"}}),
        (tensor("x"), {"parameter_mutation": {"arg": x, "parameter_name": "layer.weight"}}),
        (tensor("x"), {"user_input_mutation": {"arg": x, "user_input_name": "x"}}),
        (tensor("k"), {"token": {"arg": {"name": "k"}}}),
        (tensor("x"), {"loss_output": {"arg": x}}),
        (tensor("x"), {"gradient_to_parameter": {"arg": x, "parameter_name": "layer.weight"}}),
        (tensor("x"), {"gradient_to_user_input": {"arg": x, "user_input_name": "x"}}),
        (tensor("x"), {"user_output": {"arg": tensor("x")}}),
        ({"as_int": 2}, {"user_output": {"arg": {"as_int": 2}, "name": "two"}}),
    ]
    contents = graph(
        [argument for argument, _ in given],
        [argument for argument, _ in returned],
        [],
        {name: meta() for name in "pbtckx"},
    )
    tree = program(contents, [spec for _, spec in given], [spec for _, spec in returned])
    held = {
        "weights": {"layer.weight": payload, "mean": buffer},
        "constants": {"lifted_tensor_0": constant, "scratch": scratch},
    }
    for wire_format in FORMATS:
        yield case(
            "formats",
            f"signature_{wire_format}",
            "every role of inputs and outputs",
            tree,
            wire_format,
            **held,
        )
    modules = simple()
    entry = modules["graph_module"]["module_call_graph"][0]
    entry["signature"]["forward_arg_names"] = ["x"]
    pair = container(
        "builtins.tuple", None, container("builtins.tuple", None, LEAF), container("builtins.dict", [])
    )
    inner = {
        **entry["signature"],
        "inputs": [tensor("x")],
        "outputs": [{"as_none": True}],
        "in_spec": treespec(pair),
        "input_names": [None],
        "output_names": ["nothing"],
    }
    modules["graph_module"]["module_call_graph"] += [
        {"fqn": "layer", "signature": inner},
        {"fqn": "layer@1", "signature": None},
        {"fqn": "other"},
    ]
    yield case("signatures", "module_calls", "calls of modules, with and without signatures", modules)
    script = graph(
        [{"as_custom_obj": {"name": "o", "class_fqn": "conformance.Queue"}}],
        [],
        [],
        {},
        custom_obj_values={"o": {"name": "o", "class_fqn": "conformance.Queue"}},
    )
    spec = {
        "custom_obj": {"arg": {"name": "o", "class_fqn": "conformance.Queue"}, "custom_obj_name": "queue"}
    }
    encoded = {"queue": {"codec": "conformance", "tree": {"items": [1, 2]}, "tensors": []}}
    tree = program(script, [spec], requires=["codecs"], encoded_values=encoded)
    yield case("signatures", "script_object", "an input that is a script object, which a codec wrote", tree)


def name_cases() -> Iterator[Case]:
    """Names of values, nodes and programs at the edges of what is legal."""
    names = ["_", "x1", "ascii_name", "a" * 4096, "X", "_1", "constructor", "toString", "valueOf", "length"]
    metas = {name: meta() for name in names}
    yield case(
        "names",
        "values",
        "names of values: long ones, and those that mean something in JavaScript",
        program(graph([*map(tensor, names)], [], [], metas)),
    )
    fqns = ["a.b.c", "0", "10", "9", "a-b", "with space", "\u00e9", "constructor", "a.0.weight"]
    fqns += [
        "it's",
        "tab\t",
        "line\r\nbreak\0",
        "__x__",
        "\u05d0.\u202e\u05d1",
        "\U0001f642",
        "a`b",
        "e\u0301",
        "\ufb01le",
    ]
    weights = {name: Payload(f"weight_{at}", numbers(6, seed=at), meta()) for at, name in enumerate(fqns)}
    from making.files import holding

    tree = holding(weights)
    yield case(
        "names",
        "weights",
        "names of weights: numbers, spaces, quotes, line breaks, not ASCII, the longest; their order counts",
        tree,
        weights=weights,
    )
    program_names = ["model", "a.b", "folder/inner", "\u00e9", "10", "9"]
    data = Archive({name: simple() for name in program_names}).build()
    yield Case("names/programs", "several programs, with dots, slashes and digits in their names", data)


def document_cases() -> Iterator[Case]:
    """Documents as a whole: fields that are absent, unknown or at their defaults, and extensions."""
    yield case("documents", "simple", "a program with one call", simple())
    for wire_format in FORMATS:
        yield case(
            "formats", f"simple_{wire_format}", "the same program in each wire format", simple(), wire_format
        )
    bare = simple()
    for field in ("verifiers", "torch_version", "guards_code"):
        del bare[field]
    for field in ("metadata", "treespec_namedtuple_fields"):
        del bare["graph_module"][field]
    for field in ("is_single_tensor_return", "custom_obj_values", "sym_float_values"):
        del bare["graph_module"]["graph"][field]
    yield case("documents", "absent_fields", "fields with defaults are absent", bare)
    stated = simple(
        requires=[], producer=None, readable_from=None, plugins=[], edited_values=[], encoded_values={}
    )
    stated["graph_module"]["graph"] |= {
        "input_names": None,
        "value_metadata": {},
        "placed": {},
        "output_list": False,
    }
    yield case("documents", "stated_defaults", "fields are present with their default values", stated)
    unknown = simple(a_later_field={"anything": [1]})
    unknown["graph_module"]["graph"]["nodes"][0]["a_later_field"] = None
    unknown["graph_module"]["graph"]["tensor_values"]["x"]["a_later_field"] = 1
    yield case(
        "documents", "unknown_fields", "fields that the specification does not know are ignored", unknown
    )
    later = simple(schema_version={"major": 8, "minor": 99})
    yield case("documents", "later_minor", "a later minor version of the schema", later)
    null = simple()
    argument = null["graph_module"]["graph"]["nodes"][0]["inputs"][0]
    argument["arg"] = {"as_none": None, "as_tensor": {"name": "x"}, "as_int": None}
    yield case("documents", "null_variants", "a union whose other variants are null", null)
    empty = program(graph())
    yield case("documents", "empty", "a program without inputs, outputs and nodes", empty)
    provenance = simple(
        producer="somebody 1.0",
        readable_from="torch-2.9",
        plugins=[{"distribution": "conformance", "version": "1.2.3", "provides": ["op_handler:conformance"]}],
        stack_frames=[
            {"file": "/m.py", "line": 7, "name": "forward", "source": "    return x\n"},
            {"file": "/m.py", "line": 1, "name": "<lambda>", "stripped": True},
        ],
        node_sources=[
            {"name": "x", "target": "x", "graph_id": 1},
            {
                "name": "relu",
                "target": "relu",
                "graph_id": 2,
                "pass_name": "p",
                "action": "create+replace",
                "from_node": [0],
            },
        ],
        inline_constraints={"u0": {"min_val": 0, "max_val": None}},
        range_constraints={"s0": {"min_val": 2, "max_val": 8}, "u1": {"min_val": 4, "max_val": 16}},
        replacements={"u1": f"Mul(Integer(2), {SIZE})"},
        metadata={"custom": '{"who": "me"}'},
    )
    call = provenance["graph_module"]["graph"]["nodes"][0]
    call |= {
        "stack": [0, 1],
        "from_node": [1],
        "metadata": {"torch_fn": "relu_1;function.relu", "nn_module_stack": "a,b,c"},
    }
    provenance["graph_module"]["graph"] |= {
        "value_metadata": {"x": {"metadata": {"custom": "[1]"}, "stack": [1]}},
        "output_metadata": {"stated": True},
        "held_as": {"x": "buffer"},
    }
    yield case("documents", "provenance", "everything that a reader may ignore", provenance)
    gone = simple()
    root = gone["graph_module"]["module_call_graph"][0]["signature"]
    gone["graph_module"]["module_call_graph"].append(
        {"fqn": "layer", "signature": {**root, "inputs": [tensor("x")], "outputs": [tensor("removed")]}}
    )
    yield case(
        "documents", "names_of_removed_values", "a module call names a value that no graph has any more", gone
    )
    placed = simple()
    placed["graph_module"]["graph"]["placed"] = {"nobody": "relu", "relu": "nobody", "somebody": ""}
    yield case("documents", "placed", "positions of nodes that do not exist", placed)
    odd = simple(
        opset_version={"aten": 10, "somebody": 3, "a.b": 1},
        torch_version="99.0",
        producer="x",
        readable_from="torch-99.0",
    )
    odd["graph_module"]["graph"]["nodes"][0]["metadata"] = {
        "any key": "any text",
        "": "",
        "nn_module_stack": "one,two",
    }
    yield case("documents", "origins", "versions and metadata that no reader knows", odd)
    deep: Tree = {"as_none": True}
    for _ in range(90):
        deep = {"as_string_to_argument": {"a": deep}}
    yield case("documents", "nested_arguments", "arguments 90 deep", taking(deep))
    unusual = taking({"as_float": math.inf}, {"as_floats": [math.nan, -math.inf]})
    for wire_format in FORMATS:
        yield case(
            "formats",
            f"floats_{wire_format}",
            "floats of the wire format that are not finite",
            unusual,
            wire_format,
        )
    yield from _optional_cases()
    nested = simple()
    for depth in range(12):
        body = nested["graph_module"]["graph"]
        call = node(
            "torch.ops.higher_order.wrap",
            [("", {"as_graph": {"name": f"g{depth}", "graph": body}}), ("", tensor("x"))],
            [tensor("relu")],
            "call",
        )
        nested = program(
            graph(
                [tensor("x")],
                [tensor("relu")],
                [call | {"is_hop_single_tensor_return": True}],
                {"x": meta(), "relu": meta()},
            )
        )
    yield case("documents", "nested_subgraphs", "subgraphs twelve deep", nested)
    several = node(
        "torch.ops.conformance.several.default",
        [("self", tensor("x"))],
        [{"as_tensors": [{"name": "r0"}, {"name": "r1"}]}, {"as_none": True}, tensor("r2")],
        "several",
    )
    tree = program(
        graph([tensor("x")], [tensor("r1")], [several], {name: meta() for name in ("x", "r0", "r1", "r2")})
    )
    yield case(
        "documents", "several_results", "a call with several results, one of them a list, one None", tree
    )
    encoded = {
        "table": {
            "codec": "conformance",
            "tree": {"bytes": [1, None, {"a": "b"}], "b": 2**70},
            "tensors": ["table#0"],
        },
        "plain": {
            "codec": "conformance",
            "tree": None,
            "tensors": [],
            "is_weight": True,
            "buffer": False,
            "index": 0,
        },
    }
    table = {"table#0": Payload("tensor_0", numbers(6), meta(), is_param=False)}
    for wire_format in FORMATS:
        tree = simple(requires=["codecs"], encoded_values=encoded)
        if wire_format != "json":
            tree["encoded_values"]["table"]["tree"]["raw"] = b"\x00\xff"
        yield case(
            "codecs",
            f"values_{wire_format}",
            "constants that a codec wrote",
            tree,
            wire_format,
            constants=table,
        )
    for feature, about in (
        ("calls", "a call that its operator's handler wrote"),
        ("containers", "a container type without a serialized name"),
        ("outputs", "an output that is text"),
    ):
        tree = simple(requires=[feature])
        if feature == "outputs":
            tree = program(
                graph([tensor("x")], [{"as_string": "text"}], [], {"x": meta()}), requires=[feature]
            )
        yield case("extensions", feature, about, tree)
    unstated = node(
        "torch.ops.aten.relu.default", [("self", tensor("x"))], [tensor("r")], "r", propagate=True
    )
    tree = program(graph([tensor("x")], [], [unstated], {"x": meta()}), requires=["propagate"])
    yield case("extensions", "propagate", "a call of whose result nothing is stated", tree)


def _optional_cases() -> Iterator[Case]:
    """Every other field that a reader may ignore."""
    number = named("as_sym_int", "getitem")
    several = node(
        "torch.ops.conformance.several.default",
        [("self", tensor("x"))],
        [number, {"as_tensors": [{"name": "r0"}, {"name": "several_unused_1_1"}]}],
        "several",
        container="list",
    )
    use = node("torch.ops.conformance.use.default", [("a", number), ("b", number)], [tensor("z")], "use")
    sized = meta(7, (1, 3)) | {"sizes": [symbolic(SIZE, as_int=4), {"as_int": 3}]}
    inner = {"codec": "conformance", "tree": {"scale": 2}, "parts": [{"meta": sized}]}
    outer = {
        "codec": "conformance",
        "tree": {"sizes": [{"graphwire.integer": 0}, 3], "scale": 0.5},
        "parts": [{"meta": sized, "composition": inner}, {"meta": sized}],
        "integers": [symbolic(SIZE)],
    }
    body = graph(
        [tensor("a"), {"as_none": True}],
        [tensor("a")],
        [],
        {"a": meta()},
        input_names=["a", "nothing"],
        output_list=True,
    )
    wrap = node(
        "torch.ops.higher_order.wrap",
        [("", {"as_graph": {"name": "g", "graph": body}}), ("", tensor("x"))],
        [tensor("w")],
        "w",
    )
    contents = graph(
        [tensor("x")],
        [tensor("z")],
        [several, use, wrap],
        {"x": sized, **{name: meta() for name in ("r0", "several_unused_1_1", "z", "w")}},
        sym_int_values={"getitem": symbolic(SIZE, as_int=4)},
        compositions={"x": outer},
        copies={"getitem_1": {"of": "getitem", "uses": {"use": [1], "module_call_graph[0].inputs": []}}},
        value_metadata={
            "several[1]": {"name": "getitem_2", "unstated": True},
            "r0": {"value": meta(8)},
            "x": {"target": "renamed"},
        },
        placed={"getitem_2": "use"},
    )
    tree = program(
        contents,
        range_constraints={"s0": {"min_val": 2, "max_val": 64}},
        edited_values=["w"],
        group_sizes={"0": 2, "tensor": 4},
    )
    yield case("documents", "optional", "fields that a reader may ignore", tree)


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (argument_cases, value_cases, text_cases, signature_cases, name_cases, document_cases):
        yield from cases()
