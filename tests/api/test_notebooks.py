"""What notebooks show of programs, archives, inspections and differences: short tables, whatever a file says."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest
import torch

import graphwire

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u2028&amp;" + "x" * 5000


class Tags(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.open = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open += 1

    def handle_endtag(self, tag):
        self.open -= 1

    def handle_data(self, data):
        self.text += data + " "


@pytest.fixture(scope="module")
def program():
    class Chain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(300):
                x = self.linear(x)
            return {"logits": x}

    return torch.export.export(Chain(), (torch.ones(2, 4),))


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("kind", ["program", "archive", "inspection", "diff"])
def test_a_notebook_shows_short_tables_of_text(program, tmp_path, kind, hostile):
    record, _ = graphwire.to_schema(program)
    if hostile:
        for node in record.graph_module.graph.nodes:
            node.metadata["nn_module_stack"] = f"a,L['self'].b,c;d,{HOSTILE}.e,{HOSTILE}"
        record.torch_version = HOSTILE
    path = tmp_path / "model.pt2"
    graphwire.save(program, path)
    inspection = graphwire.inspect(path)
    if hostile:
        summary = msgspec.structs.replace(
            inspection.methods[0].summary, operators={HOSTILE: 1}, torch_version=HOSTILE
        )
        method = msgspec.structs.replace(inspection.methods[0], name=HOSTILE, summary=summary)
        inspection = msgspec.structs.replace(inspection, file=HOSTILE, methods=[method] * 50)
    with graphwire.open(path) as archive:
        values = {
            "program": record,
            "archive": archive,
            "inspection": inspection,
            "diff": graphwire.diff(record, archive.program),
        }
        record.guards_code = [HOSTILE]
        shown = values[kind]._repr_html_()
        assert len(shown) < 100_000
        found = Tags(shown)
    assert found.open == 0
    assert set(found.tags) <= {"div", "strong", "details", "summary", "table", "tr", "th", "td", "p"}
    assert found.attributes <= {"open", "style"}
    assert "\x1b" not in shown
    if kind in ("archive", "inspection"):
        assert '{"logits": float32 [2, 4]}' in found.text


def test_a_closed_archive_has_only_its_text(program, tmp_path):
    graphwire.save(program, tmp_path / "model.pt2")
    archive = graphwire.open(tmp_path / "model.pt2")
    archive.close()
    assert archive._repr_html_() is None
