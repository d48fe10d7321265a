"""The texts of docs/spec/expressions.md and treespecs.md: every example is read, or refused, as the specification has it."""

from __future__ import annotations

import json
import re
import runpy
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from inside.analysis import UNSEEN_FEATURES, validate, value_rules as legal_names
from inside.bridge import decode_treespec, encode_treespec
from inside.evolve import FIELDS
from inside.schema import (
    ASSUMPTIONS,
    FUNCTIONS,
    METHODS,
    OPERATIONS,
    Expression,
    check_expression,
    check_guard,
    infix as infix_texts,
    operations,
    parse_infix,
    parse_treespec,
    program_from_tree,
)
from specification import SPEC, blocks, examples, rules, table_rows, words

from graphwire.errors import GraphwireError
from graphwire.hooks import default_registry, format_infix, parse_expression
from graphwire.schema import (
    FEATURES,
    VARIANTS,
    Composition,
    ElementCopy,
    EncodedValue,
    ExampleInputs,
    InputSpec,
    NodeSource,
    OutputSpec,
    Part,
    PluginRequirement,
    SparseMeta,
    StackFrame,
    ValueMetadata,
)


def notation(expression: Expression) -> list[Any]:
    """Return a tree as the specification writes it."""
    parts = [notation(part) if isinstance(part, Expression) else part for part in expression.args]
    return [expression.head, *(list(part) if isinstance(part, tuple) else part for part in parts)]


def is_read(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except GraphwireError:
        return False
    return True


@pytest.mark.parametrize(("kind", "parse"), [("constructor", parse_expression), ("infix", parse_infix)])
def test_expressions_denote_the_trees_of_the_specification(kind, parse):
    for text, tree in examples("expressions.md", kind):
        assert is_read(parse, text) is (tree is not None), text
        if tree is not None:
            assert notation(parse(text)) == tree, text


def test_expressions_are_printed_as_specified():
    for constructor, infix in examples("expressions.md", "printed"):
        assert format_infix(parse_expression(constructor)) == infix
        assert notation(parse_infix(infix)) == notation(parse_expression(constructor))


def test_expressions_keep_the_bounds_as_specified():
    for text, good in examples("expressions.md", "bounds"):
        assert is_read(check_expression, text) is good, text


def test_the_operations_with_bounds_of_their_own_are_those_of_the_code():
    listed = dict.fromkeys(words(rules("expressions.md")["EXP-44"]))
    rows = {row[0]: row[3] for row in table_rows("EXP-43")}
    floats = next(row for row in rows if "ToFloat" in row)
    named = [*words(floats.partition(", and")[0])]
    opaque = [
        f"OpaqueUnaryFn_{name}" for name in (*named, "sqrt", "log2") if f"OpaqueUnaryFn_{name}" in OPERATIONS
    ]
    assert {*named, *opaque} == infix_texts._FLOATS
    assert set(words(rows["any other"])) == infix_texts._ROUNDED
    raising = {"Pow", "FloatPow", "PowByNatural", "LShift", "RShift", "exp", "sinh", "cosh"}
    assert raising <= listed.keys()
    assert raising | {f"OpaqueUnaryFn_{name}" for name in ("exp", "sinh", "cosh")} == infix_texts._RAISING


def test_guards_are_accepted_and_refused_as_specified():
    for text, good in examples("expressions.md", "guard"):
        assert is_read(check_guard, text) is good, text


def test_treespecs_are_accepted_and_refused_as_specified():
    for tree in examples("treespecs.md", "treespec"):
        assert is_read(parse_treespec, json.dumps(tree)), tree
    for tree in examples("treespecs.md", "treespec-refused"):
        assert not is_read(parse_treespec, json.dumps(tree)), tree


@pytest.mark.parametrize(("kind", "good"), [("contexts", True), ("contexts-refused", False)])
def test_contexts_are_accepted_and_refused_as_specified(kind, good):
    leaf = {"type": None, "context": None, "children_spec": []}
    for name, context, count in examples("treespecs.md", kind):
        text = json.dumps([1, {"type": name, "context": context, "children_spec": [leaf] * count}])
        assert is_read(lambda text: decode_treespec(text, default_registry()), text) is good, (name, context)
        if good and "@" not in name:
            assert encode_treespec(decode_treespec(text, default_registry()), default_registry()) == text


def test_the_default_factories_are_those_of_the_code():
    from graphwire_plugins.treespecs import FACTORIES

    assert set(words(rules("treespecs.md")["TSP-16"].partition(" is one of ")[2])) == set(FACTORIES)


ARITIES = {
    "0 or more": (0, None),
    "1": (1, 1),
    "1 or 2": (1, 2),
    "1 or more": (1, None),
    "2": (2, 2),
    "3": (3, 3),
} | {"2 or more": (2, None)}


def test_the_tables_of_operations_are_those_of_the_code():
    """Those of the specification, and of graphwire-js."""
    made = runpy.run_path(str(SPEC / "make_operations.py"))["files"]()
    stale = [path.name for path, text in made.items() if path.read_text("utf-8") != text]
    assert stale == [], "run python docs/spec/make_operations.py"
    for rule, table in (
        ("EXP-4", {name: row[1:3] for name, row in OPERATIONS.items()}),
        ("EXP-35", FUNCTIONS),
    ):
        listed = [(name, ARITIES[count]) for count, names in table_rows(rule) for name in words(names)]
        assert len(dict(listed)) == len(listed)
        assert dict(listed) == table


def test_the_lists_of_words_are_those_of_the_code():
    import keyword

    text, of = (SPEC / "expressions.md").read_text(), rules("expressions.md")
    assert set(words(of["EXP-3"].partition("are ")[2].partition(".")[0])) == operations.CONSTANTS
    assert set(words(of["EXP-6"].partition("keywords: ")[2])) == set(keyword.kwlist)
    assert set(words(of["EXP-7"].partition("are ")[2].partition(".")[0])) == ASSUMPTIONS
    method = re.search(r"^method += (.*) ;$", text, re.M)
    assert method is not None
    assert set(re.findall(r'"([^"]+)"', method[1])) == METHODS


@pytest.mark.parametrize(
    ("kind", "is_legal"),
    [
        ("value-names", legal_names.is_value_name),
        ("paths", legal_names.is_attribute_path),
        ("operators", legal_names.is_operator_name),
    ],
)
def test_names_are_legal_as_specified(kind, is_legal):
    for name, good in examples("graph.md", kind):
        assert is_legal(name) is good, name


def listed(kind: str) -> str:
    return (SPEC / "document.md").read_text().partition(f"```text {kind}\n")[2].partition("```")[0]


def test_the_profile_of_identifiers_is_that_of_the_code():
    block = listed("identifiers")
    letters, marks = (
        "".join("-".join(chr(int(end, 16)) for end in each.split("-")) for each in words_of.split())
        for words_of in block.removeprefix("letters").split("marks")
    )
    assert (letters, marks) == (legal_names.LETTERS, legal_names.MARKS)
    block = listed("own-attributes")
    assert set(block.split()) == legal_names.OWN_ATTRIBUTES


def test_python_reads_an_identifier_as_it_is_written():
    def points(ranges: str) -> list[str]:
        ends = re.findall(r"(.)(?:-(.))?", ranges)
        return [chr(point) for start, end in ends for point in range(ord(start), ord(end or start) + 1)]

    letters, marks = points(legal_names.LETTERS), points(legal_names.MARKS)
    assert all(map(str.isidentifier, letters))
    assert "".join(["a", *marks]).isidentifier()
    # No normalization changes one of them, moves it, or joins it with what stands before it.
    for first in ("", "e", "\u05d0", "\uac00", "\u0928"):
        for each in (*letters, *marks):
            assert unicodedata.is_normalized("NFKC", first + each + each), each


def program(
    inputs: list[Any], outputs: list[Any], nodes: list[Any], numbers: list[str], **signature: Any
) -> Any:
    """Return a document with these parts; every value besides `numbers` is a tensor."""
    made = [each for node in nodes for each in node["outputs"]]
    tensors = [
        item for each in (*inputs, *made) for item in each.get("as_tensors", [each.get("as_tensor")]) if item
    ]
    graph = {"inputs": inputs, "outputs": outputs, "nodes": nodes, "sym_bool_values": {}} | {
        "tensor_values": {each["name"]: TENSOR for each in tensors},
        "sym_int_values": {name: {"as_int": 3} for name in numbers},
    }
    return {
        "graph_module": {"graph": graph, "signature": signature, "module_call_graph": []},
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
    }


def test_the_nodes_of_the_specification_are_valid():
    inputs = [{"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "sym_size_int"}}]
    specs = [{"user_input": {"arg": each}} for each in inputs]
    nodes = examples("graph.md", "nodes")
    tree = program(inputs, [], nodes, ["sym_size_int", "add_1"], input_specs=specs, output_specs=[])
    assert validate(program_from_tree(tree)) == []


def test_the_signature_of_the_specification_is_valid():
    (signature,) = blocks("signature.md", "signature")
    inputs, outputs = (
        json.loads(each)
        for each in re.findall(r"`(\[\{.*?)`", (SPEC / "signature.md").read_text().replace("\n  ", " "))
    )
    node = {
        "target": "torch.ops.test.both.default",
        "inputs": [],
        "outputs": outputs,
        "metadata": {},
        "name": "both",
    }
    tree = program(inputs, outputs, [node], [], **signature)
    assert validate(program_from_tree(tree)) == []


TENSOR = {
    "dtype": 7,
    "sizes": [{"as_int": 2}],
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
    "strides": [{"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 7,
}


@pytest.mark.parametrize(("section", "kind"), [("Inputs", InputSpec), ("Outputs", OutputSpec)])
def test_the_roles_are_those_of_the_schema(section, kind):
    text = (SPEC / "signature.md").read_text().partition(f"## {section}")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) == set(kind.__struct_fields__)


def test_the_variants_that_can_be_results_are_those_of_the_code():
    listed = words(
        rules("graph.md")["GRA-36"].partition("An item is one of: ")[2].partition("A reader must")[0]
    )
    values = [row[0] for row in table_rows("GRA-3", "graph.md")]
    listed += [word for row in values for word in words(row)]
    variants = {variant for variant, row in VARIANTS.items() if row.defines}
    assert variants == {word for word in listed if word.startswith("as_") and word in VARIANTS}


def test_every_extension_and_its_variants_are_listed():
    rows = table_rows("EXT-4", "extensions.md")
    listed = {words(row[0])[0]: set(words(row[2])) for row in rows}
    assert set(listed) == set(FEATURES)
    for variant, row in VARIANTS.items():
        assert not row.feature or variant in listed[row.feature]
    for kind, fields in FIELDS.items():
        for name, field in fields.items():
            assert not field.feature or f"{kind.__name__}.{name}" in listed[field.feature]


def test_the_extensions_that_may_be_listed_without_visible_use_are_those_of_the_code():
    assert set(words(rules("extensions.md")["EXT-3"].partition(": ")[2])) == UNSEEN_FEATURES


def test_every_optional_field_is_listed():
    """A field inside a record of graphwire's own needs no row: the field that leads to the record has one."""
    own = {StackFrame, NodeSource, ValueMetadata, PluginRequirement, EncodedValue, ExampleInputs, ElementCopy}
    own |= {SparseMeta, Composition, Part, *(row.record for row in VARIANTS.values())}
    fields = {
        f"{kind.__name__}.{name}"
        for kind, rows in FIELDS.items()
        for name, row in rows.items()
        if row.since is None and not row.feature and kind not in own and name not in VARIANTS
    }
    required = {word for row in table_rows("EXT-4", "extensions.md") for word in words(row[2])}
    listed = [words(row[0])[0] for row in table_rows("EXT-12", "extensions.md")]
    assert len(set(listed)) == len(listed)
    assert set(listed) == fields - required - {"Program.requires"}


def test_the_json_schemas_mark_the_fields_that_a_reader_may_ignore():
    marked = {
        f"{record}.{name}"
        for kind in ("document", "payloads")
        for record, definition in json.loads((SPEC / f"{kind}.schema.json").read_text())["$defs"].items()
        for name, field in definition.get("properties", {}).items()
        if field.get("x-ignorable")
    }
    assert marked == {words(row[0])[0] for row in table_rows("EXT-12", "extensions.md")}


def test_the_json_schema_names_the_grammars_of_the_fields_that_neutral_json_prints_as_trees():
    definitions = json.loads((SPEC / "document.schema.json").read_text())["$defs"]
    marked = {
        f"{record}.{name}"
        for record, definition in definitions.items()
        for name, field in definition.get("properties", {}).items()
        if "x-grammar" in field
    }
    rows = [row[0] for row in table_rows("NEU-9", "neutral.md")]
    named = {word for row in rows for word in words(row) if re.fullmatch(r"[A-Z]\w+\.\w+", word)}
    named -= {"EncodedValue.tree", "Composition.tree"}
    assert marked >= named
    assert {name.partition(".")[2] for name in marked - named} == {"out_spec", "as_treespec"}
