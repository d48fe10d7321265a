"""Where does the caller want the weights of a program, and where are they?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.api.weights.attached import (
        AttachedWeights,
        chosen_checkpoint,
        records_in_store,
        store_files,
    )
    from graphwire.api.weights.choices import (
        AS_SAVED,
        IN_FILE,
        STORE_CHOICES,
        Blobs,
        Checkpoint,
        Default,
        LoadWeights,
        SaveWeights,
        WeightChoice,
        check_target_weights,
        check_weights_choice,
        located_weights,
    )
    from graphwire.api.weights.listing import WeightInfo, export_weights, list_weights
    from graphwire.api.weights.saving import references_for, requires_external, without_external
else:
    __getattr__ = door(
        __name__,
        {
            ".attached": "AttachedWeights chosen_checkpoint records_in_store store_files",
            ".choices": (
                "AS_SAVED IN_FILE STORE_CHOICES Blobs Checkpoint Default LoadWeights SaveWeights "
                "WeightChoice check_target_weights check_weights_choice located_weights"
            ),
            ".listing": "WeightInfo export_weights list_weights",
            ".saving": "references_for requires_external without_external",
        },
    )

__all__ = [
    "AS_SAVED",
    "IN_FILE",
    "STORE_CHOICES",
    "AttachedWeights",
    "Blobs",
    "Checkpoint",
    "Default",
    "LoadWeights",
    "SaveWeights",
    "WeightChoice",
    "WeightInfo",
    "check_target_weights",
    "check_weights_choice",
    "chosen_checkpoint",
    "export_weights",
    "list_weights",
    "located_weights",
    "records_in_store",
    "references_for",
    "requires_external",
    "store_files",
    "without_external",
]
