"""A save that is killed leaves a pair of program and weights that works: the old one or the new one."""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import random
import time
from pathlib import Path

import pytest
import torch

import graphwire
from graphwire.cli import main


def save_for_ever(folder: Path, kind: str) -> None:
    """Save a program with other weights each time."""
    program = graphwire.load(folder / "base.pt2")
    for number in itertools.count():
        with torch.no_grad():
            for value in program.state_dict.values():
                value.fill_(float(number))
        weights = graphwire.Blobs(folder / "blobs") if kind == "blobs" else folder / "w.safetensors"
        graphwire.save(program, folder / "m.pt2", weights=weights)


def files_of(file: Path) -> set[Path]:
    """The files that a program refers to."""
    with graphwire.open(file) as archive:
        references = archive.weights.references
    assert references is not None
    return {file.parent / (each.folder or "") / name for each in references.stores for name in each.files}


def digests(files: set[Path]) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("kind", ["safetensors", "blobs"])
@pytest.mark.slow
def test_fifty_killed_saves_leave_a_pair_that_works(kind: str, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Linear(512, 64))
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(-1.0)
    program = torch.export.export(model, (torch.ones(1, 256),))
    graphwire.save(program, tmp_path / "base.pt2")
    weights = graphwire.Blobs(tmp_path / "blobs") if kind == "blobs" else tmp_path / "w.safetensors"
    graphwire.save(program, tmp_path / "m.pt2", weights=weights)
    kept = digests(files_of(tmp_path / "m.pt2"))
    chance = random.Random(0)
    context = multiprocessing.get_context("fork")  # torch is there already
    for _ in range(25):
        process = context.Process(target=save_for_ever, args=(tmp_path, kind))
        process.start()
        until = time.monotonic() + chance.uniform(0.02, 0.2)
        while time.monotonic() < until:
            graphwire.load(tmp_path / "m.pt2", verify=True)  # while it is saved
        process.kill()
        process.join()
        found = graphwire.load(tmp_path / "m.pt2", verify=True)
        numbers = {number for value in found.state_dict.values() for number in value.unique().tolist()}
        assert len(numbers) == 1, "the weights of one save"
        assert digests(set(kept)) == kept, "files that an older program refers to never change"
        kept |= digests(files_of(tmp_path / "m.pt2"))
        for path in tmp_path.iterdir():  # what is left behind is temporary or unreferenced
            assert path.suffix in (".pt2", ".safetensors", ".part") or path.name == "blobs"
    if kind == "blobs":
        used = files_of(tmp_path / "m.pt2")
        (tmp_path / "base.pt2").unlink()
        for path in tmp_path.glob("*.part"):
            path.unlink()
        for path in (tmp_path / "blobs").rglob("*"):
            os.utime(path, (0, 0))
        assert main(["blobs", "gc", str(tmp_path / "blobs"), "--programs", str(tmp_path)]) == 0
        left = {path for path in (tmp_path / "blobs").rglob("*") if path.is_file()}
        assert left == {*used, tmp_path / "blobs" / "blobs.json"}
        graphwire.load(tmp_path / "m.pt2", verify=True)


def save_and_load(folder: Path, number: int) -> None:
    """Save a program that has one weight in common with the others, and load it, again and again."""
    program = graphwire.load(folder / "base.pt2")
    file = folder / f"{number}.pt2"
    for turn in range(6):
        with torch.no_grad():
            program.state_dict["1.weight"].fill_(10.0 * turn + number)
        graphwire.save(program, file, weights=graphwire.Blobs(folder / "blobs"))
        loaded = graphwire.load(file, verify=True).state_dict
        assert torch.equal(loaded["1.weight"], program.state_dict["1.weight"])
        assert torch.equal(loaded["0.weight"], program.state_dict["0.weight"])


def test_eight_processes_share_a_folder_of_blobs(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False))
    graphwire.save(torch.export.export(model, (torch.ones(1, 64),)), tmp_path / "base.pt2")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=save_and_load, args=(tmp_path, number)) for number in range(8)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(300)
    assert [each.exitcode for each in workers] == [0] * 8
    assert len(list((tmp_path / "blobs").glob("??/*"))) == 1 + 8 * 6
    assert main(["blobs", "verify", str(tmp_path / "blobs")]) == 0
