"""What the site adds to the files of docs/, as hooks of MkDocs.

- Documents outside of docs/ (README, CHANGELOG …) become pages.
- The reference pages come from the tables of docs/api.md, the hooks and the contract suites; docstrings fill them.
- A link to a file outside of docs/ leads to its page, or else to the repository; public names lead to the reference.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

from check_links import slug  # noqa: E402

OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report.md",
}
"""Documents of the repository that are pages too."""

LINK = re.compile(r"(\]\(<?|^\[[^\]]+\]: )([^)\s>#]+)(#[^)\s>]*)?", re.MULTILINE)
FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*$)", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\| (?:for [^|]+|classes) \| \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, content in reference_pages().items():
        files.append(File.generated(config, f"reference/{page}.md", content=content))
    return files


def reference_pages() -> dict[str, str]:
    """The pages of the reference, with a directive of mkdocstrings for each name."""
    tables = TABLE.findall((ROOT / "docs/api.md").read_text(encoding="utf-8"))
    pages: dict[str, str] = {}
    for rows, (name, title) in zip(tables, PAGES.items(), strict=True):
        names = re.findall(r"^\| `(\w+)`", rows, re.MULTILINE)
        shown = [f"::: graphwire.{each}\n" for each in names if each not in ("errors", "__version__")]
        pages[name] = f"# {title}\n\n" + "\n".join(shown)
    options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    options += (
        "      filters: ['!^_', '!^[A-Z_]+$', '!^test_']\n"  # no tables, and of contract suites what to set
    )
    for name, (title, module) in MODULES.items():
        pages[name] = f"# {title}\n\n::: {module}\n{options}"
    return pages


PAGES = {
    "programs": "Functions for an ExportedProgram",
    "files": "Functions for files",
    "any-form": "Functions for a program in any form",
    "documents": "Functions for documents",
    "plugins": "Names for plugins",
    "weights": "Names for weights outside of a file",
    "classes": "Classes",
}
"""The title of each page of the reference. It has the names of a table of docs/api.md, in the same order."""

MODULES = {
    "errors": ("Errors", "graphwire.errors"),
    "hooks": ("Interfaces of plugins", "graphwire.hooks.interfaces"),
    "weight-stores": ("Interfaces of weight stores", "graphwire.hooks.weight_stores"),
    "testing": ("Contract suites", "graphwire.testing"),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that Git forges give them, and that links in the documents have."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, separator: slug(text)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to the page of their file, or to the repository."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # a list of one page
    source = {page: source for source, page in OUTSIDE.items()}.get(
        page.file.src_uri, f"docs/{page.file.src_uri}"
    )

    def rewritten(match: re.Match[str]) -> str:
        before, link, anchor = match[1], match[2], match[3] or ""
        if ":" in link:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if target.startswith("docs/") and files.get_file_from_path(target[5:]):
            return (
                before + posixpath.relpath(target[5:], posixpath.dirname(page.file.src_uri) or ".") + anchor
            )
        if target in OUTSIDE:
            return (
                before
                + posixpath.relpath(OUTSIDE[target], posixpath.dirname(page.file.src_uri) or ".")
                + anchor
            )
        if (ROOT / target).exists():
            kind = "tree" if (ROOT / target).is_dir() else "blob"
            return f"{before}{config.extra['repository']}/{kind}/main/{target}{anchor}"
        return match[0]

    if source == "docs/api.md":
        row = re.compile(r"^\| `(?!errors|__)(\w+)`(?= \|)", re.MULTILINE)
        markdown = TABLE.sub(lambda table: row.sub(r"| [`\1`][graphwire.\1]", table[0]), markdown)
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(rewritten, part) for part in parts[::2]]
    return indented("".join(parts))


def indented(markdown: str) -> str:
    """Indent what belongs to a list item by four spaces for each level, as Python-Markdown asks, instead of two or three."""
    lines, levels, fenced = [], [0], False
    for line in markdown.split("\n"):
        text = line.lstrip()
        depth = len(line) - len(text)
        if not fenced and text:
            while depth < levels[-1]:
                levels.pop()
        if text.startswith(("```", "~~~")):
            fenced = not fenced
            text = " ".join(text.split(" ")[:1])  # the name of a block of the specification
        inner = 4 * (len(levels) - 1) + depth - levels[-1] if len(levels) > 1 else depth
        lines.append(" " * inner + text if text else "")
        if not fenced and (item := ITEM.match(text)):
            levels.append(depth + len(item[0]))
    return "\n".join(lines)


ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")
