#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fuzz/corpus/frame/ and replay/: small segments and turns as drawn in src/store/journal/segment.h and record.h."""
import pathlib
import struct

SALT = 0x51A7


def crc32c(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def header(counters=b"\x04keys" + struct.pack("<q", -3)):
    fixed = b"TRRCSEG1" + struct.pack("<II", 1, 0) + bytes(range(16))
    fixed += struct.pack("<IIQQQII", 7, SALT, 3, 99, 1000, 0xABCD, len(counters)) + counters
    return fixed + struct.pack("<I", crc32c(0, fixed))


def frame(lsn, count, body, flags=0, synced=0):
    fixed = b"TFRM" + struct.pack("<IQIIQ", len(body), lsn, count, flags, synced)
    fixed += struct.pack("<I", crc32c(SALT, body))
    return fixed + struct.pack("<I", crc32c(SALT, fixed)) + body


def uvarint(value):
    code = bytearray()
    while value > 0x7F:
        code.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(code + bytes([value]))


def commit(records):
    return struct.pack("<I", len(records)) + records


PUT = b"\x01\x07\x05group\x06suffix\x05value"
SAME = b"\x81\x01s\x01v\x82\x01d"
DROPS = b"\x03\x07\x01g\x04\x07\x01p\x05\x07\x04keys\x05"
OTHER = b"\x01\x07\x04meta\x00\x01m\x41\x01t\x01w\x42\x00\x81\x01u\x00"  # both groups again
TURNS = commit(PUT + OTHER) + commit(b"\x41\x01x\x01y\x81\x01z\x01w") + commit(b"\x42\x01x")
ONE = commit(PUT + SAME)
TWO = commit(PUT) + commit(DROPS)
PARTS = commit(PUT + SAME + DROPS)
VALID = header() + frame(100, 1, ONE) + frame(101, 2, TWO, synced=90)
VALID += frame(103, 1, PARTS[:9], 1) + frame(103, 1, PARTS[9:20], 1) + frame(103, 1, PARTS[20:])
FLIPPED = bytearray(VALID)
FLIPPED[len(header()) + 50] ^= 4

FILES = {
    "empty": b"",
    "zeros": bytes(200),
    "header": header(b""),
    "valid": VALID,
    "valid_zero_tail": VALID + bytes(300),
    "cut": VALID[:-5],
    "cut_more": VALID[: -len(PARTS[20:]) - 40],
    "flipped": bytes(FLIPPED),
    "damaged": bytes(FLIPPED) + frame(104, 1, ONE, synced=len(header()) + 100),
    "records": TWO + ONE,
    "groups": header() + frame(100, 3, TURNS),
    "groups_cut": header() + frame(100, 3, TURNS[:30], 1) + frame(100, 3, TURNS[30:51], 1) + frame(100, 3, TURNS[51:]),
    "groups_records": TURNS,
    "other_first": header() + frame(100, 1, commit(b"\x41\x01s\x01v")),
    "both_bits": header() + frame(100, 1, commit(PUT + b"\xc1\x01s\x01v")),
    "lsn_back": header() + frame(100, 1, ONE) + frame(100, 1, ONE),
    "journal_in_value": header() + frame(100, 1, commit(b"\x01\x00\x00\x00" + uvarint(len(VALID)) + VALID)),
}



def put(space, group, suffix, value):
    return b"\x01" + bytes([space]) + uvarint(len(group)) + group + uvarint(len(suffix)) + suffix + uvarint(len(value)) + value


def delete(space, group, suffix):
    return b"\x02" + bytes([space]) + uvarint(len(group)) + group + uvarint(len(suffix)) + suffix


def drop(kind, space, group):
    return bytes([kind, space]) + uvarint(len(group)) + group


def count(name, delta):
    code = delta << 1 if delta >= 0 else (-delta << 1) - 1
    return b"\x05\x00" + uvarint(len(name)) + name + uvarint(code)


# Spaces of fuzz_replay.c: 1 whole, 2 length, 3 fixed at 4 bytes; "p" begins every group.
BOTH = put(2, b"pa", b"1", b"one") + put(1, b"pm", b"", b"meta") + b"\x41\x012\x01x\x41\x00\x02mm\x42\x011"
TURNS_OF = {
    "rows": commit(put(1, b"pa", b"", b"new") + put(2, b"pa", b"t", b"v" * 600) + delete(3, b"pabc", b"s")),
    "two_groups": commit(BOTH) + commit(b"\x81\x012\x00\x41\x00\x00") + commit(b"\x42\x00"),
    "other_after_drop": commit(BOTH + drop(3, 2, b"pa") + b"\x41\x00\x03new\x41\x013\x01z"),
    "drop_of_whole": commit(drop(3, 1, b"pa")),
    "drop_and_put": commit(drop(3, 2, b"pa") + put(2, b"pa", b"s", b"2")) + commit(drop(4, 3, b"p") + put(3, b"pxyz", b"", b"")),
    "drop_of_longer_prefix": commit(drop(4, 2, b"pa")),
    "drop_of_other_length": commit(drop(3, 3, b"pabcdef")),
    "long_key": commit(put(1, b"p" + b"k" * 65536, b"", b"")),
    "too_long_key": commit(put(1, b"p" + b"k" * 65700, b"", b"")),
    "drop_of_too_long_key": commit(drop(3, 1, b"p" + b"k" * 65700)),
    "suffix_in_whole": commit(put(1, b"pa", b"s", b"")),
    "counters": commit(count(b"n", 5) + b"\x85\x01\x85\x02"),
    "counter_over": commit(count(b"n", 2**63 - 1) + b"\x85\x02"),
    "counter_under": commit(count(b"n", -(2**63)) + b"\x85\x01"),
    "row_of_a_counter": commit(count(b"p", 1) + b"\x81\x00\x00"),
    "unknown_prefix": commit(put(1, b"q", b"", b"")),
    "no_space": commit(put(9, b"p", b"", b"")),
    "empty_commit": commit(b""),
    "cut": commit(BOTH)[:-1],
}

for name, files in ("frame", FILES), ("replay", TURNS_OF):
    target = pathlib.Path(__file__).parent / "corpus" / name
    target.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (target / file).write_bytes(content)
