"""The page of a program: what it contains, what it never contains, and where it goes."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
import re
import subprocess
import sys
import webbrowser
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, strategies as st
from torch.export import Dim, export

import graphwire
from graphwire.cli import main
from graphwire.errors import EncodeError, GraphwireError, GraphwireWarning
from graphwire.viewer import named_overlays, read_overlays

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "]]>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "&lt;b&gt;&amp;",
    "javascript:alert(1)",
    "\u2028\u2029\x00\x1b[31m",
    "<!-- graphwire:data -->",
    "${alert(1)} `\\u003c/script\\u003e",
]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, image, matrix):
        logits = self.head(self.conv(image).mean((2, 3)))
        scores = torch.cond(
            image.sum() > 0, lambda x, m: x @ m, lambda x, m: (x @ m).relu(), (logits, matrix)
        )
        return {"logits": logits, "scores": scores}


ARGS = (torch.ones(4, 3, 16, 16), torch.ones(10, 7))


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return export(
        Model().eval().requires_grad_(False), ARGS, dynamic_shapes=({0: Dim("rows", max=512)}, None)
    )


@pytest.fixture(scope="module")
def file(program, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("view") / "model.pt2"
    graphwire.save(program, path)
    return path


def facts_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="graphwire-facts">(.*?)</script>', page)
    return json.loads(text)


def archive_of(page: str, index: int = 0) -> graphwire.Archive:
    pattern = f'<script type="application/octet-stream" id="graphwire-file-{index}">([^<]*)</script>'
    (text,) = re.findall(pattern, page)
    return graphwire.open(zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS))


@pytest.mark.parametrize(
    "form", ["path", "bytes", "archive", "program", "records", "several", "torch's file"]
)
def test_a_page_contains_the_program_without_elements(program, file, tmp_path, form):
    if form == "torch's file":
        torch.export.save(program, tmp_path / "torch.pt2")
    with graphwire.open(file) as archive:
        sources = {
            "path": file,
            "bytes": file.read_bytes(),
            "archive": archive,
            "program": program,
            "records": archive.program,
            "several": {"model": program, "other": program},
            "torch's file": tmp_path / "torch.pt2",
        }
        page = graphwire.view(sources[form], use_torch=False).html
        summary = archive.inspect().methods[0].summary
    with archive_of(page) as inside:
        found = inside.inspect().methods[0].summary
        assert inside.inspect().payload_bytes == 0
    assert (found.interface, found.operators) == (summary.interface, summary.operators)
    if form != "records":  # records have no weights
        assert found.parameters == summary.parameters


def test_facts_of_a_file_are_those_of_inspect_and_verify(file):
    (facts,) = facts_of(graphwire.view(file, use_torch=False).html)["files"]
    inspection = msgspec.to_builtins(graphwire.inspect(file))
    assert facts["name"] == "model.pt2"
    assert facts["inspection"]["size"] == inspection["size"]
    assert facts["inspection"]["methods"][0]["report"] == inspection["methods"][0]["report"]
    assert facts["problems"] == []
    assert "targets" not in facts


def test_schemas_of_operators_are_there_where_torch_is(file):
    method = facts_of(graphwire.view(file).html)["files"][0]["methods"]["model"]
    assert method["operators"]["torch.ops.aten.linear.default"].startswith("aten::linear(Tensor input")
    method = facts_of(graphwire.view(file, use_torch=False).html)["files"][0]["methods"]["model"]
    assert "operators" not in method


def test_torch_is_imported_where_something_asks_for_it(file, tmp_path):
    code = "import sys; from graphwire.cli import main; main(sys.argv[1:]); print('torch' in sys.modules, file=sys.stderr)"
    for asked in ([], ["--targets"], ["--torch"]):
        words = ["view", str(file), "-o", str(tmp_path / "page.html"), *asked]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
        )
        assert done.stderr.split()[-1] == str(asked == ["--torch"])


def test_problems_are_found_without_reading_elements(file, tmp_path):
    content = bytearray(file.read_bytes())
    with graphwire.open(file) as archive:
        weight = bytes(next(iter(archive.payloads.records.values())).view())
    content[content.index(weight)] ^= 1  # an element
    (tmp_path / "damaged.pt2").write_bytes(content)
    (facts,) = facts_of(graphwire.view(tmp_path / "damaged.pt2", use_torch=False).html)["files"]
    assert facts["problems"] == []
    assert graphwire.verify(tmp_path / "damaged.pt2")


def test_targets_are_listed_on_request(file):
    (facts,) = facts_of(graphwire.view(file, targets=True, use_torch=False).html)["files"]
    found = {each["target"]: each["readable"] for each in facts["targets"]}
    wanted = {name: not each for name, each in graphwire.targets(file).items() if name.startswith("torch-")}
    assert found == wanted


def test_elements_are_summarized_on_request(program):
    (facts,) = facts_of(graphwire.view(program, weights=True).html)["files"]
    weight = program.state_dict["head.weight"].double()
    found = facts["weights"]["head.weight"]
    assert found["mean"] == pytest.approx(weight.mean().item())
    assert found["std"] == pytest.approx(weight.std(correction=0).item())
    assert sum(found["histogram"]["counts"]) == weight.numel()
    assert (found["histogram"]["min"], found["histogram"]["max"]) == (
        weight.min().item(),
        weight.max().item(),
    )


def test_a_page_says_where_weights_are(program, tmp_path):
    path = tmp_path / "model.pt2"
    graphwire.save(program, path, weights=tmp_path / "model.safetensors")
    (facts,) = facts_of(graphwire.view(path, use_torch=False).html)["files"]
    assert facts["weights"]["head.weight"] == {"where": "model.safetensors: head.weight"}
    listed = {each.name: each.place for each in graphwire.weights(path)}
    assert {name: each["where"] for name, each in facts["weights"].items()} == listed
    assert "weights" not in facts_of(graphwire.view(program, use_torch=False).html)["files"][0]


def test_a_page_of_two_programs_says_how_much_weights_changed(program, tmp_path):
    other = Model().eval().requires_grad_(False)
    other.load_state_dict(program.state_dict)
    with torch.no_grad():
        other.head.bias[0] += 0.25
        other.head.weight *= 2
    changed = export(other, ARGS, dynamic_shapes=({0: Dim("rows", max=512)}, None))
    facts = facts_of(graphwire.view(program, changed, weights=True).html)
    changes = facts["weight_changes"]["model"]
    assert "conv.weight" not in changes
    text = "weights: 2 the same by elements, 2 differ (head.weight, head.bias)"
    assert facts["compared"] == {"model": text}
    assert text in str(graphwire.diff(program, changed, weights=True))
    assert changes["head.bias"]["max_abs"] == pytest.approx(0.25)
    assert changes["head.weight"]["cosine"] == pytest.approx(1)
    assert not changes["head.weight"]["equal"]


@pytest.mark.parametrize("save", [graphwire.save, torch.export.save])
def test_changed_weights_are_known_by_their_checksums(program, tmp_path, save):
    save(program, tmp_path / "a.pt2")
    state = program.state_dict["head.bias"]
    kept = state.clone()
    state[0] += 1
    save(program, tmp_path / "b.pt2")
    state.copy_(kept)
    facts = facts_of(graphwire.view(tmp_path / "a.pt2", tmp_path / "b.pt2", use_torch=False).html)
    assert facts["weight_changes"] == {"model": {"head.bias": {"equal": False}}}


# -------------------------------------------------------------------------------------------------------- overlays


def test_overlays_are_numbers_for_nodes(program):
    given = {"latency [ms]": {"linear": 0.5, "true_graph_0/matmul": 2}}
    (overlay,) = facts_of(graphwire.view(program, overlay=given).html)["overlays"]
    assert overlay == {"name": "latency [ms]", "file": 0, "values": given["latency [ms]"], "method": None}
    both = facts_of(graphwire.view(program, program, overlay=given).html)["overlays"]
    assert [each["file"] for each in both] == [0, 1]


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"ms": {"linaer": 1}}, "'linaer'. Is 'linaer' the name 'linear'?"),
        ({"ms": {"linear": float("nan")}}, "not a finite number"),
        ({"ms": {"linear": "fast"}}, "'fast'"),
        ({"linear": 0.4}, "not numbers for nodes"),
        ([("linear", 1)], "not numbers for nodes"),
    ],
)
def test_an_overlay_that_fits_no_node_is_an_error(program, overlay, message):
    with pytest.raises(EncodeError, match=re.escape(message)):
        graphwire.view(program, overlay=overlay, use_torch=False)


def test_an_overlay_has_numbers_of_modules_and_tells_of_names_that_are_not_there():
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    values = {"0": 3.0, "0.1": 1.0, "linear": 2.0, "nowhere": 4.0}
    with pytest.warns(GraphwireWarning, match="not there: 'nowhere'"):
        page = graphwire.view(export(model, (torch.ones(1, 2),)), overlay={"ms": values}, use_torch=False)
    assert facts_of(page.html)["overlays"][0]["values"] == values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "\ufeffnode,ms,mJ\nlinear,0.5,2\nmean,1,\n"),
        ("a.json", '{"ms": {"linear": 0.5, "mean": 1}, "mJ": {"linear": 2}}'),
    ],
)
def test_the_command_reads_overlays_of_files(file, tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    page = tmp_path / "page.html"
    words = ["view", str(file), "--overlay", str(tmp_path / name), "-o", str(page), "--no-torch"]
    assert main(words) == 0
    overlays = {each["name"]: each["values"] for each in facts_of(page.read_text("utf-8"))["overlays"]}
    assert overlays == {"ms": {"linear": 0.5, "mean": 1}, "mJ": {"linear": 2}}


def test_an_overlay_is_a_trace_of_the_profiler(program, file, tmp_path):
    from torch.profiler import ProfilerActivity, profile, record_function

    class Timed(torch.fx.Interpreter):
        def run_node(self, n):
            with record_function(n.name):
                return super().run_node(n)

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        Timed(program.module(check_guards=False)).run(*ARGS)
    profiler.export_chrome_trace(str(tmp_path / "run.json"))
    page = tmp_path / "page.html"
    words = ["view", str(file), "-o", str(page), "--overlay"]
    assert main([*words, str(tmp_path / "run.json")]) == 0
    (overlay,) = facts_of(page.read_text("utf-8"))["overlays"]
    assert overlay["name"] == "run: CPU [ms]"
    assert (
        {"conv2d", "mean", "linear"}
        <= overlay["values"].keys()
        <= {node.name for node in program.graph.nodes}
    )
    assert all(0 < each < 60_000 for each in overlay["values"].values())
    (tmp_path / "other.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "step", "dur": 5}, 7, {"ph": "X"}]}'
    )
    assert main([*words, str(tmp_path / "other.json")]) == 2


UNUSABLE = (
    *("", "node", "not: csv", "[1]", "{}", '{"ms": 1, "x": {}}', '{"ms": {"linear": NaN}}'),
    *(
        '{"ms": {"linear": 1}, "ms": {"linear": 2}}',
        "node,ms,ms\nlinear,1,2\n",
        "node,ms\nlinear,1\nlinear,2\n",
    ),
    *(
        "node,ms\nlinear,1e999\n",
        "[" * 100_000,
        '{"ms": {"linear": 1%s}}' % ("0" * 5000),
        "node,ms\n\udcff,1\n",
    ),
)


@pytest.mark.parametrize("text", UNUSABLE, ids=range(len(UNUSABLE)))
@pytest.mark.parametrize("suffix", ["csv", "json", "txt"])
def test_a_file_without_numbers_is_an_error(file, tmp_path, capsys, suffix, text):
    (tmp_path / f"a.{suffix}").write_bytes(text.encode("utf-8", "surrogateescape"))
    words = ["view", str(file), "--overlay", str(tmp_path / f"a.{suffix}"), "-o", str(tmp_path / "page.html")]
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("graphwire: error: ")
    assert not (tmp_path / "page.html").exists()


cells = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\r\n\x85\u2028\x1c,\"'"), min_size=1
)


@given(st.lists(cells, min_size=2, unique=True), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_no_name_in_a_csv_file_makes_a_row(tmp_path_factory, names, ending, data):
    nodes = data.draw(st.lists(cells, min_size=1, unique=True))
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator=ending).writerows(
        [names, *([node, *"1" * len(names[1:])] for node in nodes)]
    )
    path = tmp_path_factory.mktemp("overlay") / "a.csv"
    path.write_bytes(stream.getvalue().encode())
    assert read_overlays(path) == {name: dict.fromkeys(nodes, "1") for name in names[1:]}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**400, "relu", "X"]),
    lambda each: (
        st.lists(each) | st.dictionaries(st.sampled_from(["ph", "name", "dur", "cat", "traceEvents"]), each)
    ),
)


@given(
    json_values
    | st.fixed_dictionaries(
        {
            "traceEvents": st.lists(
                st.fixed_dictionaries(
                    {"ph": st.just("X"), "name": st.just("linear"), "dur": json_values, "cat": json_values}
                )
            )
        }
    )
)
def test_whatever_a_json_file_has_is_an_overlay_or_an_error(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("overlay") / "a.json"
    path.write_text(json.dumps(value))
    with suppress(EncodeError):
        for each in named_overlays(read_overlays(path), [["linear"]]):
            assert all(map(math.isfinite, each.values.values()))


# --------------------------------------------------------------------------------------------------- untrusted text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_of_a_program_leaves_its_place(program, text):
    record, _ = graphwire.to_schema(program)
    for node in record.graph_module.graph.nodes:
        node.metadata["stack_trace"] = node.metadata["nn_module_stack"] = text
    record.guards_code = [text]
    page = graphwire.view(record, overlay={text: {"linear": 1}}, use_torch=False)
    before, _, after = template().partition("<!-- graphwire:data -->")
    data = page.html.removeprefix(before).removesuffix(after)
    assert re.fullmatch(
        r'<script type="application/json" id="graphwire-facts">[^<>&\u2028\u2029]*</script>\n'
        r'<script type="application/octet-stream" id="graphwire-file-0">[A-Za-z0-9+/=]*</script>\n',
        data,
    )
    assert facts_of(page.html)["overlays"][0]["name"] == text


def test_the_name_of_a_file_is_text_too(program, tmp_path):
    path = tmp_path / "<img src=x onerror=alert(1)>&.pt2"
    graphwire.save(program, path)
    page = graphwire.view(path, use_torch=False)
    assert "<img src" not in page.html
    assert facts_of(page.html)["files"][0]["name"] == path.name
    assert "<img src" not in page._repr_html_()


def template() -> str:
    return (Path(graphwire.__file__).parent / "viewer.html").read_text("utf-8")


# ---------------------------------------------------------------------------------------------------- where it goes


def test_a_page_is_saved_and_opened(file, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    page = graphwire.view(file, output=tmp_path / "page.html", use_torch=False)
    assert (tmp_path / "page.html").read_text("utf-8") == page.html
    path = page.show()
    assert (path.read_text("utf-8"), opened) == (page.html, [path.as_uri()])
    assert main(["view", str(file), "--no-browser", "--no-torch"]) == 0
    assert len(opened) == 1
    assert main(["view", str(file), "--open", "-o", str(path), "--no-torch"]) == 0
    assert opened[1:] == [path.as_uri()]


def test_a_command_says_whether_there_was_a_browser(file, capsys, monkeypatch):
    for found, said in ((True, "opened in the browser"), (False, "No browser was found")):
        monkeypatch.setattr(webbrowser, "open", lambda _, found=found: found)
        assert main(["view", str(file), "--no-torch"]) == 0
        assert said in capsys.readouterr().out


def test_a_notebook_shows_the_page_in_a_frame_without_access_to_it(file):
    page = graphwire.view(file, use_torch=False)
    shown = page._repr_html_()
    found = re.fullmatch(r'<iframe sandbox="([a-z -]*)" style="[^"]*" srcdoc="([^"]*)"></iframe>', shown)
    assert found is not None
    assert "allow-same-origin" not in found[1]
    assert html.unescape(found[2]) == page.html
    assert "model.pt2" in repr(page)
    assert len(repr(page)) < 200


def test_a_page_too_large_for_a_notebook_says_how_to_save_it(file, monkeypatch):
    monkeypatch.setattr("graphwire.viewer.MOST_BYTES", 1000)
    assert ".save(path)" in graphwire.view(file, use_torch=False)._repr_html_()


def test_the_command_takes_one_file_or_two(file, tmp_path, capsys):
    page = str(tmp_path / "page.html")
    assert main(["view", str(file), str(file), "-o", page, "--no-torch"]) == 0
    assert main(["view", *[str(file)] * 3, "-o", page]) == 2
    assert "not 3" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["file", "program", "records"])
def test_one_program_of_several_is_chosen_by_name(program, tmp_path, form):
    several = {"encode": program, "decode": program}
    graphwire.save(several, tmp_path / "several.pt2")
    record, _ = graphwire.to_schema(program)
    source = {"file": tmp_path / "several.pt2", "program": several, "records": record}[form]
    name = "model" if form == "records" else "decode"
    with archive_of(graphwire.view(source, method=name, use_torch=False).html) as inside:
        assert inside.methods == (name,)
    with pytest.raises(GraphwireError, match="no program 'other'"):
        graphwire.view(source, method="other", use_torch=False)


def test_files_of_one_name_are_told_apart(file):
    facts = facts_of(graphwire.view(file, file, use_torch=False).html)
    assert [each["name"] for each in facts["files"]] == ["model.pt2 (before)", "model.pt2 (after)"]


def test_importing_graphwire_imports_nothing_that_makes_pages():
    code = "import sys, graphwire; print([m for m in sys.modules if 'viewer' in m or m == 'webbrowser'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["😀", "__proto__", "a\nb", "x" * 5000, "", "class", "a/b", '"<b>'])
def test_a_file_with_odd_names_is_shown_with_its_problems(program, tmp_path, name):
    text = graphwire.encode(graphwire.to_schema(program)[0]).decode()
    path = tmp_path / "odd.json"
    path.write_text(text.replace('"conv2d"', json.dumps(name)), encoding="utf-8")
    (shown,) = facts_of(graphwire.view(path, use_torch=False).html)["files"]
    with graphwire.open(path) as archive:
        listed = archive.problems()
        assert [each["problem"] for each in shown["problems"]] == [each.message for each in listed]
        if listed:
            with pytest.raises(GraphwireError):  # a load stays strict
                archive.program_of("model")
