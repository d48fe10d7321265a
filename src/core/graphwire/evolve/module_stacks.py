"""Module stacks (`nn_module_stack`), as torch 2.1 and later releases write them.

2.1      key:(path,type),key:(path,type)
2.2 on   key,path,type;key,path,type
"""

from __future__ import annotations

__all__ = ["module_stack_down", "module_stack_up", "without_inner_commas"]


def module_stack_up(text: str) -> str:
    """The text of 2.2 for the text of 2.1."""
    return ";".join(f"{key},{inner[1:-1]}" for key, inner in (_pair(item) for item in text.split(";")))


def module_stack_down(text: str) -> str:
    """The text of 2.1 for the text of 2.2."""
    rows = [split_outside(item) for item in text.split(";")]
    if any(len(row) != 3 for row in rows):
        return text
    return ";".join(f"{key}:({path},{kind})" for key, path, kind in rows)


def without_inner_commas(text: str) -> str:
    """The text of 2.2 and later with no comma inside a path or type, so that 2.2 and 2.3 can read it."""
    rows = [split_outside(item) for item in text.split(";")]
    if any(len(row) != 3 for row in rows):
        return ""
    return ";".join(",".join(part.replace(",", "") for part in row) for row in rows)


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
