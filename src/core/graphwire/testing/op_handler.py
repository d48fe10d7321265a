"""Contract tests of an operator handler, for a plugin's tests to subclass.

from graphwire.testing import OpHandlerContract

def doubling() -> ExportedProgram:
    return torch.export.export(Doubling(), (torch.ones(2),))

class TestDoubling(OpHandlerContract):
    handler = DoublingOperators()
    programs = (doubling,)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

import pytest
import torch
from torch.export import ExportedProgram

from graphwire.api.loading import loads
from graphwire.api.programs import dumps, to_schema
from graphwire.errors import GraphwireError
from graphwire.evolve.plain_values import encode_value, walk_nodes
from graphwire.registry.interfaces import NodeCodec, OpHandler, OpsetUpgrader
from graphwire.registry.registry import Registry, default_registry
from graphwire.schema import ArgumentKind, NamedArgument
from graphwire.testing.programs import assert_same_values
from graphwire.testing.snapshots import graph_nodes
from graphwire.testing.suites import ProgramSuite, ProviderSuite, plugin_of, run_program

_ENDINGS = (
    *("no_such_operator", "no.such.operator", "__class__", "__class__.__init__.__globals__"),
    *("aten.__class__.__mro__", "antigravity.x.y", "a b; import antigravity"),
    *("a" * 100_000, "a." * 1000, "\x00", "é"),
)
"""Endings that a name in an untrusted file may have after a prefix of the handler."""

_NO_TARGETS: list[Any] = [None, 3, "text", b"", 0.5, [], {}, object(), object, print, lambda: None]
_NO_TARGETS += [torch, torch.Tensor]
"""Values that are not operators."""


class OpHandlerContract(ProviderSuite, ProgramSuite):
    """Contract tests of an operator handler. Subclass it as `TestSomething`, and set the first two attributes.

    Attributes:
        handler: the handler to test.
        programs: functions that each return a program exported with example inputs. Together the programs cover every
            operator of the handler and every form of call that matters.
        plugin: the plugin to register, if the handler needs more than itself. It is not added if its handler is
            installed.
        unknown: more names that must not resolve.
        steps: the upgraders of its namespace, to check the chain from version 1 to the handler's version.
    """

    hook, attribute = "graphwire_op_handlers", "handler"
    handler: OpHandler
    programs: Sequence[Callable[[], ExportedProgram]]
    plugin: Any = None
    unknown: Sequence[str] = ()
    steps: Sequence[OpsetUpgrader] = ()

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the installed plugins, with this handler added if it is not among them."""
        registry = default_registry()
        if any(self._owns(registry, prefix) for prefix in self.handler.prefixes):
            return registry
        return registry.extended(self.plugin or plugin_of("graphwire_op_handlers", self.handler))

    def test_every_program_uses_its_operators(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        for program in exported:
            assert list(self._names(registry, program)), "no node has a name with one of its prefixes"

    def test_a_name_resolves_to_the_operator_that_has_it(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        for program in exported:
            targets = {id(node.target) for node in graph_nodes(program)}
            for name in self._names(registry, program):
                target = self.handler.resolve(name)
                assert target is not None, f"{name} is not resolved"
                problem = f"{name} resolves to {target!r}, which no node of the program calls"
                assert id(target) in targets, problem
                assert self.handler.resolve(name) is target, f"another look-up of {name} finds another object"
                # Another handler may name the target; this one then returns None.
                assert self.handler.name_of(target) in {name, None}, f"`name_of` gives {name} another name"

    def test_unknown_names_give_nothing(self) -> None:
        names = [prefix + ending for prefix in self.handler.prefixes for ending in _ENDINGS]
        before = set(sys.modules)
        for name in ["", *names, *self.unknown]:
            assert self.handler.resolve(name) is None, f"{name[:80]!r} is resolved"
        assert "antigravity" not in set(sys.modules) - before, "a name in a file made it import a module"

    def test_what_is_no_operator_has_no_name(self) -> None:
        for target in _NO_TARGETS:
            assert self.handler.name_of(target) is None, f"{target!r} has a name"

    def test_programs_round_trip(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        for program in exported:
            expected = run_program(program)
            for format in ("json", "msgpack"):
                data = dumps(program, format=format, registry=registry)
                loaded = loads(data, registry=registry)
                assert_same_values(run_program(loaded, program.example_inputs), expected)
                again = dumps(loaded, format=format, registry=registry)
                assert again == data, "the second save differs"

    def test_the_file_says_its_version(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        for program in exported:
            versions = to_schema(program, registry=registry)[0].opset_version
            assert versions.get(self.handler.namespace, 0) == self.handler.opset_version, (
                "the file states another version than the handler"
            )

    def test_its_history_has_no_gap(self) -> None:
        known = {(s.from_version, s.to_version) for s in self.steps if s.namespace == self.handler.namespace}
        assert not self.steps or {(v, v + 1) for v in range(1, self.handler.opset_version)} <= known, (
            "the history has a gap"
        )

    def test_threads_do_not_meet(self, registry: Registry, exported: list[ExportedProgram]) -> None:
        saved = [dumps(program, registry=registry) for program in exported]

        def work(_: int) -> bool:
            return all(dumps(loads(data, registry=registry), registry=registry) == data for data in saved)

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4))), "threads that use it at once find something else"

    def test_whatever_stands_in_a_file_is_read_or_refused(
        self, registry: Registry, exported: list[ExportedProgram]
    ) -> None:
        if not isinstance(self.handler, NodeCodec):
            return  # The framework encodes its nodes by their convention.
        junk = [NamedArgument(name, encode_value(value), kind) for name, value, kind in _JUNK]
        for name in {name for program in exported for name in self._names(registry, program)}:
            target = self.handler.resolve(name)
            for inputs in ([], junk[:1], junk, list(reversed(junk)), junk * 20):
                with suppress(GraphwireError):
                    call = self.handler.decode_node(target, inputs, lambda argument: argument)
                    assert call is None or list(map(type, call)) == [tuple, dict], (
                        "`decode_node` returns something else than a tuple and a dict, or None"
                    )

    def _owns(self, registry: Registry, name: str) -> bool:
        owner: Any = inspect.unwrap(cast("Any", registry.op_handler(name)))
        return type(owner) is type(self.handler) and owner.prefixes == self.handler.prefixes

    def _names(self, registry: Registry, program: ExportedProgram) -> Iterator[str]:
        """Yield the names of the handler's operators in a program."""
        record, _ = to_schema(program, registry=registry)
        for _, node in walk_nodes(record.graph_module.graph):
            if self._owns(registry, node.target):
                yield node.target


_JUNK: tuple[tuple[str, Any, ArgumentKind | None], ...] = (
    ("", None, ArgumentKind.POSITIONAL),
    ("", "os.system", ArgumentKind.POSITIONAL),
    ("fn", "__import__('os')", ArgumentKind.KEYWORD),
    ("x", [1, 2], None),
    ("", 2**70, ArgumentKind.UNKNOWN),
    ("", [1, "a", None], ArgumentKind.POSITIONAL),
)
