#!/usr/bin/python3
"""Writes tests/fuzz/corpus/frame/: small segments as drawn in src/store/segment.h."""
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
    "lsn_back": header() + frame(100, 1, ONE) + frame(100, 1, ONE),
    "journal_in_value": header() + frame(100, 1, commit(b"\x01\x00\x00\x00" + uvarint(len(VALID)) + VALID)),
}

target = pathlib.Path(__file__).parent / "corpus" / "frame"
target.mkdir(parents=True, exist_ok=True)
for name, content in FILES.items():
    (target / name).write_bytes(content)
