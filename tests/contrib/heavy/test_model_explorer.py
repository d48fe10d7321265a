"""The real server of Model Explorer, without a browser, draws what `graphwire inspect` lists, of any file."""

from __future__ import annotations

import contextlib
import io
import json
import operator
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

import graphwire
from graphwire.cli import main
from graphwire.schema import Graph

pytest.importorskip("model_explorer", reason="needs the extra `contrib`: make test-contrib")

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
FORMATS = ("json", "cbor", "msgpack")
OFFLINE = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
"""The server asks for its newest version; nobody answers."""

for _folder in ("tests/constructs", "tests/operators"):
    sys.path.append(str(ROOT / _folder))


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Any]) -> Any:
    environment = make_environment("explorer")
    folder = ROOT / "contrib/graphwire-model-explorer"
    done = environment.install("--no-deps", "--no-build-isolation", folder)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="module")
def server(environment: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host=127.0.0.1", f"--port={port}", "--no_open_in_browser"]
    command = [environment.python, "-m", "model_explorer", *options, "--extensions=graphwire_model_explorer"]
    outer = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GRAPHWIRE"))}
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=log.parent, env=outer | OFFLINE, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(240):
                assert process.poll() is None, log.read_text()
                with contextlib.suppress(urllib.error.URLError):
                    assert _get(address, "/check_health") == b"model_explorer_ok"
                    break
                time.sleep(0.5)
            yield address
        finally:
            process.terminate()


def _get(address: str, path: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        address + path, timeout=120
    ) as answer:
        return bytes(answer.read())


def drawn(server: str, path: Path) -> list[dict[str, Any]]:
    """The graphs that the server gives the page for a file."""
    command = {
        "cmdId": "convert",
        "extensionId": "graphwire",
        "modelPath": str(path),
        "settings": {},
        "deleteAfterConversion": False,
    }
    question = urllib.parse.urlencode({"json": json.dumps(command)})
    answer = json.loads(_get(server, f"/api/v1/send_command?{question}"))
    assert set(answer) == {"graphs"}, answer
    return list(answer["graphs"])


def inspected(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What `graphwire inspect --json --nodes` lists, by program."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["inspect", str(path), "--nodes", "--json"]) == 0
    return {method["name"]: method["nodes"] for method in json.loads(printed.getvalue())["methods"]}


def check(server: str, path: Path) -> list[dict[str, Any]]:
    """The graphs of a file, all of which agree with what is inspected, and with each other."""
    graphs = drawn(server, path)
    ids = [graph["id"] for graph in graphs]
    assert len(set(ids)) == len(ids), Counter(ids).most_common(3)
    opened = [each for graph in graphs for node in graph["nodes"] for each in node["subgraphIds"]]
    listed = inspected(path)
    assert sorted(opened + list(listed)) == sorted(ids), "each subgraph is opened by one node"
    expected = [nodes for every in listed.values() for nodes in _by_graph(every)]
    shown = [graph for graph in graphs if any(map(_target, graph["nodes"]))]
    assert len(shown) == len(expected)
    for graph, nodes in zip(shown, expected, strict=True):
        _check_graph(graph, nodes)
    return graphs


def _by_graph(nodes: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The nodes of each graph: its nodes are numbered from 0."""
    starts = iter(range(len(nodes) + 1))
    number = 0

    def of(node: dict[str, Any]) -> int:
        nonlocal number
        number = next(starts) + 1 if node["index"] == 0 else number
        return number

    for _, every in groupby(nodes, of):
        yield list(every)


def _target(node: dict[str, Any]) -> str:
    return _attributes(node).get("target", "")


def _attributes(item: dict[str, Any]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in item["attrs"]}


def _check_graph(graph: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    outputs = {
        (node["id"], each["id"]): _attributes(each)
        for node in graph["nodes"]
        for each in node["outputsMetadata"]
    }
    values = {each["name"] for each in outputs.values()}
    calls = [node for node in graph["nodes"] if _target(node)]
    assert [_target(node) for node in calls] == [each["target"] for each in expected]
    for node, inspected in zip(calls, expected, strict=True):
        sources = [(edge["sourceNodeId"], edge["sourceNodeOutputId"]) for edge in node["incomingEdges"]]
        assert len({each["targetNodeInputId"] for each in node["incomingEdges"]}) == len(sources)
        used = {outputs[each]["name"] for each in sources}
        told = set(re.findall(r"(?<![\w.])\w+(?![\w.=])", re.sub(r"'[^']*'", "", inspected["inputs"])))
        if "…" not in inspected["inputs"]:
            assert used >= told & values, (node, inspected)
            makers = {each[0] for each in sources if outputs[each]["name"] not in told}
            everything = {value["name"] for each, value in outputs.items() if each[0] in makers}
            assert used - told <= everything <= used, "all results of a node, by the node's name"
        made = {outputs[node["id"], each["id"]]["name"] for each in node["outputsMetadata"]}
        assert made == set(re.findall(r"\w+", inspected["outputs"])) & values
        literals = set(_attributes(node).values())
        if re.fullmatch(r"(\w+=)?'[^']*'", inspected["inputs"]):
            assert inspected["inputs"].partition("=")[2] in literals


def _uncounted(trace: str) -> str:
    """A stack trace without the counters of generated code, which a file replaces."""
    return re.sub(r"<eval_with_key>\.[0-9]+", "<eval_with_key>", trace)


def traces_shown(graphs: list[dict[str, Any]]) -> Counter[str]:
    """The stack traces of the calls."""
    return Counter(
        _uncounted(_attributes(node)["stack_trace"])
        for graph in graphs
        for node in graph["nodes"]
        if _target(node) and "stack_trace" in _attributes(node)
    )


def traces_of(program: ExportedProgram) -> Counter[str]:
    """Those of an exported program: of all graphs that a node reads."""
    modules, traces = [program.graph_module], Counter[str]()
    for module in modules:  # grows while it is walked
        for node in module.graph.nodes:
            held = getattr(module, node.target, None) if node.op == "get_attr" else None
            if isinstance(held, torch.fx.GraphModule) and held not in modules:
                modules.append(held)
            trace = node.meta.get("stack_trace") if node.op == "call_function" else None
            if trace and node.target is not operator.getitem:
                traces[_uncounted(trace.rstrip("\n"))] += 1
    return traces


# ----------------------------------------------------------------------------------------------------------- programs


GOLDEN_FILES = sorted([*(GOLDEN / "archives").iterdir(), *(GOLDEN / "documents").iterdir()])


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_files_of_the_first_writers_are_shown_with_the_traces_of_their_tables(
    server: str, path: Path
) -> None:
    graphs = check(server, path)
    with graphwire.open(path) as archive:
        programs = [archive.program_of(name) for name in archive.methods]
    expected: Counter[str] = Counter()
    for program in programs:
        frames = [frame.text for frame in program.graph_module.stack_frames]
        for node in (node for each in _graphs(program.graph_module.graph) for node in each.nodes):
            trace = node.metadata.get("stack_trace") or "".join(frames[index] for index in node.stack or ())
            expected.update([_uncounted(trace.rstrip("\n"))] if trace.rstrip("\n") else [])
    assert traces_shown(graphs) == expected
    assert expected or "provenance" not in path.name


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for named in node.inputs:
            if named.arg.as_graph is not None:
                yield from _graphs(named.arg.as_graph.graph)


@pytest.mark.slow
def test_every_construct_is_shown(server: str, tmp_path: Path) -> None:
    """Subgraphs in containers, repeated subgraphs, literals and objects of every kind, in turn in each format."""
    import families  # noqa: F401
    from construct import quiet
    from families import CONSTRUCTS

    shown = 0
    for number, (name, construct) in enumerate(CONSTRUCTS.items()):
        if construct.refusal is not None:
            continue
        path = tmp_path / f"{number}.pt2"
        with quiet():
            program = construct.program()
            graphwire.save(program, path, format=FORMATS[number % 3])
        graphs = check(server, path)
        assert traces_shown(graphs) == traces_of(program), name
        shown += 1
    assert shown > 100
