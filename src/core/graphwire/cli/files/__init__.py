"""Which files does a command read, and how does it end if some of them fail?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.cli.files.destination import (
        Destination,
        add_dry_run,
        add_output,
        add_rewriting,
        destination_of,
        rewritten,
    )
    from graphwire.cli.files.each_file import FAILED, FOUND, OK, Task, for_each_file
    from graphwire.cli.files.inputs import STDIN, Input, input_named, inputs_of
    from graphwire.cli.files.options import (
        add_files,
        add_json,
        add_limits,
        add_method,
        add_opset,
        add_options,
        add_selection,
        add_storage_options,
        add_target,
        add_weight_source,
        open_options,
        place_of,
    )
    from graphwire.cli.files.read_files import READ_OPTIONS, ReadFiles
else:
    __getattr__ = door(
        __name__,
        {
            ".destination": "Destination add_dry_run add_output add_rewriting destination_of rewritten",
            ".each_file": "FAILED FOUND OK Task for_each_file",
            ".inputs": "STDIN Input input_named inputs_of",
            ".options": (
                "add_files add_json add_limits add_method add_opset add_options add_selection add_storage_options "
                "add_target add_weight_source open_options place_of"
            ),
            ".read_files": "READ_OPTIONS ReadFiles",
        },
    )

__all__ = [
    "FAILED",
    "FOUND",
    "OK",
    "READ_OPTIONS",
    "STDIN",
    "Destination",
    "Input",
    "ReadFiles",
    "Task",
    "add_dry_run",
    "add_files",
    "add_json",
    "add_limits",
    "add_method",
    "add_opset",
    "add_options",
    "add_output",
    "add_rewriting",
    "add_selection",
    "add_storage_options",
    "add_target",
    "add_weight_source",
    "destination_of",
    "for_each_file",
    "input_named",
    "inputs_of",
    "open_options",
    "place_of",
    "rewritten",
]
