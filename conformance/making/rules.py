"""The rules that the cases try: by patterns of their names, besides those that a case states itself."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

VALID = """
archives/*                              ARC-6 ARC-7 ARC-12 ARC-15
archives/deflated*                      ARC-8 ARC-14 ARC-23
archives/deflated_payloads              ARC-22
archives/stored                         ARC-8 ARC-10 ARC-23
archives/data_descriptors               ARC-12 ARC-13
archives/without_the_flag_of_utf8       ARC-18
archives/unaligned                      ARC-22
archives/large_padding                  ARC-22
archives/other_padding                  ARC-22
archives/zip64*                         ARC-4 ARC-9
archives/*root*                         ARC-21
archives/without_a_manifest             ARC-40
archives/digests*                       ARC-35 ARC-36 ARC-37 ARC-39
archives/digests_in_upper_case          ARC-36
archives/folders                        ARC-17
archives/reversed                       ARC-26
archives/extra_files                    ARC-31 ARC-33
archives/without_byteorder              ARC-25
archives/unknown_extra_fields           ARC-9 ARC-16
archives/unknown_records                ARC-27 ARC-30 ARC-32 ARC-33
archives/gaps                           ARC-16
arguments/*                             GRA-24 DOC-4 DOC-9
arguments/none*                         DOC-11
arguments/int*                          DOC-12 DOC-13 DOC-14 TREE-2
arguments/float*                        DOC-17 GRA-26 TREE-3 TREE-11
arguments/complex*                      DOC-17
arguments/string*                       TREE-5 TREE-15
arguments/*empty                        GRA-25
arguments/dict*                         DOC-25 TREE-6 TREE-7
arguments/*sym*                         GRA-28 GRA-5
arguments/graph*                        GRA-32 GRA-42
arguments/constant*                     GRA-33
arguments/treespec*                     GRA-34
arguments/results                       GRA-40
arguments/kinds                         GRA-20
arguments/scalar_types                  DOC-19
arguments/layouts                       DOC-19
arguments/memory_formats                DOC-19
arguments/sequence*                     EXT-1 EXT-4
arguments/mapping*                      EXT-1 EXT-4
arguments/slice                         EXT-1 EXT-4
arguments/range                         EXT-1 EXT-4
values/*                                GRA-3 GRA-4 DOC-22
values/dtypes                           DOC-19
values/*_name                           GRA-52 DOC-20
values/strides                          DOC-23
values/hints                            EXP-24 GRA-6
values/known                            EXP-24 GRA-6
values/ranges                           EXP-26 DOC-21 DOC-8
expressions/*                           NEU-11 EXP-2 EXP-3 EXP-4 EXP-5 EXP-6 EXP-7 EXP-9
expressions/spaces                      EXP-10
expressions/leading_zeros               EXP-10
infix/*                                 EXP-12 EXP-13 EXP-14 EXP-15 EXP-16
infix/*neg*                             EXP-18
infix/*product*                         EXP-17 EXP-19
infix/*division*                        EXP-19 EXP-20
infix/*sum*                             EXP-17
infix/difference                        EXP-17 EXP-18
treespecs/*                             NEU-12 TSP-1 TSP-2 TSP-3 TSP-4 TSP-11
treespecs/dict*                         TSP-12
treespecs/named_tuple                   TSP-14 GRA-73
treespecs/context_null                  TSP-18
treespecs/context_of_a_later_version    TSP-20
treespecs/unusual_text                  TSP-7
treespecs/context_that_is_no_json       TSP-26
guards/*                                EXP-30 EXP-31 EXP-33 EXP-35 NEU-13
signatures/*                            SIG-1 SIG-2 SIG-3
signatures/module_calls                 GRA-69 GRA-70 GRA-72
signatures/script_object                GRA-8 GRA-29 GRA-30
names/values                            GRA-9 DOC-29
names/weights                           GRA-11 DOC-26 PAY-2 TREE-7
names/programs                          ARC-27
documents/*                             DOC-3 DOC-4
documents/absent_fields                 DOC-7 VER-11
documents/stated_defaults               DOC-7
documents/unknown_fields                DOC-6 VER-6
documents/later_minor                   VER-4 VER-5 DOC-2
documents/null_variants                     DOC-10
documents/placed                        GRA-56
documents/names_of_removed_values       GRA-71
documents/origins                       VER-3 EXT-14 GRA-19 GRA-63
documents/nested_arguments              DOC-28 GRA-27
documents/nested_subgraphs              GRA-42 GRA-43
documents/several_results               GRA-36 GRA-37
formats/*                               TREE-1 TREE-9 NEU-5
documents/optional                      EXT-12 GRA-16 GRA-38 GRA-39 GRA-57 GRA-60 GRA-61 NEU-10
references/two_stores                   REF-5 REF-12
documents/provenance                    EXT-12 GRA-59 GRA-66 NEU-10
formats/signature_*                     SIG-4 SIG-8 SIG-10 SIG-11 SIG-12 SIG-13 SIG-14
formats/floats_*                        DOC-17 TREE-12 TREE-23
formats/payloads_*                      PAY-9 PAY-13
codecs/*                                PAY-23 DOC-33 EXT-6
extensions/*                            EXT-1 EXT-3
extensions/propagate                    EXT-8 GRA-4
payloads/*                              PAY-1 PAY-4 PAY-9 NEU-16
payloads/dtype_*                        PAY-11
payloads/dtype_name                     PAY-12
payloads/*empty*                        PAY-10
payloads/shared_storage                 PAY-13 PAY-15
payloads/constants                      PAY-5 PAY-14 PAY-15
payloads/lazy_bits                      PAY-18 EXT-9
payloads/placement                      PAY-19 EXT-10
payloads/big_endian                     ARC-25
payloads/sample_inputs                  PAY-1 SIG-21
payloads/longer_storage                 PAY-16
payloads/two_programs                   PAY-1
references/*                            REF-1 REF-2 REF-13
references/box                          REF-12
references/transposed                   REF-12
references/several_regions              REF-15
references/interleaved                  REF-15
references/folder_*                     REF-5 REF-10
references/written_nowhere              REF-8 REF-11
references/shared                       REF-4 PAY-14
references/ranks                        REF-17 REF-18
references/index_file                   REF-19
references/blobs                        REF-24 REF-25
references/safetensors                  REF-20 REF-22 REF-23
references/without_a_digest             REF-16
hashes/*                                CAN-1 CAN-2 CAN-3 CAN-7
given/*                                 VER-5 VER-15 ARC-32 ARC-40 PAY-20
given/torch_2_1*                        HIS-1 HIS-3 HIS-4 HIS-9 HIS-10 HIS-12 HIS-41
given/torch_2_1_dataclass               TSP-31
given/torch_2_2*                        HIS-1 HIS-3 HIS-4 HIS-9 HIS-41
given/torch_2_[3-8]*                    HIS-3 HIS-4 HIS-41
given/torch_2_[3-5]*                    HIS-10
given/torch_2_6_dynamic                 HIS-8
given/torch_2_11*                       HIS-3
given/torch_2_9*                        HIS-3
"""
"""Patterns of names of valid files, and the rules that they try."""

INVALID = """
arguments/list_of_mixed_kinds           DOC-13
signatures/range_of_a_truth_value       DOC-13
signatures/call_path                    DOC-29
infix/unknown_call                      EXP-4
infix/no_operands                       EXP-4
infix/keyword                           EXP-6
guards/text                             EXP-30
formats/empty_cbor                      TREE-20
formats/truncated_json                  TREE-10
formats/trailing_json                   TREE-10
formats/empty_json                      TREE-10
formats/msgpack_as_json                 TREE-10
formats/json_as_cbor                    TREE-20
archives/another_major_version          ARC-27
payloads/dtype_unknown                  DOC-20
payloads/placement_unknown              EXT-2
payloads/shared_with_nothing            PAY-21
payloads/config_without_its_field       DOC-4
payloads/config_is_a_list               DOC-4
payloads/weights_device                 GRA-53
payloads/weights_device_index           DOC-15
references/safetensors_length           REF-22
documents/document_is_*                 DOC-3
documents/element_type_of_text          DOC-13
documents/forward_names_twice           GRA-72
values/of_the_graph_around              GRA-5
*device_type                            DOC-29
*device_quote                           DOC-29
payloads/weights_device                 DOC-29
signatures/without_a_variant            DOC-10
signatures/two_variants                 DOC-10
signatures/unknown_variant              DOC-10
payloads/negative_*                     DOC-15
payloads/dimensions                     DOC-15
payloads/product*                       DOC-15
payloads/reach                          DOC-15
payloads/fewer_strides                  DOC-22
payloads/*_strides                      DOC-22
payloads/*_layout_0                     DOC-20
payloads/number_of_no_dtype             DOC-19
payloads/without_is_param               DOC-4
payloads/path_name_number               DOC-4
payloads/without_meta                   DOC-4
references/box_side                     REF-12
references/ranks_sizes                  REF-15
references/ranks_without_records        NEU-3
archives/crc_of_*                       NEU-3
archives/manifest_digest                NEU-3
archives/manifest_digest_of_a_payload   NEU-3
archives/manifest_*_together            NEU-3
archives/manifest_missing_record        NEU-3
archives/manifest_unlisted_record       NEU-3
"""
"""Patterns of names of invalid files, and rules that they break besides those that a case states itself."""

IMPLIED = {
    "EXP-46": "EXP-1 EXP-3 EXP-4 EXP-5 EXP-6 EXP-7 EXP-9 EXP-12 EXP-13 EXP-15 EXP-16",
    "EXP-39": "EXP-30 EXP-31 EXP-32 EXP-34 EXP-35 EXP-36 EXP-37 EXP-38",
}
"""The rules that all of a grammar is kept, which whatever breaks one of the others breaks, too."""

VECTORS = """
*                                       TREE-1 TREE-9 NEU-4 NEU-6
json.not_*                              TREE-10
msgpack.not_*                           TREE-16
cbor.not_*                              TREE-21
*.*integer*                             TREE-2
*.zero                                  TREE-2
*.floats                                TREE-3 NEU-7
*.infinities                            TREE-3
*.nan*                                  TREE-3
*.nested_400_deep                       TREE-4
*.not_nested*                           TREE-4
*.texts                                 TREE-5
*surrogate*                             TREE-5
*.keys*                                 TREE-6
*.not_duplicate*                        TREE-6
*.dict_order                            TREE-7
*.not_trailing*                         TREE-8
*.not_truncated*                        TREE-8
*.not_empty                             TREE-8
json.spaces                             TREE-10
json.integer_and_float                  TREE-11
json.float*                             TREE-11
json.not_float_beyond_doubles           TREE-11
json.tags                               TREE-12
json.bytes*                             TREE-12
json.infinities                         TREE-12
json.nan                                TREE-12
json.not_bytes*                         TREE-12
json.not_float_unknown                  TREE-12
json.not_float_not_text                 TREE-12
json.tags_of_json                       TREE-13
json.dollars                            TREE-13
json.escaped_tag                        TREE-13
json.bare_tokens                        TREE-14
json.escapes                            TREE-15
json.escaped_key                        TREE-15
msgpack.*extension                      TREE-17
msgpack.integers_beyond_64_bits         TREE-17
msgpack.integer_of*                     TREE-17
msgpack.not_extension*                  TREE-17
msgpack.not_extension_of_another_type   TREE-18
msgpack.not_timestamp                   TREE-18
msgpack.not_byte_never_used             TREE-18
msgpack.not_key*                        TREE-18
msgpack.not_text_not_utf8               TREE-18
msgpack.long*                           TREE-19
msgpack.*long_forms                     TREE-19
msgpack.float_of_32_bits                TREE-19
cbor.none                               TREE-20
cbor.not_without_the_tag                TREE-20
cbor.integers_of_64_bits                TREE-21
cbor.*bignum                            TREE-22
cbor.integers_beyond_64_bits            TREE-22
cbor.integer_of*                        TREE-22
cbor.float_of*                          TREE-23
cbor.infinities*                        TREE-23
cbor.not_tag*                           TREE-24
cbor.not_undefined                      TREE-24
cbor.not_simple*                        TREE-24
cbor.not_indefinite*                    TREE-24
cbor.not_key*                           TREE-24
cbor.not_text_not_utf8                  TREE-24
cbor.not_reserved_head                  TREE-24
cbor.not_break_alone                    TREE-24
cbor.long*                              TREE-24
cbor.dict_order                         TREE-25
*_that_lie*                             TREE-27 TREE-8
json.not_empty                          TREE-8 TREE-10
json.not_truncated*                     TREE-8 TREE-10
json.not_trailing*                      TREE-8 TREE-10
json.not_trailing_comma                 TREE-10 TREE-8
json.not_lone_surrogate*                TREE-15 TREE-5
json.not_surrogate_in_utf8              TREE-5 TREE-10
msgpack.not_text_with_a_surrogate       TREE-5 TREE-18
cbor.not_text_with_a_surrogate          TREE-5 TREE-24
cbor.not_empty                          TREE-8 TREE-20
cbor.not_tag_twice                      TREE-20 TREE-24
cbor.not_self_described*                TREE-20 TREE-24
cbor.not_bignum_of_text                 TREE-21 TREE-22 TREE-24
"""
"""Patterns of names of trees with the wire format in front, and the rules that they try. Of an invalid one, the last pattern
counts: it has the rules that a reader may name."""


def _rows(text: str) -> list[tuple[str, list[str]]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return [(pattern, rules) for pattern, *rules in lines]


_VALID, _INVALID, _VECTORS = _rows(VALID), _rows(INVALID), _rows(VECTORS)


def rules_of_file(name: str, valid: bool, stated: Iterable[str]) -> list[str]:
    """The rules that a valid file tries, or that a reader may name when it refuses an invalid one.

    Args:
        name: that of the case.
        valid: whether the file is.
        stated: the rules that the case states itself.
    """
    found = [
        rule
        for pattern, rules in (_VALID if valid else _INVALID)
        if fnmatchcase(name, pattern)
        for rule in rules
    ]
    if valid:
        return list(dict.fromkeys([*found, *stated]))
    found = [*stated, *found]
    implied = [rule for rule, others in IMPLIED.items() if not set(found).isdisjoint(others.split())]
    return list(dict.fromkeys([*found, *implied]))


def rules_of_vector(wire_format: str, name: str, valid: bool) -> list[str]:
    """The rules that a tree tries, or that a reader may name when it refuses it."""
    found = [rules for pattern, rules in _VECTORS if fnmatchcase(f"{wire_format}.{name}", pattern)]
    return list(dict.fromkeys(rule for rules in found for rule in rules)) if valid else found[-1]


def unused_patterns(files: list[str], vectors: list[str]) -> list[str]:
    """The patterns that no case has: of files by name, of trees by wire format and name."""
    rows = [(pattern, files) for pattern, _ in _VALID + _INVALID] + [
        (pattern, vectors) for pattern, _ in _VECTORS
    ]
    return [pattern for pattern, names in rows if not any(fnmatchcase(name, pattern) for name in names)]


CLASSES = {
    "archive": "ARC-* REF-3 VER-13",
    "document": "TREE-* DOC-* GRA-* SIG-* TSP-* EXP-* EXT-* VER-* HIS-* SEC-* PAY-* ARC-27 ARC-29",
    "weights": "PAY-* REF-* SIG-5 VER-8 ARC-34",
}
"""The classes of refusals (NEU-20), and the rules that belong to each."""


def classes_of(rules: Iterable[str], case: str) -> list[str]:
    """Return the classes that a reader may name when it refuses a file that breaks these rules.

    Args:
        case: the name of the file's case. What is wrong with configs, references and torch.save files is of the class `weights`,
            too.
    """
    of_configs = " DOC-* GRA-* SIG-22 HIS-*" if case.startswith(("payloads/", "references/")) else ""
    classes = CLASSES | {"weights": CLASSES["weights"] + of_configs}
    return [
        name
        for name, patterns in classes.items()
        if any(fnmatchcase(rule, pattern) for rule in rules for pattern in patterns.split())
    ]
