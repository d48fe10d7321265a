"""Writes the golden files: small documents that together own every record, variant and field of the schema, in every format.

    python tests/golden/make_golden.py

A new field or variant goes into a program below, or into a new one. A file that exists and would change is a break with what
was written before: the script refuses, unless it is told `--replace`. Before the first release nothing was written before.

    documents/NAME.FORMAT    the program NAME as a document
    archives/FORMAT.pt2       all programs in one archive, with payloads of every kind
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from graphwire import Payloads, encode
from graphwire.hooks import default_registry
from graphwire.schema import (
    DTYPE_NAMES,
    Argument,
    ArgumentKind,
    BufferMutationSpec,
    ComplexValue,
    Composition,
    ConstantArgument,
    ConstantValue,
    CustomObjArgument,
    Device,
    ElementCopy,
    EncodedValue,
    ExampleInputs,
    GradientToParameterSpec,
    GradientToUserInputSpec,
    Graph,
    GraphArgument,
    GraphModule,
    GraphSignature,
    InputSpec,
    InputToBufferSpec,
    InputToConstantInputSpec,
    InputToCustomObjSpec,
    InputTokenSpec,
    InputToParameterSpec,
    InputToTensorConstantSpec,
    Layout,
    LossOutputSpec,
    MappingEntry,
    MemoryFormat,
    ModuleCallEntry,
    ModuleCallSignature,
    NamedArgument,
    NamedTupleDef,
    Node,
    NodeSource,
    OptionalTensorArgument,
    OutputSpec,
    OutputTokenSpec,
    ParameterMutationSpec,
    Part,
    PayloadMeta,
    PluginRequirement,
    Program,
    RangeConstraint,
    RangeValue,
    ScalarType,
    SchemaVersion,
    SequenceValue,
    SliceValue,
    SparseMeta,
    StackFrame,
    SymBool,
    SymBoolArgument,
    SymExpr,
    SymExprHint,
    SymFloat,
    SymFloatArgument,
    SymInt,
    SymIntArgument,
    TensorArgument,
    TensorMeta,
    TokenArgument,
    TreespecArgument,
    UserInputMutationSpec,
    UserInputSpec,
    UserOutputSpec,
    ValueMetadata,
)
from graphwire.wire.package_writer import write_package
from graphwire.wire.payloads import Document

HERE = Path(__file__).parent
FORMATS = ("json", "msgpack", "cbor")
LEAF = '{"type": null, "context": null, "children_spec": []}'


# ---------------------------------------------------------------------------------------------------- short spellings


VERSION = SchemaVersion(8, 20)
"""The schema version of the files. It stays when a newer version comes."""


def whole(*numbers: int) -> list[SymInt]:
    return [SymInt(as_int=number) for number in numbers]


def tensor_meta(dtype: ScalarType = ScalarType.FLOAT, **fields: object) -> TensorMeta:
    given = {
        "sizes": whole(2, 3),
        "requires_grad": False,
        "device": Device("cpu"),
        "strides": whole(3, 1),
        "storage_offset": SymInt(as_int=0),
        "layout": Layout.Strided,
    }
    return TensorMeta(dtype, **{**given, **fields})  # type: ignore[arg-type]


def tensor(name: str) -> Argument:
    return Argument(as_tensor=TensorArgument(name))


def graph(**fields: object) -> Graph:
    given: dict[str, object] = {
        "inputs": [],
        "outputs": [],
        "nodes": [],
        "tensor_values": {},
        "sym_int_values": {},
        "sym_bool_values": {},
    }
    return Graph(**{**given, **fields})  # type: ignore[arg-type]


def program(contents: Graph, **fields: object) -> Program:
    """A program around a graph; the signature takes every input from the user and gives every output back."""
    module: dict[str, object] = {
        "signature": GraphSignature(
            [InputSpec(user_input=UserInputSpec(argument)) for argument in contents.inputs],
            [OutputSpec(user_output=UserOutputSpec(argument)) for argument in contents.outputs],
        ),
        "module_call_graph": [ModuleCallEntry("")],
    }
    for name in list(fields):
        if name in GraphModule.__struct_fields__:
            module[name] = fields.pop(name)
    given = {
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": VERSION,
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
    }
    return Program(GraphModule(contents, **module), **{**given, **fields})  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- the programs


def arguments() -> Program:
    """A node for every variant of an argument, and what an argument may hold below it."""
    inner = graph(
        inputs=[tensor("a"), Argument(as_none=True)],
        outputs=[tensor("a")],
        tensor_values={"a": tensor_meta()},
        input_names=["a", "nothing"],
        is_single_tensor_return=True,
        output_list=True,
    )
    values = [
        Argument(as_none=True),
        tensor("x"),
        Argument(as_tensors=[TensorArgument("x"), TensorArgument("y")]),
        Argument(as_int=-(2**63)),
        Argument(as_ints=[0, -1, 2**62]),
        Argument(as_float=0.1),
        Argument(as_floats=[-0.0, 5e-324, 1.7976931348623157e308, "Infinity", "-Infinity", "NaN"]),
        Argument(as_string="text: é, \u2028, \x00, \U0001f600"),
        Argument(as_strings=["", "a"]),
        Argument(as_sym_int=SymIntArgument(as_name="n")),
        Argument(as_sym_ints=[SymIntArgument(as_name="n"), SymIntArgument(as_int=0)]),
        *(Argument(as_scalar_type=kind) for kind in ScalarType),
        *(Argument(as_memory_format=kind) for kind in MemoryFormat),
        *(Argument(as_layout=kind) for kind in Layout),
        Argument(as_device=Device("cuda", 1)),
        Argument(as_device=Device("cpu")),
        Argument(as_bool=False),
        Argument(as_bools=[True, False]),
        Argument(as_sym_bool=SymBoolArgument(as_name="b")),
        Argument(as_sym_bools=[SymBoolArgument(as_name="b"), SymBoolArgument(as_bool=False)]),
        Argument(as_graph=GraphArgument("body", inner, node="body_1")),
        Argument(
            as_optional_tensors=[
                OptionalTensorArgument(as_tensor=TensorArgument("x")),
                OptionalTensorArgument(as_none=True),
            ]
        ),
        Argument(as_custom_obj=CustomObjArgument("queue", "golden.Queue")),
        Argument(as_operator="torch.ops.aten.add.Tensor"),
        Argument(as_sym_float=SymFloatArgument(as_name="f")),
        Argument(as_sym_floats=[SymFloatArgument(as_name="f"), SymFloatArgument(as_float=0.5)]),
        Argument(as_optional_tensor=OptionalTensorArgument(as_tensor=TensorArgument("y"))),
        Argument(as_complex=ComplexValue(1.5, "NaN")),
        Argument(as_nested_tensors=[[TensorArgument("x")], []]),
        Argument(as_int_lists=[[1, 2], []]),
        Argument(as_string_to_argument={"key": Argument(as_int=1), "": Argument(as_none=True)}),
        Argument(as_float_lists=[[0.5], []]),
        Argument(as_sequence=SequenceValue("list", [Argument(as_int=1), tensor("x")])),
        Argument(as_sequence=SequenceValue("tuple", [])),
        Argument(as_mapping=[MappingEntry(Argument(as_int=3), tensor("x"))]),
        Argument(as_slice=SliceValue(Argument(as_none=True), Argument(as_int=3), Argument(as_none=True))),
        Argument(as_dtype_name="float4_e2m1fn_x2"),
        Argument(as_layout_name="jagged"),
        Argument(as_constant="graph::0.table"),
        Argument(as_treespec=f"[1, {LEAF}]"),
        Argument(as_treespec=TreespecArgument("_spec_0", f"[1, {LEAF}]", node="spec_1")),
    ]
    kinds = [None, *ArgumentKind]
    nodes = [
        Node(
            "torch.ops.golden.take.default",
            [NamedArgument("value", value, kinds[index % len(kinds)], tuples=value.as_ints is not None)],
            [],
            {},
            name=f"take_{index}",
        )
        for index, value in enumerate(values)
    ]
    several = Node(
        "torch.ops.golden.several.default",
        [],
        [tensor("first"), Argument(as_tensors=[TensorArgument("second"), TensorArgument("third")])],
        {},
        name="several",
        container="list",
    )
    whole_results = Node(
        "torch.ops.golden.take.default",
        [NamedArgument("value", Argument(as_results="several"))],
        [tensor("made")],
        {},
        propagate=True,
    )
    contents = graph(
        inputs=[
            tensor("x"),
            tensor("y"),
            Argument(as_sym_int=SymIntArgument(as_name="n")),
            Argument(as_sym_float=SymFloatArgument(as_name="f")),
            Argument(as_sym_bool=SymBoolArgument(as_name="b")),
            Argument(as_custom_obj=CustomObjArgument("queue", "golden.Queue")),
        ],
        outputs=[tensor("first"), Argument(as_sym_int=SymIntArgument(as_name="n")), Argument(as_int=7)],
        nodes=[*nodes, several, whole_results],
        tensor_values={name: tensor_meta() for name in ("x", "y", "first", "second", "third")},
        sym_int_values={"n": SymInt(as_int=4)},
        sym_float_values={"f": SymFloat(as_float="Infinity")},
        sym_bool_values={"b": SymBool(as_bool=False)},
        custom_obj_values={"queue": CustomObjArgument("queue", "golden.Queue")},
    )
    features = "constants dtypes layouts mappings propagate results sequences slices treespecs"
    return program(contents, requires=features.split())


def values() -> Program:
    """Every element type and layout, symbolic sizes with their hints, and symbolic values of every kind."""
    size = SymInt(as_expr=SymExpr("Symbol('s0', positive=True, integer=True)", SymExprHint(as_int=4)))
    unbacked = SymInt(as_expr=SymExpr("Symbol('u0', integer=True)"))
    metas = {f"of_{name}": tensor_meta(kind) for kind, name in DTYPE_NAMES.items()}
    metas |= {
        "unnumbered": tensor_meta(ScalarType.UNKNOWN, dtype_name="float4_e2m1fn_x2"),
        "jagged": tensor_meta(layout=Layout.Unknown, layout_name="jagged"),
        "symbolic": tensor_meta(
            sizes=[size, unbacked],
            strides=[unbacked, SymInt(as_int=1)],
            storage_offset=size,
            requires_grad=True,
            device=Device("cuda", 0),
        ),
        "coo": tensor_meta(
            layout=Layout.SparseCoo, strides=[], sparse=SparseMeta(dense_dim=1, coalesced=True)
        ),
        "bsr": tensor_meta(
            layout=Layout.SparseBsr, strides=[], sparse=SparseMeta(index_dtype=ScalarType.INT, block=[1, 3])
        ),
    }
    metas |= {
        f"of_{kind.name}": tensor_meta(layout=kind, strides=[])
        for kind in (Layout.SparseCsr, Layout.SparseCsc, Layout.SparseBsc, Layout._mkldnn)
    }
    contents = graph(
        inputs=[
            *map(tensor, metas),
            Argument(as_sym_int=SymIntArgument(as_name="size")),
            Argument(as_sym_float=SymFloatArgument(as_name="scale")),
            Argument(as_sym_bool=SymBoolArgument(as_name="flag")),
            Argument(as_sym_bool=SymBoolArgument(as_name="other_flag")),
        ],
        tensor_values=metas,
        sym_int_values={"size": size},
        sym_float_values={
            "scale": SymFloat(as_expr=SymExpr("Symbol('zuf0', real=True)", SymExprHint(as_float="NaN")))
        },
        sym_bool_values={
            "flag": SymBool(
                as_expr=SymExpr("GreaterThan(Symbol('s0', positive=True, integer=True), Integer(2))", SymExprHint(as_bool=True))
            ),
            "other_flag": SymBool(as_bool=True),
        },
    )  # fmt: skip
    ranges = {
        "s0": RangeConstraint(2, None),
        "u0": RangeConstraint(None, 2**70),
        "2*s0 + 1": RangeConstraint(5, 9),
    }
    return program(contents, range_constraints=ranges, requires=["dtypes", "layouts"])


def signature() -> Program:
    """Every kind of input and output, and calls of modules."""
    given: list[tuple[Argument, InputSpec]] = [
        (tensor("p"), InputSpec(parameter=InputToParameterSpec(TensorArgument("p"), "layer.weight"))),
        (tensor("b"), InputSpec(buffer=InputToBufferSpec(TensorArgument("b"), "mean", True))),
        (tensor("t"), InputSpec(buffer=InputToBufferSpec(TensorArgument("t"), "scratch", False))),
        (
            tensor("c"),
            InputSpec(
                tensor_constant=InputToTensorConstantSpec(
                    TensorArgument("c"), "lifted_tensor_0", persistent=True
                )
            ),
        ),
        (
            Argument(as_custom_obj=CustomObjArgument("o", "golden.Queue")),
            InputSpec(custom_obj=InputToCustomObjSpec(CustomObjArgument("o", "golden.Queue"), "queue")),
        ),
        (tensor("k"), InputSpec(token=InputTokenSpec(TokenArgument("k")))),
        (tensor("x"), InputSpec(user_input=UserInputSpec(tensor("x")))),
        (Argument(as_int=1), InputSpec(user_input=UserInputSpec(Argument(as_int=1), name="literal"))),
    ]
    for index, value in enumerate(
        (
            {"as_none": True},
            {"as_int": 3},
            {"as_float": "-Infinity"},
            {"as_string": "text"},
            {"as_bool": False},
        )
    ):
        specialised = InputToConstantInputSpec(f"constant_{index}", ConstantValue(**value))  # type: ignore[arg-type]
        given.append((Argument(**value), InputSpec(constant_input=specialised)))  # type: ignore[arg-type]
    x = TensorArgument("x")
    returned: list[tuple[Argument, OutputSpec]] = [
        (tensor("x"), OutputSpec(user_output=UserOutputSpec(tensor("x")))),
        (Argument(as_int=2), OutputSpec(user_output=UserOutputSpec(Argument(as_int=2), name="two"))),
        (tensor("x"), OutputSpec(loss_output=LossOutputSpec(x))),
        (tensor("x"), OutputSpec(buffer_mutation=BufferMutationSpec(x, "mean"))),
        (tensor("x"), OutputSpec(parameter_mutation=ParameterMutationSpec(x, "layer.weight"))),
        (tensor("x"), OutputSpec(gradient_to_parameter=GradientToParameterSpec(x, "layer.weight"))),
        (tensor("x"), OutputSpec(gradient_to_user_input=GradientToUserInputSpec(x, "x"))),
        (tensor("x"), OutputSpec(user_input_mutation=UserInputMutationSpec(x, "x"))),
        (tensor("k"), OutputSpec(token=OutputTokenSpec(TokenArgument("k")))),
    ]
    contents = graph(
        inputs=[argument for argument, _ in given],
        outputs=[argument for argument, _ in returned],
        tensor_values={name: tensor_meta() for name in ("p", "b", "t", "c", "k", "x")},
        custom_obj_values={"o": CustomObjArgument("o", "golden.Queue")},
    )
    pair = f'{{"type": "golden.Pair", "context": "[]", "children_spec": [{LEAF}, {LEAF}]}}'
    call = ModuleCallSignature(
        inputs=[tensor("x"), Argument(as_int=1)],
        outputs=[tensor("x"), Argument(as_none=True)],
        in_spec=f"[1, {pair}]",
        out_spec=f"[1, {pair}]",
        forward_arg_names=["x", "count"],
        input_names=[None, "count"],
        output_names=[None, "nothing"],
    )
    return program(
        contents,
        signature=GraphSignature([spec for _, spec in given], [spec for _, spec in returned]),
        module_call_graph=[ModuleCallEntry("", call), ModuleCallEntry("layer"), ModuleCallEntry("layer@1", call)],
        treespec_namedtuple_fields={"golden.Pair": NamedTupleDef(["left", "right"])},
    )  # fmt: skip


def provenance() -> Program:
    """Metadata and everything that a document says of where it came from and what it needs."""
    node = Node(
        "torch.ops.higher_order.golden",
        [NamedArgument("", tensor("x"), ArgumentKind.POSITIONAL)],
        [tensor("y")],
        {
            "nn_module_stack": "L__self__,,golden.Model;layer,layer,torch.nn.modules.linear.Linear",
            "source_fn_stack": "layer,torch.nn.modules.linear.Linear",
            "torch_fn": "linear_1;builtin_function_or_method.linear",
            "custom": '{"stage": 1}',
        },
        is_hop_single_tensor_return=False,
        name="golden",
        stack=[0, 1],
        from_node=[1],
    )
    contents = graph(
        inputs=[tensor("x")],
        outputs=[tensor("y")],
        nodes=[node],
        tensor_values={"x": tensor_meta(), "y": tensor_meta()},
        value_metadata={
            "x": ValueMetadata({"custom": '["x"]'}, [2], [0]),
            "golden[1]": ValueMetadata(name="getitem_1", unstated=True),
        },
        output_metadata=ValueMetadata(from_node=[], stated=True),
        placed={"getitem_1": "golden"},
    )
    return program(
        contents,
        metadata={"custom": '{"who": "me"}'},
        stack_frames=[
            StackFrame("/golden/model.py", 7, "forward", "    return self.layer(x)\n"),
            StackFrame("/golden/layer.py", 1, "<lambda>"),
            StackFrame("/golden/model.py", 3, "stripped", "    return x", stripped=True),
        ],
        node_sources=[
            NodeSource("x", "x", 1),
            NodeSource("golden", "golden.default", 2, "golden_pass", "create+replace", [0]),
        ],
        guards_code=["L['x'].size()[0] % 8 == 0"],
        requires=["codecs", "lazy-bits", "placement"],
        producer="graphwire 0",
        readable_from="graphwire-0.1",
        plugins=[PluginRequirement("golden", "1.2.3", ["op:golden", "treespec:golden.Pair"])],
        example_inputs=ExampleInputs(
            f"[1, {LEAF}]", [tensor("leaf_0")], {"leaf_0": EncodedValue("golden", [1, None], ["leaf_0#0"])}
        ),
        encoded_values={
            "table": EncodedValue("golden", {"bytes": b"\x00\xff", "float": float("inf")}, ["table#0"])
        },
    )


def in_memory() -> Program:
    """What torch knows of a program that its own files do not say: tensor subclasses among the values, parameters and
    buffers, the ranges that were found while it was traced."""
    size = SymInt(as_expr=SymExpr("Symbol('s0', positive=True, integer=True)", SymExprHint(as_int=4)))
    meta = tensor_meta(sizes=[size, SymInt(as_int=3)])
    inner = Composition("golden", {"scale": 2}, [Part(meta)])
    outer = Composition(
        "golden", {"sizes": [{"graphwire.integer": 0}, 3]}, [Part(meta, inner), Part(meta)], [size]
    )
    contents = graph(
        inputs=[tensor("p"), tensor("x")],
        outputs=[tensor("x")],
        tensor_values={"p": tensor_meta(), "x": meta},
        compositions={"x": outer},
        held_as={"p": "parameter"},
    )
    return program(
        contents,
        signature=GraphSignature(
            [
                InputSpec(parameter=InputToParameterSpec(TensorArgument("p"), "layer.weight")),
                InputSpec(user_input=UserInputSpec(tensor("x"))),
            ],
            [OutputSpec(user_output=UserOutputSpec(tensor("x")))],
        ),
        range_constraints={"s0": RangeConstraint(2, 8), "u1": RangeConstraint(4, 16)},
        inline_constraints={"u0": RangeConstraint(0, None)},
        replacements={"u1": "Mul(Integer(2), Symbol('s0', positive=True, integer=True))"},
        requires=["codecs"],
        encoded_values={"table": EncodedValue("golden", None, ["table#0"], buffer=True)},
    )


def edited() -> Program:
    """A program whose parameter has another element type than the graph says."""
    p = tensor("p")
    return program(
        graph(inputs=[p], outputs=[p], tensor_values={"p": tensor_meta(ScalarType.HALF)}),
        signature=GraphSignature(
            [InputSpec(parameter=InputToParameterSpec(TensorArgument("p"), "layer.weight"))],
            [OutputSpec(user_output=UserOutputSpec(p))],
        ),
        edited_values=["layer.weight"],
    )


def grouped() -> Program:
    """A program that names a process group of two processes."""
    p = tensor("p")
    return program(
        graph(inputs=[p], outputs=[p], tensor_values={"p": tensor_meta()}),
        group_sizes={"0": 2},
    )


def coded() -> Program:
    """Weights that codecs wrote, with what the framework keeps of them: a parameter, the same one again, and a buffer whose
    codec writes no tensor."""
    weight = EncodedValue("golden", {}, ["w#0"], is_param=True, requires_grad=True)
    return program(
        graph(),
        requires=["codecs"],
        encoded_values={
            "w": weight,
            "tied": msgspec.structs.replace(weight, same_as="w"),
            "b": EncodedValue(
                "golden", 3, [], buffer=True, is_param=False, requires_grad=False, is_weight=True
            ),
        },
    )


def copied() -> Program:
    """An element that two nodes read, one of which states something else of it; a constant that is read by a node of another
    name; an input whose node was renamed."""
    number = Argument(as_sym_int=SymIntArgument(as_name="getitem"))
    constant = Argument(as_constant=ConstantArgument("graph::0.table", "table_1"))
    return program(
        graph(
            inputs=[tensor("x")],
            nodes=[
                Node(
                    "torch.ops.golden.several.default",
                    [NamedArgument("self", constant, ArgumentKind.POSITIONAL)],
                    [number, Argument(as_none=True)],
                    {},
                    name="several",
                ),
                Node(
                    "torch.ops.golden.use.default",
                    [NamedArgument("a", number), NamedArgument("b", number)],
                    [],
                    {},
                    name="use",
                ),
            ],
            tensor_values={"x": tensor_meta()},
            sym_int_values={"getitem": SymInt(as_int=3)},
            copies={"getitem_1": ElementCopy("getitem", {"use": [1], "": [0]})},
            value_metadata={
                "getitem": ValueMetadata(value=tensor_meta()),
                "x": ValueMetadata(target="input"),
            },
        ),
        requires=["constants"],
    )


def ordered() -> Program:
    """A weight whose codec writes no tensor, and which stands before others."""
    weight = EncodedValue("golden", {}, ["w#0"], is_param=True, requires_grad=True)
    first = msgspec.structs.replace(weight, tensors=[], is_weight=True, index=0)
    return program(graph(), requires=["codecs"], encoded_values={"w": weight, "first": first})


def ranges() -> Program:
    """Nodes that take a Python range, as it is and in containers."""
    several = [RangeValue(0, 10, 3), RangeValue(5, -(2**70), -1)]
    listed = [Argument(as_range=each) for each in several]
    values = [*listed, Argument(as_sequence=SequenceValue("tuple", listed))]
    nodes = [
        Node("torch.ops.golden.take.default", [NamedArgument("value", value)], [], {}, name=f"take_{index}")
        for index, value in enumerate(values)
    ]
    return program(graph(nodes=nodes), requires=["ranges", "sequences"])


_ARCHIVED = (arguments, values, signature, provenance, in_memory, edited)
PROGRAMS: dict[str, Callable[[], Program]] = {
    each.__name__: each for each in (*_ARCHIVED, coded, copied, ordered, ranges, grouped)
}
ARCHIVED = tuple(each.__name__ for each in _ARCHIVED)
"""The programs in the archives, which are as they were before there were others."""


# ------------------------------------------------------------------------------------------------------- the payloads


class Bytes:
    """A record in memory."""

    def __init__(self, data: bytes) -> None:
        self.nbytes = len(data)
        self._data = data

    def view(self) -> memoryview:
        """The bytes."""
        return memoryview(self._data)


def payloads() -> Payloads:
    """Weights and constants of every kind, in three records."""
    matrix, turned = tensor_meta(requires_grad=True), tensor_meta(sizes=whole(3, 2), strides=whole(1, 3))
    complex_meta = tensor_meta(ScalarType.COMPLEXFLOAT, sizes=whole(2), strides=whole(1))
    return Payloads(
        weights={
            "layer.weight": PayloadMeta("weight_0", True, False, matrix),
            "tied.weight": PayloadMeta("weight_0", True, False, matrix, same_as="layer.weight"),
            "turned": PayloadMeta("weight_0", False, False, turned),
            "conjugate": PayloadMeta("weight_1", False, False, complex_meta, conj=True, neg=True),
            "absent": PayloadMeta("", False, False, tensor_meta(device=Device("meta")), placement="meta"),
        },
        constants={
            "table": PayloadMeta("tensor_0", False, False, tensor_meta(ScalarType.BYTE)),
            "lent": PayloadMeta(
                "tensor_1", True, False, matrix, weight="layer.weight", shared="data/weights/weight_0"
            ),
            "kept": PayloadMeta("tensor_0", False, False, tensor_meta(ScalarType.BYTE), buffer=False),
        },
        sample_inputs={"leaf_0": PayloadMeta("tensor_0", False, False, tensor_meta(ScalarType.BYTE))},
        records={
            "data/weights/weight_0": Bytes(bytes(range(24))),
            "data/weights/weight_1": Bytes(bytes(range(16))),
            "data/constants/tensor_0": Bytes(b"golden"),
            "data/constants/tensor_1": Bytes(bytes(range(24))),
            "data/sample_inputs/tensor_0": Bytes(b"inputs"),
        },
    )


EXTRA_FILES = {"notes/read me.txt": "é".encode()}


# ------------------------------------------------------------------------------------------------------------- files


def document_path(name: str, format: str) -> Path:
    return HERE / "documents" / f"{name}.{format}"


def archive_path(format: str) -> Path:
    return HERE / "archives" / f"{format}.pt2"


def _documents(format: str) -> dict[str, Document]:
    suffix = default_registry().wire_format(format).suffix
    every = payloads()
    weight = msgspec.structs.replace(
        every, weights={"layer.weight": every.weights["layer.weight"]}, constants={}, sample_inputs={}
    )
    held = {"provenance": every, "edited": weight}
    return {
        name: Document(encode(make(), format), suffix, held.get(name, Payloads()))
        for name, make in PROGRAMS.items()
    }


def _write(path: Path, data: bytes, replace: bool) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.exists() and path.read_bytes() != data and not replace:
        raise SystemExit(f"{path} would change: old files would no longer be read as they were (--replace)")
    path.write_bytes(data)


def main(arguments: Iterable[str] | None = None) -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description="Writes the golden files.")
    parser.add_argument("--replace", action="store_true", help="replace files that differ")
    replace = parser.parse_args(None if arguments is None else list(arguments)).replace
    for format in FORMATS:
        documents = _documents(format)
        for name, document in documents.items():
            _write(document_path(name, format), document.data, replace)
        path = archive_path(format)
        if replace or not path.exists():
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as stream:
                write_package(stream, {name: documents[name] for name in ARCHIVED}, EXTRA_FILES)


if __name__ == "__main__":
    main()
