"""Module stacks (`nn_module_stack`), as torch 2.1 and later releases write them.

2.1      key:(path,type),key:(path,type)
2.2 on   key,path,type;key,path,type
"""

from __future__ import annotations

import json

__all__ = ["module_stack_down", "module_stack_up", "stack_with_commas", "stack_without_commas"]

WHOLE = "graphwire.nn_module_stack"
"""The key of metadata under which a stack stands that an older text cannot say: JSON rows of key, path and type."""


def module_stack_up(text: str) -> str:
    """The text of 2.2 for the text of 2.1."""
    return ";".join(f"{key},{inner[1:-1]}" for key, inner in (_pair(item) for item in text.split(";")))


def module_stack_down(text: str) -> str:
    """The text of 2.1 for the text of 2.2."""
    rows = [split_outside(item) for item in text.split(";")]
    if any(len(row) != 3 for row in rows):
        return text
    return ";".join(f"{key}:({path},{kind})" for key, path, kind in rows)


def stack_without_commas(metadata: dict[str, str]) -> dict[str, str]:
    """Metadata whose module stack 2.3 can read: without commas inside a path or type. The whole stack stands beside it."""
    text = metadata.get("nn_module_stack", "")
    rows = [split_outside(item) for item in text.split(";")]
    if all(len(item.split(",")) == 3 for item in text.split(";")):
        return metadata
    if any(len(row) != 3 for row in rows):
        return {key: value for key, value in metadata.items() if key != "nn_module_stack"}
    plain = ";".join(",".join(part.replace(",", "") for part in row) for row in rows)
    return {**metadata, "nn_module_stack": plain, WHOLE: json.dumps(rows)}


def stack_with_commas(metadata: dict[str, str]) -> dict[str, str]:
    """The reverse of `stack_without_commas`."""
    if WHOLE not in metadata or "nn_module_stack" not in metadata:
        return metadata
    whole = ";".join(",".join(row) for row in json.loads(metadata[WHOLE]))
    return {**{key: value for key, value in metadata.items() if key != WHOLE}, "nn_module_stack": whole}


def _pair(item: str) -> tuple[str, str]:
    key, _, inner = item.partition(":")
    return key, inner


def split_outside(text: str) -> list[str]:
    """The parts of a text between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for end, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:end])
            start = end + 1
    return [*parts, text[start:]]
