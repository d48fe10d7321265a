"""The GitHub Action compares the programs of a branch with those of its base, in a real repository, and comments on a server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire

ACTION = Path(__file__).resolve().parents[2] / "contrib/graphwire-action"


class Comments(BaseHTTPRequestHandler):
    """The comments of one pull request, as GitHub's API has them, a page of two."""

    bodies: list[str]
    may_write: bool

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        numbered = [{"id": number, "body": body} for number, body in enumerate(self.bodies)]
        self.answer(numbered[2 * page - 2 : 2 * page])

    def do_POST(self) -> None:
        self.write(len(self.bodies))

    def do_PATCH(self) -> None:
        self.write(int(self.path.rpartition("/")[2]))

    def write(self, number: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if not self.may_write:
            self.send_error(403)
            return
        assert self.headers["Authorization"] == "Bearer secret"
        self.bodies[number : number + 1] = [body]
        self.answer({"id": number})

    def answer(self, tree: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(tree).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Comments]]]:
    handler = type("OneTest", (Comments,), {"bodies": ["one", "two", "three"], "may_write": True})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def program(*layers: torch.nn.Module) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 4), *layers), (torch.ones(1, 4),))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A branch that changes one program of four, adds one and removes one, while its base goes on; and its base."""
    folder = tmp_path_factory.mktemp("action") / "repository"
    (folder / "models").mkdir(parents=True)
    git(folder, "init", "-q", ".")
    for name in ("changed", "same", "removed", "of base", "damaged"):
        graphwire.save(program(torch.nn.ReLU()), folder / f"models/{name}.pt2")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "models")
    git(folder, "checkout", "-qb", "branch")
    graphwire.save(program(torch.nn.GELU()), folder / "models/changed.pt2")
    graphwire.save(program(torch.nn.ReLU()), folder / "models/same.pt2", format="msgpack")
    graphwire.save(program(), folder / "models/new `one`\r### no heading\n.pt2")
    (folder / "models/damaged.pt2").write_bytes(b"PK\x03\x04 and no more")
    git(folder, "rm", "-q", "models/removed.pt2")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "another activation")
    git(folder, "checkout", "-q", "main")
    graphwire.save(program(torch.nn.Tanh()), folder / "models/of base.pt2")
    git(folder, "commit", "-qam", "goes on")
    base = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "branch")
    return folder, base


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the action's script as a job does."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GRAPHWIRE"))
    }
    command = [sys.executable, str(ACTION / "compare.py"), *words]
    return subprocess.run(
        command, cwd=folder, env=kept | variables, capture_output=True, text=True, check=False
    )


def test_a_branch_is_compared_with_where_it_left_its_base(repository: tuple[Path, str]) -> None:
    folder, base = repository
    done = run(folder, base)
    assert (done.returncode, done.stderr) == (0, "")
    assert "### Exported programs: 4 changed" in done.stdout
    assert "**`models/changed.pt2` → `models/changed.pt2`**" in done.stdout
    assert "-    aten.relu.default relu (node 1)\n+    aten.gelu.default gelu (node 1)" in done.stdout
    assert "**`models/new \u2019one\u2019\\r### no heading\\n.pt2`** is new" in done.stdout
    assert "**`models/removed.pt2`** is removed" in done.stdout
    assert "**`models/damaged.pt2`** cannot be compared" in done.stdout
    assert not re.search(r"of base|Traceback", done.stdout)
    compared = "**No differences** between `models/same.pt2` and `models/same.pt2`: same graph; weights: 2 the same by CRC-32."
    assert done.stdout.endswith(f"{compared}\n")
    assert "\n\nCompared: graph; weights: 2 the same by CRC-32.\n\n" in done.stdout
    changed_paths = [line for line in done.stdout.splitlines() if line.startswith(("**", "-", "+"))]
    assert not any(tempfile.gettempdir() in line for line in changed_paths)


def test_a_pull_request_gets_one_comment_that_later_runs_replace(
    repository: tuple[Path, str], server: tuple[str, type[Comments]], tmp_path: Path
) -> None:
    original, base = repository
    folder = Path(shutil.copytree(original, tmp_path / "repository"))
    url, comments = server
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "base": {"sha": base}}}))
    output = tmp_path / "output"
    job = {
        "GITHUB_EVENT_PATH": str(event), "GITHUB_API_URL": url, "GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "secret",
        "GITHUB_OUTPUT": str(output), "WEIGHTS": "true", "FILES": "models/chan*.pt2 none/*",
    }  # fmt: skip
    assert run(folder, **job).returncode == 0
    (comment,) = comments.bodies[3:]
    assert "1 changed" in comment
    assert output.read_text() == "changed=1\n"

    git(folder, "checkout", "-q", "HEAD~1", "--", "models/changed.pt2")
    git(folder, "commit", "-qm", "as before")
    comments.bodies.append("a reply")
    assert run(folder, **job).returncode == 0
    assert "none changed" in comments.bodies[3]
    assert comments.bodies[4:] == ["a reply"]

    comments.may_write = False
    done = run(folder, **job)
    assert (done.returncode, done.stderr) == (0, "")
    assert "may not comment" in done.stdout


@pytest.mark.parametrize(
    ("words", "variables", "code", "told"),
    [
        (["--help"], {}, 0, "BASE_COMMIT"),
        ([], {}, 2, "there is no base to compare with"),
        (["nowhere"], {}, 2, "there is no common commit with 'nowhere'"),
        (["--output=x"], {}, 2, "unrecognized arguments: --output=x"),
        (["--", "--output=x"], {}, 2, "there is no common commit with '--output=x'"),
        (["main", "branch"], {}, 2, "unrecognized arguments: branch"),
        (["HEAD"], {"FILES": ":(nonsense)x"}, 2, "git diff: fatal"),
        ([], {"GITHUB_EVENT_PATH": "absent.json"}, 2, "absent.json"),
        ([], {"GITHUB_EVENT_PATH": "models/damaged.pt2"}, 2, "is not JSON"),
        (["HEAD"], {"PATH": ""}, 2, "'git'"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    repository: tuple[Path, str], words: list[str], variables: dict[str, str], code: int, told: str
) -> None:
    done = run(repository[0], *words, **variables)
    assert done.returncode == code
    assert told in (done.stderr if code else done.stdout)
    assert "Traceback" not in done.stderr


def test_a_server_that_refuses_is_said_in_a_line(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, base = repository
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "base": {"sha": base}}}))
    job = {
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_TOKEN": "secret",
        "FILES": "none/*",
    }
    done = run(folder, **job, GITHUB_API_URL="http://127.0.0.1:9")
    assert done.returncode == 2
    assert "the comment is not posted" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_action_passes_its_inputs_as_variables() -> None:
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert "${{" not in line or not line.lstrip("- ").startswith("run:")
    assert set(re.findall(r"inputs\.(\w+)", text)) == {"files", "weights", "requirement", "token"}
