"""The tables of a catalogue: one table of columns, from which files, views and the documentation follow.

A change of a column is a change of `SCHEMA`: readers of another number refuse the catalogue.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

SCHEMA: Final = 1
"""The version of the columns, and of the layout of a catalogue."""

TEXT: Final = pa.string()
INT: Final = pa.int64()
TEXTS: Final = pa.list_(TEXT)


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: pa.DataType
    help: str


class Table(NamedTuple):
    """A table of a catalogue: a folder of Parquet files, and a view of the same name."""

    name: str
    help: str
    columns: tuple[Column, ...]

    def schema(self) -> pa.Schema:
        """Return the columns as Arrow has them."""
        return pa.schema([pa.field(each.name, each.type) for each in self.columns])


def _record(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, type) for name, type in fields.items()])


_VALUE: Final = _record(name=TEXT, role=TEXT, kind=TEXT, dtype=TEXT, shape=TEXT, device=TEXT, value=TEXT)
_READ: Final = Column("read", INT, "the number of the reading that the row is from, as in `files`")
_FILE: Final = Column("file", TEXT, "the path or URL of the file")
_METHOD: Final = Column("method", TEXT, "the name of the program in the file")

FILES: Final = "files"
"""The table with a row for each reading of a file."""


def _table(name: str, help: str, *columns: tuple[str, pa.DataType, str] | Column) -> tuple[str, Table]:
    return name, Table(name, help, tuple(Column(*each) for each in columns))


TABLES: Final[dict[str, Table]] = dict(
    (
        _table(
            FILES,
            "a file, and what it was read for: one row for each of `inspect`, `verify`, `targets`",
            ("read", INT, "the number of this reading, which the rows of other tables refer to"),
            _FILE,
            ("work", TEXT, "what it was read for: `inspect`, `verify` or `targets`"),
            ("settings", TEXT, "the options of that, as JSON"),
            ("stamp", TEXT, "changes whenever the file changes"),
            ("bytes", INT, "the size of the file"),
            ("sha256", TEXT, "the digest of the file in hexadecimal, with `verify --sha256`"),
            ("layout", TEXT, "the layout of its records, such as `B2 (torch 2.9)`, with `inspect`"),
            (
                "payload_bytes",
                INT,
                "the size of all weights, constants and sample inputs in it, with `inspect`",
            ),
            ("extra_files", TEXTS, "the paths of its extra files, with `inspect`"),
            ("problems", INT, "how many problems it has, with `verify`"),
            ("failure_kind", TEXT, "the class of the error that ended the reading; null if none did"),
            ("failure", TEXT, "what is wrong"),
            ("failure_place", TEXT, "where"),
            ("failure_remedy", TEXT, "what to do next"),
            ("seconds", pa.float64(), "how long the reading took"),
            (
                "readers",
                TEXTS,
                "graphwire, its plugins and torch as they were installed, such as `graphwire 0.1.0`",
            ),
            ("read_at", pa.timestamp("us"), "when the row was written, in UTC"),
        ),
        _table(
            "programs",
            "a program (`inspect`)",
            _READ,
            _FILE,
            _METHOD,
            (
                "hash",
                TEXT,
                "the content hash: equal for two exports of one model; null if it cannot be computed",
            ),
            ("format", TEXT, "the wire format of the document"),
            ("document_bytes", INT, "the size of the document, inflated"),
            ("stored_bytes", INT, "the size of the document in the file"),
            ("producer", TEXT, "what wrote the file, such as `torch 2.6` or `graphwire 0.1.0`"),
            ("torch_version", TEXT, "the release of torch that exported the program"),
            ("schema_version", TEXT, "the schema version of the document"),
            (
                "readable_from",
                TEXT,
                "the oldest reader of the file as it is, such as `torch-2.9`, or `graphwire-0.1`",
            ),
            ("opsets", pa.map_(TEXT, INT), "the version of each operator namespace"),
            ("dialects", TEXTS, "such as `ATEN`"),
            ("requires", TEXTS, "the extensions that a reader must support"),
            (
                "plugins",
                pa.list_(_record(distribution=TEXT, version=TEXT, provides=TEXTS)),
                "the plugins that it needs, and what for",
            ),
            ("interface", TEXT, "the arguments and the result, as text"),
            ("inputs", pa.list_(_VALUE), "the inputs that the caller passes"),
            ("outputs", pa.list_(_VALUE), "the outputs, mutations included"),
            (
                "symbols",
                pa.list_(_record(name=TEXT, label=TEXT, range=TEXT)),
                "the dynamic sizes and their ranges",
            ),
            ("guards", TEXTS, "the conditions on the inputs"),
            ("nodes", INT, "how many nodes all graphs have"),
            ("subgraphs", INT, "how many graphs are nested"),
            ("values", INT, "how many named values all graphs have"),
            ("operators", pa.map_(TEXT, INT), "the calls of each operator"),
            *(
                (name, INT, help)
                for kind in ("parameter", "buffer", "constant")
                for name, help in (
                    (f"{kind}s", f"how many {kind}s"),
                    (f"{kind}_elements", "their elements"),
                    (f"{kind}_bytes", "their bytes"),
                )
            ),
            (
                "modules",
                pa.list_(_record(name=TEXT, type=TEXT, nodes=INT, elements=INT)),
                "the submodules of the root",
            ),
            (
                "steps",
                pa.list_(_record(step=TEXT, nodes=TEXTS)),
                "the steps to the installed versions of schema and operators, and the nodes that each rewrites",
            ),
            ("derived", TEXTS, "what the file lacks and a load derives"),
            ("absent", TEXTS, "what the file lacks"),
            ("dropped", pa.list_(_record(what=TEXT, reason=TEXT)), "what a load leaves out"),
            ("contains", TEXTS, "what it has besides program and weights, such as stack traces"),
        ),
        _table(
            "nodes",
            "a call of an operator, in any graph of a program (`inspect`)",
            _READ,
            _FILE,
            _METHOD,
            (
                "graph",
                TEXT,
                "the names of the enclosing subgraphs, joined by slashes; empty in the top-level graph",
            ),
            ("index", INT, "its position in that graph, from 0"),
            ("name", TEXT, "the name of the node"),
            ("target", TEXT, "the serialized name of the operator, such as `torch.ops.aten.add.Tensor`"),
            ("operator", TEXT, "the operator without its overload, such as `aten.add`"),
            ("overload", TEXT, "the overload, such as `Tensor`; empty if the operator has none"),
            ("arguments", TEXT, "the arguments as JSON, by parameter"),
            (
                "outputs",
                pa.list_(_record(name=TEXT, dtype=TEXT, shape=TEXT, device=TEXT)),
                "its results; type, shape and device of tensors",
            ),
            ("module", TEXT, "the path of the module that calls it; empty for the root"),
            ("module_type", TEXT, "the class of that module; empty if the file does not name it"),
        ),
        _table(
            "weights",
            "a parameter or buffer (`inspect`)",
            _READ,
            _FILE,
            _METHOD,
            ("name", TEXT, "the qualified name"),
            ("dtype", TEXT, "the element type; empty for a weight that a codec encodes"),
            ("shape", pa.list_(INT), "the sizes"),
            ("bytes", INT, "the size of its elements"),
            ("place", TEXT, "where its elements are: `file`, a store and its tensor, or `nowhere`"),
            ("tied_to", TEXT, "the earlier weight that is the same tensor; empty if there is none"),
            (
                "digest",
                TEXT,
                "the digest of its bytes, such as `sha256:…`; null if the file lists none",
            ),
            ("crc", INT, "the CRC-32 of its bytes that the archive lists; null if they are elsewhere"),
        ),
        _table(
            "targets",
            "a reader that a program can or cannot be written for (`targets`)",
            _READ,
            _FILE,
            _METHOD,
            ("target", TEXT, "such as `torch-2.6`, or the schema version `8.14`"),
            ("fits", pa.bool_(), "whether it can be written for it"),
            (
                "obstacles",
                pa.list_(_record(place=TEXT, node=TEXT, construct=TEXT, first=TEXT)),
                "why it cannot, and the first target that each is possible for",
            ),
        ),
        _table(
            "problems",
            "a problem of a file (`verify`)",
            _READ,
            _FILE,
            ("place", TEXT, "where"),
            ("kind", TEXT, "the rule"),
            ("message", TEXT, "what is wrong"),
        ),
    )
)
"""Every table by name."""
