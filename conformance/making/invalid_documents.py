"""Invalid files: documents that break one rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from making.documents import (
    LEAF,
    Tree,
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
    whole,
)
from making.files import (
    FORMATS,
    REMOVED,
    Archive,
    Case,
    Payload,
    edited,
    encode,
    holding,
    json_bytes,
    numbers,
)

SIZE = "Symbol('s0', positive=True, integer=True)"
GRAPH = "graph_module.graph"
CALL = f"{GRAPH}.nodes.0"
META = f"{GRAPH}.tensor_values.x"
SIGNATURE = "graph_module.signature"
ROOT = "graph_module.module_call_graph.0.signature"


def case(
    group: str,
    name: str,
    rule: str,
    about: str,
    tree: Tree | bytes,
    wire_format: str = "json",
    **archive: Any,
) -> Case:
    """An invalid file with one program, and with no more records than a reader needs."""
    data = Archive({"model": tree}, wire_format=wire_format, **archive).small().build()
    return Case(
        f"{group}/{name}", about, data, tuple(rule.split()), valid=False, needs=(wire_format, "documents")
    )


def argument(name: str, rule: str, value: Tree, requires: str = "") -> Case:
    """A file with a call that takes one wrong argument."""
    return case(
        "arguments", name, rule, f"an argument: {name.replace('_', ' ')}", taking(value, requires=requires)
    )


def shape_cases() -> Iterator[Case]:
    """Trees that are no records."""
    union, types, required, null = "DOC-10", "DOC-4", "DOC-4", "DOC-8"
    yield argument("union_without_a_variant", union, {})
    yield argument("union_with_two_variants", union, {"as_int": 1, "as_bool": True})
    yield argument("union_with_only_a_null_variant", union, {"as_int": None})
    yield argument("unknown_variant", "DOC-10 VER-8", {"as_hologram": 1})
    yield argument("inner_union_with_two_variants", union, {"as_sym_int": {"as_name": "n", "as_int": 1}})
    yield argument("inner_union_without_a_variant", union, {"as_sym_int": {}})
    yield argument("int_of_text", "DOC-13", {"as_int": "1"})
    yield argument("int_of_a_truth_value", "DOC-13", {"as_int": True})
    yield argument("int_of_a_fraction", "DOC-13", {"as_int": 1.5})
    yield argument("int_of_a_whole_float", "DOC-13", {"as_int": 1.0})
    yield argument("bool_of_a_number", "DOC-18", {"as_bool": 1})
    yield argument("string_of_a_number", types, {"as_string": 1})
    yield argument("float_of_text", "DOC-17", {"as_float": "1.0"})
    yield argument("float_of_another_text", "DOC-17 GRA-26", {"as_float": "infinity"})
    yield argument("list_of_mixed_kinds", types, {"as_ints": [1, "2"]})
    yield argument("list_that_is_a_dict", types, {"as_ints": {"0": 1}})
    yield argument("dict_that_is_a_list", types, {"as_string_to_argument": [1]})
    yield argument("tensor_of_text", types, {"as_tensor": "x"})
    yield argument(
        "sequence_of_another_kind", types, {"as_sequence": {"kind": "set", "items": []}}, "sequences"
    )
    yield argument("scalar_type_unknown", "DOC-19 VER-8", {"as_scalar_type": 99})
    yield argument("layout_unknown", "DOC-19 VER-8", {"as_layout": 8})
    yield argument("memory_format_unknown", "DOC-19 VER-8", {"as_memory_format": 9})
    yield argument("range_without_step", "GRA-24", {"as_range": {"start": 0, "stop": 1, "step": 0}}, "ranges")
    from making.valid_documents import arguments

    for name, (value, feature) in arguments().items():
        if feature:
            yield argument(f"{name}_without_its_extension", "EXT-2", value)
    several = node(
        "torch.ops.conformance.several.default", [], [tensor("first"), tensor("second")], "several"
    )
    tensors = {name: meta() for name in ("x", "y", "z", "first", "second")}
    tree = taking({"as_results": "several"}, extra_nodes=[several], tensor_values=tensors)
    yield case(
        "arguments",
        "results_without_their_extension",
        "EXT-2",
        "all results of a node, without the extension",
        tree,
    )
    constant = Payload("tensor_0", numbers(6), meta(), is_param=False)
    yield case(
        "arguments",
        "constant_without_its_extension",
        "EXT-2",
        "an argument that is a constant, without the extension",
        taking({"as_constant": "graph::0.table"}),
        constants={"graph::0.table": constant},
    )
    encoded = {"table": {"codec": "conformance", "tree": None, "tensors": []}}
    yield case(
        "documents",
        "codecs_without_extension",
        "EXT-2 PAY-23",
        "a coded value without the extension",
        simple(encoded_values=encoded),
    )
    named_type = edited(edited(simple(), f"{META}.dtype", 0), f"{META}.dtype_name", "float4_e2m1fn_x2")
    yield case(
        "documents",
        "dtype_name_without_extension",
        "EXT-2",
        "the name of an element type without the extension",
        named_type,
    )
    deep: Tree = {"as_none": True}
    for _ in range(110):
        deep = {"as_string_to_argument": {"a": deep}}
    yield argument("nested_110_deep", "DOC-28", deep)
    yield case(
        "documents",
        "version_of_operators",
        "DOC-15",
        "a version of operators below 1",
        simple(opset_version={"aten": 0}),
    )
    yield case(
        "documents",
        "negative_minor",
        "DOC-15",
        "a negative minor version",
        simple(schema_version={"major": 8, "minor": -1}),
    )
    yield case(
        "documents",
        "carriage_return",
        "DOC-32",
        "a stack trace with a carriage return",
        edited(simple(), f"{CALL}.metadata", {"stack_trace": "a\rb"}),
    )
    yield case(
        "documents",
        "nul_in_a_trace",
        "DOC-32",
        "a stack trace with a NUL",
        edited(simple(), f"{CALL}.metadata", {"stack_trace": "a\x00b"}),
    )
    frame = {"file": "/m.py", "line": 1, "name": "f\r"}
    yield case(
        "documents",
        "carriage_return_in_a_frame",
        "DOC-32",
        "a frame with a carriage return",
        simple(stack_frames=[frame]),
    )
    names = edited(simple(), f"{ROOT}.input_names", ["x", "y"])
    yield case("documents", "input_names", "DOC-27", "more names of inputs than inputs", names)
    yield case(
        "documents",
        "forward_names_twice",
        "DOC-31",
        "two parameters of forward have one name",
        edited(simple(), f"{ROOT}.forward_arg_names", ["x", "x"]),
    )
    yield case(
        "documents",
        "forward_self",
        "DOC-29 GRA-72",
        "a parameter of forward is named self",
        edited(simple(), f"{ROOT}.forward_arg_names", ["self"]),
    )
    for path, about in {
        "graph_module": "the graph module",
        f"{GRAPH}.nodes": "the nodes of the graph",
        f"{GRAPH}.tensor_values": "the table of tensors",
        f"{CALL}.target": "the target of a node",
        f"{CALL}.inputs": "the inputs of a node",
        f"{CALL}.inputs.0.arg": "the argument of an input",
        f"{META}.dtype": "the element type of a tensor",
        f"{META}.sizes": "the sizes of a tensor",
        f"{SIGNATURE}": "the signature",
        f"{SIGNATURE}.input_specs": "the roles of inputs",
        "opset_version": "the versions of operators",
        "range_constraints": "the ranges",
    }.items():
        name = path.replace(".", "_").removeprefix("graph_module_")
        yield case(
            "documents",
            f"without_{name}",
            required,
            f"a field that must be there is absent: {about}",
            edited(simple(), path, REMOVED),
        )
        yield case(
            "documents",
            f"null_{name}",
            null,
            f"a field is null that must not be: {about}",
            edited(simple(), path, None),
        )
    for name, value in {"text": "nodes", "a_dict": {}, "a_number": 1}.items():
        yield case(
            "documents",
            f"nodes_are_{name}",
            types,
            "the nodes are no list",
            edited(simple(), f"{GRAPH}.nodes", value),
        )
    for name, value in {"a_list": [], "null": None, "text": "program", "a_number": 3}.items():
        yield case("documents", f"document_is_{name}", types, "the document is no dict", encode(value))
    yield case(
        "documents",
        "element_type_unknown",
        "DOC-19 VER-8",
        "a tensor has an element type of an unknown number",
        edited(simple(), f"{META}.dtype", 99),
    )
    yield case(
        "documents",
        "element_type_of_text",
        types,
        "a tensor has an element type that is text",
        edited(simple(), f"{META}.dtype", "FLOAT"),
    )
    yield case(
        "documents",
        "kind_unknown",
        "DOC-19 VER-8",
        "an input of a node has an unknown kind",
        edited(simple(), f"{CALL}.inputs.0.kind", 3),
    )
    yield case(
        "documents",
        "major_version",
        "VER-5 HIS-3",
        "a document of another major version",
        simple(schema_version={"major": 9, "minor": 0}),
    )
    for minor in (0, 1):
        yield case(
            "documents",
            f"minor_version_{minor}",
            "HIS-3 VER-5",
            "a document of a version that no release wrote, before the first minor one of its major",
            simple(schema_version={"major": 8, "minor": minor}),
        )
    guards = case(
        "documents",
        "guards_before_guards",
        "DOC-4",
        "guards that are no list, in a document of a schema that has none: no step names them, so they stay",
        simple(schema_version={"major": 8, "minor": 7}, guards_code=False),
    )
    yield replace(guards, needs=(*guards.needs, "schema-8"))
    yield case(
        "documents",
        "without_schema_version",
        "VER-5 HIS-1 DOC-4",
        "a document without a version",
        edited(simple(), "schema_version", REMOVED),
    )
    for wire_format in FORMATS:
        tree = simple(requires=["holograms"])
        yield case(
            "formats",
            f"requires_{wire_format}",
            "VER-7 EXT-1",
            "a document requires an unknown extension",
            tree,
            wire_format,
        )
    yield case(
        "documents",
        "requires_several",
        "VER-7 EXT-1",
        "one of the required extensions is unknown",
        simple(requires=["slices", "holograms"]),
    )
    yield case(
        "documents",
        "requires_is_text",
        types,
        "the required extensions are no list",
        simple(requires="slices"),
    )
    two = Archive({"good": simple(), "later": simple(requires=["holograms"])}).build()
    yield Case(
        "documents/requires_in_one_of_two",
        "one of two programs requires an unknown extension",
        two,
        ("VER-7", "EXT-1"),
        False,
        ("json", "documents"),
    )


def value_cases() -> Iterator[Case]:
    """Values, references and names."""

    def of(name: str, rule: str, about: str, tree: Tree) -> Case:
        return case("values", name, rule, about, tree)

    yield of(
        "undefined",
        "GRA-5",
        "a reference to a value that nothing defines",
        edited(simple(), f"{CALL}.inputs.0.arg", tensor("y")),
    )
    late = graph(
        [tensor("x")], [tensor("b")], [relu("b", "a"), relu("x", "b")], {name: meta() for name in "xab"}
    )
    yield of("defined_later", "GRA-5", "a reference to the value of a later node", program(late))
    own = graph([tensor("x")], [tensor("a")], [relu("a", "a")], {name: meta() for name in "xa"})
    yield of("defined_by_itself", "GRA-5", "a node that takes its own result", program(own))
    yield of(
        "undefined_output",
        "GRA-5",
        "an output that nothing defines",
        program(graph([tensor("x")], [tensor("y")], [], {"x": meta()})),
    )
    yield of("kind", "GRA-5", "a reference by the variant of another kind", taking(named("as_sym_int", "x")))
    yield of(
        "kind_of_an_output",
        "GRA-5",
        "a tensor that is referred to as a number",
        taking({"as_sym_ints": [{"as_name": "y"}]}),
    )
    yield of(
        "undefined_in_a_list",
        "GRA-5",
        "a list with a value that nothing defines",
        taking({"as_tensors": [{"name": "x"}, {"name": "q"}]}),
    )
    yield of(
        "undefined_in_a_dict",
        "GRA-5",
        "a dict with such a value",
        taking({"as_string_to_argument": {"k": tensor("q")}}),
    )
    inner = graph([tensor("a")], [tensor("r")], [relu("x", "r")], {"a": meta(), "r": meta()})
    yield of(
        "of_the_graph_around",
        "GRA-42",
        "a subgraph that uses a value of the graph around it",
        taking({"as_graph": {"name": "g", "graph": inner}}),
    )
    twice = graph(
        [tensor("x")], [tensor("a")], [relu("x", "a"), relu("x", "a")], {name: meta() for name in "xa"}
    )
    twice["nodes"][1]["name"] = "other"
    yield of("defined_twice", "GRA-2 DOC-30", "two nodes that define the same value", program(twice))
    again = graph([tensor("x"), tensor("x")], [], [], {"x": meta()})
    yield of("input_twice", "GRA-2 DOC-30", "two inputs of the same name", program(again))
    hides = graph([tensor("x")], [tensor("x")], [relu("x", "x")], {"x": meta()})
    yield of("input_and_result", "GRA-2 DOC-30", "a node that defines an input again", program(hides))
    yield of(
        "without_an_entry",
        "GRA-4",
        "a value without an entry",
        edited(simple(), f"{GRAPH}.tensor_values.relu", REMOVED),
    )
    more = edited(simple(), f"{GRAPH}.tensor_values.q", meta())
    yield of("entry_of_no_value", "GRA-4", "an entry that belongs to no value", more)
    other = edited(simple(), f"{GRAPH}.sym_int_values.x", {"as_int": 1})
    yield of("entry_of_another_kind", "GRA-4", "an entry for a tensor in the table of integers", other)
    yield of(
        "symbol_without_an_entry",
        "GRA-4",
        "a symbolic integer without an entry",
        edited(taking({"as_int": 1}), f"{GRAPH}.sym_int_values.n", REMOVED),
    )
    bad = {
        "empty": "",
        "digit": "0x",
        "dot": "a.b",
        "space": "a b",
        "self": "self",
        "keyword": "lambda",
        "torch": "torch",
        "dunder": "__class__",
        "underscores": "____",
        "not_ascii": "gr\u00f6\u00dfe",
        "long": "a" * 4097,
        "line": "a\n",
    }
    for name, text in bad.items():
        tree = program(graph([tensor(text)], [], [], {text: meta()}))
        yield of(
            f"name_{name}", "GRA-9 DOC-29", f"a value with a name that is not legal: {text[:20]!r}", tree
        )
    yield of(
        "name_of_a_node",
        "GRA-9 DOC-29",
        "a node with a name that is not legal",
        edited(simple(), f"{CALL}.name", "a.b"),
    )
    for name, text in {
        "empty_part": "torch..add",
        "call": "torch.ops.aten.add.Tensor()",
        "empty": "",
        "plugin": "#a:b:c",
        "space": "torch.ops a",
    }.items():
        yield of(
            f"operator_{name}",
            "GRA-12 DOC-29",
            f"an operator with a name that is not legal: {text!r}",
            edited(simple(), f"{CALL}.target", text),
        )
    for name, text in {
        "empty": "",
        "empty_part": "a..b",
        "quote": 'a"b',
        "dunder": "a.__class__",
        "backslash": "a\\b",
        "long": "\u00e9" * 2049,
    }.items():
        payload = Payload("weight_0", numbers(6), meta())
        tree = holding({text: payload})
        yield case(
            "values",
            f"path_{name}",
            "GRA-11 DOC-29",
            f"a parameter with a name that is not legal: {text!r}",
            tree,
            weights={text: payload},
        )
    script = graph(
        [{"as_custom_obj": {"name": "o", "class_fqn": ""}}],
        [],
        [],
        {},
        custom_obj_values={"o": {"name": "o", "class_fqn": ""}},
    )
    spec = {"custom_obj": {"arg": {"name": "o", "class_fqn": "a'b"}, "custom_obj_name": "queue"}}
    encoded = {"queue": {"codec": "conformance", "tree": None, "tensors": []}}
    yield of(
        "class_name",
        "GRA-13 DOC-29",
        "an object with a class name that is not legal",
        program(script, [spec], requires=["codecs"], encoded_values=encoded),
    )
    repeated = taking({"as_int": 1}, {"as_int": 2})
    repeated["graph_module"]["graph"]["nodes"][-1]["inputs"][1]["name"] = "a0"
    yield of("parameter_twice", "GRA-21 DOC-31", "a node with two inputs of the same name", repeated)
    for name, text in {
        "dunder": "__import__",
        "point": "a.b",
        "keyword": "lambda",
        "ligature": "\ufb01le",
        "combining_mark": "e\u0301",
        "letter_outside_the_profile": "\U00010400",
        "mark_first": "\u0660a",
    }.items():
        tree = edited(edited(simple(), f"{CALL}.inputs.0.name", text), f"{CALL}.inputs.0.kind", 2)
        yield of(
            f"parameter_{name}", "GRA-10 DOC-29", f"an input by a keyword that is not legal: {text!r}", tree
        )
    yield of(
        "input_list",
        "GRA-15",
        "an input of a graph that is a list",
        program(graph([{"as_ints": [1]}], [], [], {})),
    )
    single = graph([tensor("a")], [tensor("a"), tensor("a")], [], {"a": meta()}, is_single_tensor_return=True)
    yield of(
        "single_of_two",
        "GRA-18",
        "a subgraph that returns its only output bare, and has two",
        taking({"as_graph": {"name": "g", "graph": single}}),
    )
    yield of(
        "result_of_no_kind",
        "GRA-36",
        "a node with a list of texts as result",
        edited(simple(), f"{CALL}.outputs", [tensor("relu"), {"as_strings": ["a"]}]),
    )
    yield of(
        "result_device",
        "GRA-36",
        "a node with a device as result",
        edited(simple(), f"{CALL}.outputs", [tensor("relu"), {"as_device": {"type": "cpu"}}]),
    )
    yield of(
        "results_of_no_node",
        "GRA-40",
        "all results of a node that does not exist",
        taking({"as_results": "nobody"}, requires="results"),
    )
    yield of(
        "strides",
        "GRA-50 DOC-22",
        "a tensor with fewer strides than sizes",
        edited(simple(), f"{META}.strides", whole(1)),
    )
    yield of(
        "dimensions",
        "GRA-51 DOC-15",
        "a tensor with 65 dimensions",
        edited(simple(), META, meta(7, [1] * 65)),
    )
    yield of(
        "elements",
        "GRA-51 DOC-15",
        "a tensor with 2**60 elements",
        edited(simple(), META, meta(7, [2**30, 2**30])),
    )
    yield of(
        "reach",
        "GRA-51 DOC-15",
        "a tensor whose strides reach too far",
        edited(simple(), META, meta(7, [2, 2], [2**59, 1])),
    )
    yield of(
        "dtype_without_name",
        "GRA-52 DOC-20",
        "an element type without a number and a name",
        edited(simple(), f"{META}.dtype", 0),
    )
    yield of(
        "dtype_with_both",
        "GRA-52 DOC-20",
        "an element type with a number and a name",
        edited(simple(requires=["dtypes"]), f"{META}.dtype_name", "float4_e2m1fn_x2"),
    )
    yield of(
        "layout_without_name",
        "GRA-52 DOC-20",
        "a layout without a number and a name",
        edited(simple(), f"{META}.layout", 0),
    )
    yield of(
        "device_type",
        "GRA-53 DOC-15",
        "a device type that is not legal",
        edited(simple(), f"{META}.device", {"type": "c p u", "index": None}),
    )
    yield of(
        "device_index",
        "GRA-53 DOC-15",
        "a device of a negative index",
        edited(simple(), f"{META}.device", {"type": "cuda", "index": -1}),
    )
    yield of(
        "negative_size", "EXP-25 DOC-15", "a negative size", edited(simple(), f"{META}.sizes", whole(-1, 3))
    )
    yield of(
        "negative_stride",
        "EXP-25 DOC-15",
        "a negative stride",
        edited(simple(), f"{META}.strides", whole(-3, 1)),
    )
    yield of(
        "negative_offset",
        "EXP-25 DOC-15",
        "a negative offset",
        edited(simple(), f"{META}.storage_offset", {"as_int": -1}),
    )
    yield of(
        "size_beyond_63_bits",
        "EXP-25 DOC-15",
        "a size of 2**63",
        edited(simple(), f"{META}.sizes", whole(0, 2**63)),
    )
    frames = simple(stack_frames=[{"file": "/m.py", "line": 1, "name": "f"}])
    yield of(
        "stack_outside",
        "GRA-66 DOC-15",
        "a stack with an index outside of its table",
        edited(frames, f"{CALL}.stack", [1]),
    )
    yield of(
        "stack_negative",
        "GRA-66 DOC-15",
        "a stack with a negative index",
        edited(frames, f"{CALL}.stack", [-1]),
    )
    rows = [{"name": "a", "target": "a", "graph_id": 1, "from_node": [0]}]
    yield of(
        "source_of_itself", "GRA-66 DOC-15", "an origin that refers to itself", simple(node_sources=rows)
    )


def signature_cases() -> Iterator[Case]:
    """Roles of inputs and outputs, structures of calls."""

    def of(name: str, rule: str, about: str, tree: Tree, **archive: Any) -> Case:
        return case("signatures", name, rule, about, tree, **archive)

    yield of(
        "fewer_inputs",
        "SIG-1 DOC-27",
        "fewer roles than inputs",
        edited(simple(), f"{SIGNATURE}.input_specs", []),
    )
    twice = simple()["graph_module"]["signature"]["output_specs"] * 2
    yield of(
        "more_outputs",
        "SIG-1 DOC-27",
        "more roles than outputs",
        edited(simple(), f"{SIGNATURE}.output_specs", twice),
    )
    yield of(
        "without_a_variant",
        "SIG-1 DOC-27",
        "a role without a variant",
        edited(simple(), f"{SIGNATURE}.input_specs.0", {}),
    )
    both = {"user_input": {"arg": tensor("x")}, "token": {"arg": {"name": "x"}}}
    yield of(
        "two_variants",
        "SIG-1 DOC-27",
        "a role with two variants",
        edited(simple(), f"{SIGNATURE}.input_specs.0", both),
    )
    for side, held in (("input", {"as_tensor": {"name": "x"}}), ("output", {"as_tensor": {"name": "relu"}})):
        yield of(
            f"argument_of_an_{side}_with_two_variants",
            "DOC-10",
            f"a spec of an {side} whose argument has two variants, of which the first is that of the graph",
            edited(simple(), f"{SIGNATURE}.{side}_specs.0.user_{side}.arg", {**held, "as_int": 1}),
        )
    for kind, returned in {
        "device": {"as_device": {"type": "cpu"}},
        "list": {"as_tensors": [{"name": "relu"}]},
        "optional_tensor": {"as_optional_tensor": {"as_tensor": {"name": "relu"}}},
        "sequence": {"as_sequence": {"items": [tensor("relu")], "kind": "list"}},
    }.items():
        requires = ["sequences"] if kind == "sequence" else []
        tree = edited(simple(requires=requires), f"{SIGNATURE}.output_specs.0.user_output.arg", returned)
        yield of(
            f"output_that_is_a_{kind}",
            "SIG-11",
            f"a result for the caller that is a {kind.replace('_', ' ')}, in the graph and its spec alike",
            edited(tree, "graph_module.graph.outputs.0", returned),
        )
    yield of(
        "unknown_variant",
        "VER-8",
        "a role with an unknown variant",
        edited(simple(), f"{SIGNATURE}.input_specs.0", {"oracle": {}}),
    )
    yield of(
        "other_input",
        "SIG-2",
        "a role of another input",
        edited(simple(), f"{SIGNATURE}.input_specs.0.user_input.arg", tensor("relu")),
    )
    yield of(
        "other_output",
        "SIG-2",
        "a role of another output",
        edited(simple(), f"{SIGNATURE}.output_specs.0.user_output.arg", tensor("x")),
    )
    literal = program(
        graph([{"as_int": 3}], [], [], {}), [{"constant_input": {"name": "k", "value": {"as_int": 4}}}]
    )
    yield of("another_literal", "SIG-4", "a literal input with another value than the graph's", literal)
    kind = program(
        graph([{"as_int": 1}], [], [], {}), [{"constant_input": {"name": "k", "value": {"as_float": 1.0}}}]
    )
    yield of("literal_of_another_kind", "SIG-4", "a literal input of another kind than the graph's", kind)
    payload = Payload("weight_0", numbers(6), meta())
    number = graph([named("as_sym_int", "n")], [], [], {}, sym_int_values={"n": {"as_int": 1}})
    yield of(
        "parameter_of_a_number",
        "SIG-2",
        "a parameter that is a number",
        program(number, [{"parameter": {"arg": {"name": "n"}, "parameter_name": "w"}}]),
        weights={"w": payload},
    )
    for variant, fields in {
        "buffer_mutation": {"buffer_name": "nothing"},
        "parameter_mutation": {"parameter_name": "nothing"},
        "user_input_mutation": {"user_input_name": "nothing"},
        "gradient_to_parameter": {"parameter_name": "nothing"},
    }.items():
        tree = program(
            graph([tensor("x")], [tensor("x")], [], {"x": meta()}),
            None,
            [{variant: {"arg": {"name": "x"}, **fields}}],
        )
        yield of(
            f"{variant}_of_nothing", "SIG-12", f"a {variant.replace('_', ' ')} of what is no input", tree
        )
    tree = program(graph([tensor("x")], [{"as_ints": [1]}], [], {"x": meta()}))
    yield of("output_list", "SIG-11", "an output for the caller that is a list", tree)
    ranges = {
        "range_order": ({"s0": {"min_val": 5, "max_val": 4}}, "EXP-26 DOC-21"),
        "range_of_a_truth_value": ({"s0": {"min_val": True, "max_val": 4}}, "EXP-26"),
    }
    for name, (table, rule) in ranges.items():
        yield of(name, rule, "a range that is none", simple(range_constraints=table))


SPECS: dict[str, tuple[str, str]] = {
    "not_json": ("TSP-1", "[1, {"),
    "protocol": ("TSP-1", treespec(LEAF).replace("[1,", "[2,")),
    "without_protocol": ("TSP-1", json.dumps(LEAF)),
    "three_items": ("TSP-1", json.dumps([1, LEAF, LEAF])),
    "without_context": ("TSP-2", '[1, {"type": null, "children_spec": []}]'),
    "unknown_field": ("TSP-2", json.dumps([1, {**LEAF, "name": "x"}])),
    "children_no_list": (
        "TSP-2",
        json.dumps([1, {"type": "builtins.list", "context": "null", "children_spec": {}}]),
    ),
    "child_null": (
        "TSP-2",
        json.dumps([1, {"type": "builtins.list", "context": "null", "children_spec": [None]}]),
    ),
    "leaf_with_context": ("TSP-3", json.dumps([1, {**LEAF, "context": "null"}])),
    "leaf_with_children": ("TSP-3", json.dumps([1, {**LEAF, "children_spec": [LEAF]}])),
    "type_number": ("TSP-4", json.dumps([1, {"type": 3, "context": "null", "children_spec": []}])),
}
"""Texts that are no treespecs, and the rule that each breaks."""

EXPRESSIONS: dict[str, tuple[str, str]] = {
    "empty": ("EXP-9", ""),
    "infix": ("EXP-9", "s0 + 1"),
    "number": ("EXP-9", "5"),
    "unknown_operation": ("EXP-4", "Foo(Integer(1))"),
    "too_few_operands": ("EXP-4", "Mod(Integer(1))"),
    "too_many_operands": ("EXP-4", "FloorDiv(Integer(1), Integer(2), Integer(3))"),
    "no_operands": ("EXP-4", "Add()"),
    "unknown_constant": ("EXP-3", "pi"),
    "python_truth": ("EXP-3", "True"),
    "pair_outside": ("EXP-5", "Add(ExprCondPair(Integer(1), true))"),
    "piecewise_without_pair": ("EXP-5", "Piecewise(Integer(1))"),
    "symbol_keyword": ("EXP-6", "Symbol('lambda')"),
    "symbol_dunder": ("EXP-6", "Symbol('__s0')"),
    "symbol_constant": ("EXP-6", "Symbol('oo')"),
    "symbol_not_ascii": ("EXP-6", "Symbol('\u00e9')"),
    "unknown_assumption": ("EXP-7", "Symbol('s0', big=True)"),
    "assumption_twice": ("EXP-7", "Symbol('s0', integer=True, integer=True)"),
    "comma_at_the_end": ("EXP-9", "Add(Integer(1),)"),
    "no_comma": ("EXP-9", "Add(Integer(1) Integer(2))"),
    "space_before_parenthesis": ("EXP-9", "Integer (5)"),
    "unclosed": ("EXP-9", "Add(Integer(1)"),
    "two_expressions": ("EXP-9", "Integer(1), Integer(2)"),
    "double_quotes": ("EXP-9", 'Symbol("s0")'),
    "denominator_zero": ("EXP-1", "Rational(1, 0)"),
    "float_without_precision": ("EXP-9", "Float('0.5')"),
    "precision_zero": ("EXP-1", "Float('0.5', precision=0)"),
    "precision_too_large": ("EXP-1", "Float('0.5', precision=4097)"),
    "too_many_digits": ("EXP-22", f"Integer(1{'0' * 4300})"),
    "too_deep": ("EXP-22", "Not(" * 201 + "true" + ")" * 201),
    "far_too_deep": ("EXP-22", "Not(" * 50_000 + "true" + ")" * 50_000),
    "code": ("EXP-4", "__import__('os')"),
}
"""Texts that are no expressions in constructor text."""

INFIX: dict[str, tuple[str, str]] = {
    "empty": ("EXP-12", ""),
    "two_names": ("EXP-12", "a b"),
    "percent": ("EXP-12", "a % b"),
    "shift": ("EXP-12", "a << b"),
    "plus": ("EXP-12", "+a"),
    "hexadecimal": ("EXP-12", "0x10"),
    "attribute": ("EXP-12", "a.b"),
    "brackets": ("EXP-12", "[a]"),
    "chain": ("EXP-13", "a < b < c"),
    "keyword": ("EXP-15", "lambda"),
    "constructor_integer": ("EXP-16", "Integer(1)"),
    "constructor_symbol": ("EXP-16", "Symbol('a')"),
    "pair": ("EXP-16", "ExprCondPair(1, True)"),
    "unknown_call": ("EXP-16", "foo(a)"),
    "no_operands": ("EXP-16", "Max()"),
    "call_of_a_number": ("EXP-12", "2(a)"),
    "unclosed": ("EXP-12", "(a"),
}
"""Texts that are no expressions in infix text."""

GUARDS: dict[str, tuple[str, str]] = {
    "empty": ("EXP-39", ""),
    "name": ("EXP-31", "x > 1"),
    "whole_mapping": ("EXP-31", "L == 1"),
    "method_with_argument": ("EXP-31", "L['x'].size(0) == 1"),
    "unknown_method": ("EXP-31", "L['x'].numel() == 1"),
    "private_attribute": ("EXP-31", "L['x'].__class__ == 1"),
    "attribute_keyword": ("EXP-32", "L['x'].lambda == 1"),
    "double_quotes": ("EXP-30", 'L["x"] == 1'),
    "prefixed_text": ("EXP-30", "L[u'x'] == 1"),
    "joined_texts": ("EXP-30", "L['x' 'y'] == 1"),
    "triple_quotes": ("EXP-30", "L['''x'''] == 1"),
    "comment": ("EXP-30", "L['x'] == 1 # note"),
    "two_lines": ("EXP-30", "L['x'] == 1\nL['y'] == 2"),
    "tab": ("EXP-30", "L['x']\t== 1"),
    "not_ascii": ("EXP-30", "L['x'] == \u0661"),
    "backslash_in_a_key": ("EXP-30", "L['x\\\\y'] == 1"),
    "positive_index": ("EXP-39", "L[+1] == 1"),
    "inverted_index": ("EXP-39", "L[~1] == 1"),
    "text": ("EXP-39", "L['x'] == 'y'"),
    "chain": ("EXP-34", "1 < L['x'] < 3"),
    "is": ("EXP-39", "L['x'] is True"),
    "in": ("EXP-39", "L['x'] in (1, 2)"),
    "invert": ("EXP-39", "~L['x'] == 1"),
    "plus": ("EXP-39", "+L['x'] == 1"),
    "shift": ("EXP-39", "L['x'] << 2 == 1"),
    "hexadecimal": ("EXP-36", "L['x'] == 0x10"),
    "underscore": ("EXP-36", "L['x'] == 1_000"),
    "too_large": ("EXP-36", "L['x'] == 36893488147419103232"),
    "complex": ("EXP-36", "L['x'] == 1j"),
    "exponent": ("EXP-37", "2 ** 65 > L['x']"),
    "computed_exponent": ("EXP-37", "2 ** (60 + 60) > L['x']"),
    "power_of_a_power": ("EXP-37", "(2 ** L['a']) ** L['b'] > 1"),
    "unknown_function": ("EXP-35", "exec(1)"),
    "two_few_arguments": ("EXP-35", "max(L['a']) == 1"),
    "unknown_module": ("EXP-35", "math.gcd(L['a'], 2) == 1"),
    "keyword_argument": ("EXP-35", "round(L['a'], ndigits=1) == 1"),
    "lambda": ("EXP-39", "(lambda: 1)() == 1"),
    "comprehension": ("EXP-39", "[1 for _ in L['x']] == 1"),
    "assignment": ("EXP-39", "(y := L['x']) == 1"),
    "too_deep": ("EXP-38", "not " * 201 + "L['x'] == 1"),
}
"""Texts that are no guards."""


def text_cases() -> Iterator[Case]:
    """Texts of every grammar."""
    for name, (rule, text) in SPECS.items():
        yield case(
            "treespecs",
            name,
            rule,
            f"a structure of containers: {name.replace('_', ' ')}",
            edited(simple(), f"{ROOT}.out_spec", text),
        )
    for name, levels, inner in (
        ("nested_401_deep", 401, json.dumps(LEAF)),
        ("nested_401_deep_without_leaves", 401, ""),
        ("nested_10000_deep", 10_000, ""),
    ):
        head = '{"type": "builtins.list", "context": "null", "children_spec": ['
        yield case(
            "treespecs",
            name,
            "TSP-5",
            f"containers {levels} deep",
            edited(simple(), f"{ROOT}.out_spec", f"[1, {head * levels}{inner}{']}' * levels}]"),
        )
    for name, (rule, text) in EXPRESSIONS.items():
        tree = edited(simple(), f"{META}.sizes.0", symbolic(text))
        yield case("expressions", name, rule, f"a size in constructor text: {name.replace('_', ' ')}", tree)
    for name, (rule, text) in INFIX.items():
        tree = simple(range_constraints={text: {"min_val": 0, "max_val": 9}})
        yield case(
            "infix", name, rule, f"a key of range_constraints in infix text: {name.replace('_', ' ')}", tree
        )
    for name, (rule, text) in GUARDS.items():
        yield case("guards", name, rule, f"a guard: {name.replace('_', ' ')}", simple(guards_code=[text]))


def tree_cases() -> Iterator[Case]:
    """Documents that are no trees: one for each way, the others are vectors."""
    good = {wire_format: encode(simple(), wire_format) for wire_format in FORMATS}
    for wire_format, data in good.items():
        yield case(
            "formats", f"truncated_{wire_format}", "TREE-8", "a document is cut short", data[:-1], wire_format
        )
        yield case(
            "formats",
            f"trailing_{wire_format}",
            "TREE-8",
            "a byte follows the document",
            data + b"\x00",
            wire_format,
        )
        yield case("formats", f"empty_{wire_format}", "TREE-8", "a document is empty", b"", wire_format)
    text = json_bytes(simple())
    yield case(
        "formats",
        "duplicate_key_json",
        "TREE-6",
        "a key occurs twice in a record",
        text.replace(b'"target":', b'"name":"a","target":', 1),
    )
    yield case(
        "formats",
        "msgpack_as_json",
        "TREE-9",
        "a document of another format than its suffix says",
        good["msgpack"],
    )
    yield case(
        "formats",
        "json_as_cbor",
        "TREE-9",
        "a document of another format than its suffix says",
        good["json"],
        "cbor",
    )


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (shape_cases, value_cases, signature_cases, text_cases, tree_cases):
        yield from cases()
