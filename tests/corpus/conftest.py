"""The corpus: files that `torch.export.save` of eleven releases wrote, unpacked once a session."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).with_name("corpus.tar.xz")

RELEASES = {
    "2.1.0": "A1",
    "2.2.2": "A2",
    "2.3.1": "A3",
    "2.5.1": "A4",
    "2.6.0": "A4",
    "2.7.1": "A4",
    "2.8.0": "B1",
    "2.9.1": "B2",
    "2.11.0": "B2",
    "2.12.1": "B2",
    "2.13.0": "B2",
}
"""The releases in the corpus, and the layout that each writes."""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds a folder for each release."""
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "corpus"


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Each release in turn."""
    return str(request.param)


@pytest.fixture
def layout_name(release: str) -> str:
    """The layout that the release writes."""
    return RELEASES[release]


@pytest.fixture
def files(corpus: Path, release: str) -> list[Path]:
    """The files of the release."""
    return sorted((corpus / release).glob("*.pt2"))
