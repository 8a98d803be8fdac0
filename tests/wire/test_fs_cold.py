# SPDX-License-Identifier: Apache-2.0
"""Any read of any FS command may find its row cold: same replies, same tree, once.

Two servers get the same commands; one has the n-th read of each made cold, for n = 1, 2, 3 ... until no command reads
that often. Ids may differ: one that was drawn by an attempt that was taken back is not used.
"""
import pytest

from conftest import Server, assert_sound
from diff.resp import Connection
from fs import FS, pairs, swept
from talk import words

SCENARIO = """
FS.MKDIR /a
FS.MKDIR /a/b/c/d PARENTS OWNER alice GROUP staff
FS.MKDIR /a/b/c/d PARENTS
FS.MKDIR /a/b
FS.CREATE /a/b/f OWNER bob MODE 600
FS.CREATE /a/b/g GROUP users BLOCK 10
FS.CREATE /a/b/f/x
FS.CREATE /nope/x
FS.COMPLETE /a/b/f 100
FS.SIZE /a/b/g 35
FS.TRUNCATE /a/b/g 25
FS.SIZE /a 1
FS.STAT /a/b/f
FS.STAT /a/b/f PROTO
FS.STAT /
FS.STAT 6
FS.STAT 999
FS.MSTAT /a /a/b/f /a/x /a/b/f/x / /a/b/c/d
FS.LS /a/b
FS.LS /a/b COUNT 1
FS.LS /a/b FROM c COUNT 2 STAT
FS.LS /a/b/f
FS.CHMOD /a 700
FS.CHOWN /a/b/f OWNER cyd GROUP staff
FS.UTIME /a/b/f 5 6
FS.BLOCKS /a/b/g
FS.BLOCKS /a/b
FS.MV /a/b/f /a/f
FS.MV /a/f /a/b/g
FS.MV /a/f /a/b/g REPLACE
FS.MV /a /a/b/x
FS.MV /a/b/c /c
FS.MV /c/d /a/b/c
FS.MOUNT /m s3://x
FS.MOUNT /m/n/o file:///y
FS.MOUNT /m s3://z
FS.MOUNTS
FS.RESOLVE /m/n/o/p
FS.RESOLVE /x
FS.UMOUNT /m
FS.DU /
FS.TREE /
FS.TREE / DEPTH 1
FS.FIND / *
FS.RM /a
FS.RM /c
FS.RM /a/b/g
FS.RM /a/b/nope
FS.RM /a RECURSIVE
FS.LS /
FS.DU /
""".strip().splitlines()
READS_MAX = 400


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    servers = [Server(tmp_path_factory.mktemp("cold") / name) for name in ("calm", "cold")]
    yield servers
    for server in servers:
        server.kill()
        assert_sound(server.stderr())
        server.errors.close()


def clean(fs):
    for name in fs.ls("/"):
        fs("RM", b"/" + name, "RECURSIVE")
    for path in fs("MOUNTS")[1][::2]:
        fs("UMOUNT", path)
    swept(fs)


def shape(reply):
    """Without ids and times."""
    kind, value = reply
    if kind == ":" and value > 1 << 24:
        return kind, "a block, or a time"
    if not isinstance(value, list):
        return reply
    masked = [shape(one) for one in value]
    for i in range(len(masked) - 1):
        if masked[i] in [("$", label) for label in (b"id", b"parent", b"created", b"modified")]:
            masked[i + 1] = "masked"
    return kind, masked


def test_a_cold_read_anywhere_changes_nothing(pair):
    links = [Connection(server.port) for server in pair]
    trees = [FS(server) for server in pair]
    injected = 0
    for n in range(READS_MAX):
        for fs in trees:
            clean(fs)
        before = trees[1].client.info("tiers")["cold_injected"]
        for line in SCENARIO:
            links[1].ask("DEBUG", "COLD-INJECT", str(n))
            told = [shape(link.ask(*words(line))) for link in links]
            if told[0][0] == ":" and line.startswith(("FS.MKDIR", "FS.CREATE")):
                told = [kind for kind, _ in told]
            if line != "FS.STAT 6" and "PROTO" not in line:  # there ids are
                assert told[0] == told[1], (n, line, told)
        links[1].ask("DEBUG", "COLD-INJECT", "0")
        now = trees[1].client.info("tiers")["cold_injected"]
        injected += now - before
        if n and now == before:
            break
    assert n < READS_MAX - 1 and injected > 200
    for fs in trees:
        swept(fs)
        assert pairs(fs("CHECK"))["problems"] == 0
