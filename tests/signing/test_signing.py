"""A file signed with a key of one's own by the tool of OpenSSF Model Signing, as docs/security.md shows it. Needs the extra
`signing`: `make test-signing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from torch import nn
from torch.export import export

import graphwire


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, its signature, and the pair of keys."""
    folder = tmp_path_factory.mktemp("signed")
    graphwire.save(export(nn.Linear(3, 2), (torch.ones(1, 3),)), folder / "program.pt2")
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "private.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (folder / "public.pem").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    done = model_signing("sign", folder, "--private_key", "private.pem")
    assert done.returncode == 0, done.stderr
    return folder


def model_signing(command: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tool's command line in the folder."""
    arguments = [command, "key", "program.pt2", "--signature", "program.sig", *options]
    tool = Path(sys.executable).with_name("model_signing")
    return subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_file_as_it_was_signed_is_accepted_and_loads(folder: Path) -> None:
    done = model_signing("verify", folder, "--public_key", "public.pem")
    assert done.returncode == 0, done.stderr
    assert graphwire.verify(folder / "program.pt2") == []
    assert graphwire.load(folder / "program.pt2").module()(torch.ones(1, 3)).shape == (1, 2)


def test_a_file_with_another_byte_is_refused(folder: Path) -> None:
    path = folder / "program.pt2"
    good = path.read_bytes()
    changed = bytearray(good)
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    try:
        assert model_signing("verify", folder, "--public_key", "public.pem").returncode == 1
    finally:
        path.write_bytes(good)
