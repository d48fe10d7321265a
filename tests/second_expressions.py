"""Bytes, expressions and names of symbols for `second_hash`, from docs/spec alone: nothing of graphwire."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from typing import Any

Tree = Any


# ------------------------------------------------------------------------------------------ bytes and digests (CAN-4)


def head(value: int, small: int, most: int, sizes: list[tuple[int, int]]) -> bytes:
    if value <= most:
        return bytes([small | value])
    code, width = next((code, width) for code, width in sizes if value < 1 << 8 * width)
    return bytes([code]) + value.to_bytes(width, "big")


def packed(tree: Tree) -> bytes:
    if tree is None or isinstance(tree, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[tree]
    if isinstance(tree, int):
        if 0 <= tree < 1 << 64:
            return head(tree, 0, 127, [(0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)])
        if -32 <= tree < 0:
            return tree.to_bytes(1, "big", signed=True)
        for code, width in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)):
            if -(1 << 8 * width - 1) <= tree < 0:
                return bytes([code]) + tree.to_bytes(width, "big", signed=True)
        return packed(["integer", f"{tree:x}"])
    if isinstance(tree, float):
        return b"\xcb" + (bytes.fromhex("7ff8000000000000") if math.isnan(tree) else struct.pack(">d", tree))
    if isinstance(tree, str):
        try:
            data = tree.encode()
        except UnicodeEncodeError:
            return packed(tree.encode("utf-8", "surrogatepass"))
        return head(len(data), 0xA0, 31, [(0xD9, 1), (0xDA, 2), (0xDB, 4)]) + data
    if isinstance(tree, bytes):
        return head(len(tree), 0, -1, [(0xC4, 1), (0xC5, 2), (0xC6, 4)]) + tree
    if isinstance(tree, list):
        return head(len(tree), 0x90, 15, [(0xDC, 2), (0xDD, 4)]) + b"".join(map(packed, tree))
    parts = [packed(key) + packed(tree[key]) for key in sorted(tree, key=str.encode)]
    return head(len(parts), 0x80, 15, [(0xDE, 2), (0xDF, 4)]) + b"".join(parts)


def digest(*parts: bytes | str | int) -> bytes:  # CAN-5
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.digest()


def real(value: Any) -> float:
    return float(value)  # also the texts Infinity, -Infinity and NaN


# ------------------------------------------------------------------------------------------ expressions (EXP, CAN-35)

JOINED = {"Add", "And", "Max", "Min", "Mul", "Or", "Xor"}
UNORDERED = JOINED | {"Equality", "Unequality"}
CONSTANTS: dict[str, Any] = {"true": True, "false": False, "oo": math.inf, "-oo": -math.inf, "nan": math.nan}
NAMED = {"int_oo", "-int_oo", "zoo", *CONSTANTS}
CONSTRUCTOR = re.compile(r"\s*([A-Za-z_]\w*\(|'[^']*'|-?[A-Za-z_]\w*|-?\d+|[(),=])\s*", re.ASCII)


class Constructor:
    """Reads constructor text."""

    def __init__(self, text: str) -> None:
        self.words, self.at = CONSTRUCTOR.findall(text), 0

    def take(self) -> str:
        self.at += 1
        return str(self.words[self.at - 1])

    def list(self) -> list[Tree]:
        items: list[Tree] = []
        while True:
            word = self.take()
            if word == ")":
                return items
            if word != ",":
                self.at -= 1
                items.append(self.read())

    def read(self) -> Tree:
        word = self.take()
        if not word.endswith("("):
            return word if word[0] in "'-0123456789" and word not in NAMED else [word]
        name, items = word[:-1], []
        if name in ("Symbol", "Float"):
            items.append(self.take()[1:-1])
            while self.take() == ",":
                key, _, value = self.take(), self.take(), self.take()
                items.append(int(value) if key == "precision" else [key, value == "True"])
            return [name, *items]
        items = self.list()
        return [name, *map(int, items)] if name in ("Integer", "Rational") else [name, *items]


INFIX = re.compile(
    r"""\s*([A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|'[^']*'|\*\*|//|<=|>=|==|!=|[-+*/<>=()~&|^,])\s*""",
    re.ASCII,
)
RELATIONS = {"<=": "LessThan", "<": "StrictLessThan", ">=": "GreaterThan", ">": "StrictGreaterThan"} | {
    "==": "Equality",
    "!=": "Unequality",
}
SHORT = {"Le": "LessThan", "Lt": "StrictLessThan", "Ge": "GreaterThan", "Gt": "StrictGreaterThan"} | {
    "Eq": "Equality",
    "Ne": "Unequality",
}
MINUS = ["Integer", -1]


def is_negative(tree: Tree) -> bool:
    return str(tree[1]).startswith("-")


def negated(tree: Tree) -> Tree:  # EXP-18
    if tree[0] in ("Integer", "Rational", "Float") and not is_negative(tree):
        return [tree[0], f"-{tree[1]}" if tree[0] == "Float" else -tree[1], *tree[2:]]
    if tree[0] in ("oo", "int_oo"):
        return [f"-{tree[0]}"]
    return ["Mul", MINUS, *tree[1:]] if tree[0] == "Mul" and tree[1] != MINUS else ["Mul", MINUS, tree]


def inverse(tree: Tree) -> tuple[int, list[Tree]]:  # EXP-20
    if tree[0] == "Integer" and tree[1] > 0:
        return tree[1], []
    if tree[0] == "Mul":
        parts = [inverse(each) for each in tree[1:]]
        if all(number == 1 for number, _ in parts[1:]):
            return parts[0][0], [power for _, powers in parts for power in powers]
    if tree[0] == "Pow" and tree[2][0] in ("Integer", "Rational") and not is_negative(tree[2]):
        return 1, [["Pow", tree[1], negated(tree[2])]]
    return 1, [["Pow", tree, MINUS]]


class Infix:
    """Reads infix text by its grammar."""

    def __init__(self, text: str) -> None:
        self.words, self.at = [*INFIX.findall(text), "", ""], 0

    def take(self, *wanted: str) -> str:
        word = str(self.words[self.at])
        if word not in wanted or not word:
            return ""
        self.at += 1
        return word

    def relation(self) -> Tree:
        left = self.chain("|", "Or", lambda: self.chain("^", "Xor", lambda: self.chain("&", "And", self.sum)))
        sign = self.take(*RELATIONS)
        if not sign:
            return left
        right = self.chain(
            "|", "Or", lambda: self.chain("^", "Xor", lambda: self.chain("&", "And", self.sum))
        )
        return [RELATIONS[sign], left, right]

    def chain(self, sign: str, name: str, read: Any) -> Tree:
        items = [read()]
        while self.take(sign):
            items.append(read())
        return [name, *items] if len(items) > 1 else items[0]

    def sum(self) -> Tree:
        items = [self.product()]
        while sign := self.take("+", "-"):
            item = self.product()
            items.append(negated(item) if sign == "-" else item)
        return ["Add", *items] if len(items) > 1 else items[0]

    def product(self) -> Tree:  # EXP-19
        negative = bool(self.take("-"))
        factors = [self.tight()]
        while sign := self.take("*", "/", "//"):
            item = self.signed()
            if sign == "*":
                factors.append(item)
            elif sign == "//":
                factors, negative = [["FloorDiv", joined(factors, negative), item]], False
            else:
                number, powers = inverse(item)
                if powers and factors == [["Integer", 1]]:
                    factors = []
                if number != 1:
                    if factors and factors[0][0] == "Integer" and not is_negative(factors[0]):
                        factors[0] = ["Rational", factors[0][1], number]
                    else:
                        factors.insert(0, ["Rational", 1, number])
                factors += powers
        return joined(factors, negative)

    def signed(self) -> Tree:
        return negated(self.tight()) if self.take("-") else self.tight()

    def tight(self) -> Tree:
        base = self.operand()
        return ["Pow", base, self.signed()] if self.take("**") else base

    def operand(self) -> Tree:
        if self.take("("):
            inner = self.relation()
            self.at += 1
            return inner
        if self.take("~"):
            return ["Not", self.signed()]
        if self.take("-"):
            return negated(self.signed())
        word = str(self.words[self.at])
        self.at += 1
        if word.isdigit():
            return ["Integer", int(word)]
        if word[0] in ".0123456789":
            return ["Float", f"0{word.lower()}" if word[0] == "." else word.lower(), 53]
        if not self.take("("):
            word = {"True": "true", "False": "false"}.get(word, word)
            return [word] if word in NAMED else ["Symbol", word]
        if word == "Float":
            text, precision = self.words[self.at], self.words[self.at + 4]
            self.at += 6
            return ["Float", text[1:-1], int(precision)]
        items = []
        while not self.take(")"):
            self.take(",")
            if word == "Piecewise":
                self.at += 1
                value = self.relation()
                self.at += 1
                items.append(["ExprCondPair", value, self.relation()])
                self.at += 1
            else:
                items.append(self.relation())
        if word == "sqrt":
            return ["Pow", *items, ["Rational", 1, 2]]
        return [word, items[0][1], items[1][1]] if word == "Rational" else [SHORT.get(word, word), *items]


def joined(factors: list[Tree], negative: bool) -> Tree:
    if len(factors) > 1:
        return ["Mul", MINUS, *factors] if negative else ["Mul", *factors]
    if not negative:
        return factors[0]
    return ["Mul", MINUS, factors[0]] if factors[0][0] == "Mul" else negated(factors[0])


def fraction(numerator: int, denominator: int) -> Tree:
    common = math.gcd(numerator, denominator)
    numerator, denominator = numerator // common, denominator // common
    return numerator if denominator == 1 else ["Rational", numerator, denominator]


def content(tree: Tree, names: dict[str, str]) -> Tree:
    name, *parts = tree
    if name == "Integer":
        return parts[0]
    if name == "Rational":
        return fraction(*parts)
    if name == "Float":
        return float(parts[0]) if parts[1] == 53 else ["Float", *parts]
    if name == "Symbol":
        return ["symbol", names.get(parts[0], parts[0])]
    if not parts:
        return CONSTANTS.get(name, [name])
    operands: list[Tree] = []
    for part in parts:  # CAN-40
        found = content(part, names)
        merges = name in JOINED and isinstance(found, list) and found[0] == name
        operands += found[1:] if merges else [found]
    if name == "Mul":
        numerator, denominator, others = 1, 1, []
        for factor in operands:
            is_fraction = isinstance(factor, list) and factor[0] == "Rational"
            p, q = factor[1:] if is_fraction else (factor, 1)
            if (is_fraction or type(factor) is int) and max(
                (numerator * p).bit_length(), (denominator * q).bit_length()
            ) <= 256:
                numerator, denominator = numerator * p, denominator * q
            else:
                others.append(factor)
        number = fraction(numerator, denominator)
        operands = others if number == 1 and others else [number, *others]
    if name in JOINED and len(operands) == 1:
        return operands[0]
    if name in UNORDERED:
        operands.sort(key=packed)
    if name in ("GreaterThan", "StrictGreaterThan"):
        return [name.replace("Greater", "Less"), operands[1], operands[0]]
    return [name, *operands]


def symbols(tree: Tree) -> list[str]:
    if tree[0] == "Symbol":
        return [tree[1]]
    return list(dict.fromkeys(name for part in tree[1:] if isinstance(part, list) for name in symbols(part)))


# ------------------------------------------------------------------------------------------ symbols (CAN-41 to CAN-43)


def symbol_names(texts: list[str], ranges: dict[str, Any]) -> dict[str, str]:
    trees = [Constructor(text).read() for text in dict.fromkeys(texts)]
    keys = [
        (Infix(text).relation(), packed([ends["min_val"], ends["max_val"]])) for text, ends in ranges.items()
    ]
    groups: list[list[str]] = []
    for tree in trees:
        groups.append([name for name in symbols(tree) if not any(name in group for group in groups)])
    known = {name for group in groups for name in group}
    groups.append(list({name: None for key, _ in keys for name in symbols(key) if name not in known}))

    def letters(name: str) -> str:
        found = re.fullmatch(r"([a-z]+)[0-9]+", name, re.ASCII)
        return found[1] if found else "s"

    open_ended = {"min_val": None, "max_val": None}
    own = {name: ranges.get(name, open_ended) for group in groups for name in group}
    colours = {
        name: digest(letters(name), packed([ends["min_val"], ends["max_val"]])) for name, ends in own.items()
    }
    distinct = {packed(each): each for each in (content(tree, {}) for tree in trees)}
    placed = [(each, digest("value", number)) for number, each in enumerate(distinct.values())]
    placed += [(content(key, {}), digest("range", ends)) for key, ends in keys]
    for _ in range(2):
        ways: dict[str, list[bytes]] = {name: [] for name in colours}
        for each, way in placed:
            note_ways(each, way, colours, ways)
        colours = {name: digest(colours[name], *sorted(found)) for name, found in ways.items()}
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for name in (name for group in groups for name in sorted(group, key=lambda each: (colours[each], each))):
        number = counts[letters(name)] = counts.get(letters(name), -1) + 1
        names[name] = f"{letters(name)}{number}"
    return names


def shape(tree: Tree, colours: dict[str, bytes]) -> bytes:
    if not isinstance(tree, list):
        return digest("number", packed(tree))
    if tree[0] == "symbol":
        return colours[tree[1]]
    parts = [shape(part, colours) for part in tree[1:]]
    return digest(tree[0], *(sorted(parts) if tree[0] in UNORDERED else parts))


def note_ways(tree: Tree, way: bytes, colours: dict[str, bytes], ways: dict[str, list[bytes]]) -> None:
    if not isinstance(tree, list):
        return
    if tree[0] == "symbol":
        ways[tree[1]].append(way)
        return
    for index, part in enumerate(tree[1:]):
        step = shape(part, colours) if tree[0] in UNORDERED else index
        note_ways(part, digest(way, shape(tree, colours), step), colours, ways)
