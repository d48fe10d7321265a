"""Where are the weights that a file only refers to, and how are they found, checked and read?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.weights.boxes import is_dense
    from graphwire.wire.weights.external_record import ExternalRecord
    from graphwire.wire.weights.folder import Folder
    from graphwire.wire.weights.locations import check_location, location_problem
    from graphwire.wire.weights.matching import (
        Match,
        Names,
        Piece,
        Weight,
        WeightRecord,
        match_records,
        weight_records,
    )
    from graphwire.wire.weights.opened_stores import (
        OpenedStores,
        StorePlace,
        find_store,
        store_named,
    )
    from graphwire.wire.weights.piece_digests import PIECE_BYTES, digests_of, piece_digest
    from graphwire.wire.weights.reference_table import (
        RANK_REMEDY,
        REFERENCES,
        check_rank,
        read_references,
        records_of_rank,
        write_references,
    )
    from graphwire.wire.weights.remote_folder import RemoteFolder
    from graphwire.wire.weights.writing import write_weights
else:
    __getattr__ = door(
        __name__,
        {
            ".boxes": "is_dense",
            ".external_record": "ExternalRecord",
            ".folder": "Folder",
            ".locations": "check_location location_problem",
            ".matching": "Match Names Piece Weight WeightRecord match_records weight_records",
            ".opened_stores": "OpenedStores StorePlace find_store store_named",
            ".piece_digests": "PIECE_BYTES digests_of piece_digest",
            ".reference_table": "RANK_REMEDY REFERENCES check_rank read_references records_of_rank write_references",
            ".remote_folder": "RemoteFolder",
            ".writing": "write_weights",
        },
    )

__all__ = [
    "PIECE_BYTES",
    "RANK_REMEDY",
    "REFERENCES",
    "ExternalRecord",
    "Folder",
    "Match",
    "Names",
    "OpenedStores",
    "Piece",
    "RemoteFolder",
    "StorePlace",
    "Weight",
    "WeightRecord",
    "check_location",
    "check_rank",
    "digests_of",
    "find_store",
    "is_dense",
    "location_problem",
    "match_records",
    "piece_digest",
    "read_references",
    "records_of_rank",
    "store_named",
    "weight_records",
    "write_references",
    "write_weights",
]
