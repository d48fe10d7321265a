"""`graphwire diff` and `graphwire hash`: what they print, how they end, and that they need no torch."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import torch

import graphwire
from graphwire.cli import main


class Net(torch.nn.Module):
    def __init__(self, activation: str = "relu") -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.activation = activation

    def forward(self, x):
        return getattr(torch, self.activation)(self.linear(x))


def _program(activation: str = "relu", seed: int = 0):
    torch.manual_seed(seed)
    return torch.export.export(Net(activation), (torch.randn(3, 4),))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    graphwire.save(_program(), folder / "base.pt2")
    graphwire.save(_program(), folder / "again.pt2", format="msgpack")
    torch.export.save(_program(), folder / "torch.pt2")
    graphwire.save(_program("tanh"), folder / "tanh.pt2")
    graphwire.save(_program(seed=1), folder / "trained.pt2")
    graphwire.save(_program(), folder / "outside.pt2", weights=folder / "outside.safetensors")
    graphwire.save(torch.export.export(torch.nn.ReLU(), (torch.ones(3, 4),)), folder / "none.pt2")
    graphwire.save({"encode": _program(), "decode": _program("tanh")}, folder / "two.pt2")
    graphwire.save({"encode": _program(), "other": _program("tanh")}, folder / "three.pt2")
    return folder


def _run(capsys, *arguments: object) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    return code, capsys.readouterr().out


COMPARED = {
    ("base.pt2", "again.pt2"): "weights: 2 the same by CRC-32",
    ("base.pt2", "torch.pt2"): "weights: 2 the same by CRC-32",
    ("base.pt2", "trained.pt2"): "weights: 2 differ (linear.weight, linear.bias)",
    ("base.pt2", "tanh.pt2"): "weights: 2 the same by CRC-32",
    (
        "base.pt2",
        "outside.pt2",
    ): "weights: 2 not compared (A lists CRC-32 and B SHA-256: linear.weight, linear.bias)",
    ("outside.pt2", "outside.pt2"): "weights: 2 the same by SHA-256",
    ("base.pt2", "none.pt2"): "no weights in common",
}


@pytest.mark.parametrize(("a", "b"), COMPARED)
def test_every_form_states_what_was_compared(files, capsys, a, b) -> None:
    expected = COMPARED[a, b]
    code, out = _run(capsys, "diff", files / a, files / b)
    if code == 0:
        assert out.endswith(f": same graph; {expected}\n")
    else:
        assert out.splitlines()[2] == f"Compared: graph; {expected}"
    _, out = _run(capsys, "diff", "--format", "markdown", files / a, files / b)
    outside, *_ = out.partition("<details>")
    assert f"graph; {expected}." in outside.replace("`", "")
    found = graphwire.diff(files / a, files / b)
    assert expected in repr(found)
    assert expected in str(found)
    assert found.same == (code == 0)
    _, out = _run(capsys, "diff", "--json", files / a, files / b)
    (tree,) = json.loads(out)["programs"].values()
    assert tree.get("compared", {}) == msgspec.to_builtins(found.compared)
    _run(capsys, "view", files / a, files / b, "-o", files / "page.html")
    assert json.dumps(expected) in (files / "page.html").read_text("utf-8")


def test_weights_that_differ_are_measured(files, capsys) -> None:
    one, other = (_program(seed=seed).state_dict["linear.weight"].double() for seed in (0, 1))
    code, out = _run(capsys, "diff", "--weights", files / "base.pt2", files / "trained.pt2")
    largest = (one - other).abs().max().item()
    cosine = torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0).item()
    assert code == 1
    norm = ((one - other).norm() / one.norm()).item()
    assert (
        f"      largest difference: {largest:.6g}, cosine: {cosine:.6g}, norm of the difference: {norm:.6g}\n"
        in out
    )
    _, out = _run(capsys, "diff", "--weights", "--json", files / "base.pt2", files / "trained.pt2")
    found = json.loads(out)["programs"]["model"]["compared"]["weight"]["differ"]["linear.weight"]
    assert found == {
        "max_abs": pytest.approx(largest),
        "cosine": pytest.approx(cosine),
        "norm": pytest.approx(norm),
    }
    _, out = _run(capsys, "diff", "--weights", files / "base.pt2", files / "torch.pt2")
    assert out.endswith(": same graph; weights: 2 the same by elements\n")


def test_damage_is_an_error_and_no_difference(files, capsys, tmp_path) -> None:
    data = bytearray((files / "base.pt2").read_bytes())
    weight = _program().state_dict["linear.weight"].detach().numpy().tobytes()
    data[data.index(weight)] ^= 1
    (tmp_path / "damaged.pt2").write_bytes(data)
    for command in (["diff", files / "base.pt2"], ["hash"]):
        assert main([str(each) for each in [*command, tmp_path / "damaged.pt2", "--weights"]]) == 2
        assert "damaged.pt2" in capsys.readouterr().err
    with pytest.raises(graphwire.errors.ChecksumError):
        graphwire.diff(files / "base.pt2", tmp_path / "damaged.pt2", weights=True)


def test_markdown_is_a_comment_on_a_pull_request(files, capsys) -> None:
    code, out = _run(capsys, "diff", "--format", "markdown", files / "base.pt2", files / "tanh.pt2")
    lines = out.splitlines()
    assert code == 1
    assert (
        lines[0]
        == f"**`{files / 'base.pt2'}` → `{files / 'tanh.pt2'}`**: 2 changed nodes, 1 difference in outputs"
    )
    assert "-    aten.relu.default relu (node 1)" in lines
    assert "+    aten.tanh.default tanh (node 1)" in lines
    assert lines.index("```diff") < lines.index("```") < lines.index("</details>")
    _, out = _run(capsys, "diff", "--format", "markdown", files / "base.pt2", files / "again.pt2")
    assert out.startswith("**No differences** between `")


def test_json_is_for_programs(files, capsys) -> None:
    code, out = _run(capsys, "diff", "--json", files / "base.pt2", files / "tanh.pt2")
    tree = json.loads(out)
    assert code == 1
    assert (tree["same"], tree["removed"], tree["added"]) == (False, [], [])
    assert (tree["a"], tree["b"]) == (str(files / "base.pt2"), str(files / "tanh.pt2"))
    changes = [(node["change"], node["operator"]) for node in tree["programs"]["model"]["nodes"]]
    assert changes == [("removed", "torch.ops.aten.relu.default"), ("added", "torch.ops.aten.tanh.default")]
    code, out = _run(capsys, "diff", "--json", files / "base.pt2", files / "again.pt2")
    assert (code, json.loads(out)["same"]) == (0, True)
    code, out = _run(capsys, "diff", "--json", files / "base.pt2", files / "absent.pt2")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "FileNotFoundError")
    assert main(["diff", "--json", "--format", "markdown", "a", "b"]) == 2


def test_programs_of_one_file_are_compared_by_name(files, capsys) -> None:
    code, out = _run(capsys, "diff", files / "two.pt2", files / "three.pt2")
    assert code == 1
    assert out.splitlines()[2:4] == ["- program decode", "+ program other"]
    _, out = _run(capsys, "diff", "--format", "markdown", files / "two.pt2", files / "three.pt2")
    assert out.splitlines()[2:4] == ["- `decode` is removed", "- `other` is new"]
    assert _run(capsys, "diff", "--method", "encode", files / "two.pt2", files / "base.pt2")[0] == 0
    assert main(["diff", "--method", "nobody", str(files / "base.pt2"), str(files / "tanh.pt2")]) == 2
    assert "They hold 'model'" in capsys.readouterr().err
    assert "two.pt2:encode" in out
    assert _run(capsys, "diff", "--method", "encode", files / "two.pt2", files / "three.pt2")[0] == 0
    assert main(["diff", "--method", "nobody", str(files / "two.pt2"), str(files / "three.pt2")]) == 2
    assert "holds no program 'nobody'" in capsys.readouterr().err


def test_the_hash_is_printed_as_sha256sum_does(files, capsys) -> None:
    expected = graphwire.content_hash(_program())
    code, out = _run(capsys, "hash", files / "base.pt2")
    assert (code, out) == (0, f"{expected}  {files / 'base.pt2'}\n")
    code, out = _run(capsys, "hash", "--json", files / "two.pt2")
    assert json.loads(out)["hashes"]["encode"] == expected
    _, out = _run(capsys, "hash", files / "two.pt2")
    assert out.splitlines()[0] == f"{expected}  {files / 'two.pt2'}:encode"
    _, out = _run(capsys, "hash", "--weights", files / "base.pt2")
    assert out.split()[0] == graphwire.content_hash(_program(), weights=True)
