"""Compare the exported programs of a pull request with those of its base, and comment the differences on it.

Reads what GitHub Actions gives a job (`GITHUB_EVENT_PATH`, `GITHUB_API_URL`, `GITHUB_REPOSITORY`, `GITHUB_TOKEN`,
`GITHUB_STEP_SUMMARY` and `GITHUB_OUTPUT`), and the action's inputs `FILES` (patterns) and `WEIGHTS`.
Elsewhere it prints the comment:

    python compare.py BASE_COMMIT
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

MARK = "<!-- graphwire: compared programs -->"
"""The first line of the comment, by which the next run finds it."""
MOST_CHARACTERS = 60_000
"""Of a comment. GitHub takes 65,536."""
LFS = b"version https://git-lfs.github.com/spec/"


class Change(NamedTuple):
    """One file that a pull request changes."""

    before: str
    """Its path in the base; empty if it is new."""
    after: str
    """Its path now; empty if it is removed."""


def main() -> int:
    """Compare, print the comment, and post it where there is a pull request; the exit code."""
    event = (
        json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())
        if "GITHUB_EVENT_PATH" in os.environ
        else {}
    )
    pull_request = event.get("pull_request", {})
    base = sys.argv[1] if len(sys.argv) > 1 else pull_request.get("base", {}).get("sha", "")
    if not base:
        print(
            "There is no base to compare with: run this for a pull request, or name a commit.",
            file=sys.stderr,
        )
        return 2
    changes = changes_since(base, os.environ.get("FILES", "*.pt2").split())
    parts = [text for change in changes if (text := comparison(base, change))]
    comment = comment_of(parts)
    print(comment)
    for variable, text in (("GITHUB_STEP_SUMMARY", comment), ("GITHUB_OUTPUT", f"changed={len(parts)}")):
        if os.environ.get(variable):
            with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
    if pull_request and os.environ.get("GITHUB_TOKEN"):
        post(pull_request["number"], comment, wanted=bool(parts))
    return 0


def git(*arguments: str) -> bytes:
    """What a command of Git prints."""
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def changes_since(base: str, patterns: list[str]) -> list[Change]:
    """The files that match patterns and differ from where this branch left the base."""
    words = (
        git("diff", "--name-status", "-z", "-M90%", f"{base}...HEAD", "--", *patterns)
        .decode()
        .split("\0")[:-1]
    )
    changes = []
    while words:
        status, path = words.pop(0), words.pop(0)
        moved = words.pop(0) if status[0] in "RC" else path
        changes.append(Change("" if status == "A" else path, "" if status == "D" else moved))
    return changes


def comparison(base: str, change: Change) -> str:
    """What a comment shows of one file; empty if its programs are the same."""
    if not change.after:
        return f"**{code(change.before)}** is removed"
    fork = git("merge-base", base, "HEAD").decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        after = put(folder, "after", "HEAD", change.after)
        if not change.before:
            done = graphwire(folder, "inspect", after)
            return f"**{code(change.after)}** is new\n\n" + details("Summary", done.stdout or done.stderr)
        before = put(folder, "before", fork, change.before)
        weights = ["--weights"] if os.environ.get("WEIGHTS", "").lower() == "true" else []
        done = graphwire(folder, "diff", "--format", "markdown", *weights, before, after)
        if done.returncode == 0:
            return ""
        if done.returncode == 1:
            return done.stdout.strip()
        return f"**{code(change.after)}** cannot be compared\n\n" + details(
            "Error", done.stderr, is_open=True
        )


def put(folder: str, side: str, commit: str, path: str) -> str:
    """Write a file of a commit to a folder, and return its path there."""
    data = git("show", f"{commit}:{path}")
    if data.startswith(LFS):
        data = subprocess.run(
            ["git", "lfs", "smudge", path], input=data, check=True, stdout=subprocess.PIPE
        ).stdout
    target = Path(folder, side, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return str(target)


def graphwire(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of graphwire on files of a folder, whose name is left out of what it prints.

    It uses no other plugins: it reads files of whoever opened the pull request.
    """
    variables = os.environ | {"NO_COLOR": "1", "COLUMNS": "120", "GRAPHWIRE_PLUGINS": "graphwire"}
    variables.pop("GITHUB_TOKEN", None)
    command = [sys.executable, "-m", "graphwire", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    for side in ("before", "after"):
        done.stdout = done.stdout.replace(f"{folder}/{side}/", "")
        done.stderr = done.stderr.replace(f"{folder}/{side}/", "")
    return done


def code(text: str) -> str:
    """A path as Markdown shows it, whatever is in it."""
    return f"`{text.replace('`', chr(0x2019))}`".replace("\n", " ")


def details(title: str, text: str, *, is_open: bool = False) -> str:
    """A folded block of text."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"<details{' open' * is_open}><summary>{title}</summary>\n\n{fence}text\n{text.rstrip()}\n{fence}\n\n</details>"


def comment_of(parts: list[str]) -> str:
    """The comment: what fits, and how much does not."""
    shown: list[str] = []
    for part in parts:
        if sum(map(len, shown)) + len(part) > MOST_CHARACTERS:
            break
        shown.append(part)
    title = f"### Exported programs: {len(parts)} changed" if parts else "### Exported programs: none changed"
    left = [f"{len(parts) - len(shown)} more differ; `graphwire diff` shows them."] * (
        len(shown) < len(parts)
    )
    return "\n\n".join([f"{MARK}\n{title}", *shown, *left])


def post(number: int, comment: str, *, wanted: bool) -> None:
    """Write the comment on a pull request, in place of that of an earlier run; a first one only if it is wanted."""
    issues = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    try:
        page, found = 1, None
        while listed := request("GET", f"{issues}/{number}/comments?per_page=100&page={page}"):
            found = next((each["id"] for each in listed if each["body"].startswith(MARK)), found)
            page += 1
        if found is not None:
            request("PATCH", f"{issues}/comments/{found}", {"body": comment})
        elif wanted:
            request("POST", f"{issues}/{number}/comments", {"body": comment})
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403):  # the token of a pull request from a fork may only read
            raise
        print("::notice::This token may not comment. The comparison is in the summary of the job.")


def request(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """The answer of GitHub's API."""
    made = urllib.request.Request(
        os.environ.get("GITHUB_API_URL", "https://api.github.com") + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(made, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
