"""Hashes that never change: forty programs of the corpus, which eleven releases of torch wrote, and documents of ours.

    python tests/analysis/test_content_hashes.py     print the hashes of a new column

`content_hashes.json` has a column for each version of the hash. **Never change a number in it.** People keep these hashes; a test
that fails here says that a program has lost its own. Other rules are a new `HASH_VERSION`, and a new column beside the old one,
which graphwire goes on to compute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from inside.analysis import HASH_VERSION

import graphwire

HERE = Path(__file__).parent
DOCUMENTS = HERE / "content_documents"
"""What torch's files cannot say: every variant of an argument, of the signature and of what is known of values."""
CORPUS = HERE.with_name("corpus") / "corpus.tar.xz"

PROGRAMS = {
    "2.1.0": "cond_closure_params conv_misc dyn_batch_strict pytree_dataclass_tensors",
    "2.2.2": "kv_cache_nograd nonzero_unbacked ops_scatter_embbag",
    "2.3.1": "buffer_counter dyn_derived map while_loop",
    "2.5.1": "cond_nested_dyn custom_op_optional_return dyn_named_unbounded while_loop_closure",
    "2.6.0": "custom_op_lists float_limits mha_sdpa no_grad_decorated",
    "2.7.1": "custom_op_mutable_decomp joint_graph sparse_layout_buffer",
    "2.8.0": "dyn_symmax_floor lifted_constant pytree_std scan_tree",
    "2.9.1": "dtype_uint16 item_unbacked_slice symint_input",
    "2.11.0": "complex_scalar invoke_subgraph tied_embedding",
    "2.12.1": "cond_symbool dyn_seq_arith rnn_inplace_views",
    "2.13.0": "dyn_symfloat_math float_specials loss_heads quant_dequant transformer_layer",
}
"""The forty of the corpus, by release."""


def _found(folder: Path) -> dict[str, list[str]]:
    """For each program its hash, and the one with weights."""
    files = {
        f"{release}/{name}": folder / "corpus" / release / f"{name}.pt2"
        for release, names in PROGRAMS.items()
        for name in names.split()
    }
    found = {
        name: [graphwire.content_hash(file, weights=each) for each in (False, True)]
        for name, file in files.items()
    }
    for file in sorted(DOCUMENTS.glob("*.json")):
        found[f"documents/{file.stem}"] = [graphwire.content_hash(graphwire.decode(file.read_bytes()))]
    return found


def _unpacked(folder: Path) -> Path:
    with tarfile.open(CORPUS) as archive:
        wanted = {
            f"corpus/{release}/{name}.pt2" for release, names in PROGRAMS.items() for name in names.split()
        }
        members = [member for member in archive if member.name in wanted]
        archive.extractall(folder, members, filter="data")
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the forty files lie."""
    return _unpacked(tmp_path_factory.mktemp("corpus"))


def _columns() -> dict[str, Any]:
    columns: dict[str, Any] = json.loads((HERE / "content_hashes.json").read_text(encoding="utf-8"))
    return columns


def test_no_hash_has_changed_on_a_machine_without_torch(corpus: Path) -> None:
    code = """
        import json, sys
        sys.modules.update(dict.fromkeys(("torch", "sympy", "numpy")))  # whoever imports one fails
        from pathlib import Path
        sys.path += [sys.argv[1], str(Path(sys.argv[1]).parent)]
        from test_content_hashes import _found
        print(json.dumps(_found(Path(sys.argv[2]))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(HERE), str(corpus)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == _columns()[f"gw{HASH_VERSION}"]


def test_a_loaded_program_has_the_hash_of_its_file(corpus: Path) -> None:
    expected = _columns()[f"gw{HASH_VERSION}"]
    for release, name in (
        ("2.1.0", "dyn_batch_strict"),
        ("2.6.0", "mha_sdpa"),
        ("2.13.0", "transformer_layer"),
    ):
        program = graphwire.load(corpus / "corpus" / release / f"{name}.pt2")
        assert [graphwire.content_hash(program, weights=each) for each in (False, True)] == expected[
            f"{release}/{name}"
        ]


def test_there_are_forty_programs_and_a_column_for_every_version() -> None:
    columns = _columns()
    assert list(columns) == [f"gw{version}" for version in range(1, HASH_VERSION + 1)]
    for version, column in columns.items():
        assert len([name for name in column if not name.startswith("documents/")]) == 40
        assert all(hashes[0].startswith(f"{version}:") for hashes in column.values())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({f"gw{HASH_VERSION}": _found(_unpacked(Path(folder)))}, indent=1))
