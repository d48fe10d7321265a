"""usage: python watch.py VERSION [--since PYTHON] [--interpreters FOLDER]    what a release of torch changes for graphwire

Compares a release with another one (the torch of the interpreter that runs this, unless `--since` names one): its schema, the
operators that exported graphs hold, and what the bridge uses that is private. Under each heading stands which file is to know
of it, and of each change whether a table has it already; `docs/new-torch-release.md` says what to do. VERSION is one that pip
finds, such as `2.16.0`, which is installed below FOLDER (`build/torch` by default) where it is not there, or the path of an
interpreter that has it.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from graphwire.evolve.availability import ARRIVALS, release_with
from graphwire.evolve.operator_forms import SCHEMA_CHANGES
from graphwire.evolve.planner import RELEASE_CHANGES
from graphwire.evolve.step import RELEASES
from graphwire.schema import Version, graph, program, signature, values

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BRIDGE = ROOT / "src" / "core" / "graphwire" / "bridge"
PLUGINS = ROOT / "src" / "plugins"

Facts = Mapping[str, Any]


class Change(NamedTuple):
    """One change."""

    text: str
    is_known: bool = False
    """Whether our tables have it."""


class Section(NamedTuple):
    """Changes of one kind."""

    heading: str
    remedy: str
    """Which files are to know of them."""
    changes: list[Change]


def main(arguments: list[str] | None = None) -> int:
    """Print the report; 1 where something changed that our tables do not know."""
    parser = argparse.ArgumentParser(prog="watch.py", description=__doc__.splitlines()[0])
    parser.add_argument("version", help="a version that pip finds, or the path of an interpreter")
    parser.add_argument(
        "--since", default=sys.executable, help="the interpreter of the release to compare with"
    )
    parser.add_argument("--interpreters", type=Path, default=ROOT / "build" / "torch")
    options = parser.parse_args(arguments)
    questions = private_uses()
    before = facts_of(options.since, questions)
    after = facts_of(interpreter_of(options.version, options.interpreters), questions)
    print(f"torch {before['torch']} → {after['torch']}\n")
    missing = 0
    for section in compared(before, after):
        unknown = [change for change in section.changes if not change.is_known]
        missing += len(unknown)
        count = (
            f"{len(section.changes)}, of which our tables lack {len(unknown)}"
            if section.changes
            else "nothing"
        )
        print(f"{section.heading}: {count}")
        if unknown:
            print(f"  → {section.remedy}")
        for change in section.changes:
            print(f"  {'known ' if change.is_known else 'to do '} {change.text}")
        print()
    return int(missing > 0)


def interpreter_of(version: str, folder: Path) -> Path:
    """The interpreter with a release of torch, which is installed if it has to be."""
    if not re.fullmatch(r"\d+(?:\.\d+)+\S*", version):
        return Path(version)
    environment = folder / f"v{version}"
    python = environment / "bin" / "python"
    if not python.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", f"torch=={version}", "numpy"], check=True
            )
        except BaseException as error:
            shutil.rmtree(environment, ignore_errors=True)  # else it would be taken for one with the release
            if not isinstance(error, subprocess.CalledProcessError):
                raise
            sys.exit(
                f"torch {version} cannot be installed: pip says above why. A constraint of the machine may forbid it "
                f"(`pip config list`). Or pass the path of an interpreter that has it."
            )
    return python


def facts_of(python: str | Path, questions: Mapping[str, list[str]]) -> Facts:
    """What `torch_facts.py` finds with an interpreter."""
    done = subprocess.run(
        [python, HERE / "torch_facts.py"],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"torch_facts.py fails with {python}:\n{done.stderr[-2000:]}")
    facts: Facts = json.loads(done.stdout)
    return facts


def private_uses() -> dict[str, list[str]]:
    """The private names of torch's modules, and the private attributes of its objects, that our source uses."""
    names: set[str] = set()
    attributes: set[str] = set()
    for file in (*BRIDGE.rglob("*.py"), *PLUGINS.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        names.update(_private_names(tree))
        if file.parent == BRIDGE / "torch_compat":
            attributes.update(_private_attributes(tree))
    return {"names": sorted(names), "attributes": sorted(attributes)}


def _private_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found = [ast.unparse(node)]
        else:
            continue
        for name in found:
            if re.fullmatch(r"torch(?:\.\w+)+", name) and "._" in name and "__" not in name:
                yield name


def _private_attributes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-zA-Z]\w*", node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls") and not owner.startswith("torch"):
                yield node.attr


def compared(before: Facts, after: Facts) -> list[Section]:
    """What changed between two releases, by where it is to be known."""
    renumbered = before["schema_version"] != after["schema_version"]
    versions = [".".join(map(str, facts["schema_version"])) for facts in (before, after)]
    forms = (
        "SCHEMA_CHANGES in evolve/operator_forms.py" if renumbered else "RELEASE_CHANGES in evolve/planner.py"
    )
    older, newer = _callables(before), _callables(after)
    later = _releases_after(before["torch"])
    known = _CHANGED | {change.target for change in ARRIVALS if change.since in later}
    return [
        Section(
            "Version of the schema",
            "a row of RELEASES in evolve/step.py, a step in evolve/steps/, SCHEMA_VERSION in schema/program.py",
            [Change(" → ".join(versions), Version(*after["schema_version"]) in RELEASES.values())]
            * renumbered,
        ),
        Section(
            "Records of the schema",
            "the record in schema/, its row in evolve/vocabulary.py (that of a variant in schema/graph.py and "
            "bridge/graph/arguments.py), and the step of the version that brings it",
            [*_of_tables(before["schema"], after["schema"])],
        ),
        Section(
            "New operators",
            "a row of the release in _OVERLOADS, _PRIMITIVES, _FUNCTIONS or _HIGHER_ORDER in evolve/availability.py",
            [
                Change(f"{name}{newer[name]}", release_with(name) in later)
                for name in sorted(newer.keys() - older.keys())
            ],
        ),
        Section(
            "Operators that are gone",
            f"a change with a way up in {forms}, where files hold them",
            [
                Change(f"{name}{older[name]}", name in _CHANGED)
                for name in sorted(older.keys() - newer.keys())
            ],
        ),
        Section(
            "Operators that are called in another way",
            f"parameters with defaults: _PARAMETERS in evolve/availability.py; others: {forms}, and "
            "_CALLED_OTHERWISE where no file can hold the call",
            [
                Change(f"{name}{older[name]} → {newer[name]}", name in known)
                for name in sorted(older.keys() & newer.keys())
                if older[name] != newer[name]
            ],
        ),
        Section(
            "Private functions that the bridge uses",
            "the module of bridge/torch_compat/ that uses them, for both releases, and its test",
            [
                *map(Change, _of_names(before["names"], after["names"])),
                *map(Change, _of_holders(before["attributes"], after["attributes"])),
            ],
        ),
    ]


_CHANGED = frozenset(change.target for change in (*SCHEMA_CHANGES, *RELEASE_CHANGES))


def _releases_after(torch: str) -> list[str]:
    releases = list(RELEASES)
    release = ".".join(torch.split(".")[:2])
    return releases[releases.index(release) + 1 :] if release in releases else []


def _callables(facts: Facts) -> dict[str, str]:
    """All that a node of an exported graph can call, with its schema where it has one."""
    plain = [*(f"torch.ops.higher_order.{name}" for name in facts["higher_order"]), *facts["functions"]]
    overloads = {name: schema for name, schema in facts["operators"].items() if not _is_out(name, schema)}
    return {**dict.fromkeys(plain, ""), **overloads}


def _is_out(name: str, schema: str) -> bool:
    """Whether an overload writes into what it is given by keyword: no exported graph calls one."""
    _, _, keywords = schema.partition("->")[0].partition("*, ")
    return name.endswith((".out", "_out")) or "!)" in keywords


def _of_tables(before: Mapping[str, Facts], after: Mapping[str, Facts]) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        known = _fields_of(name)
        if old is None or new is None:
            fields = ", ".join(new or old or {})
            yield Change(
                f"{name} is {'new' if old is None else 'gone'}: {fields}", old is None and bool(known)
            )
            continue
        for field in dict.fromkeys((*old, *new)):
            if old.get(field) != new.get(field):
                text = f"{name}.{field}: {old.get(field, 'not there')} → {new.get(field, 'not there')}"
                yield Change(text, field not in old and field in known)


def _fields_of(name: str) -> tuple[str, ...]:
    """The fields or members that our record of that name has."""
    for module in (graph, program, signature, values):
        record = vars(module).get(name)
        if record is not None:
            return tuple(getattr(record, "__struct_fields__", ())) or tuple(
                getattr(record, "__members__", ())
            )
    return ()


def _of_names(before: Facts, after: Facts) -> Iterator[str]:
    for name, kind in before.items():
        if kind is not None and after[name] != kind:
            yield f"{name}: {kind} → {after[name] or 'not there'}"


def _of_holders(before: Facts, after: Facts) -> Iterator[str]:
    for attribute, holders in before.items():
        if lost := [name for name in holders if name not in after[attribute]]:
            yield f"{attribute}: not there any more on {', '.join(lost)}"


if __name__ == "__main__":
    sys.exit(main())
