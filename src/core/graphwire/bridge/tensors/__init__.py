"""How are torch's tensors, storages and symbolic sizes converted to records and back?"""

from graphwire.bridge.tensors.codecs import codec_for
from graphwire.bridge.tensors.payloads import decode_payloads, encode_payloads
from graphwire.bridge.tensors.storages import RecordTable, StorageTable, byte_span, is_plain, storage_key
from graphwire.bridge.tensors.symbols import (
    decode_number,
    decode_ranges,
    decode_replacements,
    encode_number,
    encode_ranges,
    encode_replacements,
    infer_hints,
    is_cheap_to_compute,
    ranges_by_expression,
)
from graphwire.bridge.tensors.tensor_metas import (
    DTYPES,
    LAYOUT_KINDS,
    LAYOUTS,
    MEMORY_FORMAT_KINDS,
    MEMORY_FORMATS,
    NAMED_DTYPES,
    NAMED_LAYOUTS,
    SCALAR_TYPES,
    decode_device,
    decode_dtype,
    decode_tensor_meta,
    encode_device,
    encode_tensor_meta,
    name_in_torch,
    target_device,
)
from graphwire.bridge.tensors.tensor_subclasses import decode_composition, encode_composition
from graphwire.bridge.tensors.weight_checks import check_weights, record_edited_values

__all__ = [
    "DTYPES",
    "LAYOUTS",
    "LAYOUT_KINDS",
    "MEMORY_FORMATS",
    "MEMORY_FORMAT_KINDS",
    "NAMED_DTYPES",
    "NAMED_LAYOUTS",
    "SCALAR_TYPES",
    "RecordTable",
    "StorageTable",
    "byte_span",
    "check_weights",
    "codec_for",
    "decode_composition",
    "decode_device",
    "decode_dtype",
    "decode_number",
    "decode_payloads",
    "decode_ranges",
    "decode_replacements",
    "decode_tensor_meta",
    "encode_composition",
    "encode_device",
    "encode_number",
    "encode_payloads",
    "encode_ranges",
    "encode_replacements",
    "encode_tensor_meta",
    "infer_hints",
    "is_cheap_to_compute",
    "is_plain",
    "name_in_torch",
    "ranges_by_expression",
    "record_edited_values",
    "storage_key",
    "target_device",
]
