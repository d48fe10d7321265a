"""How do programs become bytes, and bytes programs again?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.aligned_memory import ALIGNMENT, address, allocate, copy_bytes, memory_at
    from graphwire.wire.attempts import DEFAULT_ATTEMPTS, Attempts, ShortAnswerError
    from graphwire.wire.closing import Closing
    from graphwire.wire.json_records import decode_json_record, lost_a_key
    from graphwire.wire.limits import DEFAULT_LIMITS, Limits
    from graphwire.wire.payloads import (
        CONSTANTS,
        SAMPLE_INPUTS,
        WEIGHTS,
        Payloads,
        RangedRecord,
        Record,
        RecordCheck,
        extent,
        known_integers,
        strided_bytes,
    )
    from graphwire.wire.pickle_limits import DEFAULT_PICKLE_LIMITS, PickleLimits, check_pickle_value
    from graphwire.wire.plain_trees import (
        MAX_DEPTH,
        MAX_RECORDS,
        check_containers,
        check_expanded_size,
        check_plugin_tree,
        measure_tree,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".aligned_memory": "ALIGNMENT address allocate copy_bytes memory_at",
            ".attempts": "DEFAULT_ATTEMPTS Attempts ShortAnswerError",
            ".closing": "Closing",
            ".json_records": "decode_json_record lost_a_key",
            ".limits": "DEFAULT_LIMITS Limits",
            ".payloads": (
                "CONSTANTS SAMPLE_INPUTS WEIGHTS Payloads RangedRecord Record RecordCheck extent "
                "known_integers strided_bytes"
            ),
            ".pickle_limits": "DEFAULT_PICKLE_LIMITS PickleLimits check_pickle_value",
            ".plain_trees": (
                "MAX_DEPTH MAX_RECORDS check_containers check_expanded_size check_plugin_tree measure_tree"
            ),
        },
    )

__all__ = [
    "ALIGNMENT",
    "CONSTANTS",
    "DEFAULT_ATTEMPTS",
    "DEFAULT_LIMITS",
    "DEFAULT_PICKLE_LIMITS",
    "MAX_DEPTH",
    "MAX_RECORDS",
    "SAMPLE_INPUTS",
    "WEIGHTS",
    "Attempts",
    "Closing",
    "Limits",
    "Payloads",
    "PickleLimits",
    "RangedRecord",
    "Record",
    "RecordCheck",
    "ShortAnswerError",
    "address",
    "allocate",
    "check_containers",
    "check_expanded_size",
    "check_pickle_value",
    "check_plugin_tree",
    "copy_bytes",
    "decode_json_record",
    "extent",
    "known_integers",
    "lost_a_key",
    "measure_tree",
    "memory_at",
    "strided_bytes",
]
