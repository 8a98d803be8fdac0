# SPDX-License-Identifier: Apache-2.0
"""What the tests of tiles share: a server with types, values with their header."""
import subprocess

TYPES = ("imagery=1", "terrain=2", "vector=3", "tm=4", "q2=5", "qp=6")
IMAGERY, TERRAIN, VECTOR, TM, Q2, QP = range(1, 7)


def uvarint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def headered(data, epoch=0, provider=0):
    return uvarint(epoch) + uvarint(provider) + data


def pack(key):
    packed = len(key)
    for i, digit in enumerate(key):
        packed |= int(digit) << (62 - 2 * i)
    return packed.to_bytes(8, "big")


def place(key):
    """The file of a key below <dir>/<type>/."""
    level = len(key)
    if level <= 8:
        return "base.g3db"
    folder = 8 if level <= 12 else 12 if level <= 16 else level
    return f"{folder}/{key[:4]}.g3db"


def sqlite_rows(path, sql):
    """As the sqlite3 command line prints them."""
    done = subprocess.run(
        ["sqlite3", "-readonly", "-cmd", ".timeout 10000", str(path), sql], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def lmdb_rows(path, database):
    """As mdb_dump prints them."""
    done = subprocess.run(["mdb_dump", "-n", "-s", database, str(path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("HEADER=END\n")[1].split("DATA=END")[0].split()
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in zip(lines[::2], lines[1::2])}


def stats(client, *words):
    flat = client.execute_command("TILE.STATS", *words)
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}
