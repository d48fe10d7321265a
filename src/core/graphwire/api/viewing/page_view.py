"""`view`: a page that shows a program, or the difference of two, in the browser or in a notebook.

What makes the page is imported at the first call: `import graphwire` stays fast.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from graphwire.api.archive import open
from graphwire.api.error_boundary import reading
from graphwire.api.options import OpenOptions, options_of
from graphwire.errors import escaped, shortened
from graphwire.wire.archive import atomic_write, write_all

if TYPE_CHECKING:
    from graphwire.api.viewing.sources import Viewable
    from graphwire.viewer import OverlayValues


class View:
    """A page that shows a program, or the difference of two. A notebook shows it in place."""

    def __init__(self, title: str, pieces: Sequence[bytes]) -> None:
        self.title = title
        """The names of the files."""
        self._page = b"".join(pieces)

    @property
    def html(self) -> str:
        """The page: one file that loads nothing from anywhere."""
        return self._page.decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which is replaced atomically.

        Raises:
            OSError: the path is not writable.
        """
        replacement = atomic_write(path)
        with replacement as stream, replacement:
            write_all(stream, self._page)

    def show(self, *, browser: bool = True) -> Path:
        """Write the page to a temporary file, show it in the browser, and return the file.

        The file is kept, because the browser reads it later.

        Args:
            browser: whether to open the browser.
        """
        import tempfile
        import webbrowser

        folder = Path(tempfile.mkdtemp(prefix="graphwire-"))
        path = folder / "view.html"
        self.save(path)
        if browser:
            webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        title = escaped(shortened(self.title))
        return f"<View of {title}: {len(self._page):,} bytes of HTML; .show() opens it in the browser, .save(path) writes it>"

    def _repr_html_(self) -> str:
        from html import escape

        from graphwire.viewer import inline_frame

        frame = inline_frame(self._page)
        if frame is not None:
            return frame
        told = f"The page of {escape(shortened(self.title))} has {len(self._page) / (1 << 20):,.0f} MiB"
        return f"<p>{told}, too much for a notebook: <code>.save(path)</code> writes it.</p>"


@reading("source", "other")
@options_of(open)
def view(
    source: Viewable,
    other: Viewable | None = None,
    *,
    overlay: OverlayValues | None = None,
    output: str | os.PathLike[str] | None = None,
    method: str | None = None,
    weights: bool = False,
    targets: bool = False,
    use_torch: bool = True,
    **options: Unpack[OpenOptions],
) -> View:
    """Return a page that shows a program, or the difference of two: `View.show` opens it in the browser, a notebook in place.

    The page is one file. It contains the programs without the elements of their weights, and loads nothing from anywhere. Files
    are read without torch; torch only adds what it knows about operators.

    Args:
        source: a file, an open archive, schema records, an `ExportedProgram`, or several by name.
        other: the same, for a program to compare with: the page then shows what changed from `source` to `other`.
        overlay: numbers by which the page colours the nodes, such as `{"latency [ms]": {"linear_3": 0.4}}`. A node inside a
            subgraph is `SUBGRAPH/NODE`.
        output: a file to write the page to.
        method: the only program to show, of a file with several.
        weights: whether to read the elements of all weights, for histograms and for how much they changed. Needs torch.
        targets: whether to list the releases of torch that the programs can be written for, which takes longest.
        use_torch: whether to import torch, if it is installed, for operators' schemas and floating-point operations.

    Raises:
        EncodeError: the overlay names nodes that are not there, or has no numbers; or an `ExportedProgram` contains something
            that the schema cannot represent.
        GraphwireError: as `open` and `Archive.program_of`.
    """
    from graphwire.api.viewing.content import content_of

    sources = [source] if other is None else [source, other]
    wanted = {"weights": weights, "targets": targets, "use_torch": use_torch}
    made = View(*content_of(sources, overlay or {}, method, options, **wanted))
    if output is not None:
        made.save(output)
    return made
