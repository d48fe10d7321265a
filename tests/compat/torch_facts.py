"""usage: python torch_facts.py < QUESTIONS    prints, as JSON, what graphwire depends on in the torch that is installed

Needs that torch alone. QUESTIONS is a JSON object with `names`, full names of private things in torch's modules, and
`attributes`, names of private attributes of its objects.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import re
import sys
import warnings
from typing import Any


def main() -> None:
    """Print the facts."""
    warnings.simplefilter("ignore")
    import torch

    questions = json.load(sys.stdin)
    facts = {
        "torch": torch.__version__,
        "schema_version": list(_schema().SCHEMA_VERSION),
        "schema": _schema_types(),
        "operators": _operators(),
        "higher_order": _higher_order(),
        "functions": _functions(),
        "names": {name: _described(name) for name in questions["names"]},
        "attributes": _holders(questions["attributes"]),
    }
    json.dump(facts, sys.stdout)


def _schema() -> Any:
    return importlib.import_module("torch._export.serde.schema")


def _schema_types() -> dict[str, dict[str, str]]:
    """The fields of each record, with their types; the members of each enum, with their values."""
    types: dict[str, dict[str, str]] = {}
    for name, value in vars(_schema()).items():
        if not inspect.isclass(value) or value.__module__ != _schema().__name__:
            continue
        if issubclass(value, enum.Enum):
            types[name] = {member.name: str(member.value) for member in value}
        elif dataclasses.is_dataclass(value):
            types[name] = {field.name: _field(field) for field in dataclasses.fields(value)}
    return types


def _field(field: dataclasses.Field[Any]) -> str:
    text = (field.type if isinstance(field.type, str) else str(field.type)).replace(
        f"{_schema().__name__}.", ""
    )
    text = re.sub(r"Annotated\[(.*), \d+\]", r"\1", text.replace("typing.", ""))
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text).replace(
        "'", ""
    )  # as releases before 2.12 spell it
    has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return f"{text}{' (optional)' if has_default else ''}"


def _operators() -> dict[str, str]:
    """The schema of each overload that torch registers itself, by its serialized name."""
    import torch

    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace in ("aten", "prims"):
            text = str(schema).partition("(")[2]
            found[f"torch.ops.{namespace}.{name}.{schema.overload_name or 'default'}"] = f"({text}"
    return found


def _higher_order() -> list[str]:
    from torch._ops import _higher_order_ops

    return sorted(_higher_order_ops)


def _functions() -> list[str]:
    """The functions of symbols that torch's own serializer writes."""
    from torch._export.serde import serialize

    return sorted(f"{each.__module__}.{each.__name__}" for each in serialize._SYM_OPS)


def _described(name: str) -> str | None:
    """What a full name stands for: its signature without types, or its type; None where there is no such thing."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        try:
            for part in parts[end:]:
                found = getattr(found, part)
        except AttributeError:
            return None
        return _kind(found)
    return None


def _kind(value: Any) -> str:
    if callable(value):
        try:
            stated = inspect.signature(value)
            bare = [each.replace(annotation=each.empty) for each in stated.parameters.values()]
            signature = stated.replace(parameters=bare, return_annotation=stated.empty)
            return f"{'class ' if inspect.isclass(value) else ''}{signature}"
        except (TypeError, ValueError):
            pass
    return "module" if inspect.ismodule(value) else type(value).__name__


def _holders(attributes: list[str]) -> dict[str, list[str]]:
    """Which of torch's objects have each attribute."""
    import torch

    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() is not None else x

    size = torch.export.Dim("size", min=2, max=64)
    program = torch.export.export(Doubled(), (torch.ones(3),), dynamic_shapes={"x": {0: size}})
    node = next(iter(program.graph.nodes))
    value = node.meta["val"]
    symbolic = value.shape[0].node
    objects = {
        "ExportedProgram": program,
        "GraphModule": program.graph_module,
        "Graph": program.graph,
        "Node": node,
        "FakeTensor": value,
        "FakeTensorMode": value.fake_mode,
        "SymNode": symbolic,
        "ShapeEnv": symbolic.shape_env,
        "OpOverload": torch.ops.aten.add.Tensor,
        "Tensor": torch.ones(1),
        "UntypedStorage": torch.ones(1).untyped_storage(),
        "Module": torch.nn.Module(),
        "TreeSpec": program.call_spec.in_spec,
    }
    return {
        attribute: [name for name, each in objects.items() if hasattr(each, attribute)]
        for attribute in attributes
    }


if __name__ == "__main__":
    main()
