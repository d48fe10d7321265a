"""Compare the exported programs of a pull request with those of its base, and comment the differences on it.

Reads what GitHub Actions gives a job (`GITHUB_EVENT_PATH`, `GITHUB_API_URL`, `GITHUB_REPOSITORY`, `GITHUB_TOKEN`,
`GITHUB_STEP_SUMMARY` and `GITHUB_OUTPUT`), and the action's inputs `FILES` (patterns) and `WEIGHTS`.
Elsewhere it prints the comment:

    python compare.py BASE_COMMIT

It ends with 0 when it has compared, also if programs differ, and with 2 if it cannot compare or post.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
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


class Failure(Exception):
    """Why nothing can be compared, in a line for whoever reads the log of the job."""


class Change(NamedTuple):
    """One file that a pull request changes."""

    before: str
    """Its path in the base; empty if it is new."""
    after: str
    """Its path now; empty if it is removed."""


def main() -> int:
    """Compare, print the comment, and post it where there is a pull request; the exit code."""
    parser = argparse.ArgumentParser(
        description="Print, as a comment in Markdown, how the exported programs of this branch differ from those of its base. In"
        " a GitHub Action for a pull request, post it there."
    )
    parser.add_argument(
        "base",
        nargs="?",
        metavar="BASE_COMMIT",
        help="a commit or branch; by default the base of the pull request",
    )
    arguments = parser.parse_args()
    try:
        return compare(arguments.base or "")
    except Failure as failure:
        print(as_text(f"compare.py: {failure}"), file=sys.stderr)
    except (urllib.error.URLError, json.JSONDecodeError) as error:
        print(
            as_text(f"compare.py: the comment is not posted, since GitHub answers: {error}"), file=sys.stderr
        )
    except OSError as error:
        print(as_text(f"compare.py: {error}"), file=sys.stderr)
    return 2


def compare(base: str) -> int:
    """Compare with a base, or that of the pull request; the exit code."""
    pull_request = event().get("pull_request", {})
    base = base or pull_request.get("base", {}).get("sha", "")
    if not base:
        raise Failure("there is no base to compare with: run this for a pull request, or name a commit")
    fork = fork_of(base)
    parts, same = [], []
    for change in changes_since(fork, os.environ.get("FILES", "*.pt2").split()):
        try:
            text, differs = comparison(fork, change)
        except Failure as failure:  # such as an object of Git LFS that is not there
            text, differs = not_compared(change, str(failure)), True
        (parts if differs else same).append(text)
    comment = comment_of(parts, same)
    print(as_text(comment))
    for variable, text in (("GITHUB_STEP_SUMMARY", comment), ("GITHUB_OUTPUT", f"changed={len(parts)}")):
        if os.environ.get(variable):
            with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
    if "number" in pull_request and os.environ.get("GITHUB_TOKEN") and os.environ.get("GITHUB_REPOSITORY"):
        post(pull_request["number"], comment, wanted=bool(parts))
    return 0


def event() -> dict[str, Any]:
    """What GitHub says about the job; nothing elsewhere."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    try:
        found = json.loads(Path(path).read_text("utf-8")) if path else {}
    except (ValueError, RecursionError) as error:
        raise Failure(f"the event of the job, {path}, is not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("pull_request", {}), dict):
        raise Failure(f"the event of the job, {path}, is not one of GitHub")
    return found


def git(*arguments: str, data: bytes | None = None) -> bytes:
    """What a command of Git prints."""
    try:
        return subprocess.run(["git", *arguments], check=True, input=data, capture_output=True).stdout
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode(errors="replace").strip() or f"it exits with {error.returncode}"
        raise Failure(f"git {arguments[0]}: {told}") from error


def fork_of(base: str) -> str:
    """The commit where this branch left the base."""
    try:
        git("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
        return git("merge-base", "--", base, "HEAD").decode().strip()
    except Failure as failure:
        raise Failure(
            f"there is no common commit with {base!r} here ({failure}); a GitHub Action needs a checkout with fetch-depth: 0"
        ) from failure


def changes_since(fork: str, patterns: list[str]) -> list[Change]:
    """The files that match patterns and differ from a commit."""
    words = os.fsdecode(git("diff", "--name-status", "-z", "-M90%", fork, "HEAD", "--", *patterns)).split(
        "\0"
    )[:-1]
    changes = []
    while words:
        status, path = words.pop(0), words.pop(0)
        moved = words.pop(0) if status[0] in "RC" else path
        changes.append(Change("" if status == "A" else path, "" if status == "D" else moved))
    return changes


def comparison(fork: str, change: Change) -> tuple[str, bool]:
    """What a comment shows of one file, and whether its programs differ."""
    if not change.after:
        return f"**{code(change.before)}** is removed", True
    with tempfile.TemporaryDirectory() as folder:
        after = put(folder, "after", "HEAD", change.after)
        if not change.before:
            done = graphwire(folder, "inspect", after)
            return f"**{code(change.after)}** is new\n\n" + details(
                "Summary", done.stdout or done.stderr
            ), True
        before = put(folder, "before", fork, change.before)
        weights = ["--weights"] if os.environ.get("WEIGHTS", "").lower() == "true" else []
        done = graphwire(folder, "diff", "--format", "markdown", *weights, before, after)
        if done.returncode in (0, 1):
            return done.stdout.strip(), done.returncode == 1
        return not_compared(change, done.stderr), True


def not_compared(change: Change, why: str) -> str:
    """What a comment shows of a file that cannot be read."""
    return f"**{code(change.after)}** cannot be compared\n\n{details('Error', why, is_open=True)}"


def put(folder: str, side: str, commit: str, path: str) -> str:
    """Write a file of a commit to a folder, and return its path there."""
    data = git("show", f"{commit}:{path}")
    if data.startswith(LFS):
        data = git("lfs", "smudge", path, data=data)
    target = Path(folder, side, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return str(target)


def graphwire(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of graphwire on files of a folder, whose name is dropped of what it prints.

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


def as_text(text: str) -> str:
    """A text for the log of a job, in which no line is a command to the runner, whatever the files of a pull request have."""
    if not os.environ.get("GITHUB_ACTIONS"):
        return text
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}\n{text}\n::{token}::"


def code(text: str) -> str:
    """A path as Markdown shows it, whatever is in it: line breaks and other characters that are not shown stand as escapes."""
    shown = (each if each.isprintable() else ascii(each)[1:-1] for each in text.replace("`", chr(0x2019)))
    return f"`{''.join(shown)}`"


def details(title: str, text: str, *, is_open: bool = False) -> str:
    """A folded block of text."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"<details{' open' * is_open}><summary>{title}</summary>\n\n{fence}text\n{text.rstrip()}\n{fence}\n\n</details>"


def comment_of(parts: list[str], same: list[str]) -> str:
    """The comment: what fits, and how much does not.

    Args:
        parts: what differs.
        same: what was compared of files whose programs are the same.
    """
    shown: list[str] = []
    for part in [*parts, *same]:
        if sum(map(len, shown)) + len(part) > MOST_CHARACTERS:
            break
        shown.append(part)
    title = f"### Exported programs: {len(parts)} changed" if parts else "### Exported programs: none changed"
    missing = len(parts) + len(same) - len(shown)
    left = [f"{missing} more files; `graphwire diff` shows them."] * (missing > 0)
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
