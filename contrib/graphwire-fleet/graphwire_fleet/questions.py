"""The questions that have a command of their own: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from graphwire_fleet.parameters import distribution_named, operators_named, target_facts


class Parameter(NamedTuple):
    """What a question is asked with: a word of the command line; or if its name begins with `--` an option, None if absent."""

    name: str
    help: str
    values: Callable[[Any, Sequence[str]], Mapping[str, Any]]
    """Returns the values of `$…` in the SQL for a word, and what `names` selects. It raises a `GraphwireError` for a word that
    means nothing."""
    names: str = ""
    """The SQL that selects the names in the catalogue of which the word is one; empty if the word is no such name."""
    type: type[int | str] = str
    """What the word is."""


class Question(NamedTuple):
    """A question about a catalogue, and the command that asks it."""

    help: str
    sql: str
    parameters: tuple[Parameter, ...] = ()
    catalogues: tuple[str, ...] = ("main",)
    """The schema of the views of each catalogue that it is about."""
    works: tuple[str, ...] = ("inspect",)
    """What the files of the catalogues must have been read for."""
    finds: bool = False
    """Whether its rows are problems or differences, for which the exit code is 1."""


_USES = """
    -- $targets: what the name means, such as ['torch.ops.aten.add.Tensor', '_operator.add']
    SELECT file, method, graph, node, target, arguments, module
    FROM (
      SELECT file, method, graph, index, name AS node, target, arguments, module FROM nodes
      UNION ALL BY NAME
      SELECT file, method, unnest(map_keys(operators)) AS target
      FROM programs SEMI JOIN (FROM files WHERE work = 'inspect' AND settings->>'nodes' = 'false') USING (file)
    )
    WHERE list_contains($targets, target)
    ORDER BY file, method, graph, index
"""

_OPERATOR_NAMES = "SELECT DISTINCT unnest(map_keys(operators)) FROM programs"

_PLUGINS = """
    SELECT each.distribution, each.version, each.provides, file, method, NULL AS failure
    FROM programs, UNNEST(plugins) AS of(each)
    WHERE $plugin IS NULL OR each.distribution = $plugin
    UNION ALL
    SELECT NULL, NULL, NULL, file, NULL, failure
    FROM files
    WHERE failure_kind IN ('MissingPluginError', 'UnknownFormatError')
      AND ($plugin IS NULL OR contains(concat(failure, ' ', failure_remedy), $plugin))
    ORDER BY ALL
"""

_DISTRIBUTION_NAMES = """
    SELECT each.distribution FROM programs, UNNEST(plugins) AS of(each)
    UNION
    SELECT unnest(regexp_extract_all(concat(failure, ' ', failure_remedy), '[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?'))
    FROM files WHERE failure_kind IN ('MissingPluginError', 'UnknownFormatError')
"""

_UNREADABLE = """
    SELECT file, method, readable_from, fits AS convertible,
      [concat_ws(': ', nullif(each.node, ''), each.construct) FOR each IN obstacles] AS obstacles, NULL AS failure
    FROM programs LEFT JOIN (FROM targets WHERE target = $target) USING (file, method)
    WHERE readable_from NOT LIKE 'torch-%'
      OR 1000 * split_part(readable_from[7:], '.', 1)::INTEGER + split_part(readable_from[7:], '.', 2)::INTEGER > $release
    UNION ALL
    SELECT file, NULL, NULL, NULL, NULL, failure FROM files WHERE work = 'inspect' AND failure IS NOT NULL
    ORDER BY ALL
"""

_SHARED = """
    WITH known AS (
      SELECT file, method, bytes, digest, concat_ws(' ', 'crc32', crc, bytes, dtype, shape) AS sum
      FROM weights WHERE tied_to = '' AND bytes >= $least AND (digest IS NOT NULL OR crc IS NOT NULL)
    ), same AS (
      SELECT *, coalesce(digest, min(digest) OVER (PARTITION BY sum), sum) AS content FROM known
    ), held AS (
      SELECT content, any_value(bytes) AS bytes, bool_and(digest IS NOT NULL) AS proven,
        list_sort(list(DISTINCT {'file': file, 'method': method})) AS programs
      FROM same GROUP BY content HAVING count(DISTINCT (file, method)) > 1
    )
    SELECT programs, count(*) AS weights, sum(bytes)::BIGINT AS bytes,
      CASE WHEN bool_and(proven) THEN 'digests' ELSE 'checksums' END AS known_by
    FROM held GROUP BY programs ORDER BY bytes DESC, programs
"""

_COMPARED = (
    "hash format producer torch_version schema_version readable_from opsets requires plugins interface parameters"
    " parameter_bytes buffer_bytes constant_bytes weights"
).split()

_SIDE = """(
      SELECT '{schema}' AS side, programs.*, contents AS weights FROM {schema}.programs LEFT JOIN (
        SELECT file, method, md5(string_agg(concat_ws(' ', name, dtype, shape, coalesce(digest, crc::VARCHAR)) ORDER BY name))
          AS contents
        FROM {schema}.weights GROUP BY file, method
      ) USING (file, method))"""

_DIFFERS = ", ".join(f"CASE WHEN a.{name} IS DISTINCT FROM b.{name} THEN '{name}' END" for name in _COMPARED)

_CHANGES = f"""
    WITH compared AS (
      SELECT file, method,
        CASE WHEN b.side IS NULL THEN 'added' WHEN a.side IS NULL THEN 'removed' ELSE 'changed' END AS change,
        CASE WHEN a.side IS NOT NULL AND b.side IS NOT NULL
          THEN list_filter([{_DIFFERS}], lambda each: each IS NOT NULL) END AS columns
      FROM {_SIDE.format(schema="before")} b FULL JOIN {_SIDE.format(schema="after")} a USING (file, method)
    ), failed AS (
      SELECT file, NULL AS method,
        CASE WHEN b.failure IS NULL THEN 'fails' WHEN a.failure IS NULL THEN 'fails no more' ELSE 'fails otherwise' END
          AS change,
        [a.failure] AS columns
      FROM (FROM before.files WHERE work = 'inspect') b FULL JOIN (FROM after.files WHERE work = 'inspect') a USING (file)
      WHERE a.failure IS DISTINCT FROM b.failure
    )
    SELECT file, method, change, columns FROM compared WHERE change <> 'changed' OR len(columns) > 0
    UNION ALL SELECT file, method, change, columns FROM failed
    ORDER BY ALL
"""

_OUTDATED = """
    SELECT file, method, each.step, len(each.nodes) AS count, each.nodes
    FROM programs, UNNEST(steps) AS of(each)
    WHERE starts_with(each.step, 'opset')
    ORDER BY ALL
"""

_FAILURES = """
    SELECT file, work, failure_kind AS kind, failure, failure_place AS place, failure_remedy AS remedy
    FROM files WHERE failure IS NOT NULL
    UNION ALL
    SELECT file, 'verify', kind, message, place, NULL FROM problems
    ORDER BY ALL
"""

QUESTIONS: Final[dict[str, Question]] = {
    "uses": Question(
        "list the calls of an operator, with their arguments",
        _USES,
        (
            Parameter(
                "OPERATOR",
                "such as add, aten.add or aten.add.Tensor",
                operators_named,
                _OPERATOR_NAMES,
            ),
        ),
    ),
    "plugins": Question(
        "list the programs that need a plugin, and what for",
        _PLUGINS,
        (
            Parameter(
                "--distribution",
                "only this one, such as graphwire-torchao",
                distribution_named,
                _DISTRIBUTION_NAMES,
            ),
        ),
    ),
    "unreadable": Question(
        "list the programs that a release of torch cannot read as they are, and whether they can be converted",
        _UNREADABLE,
        (Parameter("TARGET", "such as torch-2.6", target_facts),),
        works=("inspect", "targets"),
        finds=True,
    ),
    "shared": Question(
        "list the programs that have the same weights",
        _SHARED,
        (
            Parameter(
                "--least",
                "only weights of this many bytes or more (default: 1024)",
                lambda number, _: {"least": 1024 if number is None else number},
                type=int,
            ),
        ),
    ),
    "changes": Question(
        "list what is different in a newer catalogue", _CHANGES, catalogues=("before", "after"), finds=True
    ),
    "outdated": Question("list the nodes that an upgrade to the installed operators would change", _OUTDATED),
    "failures": Question(
        "list the files that cannot be read, and the problems of the others", _FAILURES, works=(), finds=True
    ),
}
"""The questions by the name of their action."""
