"""Does every rule that obliges a reader to refuse have a file that breaks it? `make lint` runs this.

    python tests/rule_cases.py

It reads the specification and the index of the conformance suite, and prints what does not fit: a rule without a file and
without a reason in `NOT_INVALID`; a file that names no rule, or one that is none; a rule that only states a fact, is broken by a
file, and is not in the list of NEU-2.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPECIFICATION, SUITE = ROOT / "docs/spec", ROOT / "conformance"
_RULE = re.compile(r"\*\*\[([A-Z]+-\d+)\]\*\*(.*?)(?=\n- <a id|\n\n|\Z)", re.DOTALL)
_REFUSES = re.compile(
    r"must\s+(?:also\s+)?(?:refuse|be refused)|must\b[^.]*\band (?:must )?refuse\b|must not give"
    r"|[Rr]eader\b[^.]*\brefuses\b|exits with 1\b"
)
_FACTS = re.compile(r"<!-- facts -->(.*?)<!-- /facts -->", re.DOTALL)

NOT_INVALID = {
    "a reader whose caller asks for something": "ARC-28",
    "a reader that runs or calls the program, or builds its module": "GRA-35 GRA-74 SIG-16 SIG-17",
    "a reader that rebuilds containers, or decodes values of codecs": "PAY-27 PAY-29 TSP-13 TSP-16 TSP-19 TSP-24 TSP-26",
    "a reader that evaluates expressions; one that prints them accepts what is beyond the bounds": "EXP-23",
    "a value is not given, and the file is read": "PAY-7",
    "a reader of an older minor version, or without a wire format that it need not have": "TREE-26 VER-12",
    "a rule about rules, or about what readers print": "GEN-4 GEN-7 NEU-2",
}
"""The rules that oblige to refuse and have no invalid file, by the reason: their subject is another reader than one that
lists a file (NEU-2)."""


def texts_of_rules() -> dict[str, str]:
    """The text of every rule, by its number."""
    return {
        rule: " ".join(text.split())
        for page in sorted(SPECIFICATION.glob("*.md"))
        for rule, text in _RULE.findall(page.read_text("utf-8"))
    }


def rules_of_cases() -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each file and vector of the suite, whether it is valid, and its rules."""
    for case in json.loads((SUITE / "index.json").read_bytes())["cases"]:
        yield case["file"], case["valid"], case["rules"]
    for path in sorted((SUITE / "trees").glob("*.json")):
        for row in json.loads(path.read_bytes())["vectors"]:
            yield f"trees/{row['name']}", row["valid"], row["rules"]


def problems() -> Iterator[str]:
    """Yield what does not fit."""
    texts, cases = texts_of_rules(), list(rules_of_cases())
    for file, _, rules in cases:
        if not rules:
            yield f"{file}: names no rule"
        yield from (f"{file}: {rule} is no rule" for rule in rules if rule not in texts)
    broken = {rule for _, valid, rules in cases if not valid for rule in rules}
    refuse = {rule for rule, text in texts.items() if _REFUSES.search(text)}
    excused = set(" ".join(NOT_INVALID.values()).split())
    for rule in sorted(refuse - broken - excused):
        yield f"{rule}: make an invalid file for it, or say in {Path(__file__).name} why there is none"
    for rule in sorted(excused - (refuse - broken)):
        yield f"{rule}: needs no reason in {Path(__file__).name}: it obliges nobody to refuse, or has a file"
    found = _FACTS.search((SPECIFICATION / "neutral.md").read_text("utf-8"))
    listed = set(re.findall(r"[A-Z]+-\d+", found[1] if found else ""))
    for rule in sorted((broken & texts.keys() - refuse) ^ listed):
        yield f"{rule}: " + (
            "is listed in NEU-2 without need"
            if rule in listed
            else "states a fact that a file breaks: list it in NEU-2"
        )


if __name__ == "__main__":
    found = list(problems())
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
