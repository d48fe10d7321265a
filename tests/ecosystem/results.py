"""What tools made of programs, as `results/TOOL.json` holds it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"


@dataclass
class Results:
    """What one tool made of its programs; each program is named in one of the groups."""

    tool: str
    name: str
    versions: dict[str, str]
    every: int
    """One of how many programs was tried…"""
    of: int
    """…of how many."""
    same: list[str] = field(default_factory=list)
    """The tool takes the original and the loaded program, and makes the same of them, to the letter and the bit."""
    unsteady: list[str] = field(default_factory=list)
    """It takes both, and makes something else of the original itself the second time."""
    as_torchs_own: list[str] = field(default_factory=list)
    """It takes both, computes the same, and writes of the loaded program what it writes of one from torch's own file."""
    differs: dict[str, str] = field(default_factory=dict)
    """It takes the original, and the loaded program is not the same to it."""
    not_taken: dict[str, list[str]] = field(default_factory=dict)
    """It does not take the original, nor the loaded program, by the error that it raises."""
    fails_otherwise: dict[str, str] = field(default_factory=dict)
    """It does not take the original, and does something else with the loaded program."""
    file_same: list[str] = field(default_factory=list)
    """What torch reads of the default file is treated as the original is."""
    file_as_torchs_own: list[str] = field(default_factory=list)
    """What torch reads of the default file is treated as what it reads of its own file, which is not as the original is."""
    file_differs: dict[str, str] = field(default_factory=dict)
    """What torch reads of the default file is treated neither as the original nor as what it reads of its own file."""

    def add(self, program: str, outcomes: dict[str, str]) -> None:
        """Put a program into its groups.

        Args:
            outcomes: what became of each step, as `run.steps` yields them.
        """
        original, loaded, file = (outcomes.get(step, "") for step in ("original", "loaded", "file"))
        if ("torch" in outcomes and not original) or original == "cannot be run":
            return
        if "torch" in outcomes:
            self.differs[program] = outcomes["torch"]
        elif original != "taken":
            if loaded in ("not taken", ""):
                self.not_taken.setdefault(original, []).append(program)
            else:
                self.fails_otherwise[program] = f"{original}; loaded: {loaded}"
        elif loaded in self._groups:
            self._groups[loaded].append(program)
        else:
            self.differs[program] = loaded
        if file in ("same", "as torch's own"):
            (self.file_same if file == "same" else self.file_as_torchs_own).append(program)
        elif file:
            self.file_differs[program] = file

    @property
    def _groups(self) -> dict[str, list[str]]:
        return {"same": self.same, "unsteady": self.unsteady, "as torch's own": self.as_torchs_own}

    @property
    def tried(self) -> int:
        """How many programs the tool was given."""
        return self.taken + sum(map(len, self.not_taken.values())) + len(self.fails_otherwise)

    @property
    def taken(self) -> int:
        """How many of the originals it takes."""
        return sum(map(len, self._groups.values())) + len(self.differs)

    def wrong(self) -> list[str]:
        """What is not as it should be, a line each."""
        return [
            *(f"differs: {program}: {text}" for program, text in self.differs.items()),
            *(f"fails otherwise: {program}: {text}" for program, text in self.fails_otherwise.items()),
            *(f"file differs: {program}: {text}" for program, text in self.file_differs.items()),
        ]


def written(results: Results) -> None:
    """Write a tool's results."""
    text = json.dumps(asdict(results), indent=1, ensure_ascii=False)
    (FOLDER / f"{results.tool}.json").write_text(text + "\n", encoding="utf-8")


def stored() -> list[Results]:
    """The results of every tool, as they were last written."""
    return [Results(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.json"))]
