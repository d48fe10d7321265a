"""Writes the golden documents of every step: `python tests/evolve/make_goldens.py`. Look at what changed before you keep it.

Each file has cases, each a document of the corpus before and after one step. The draft's and the compact variant's are made
by stepping down, since no release wrote any.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where pytest finds `inside`

from corpus_documents import Tree, documents, stepped_up, without_nulls

from graphwire.evolve.chain import STEPS, VARIANTS, plan
from graphwire.evolve.step import Step, version_of

FOLDER = Path(__file__).parent / "golden"

CASES: dict[str, tuple[str, ...]] = {
    "draft-2022": ("2.1.0/linear",),
    "1": ("2.1.0/map", "2.1.0/symbool_item", "2.1.0/lifted_constant"),
    "2": ("2.2.2/map", "2.2.2/symbool_item"),
    "5.1": ("2.3.1/while_loop", "2.3.1/pytree_std"),
    "5.3": ("2.3.1/custom_op_mutable", "2.3.1/dyn_named_unbounded"),
    "7.3": ("2.5.1/const_inputs_echo", "2.5.1/dyn_named_unbounded"),
    "8.2": ("2.6.0/scan", "2.6.0/float_specials"),
    "8.7": ("2.7.1/invoke_subgraph",),
    "8.8": ("2.8.0/symint_input",),
    "8.14": ("2.9.1/custom_op_mutable_decomp",),
    "8.15": ("2.9.1/map",),
    "8.17": ("2.11.0/linear",),
    "compact-5.3": ("2.3.1/linear",),
}


def cases(step: Step) -> list[Tree]:
    """The cases of one step."""
    made = []
    for source in CASES[str(step.older)]:
        release, model = source.split("/")
        tree = documents()[release, model]
        through_newer = str(step.older) in ("draft-2022", "compact-5.3")
        for earlier in plan(version_of(tree), step.newer if through_newer else step.older):
            tree = stepped_up(earlier, tree)
        if through_newer:
            tree = step.down(tree, refuse)
        made.append({"source": source, "older": short(tree), "newer": short(stepped_up(step, tree))})
    return made


def short(tree: Tree) -> Tree:
    """A document without nulls, but for those that mean a missing bound."""
    plain: Tree = without_nulls(tree)
    return {**plain, "range_constraints": tree["range_constraints"]} if "range_constraints" in tree else plain


def refuse(obstacle: object) -> None:
    """A golden document can be said in its older version."""
    raise AssertionError(obstacle)


def golden_path(step: Step) -> Path:
    """The file with the cases of a step."""
    return FOLDER / f"{str(step.older).replace('.', '_').replace('-', '_')}.json"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in (*STEPS, *VARIANTS):
        golden_path(each).write_text(json.dumps(cases(each), separators=(",", ":"), indent=0) + "\n")
