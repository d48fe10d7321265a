"""Operator handlers for torch's own operators: library overloads, higher-order operators and functions on symbols.

It also declares the metadata keys of torch's own passes.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import math
import operator
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from graphwire.errors import DecodeError, EncodeError, UnknownOperatorError, unless_interrupted
from graphwire.registry.interfaces import MetadataKey, OpHandler, hookimpl
from graphwire.schema import Argument, ArgumentKind, NamedArgument

# ---------------------------------------------------------------------- operator handlers for plain functions in graphs
# arithmetic on symbols, and the scaffolding of function transforms.


def _by_name(functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {f"{function.__module__}.{function.__name__}": function for function in functions}


class _FunctionTable(ABC):
    """A handler that looks functions up by name, and names by function, in one table."""

    @property
    @abstractmethod
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        """The table by name, built on first use because it needs torch."""

    @cached_property
    def _names(self) -> Mapping[int, str]:
        """Names by function id: an arbitrary target may be large, or fail when it is hashed."""
        return {id(function): name for name, function in self._functions.items()}

    def name_of(self, target: Any) -> str | None:
        """Return the name of `target` in the table; None if it is not there."""
        return self._names.get(id(target))

    @property
    def functions(self) -> Iterable[Callable[..., Any]]:
        """All functions in the table."""
        return self._functions.values()

    def resolve(self, name: str) -> Any | None:
        """Return the function with that name; None if there is none."""
        return self._functions.get(name)


class SymbolFunctions(_FunctionTable):
    """Functions on symbolic integers, floats and booleans: `operator`, `math`, `round` and `torch.sym_*`."""

    namespace = "symbolic"
    prefixes = ("_operator.", "math.", "builtins.", "torch.")
    opset_version = 0
    convention = "symbolic"

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        import torch

        symbolic = [
            getattr(torch, name)
            for name in dir(torch)
            if name.startswith(("sym_", "_sym_")) and "constrain" not in name
        ]
        return _by_name(
            [
                *(getattr(module, name) for module, names in _FUNCTIONS.items() for name in names.split()),
                *(each for each in symbolic if not isinstance(each, torch._ops.OpOverloadPacket)),
            ]
        )


_FUNCTIONS = {
    operator: "abs add and_ eq floordiv ge getitem gt index inv invert le lshift lt matmul mod mul ne neg not_ or_ pos "
    "pow rshift sub truediv xor",
    math: "ceil floor trunc sqrt log2 pow",
    builtins: "round abs min max pow bool int float",
}
"""The functions of each module that occur in graphs as operators on symbols."""


class PredispatchFunctions(_FunctionTable):
    """Functions that `torch.export` leaves in graphs for vmap, jvp, autocast and gradient modes before dispatch."""

    namespace = "predispatch"
    prefixes = tuple(f"torch.{name}." for name in "_functorch.predispatch _C amp export fx autograd".split())
    opset_version = 0
    convention = "generic"

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        import torch
        from torch.amp import autocast_mode
        from torch.fx.experimental import symbolic_shapes

        from graphwire.bridge.torch_compat.private import predispatch_functions

        return {
            **_by_name(predispatch_functions()),
            **_by_name([autocast_mode._enter_autocast, autocast_mode._exit_autocast]),
            **_by_name([symbolic_shapes.cast_symbool_to_symint_guardless]),
            "torch._C._set_grad_enabled": torch._C._set_grad_enabled,
            "torch.autograd.grad_mode.set_grad_enabled": torch.autograd.grad_mode.set_grad_enabled,
        }


# ------------------------------- calls of Triton kernels, which a graph refers to by indices into tables of the process
# A record stores the kernel's module, name and source text, its tuning, and the constant arguments. A load looks the kernel
# up among those in torch's table; it imports nothing and compiles no source. If the kernel is missing, only that part of the
# node is incomplete: running the node raises an error that names the kernel.
#
# torch tunes a kernel anew in each trace (`num_warps=8` in a call, configurations computed by heuristics). A process that has
# the kernel itself can therefore have it tuned.


_INPUT = "launch"
_NUMBERS = frozenset(("kernel_idx", "constant_args_idx"))
"""The arguments that are numbers of tables of a process. A file has none, but what they stand for."""
_TYPE = "triton.language"
"""The only key of the data that represents an element type of Triton."""
_CONFIGURED = frozenset({"kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg"})
"""The fields of a configuration that are plain data. Only these are passed to Triton."""
_LISTS = {"key": "keys", "reset_to_zero": "reset_to_zero", "restore_value": "restore_value"}
"""Names of arguments that tuning uses: Triton's parameter, and the attribute of its tuner."""


class MissingKernel(msgspec.Struct, frozen=True):
    """A kernel that a program calls and that this process does not have."""

    module: str
    name: str
    source: str
    tuning: list[Any] = []
    """The kernel's wrappers from the outside in: configurations to try, or heuristics."""

    def __hash__(self) -> int:
        return hash((self.module, self.name, self.source))

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UnknownOperatorError(
            f"the Triton kernel {self.module}.{self.name} is not in this process",
            remedy="Before you load, import its module and register it with torch: "
            "`torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.add_kernel(kernel)`",
        )


class TritonType(msgspec.Struct, frozen=True):
    """An element type of Triton (`fp32`) in a process that has not imported Triton."""

    name: str


def is_launch(target: Any) -> bool:
    """Whether a higher-order operator calls a Triton kernel."""
    return str(target.name()).startswith("triton_kernel_wrapper_")


def encode_launch(
    args: Sequence[Any], kwargs: Mapping[str, Any], encode: Callable[[Any], Argument]
) -> list[NamedArgument]:
    """Encode a kernel call as one record.

    Raises:
        EncodeError: the table has no such kernel, or a constant cannot be written.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    kernel = table.id_to_kernel.get(kwargs.get("kernel_idx", -1))
    constants = table.constant_args.get(kwargs.get("constant_args_idx", -1))
    if args or kernel is None or constants is None:
        raise EncodeError(
            "torch's table has no Triton kernel, or no constant arguments, under the number in this call",
            remedy="Save in the process that exported the program",
        )
    rest = {key: value for key, value in kwargs.items() if key not in _NUMBERS}
    kernel = _described(kernel)
    identity: dict[str, Any] = {"module": kernel.module, "name": kernel.name, "source": kernel.source}
    launch = {
        "kernel": {**identity, "tuning": kernel.tuning} if kernel.tuning else identity,
        "constants": {key: _encode_constant(value) for key, value in constants.items()},
        "rest": rest,
    }
    return [NamedArgument(_INPUT, encode(launch), ArgumentKind.KEYWORD)]


def decode_launch(
    inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Decode the arguments of a kernel call; return None for a record that torch wrote, which has another form.

    Raises:
        DecodeError: `encode_launch` does not make such a record.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    if [named.name for named in inputs] != [_INPUT]:
        return None
    match decode(inputs[0].arg):
        case {
            "kernel": {"module": str(module), "name": str(name), "source": str(source), **more},
            "constants": dict(texts),
            "rest": dict(rest),
        } if isinstance(tuning := more.get("tuning", []), list) and _NUMBERS.isdisjoint(rest):
            constants = {key: _decode_constant(value) for key, value in texts.items()}
            wanted = MissingKernel(module, name, source, tuning)
            kernels = list(reversed(table.id_to_kernel.values()))
            places = (place for place, each in reversed(table.constant_args.items()) if each == constants)
            place = next(places, None)
            return (), {
                "kernel_idx": table.add_kernel(_found(wanted, kernels) or wanted),
                "constant_args_idx": table.add_constant_args(constants) if place is None else place,
                **rest,
            }
    raise DecodeError("the record does not describe a call of a Triton kernel")


def _described(kernel: Any) -> MissingKernel:
    """Return what a file stores about a kernel: its function, and its wrappers."""
    if isinstance(kernel, MissingKernel):
        return kernel
    tuning = []
    while hasattr(getattr(kernel, "fn", None), "fn"):
        tuning.append(_layer(kernel))
        kernel = kernel.fn
    function = getattr(kernel, "fn", kernel)
    source = getattr(kernel, "src", "")
    text = source if isinstance(source, str) else ""
    return MissingKernel(function.__module__, function.__qualname__, text, tuning)


def _layer(wrapper: Any) -> dict[str, Any]:
    """Return one wrapper of a kernel as data, with functions replaced by their names."""
    if not hasattr(wrapper, "configs"):
        return {key: _named(value) for key, value in getattr(wrapper, "values", {}).items()}
    lists = {name: list(getattr(wrapper, attribute)) for name, attribute in _LISTS.items()}
    return {
        "configs": [
            {key: _named(value) for key, value in sorted(vars(config).items()) if value is not None}
            for config in wrapper.configs
        ],
        **{name: each for name, each in lists.items() if each},
    }


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(each) for key, each in value.items()}
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else _encode_constant(value)


def _found(wanted: MissingKernel, kernels: Iterable[Any]) -> Any:
    """Return the wanted kernel: one of `kernels`, or one of them with the wanted tuning; None if there is neither."""
    for kernel in kernels:
        if _described(kernel) == wanted:
            return kernel
    match wanted.tuning:
        case [{"configs": [*configs], **lists}, *inner] if _is_plain(configs, lists):
            kernel = _found(MissingKernel(wanted.module, wanted.name, wanted.source, inner), kernels)
            if kernel is not None and not isinstance(kernel, MissingKernel):
                return _tuned(kernel, configs, lists)
    return None


def _is_plain(configs: Sequence[Any], lists: Mapping[Any, Any]) -> bool:
    """Whether configurations are plain data."""
    return (
        all(isinstance(each, dict) and _CONFIGURED.issuperset(each) for each in configs)
        and all(isinstance(each.get("kwargs", {}), dict) for each in configs)
        and all(key in _LISTS and isinstance(each, list) for key, each in lists.items())
    )


def _imported(module: str) -> Any:
    """Return a module if this process has imported it, else None. If another thread has only begun to, wait for it."""
    return importlib.import_module(module) if module in sys.modules else None  # noqa: TID251 a name fixed in the source


def _tuned(kernel: Any, configs: Sequence[Mapping[str, Any]], lists: Mapping[Any, Any]) -> Any:
    """Return a kernel with configurations to try, built like torch's own; None if Triton is not imported."""
    triton = _imported("triton")
    if triton is None:
        return None
    made = []
    for config in configs:
        constants = {key: _decode_constant(value) for key, value in config.get("kwargs", {}).items()}
        made.append(triton.Config(**{**config, "kwargs": constants}))
    return triton.autotune(configs=made, **{"key": [], **lists})(kernel)


def _encode_constant(value: Any) -> Any:
    """Encode a constant argument; an element type of Triton is replaced by its name."""
    is_type = (type(value).__module__, type(value).__name__) == ("triton.language.core", "dtype")
    return {_TYPE: value.name} if is_type or isinstance(value, TritonType) else value


def _decode_constant(value: Any) -> Any:
    match value:
        case {"triton.language": str(name)} if len(value) == 1:
            language = _imported("triton.language")
            try:
                return TritonType(name) if language is None else language.dtype(name)
            except AssertionError:
                raise DecodeError(f"{name[:80]!r} is not an element type of Triton") from None
    return value


# ------------------------------------------------------------- operators of torch that `import torch` does not register
# A process that did not export a program may lack them.


_HIGHER_ORDER = "torch._higher_order_ops"
LATE_MODULES = {
    "_c10d_functional": "torch.distributed._functional_collectives",
    "_dtensor": "torch.distributed.tensor",
    "_inductor_test": "torch._inductor.test_operators",
    "ao": "torch._functorch._activation_offloading.offload_ops",
    "c10d_functional": "torch.distributed._functional_collectives",
    "device_mesh": "torch.distributed._ops.device_mesh",
    "flex_lib": "torch._dynamo._trace_wrapped_higher_order_op",
    "fsdp": "torch.distributed.fsdp",
    "onnx": "torch.onnx.ops",
    "onnx_symbolic": "torch.onnx.ops",
    "prims": "torch._inductor.inductor_prims",
    "quantization": "torch.distributed.algorithms._quantization.quantization",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "streams": "torch._dynamo.variables.streams",
    "symm_mem": "torch.distributed._symmetric_memory",
    "torch_attn": "torch.nn.attention.varlen",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
    "higher_order.control_deps": "torch._inductor.fx_passes.control_dependencies",
    "higher_order.register_hook": f"{_HIGHER_ORDER}.register_hook",
    "higher_order.trace_wrapped": "torch._dynamo._trace_wrapped_higher_order_op",
    "higher_order.triton_kernel_wrapper_functional": f"{_HIGHER_ORDER}.triton_kernel_wrap",
    "higher_order.triton_kernel_wrapper_mutation": f"{_HIGHER_ORDER}.triton_kernel_wrap",
}
"""A library, or a higher-order operator, and the module of torch that registers it, or what `import torch` leaves out of it."""


def register_late(name: str) -> bool:
    """Have torch register a library or a higher-order operator of `LATE_MODULES`.

    Returns False for any other name, and where this release of torch has no such module.
    """
    if name not in LATE_MODULES:
        return False
    with contextlib.suppress(ImportError):
        importlib.import_module(LATE_MODULES[name])  # noqa: TID251 the table names it, and no file
        return True
    return False


# ---------- operator handler for higher-order operators (`torch.ops.higher_order.NAME`), whose arguments include graphs


_HIGHER_ORDER_START = "torch.ops.higher_order."
TORCH_OPERATORS = (
    "_export_tracepoint aoti_call_delegate associative_scan auto_functionalized auto_functionalized_v2 "
    "autograd_function_apply call_torchbind cond control_deps custom_function_call dynamo_bypassing_wrapper "
    "executorch_call_delegate flat_apply flex_attention flex_attention_backward flex_gemm foreach_map "
    "graphsafe_run_with_rng_state hints_wrapper inductor_compiled_code inline_asm_elementwise "
    "invoke_leaf_function invoke_quant invoke_quant_packed invoke_subgraph local_map_hop map map_impl out_dtype print "
    "register_hook run_and_save_rng_state run_const_graph run_dtensor_rng_op run_with_rng_state scan "
    "strict_mode switch tag_activation_checkpoint trace_wrapped "
    "triton_kernel_wrapper_functional triton_kernel_wrapper_mutation while_loop while_loop_stack_output with_effects wrap "
    "wrap_activation_checkpoint wrap_with_autocast wrap_with_set_grad_enabled"
).split()
"""torch's own higher-order operators. Plugins cannot register their names."""


class HigherOrderOperators:
    """Handles every operator in torch's own table of higher-order operators."""

    namespace = "higher_order"
    prefixes = (_HIGHER_ORDER_START,)
    keeps = tuple(_HIGHER_ORDER_START + name for name in TORCH_OPERATORS)
    opset_version = 0
    convention = "generic"

    def name_of(self, target: Any) -> str | None:
        """Return `torch.ops.higher_order.cond` for that operator; None for anything else."""
        from torch._ops import HigherOrderOperator

        return f"{_HIGHER_ORDER_START}{target.name()}" if isinstance(target, HigherOrderOperator) else None

    def resolve(self, name: str) -> Any | None:
        """Return the operator with that name in torch's table; None if there is none."""
        from torch._ops import _higher_order_ops  # `import torch` fills most of it

        own = name.removeprefix(_HIGHER_ORDER_START)
        if own not in _higher_order_ops:
            register_late(f"higher_order.{own}")
        return _higher_order_ops.get(own)

    def encode_node(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        encode: Callable[[Any], Argument],
    ) -> list[NamedArgument] | None:
        """Return the inputs of a Triton kernel call; None for any other node."""
        return encode_launch(args, kwargs, encode) if is_launch(target) else None

    def decode_node(
        self, target: Any, inputs: Sequence[NamedArgument], decode: Callable[[Argument], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of a Triton kernel call; None for any other node."""
        return decode_launch(inputs, decode) if is_launch(target) else None


# ---------------------------------------------------------- operator handler for overloads of `torch.library` operators
# `torch.ops.NAMESPACE.OPERATOR.OVERLOAD`.


_NAME = r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)"
_START = "torch.ops."
_ATEN = "torch.ops.aten."


TORCH_LIBRARIES = (
    "_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _quantized _test ao aten c10d c10d_functional "
    "debug_mode_ops debugprims device_mesh export flex_lib fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn onnx "
    "onnx_symbolic prim prims profiler quantization quantized quantized_decomposed rngprims sparse static_runtime streams "
    "symm_mem torch_attn torch_nn"
).split()
"""The operator libraries that torch itself registers. Plugins cannot register their names, but any other library may have
its own handler."""


def _is_registered(operator: str, overload: str) -> bool:
    """Whether torch's dispatcher has `aten::add` with that overload."""
    import torch

    try:
        torch._C._get_schema(operator, "" if overload == "default" else overload)
    except unless_interrupted(RuntimeError):
        return False
    return True


class LibraryOverloads:
    """Handles every operator that is registered with torch's dispatcher, including ATen.

    The opset version is ATen's (`torch._C._get_max_operator_version()`), 10 in every release since 2.1.
    """

    namespace = "aten"
    prefixes = (_START,)
    keeps = tuple(f"{_START}{library}." for library in TORCH_LIBRARIES)
    opset_version = 10
    convention = "schema"

    def name_of(self, target: Any) -> str | None:
        """Return `torch.ops.aten.add.Tensor` for that overload; None for anything else."""
        from torch._ops import OpOverload

        if not isinstance(target, OpOverload):
            return None
        namespace, _, operator = target._schema.name.partition("::")
        return f"{_START}{namespace}.{operator}.{target._overloadname}"

    def resolve(self, name: str) -> Any | None:
        """Return the overload of that name, or None if torch's dispatcher does not have it. Nothing is created, and nothing
        imported but the module of torch that registers one of its own libraries."""
        import torch
        from torch._ops import OpOverload, OpOverloadPacket

        if name.startswith(_ATEN):  # as nearly always; what somebody looked up before stays there
            operator, _, overload = name[len(_ATEN) :].partition(".")
            packet = vars(torch.ops.aten).get(operator)
            found = vars(packet).get(overload) if type(packet) is OpOverloadPacket else None
            if type(found) is OpOverload:
                return found
        match = re.fullmatch(_NAME, name, re.ASCII)
        if match is None:
            return None
        namespace, operator, overload = match.groups()
        wanted = f"{namespace}::{operator}", overload
        if not _is_registered(*wanted) and not (register_late(namespace) and _is_registered(*wanted)):
            return None
        # An operator may have the same name as an attribute of torch's namespace and operator objects.
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload) if isinstance(packet, OpOverloadPacket) else None
        return found if isinstance(found, OpOverload) else None


_KEYS = (
    "ac_graph_id dynamo_flat_name_to_original_fqn has_backward_hook partitioner_tag quantization_tag recompute "
    "_numeric_debug_handle"
).split()
"""The keys that `torch.fx` copies when it retraces a graph (`torch/fx/proxy.py`), and that the inductor reads from a
graph module."""


@hookimpl
def graphwire_metadata_keys() -> list[MetadataKey]:
    """Return the metadata keys that torch's passes write and read."""
    return [MetadataKey(name) for name in _KEYS]


@hookimpl
def graphwire_op_handlers() -> list[OpHandler]:
    """Return the four handlers that every graph of `torch.export` needs."""
    return [LibraryOverloads(), HigherOrderOperators(), SymbolFunctions(), PredispatchFunctions()]
