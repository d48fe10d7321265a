"""Writes docs/ecosystem.md of the results that are stored.

python tests/ecosystem/make_page.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from results import Results, stored

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ecosystem.md"

_HEAD = """# Tools that take exported programs

What tools make of a loaded program, beside what they make of the one that was saved. `make test-ecosystem` gives programs of
the tests (every construct, torch's database of higher-order operators, small models) to each tool, in an environment of its
own with the newest version that installs beside torch {torch}, and writes this page. `tests/ecosystem` has a module for each.

- *tried*: the programs that were given to the tool. "1 of 10" means every tenth of all {all}, less those that cannot be run here.
- *taken*: the tool lowers the original, and computes a call of it. What it does not take, it does not take loaded either, with
  the same class of error.
- *same*: it takes the loaded program (from JSON, MessagePack or CBOR in turn), computes the same to the last bit, and lowers to
  the same text, to the letter: the model, code or file of the tool.
- *as torch's*: the same numbers, and the text is that which the tool makes of torch's own file. It is not quite the original's;
  the notes say why.
- *unsteady*: the tool makes something else of the original itself the second time.
- *differs*: anything else.
- *file*: what `torch.export.load` reads of graphwire's default file is to the tool what the original is, or what torch's own file
  is where that differs. Programs that torch's schema cannot say (`target="torch"` refuses them) are left out.
"""

_NOTES = """## Notes

- **Leftovers of tracing.** torch keeps symbols in a program's shape environment that no value of the program has
  (`{s83: VR[2, int_oo]}`), and sizes that another one replaced. No file has them, torch's own neither. So ONNX metadata and
  TVM's bounds may name a symbol less, and a `sym_size_int_3` may be called `sym_size_int_1`.
- **ExecuTorch and convolutions with a dynamic batch.** `to_edge` asks torch for the kernel of each convolution again. With
  gradients enabled the answer depends on the batch, and the range of its symbol then ends at 15, without a word. The original
  escapes that while its shape environment remembers results of the export. Programs from files, torch's own or ours, have
  nothing to remember. Lower under `torch.no_grad()`, as these tests do.
- **AOTInductor** makes a file of compiled code: what is compared is what that computes.
- **pt2e quantization** calibrates with one call, and then computes it.
"""


def page(results: list[Results]) -> str:
    """The page of the results of all tools."""
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
