"""Where are the weights that a file only refers to, and how are they found, checked and read?"""

from graphwire.wire.weights.boxes import is_dense
from graphwire.wire.weights.external_record import ExternalRecord
from graphwire.wire.weights.folder import Folder, check_location, location_problem
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
    RANK_REMEDY,
    OpenedStores,
    StorePlace,
    find_store,
    store_named,
)
from graphwire.wire.weights.piece_digests import PIECE_BYTES, digests_of, piece_digest
from graphwire.wire.weights.reference_table import (
    REFERENCES,
    check_rank,
    read_references,
    records_of_rank,
    write_references,
)
from graphwire.wire.weights.remote_folder import RemoteFolder
from graphwire.wire.weights.writing import write_weights

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
