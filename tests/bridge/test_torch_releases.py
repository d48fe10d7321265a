"""The releases of torch that graphwire runs on, and what differs between them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch
from inside.bridge import private as torch_releases

from graphwire.bridge import check_release
from graphwire.errors import DecodeError, TorchReleaseError
from graphwire.version import NEWEST_TORCH as NEWEST, OLDEST_TORCH as OLDEST


@pytest.mark.parametrize("version", ["2.7.1", "1.13.0+cu117", "2.0.0"])
def test_an_older_torch_is_an_error_that_names_both(version: str) -> None:
    with pytest.raises(TorchReleaseError, match=rf"torch 2\.8 to .*torch {re.escape(version)} is installed"):
        check_release(version)


@pytest.mark.parametrize("version", ["2.8.0", "2.10.0+cu128", "2.13.0a0+git1234", "2.15.1", "main"])
def test_a_torch_that_is_tested_on_passes_without_a_word(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_release(version)


def test_a_newer_torch_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"torch 3\.0\.0 is newer"):
        check_release("3.0.0")


def test_the_distribution_requires_what_the_code_checks() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
    first, last = (".".join(map(str, release)) for release in (OLDEST, (NEWEST[0], NEWEST[1] + 1)))
    assert f'"torch>={first},<{last}"' in text


def test_numbers_of_symbols_go_on_from_the_one_that_is_asked_for() -> None:
    shape_env = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    torch_releases.reserve_numbers(shape_env, "unbacked_symint_counter", 4)
    torch_releases.reserve_numbers(shape_env, "unbacked_symint_counter", 2)
    assert str(shape_env.create_unbacked_symint().node.expr) == "u4"


def test_an_output_that_this_torch_does_not_have_is_an_error_that_names_it() -> None:
    assert torch_releases.output_kind("USER_OUTPUT").name == "USER_OUTPUT"
    with pytest.raises(DecodeError, match="no output of kind BUFFER_INVENTION"):
        torch_releases.output_kind("BUFFER_INVENTION")
