"""Writes docs/ecosystem.md from the stored results.

python tests/ecosystem/make_page.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from results import Results, stored

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"

_HEAD = """# Tools that read exported programs

This page compares what tools produce from a loaded program and from the original. `make test-ecosystem` passes programs of the
tests (every construct, torch's database of higher-order operators, small models) to each tool, and writes this page. Each tool
has its own environment, with the newest version that installs beside torch {torch}, and a module in `tests/ecosystem`.

- *tried*: the number of programs passed to the tool. "1 of 10" means every tenth of all {all}, except those that cannot run here.
- *taken*: the tool lowers the original program, and runs a call of it. If it rejects the original, it also rejects the loaded
  program, with the same class of error.
- *same*: the tool accepts the loaded program (from JSON, MessagePack or CBOR in turn), computes the same to the last bit, and
  produces exactly the same text: its model, code or file.
- *as torch's*: the same numbers, and the same text as for torch's own file, or, where torch cannot read that, as for the original
  without the leftovers of tracing. The text differs slightly from the original's; the notes explain why.
- *unsteady*: the tool produces a different result from the original itself on a second run.
- *differs*: any other result.
- *file*: `torch.export.load` reads graphwire's default file, and the tool produces the same from it as from the original, or as
  from torch's own file if that differs. Programs that torch's schema cannot encode (`target="torch"` rejects them) are omitted.
"""

_NOTES = """## Notes

- **Leftovers of tracing.** The shape environment of a traced program keeps symbols that none of its values use
  (`{s83: VR[2, int_oo]}`), and sizes that were replaced by others. No file contains them, including torch's own. So ONNX
  metadata and TVM's bounds may have one symbol less, and a `sym_size_int_3` may be called `sym_size_int_1`.
- **ExecuTorch and convolutions with a dynamic batch.** `to_edge` asks torch for the kernel of each convolution again. With
  gradients enabled the answer depends on the batch, and torch silently limits the range of its symbol to 15. This does not
  happen to the original while its shape environment still has results of the export in its cache. Programs from files, torch's
  or graphwire's, have no such cache. Lower them under `torch.no_grad()`, as these tests do.
- **AOTInductor** produces a file of compiled code: the tests compare what that code computes.
- **pt2e quantization** calibrates with one call, and then computes that call.
"""


def page(results: list[Results]) -> str:
    """Return the text of the page with the results of all tools."""
    releases = " and ".join(sorted({each.versions["torch"] for each in results}))
    lines = [_HEAD.format(torch=releases, all=max(each.of for each in results))]
    lines += [
        "| tool | versions | tried | taken | same | as torch's | unsteady | differs | file |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(_row(each))} |" for each in results),
        "",
        _NOTES,
    ]
    for each in results:
        lines += _details(each)
    return "\n".join(lines).rstrip() + "\n"


def _row(results: Results) -> list[str]:
    packages = [f"{name} {version}" for name, version in results.versions.items() if name != "torch"]
    files = len(results.file_same) + len(results.file_as_torchs_own)
    counts = (
        results.same,
        results.as_torchs_own,
        results.unsteady,
        {**results.differs, **results.fails_otherwise},
    )
    return [
        results.name,
        ", ".join(packages) or f"torch {results.versions['torch']}",
        f"{results.tried}" if results.every == 1 else f"{results.tried} (1 of {results.every})",
        str(results.taken),
        *(str(len(each)) for each in counts),
        f"{files} of {files + len(results.file_differs)}" if files or results.file_differs else "",
    ]


def _details(results: Results) -> list[str]:
    wrong = [*results.differs.items(), *results.fails_otherwise.items()]
    wrong += [(f"{name}, the file", text) for name, text in results.file_differs.items()]
    reasons = Counter({reason: len(programs) for reason, programs in results.not_taken.items()})
    if not wrong and not reasons:
        return []
    return [
        f"## {results.name}\n",
        *(f"- Differs: {name}: `{_clean(text)}`" for name, text in wrong),
        *(
            f"- Not taken, {count}: `{_clean(reason)}`"
            for reason, count in sorted(reasons.items(), key=_by_count)
        ),
        "",
    ]


def _by_count(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def _clean(text: str) -> str:
    return " ".join(text.replace("`", "'").split()).rstrip(" :.")


def main() -> None:
    """Write the page."""
    DOCUMENT.write_text(page(stored()), encoding="utf-8")


if __name__ == "__main__":
    main()
