"""Contract tests of a treespec serializer, for a plugin's tests to subclass.

from graphwire.testing import TreespecContract

class TestBox(TreespecContract):
    serializer = BoxSerializer()
    examples = (Box(1, 2), Box(None, 3))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from graphwire.bridge.graph.treespec import decode_treespec, encode_treespec
from graphwire.bridge.torch_compat.pytree import context_of, flatten_one, is_flattened, unflatten
from graphwire.errors import DecodeError, EncodeError
from graphwire.registry.interfaces import Tree, TreespecSerializer
from graphwire.registry.registry import Registry
from graphwire.schema.texts import treespec
from graphwire.testing.programs import assert_same_values
from graphwire.testing.suites import ProviderSuite, plugin_of
from graphwire.wire.document import same_tree

_JUNK: tuple[Any, ...] = (
    *(None, True, -1, 3.5, 2**80, "", "[", "nul", "{}", '"text"', '["a", "a"]', '[{"b": 1}]'),
    *("[" * 100_000, "9" * 9999),
    *([], {}, [[]], {"x": 1}, [None], ["a", ["b"], 3], {"__enum__": True}, '[{"__enum__": true}]'),
    *('[{"__enum__": true, "fqn": "os:system", "name": "x"}]', [{"tuple": [1]}], {"float": "1e9"}, "\ud800"),
)


class TreespecContract(ProviderSuite):
    """Contract tests of a treespec serializer. Subclass it as `TestSomething`, and set the first two attributes.

    Attributes:
        serializer: the serializer to test.
        examples: containers of its types, in every shape that matters: empty, with unusual keys, without optional
            fields.
        refused: containers that cannot be written: each must raise an `EncodeError`.
        bad_contexts: invalid contexts, each with its version: each must raise a `DecodeError`.
    """

    hook, attribute = "graphwire_treespec_serializers", "serializer"
    serializer: TreespecSerializer
    examples: Sequence[Any]
    refused: Sequence[Any] = ()
    bad_contexts: Sequence[tuple[Tree, int]] = ()

    @pytest.fixture
    def registry(self) -> Registry:
        """Return a registry with this serializer only."""
        return Registry.of(plugin_of("graphwire_treespec_serializers", self.serializer))

    def test_torch_flattens_its_containers(self, registry: Registry) -> None:
        types = registry.container_types.all
        assert types.by_container, types.failures
        for container, served in types.by_container.items():
            assert is_flattened(container), f"{container} is not a registered pytree node"
            assert types.by_name[served.name] is served, f"{served.name} is not found under its name"
            assert served.serializer == self.serializer, f"another serializer has {served.name}"

    def test_there_are_examples(self, registry: Registry) -> None:
        assert self.examples, "`examples` is empty"
        for example, spec in zip(self.examples, self._specs(), strict=True):
            known = registry.container_types.all.by_container
            assert spec.type in known, f"{example!r} is not one of its containers"

    def test_a_context_comes_back_exactly(self) -> None:
        for example, spec in zip(self.examples, self._specs(), strict=True):
            context = context_of(spec)
            version, tree = self.serializer.dump_context(context)
            assert 1 <= version <= self.serializer.version, (
                f"version {version} is none from 1 to {self.serializer.version}"
            )
            is_json = same_tree(json.loads(json.dumps(tree)), tree)
            assert is_json, f"the context of {example!r} is not JSON: {tree!r}"
            again = self.serializer.load_context(tree, version)
            assert same_tree(again, context), f"{example!r}: {again!r} is not {context!r}"

    def test_a_container_comes_back_with_its_leaves_in_order(self, registry: Registry) -> None:
        for example in self.examples:
            children, spec = flatten_one(example)
            again = decode_treespec(encode_treespec(spec, registry), registry)
            assert again == spec, f"{example!r} comes back as {again}"
            made = unflatten(children, again)
            # Not the type of the example: a registration may rebuild another type, as that of `torch.Size` does.
            assert type(made) is type(unflatten(children, spec)), (
                f"{example!r} comes back as {type(made).__name__}"
            )
            assert_same_values(flatten_one(made)[0], children)

    def test_equal_containers_have_equal_text(self, registry: Registry) -> None:
        for spec, spec_again in zip(self._specs(), self._specs(), strict=True):
            text = encode_treespec(spec, registry)
            assert text == encode_treespec(spec, registry) == encode_treespec(spec_again, registry), (
                f"equal containers have two texts: {text!r:.200}"
            )
            assert encode_treespec(decode_treespec(text, registry), registry) == text, (
                f"the text of {text!r:.200} is another after it was read"
            )

    def test_the_text_names_the_type_and_the_version(self, registry: Registry) -> None:
        for spec in self._specs():
            name, version = treespec.split_version(
                str(treespec.parse_treespec(encode_treespec(spec, registry)).type)
            )
            assert registry.container_types.all.by_name[name].serializer == self.serializer, (
                f"the text of {spec!r:.200} names another type"
            )
            assert version == self.serializer.dump_context(context_of(spec))[0], (
                f"the text of {spec!r:.200} has another version than its context"
            )

    def test_the_arity_is_the_number_of_children(self, registry: Registry) -> None:
        for example in self.examples:
            children, spec = flatten_one(example)
            arity = self.serializer.arity(spec.type, context_of(spec))
            if arity is None:
                continue
            assert arity == len(children), f"`arity` is {arity} for {len(children)} children"
            written = treespec.parse_treespec(encode_treespec(spec, registry))
            wider = replace(written, children=[*written.children, treespec.LEAF])
            with pytest.raises(DecodeError):
                decode_treespec(treespec.format_treespec(wider), registry)

    def test_what_it_cannot_write_is_refused(self, registry: Registry) -> None:
        for example in self.refused:
            _, spec = flatten_one(example)
            with pytest.raises(EncodeError):
                encode_treespec(spec, registry)

    def test_a_bad_context_is_refused(self) -> None:
        for tree, version in self.bad_contexts:
            with pytest.raises(DecodeError):
                self.serializer.load_context(tree, version)

    def test_whatever_stands_in_a_file_is_a_context_or_refused(self) -> None:
        for version in range(1, self.serializer.version + 1):
            for tree in _JUNK:
                try:
                    context = self.serializer.load_context(tree, version)
                except DecodeError:
                    continue
                self.serializer.dump_context(context)

    def test_a_context_of_a_later_version_is_refused(self, registry: Registry) -> None:
        for name in registry.container_types.all.by_name:
            later = treespec.TreeSpec(treespec.with_version(name, self.serializer.version + 1), None, [])
            with pytest.raises(DecodeError, match="version"):
                decode_treespec(treespec.format_treespec(later), registry)

    def test_threads_do_not_meet(self, registry: Registry) -> None:
        specs = self._specs()
        texts = [encode_treespec(spec, registry) for spec in specs]

        def work(_: int) -> bool:
            return all(
                encode_treespec(decode_treespec(text, registry), registry) == text
                and encode_treespec(spec, registry) == text
                for spec, text in zip(specs, texts, strict=True)
            )

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(16))), "threads that use it at once find something else"

    def _specs(self) -> list[Any]:
        """Return the treespec of each example."""
        return [flatten_one(example)[1] for example in self.examples]
