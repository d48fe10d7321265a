"""Run the documents: their Python, their commands, and the outputs that they show.

    python tests/documents.py PAGE…     # writes what comes out into the pages

In a page, a paragraph that is one code span and a colon names the file that the next block writes or (`diff`) changes. Other
blocks run one after the other, in one folder and one namespace:

- `python`: executed. A `text` block right behind it is what it prints.
- `console`: lines with a `$` are commands, what follows each is what it prints. `# exit code N` behind a command names a code
  other than 0. A command of which nothing is shown may print anything.

In what is shown, `…` is any text of a line, and a line with nothing but `…` any number of lines. The comment
`<!-- not run: REASON -->` before a block keeps it from being run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^( *)(`{3,})([^`\n]*)\n(.*?)^\1\2$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:^|\n)`([^`\n]+)`:\n\n$")
NOT_RUN = re.compile(r"<!-- not run: ([^>]+) -->\n\s*$")
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
RUN = ("python", "console")
"""The languages of blocks that run."""
DATA = (
    "",
    "cddl",
    "css",
    "csv",
    "diff",
    "ebnf",
    "hex",
    "html",
    "json",
    "sql",
    "text",
    "toml",
    "tree",
    "yaml",
)
"""The languages of blocks that do not."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """The number of its first line in the page."""
    file: str
    """The file that it is, or changes; empty where it is none."""
    shown: bool
    """Whether it is what the block before it prints."""
    not_run: str
    """Why it is not run; empty where it is."""


def blocks_of(text: str) -> Iterator[Block]:
    """The blocks of a page."""
    end, file, before = 0, "", ""
    for match in FENCE.finditer(text):
        prose, language = text[end : match.start()], match[3].split(" ")[0]
        named, not_run = NAMED.search(prose), NOT_RUN.search(prose)
        if named is not None:
            file = named[1]
        elif prose.strip() or language != "diff":
            file = ""
        shown = language == "text" and before == "python" and not prose.strip()
        line = text.count("\n", 0, match.start(4)) + 1
        yield Block(language, match[4], line, file, shown, not_run[1] if not_run else "")
        end, before = match.end(), language


class Ran(NamedTuple):
    """What a block or a command printed, and what its page shows of it."""

    line: int
    """The line of the command, or the first one of what a block of Python printed."""
    command: str
    printed: str
    shown: str | None
    """None where the page shows nothing of it."""
    code: int
    expected_code: int


class Desk:
    """A folder with the files of a page, and the namespace of its Python."""

    def __init__(self, folder: Path, name: str = "page") -> None:
        self.folder = folder
        self.module = types.ModuleType(f"page_{re.sub(r'[^a-z0-9]', '_', name)}")
        sys.modules[self.module.__name__] = self.module

    def run(self, text: str) -> Iterator[Ran]:
        """Run the blocks of a page."""
        blocks = list(blocks_of(text))
        for number, block in enumerate(blocks):
            if block.not_run or block.shown:
                continue
            if block.file:
                put(self.folder, block)
            elif block.language == "python":
                following = blocks[number + 1] if number + 1 < len(blocks) else None
                printed = self.execute(block)
                if following is not None and following.shown:
                    yield Ran(following.line, "", printed, following.text, 0, 0)
                else:
                    yield Ran(block.line, "", printed, None, 0, 0)
            elif block.language == "console":
                yield from self.type(block)

    def execute(self, block: Block) -> str:
        """What a block of Python prints."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = compile(
                "\n" * (block.line - 1) + block.text, self.module.__name__, "exec", dont_inherit=True
            )
            exec(code, vars(self.module))
        return printed.getvalue()

    def type(self, block: Block) -> Iterator[Ran]:
        """Run the commands of a console block."""
        line = block.line
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            code = EXIT_CODE.search(command)
            printed, ended = self.command(EXIT_CODE.sub("", command).strip())
            yield Ran(line, command, printed, shown or None, ended, int(code[1]) if code else 0)
            line += part.count("\n")

    def command(self, command: str) -> tuple[str, int]:
        """What a command prints, and its exit code. Commands of graphwire and pytest run in this process."""
        command = re.sub(r"\s{2,}# .*$", "", command)
        words = shlex.split(command)
        if words[:3] == ["python", "-m", "pytest"]:
            import pytest

            with contextlib.redirect_stdout(io.StringIO()) as printed:
                code = pytest.main([*words[3:], "-c", os.devnull, "--rootdir", str(self.folder)])
            return printed.getvalue(), int(code)
        if words[0] == "graphwire" and not set(words) & {"|", ">", "&&", ";"}:
            from graphwire.cli import main

            with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
                code = main(words[1:])
            return printed.getvalue(), code
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env={**variables, "PATH": path}, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.stdout, done.returncode


def put(folder: Path, block: Block) -> None:
    """Write the file of a block, or change it."""
    path = folder / block.file
    if block.language != "diff":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return
    sides = {
        mark: "".join(f"{line[1:]}\n" for line in block.text.splitlines() if line.startswith(mark))
        for mark in "-+"
    }
    text = path.read_text(encoding="utf-8")
    assert text.count(sides["-"]) == 1, f"{block.file} has not one place of\n{sides['-']}"
    path.write_text(text.replace(sides["-"], sides["+"]), encoding="utf-8")


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in shown.rstrip("\n").splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """The variables under which pages are run: 100 columns, no colours."""
    before = dict(os.environ)
    for name in ("GRAPHWIRE_PLUGINS", "GRAPHWIRE_DISABLE_PLUGINS", "FORCE_COLOR"):
        os.environ.pop(name, None)
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def write(page: Path) -> None:
    """Put what comes out into a page, where it differs from what the page shows."""
    lines = page.read_text(encoding="utf-8").splitlines()
    changes: list[tuple[int, Ran]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), environment():
        sys.path.insert(0, folder)
        for ran in Desk(Path(folder)).run("\n".join(lines) + "\n"):
            if ran.code != ran.expected_code:
                sys.exit(f"{page}:{ran.line}: {ran.command} ended with {ran.code}\n{ran.printed}")
            if ran.shown is not None and not is_shown(ran.printed, ran.shown):
                sys.stdout.write(f"{page}:{ran.line}: {ran.command}\n")
                changes.append((ran.line, ran))
    for line, ran in sorted(changes, reverse=True):
        start = line if ran.command else line - 1
        lines[start : start + len(ran.shown.splitlines())] = [
            each.rstrip() for each in ran.printed.splitlines()
        ]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        write(Path(each))
