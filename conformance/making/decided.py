"""Cases of both kinds for what the text once left open, and readers judged differently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from making.documents import (
    LEAF,
    Tree,
    graph,
    meta,
    program,
    relu,
    simple,
    symbolic,
    taking,
    tensor,
    treespec,
)
from making.files import (
    Archive,
    Case,
    Member,
    Payload,
    edited,
    float32,
    holding,
    json_bytes,
    member,
    numbers,
    with_weights,
)
from making.zip_bytes import UTF8

GRAPH = "graph_module.graph"
CALL, META = f"{GRAPH}.nodes.0", f"{GRAPH}.tensor_values.x"
CALLS = "graph_module.module_call_graph"
SPEC = f"{CALLS}.0.signature.out_spec"
TOO_LARGE = 2**1024 - 2**970
"""The least integer whose nearest float is an infinity."""
SIZE = "Symbol('s0', positive=True, integer=True)"


def _case(name: str, rules: str, about: str, data: bytes, valid: bool, *needs: str) -> Case:
    return Case(name, about, data, tuple(rules.split()), valid, ("json", *needs))


def good(name: str, rules: str, about: str, tree: Tree, **archive: Any) -> Case:
    """A program that a reader must accept."""
    return _case(name, rules, about, Archive({"model": tree}, **archive).small().build(), True)


def bad(name: str, rules: str, about: str, tree: Tree, **archive: Any) -> Case:
    """A program that a reader must refuse."""
    data = Archive({"model": tree}, **archive).small().build()
    return _case(name, rules, about, data, False, "documents")


def nested(levels: int, inner: Tree) -> Tree:
    """An argument inside so many others."""
    for _ in range(levels):
        inner = {"as_string_to_argument": {"a": inner}}
    return inner


def containers(levels: int) -> str:
    """A treespec of a leaf inside so many containers."""
    head = '{"type": "builtins.list", "context": "null", "children_spec": ['
    return f"[1, {head * levels}{json.dumps(LEAF)}{']}' * levels}]"


def subgraph(levels: int) -> Tree:
    """An argument that is a graph inside so many arguments."""
    inner = graph([tensor("a")], [tensor("r")], [relu("a", "r")], {"a": meta(), "r": meta()})
    return nested(levels, {"as_graph": {"name": "g", "graph": inner}})


def document_cases() -> Iterator[Case]:
    """Numbers, names, depths and metadata of documents."""
    hint = symbolic("Symbol('zuf0', real=True)", as_float=0)
    for name, value in {"largest": TOO_LARGE - 1, "smallest": 1 - TOO_LARGE}.items():
        yield good(
            f"arguments/float_of_the_{name}_integer",
            "DOC-17",
            "an integer that is a float",
            taking({"as_float": value}),
        )
    for name, value in {"too_large": TOO_LARGE, "of_400_digits": 10**399, "negative": -TOO_LARGE}.items():
        yield bad(
            f"arguments/float_integer_{name}",
            "DOC-17",
            "an integer whose nearest float is an infinity",
            taking({"as_float": value}),
        )
    tree = taking({"as_int": 1})
    hint["as_expr"]["hint"] = {"as_float": 10**400}
    yield bad(
        "values/hint_of_400_digits",
        "DOC-17",
        "a hint that is an integer of 400 digits",
        edited(tree, f"{GRAPH}.sym_float_values.f", hint),
    )
    for levels in (100, 101):
        make, rules = (good, "DOC-28 GRA-27") if levels == 100 else (bad, "DOC-28")
        for name, inner in {
            "none": {"as_none": True},
            "a_tensor": tensor("x"),
            "a_number": {"as_sym_int": {"as_name": "n"}},
        }.items():
            yield make(
                f"arguments/{name}_in_{levels}_others",
                rules,
                f"an argument in {levels} others",
                taking(nested(levels, inner)),
            )
    yield good(
        "arguments/graph_in_99_others",
        "DOC-28",
        "a graph in 100 arguments, its own among them",
        taking(subgraph(99)),
    )
    yield bad(
        "arguments/graph_in_100_others",
        "DOC-28",
        "a graph in 101 arguments, its own among them",
        taking(subgraph(100)),
    )
    for name, text in {
        "digit_in_namespace": "torch.0ps.aten.relu.default",
        "digit_in_name": "torch.ops.aten.1relu.default",
        "digit_in_overload": "torch.ops.aten.relu.2",
    }.items():
        yield bad(
            f"values/operator_{name}",
            "GRA-12 DOC-29",
            f"an operator with a part that is no identifier: {text!r}",
            edited(simple(), f"{CALL}.target", text),
        )
        yield bad(
            f"arguments/operator_{name}",
            "GRA-12 DOC-29",
            f"such an operator as an argument: {text!r}",
            taking({"as_operator": text}),
        )
    wide = edited(
        simple(range_constraints={"s0": {"min_val": 2, "max_val": 64}}), META, meta(7, [1, 1], [1, 1])
    )
    for name, offset in {"at_the_limit": 2**59 - 1, "beyond": 2**59}.items():
        make = bad if name == "beyond" else good
        tree = edited(
            edited(wide, f"{META}.sizes.0", symbolic(SIZE)), f"{META}.storage_offset", {"as_int": offset}
        )
        yield make(
            f"values/symbolic_reach_{name}",
            "DOC-15 GRA-51",
            "a symbolic size, which counts as 1, beside an offset",
            tree,
        )
    tree = edited(
        edited(wide, f"{META}.sizes", [symbolic(SIZE), {"as_int": 2**59 + 1}]),
        f"{META}.strides.0",
        {"as_int": 0},
    )
    yield bad(
        "values/symbolic_product",
        "DOC-15 GRA-51",
        "sizes of which one is symbolic, and another too large",
        edited(tree, f"{META}.strides.1", {"as_int": 0}),
    )
    # a node that takes what a node with `propagate` makes
    later = graph(
        [tensor("x")], [tensor("b")], [relu("x", "a"), relu("a", "b")], {name: meta() for name in "xb"}
    )
    later["nodes"][0]["propagate"] = True
    yield good(
        "extensions/propagate_then_known",
        "EXT-8 GRA-4",
        "a value with an entry, made from one without",
        program(later) | {"requires": ["propagate"]},
    )
    unknown = edited(later, "tensor_values", {"x": meta()})
    yield bad(
        "extensions/propagate_then_unknown",
        "GRA-4 EXT-8",
        "a value without an entry, made from one that may lack it",
        program(unknown) | {"requires": ["propagate"]},
    )
    operator = edited(
        program(later) | {"requires": ["propagate"]}, f"{CALL}.target", "torch.ops.higher_order.relu"
    )
    yield bad(
        "extensions/propagate_of_another_operator",
        "EXT-8",
        "results without entries of an operator that may not be computed",
        operator,
    )
    yield bad(
        "extensions/unused", "EXT-3", "an extension is listed that nothing uses", simple(requires=["slices"])
    )
    yield bad(
        "extensions/twice",
        "EXT-1 EXT-3",
        "an extension is listed twice",
        simple(requires=["dtypes", "dtypes"]),
    )
    yield good(
        "extensions/unseen",
        "EXT-3",
        "extensions whose use a document need not show",
        simple(requires=["dtypes", "containers", "outputs"]),
    )
    plugin = {"distribution": "no name\n", "version": "1", "provides": []}
    yield bad(
        "extensions/plugin_name",
        "EXT-16",
        "a plugin whose distribution has no legal name",
        simple(plugins=[plugin]),
    )
    for key, text in {
        "custom": "{",
        "graphwire.nn_module_stack": '[["a", "b"]]',
        "graphwire.source_fn_stack": "[1]",
        "graphwire.torch_fn": "{}",
        "from_node": "[{}]",
    }.items():
        tree = edited(simple(), f"{CALL}.metadata", {key: text})
        yield bad(
            f"documents/metadata_{key.rpartition('.')[2]}",
            "DOC-34 GRA-64",
            f"metadata that is not JSON of its shape: {key}",
            tree,
        )
    row = {"name": "a", "target": "a", "graph_id": 1, "pass_name": "", "action": "", "from_node": []}
    ignored = json.dumps([row])[:-2] + f', "x": {"1" * 4301}' + "}]"
    yield bad(
        "documents/metadata_digits",
        "DOC-34 GRA-64",
        "an integer of 4,301 digits in an origin, under a key that is ignored",
        edited(simple(), f"{CALL}.metadata", {"from_node": ignored}),
    )
    yield good(
        "documents/metadata_custom_of_python",
        "DOC-34 GRA-63",
        "metadata with what Python calls JSON",
        edited(simple(), f"{CALL}.metadata", {"custom": '{"a": NaN, "a": "\\ud800"}'}),
    )
    null = simple()
    null["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"]["as_later"] = None
    yield bad(
        "documents/unknown_variant_that_is_null", "DOC-10", "a union with a key that is no variant", null
    )
    entries = simple()["graph_module"]["module_call_graph"]
    yield good("signatures/no_calls", "GRA-68 SIG-20", "no structure of calls", edited(simple(), CALLS, []))
    yield bad(
        "signatures/first_call_named",
        "GRA-68",
        "a first entry that is not the root",
        edited(simple(), f"{CALLS}.0.fqn", "a"),
    )
    yield bad(
        "signatures/two_roots",
        "GRA-68 GRA-69",
        "two entries for the root",
        edited(simple(), CALLS, entries * 2),
    )
    yield bad(
        "signatures/call_path",
        "GRA-69 GRA-11",
        "an entry whose name is no attribute path",
        edited(simple(), CALLS, [*entries, {"fqn": "a..b", "signature": None}]),
    )
    for name in ("lambda", "__x__"):
        yield bad(
            f"signatures/forward_{name.strip('_')}",
            "GRA-72 DOC-29",
            f"a parameter of forward is named {name}",
            edited(simple(), f"{CALLS}.0.signature.forward_arg_names", [name]),
        )
        fields = {"m.T": {"field_names": [name]}}
        tree = edited(simple(), "graph_module.treespec_namedtuple_fields", fields)
        yield bad(
            f"signatures/field_{name.strip('_')}", "DOC-29", f"a field of a namedtuple is named {name}", tree
        )
    for name in ("a.b", "self"):
        literal = program(
            graph([{"as_int": 3}], [], [], {}), [{"constant_input": {"name": name, "value": {"as_int": 3}}}]
        )
        yield bad(
            f"signatures/literal_{name.replace('.', '_')}",
            "GRA-9 DOC-29",
            f"a literal input is named {name}",
            literal,
        )
    for name, text in {
        "many_parts": " + ".join(f"s{index}" for index in range(40)),
        "symbolic_exponent": "2**s0",
    }.items():
        yield bad(
            f"infix/key_{name}",
            "EXP-27",
            f"a key of range_constraints: {name.replace('_', ' ')}",
            simple(range_constraints={text: {"min_val": 0, "max_val": 9}}),
        )
    for name, table, rules in (
        ("of_no_range", {"s1": "Integer(1)"}, "EXP-29"),
        ("replaced_inside", {"s0": "Symbol('s0')"}, "EXP-29"),
    ):
        tree = edited(
            simple(range_constraints={"s0": {"min_val": 2, "max_val": 64}}),
            "graph_module.replacements",
            table,
        )
        yield bad(f"expressions/replacement_{name}", rules, f"a replacement {name.replace('_', ' ')}", tree)
    for name, text in {
        "true": "2 ** True < 9",
        "false": "L['x'] ** False < 9",
        "minus_true": "2 ** -True < 9",
    }.items():
        yield bad(
            f"guards/exponent_{name}",
            "EXP-37",
            f"a guard whose exponent is a truth value: {text}",
            simple(guards_code=[text]),
        )


def text_cases() -> Iterator[Case]:
    """Treespecs: depths, keys, factories, and texts that Python calls JSON."""
    yield good(
        "treespecs/nested_400_deep",
        "TSP-5",
        "a leaf in 400 containers",
        edited(simple(), SPEC, containers(400)),
    )
    for levels, make in ((814, good), (815, bad)):
        deep = f"{'[' * levels}{']' * levels}"
        yield make(
            f"treespecs/context_{levels}_deep",
            "TSP-5",
            f"a context of {levels} lists in a container, which is two more deep",
            edited(simple(), SPEC, f'[1, {{"type": "t", "context": {deep}, "children_spec": []}}]'),
        )
    number = (
        '{"type": "collections.defaultdict@2", "context": {"factory": 3, "keys": []}, "children_spec": []}'
    )
    yield good(
        "treespecs/factory_of_a_number",
        "CAN-33 TSP-16",
        "a factory that is a number, which no reader makes, and whose parts in the hash are empty",
        edited(simple(), SPEC, f"[1, {number}]"),
    )
    for key in LEAF:
        text = treespec(LEAF).replace(f'"{key}"', f'"{key}": {json.dumps(LEAF[key])}, "{key}"', 1)
        yield bad(
            f"treespecs/field_{key}_twice",
            "TSP-2 SEC-14",
            f"a node with the field {key} twice",
            edited(simple(), SPEC, text),
        )
    context = '[1, {"type": "t", "context": {"a": 1, "a": 2}, "children_spec": []}]'
    yield bad(
        "treespecs/context_with_a_key_twice",
        "TSP-2 SEC-14",
        "a context that is an object with a key twice",
        edited(simple(), SPEC, context),
    )
    for name, number in {"infinity": "1e400", "digits": f"1{'0' * 4300}"}.items():
        for place, text in {
            "context": f'[1, {{"type": "t", "context": [{number}], "children_spec": []}}]',
            "protocol": f"[{number}, {json.dumps(LEAF)}]",
        }.items():
            yield bad(
                f"treespecs/{place}_of_{name}",
                "TSP-1",
                f"a number that nobody can read as the {place}: {name}",
                edited(simple(), SPEC, text),
            )
    factory = {"default_factory_module": "os", "default_factory_name": "system", "dict_context": []}
    for name, held in {"factory": factory, "factory_2": {"factory": "os.system", "keys": []}}.items():
        kind = "collections.defaultdict" + ("@2" if name == "factory_2" else "")
        tree = edited(
            simple(requires=["containers"]),
            SPEC,
            treespec({"type": kind, "context": held, "children_spec": []}),
        )
        yield good(
            f"treespecs/{name}_of_no_reader",
            "TSP-16 TSP-26",
            "a default factory that nobody rebuilds: it is text",
            tree,
        )
    odd = {
        "nan": "[NaN]",
        "equal_keys": '[{"a": 1, "a": 2}]',
        "infinity": "[1e999]",
        "lone_surrogate": '["\\ud800"]',
        "long_number": f"[1{'0' * 4300}]",
    }
    for name, held in odd.items():
        text = treespec({"type": "builtins.dict", "context": held, "children_spec": []})
        yield good(
            f"treespecs/context_{name}",
            "TSP-7 NEU-12",
            "a context that is text, and JSON for Python alone"
            if name != "lone_surrogate"
            else "a context with a lone surrogate",
            edited(simple(), SPEC, text),
        )


def payload_cases() -> Iterator[Case]:
    """Configs: names, devices and layouts in all three."""

    def of(
        name: str,
        rules: str,
        about: str,
        valid: bool = False,
        producer: str | None = None,
        **tables: dict[str, Payload],
    ) -> Case:
        weights = tables.get("weights", {"w": float32()})
        tree = holding({"w": float32()}) | ({"producer": producer} if producer else {})
        tree["example_inputs"] = {"spec": treespec(LEAF), "leaves": [{"as_none": True}]}
        archive = Archive({"model": tree}, weights, tables.get("constants", {}), tables.get("samples", {}))
        return _case(f"payloads/{name}", rules, about, archive.small().build(), valid, "payloads")

    def sample(**changes: Any) -> Payload:
        made = meta()
        for key, value in changes.items():
            made = edited(made, key, value)
        return Payload("tensor_0", numbers(6), made, is_param=False)

    for kind in ("constants", "samples"):
        for name, text in {
            "own_attribute": "__class__",
            "empty_part": "a..b",
            "empty": "",
            "quote": 'a"b',
        }.items():
            yield of(
                f"{kind}_name_{name}",
                "PAY-2 DOC-29",
                f"a name that is no attribute path among the {kind}: {text!r}",
                **{kind: {text: sample()}},
            )
        for name, device in {
            "quote": {"type": 'cpu"\n', "index": None},
            "index": {"type": "cuda", "index": 99999},
            "negative": {"type": "cuda", "index": -1},
        }.items():
            yield of(
                f"{kind}_device_{name}",
                "PAY-8 DOC-15 GRA-53",
                f"a device that cannot exist among the {kind}",
                **{kind: {"k": sample(device=device)}},
            )
        for layout in (0, 1, 6):
            yield of(
                f"{kind}_layout_{layout}",
                "PAY-8",
                f"a layout that is not strided among the {kind}",
                **{kind: {"k": sample(layout=layout)}},
            )
        yield of(
            f"{kind}_strides",
            "PAY-8",
            f"fewer strides than sizes among the {kind}",
            **{kind: {"k": sample(strides=[])}},
        )
    for name, changed in {
        "device": {"device": {"type": 'cpu"\n', "index": None}},
        "device_index": {"device": {"type": "cuda", "index": 99999}},
        "layout": {"layout": 1},
    }.items():
        weight = float32()
        made = weight.meta
        for key, value in changed.items():
            made = edited(made, key, value)
        yield of(
            f"weights_{name}",
            "PAY-8",
            f"a {name.replace('_', ' ')} that no weight has",
            weights={"w": Payload("weight_0", weight.data, made)},
        )
    yield of("missing_weight", "SIG-5", "a parameter that is not among the weights", weights={"v": float32()})
    other = {"w": Payload("weight_0", numbers(6), meta(7, (3, 2)))}
    yield of(
        "another_shape_than_stated",
        "PAY-17",
        "a weight of another shape than the graph states",
        producer="conformance 1",
        weights=other,
    )
    yield of(
        "another_shape_without_a_producer",
        "PAY-17",
        "such a weight in a file whose writer notes no edits",
        valid=True,
        weights=other,
    )
    plain = with_weights({"w": float32()}).small()

    def changed(name: str, rules: str, about: str, valid: bool, change: Any) -> Case:
        def rewrite(members: list[Member]) -> None:
            record = member(members, "model_weights_config.json")
            record.data = change(record.data)

        return _case(f"payloads/{name}", rules, about, plain.build(rewrite), valid, "payloads")

    for name, value in {
        "float": b"1.5e3",
        "text": b'"a"',
        "object": b'{"x": [1.0, null]}',
        "escape": b'{"$bytes": "?"}',
        "nested_400_deep": b"[" * 399 + b"]" * 399,
    }.items():
        yield changed(
            f"unknown_field_{name}",
            "ARC-34 VER-6",
            f"a field that no reader knows: {name}",
            True,
            lambda data, value=value: data[:-1] + b',"later":' + value + b"}",
        )
    for name, value in {
        "nan": b"NaN",
        "infinity": b"1e400",
        "digits": b"1" * 4301,
        "surrogate": b'"\\ud800"',
        "key_twice": b'{"a":1,"a":2}',
        "not_utf8": b'"\xff"',
        "nested_401_deep": b"[" * 400 + b"]" * 400,
    }.items():
        yield changed(
            f"unknown_field_{name}",
            "ARC-34",
            f"a field that no reader knows, and no JSON: {name}",
            False,
            lambda data, value=value: data[:-1] + b',"later":' + value + b"}",
        )
    for name, fields in {
        "conj": {"conj": True},
        "neg": {"neg": True},
        "placement": {"placement": "meta", "path_name": ""},
    }.items():

        def add(data: bytes, fields: dict[str, Any] = fields) -> bytes:
            entry = json.loads(data)
            entry["config"]["w"].update(fields)
            return json_bytes(entry)

        yield changed(
            f"unlisted_{name}", "EXT-2", f"an entry with {name} whose document does not say so", False, add
        )

    def on_meta(members: list[Member]) -> None:
        record = member(members, "model_weights_config.json")
        entry = json.loads(record.data)
        entry["config"]["w"]["tensor_meta"]["device"] = {"type": "meta", "index": None}
        record.data, member(members, "weight_0").data = json_bytes(entry), b""

    yield _case(
        "payloads/meta_of_torch",
        "PAY-19 NEU-17",
        "a weight on torch's meta device, as torch writes it",
        plain.build(on_meta),
        True,
        "payloads",
    )
    yield changed(
        "number_with_fraction",
        "ARC-34 DOC-13",
        "a size that is written as 2.0",
        False,
        lambda data: data.replace(b'{"as_int":2}', b'{"as_int":2.0}', 1),
    )
    yield changed(
        "byte_order_mark",
        "ARC-34",
        "a config with a byte order mark",
        False,
        lambda data: b"\xef\xbb\xbf" + data,
    )

    def pickled(data: bytes) -> bytes:
        entry = json.loads(data)
        entry["config"]["w"]["use_pickle"] = True
        return json_bytes(entry)

    archive = Archive(
        {"model": holding({"w": float32()})},
        {"w": float32()},
        {"k": Payload("tensor_0", numbers(6), meta(), is_param=False)},
    )

    def share(members: list[Member]) -> None:
        record = member(members, "model_weights_config.json")
        record.data = pickled(record.data)
        record = member(members, "model_constants_config.json")
        entry = json.loads(record.data)
        entry["config"]["k"]["shared"] = "data/weights/weight_0"
        record.data = json_bytes(entry)

    yield _case(
        "payloads/shared_with_a_pickle",
        "PAY-7 PAY-14",
        "a constant that shares the record of a weight that is not read",
        archive.build(share),
        True,
        "payloads",
    )
    yield changed("pickled", "PAY-7 NEU-16", "a weight that is a pickle, which is not read", True, pickled)


def archive_cases() -> Iterator[Case]:
    """Names in code page 437."""
    archive = Archive({"model": simple()}, manifest=False)

    def build(*names: tuple[bytes, bool]) -> bytes:
        def add(members: list[Member]) -> None:
            for name, is_utf8 in names:
                made = Member("program/extra/x", b"x", flags=UTF8 if is_utf8 else 0)
                made.local["name"] = made.central["name"] = b"program/extra/" + name
                made.local["name_length"] = made.central["name_length"] = len(b"program/extra/" + name)
                members.append(made)

        return archive.build(after=add)

    yield _case(
        "archives/code_page_437",
        "ARC-18 ARC-20",
        "two names of equal bytes, in two encodings",
        build((b"\xc3\xa9", True), (b"\xc3\xa9", False)),
        True,
    )
    yield _case(
        "archives/name_too_long",
        "ARC-42",
        "a name of 4,097 bytes",
        build((b"x" * 4083, True)),
        False,
        "archive",
    )
    yield _case(
        "archives/name_of_the_limit", "ARC-42", "a name of 4,096 bytes", build((b"x" * 4082, True)), True
    )
    yield _case(
        "archives/name_twice_in_two_encodings",
        "ARC-20",
        "one name in UTF-8 and in code page 437",
        build((b"\xc3\xa9", True), (b"\x82", False)),
        False,
        "archive",
    )


def all_cases() -> Iterator[Case]:
    """Every case of this module."""
    for cases in (document_cases, text_cases, payload_cases, archive_cases):
        yield from cases()
