"""What a graph signature says, by name: the answers of torch's `ExportGraphSignature`, on our records.

The records in `schema.signature` hold one spec for each input and output; here is what one asks of them all together,
and what keeps them right while a graph is edited. Names are those of values of the graph; targets are qualified names of
what the program holds, or, for a user input, the name of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from graphwire.errors import SchemaError
from graphwire.schema.graph import Argument
from graphwire.schema.signature import GraphSignature
from graphwire.schema.symbols import decode_float

__all__ = [
    "BackwardSignature",
    "Literal",
    "ReplaceHook",
    "SignatureEdits",
    "SignatureNames",
    "editing",
    "replace_all_uses",
    "replace_hook",
    "value_name",
]

Literal: TypeAlias = int | float | bool | str | None
"""What a user input or output may be instead of a value of the graph."""


class BackwardSignature(NamedTuple):
    """What a joint graph differentiates, and what by."""

    loss_output: str
    gradients_to_parameters: Mapping[str, str]
    """Qualified name of the parameter by name of the gradient."""
    gradients_to_user_inputs: Mapping[str, str]
    """Name of the user input by name of the gradient."""


def value_name(argument: Argument) -> str | None:
    """The name of the one value that an argument refers to; None for a literal or a list."""
    if argument.as_tensor is not None:
        return argument.as_tensor.name
    if argument.as_custom_obj is not None:
        return argument.as_custom_obj.name
    symbolic = argument.as_sym_int or argument.as_sym_float or argument.as_sym_bool
    return None if symbolic is None else symbolic.as_name


class SignatureNames:
    """A signature's names: everything that torch's `ExportGraphSignature` has as a property, under the same name, and
    each name map in the other direction.

    A look at the signature as it is when it is asked; nothing is kept.
    """

    __slots__ = ("_signature",)

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature

    def _held(self, arm: str, target: str) -> Iterator[tuple[str, str]]:
        """The name and the target of each input of one kind."""
        for spec in self._signature.input_specs:
            if (held := getattr(spec, arm)) is not None:
                yield held.arg.name, getattr(held, target)

    def _made(self, arm: str, target: str) -> Iterator[tuple[str, str]]:
        """The name and the target of each output of one kind."""
        for spec in self._signature.output_specs:
            if (made := getattr(spec, arm)) is not None:
                yield made.arg.name, getattr(made, target)

    # ------------------------------------------------------------------------------------------ what is held

    @property
    def parameters(self) -> tuple[str, ...]:
        """Qualified names of the parameters, in order of the inputs."""
        return tuple(target for _, target in self._held("parameter", "parameter_name"))

    @property
    def buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers, in order of the inputs."""
        return tuple(target for _, target in self._held("buffer", "buffer_name"))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Qualified names of the buffers that are no part of the state dict."""
        buffers = (spec.buffer for spec in self._signature.input_specs)
        return tuple(buffer.buffer_name for buffer in buffers if buffer is not None and not buffer.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the tensors that were lifted out of the code."""
        return tuple(target for _, target in self._held("tensor_constant", "tensor_constant_name"))

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of the script objects and opaque values that were lifted out of the code."""
        return tuple(target for _, target in self._held("custom_obj", "custom_obj_name"))

    # ---------------------------------------------------------------------------- what the caller passes and gets

    @property
    def user_inputs(self) -> tuple[Literal, ...]:
        """What the caller passes, flat: the name of each value, and each literal itself."""
        found: list[Literal] = []
        for spec in self._signature.input_specs:
            if spec.user_input is not None:
                found.append(_name_or_literal(spec.user_input.arg))
            elif spec.constant_input is not None:
                found.append(_literal(spec.constant_input.value))
        return tuple(found)

    @property
    def user_outputs(self) -> tuple[Literal, ...]:
        """What the caller gets, flat, the loss of a joint graph among it: names of values, and literals themselves."""
        found: list[Literal] = []
        for spec in self._signature.output_specs:
            if spec.user_output is not None:
                found.append(_name_or_literal(spec.user_output.arg))
            elif spec.loss_output is not None:
                found.append(spec.loss_output.arg.name)
        return tuple(found)

    # ------------------------------------------------------------------------------------------------ name maps

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Qualified name of the parameter by name of the input."""
        return _mapping(self._held("parameter", "parameter_name"))

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Qualified name of the buffer by name of the input."""
        return _mapping(self._held("buffer", "buffer_name"))

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Name of the lifted tensor by name of the input."""
        return _mapping(self._held("tensor_constant", "tensor_constant_name"))

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Name of the lifted object by name of the input."""
        return _mapping(self._held("custom_obj", "custom_obj_name"))

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Qualified name of the buffer by name of its new value."""
        return _mapping(self._made("buffer_mutation", "buffer_name"))

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Qualified name of the parameter by name of its new value."""
        return _mapping(self._made("parameter_mutation", "parameter_name"))

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Name of the user input by name of its new value."""
        return _mapping(self._made("user_input_mutation", "user_input_name"))

    @property
    def parameters_to_inputs(self) -> Mapping[str, str]:
        """Name of the input by qualified name of the parameter."""
        return _reverse(self._held("parameter", "parameter_name"))

    @property
    def buffers_to_inputs(self) -> Mapping[str, str]:
        """Name of the input by qualified name of the buffer."""
        return _reverse(self._held("buffer", "buffer_name"))

    @property
    def lifted_tensor_constants_to_inputs(self) -> Mapping[str, str]:
        """Name of the input by name of the lifted tensor."""
        return _reverse(self._held("tensor_constant", "tensor_constant_name"))

    @property
    def lifted_custom_objs_to_inputs(self) -> Mapping[str, str]:
        """Name of the input by name of the lifted object."""
        return _reverse(self._held("custom_obj", "custom_obj_name"))

    @property
    def mutated_buffers(self) -> Mapping[str, str]:
        """Name of the new value by qualified name of the buffer. Complete also where one value is put into several."""
        return _reverse(self._made("buffer_mutation", "buffer_name"))

    @property
    def mutated_parameters(self) -> Mapping[str, str]:
        """Name of the new value by qualified name of the parameter."""
        return _reverse(self._made("parameter_mutation", "parameter_name"))

    @property
    def mutated_user_inputs(self) -> Mapping[str, str]:
        """Name of the new value by name of the user input."""
        return _reverse(self._made("user_input_mutation", "user_input_name"))

    # ---------------------------------------------------------------------------------------- training and effects

    @property
    def backward_signature(self) -> BackwardSignature | None:
        """What a joint graph differentiates, and what by; None for a graph without a loss.

        Raises:
            SchemaError: there are several losses.
        """
        losses = [spec.loss_output for spec in self._signature.output_specs if spec.loss_output is not None]
        if len(losses) > 1:
            names = ", ".join(loss.arg.name for loss in losses)
            raise SchemaError(f"the signature has several loss outputs: {names}")
        if not losses:
            return None
        return BackwardSignature(
            losses[0].arg.name,
            _mapping(self._made("gradient_to_parameter", "parameter_name")),
            _mapping(self._made("gradient_to_user_input", "user_input_name")),
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always None, as torch has it: assertions are ordered by nodes, or by the tokens below."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """Names of the inputs that order effects."""
        return tuple(s.token.arg.name for s in self._signature.input_specs if s.token is not None)

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """Names of the outputs that order effects."""
        return tuple(s.token.arg.name for s in self._signature.output_specs if s.token is not None)


def _mapping(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs))


def _reverse(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return MappingProxyType({target: name for name, target in pairs})


def _literal(value: Any) -> Literal:
    """The literal of a `ConstantValue`, or of an `Argument` that is one."""
    if value.as_float is not None:
        return decode_float(value.as_float)
    found: list[Literal] = [v for v in (value.as_int, value.as_bool, value.as_string) if v is not None]
    return found[0] if found else None


def _name_or_literal(argument: Argument) -> Literal:
    name = value_name(argument)
    return _literal(argument) if name is None else name


# ------------------------------------------------------------------------------------------------------- edits

ReplaceHook: TypeAlias = Callable[[str, str, str], None]
"""(the old value, the new one, who used the old one: `output` for the graph's outputs, `input` where the graph's own
input is renamed, otherwise the name of a node, which the signature does not care for)."""


def replace_all_uses(signature: GraphSignature, old: str, new: str) -> None:
    """Let every spec that refers to the value `old` refer to `new`, in place.

    Unlike torch's method of that name, an output that mutates the input `old`, or is its gradient, follows, too; a
    document in which it did not would not be valid.
    """
    _rename_inputs(signature, old, new)
    _rename_outputs(signature, old, new)


def replace_hook(signature: GraphSignature, *, replace_inputs: bool = False) -> ReplaceHook:
    """What a graph editor calls for each use that it gives another value, so that the signature stays right.

    Args:
        signature: changed in place.
        replace_inputs: whether a renamed input of the graph is followed; without it only outputs are.
    """

    def follow(old: str, new: str, user: str) -> None:
        if user == "output":
            _rename_outputs(signature, old, new)
        elif user == "input" and replace_inputs:
            replace_all_uses(signature, old, new)

    return follow


class SignatureEdits:
    """What may happen to the values of a graph while it is edited, told to its signature. Made by `editing`."""

    __slots__ = ("_signature",)

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature

    def rename(self, old: str, new: str) -> None:
        """The value `old` is called `new` now, wherever it stands."""
        replace_all_uses(self._signature, old, new)

    def swap(self, one: str, other: str) -> None:
        """The two values have exchanged their names."""
        between = "\0"  # no value can have this name
        for old, new in ((one, between), (other, one), (between, other)):
            replace_all_uses(self._signature, old, new)

    def replace(self, old: str, new: str) -> None:
        """The outputs that were the value `old` are the value `new` now; an input `old` stays what it was."""
        _rename_outputs(self._signature, old, new)


@contextmanager
def editing(signature: GraphSignature) -> Iterator[SignatureEdits]:
    """Keep a signature right while its graph is edited: each edit is seen at once, and all are undone when the body fails.

        with editing(module.signature) as edits:
            edits.rename("add", "sum_of_both")

    Args:
        signature: changed in place.
    """
    inputs, outputs = list(signature.input_specs), list(signature.output_specs)
    try:
        yield SignatureEdits(signature)
    except BaseException:
        signature.input_specs[:], signature.output_specs[:] = inputs, outputs
        raise


def _rename_inputs(signature: GraphSignature, old: str, new: str) -> None:
    for index, spec in enumerate(signature.input_specs):
        signature.input_specs[index] = _renamed_spec(spec, old, new)


def _rename_outputs(signature: GraphSignature, old: str, new: str) -> None:
    for index, spec in enumerate(signature.output_specs):
        signature.output_specs[index] = _renamed_spec(spec, old, new)


def _renamed_spec(spec: Any, old: str, new: str) -> Any:
    """The spec, or another one if it names `old`: specs and their arguments may be shared, so none is changed."""
    for arm in spec.__struct_fields__:
        held = getattr(spec, arm)
        if held is None:
            continue
        changed: dict[str, Any] = {}
        if arm == "constant_input":
            changed = {"name": new} if held.name == old else {}
        elif isinstance(held.arg, Argument):
            renamed = _renamed_argument(held.arg, old, new)
            changed = {} if renamed is held.arg else {"arg": renamed}
        elif held.arg.name == old:
            changed = {"arg": replace(held.arg, name=new)}
        if getattr(held, "user_input_name", None) == old:
            changed["user_input_name"] = new
        return replace(spec, **{arm: replace(held, **changed)}) if changed else spec
    return spec


def _renamed_argument(argument: Argument, old: str, new: str) -> Argument:
    if value_name(argument) != old:
        return argument
    for arm in ("as_tensor", "as_custom_obj"):
        if (named := getattr(argument, arm)) is not None:
            return Argument(**{arm: replace(named, name=new)})
    for arm in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        if (named := getattr(argument, arm)) is not None:
            return Argument(**{arm: replace(named, as_name=new)})
    return argument
