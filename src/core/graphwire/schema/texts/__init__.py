"""How are the texts inside records parsed: expressions, guards, treespecs, metadata?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.schema.texts.constructor import (
        CONSTANTS,
        HEADS,
        Expression,
        call,
        format_expression,
        parse_expression,
        symbols_of,
    )
    from graphwire.schema.texts.evaluation import Number, evaluate
    from graphwire.schema.texts.growth import (
        MAX_REASONED,
        MAX_REASONED_IN_ALL,
        check_expression,
        check_range_key,
        growth_of,
    )
    from graphwire.schema.texts.guard import check_guard
    from graphwire.schema.texts.infix import format_infix, parse_infix
    from graphwire.schema.texts.metadata import (
        EXACT_SOURCE_FN,
        EXACT_STACK,
        EXACT_TORCH_FN,
        GRAMMARS,
        SourceRow,
        joined_module,
        parse_functions,
        parse_json,
        parse_modules,
        parse_parts,
        parse_sources,
        split_modules,
    )
    from graphwire.schema.texts.process_numbers import ProcessNumbers
    from graphwire.schema.texts.treespec import (
        LEAF,
        MAX_DEPTH,
        PROTOCOL,
        TreeSpec,
        decode_value,
        dump_json,
        encode_value,
        format_treespec,
        hashable,
        is_plain_json,
        keywords_of,
        load_json,
        parse_treespec,
        split_version,
        treespec_nodes,
        with_version,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".constructor": "CONSTANTS HEADS Expression call format_expression parse_expression symbols_of",
            ".evaluation": "Number evaluate",
            ".growth": "MAX_REASONED MAX_REASONED_IN_ALL check_expression check_range_key growth_of",
            ".guard": "check_guard",
            ".infix": "format_infix parse_infix",
            ".metadata": (
                "EXACT_SOURCE_FN EXACT_STACK EXACT_TORCH_FN GRAMMARS SourceRow joined_module "
                "parse_functions parse_json parse_modules parse_parts parse_sources split_modules"
            ),
            ".process_numbers": "ProcessNumbers",
            ".treespec": (
                "LEAF MAX_DEPTH PROTOCOL TreeSpec decode_value dump_json encode_value format_treespec "
                "hashable is_plain_json keywords_of load_json parse_treespec split_version treespec_nodes "
                "with_version"
            ),
        },
    )

__all__ = [
    "CONSTANTS",
    "EXACT_SOURCE_FN",
    "EXACT_STACK",
    "EXACT_TORCH_FN",
    "GRAMMARS",
    "HEADS",
    "LEAF",
    "MAX_DEPTH",
    "MAX_REASONED",
    "MAX_REASONED_IN_ALL",
    "PROTOCOL",
    "Expression",
    "Number",
    "ProcessNumbers",
    "SourceRow",
    "TreeSpec",
    "call",
    "check_expression",
    "check_guard",
    "check_range_key",
    "decode_value",
    "dump_json",
    "encode_value",
    "evaluate",
    "format_expression",
    "format_infix",
    "format_treespec",
    "growth_of",
    "hashable",
    "is_plain_json",
    "joined_module",
    "keywords_of",
    "load_json",
    "parse_expression",
    "parse_functions",
    "parse_infix",
    "parse_json",
    "parse_modules",
    "parse_parts",
    "parse_sources",
    "parse_treespec",
    "split_modules",
    "split_version",
    "symbols_of",
    "treespec_nodes",
    "with_version",
]
