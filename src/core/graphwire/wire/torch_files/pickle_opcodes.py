"""The names of pickle opcodes (protocols 0 to 5) as in `pickletools`, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPCODE_NAMES: Mapping[int, str] = MappingProxyType(
    {
        **dict(
            zip(
                b"(.012FIJKLMNPQRSTUVXabcdeghijl}opqrstu)]GBC",
                (
                    "MARK STOP POP POP_MARK DUP FLOAT INT BININT BININT1 LONG BININT2 NONE PERSID BINPERSID REDUCE STRING "
                    "BINSTRING SHORT_BINSTRING UNICODE BINUNICODE APPEND BUILD GLOBAL DICT APPENDS GET BINGET INST LONG_BINGET "
                    "LIST EMPTY_DICT OBJ PUT BINPUT LONG_BINPUT SETITEM TUPLE SETITEMS EMPTY_TUPLE EMPTY_LIST BINFLOAT "
                    "BINBYTES SHORT_BINBYTES"
                ).split(),
                strict=True,
            )
        ),
        **dict(
            enumerate(
                (
                    "PROTO NEWOBJ EXT1 EXT2 EXT4 TUPLE1 TUPLE2 TUPLE3 NEWTRUE NEWFALSE LONG1 LONG4 SHORT_BINUNICODE BINUNICODE8 "
                    "BINBYTES8 EMPTY_SET ADDITEMS FROZENSET NEWOBJ_EX STACK_GLOBAL MEMOIZE FRAME BYTEARRAY8 NEXT_BUFFER "
                    "READONLY_BUFFER"
                ).split(),
                start=0x80,
            )
        ),
    }
)
"""The opcode's name, by its byte."""
