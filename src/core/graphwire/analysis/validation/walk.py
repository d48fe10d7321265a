"""The state of a validation during its walk through a document: tables, caches and problems."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from graphwire.analysis.validation import legal_names
from graphwire.analysis.validation.legal_names import is_value_name, quoted
from graphwire.errors import GraphwireError, Problem
from graphwire.schema import Argument, Graph, Program

Place = tuple[Any, str] | tuple[Any, str, str | int]
"""The path before a step, the step, and an index or key if the step leads into a list or mapping. `path_of` makes text of it,
only to report a problem."""


def path_of(place: Place | None) -> str:
    """Return the text of a place, such as `graph_module.graph.nodes[7]`."""
    steps: list[str] = []
    while place is not None:
        place, step, *keys = place
        for key in keys:
            steps.append(f"[{key}]" if isinstance(key, int) else f"[{quoted(key)}]")
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".")


class Walk:
    """The state of one validation: the document's tables, caches of valid parts, and the problems found."""

    def __init__(
        self,
        program: Program,
        nesting: int,
        constants: Collection[str] | None,
        check_graph: Callable[[Walk, Place, Graph, int], object],
    ) -> None:
        self.check_graph = check_graph
        """The function that checks a graph inside an argument."""
        self.problems: list[Problem] = []
        self.nesting = nesting
        self.constants = None if constants is None else frozenset(constants)
        self.frames = len(program.graph_module.stack_frames)
        self.sources = len(program.graph_module.node_sources)
        self.features: dict[str, Place | None] = {}
        self.texts: dict[tuple[Callable[[str], Any], str], str | None] = {}
        self.good_expressions: set[str] = set()
        self.good_keywords: set[str] = set()
        self.good_inputs: set[tuple[str, ...]] = set()
        """Tuples with the names of all inputs of a node."""
        self.in_specs: dict[tuple[str, bool], list[tuple[str, str]]] = {}
        """The kind and message of each fault of a call's input spec, by the spec and whether torch generates names for the
        positional arguments."""
        self.good_targets: set[str] = set()
        self.good_devices: set[tuple[str, int | None]] = set()
        self._tensor = Argument()
        self.good_metas: set[int] = set()
        """Ids of records, which the program keeps alive. Equal metas are mostly the same record."""

    def is_tensor_alone(self, argument: Argument) -> bool:
        """Return whether an argument has no other arm than `as_tensor`. The comparison of two records takes a third of the time
        of counting arms."""
        self._tensor.as_tensor = argument.as_tensor
        return argument == self._tensor

    def report(self, place: Place | None, kind: str, message: str) -> None:
        self.problems.append(Problem(path_of(place), kind, message))

    def use_feature(self, feature: str, place: Place | None) -> None:
        self.features.setdefault(feature, place)

    def check_text(self, place: Place | None, kind: str, parse: Callable[[str], Any], text: str) -> None:
        """Check a text against its grammar. Parses each distinct text once, and reports every place of an invalid one."""
        key = (parse, text)
        if key not in self.texts:
            try:
                parse(text)
                self.texts[key] = None
            except (GraphwireError, ValueError) as error:
                self.texts[key] = str(error)
            except RecursionError:
                self.texts[key] = "nested too deeply"
        fault = self.texts[key]
        if fault is not None:
            self.report(place, kind, fault)

    def check_path(self, place: Place | None, path: str) -> None:
        if not legal_names.is_attribute_path(path):
            self.report(place, "path", legal_names.path_fault(path))

    def check_name(self, place: Place | None, name: str) -> None:
        if not is_value_name(name):
            self.report(place, "name", f"{quoted(name)} cannot name a value: it is not a plain identifier")


def arms_of(union: Any) -> list[str]:
    """Return the arms of a union that are set."""
    return [arm for arm in union.__struct_fields__ if getattr(union, arm) is not None]


def report_arms(walk: Walk, place: Place | None, union: Any) -> None:
    found = " and ".join(arms_of(union)) or "none"
    walk.report(place, "arm", f"exactly one arm of {type(union).__name__} must be set; set here: {found}")
