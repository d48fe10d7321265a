"""Build the documentation site, without a network: `make site`, or `python docs/site/build.py [FOLDER]`.

The site of this version lies in FOLDER/VERSION (build/site/0.1, say). Versions that are in FOLDER already stay. `versions.json`
lists all of them for the selector, and FOLDER/index.html leads to the newest. Warnings are errors,
and so is a page that loads anything from elsewhere, or that has a link to no page, file or anchor of the site.

The search needs a server, such as `python -m http.server -d build/site`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?=[^>]*rel="?(?:stylesheet|icon|preload|preconnect)))\b[^>]*?(?:src|href)="?(?:https?:)?//[^\s">]*"""
    r"""|data-md-component="?source\b"""  # the theme's script asks a server about the repository
    r"""|url\(["']?(?:https?:)?//[^)]*"""
    r"""|@import\s+["'](?:https?:)?//[^"']*"""
)
START = """<!doctype html>
<meta charset="utf-8">
<title>graphwire</title>
<meta http-equiv="refresh" content="0; url={version}/">
<a href="{version}/">graphwire {version}</a>
"""


def main() -> int:
    """Build the site; the exit code."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/site"
    version = ".".join(number().split(".")[:2])
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    try:
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder / version)))
    except Abort as error:
        print(error, file=sys.stderr)
        return 1
    # Its links are right at the root of a server alone, where no version is.
    (folder / version / "404.html").unlink()
    versions = sorted((each.parent.name for each in folder.glob("*/sitemap.xml")), key=_order, reverse=True)
    listed = [
        {"version": each, "title": each, "aliases": ["latest"] * (each == versions[0])} for each in versions
    ]
    (folder / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "index.html").write_text(START.format(version=versions[0]), encoding="utf-8")
    problems = [*loaded_from_elsewhere(folder / version), *broken_links(folder / version)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{folder / version}: {len(list((folder / version).rglob('*.html')))} pages")
    return 1 if problems else 0


def number() -> str:
    """The version of graphwire."""
    text = (ROOT / "src/core/graphwire/version.py").read_text(encoding="utf-8")
    return re.findall(r"\"(\d[^\"]*)\"", text)[0]


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """What a page or a style sheet would load from another server."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for match in LOADED.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {match[0]}"


class Linked(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what the attributes of an element name."""
        for name, value in attrs:
            if name in ("id", "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src"):
                self.links.append(value or "")


def broken_links(site: Path) -> Iterator[str]:
    """The links of all pages that lead to nothing in the site. Those with a scheme or a server lead out of it."""
    pages = {path.resolve(): Linked(path) for path in sorted(site.rglob("*.html"))}
    for page, linked in pages.items():
        for link in dict.fromkeys(linked.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            place = f"{page.relative_to(site.resolve())}: the link {link} leads to"
            if not target.is_relative_to(site.resolve()):
                yield f"{place} something outside of the site"
            elif not target.is_file():
                yield f"{place} nothing"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{place} no anchor of {target.relative_to(site.resolve())}"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


if __name__ == "__main__":
    sys.exit(main())
