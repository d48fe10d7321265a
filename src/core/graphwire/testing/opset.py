"""Contract tests of the opset upgraders of a namespace, for a plugin's tests to subclass.

from graphwire.testing import OpsetContract

def doubling() -> ExportedProgram:
    return torch.export.export(Doubling(), (torch.ones(2),))

class TestHistory(OpsetContract):
    steps = STEPS
    newest = 4
    programs = (doubling,)
    documents = tuple(Path("documents").glob("opset_*.pt2"))
"""

from __future__ import annotations

import copy
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from graphwire.api.archive import open
from graphwire.api.files import plan_upgrade, upgrade, verify
from graphwire.api.loading import load, loads
from graphwire.api.programs import dumps, from_schema, to_schema
from graphwire.errors import GraphwireError, OpsetError, Problem
from graphwire.evolve.planner import apply, marked_operators, plan, plan_for
from graphwire.registry.interfaces import OpsetUpgrader
from graphwire.registry.registry import Registry, default_registry
from graphwire.schema import Program, SignatureNames
from graphwire.testing.programs import assert_same_values
from graphwire.testing.suites import ProgramSuite, assert_light_imports, run_program


class OpsetContract(ProgramSuite):
    """Contract tests of a namespace's opset upgraders. Subclass it as `TestSomething`, and set the first three attributes.

    Attributes:
        steps: all steps of one namespace.
        newest: the `opset_version` of the namespace's operator handler.
        programs: functions that each return a program of the newest version, exported with example inputs. Together
            the programs cover every operator that the downgrade steps rewrite.
        documents: files that older versions wrote.
        plugin: the plugin to register if it is not installed.
    """

    steps: Sequence[OpsetUpgrader]
    newest: int
    programs: Sequence[Callable[[], ExportedProgram]]
    documents: Sequence[Path] = ()
    plugin: Any = None

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the installed plugins, with this one added if it is not among them."""
        registry = default_registry()
        known = any(each.namespace == self.namespace for each in registry.opset_upgraders)
        return registry if known else registry.extended(self.plugin)

    @property
    def namespace(self) -> str:
        """The namespace of the steps."""
        return self.steps[0].namespace

    # Attributes of steps

    def test_each_is_a_step_of_one_namespace(self) -> None:
        assert self.steps, "`steps` is empty"
        assert {step.namespace for step in self.steps} == {self.namespace}, (
            "the steps have several namespaces"
        )
        for step in self.steps:
            assert isinstance(step, OpsetUpgrader), "a step lacks members"
            assert min(step.from_version, step.to_version) >= 1, "versions are counted from 1"
            assert abs(step.to_version - step.from_version) == 1, "the versions of a step are one apart"

    def test_each_operator_is_rewritten_by_one_function_a_step(self) -> None:
        seen: set[tuple[int, int, str]] = set()
        for step in self.steps:
            for name, function in step.operators.items():
                assert callable(function), f"what rewrites {name} is no function"
                assert (step.from_version, step.to_version, name) not in seen, name
                seen.add((step.from_version, step.to_version, name))

    def test_what_it_leaves_to_be_found_is_declared(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        """`propagates` must list such operators; otherwise no file without their result metadata can be written."""
        declared = {name for step in self.steps for name in getattr(step, "propagates", ())}
        assert all(re.fullmatch(r"torch\.ops\.\w+\.\w+\.\w+", name) for name in declared), declared
        records = [to_schema(program, registry=registry)[0] for program in exported]
        for path in self.documents:
            with open(path, registry=registry) as archive:
                records += [archive.program_of(name) for name in archive.methods]
        for record, version in itertools.product(records, range(1, self.newest + 1)):
            with suppress(OpsetError):
                changed = apply(record, plan_for(record, registry, wanted={self.namespace: version}))
                assert marked_operators(changed) - marked_operators(record) <= declared, (
                    "`propagates` lacks an operator whose results a step leaves without metadata"
                )

    def test_the_way_up_has_no_gap(self) -> None:
        known = {(step.from_version, step.to_version) for step in self.steps}
        assert {(v, v + 1) for v in range(1, self.newest)} <= known, "the way up has a gap"
        assert max(itertools.chain.from_iterable(known)) == self.newest, "a step goes beyond `newest`"

    def test_its_modules_import_nothing_heavy(self) -> None:
        functions = [function for step in self.steps for function in step.operators.values()]
        for module in {getattr(function, "func", function).__module__ for function in functions}:
            assert_light_imports(module)

    # Files of older versions

    def test_every_document_comes_up_and_is_valid(self, registry: Registry) -> None:
        for path in self.documents:
            data = self._upgraded(path, registry)
            assert verify(data, registry=registry) == [], f"{path} is not valid after the upgrade"
            assert _record(data, registry).opset_version[self.namespace] == self.newest, (
                f"{path} does not come up to `newest`"
            )
            assert self._upgraded(path, registry) == data, "another upgrade of the same file differs"

    def test_an_upgraded_document_needs_no_upgrade(self, registry: Registry) -> None:
        for path in self.documents:
            data = self._upgraded(path, registry)
            assert not any(each.steps for each in plan_upgrade(data, registry=registry).values()), (
                f"{path} needs another upgrade after its upgrade"
            )
            assert self._upgraded(data, registry) == data, f"another upgrade changes {path}"

    def test_a_document_computes_the_same_upgraded_before_or_while_it_is_loaded(
        self, registry: Registry
    ) -> None:
        for path in self.documents:
            before = loads(self._upgraded(path, registry), registry=registry)
            meanwhile = load(path, registry=registry)
            if meanwhile.example_inputs is not None:
                assert_same_values(run_program(before, meanwhile.example_inputs), run_program(meanwhile))

    def test_the_plan_names_the_nodes_that_it_touches(self, registry: Registry) -> None:
        for path in self.documents:
            for planned in plan_upgrade(path, registry=registry).values():
                assert planned.problems == (), f"{path} cannot be upgraded"
                for step in planned.steps:
                    assert all(node.place.startswith("graph_module.graph.") for node in step.nodes), (
                        "a place in the plan is no node"
                    )

    # Downgrades and upgrades

    def test_a_program_goes_down_and_computes_the_same_or_says_why_not(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        for program, version, data in self._downgraded(exported, registry):
            assert verify(data, registry=registry) == [], f"the program is not valid in version {version}"
            assert _record(data, registry).opset_version[self.namespace] == version, (
                f"the file does not state version {version}"
            )
            torch.testing.assert_close(
                run_program(loads(data, registry=registry), program.example_inputs),
                run_program(program),
            )

    def test_outputs_keep_their_names(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        for program, _, data in self._downgraded(exported, registry):
            names = SignatureNames(_record(data, registry).graph_module.signature)
            assert names.user_outputs == program.graph_signature.user_outputs, (
                "outputs of the program have other names after a downgrade"
            )

    def test_steps_change_no_program_that_they_are_given(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        for program in exported:
            record, _ = to_schema(program, registry=registry)
            before = copy.deepcopy(record)
            for version in range(1, self.newest):
                with suppress(OpsetError):
                    apply(record, plan_for(record, registry, wanted={self.namespace: version}))
                assert record == before, "a step changes the program that it is given"

    def test_what_stands_in_a_file_is_rewritten_or_refused(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        """A node in an untrusted file may have any arguments."""
        for program in exported:
            record, payloads = to_schema(program, registry=registry)
            for version, keep in itertools.product(range(1, self.newest), (0, 1)):
                damaged = copy.deepcopy(record)
                damaged.opset_version[self.namespace] = version
                for node in damaged.graph_module.graph.nodes:
                    if any(node.target in step.operators for step in self.steps):
                        node.inputs = node.inputs[:keep]
                with suppress(GraphwireError):
                    from_schema(damaged, payloads, registry=registry)

    def test_no_step_fails(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        """A step's function must rewrite or refuse any node, and must not raise exceptions of its own."""
        for program, step in itertools.product(exported, self.steps):
            record, _ = to_schema(program, registry=registry)
            nodes = record.graph_module.graph.nodes
            for index, operator in itertools.product(range(len(nodes)), step.operators):
                node = nodes[index]
                given = [node.inputs] if node.target == operator else []
                for inputs in (*given, [], node.inputs[:1]):
                    tried = copy.deepcopy(record)
                    tried.opset_version[step.namespace] = step.from_version
                    tried.graph_module.graph.nodes[index].target = operator
                    tried.graph_module.graph.nodes[index].inputs = copy.deepcopy(list(inputs))
                    self._fail_of_failures(
                        plan(tried, {**tried.opset_version, step.namespace: step.to_version}, [step]).problems
                    )

    def test_threads_do_not_meet(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        def work(_: int) -> list[bytes | None]:
            old = [self._written(program, max(1, self.newest - 1), registry) for program in exported]
            return [*old, *(self._upgraded(path, registry) for path in self.documents)]

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(8)))
        assert all(each == results[0] for each in results), (
            "threads that use the steps at once make different files"
        )

    def _upgraded(self, source: Path | bytes, registry: Registry) -> bytes:
        stream = io.BytesIO()
        upgrade(source, stream, registry=registry)
        return stream.getvalue()

    def _downgraded(
        self, exported: list[ExportedProgram], registry: Registry
    ) -> Iterator[tuple[ExportedProgram, int, bytes]]:
        """Yield each program with each older version that can represent it, and the file in that version."""
        for program, version in itertools.product(exported, range(1, self.newest)):
            data = self._written(program, version, registry)
            if data is not None:
                yield program, version, data

    def _written(self, program: ExportedProgram, version: int, registry: Registry) -> bytes | None:
        """Return a program in an older version; None if a step refuses it, with a place for each reason."""
        try:
            return dumps(program, opset_version={self.namespace: version}, registry=registry)
        except OpsetError as error:
            problems = error.problems
        assert all(problem.place for problem in problems), "a refusal has no place"
        self._fail_of_failures(problems)
        return None

    @staticmethod
    def _fail_of_failures(problems: Sequence[Problem]) -> None:
        failed = [str(problem) for problem in problems if problem.kind == "failed"]
        assert not failed, f"a step raises an exception instead of calling refuse(): {'; '.join(failed)}"


def _record(data: bytes, registry: Registry) -> Program:
    with open(data, registry=registry) as archive:
        return archive.program
