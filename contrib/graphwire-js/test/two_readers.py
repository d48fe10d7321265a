"""Gives changed files of the conformance suite to two independent readers, graphwire and graphwire-js, which must judge alike.

    python contrib/graphwire-js/test/two_readers.py --count 1000 --seed 7 --only signatures

A file is changed in its bytes; or one of its records is, in its bytes or in its tree, and the archive is sealed again, so that
checksums and digests are right; or its headers, or the form of its document, are others than a writer's (`odd_files`). Where one
reader accepts a file and the other refuses it, or both find different things, the text is silent or not clear, a reader is wrong,
or the suite lacks the case: an issue of the kind `text`, `reader` or `suite`. The file is kept in `build/two-readers`, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
JS, SUITE, KEPT = ROOT / "contrib/graphwire-js", ROOT / "conformance", ROOT / "build/two-readers"
sys.path += [str(SUITE), str(ROOT / "tests/fuzz"), str(Path(__file__).parent)]

from fuzz import mutated  # noqa: E402
from making.files import encode, manifest_of  # noqa: E402
from making.zip_bytes import Member, write_zip  # noqa: E402
from odd_files import (  # noqa: E402
    odd_archive,
    odd_config,
    odd_document,
    odd_pickle,
    odd_references,
    odd_store,
)

from graphwire.api.conformance import first_difference, neutral  # noqa: E402
from graphwire.errors import GraphwireError  # noqa: E402
from graphwire.hooks import default_registry  # noqa: E402

BY_DAY = 600
"""Up to so many, the files are the same at every run."""
PARTS = ("archive", "documents", "payloads", "references", "hash", "optional", "trees")
OLDER = frozenset({"older", "schema-8"})

TEXTS = (
    *(
        "",
        "x",
        "relu",
        "self",
        "__x__",
        "a..b",
        "a.b",
        ".",
        "a\n",
        "cpu",
        "cuda:0",
        "lambda",
        "torch",
        "_in_spec",
        "a b",
        "é",
        "ﬁ",
        "0x",
    ),
    *(
        "torch.ops.aten.relu.default",
        "torch.0ps.aten.relu.default",
        "torch.ops.aten.1relu.default",
        "torch.ops.aten",
        "_operator.add",
        "#p:x",
    ),
    *(
        "Symbol('s0')",
        "Integer(3)",
        "s0 + 1",
        "L['x'] > 1",
        "2 ** True < 9",
        "null",
        "[]",
        '["a"]',
        "builtins.dict",
        "os.system",
    ),
    *(
        "Infinity",
        "NaN",
        "weight_0",
        "data/weights/weight_0",
        "../x",
        "meta",
        "fake",
        "slices",
        "dtypes",
        "containers",
        "propagate",
    ),
    *("__proto__", "constructor", "toString", "hasOwnProperty", "prototype"),
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    6,
    7,
    8,
    28,
    64,
    99999,
    32767,
    32768,
    2**31,
    2**53 + 1,
    2**59,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**400,
)
FLOATS = (0.0, -0.0, 1.0, 0.5, 1e300, float("inf"), float("nan"))
_QUOTED = (*TEXTS, "as_int", "as_none", "name", "$bytes", "$float", "__proto__")
_PIECES = (rb"null true 1.0 1e5 -0 NaN {} [] , : \u0000 \ud800").split()
TOKENS = (*(json.dumps(text).encode() for text in _QUOTED), *_PIECES, b" ", b"\xef\xbb\xbf")


class Seed(NamedTuple):
    """A valid file of the suite, with the files beside it."""

    name: str
    data: bytes
    beside: dict[str, bytes]


def seeds(only: str) -> list[Seed]:
    """The valid files of the suite that both readers claim."""
    cases = json.loads((SUITE / "index.json").read_bytes())["cases"]
    found = []
    for case in cases:
        if case["valid"] and only in case["file"] and not OLDER & set(case["needs"]):
            path = SUITE / case["file"]
            stem = path.stem
            beside = {
                each.relative_to(path.parent).as_posix(): each.read_bytes()
                for each in sorted(path.parent.rglob("*"))
                if path.parent.name == "references"
                and each.is_file()
                and each.relative_to(path.parent).parts[0].startswith(stem)
                and each.suffix != ".pt2"
            }
            found.append(Seed(case["file"], path.read_bytes(), beside))
    return found


BOUNDS = "No size is such a number"
"""What is in graphwire's message about an expression of EXP-23, which a reader may accept."""
OLDER_SCHEMA = "(an older torch than 2.6) is not supported"
"""What is in graphwire-js's message about a schema of the part `older`, which it does not claim."""

# ------------------------------------------------------------------------------------------------------------ mutations


def places(tree: Any, within: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree, as the keys that lead to it."""
    yield within
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        yield from places(item, (*within, key))


def changed_text(chance: random.Random, text: str) -> str:
    """Another text, or one that differs in a few characters."""
    if not text or chance.random() < 0.3:
        return chance.choice(TEXTS)
    at, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
    piece = chance.choice(
        (
            *"_.0aé\n\r ()'[]{}:,@#-+*/<>=1\x00\u2028",
            "\\",
            "True",
            "__",
            "..",
            '"',
            text[at:end],
            chance.choice(TEXTS),
        )
    )
    return text[:at] + piece + text[at if chance.random() < 0.5 else min(end, at + 3) :]


def changed_value(chance: random.Random, value: Any) -> Any:
    """Another value, of the same kind more often than not."""
    if isinstance(value, str) and chance.random() < 0.8:
        return changed_text(chance, value)
    if isinstance(value, bool) and chance.random() < 0.6:
        return not value
    if isinstance(value, (int, float)) and chance.random() < 0.7:
        return chance.choice((*NUMBERS, *FLOATS)) if chance.random() < 0.3 else chance.choice(NUMBERS)
    return chance.choice(
        (None, True, False, [], {}, chance.choice(NUMBERS), chance.choice(FLOATS), chance.choice(TEXTS))
    )


def changed_tree(chance: random.Random, tree: Any) -> Any:
    """A tree that differs in one to three places."""
    tree = {"": copy.deepcopy(tree)}
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        every = list(places(tree))[1:]
        *steps, last = chance.choice(every)
        holder: Any = tree
        for step in steps:
            holder = holder[step]
        way = chance.randrange(16)  # most often another value
        if way == 0 and steps:
            del holder[last]
        elif way == 1 and isinstance(holder, list):
            holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(holder[last]))
        elif way == 2 and isinstance(holder, dict) and steps:
            renamed = changed_text(chance, last)
            items = [(renamed if key == last else key, value) for key, value in holder.items()]
            holder.clear()
            holder.update(items)
        elif way == 3:
            other: Any = tree
            for step in chance.choice(every):
                other = other[step]
            holder[last] = copy.deepcopy(other)
        elif way == 4 and isinstance(holder, dict) and steps:
            holder[chance.choice(TEXTS)] = changed_value(chance, holder[last])
        else:
            holder[last] = changed_value(chance, holder[last])
    return tree[""]


def sealed(
    data: bytes,
    change: Callable[[list[Member]], None],
    write: Callable[[list[Member]], bytes] = write_zip,
) -> bytes:
    """An archive with other records, whose checksums and digests are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        members = [
            Member(entry.filename.partition("/")[2], archive.read(entry), entry.compress_type)
            for entry in entries
        ]
    listed = [each for each in members if each.name == "manifest.json"]
    members = [each for each in members if each not in listed]
    change(members)
    if listed:
        members.append(manifest_of(members))
    for each in members:
        each.name = f"program/{each.name}"
    return write(members)


def _is_tree(data: bytes, suffix: str) -> bool:
    """Whether a record can be changed as a tree: seeds have records that only look like JSON."""
    try:
        return bool(data) and (suffix != "json" or json.loads(data) is not None)
    except ValueError:
        return False


REFERENCES = "data/weights/references.json"


def _odd_record(chance: random.Random, members: list[Member]) -> None:
    """Change a pickle of torch.save, the references or a config."""
    chosen = [each for each in members if each.name.endswith(".pt") and each.data[:2] == b"PK"]
    chosen += [each for each in members if each.name == REFERENCES]
    if not chosen or chance.random() < 0.2:
        configs = [each for each in members if each.name.endswith("_config.json")]
        chosen = [each for each in configs if b"path_name" in each.data] or configs
    each = chance.choice(chosen)

    def change(inner: list[Member]) -> None:
        pickle = next((one for one in inner if one.name == "data.pkl"), None)
        if pickle is not None and chance.random() < 0.9:
            pickle.data = odd_pickle(chance, pickle.data)
        else:
            inner.append(Member("byteorder", chance.choice((b"big", b"little", b"Big", b"", b"big "))))

    if each.name.endswith(".pt"):
        each.data = sealed(each.data, change)
        return
    odd = odd_references if each.name == REFERENCES else odd_config
    with suppress(ValueError):  # a record of the suite that is no JSON, since nobody reads it
        each.data = json.dumps(odd(chance, json.loads(each.data))).encode("utf-8", "surrogatepass")


def _unsealed(members: list[Member]) -> None:
    """Drop what references say of the bytes in stores."""
    each = next(each for each in members if each.name == REFERENCES)
    tree = json.loads(each.data)
    for store in tree.get("stores", ()):
        store["files"] = {}
    for reference in (
        record for table in (tree.get("records", {}), *tree.get("ranks", ())) for record in table.values()
    ):
        reference["sha256"] = ""
    each.data = json.dumps(tree).encode()


def _odd_beside(chance: random.Random, beside: dict[str, bytes]) -> dict[str, bytes]:
    """Change one of the files with weights."""
    name = chance.choice(sorted(beside))
    data = beside[name]
    if name.endswith(".safetensors") and chance.random() < 0.9:
        data = odd_store(chance, data, changed_tree)
    elif name.endswith(".json"):
        data = json.dumps(changed_tree(chance, json.loads(data))).encode("utf-8", "surrogatepass")
    else:
        data = mutated(chance, [data], ())
    return {**beside, name: data}


def changed(chance: random.Random, seed: Seed, all_seeds: list[Seed]) -> tuple[str, bytes, dict[str, bytes]]:
    """A way of change, the file that it makes, and the files beside it."""
    way = chance.choice(
        ("raw", "bytes", "tree", "tree", "tree", "tree", "zip", "form", "odd", "odd", "beside")
    )
    if way == "beside" and seed.beside:
        change = _unsealed if chance.random() < 0.9 else lambda members: None
        return way, sealed(seed.data, change), _odd_beside(chance, seed.beside)
    way = way.replace("beside", "odd")
    return way, _changed_file(chance, way, seed, all_seeds), seed.beside


def _changed_file(chance: random.Random, way: str, seed: Seed, all_seeds: list[Seed]) -> bytes:
    if way == "odd":
        return sealed(seed.data, partial(_odd_record, chance))
    if way == "raw":
        return mutated(
            chance, [seed.data, chance.choice(all_seeds).data], (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")
        )

    if way == "zip":
        return sealed(seed.data, lambda members: None, partial(odd_archive, chance))

    def change(members: list[Member]) -> None:
        chosen = [
            each
            for each in members
            if re.search(r"\.(json|msgpack|cbor)$", each.name)
            and each.name.startswith(("models/model.", "data/"))
        ]
        configs = [each for each in chosen if not each.name.startswith("models/") and len(each.data) > 20]
        member = chance.choice(configs if configs and chance.random() < 0.4 else chosen)
        suffix = member.name.rpartition(".")[2]
        wire_format = default_registry().wire_format(suffix)
        if way == "form":
            written = [each for each in members if each.name.startswith("models/model.")]
            member = written[0] if written else member
            suffix = member.name.rpartition(".")[2]
            try:
                tree = default_registry().wire_format(suffix).decode(member.data)
                member.data = odd_document(chance, tree, suffix)
            except (GraphwireError, OverflowError):  # a record that no format writes
                member.data = mutated(chance, [member.data], ())
            return
        if way == "bytes" or not _is_tree(member.data, suffix):
            member.data = mutated(chance, [member.data], TOKENS if suffix == "json" else ())
            return
        plain = member.name.startswith("models/") or suffix != "json"
        tree = changed_tree(chance, wire_format.decode(member.data) if plain else json.loads(member.data))
        member.data = (
            encode(tree, suffix)
            if plain
            else json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
        )

    return sealed(seed.data, change)


# ------------------------------------------------------------------------------------------------------------- judgement


def judged(path: Path) -> tuple[int, str]:
    """graphwire's exit code, and its output or message."""
    try:
        return 0, neutral(path).decode("utf-8", "surrogatepass")
    except GraphwireError as error:
        return 1, str(error)


def disagreement(own: tuple[int, str], other: tuple[int, str]) -> str:
    """What two readers do not agree on, or an empty text."""
    if own[0] == 1 and other[0] == 0 and BOUNDS in own[1]:
        return ""
    if own[0] == 0 and other[0] == 1 and OLDER_SCHEMA in other[1]:
        return ""
    if own[0] != other[0]:
        verdict = ("accepts", "refuses", "fails on")
        message = max((own, other), key=lambda each: each[0])[1]
        return f"graphwire {verdict[own[0]]} it, graphwire-js {verdict[other[0]]} it: {message:.300}"
    if own[0] or own[1] == other[1]:
        return ""
    return first_difference(json.loads(own[1]), json.loads(other[1]), PARTS)


def run(count: int, seed: int, only: str) -> int:
    """Try a number of files, print what came of them, and return how many the readers disagree on."""
    all_seeds = seeds(only)
    outcomes: Counter[str] = Counter()
    found = 0
    shutil.rmtree(KEPT, ignore_errors=True)
    command = ["node", "build/test/judge.js"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command, cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        ) as reader,
    ):
        assert reader.stdin is not None
        assert reader.stdout is not None
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            start = chance.choice(all_seeds)
            way, data, beside = changed(chance, start, all_seeds)
            home = Path(folder, str(number))
            path = home / "file.pt2"
            for name, content in {**beside, "file.pt2": data}.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_bytes(content)
            print(path, file=reader.stdin, flush=True)
            own = judged(path)
            problem = disagreement(own, tuple(json.loads(reader.stdout.readline())))
            outcomes[f"{way}: {'disagreed on' if problem else 'refused' if own[0] else 'accepted'}"] += 1
            if problem:
                found += 1
                KEPT.mkdir(parents=True, exist_ok=True)
                shutil.copytree(home, KEPT / f"{seed}-{number}", dirs_exist_ok=True)
                print(f"{seed}-{number} {start.name} ({way}): {problem}")
            shutil.rmtree(home)
        reader.stdin.close()
    print(", ".join(f"{key} {value}" for key, value in sorted(outcomes.items())))
    return found


def main() -> int:
    """Try as many files as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=BY_DAY)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", default="", help="only files whose names contain this")
    arguments = parser.parse_args()
    fresh = random.randrange(1_000_000) if arguments.count > BY_DAY else 0
    seed = fresh if arguments.seed is None else arguments.seed
    found = run(arguments.count, seed, arguments.only)
    if found:
        print(f"The readers disagree on {found} files, in {KEPT}: issues of the kind text, reader or suite.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
