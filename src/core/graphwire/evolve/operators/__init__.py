"""How did operators change between schema versions and releases?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.evolve.operators.availability import (
        is_nameless,
        newest_release,
        release_with,
        report_newer_operators,
        uncertain_calls,
    )
    from graphwire.evolve.operators.flash_attention import reshape_attention
    from graphwire.evolve.operators.operators import operators_down, operators_up
    from graphwire.evolve.operators.release_forms import forms_of_parameters, forms_of_release, with_forms
    from graphwire.evolve.operators.size_assertions import relax_size_assertions
else:
    __getattr__ = door(
        __name__,
        {
            ".availability": "is_nameless newest_release release_with report_newer_operators uncertain_calls",
            ".flash_attention": "reshape_attention",
            ".operators": "operators_down operators_up",
            ".release_forms": "forms_of_parameters forms_of_release with_forms",
            ".size_assertions": "relax_size_assertions",
        },
    )

__all__ = [
    "forms_of_parameters",
    "forms_of_release",
    "is_nameless",
    "newest_release",
    "operators_down",
    "operators_up",
    "relax_size_assertions",
    "release_with",
    "report_newer_operators",
    "reshape_attention",
    "uncertain_calls",
    "with_forms",
]
