"""Are two programs the same? The canonical form and the content hash of a program."""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.analysis.canonical.argument_forms import References, argument_content
    from graphwire.analysis.canonical.canonical_form import canonicalize
    from graphwire.analysis.canonical.content_hashing import (
        Arrangement,
        arm_of_spec,
        arrangement,
        content_hash,
        document_hash,
        program_content,
    )
    from graphwire.analysis.canonical.effects import Effect
    from graphwire.analysis.canonical.encoding import content_bytes
    from graphwire.analysis.canonical.graph_content import steps_of
    from graphwire.analysis.canonical.node_order import Step
    from graphwire.analysis.canonical.payload_content import (
        NamedPayload,
        PayloadRecord,
        PayloadSet,
        is_empty,
        named_payloads,
        payload_digests,
        payload_facts,
    )
    from graphwire.analysis.canonical.symbol_names import parsed, renamed_expression
else:
    __getattr__ = door(
        __name__,
        {
            ".argument_forms": "References argument_content",
            ".canonical_form": "canonicalize",
            ".content_hashing": "Arrangement arm_of_spec arrangement content_hash document_hash program_content",
            ".effects": "Effect",
            ".encoding": "content_bytes",
            ".graph_content": "steps_of",
            ".node_order": "Step",
            ".payload_content": "NamedPayload PayloadRecord PayloadSet is_empty named_payloads payload_digests payload_facts",
            ".symbol_names": "parsed renamed_expression",
        },
    )

__all__ = [
    "Arrangement",
    "Effect",
    "NamedPayload",
    "PayloadRecord",
    "PayloadSet",
    "References",
    "Step",
    "argument_content",
    "arm_of_spec",
    "arrangement",
    "canonicalize",
    "content_bytes",
    "content_hash",
    "document_hash",
    "is_empty",
    "named_payloads",
    "parsed",
    "payload_digests",
    "payload_facts",
    "program_content",
    "renamed_expression",
    "steps_of",
]
