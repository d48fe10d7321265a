"""What the site adds to the files of docs/, as hooks of MkDocs.

- Documents outside of docs/ (README, CHANGELOG …) become pages.
- The reference pages come from the tables of docs/api.md, the hooks and the contract suites; docstrings fill them.
- A link to a file outside of docs/ leads to its page, or else to the repository; public names lead to the reference.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from graphwire import testing

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

from check_links import lines_of, slug  # noqa: E402

OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report.md",
    "conformance/README.md": "conformance.md",
    "tests/benchmarks/README.md": "benchmarks.md",
    **{
        f"contrib/{each.parent.name}/README.md": f"contrib/{each.parent.name}.md"
        for each in ROOT.glob("contrib/*/README.md")
    },
}
"""Documents of the repository that are pages too."""

LINK = re.compile(r"(\]\(<?|^\[[^\]]+\]: )([^)\s>#]+)")
ROW = re.compile(r"^\| `(?!errors|__)(\w+)`(?= \|)", re.MULTILINE)
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*\w+")
ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")
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
    listed: dict[str, str] = {}
    for rows, (name, title) in zip(tables, PAGES.items(), strict=True):
        names = [
            each
            for each in re.findall(r"^\| `(\w+)`", rows, re.MULTILINE)
            if each not in ("errors", "__version__")
        ]
        shown = [f"::: graphwire.{each}\n{WITHOUT_VALUES if each in OPENED else ''}" for each in names]
        pages[name] = f"# {title}\n\n" + "\n".join(shown)
        listed[name] = ", ".join(f"[`{each}`][graphwire.{each}]" for each in names)
    options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    options += (
        "      filters: ['!^_', '!^[A-Z_]+$', '!^test_']\n"  # no tables, and of contract suites what to set
    )
    for name, (title, module) in MODULES.items():
        members = f"      members: {dir(testing)}\n" if name == "testing" else ""  # they are imported
        pages[name] = f"# {title}\n\n::: {module}\n{options}{members}"
        listed[name] = f"all of `{module}`"
    titles = PAGES | {name: title for name, (title, _) in MODULES.items()}
    rows = [f"| [{title}]({name}.md) | {listed[name]} |\n" for name, title in titles.items()]
    pages["index"] = f"{INDEX}| page | what it has |\n|---|---|\n{''.join(rows)}"
    return pages


OPENED = ("Archive", "Registry", "View")
"""Classes whose attributes are set by code, which the reference does not show; those of others have defaults."""
WITHOUT_VALUES = "    options:\n      show_attribute_values: false\n"

INDEX = """# Functions and classes

Every public name, with its arguments, what it returns, and what it raises, from the docstrings.
[Public functions](../api.md) has them all on one page, a line each; [From torch.export](../from-torch.md) has examples.

"""

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
    "hooks": ("Interfaces of plugins", "graphwire.registry.interfaces"),
    "testing": ("Contract suites", "graphwire.testing"),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that Git forges give them, and that links in the documents have."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, separator: slug(text)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change what forges and the site have in different forms: links out of docs/, lists, names of blocks."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # a list of one page
    own = page.file.src_uri
    source = {page: source for source, page in OUTSIDE.items()}.get(own, f"docs/{own}")
    if source == "docs/api.md":
        markdown = TABLE.sub(lambda table: ROW.sub(r"| [`\1`][graphwire.\1]", table[0]), markdown)

    def rewritten(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        known = OUTSIDE.get(target) or target.removeprefix("docs/")
        if ":" in match[2] or not (ROOT / target).exists():
            return match[0]
        page = files.get_file_from_path(known)
        if page is not None and page.inclusion.is_included():
            return match[1] + posixpath.relpath(known, posixpath.dirname(own) or ".")
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{match[1]}{config.extra['repository']}/{kind}/main/{target}"

    lines = [
        (line if is_code else LINK.sub(rewritten, line), is_code) for _, line, is_code in lines_of(markdown)
    ]
    return "\n".join(indented(lines))


def indented(lines: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Indent what belongs to a list item by four spaces for each level, as Python-Markdown asks, instead of two or three."""
    levels, is_inside = [0], False
    for line, is_code in lines:
        text = line.lstrip()
        depth = len(line) - len(text)
        if text and not is_inside:
            while depth < levels[-1]:
                levels.pop()
        if is_code and not is_inside and (fence := FENCE.match(text)):
            text = fence[0]  # without the name of a block of the specification
        inner = 4 * (len(levels) - 1) + depth - levels[-1] if len(levels) > 1 else depth
        yield " " * inner + text if text else ""
        is_inside = is_code
        if not is_code and (item := ITEM.match(text)):
            levels.append(depth + len(item[0]))
