# SPDX-License-Identifier: Apache-2.0
"""Lets file calls of a running server fail: EIO, ENOSPC, by path and kind of call (tests/wire/iofault.c).

    faults = Faults(tmp_path)
    server = start(prefix=faults.prefix())
    rule = faults.arm(path="/engine/MANIFEST", calls=("write", "sync"), error=errno.EIO)
    ...
    faults.clear()
"""
import errno
import mmap
import os
import pathlib
import struct
import subprocess

BUILD = pathlib.Path(os.environ.get(
    "TERRACE_BUILD", pathlib.Path(__file__).resolve().parent.parent.parent / "build-dev"))
LIBRARY = BUILD / "tests" / "libiofault.so"
RULES, RULE_BYTES = 16, 256
SYNCED, SYNCED_BYTES = 4096, 16
CONTROL_BYTES = RULES * RULE_BYTES + SYNCED * SYNCED_BYTES
LAYOUT = struct.Struct("=IIiiiIQ224s")
CALLS = {"open": 1, "read": 2, "write": 4, "sync": 8, "size": 16, "rename": 32}
EVERY = -1


def sanitizer_library():
    """The runtime of a sanitized build wants to be loaded before everything else."""
    flags = (BUILD / "CMakeCache.txt").read_text()
    for name, library in (("address", "libasan.so"), ("thread", "libtsan.so")):
        if f"TERRACE_SANITIZE:STRING={name}" in flags:
            return subprocess.check_output(["gcc", f"-print-file-name={library}"], text=True).strip()
    return None


class Faults:
    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "iofault"
        self.path.write_bytes(bytes(CONTROL_BYTES))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), CONTROL_BYTES)

    def prefix(self):
        """What stands before the server's command."""
        assert LIBRARY.exists(), f"{LIBRARY} was not built"
        libraries = [sanitizer_library(), str(LIBRARY)]
        return ("env", "LD_PRELOAD=" + " ".join(filter(None, libraries)), f"TERRACE_IOFAULT={self.path}")

    def arm(self, path, calls=("write", "sync"), error=errno.EIO, skip=0, times=EVERY, bytes_min=0):
        """Calls on files whose path contains `path` fail, `times` of them, after `skip` that pass. A write counts from
        `bytes_min` bytes on."""
        at = next(at for at in range(0, RULES * RULE_BYTES, RULE_BYTES) if not self._armed(at))
        bits = sum(CALLS[call] for call in calls)
        rule = LAYOUT.pack(0, bits, error, skip, times, bytes_min, 0, os.fsencode(str(path)))
        self.map[at + 4:at + RULE_BYTES] = rule[4:]
        self.map[at:at + 4] = struct.pack("=I", 1)  # last: the server may look at any time
        return at

    def hold(self, path, calls=("open", "write", "sync")):
        """Calls on files whose path contains `path` wait until the rule is cleared."""
        return self.arm(path, calls, error=0)

    def _armed(self, at):
        return struct.unpack_from("=I", self.map, at)[0]

    def failed(self, rule):
        """How many calls have failed by this rule."""
        return struct.unpack_from("=Q", self.map, rule + 24)[0]

    def clear(self, *rules):
        for at in rules or range(0, RULES * RULE_BYTES, RULE_BYTES):
            self.map[at:at + 4] = bytes(4)

    def synced(self, path):
        """How many bytes of a file that only grows a power cut leaves for sure."""
        inode = os.stat(path).st_ino
        for i in range(SYNCED):
            at = RULES * RULE_BYTES + (inode + i) % SYNCED * SYNCED_BYTES
            found, count = struct.unpack_from("=QQ", self.map, at)
            if found in (inode, 0):
                return count if found else 0
        return 0
