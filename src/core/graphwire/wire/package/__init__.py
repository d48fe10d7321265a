"""Where does an archive store the documents and payloads of its programs?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.package.document import (
        HEAD_BYTES,
        detect_format,
        read_document,
        read_program,
        write_document,
        write_plain_json,
        write_program,
    )
    from graphwire.wire.package.layouts import BARE_DOCUMENT, OWN_LAYOUT, PROVIDERS, config_members
    from graphwire.wire.package.package_reader import NO_MANIFEST, Package
    from graphwire.wire.package.package_writer import Document, begin_digests, save_package, write_package
    from graphwire.wire.package.treespec_document import (
        check_treespec_protocol,
        read_treespec,
        write_treespec,
    )
    from graphwire.wire.package.weight_names import sanitize_payload_names, sanitize_weight_names
else:
    __getattr__ = door(
        __name__,
        {
            ".document": (
                "HEAD_BYTES detect_format read_document read_program write_document write_plain_json "
                "write_program"
            ),
            ".layouts": "BARE_DOCUMENT OWN_LAYOUT PROVIDERS config_members",
            ".package_reader": "NO_MANIFEST Package",
            ".package_writer": "Document begin_digests save_package write_package",
            ".treespec_document": "check_treespec_protocol read_treespec write_treespec",
            ".weight_names": "sanitize_payload_names sanitize_weight_names",
        },
    )

__all__ = [
    "BARE_DOCUMENT",
    "HEAD_BYTES",
    "NO_MANIFEST",
    "OWN_LAYOUT",
    "PROVIDERS",
    "Document",
    "Package",
    "begin_digests",
    "check_treespec_protocol",
    "config_members",
    "detect_format",
    "read_document",
    "read_program",
    "read_treespec",
    "sanitize_payload_names",
    "sanitize_weight_names",
    "save_package",
    "write_document",
    "write_package",
    "write_plain_json",
    "write_program",
    "write_treespec",
]
