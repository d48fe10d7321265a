"""Cases of both kinds for what a second reader, written from the text alone, and graphwire judged differently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from making.decided import CALL, GRAPH, META, _case, bad, good
from making.documents import Tree, graph, meta, node, program, simple, taking, tensor
from making.files import (
    Archive,
    Case,
    Member,
    Payload,
    edited,
    float32,
    holding,
    member,
    numbers,
    with_weights,
)
from making.valid_archives import referring, safetensors, sha256, store


def nest(levels: int) -> str:
    """JSON of lists inside each other."""
    return "[" * levels + "]" * levels


def literal(stated: Tree, found: Tree) -> Tree:
    """A program whose only input is a literal, as the signature and the graph have it."""
    spec = {"constant_input": {"name": "k", "value": stated}}
    return program(graph([found], [], [], {}), [spec])


def splitting(reader: str, key: str, **extra: Tree) -> Tree:
    """A program that takes an element, a list, of the results of a node by the name of the node that reads it."""
    outputs = [{"as_tensors": [{"name": "a"}, {"name": "b"}]}, tensor("c")]
    calls = [
        node("torch.ops.conformance.parts.default", [("x", tensor("x"))], outputs, "n"),
        node("torch.ops.conformance.take.default", [("y", {"as_results": reader})], [tensor("z")], "z"),
    ]
    tensors = {name: meta() for name in ("x", "a", "b", "c", "z")}
    noted = {"value_metadata": {key: {"metadata": {}, "name": reader}, **extra}}
    return program(graph([tensor("x")], [tensor("z")], calls, tensors, **noted), requires=["results"])


def guard_cases() -> Iterator[Case]:
    """Texts that Python reads, and the grammar of guards does not have."""
    for name, (rule, text) in {
        "zeros_in_front": ("EXP-36", "00 < L['x'].size()[0]"),
        "comma_after_the_last": ("EXP-35", "max(1, L['x'].size()[0],) == 2"),
        "source_in_parentheses": ("EXP-31", "(L['x']).size()[0] == 2"),
        "space_in_front": ("EXP-30", " L['x'].size()[0] == 2"),
        "space_in_a_name": ("EXP-30", "math .inf > L['x'].size()[0]"),
    }.items():
        yield bad(f"guards/{name}", rule, f"a guard: {text}", simple(guards_code=[text]))
    for name, text in {
        "spaces_between_tokens": "L['x'] . size ( ) [ 0 ] == 2 ",
        "number_beyond_all_floats": "1e999 > L['x'].size()[0]",
    }.items():
        yield good(f"guards/{name}", "EXP-30 EXP-36", f"a guard: {text}", simple(guards_code=[text]))


def held_cases() -> Iterator[Case]:
    """Weights in either config, and inputs that name one weight."""

    def buffer(name: str, persistent: bool, of: str = "b") -> Tree:
        return {"buffer": {"arg": {"name": name}, "buffer_name": of, "persistent": persistent}}

    def of(name: str, valid: bool, specs: list[Tree], weights: list[str], constants: list[str]) -> Case:
        inputs = [tensor(f"v{index}") for index in range(len(specs))]
        contents = graph(inputs, [], [], {f"v{index}": meta() for index in range(len(specs))})
        payloads = [
            {each: Payload(f"{stem}_{each}", numbers(6), meta(), is_param=False) for each in names}
            for stem, names in (("weight", weights), ("tensor", constants))
        ]
        archive = Archive({"model": program(contents, specs)}, *payloads)
        about = name.replace("_", " ")
        return _case(
            f"signatures/{name}",
            "SIG-22 SIG-5" if valid else "SIG-22",
            about,
            archive.build(),
            valid,
            "payloads",
        )

    parameter = {"parameter": {"arg": {"name": "v0"}, "parameter_name": "b"}}
    constant = {"tensor_constant": {"arg": {"name": "v1"}, "tensor_constant_name": "b"}}
    yield of("persistent_buffer_among_constants", True, [buffer("v0", True)], [], ["b"])
    yield of("other_buffer_among_weights", True, [buffer("v0", False)], ["b"], [])
    yield of("one_buffer_of_two_inputs", True, [buffer("v0", True), buffer("v1", True)], ["b"], [])
    yield of("one_buffer_persistent_and_not", False, [buffer("v0", True), buffer("v1", False)], ["b"], [])
    yield of("one_name_of_a_parameter_and_a_buffer", False, [parameter, buffer("v1", True)], ["b"], [])
    yield of("one_name_of_a_buffer_and_a_constant", False, [buffer("v0", False), constant], [], ["b"])


def document_cases() -> Iterator[Case]:
    """Literals, names, and JSON inside of text."""
    infinite = {"as_float": "-Infinity"}
    for name, stated, found in (
        ("float_in_two_forms", infinite, {"as_float": float("-inf")}),
        ("nan_in_two_forms", {"as_float": "NaN"}, {"as_float": float("nan")}),
        ("integer_as_a_float", {"as_float": 2}, {"as_float": 2.0}),
        ("none_in_two_forms", {"as_none": False}, {"as_none": True}),
    ):
        yield good(
            f"signatures/{name}",
            "SIG-4 DOC-11 DOC-17",
            f"one literal in two forms: {name.replace('_', ' ')}",
            literal(stated, found),
        )
    yield bad(
        "signatures/literal_of_another_sign",
        "SIG-4",
        "0.0 in the signature, -0.0 in the graph",
        literal({"as_float": 0.0}, {"as_float": -0.0}),
    )
    yield bad(
        "signatures/user_input_of_another_literal",
        "SIG-3 SIG-2",
        "a user input that is another literal than that of the graph",
        program(graph([{"as_int": 3}], [], [], {}), [{"user_input": {"arg": {"as_int": 4}}}]),
    )
    yield from held_cases()
    number = {"as_sym_int": {"as_int": 3}}
    returning = edited(simple(), f"{GRAPH}.outputs.0", number)
    yield good(
        "signatures/output_that_is_a_number",
        "SIG-11",
        "an output that is a number without a name",
        edited(returning, "graph_module.signature.output_specs.0.user_output.arg", number),
    )
    two = [{"as_int": 1}, {"as_int": 2}]
    for name, names in {"twice": ("k", "k"), "of_a_value": ("k", "x")}.items():
        inputs = [tensor("x"), *two]
        specs = [
            {"constant_input": {"name": each, "value": held}} for each, held in zip(names, two, strict=True)
        ]
        yield bad(
            f"signatures/literal_named_{name}",
            "DOC-30 GRA-16",
            f"the name of a literal input: {name.replace('_', ' ')}",
            program(
                graph(inputs, [tensor("x")], [], {"x": meta()}), [{"user_input": {"arg": inputs[0]}}, *specs]
            ),
        )
    yield bad(
        "values/input_that_is_a_number",
        "GRA-15",
        "an input that is a number without a name",
        program(graph([{"as_sym_int": {"as_int": 3}}], [], [], {})),
    )
    split = splitting("g", "n[0]")
    for name, copies in {
        "of_no_name": ("DOC-29", {"d": {"of": "a b"}}),
        "named_as_a_value": ("GRA-58", {"z": {"of": "c"}}),
        "named_as_a_node": ("GRA-58", {"n": {"of": "c"}}),
    }.items():
        rules, table = copies
        yield bad(
            f"documents/copy_{name}",
            rules,
            f"a copy {name.replace('_', ' ')}",
            edited(split, f"{GRAPH}.copies", table),
        )
    composition = {"codec": "tensor_subclass", "tree": None, "parts": [], "integers": []}
    yield bad(
        "documents/composition_of_no_value",
        "GRA-61",
        "the inner tensors of a value that is none",
        edited(simple(), f"{GRAPH}.compositions", {"q": composition}),
    )
    for name, key in {"no_name": "a b", "no_index": "n[x]"}.items():
        yield bad(
            f"documents/value_metadata_of_{name}",
            "GRA-59 DOC-29",
            f"metadata whose key is no name of a value, nor of an element: {key}",
            edited(simple(), f"{GRAPH}.value_metadata", {key: {"metadata": {}}}),
        )
    yield good(
        "arguments/element_that_is_a_list", "GRA-40", "an element that is a list, as one argument", split
    )
    for name, tree in {
        "missing": splitting("g", "n[7]"),
        "that_is_a_tensor": splitting("c2", "n[1]"),
        "of_no_node": splitting("g", "m[0]"),
    }.items():
        yield bad(
            f"arguments/element_{name}",
            "GRA-40",
            f"all results of an element {name.replace('_', ' ')}",
            tree,
        )
    yield bad(
        "arguments/results_named_as_a_value",
        "GRA-40",
        "all results of a node, by a name that is its value's",
        program(
            graph(
                [tensor("x")],
                [tensor("z")],
                [
                    node("torch.ops.conformance.parts.default", [("x", tensor("x"))], [tensor("n")], "n"),
                    node(
                        "torch.ops.conformance.take.default", [("y", {"as_results": "n"})], [tensor("z")], "z"
                    ),
                ],
                {name: meta() for name in ("x", "n", "z")},
            ),
            requires=["results"],
        ),
    )
    yield bad(
        "arguments/constant_without_a_path",
        "GRA-33",
        "a constant of the graph whose name has no point",
        taking({"as_constant": "weight"}, requires="constants"),
    )
    yield bad(
        "arguments/object_named_as_a_tensor",
        "GRA-29 GRA-5",
        "an object that has the name of a tensor",
        taking({"as_custom_obj": {"name": "x", "class_fqn": "a.B"}}),
    )
    for name, (rules, changes, valid) in {
        "that_has_a_number": ("DOC-20", {"dtype": 0, "dtype_name": "float32"}, False),
        "that_nobody_knows": ("DOC-20 GRA-52", {"dtype": 0, "dtype_name": "float3_later"}, True),
    }.items():
        tree = simple(requires=["dtypes"])
        for key, value in changes.items():
            tree = edited(tree, f"{META}.{key}", value)
        make = good if valid else bad
        yield make(
            f"values/dtype_name_{name}", rules, f"the name of an element type {name.replace('_', ' ')}", tree
        )
    for levels in (400, 401):
        make = good if levels == 400 else bad
        for key, text in {"custom": nest(levels)}.items():
            yield make(
                f"documents/metadata_{key}_{levels}_deep",
                "DOC-34",
                f"JSON of metadata that nests {levels} deep: {key}",
                edited(simple(), f"{CALL}.metadata", {key: text}),
            )
    yield bad(
        "documents/metadata_custom_of_4301_digits",
        "DOC-34",
        "JSON of metadata with an integer of 4,301 digits",
        edited(simple(), f"{CALL}.metadata", {"custom": "1" * 4301}),
    )
    yield good(
        "documents/metadata_of_a_plugin",
        "GRA-63 GRA-64",
        "metadata that a plugin declared, whose text only a reader with the plugin checks",
        edited(simple(), f"{CALL}.metadata", {"graphwire.meta.later": "no JSON"}),
    )
    text = f'[1, {{"type": "t", "context": "{nest(817)}", "children_spec": []}}]'
    yield good(
        "treespecs/context_of_text_817_deep",
        "TSP-5 NEU-12 CAN-33",
        "a context that is text, whose lists nest too deep to be read as JSON",
        edited(simple(), "graph_module.module_call_graph.0.signature.out_spec", text),
    )


def archive_cases() -> Iterator[Case]:
    """Configs, references, and records of the archive."""
    plain = with_weights({"w": float32()}).small()

    def changed(
        name: str, rules: str, about: str, valid: bool, fields: dict[str, Any], record: str = "weights"
    ) -> Case:
        def rewrite(members: list[Member]) -> None:
            config = member(members, f"model_{record}_config.json")
            held = json.loads(config.data)
            held["config"]["w"].update(fields)
            config.data = json.dumps(held).encode()

        return _case(f"payloads/{name}", rules, about, plain.build(rewrite), valid, "payloads")

    sizes = {
        "sizes": [{"as_expr": {"expr_str": "no", "hint": None}}],
        "layout": 1,
        "device": {"type": "!", "index": -1},
    }
    yield changed(
        "pickled_with_any_entry",
        "PAY-7",
        "a pickled weight, of whose entry nothing counts but its name and types",
        True,
        {
            "use_pickle": True,
            "tensor_meta": {**meta(), **sizes},
            "weight": "w",
            "shared": "elsewhere",
            "conj": True,
            "neg": True,
        },
    )
    yield changed(
        "pickled_with_unknown_placement",
        "PAY-19 DOC-4",
        "a pickled weight whose placement has no such value",
        False,
        {"use_pickle": True, "placement": "foo"},
    )
    codec = {"codec": "quantized", "tree": {}, "tensors": ["w", "nope"], "is_weight": True}
    tree = holding({"v": float32()}, requires=["codecs"], encoded_values={"v": codec})
    yield _case(
        "payloads/part_of_no_name",
        "PAY-23",
        "a coded value with a part that neither a config nor encoded_values has",
        Archive({"model": tree}, {"w": float32()}).small().build(),
        False,
        "payloads",
    )
    shared = Archive(
        {"model": holding({"w": float32()})},
        {"w": float32()},
        {"k": Payload("tensor_0", b"", meta(), is_param=False, fields={"shared": "data/weights/weight_0"})},
        without=["data/constants/tensor_0"],
    )
    yield _case(
        "payloads/shared_without_a_copy",
        "PAY-14",
        "a constant without a copy, that shares a record of the archive",
        shared.small().build(),
        True,
        "payloads",
    )
    data = numbers(6)
    file, digest = safetensors({"first": ("F32", [2, 3], data), "none": ("F32", [0, 3], b"")})
    whole = {"tensor": "first", "dtype": "float32", "shape": [2, 3]}
    record = {"nbytes": len(data), "regions": [whole], "sha256": sha256(data)}
    weight = {"w": Payload("weight_0", b"", meta(7, (2, 3)))}

    def referred(
        name: str,
        rules: str,
        about: str,
        valid: bool,
        references: dict[str, Any],
        requires: list[str] | None = None,
        more: tuple[Member, ...] = (),
    ) -> Case:
        at = f"{name}.safetensors"
        archive = referring(weight, {"records": {}})
        archive.references = {
            "stores": [store(at, file, digest)],
            "records": {"data/weights/weight_0": record},
            **references,
        }
        archive.without = ["data/weights/weight_0"]
        if requires is not None:
            archive.programs = {"model": {**archive.programs["model"], "requires": requires}}
        return Case(
            f"references/{name}",
            about,
            archive.small().build(lambda members: members.extend(more)),
            tuple(rules.split()),
            valid,
            ("json", "references"),
            {at: file},
        )

    yield referred(
        "unlisted",
        "REF-1 EXT-2",
        "weights elsewhere, in a document that does not say so",
        False,
        {},
        requires=[],
    )
    yield referred(
        "ranks_without_records",
        "REF-18",
        "two ranks, whose records are the same",
        False,
        {"ranks": [{}, {}]},
    )
    nothing = {"tensor": "none", "dtype": "float32", "shape": [0, 3], "offset": 99}
    held = {"data/weights/weight_0": {**record, "regions": [whole, nothing]}}
    yield referred(
        "region_of_no_elements",
        "REF-14 REF-15",
        "a region of no elements, beyond the record",
        True,
        {"records": held},
    )
    for beyond in (0, 1):
        empty = {**whole, "box": [[2 + beyond, 0, 1], [0, 3, 1]]}
        yield referred(
            f"empty_box_{beyond}_beyond",
            "REF-14",
            f"a box without elements, which begins {beyond} behind the end of its tensor",
            not beyond,
            {"records": {"data/weights/weight_0": {**record, "regions": [whole, empty]}}},
        )
    yield referred(
        "store_of_a_big_endian_archive",
        "ARC-25",
        "weights in a store, which are little-endian, of an archive that is big-endian",
        True,
        {},
        more=(Member("byteorder", b"big"),),
    )
    yield _case(
        "payloads/byteorder_with_a_line_end",
        "ARC-25",
        "a byte order that is `big` and a line end, and so none: the weights are little-endian",
        plain.build(lambda members: members.append(Member("byteorder", b"big\n"))),
        True,
        "payloads",
    )
    unused = {"kind": "later", "location": "x"}
    yield referred(
        "unused_kind",
        "REF-7",
        "a store of an unknown kind, which no region uses",
        True,
        {"stores": [store("unused_kind.safetensors", file, digest), unused]},
    )
    for name, (rules, about, valid, extra) in {
        "providers_that_nobody_needs": (
            "ARC-30",
            "no JSON about wire formats that every reader has",
            True,
            b"no",
        ),
    }.items():
        yield _case(
            f"archives/{name}",
            rules,
            about,
            plain.build(lambda members, extra=extra: members.append(Member("data/wire_formats.json", extra))),
            valid,
        )

    def grouped(members: list[Member]) -> None:
        listed = {each.name: sha256(each.data) for each in members}
        text = {"sha256": listed, "together": [{"sizes": {}, "sha256": "0" * 64}]}
        members.append(Member("manifest.json", json.dumps(text).encode()))

    yield _case(
        "archives/digest_of_no_records",
        "ARC-35",
        "a digest of no records",
        plain.build(grouped),
        False,
        "archive",
    )


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (guard_cases, document_cases, archive_cases):
        yield from cases()
