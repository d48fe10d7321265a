"""Converts module stacks (`nn_module_stack`) between the text of torch 2.1 and that of later releases.

2.1      key:(path,type),key:(path,type)
2.2 on   key,path,type;key,path,type
"""

from __future__ import annotations

import json

from graphwire.schema.texts import EXACT_STACK, split_modules


def module_stack_up(text: str) -> str:
    """Convert the text of 2.1 to the text of 2.2."""
    return ";".join(f"{key},{inner[1:-1]}" for key, inner in (_pair(item) for item in text.split(";")))


def module_stack_down(text: str) -> str:
    """Convert the text of 2.2 to the text of 2.1."""
    rows = split_modules(text)
    if rows is None:
        return text
    return ";".join(f"{key}:({path},{kind})" for key, path, kind in rows)


def stack_without_commas(metadata: dict[str, str]) -> dict[str, str]:
    """Remove commas inside paths and types of a module stack, which 2.3 cannot read; a second key keeps the exact stack."""
    text = metadata.get("nn_module_stack", "")
    if all(len(item.split(",")) == 3 for item in text.split(";")):
        return metadata
    rows = split_modules(text)
    if rows is None:
        return {key: value for key, value in metadata.items() if key != "nn_module_stack"}
    plain = ";".join(",".join(part.replace(",", "") for part in row) for row in rows)
    return {**metadata, "nn_module_stack": plain, EXACT_STACK: json.dumps(rows)}


def stack_with_commas(metadata: dict[str, str]) -> dict[str, str]:
    """Restore the exact module stack; the reverse of `stack_without_commas`."""
    if EXACT_STACK not in metadata or "nn_module_stack" not in metadata:
        return metadata
    whole = ";".join(",".join(row) for row in json.loads(metadata[EXACT_STACK]))
    return {**{key: value for key, value in metadata.items() if key != EXACT_STACK}, "nn_module_stack": whole}


def _pair(item: str) -> tuple[str, str]:
    key, _, inner = item.partition(":")
    return key, inner
