"""The part of the suite for readers of docs/spec/core.md: what they list and read of valid files, and what they refuse."""

from __future__ import annotations

from typing import Any

from graphwire.schema import ScalarType

GROUPS = ("archives", "payloads", "signatures", "formats", "extensions", "names")
OTHERS = frozenset({"msgpack", "cbor", "schema-8", "older", "torch-save", "references"})
"""The parts that such a reader lacks."""
RULES = frozenset(
    "ARC-8 ARC-15 ARC-18 ARC-20 ARC-21 ARC-27 ARC-29 TREE-6 TREE-8 VER-5 EXT-1 DOC-10 PAY-8 PAY-10 PAY-21".split()
)
"""The rules that the page repeats, by which a reader refuses."""
ELSEWHERE = ("/arguments/", "samples_", "_device", "unknown_variant_that_is_null")
"""Parts of names of files that break such a rule where the page does not speak of it: inside of graphs, for example."""
TYPES = frozenset((*range(1, 14), *range(28, 36)))
"""The numbers of the element types that the page lists."""
_CONTENT = ("weights", "constants")


def row_of_core(entry: dict[str, Any], broken: tuple[str, ...], expected: Any) -> dict[str, Any] | None:
    """Return a case of `core.json`; None if it is none.

    Args:
        entry: the case in the index.
        broken: the rule that an invalid file was made to break, by all its numbers.
        expected: what is beside a valid file.
    """
    group, file = entry["file"].split("/")[1], entry["file"]
    if OTHERS.intersection(entry["needs"]):
        return None
    if not entry["valid"]:
        is_here = RULES.intersection(broken) and not any(part in file for part in ELSEWHERE)
        return {"file": file, "valid": False, "rules": entry["rules"]} if is_here else None
    if group not in GROUPS:
        return None
    programs = {name: _interface(tree) for name, tree in expected["programs"]["dict"]}
    for name, tables in expected["payloads"]["dict"]:
        for kind in _CONTENT:
            rows = [(key, row) for key, row in tables[kind]["dict"] if row["where"] == "file"]
            made = [_tensor(key, row) for key, row in rows]
            programs[name][kind] = [row for row in made if row[1] in TYPES]
    return {"file": file, "valid": True, "programs": programs}


def _tensor(name: str, row: Any) -> list[Any]:
    meta = row["tensor_meta"]
    sizes = [int(size["as_int"]["int"]) for size in meta.get("sizes", [])]
    return [name, ScalarType[meta["dtype"]].value, sizes, row["sha256"]]


def _interface(program: Any) -> dict[str, Any]:
    signature = program["graph_module"]["signature"]
    return {
        "inputs": [_role(spec) for spec in signature.get("input_specs", [])],
        "outputs": [_role(spec) for spec in signature.get("output_specs", [])],
    }


def _role(spec: Any) -> list[Any]:
    """A role, and the name of the weight or value; null for a literal."""
    [(role, fields)] = spec.items()
    names = [value for key, value in fields.items() if key.endswith("_name")]
    argument = fields.get("arg", {})
    if role == "constant_input":
        return [role, fields["name"]]
    if names or "name" in argument:
        return [role, names[0] if names else argument["name"]]
    [value] = argument.values()
    found = value if isinstance(value, dict) else {}
    return [role, found.get("name") or found.get("as_name")]
