"""Schema 5.1 (torch 2.3). Its version is a pair of numbers, unions have one key, script objects and operators are arguments.

The step to 5.3 (torch 2.4) brought tokens (inputs and outputs that order effects), a spec of its own for an input that was
specialised to a literal, and a record for the tensor of an optional tensor.

Upward an input that is a literal gets the free name `arg` and its position. Downward that name is dropped.
"""

from __future__ import annotations

import itertools

from graphwire.evolve.bounds import from_greatest, to_greatest
from graphwire.evolve.rewrite import Edits, Record, Report, Where, arm_of, name_of, rewrite
from graphwire.evolve.step import Step, report_new
from graphwire.evolve.versions import Version, stamped

OLDER, NEWER = Version(5, 1), Version(5, 3)

LITERALS = frozenset({"as_none", "as_int", "as_float", "as_string", "as_bool"})


def up(tree: Record) -> Record:
    """5.1 as 5.3."""
    tree = to_greatest(rewrite(tree, Edits(argument=_optional_up)))
    module = tree["graph_module"]
    names = {name_of(argument) for argument in module["graph"]["inputs"]} | set(module["graph"]["tensor_values"])
    specs = []
    for index, spec in enumerate(module["signature"]["input_specs"]):
        user = spec.get("user_input")
        if user is not None and arm_of(user["arg"]) in LITERALS:
            name = next(n for n in (f"arg{i}" for i in itertools.count(index)) if n not in names)
            names.add(name)
            spec = {"constant_input": {"name": name, "value": user["arg"]}}
        specs.append(spec)
    signature = {**module["signature"], "input_specs": specs}
    return stamped({**tree, "graph_module": {**module, "signature": signature}}, NEWER)


def down(tree: Record, report: Report) -> Record:
    """5.3 as 5.1."""
    token = {"token": "a token, which orders effects"}
    report_new(tree, report, NEWER, inputs=token, outputs=token)
    tree = rewrite(tree, Edits(argument=_optional_down, input_spec=_literal_down))
    return stamped(from_greatest(tree), OLDER)


def _optional_up(argument: Record, where: Where) -> Record:
    items = argument.get("as_optional_tensors")
    if items is None:
        return argument
    return {
        "as_optional_tensors": [
            {"as_tensor": {"name": item["as_tensor"]}} if item.get("as_tensor") is not None else item
            for item in items
        ]
    }


def _optional_down(argument: Record, where: Where) -> Record:
    items = argument.get("as_optional_tensors")
    if items is None:
        return argument
    return {
        "as_optional_tensors": [
            {"as_tensor": item["as_tensor"]["name"]} if item.get("as_tensor") is not None else item
            for item in items
        ]
    }


def _literal_down(spec: Record, where: Where) -> Record:
    constant = spec.get("constant_input")
    return spec if constant is None else {"user_input": {"arg": constant["value"]}}


STEP = Step(OLDER, NEWER, up, down)
