# SPDX-License-Identifier: Apache-2.0
"""A server that is killed before any of the calls that persisting makes: write, sync, rename, a new directory.

TILE_KILL=all tries every call; otherwise as many as are quick."""
import os
import shutil
import subprocess

import pytest
import redis

from tilekit import headered, lmdb_rows, pack, place, sqlite_rows

# The first number is how many calls it lives for (0: for ever), the second how many there were.
KILL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void step(void)
{
    static _Atomic(_Atomic long *) shared;
    _Atomic long *at = shared;
    if (!at)
        shared = at = mmap(0, 16, PROT_READ | PROT_WRITE, MAP_SHARED, open(getenv("KILL"), O_RDWR), 0);
    atomic_fetch_add(&at[1], 1);
    if (at[0] > 0 && atomic_fetch_sub(&at[0], 1) == 1)
        kill(getpid(), SIGKILL);
}

#define STEP(type, name, parameters, arguments)                          \
    type name parameters                                                 \
    {                                                                    \
        static type(*_Atomic next) parameters;                           \
        if (!next)                                                       \
            next = (type(*) parameters)dlsym(RTLD_NEXT, #name);          \
        step();                                                          \
        return next arguments;                                           \
    }
STEP(ssize_t, pwrite, (int fd, const void *from, size_t len, off_t at), (fd, from, len, at))
STEP(ssize_t, pwrite64, (int fd, const void *from, size_t len, off64_t at), (fd, from, len, at))
STEP(ssize_t, pwritev, (int fd, const struct iovec *from, int count, off_t at), (fd, from, count, at))
STEP(ssize_t, pwritev64, (int fd, const struct iovec *from, int count, off64_t at), (fd, from, count, at))
STEP(int, fsync, (int fd), (fd))
STEP(int, fdatasync, (int fd), (fd))
STEP(int, msync, (void *at, size_t len, int flags), (at, len, flags))
STEP(int, ftruncate, (int fd, off_t len), (fd, len))
STEP(int, ftruncate64, (int fd, off64_t len), (fd, len))
STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, unlink, (const char *path), (path))
STEP(int, mkdir, (const char *path, mode_t mode), (path, mode))
"""

FIRST = {("imagery", "3"): b"first", ("imagery", "012301230123"): b"deep", ("imagery", "2"): b"goes", ("terrain", "3"): b"other"}
CHANGES = {("imagery", "3"): b"newer", ("imagery", "2"): None, ("imagery", "1"): b"new", ("terrain", "1"): b"same key",
           ("imagery", "0" * 20): b"a new file", ("imagery", "012301230122"): b"beside"}
LAST = {name: data for name, data in {**FIRST, **CHANGES}.items() if data is not None}


def tile(client, *words):
    return client.execute_command("TILE." + words[0], *words[1:])


class Killer:
    def __init__(self, directory):
        self.file = directory / "kill"
        self.file.write_bytes(bytes(16))
        (directory / "kill.c").write_text(KILL)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", directory / "kill.so", directory / "kill.c"], check=True)
        self.prefix = ("env", f"LD_PRELOAD={directory / 'kill.so'}", f"KILL={self.file}", "ASAN_OPTIONS=verify_asan_link_order=0")

    def set(self, calls):
        with open(self.file, "r+b") as file:  # never empty: a server may be looking at it
            file.write(calls.to_bytes(8, "little") + bytes(8))

    def count(self):
        return int.from_bytes(self.file.read_bytes()[8:], "little")


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    return Killer(tmp_path_factory.mktemp("killer"))


def check(client):
    for (kind, key), data in LAST.items():
        assert tile(client, "GET", kind, key) == data, (kind, key)
    for kind in ("imagery", "terrain"):
        names = sorted((key for other, key in LAST if other == kind), key=pack)
        assert [name.decode() for name in tile(client, "RANGE", kind, "")] == names


def in_shards(shards, kind):
    found = {}
    for path in sorted(shards.rglob("*.g3db")):
        name = path.relative_to(shards).parts[0]
        if kind == "kv":
            rows = lmdb_rows(path, name)
        else:
            rows = {bytes.fromhex(row.split("|")[0]): headered(bytes.fromhex(row.split("|")[1]))
                    for row in sqlite_rows(path, f"SELECT hex(tile_id), hex(data) FROM {name}")}
        found.update({(name, str(path.relative_to(shards / name)), key): value for key, value in rows.items()})
    return found


@pytest.mark.parametrize("kind", ["sqlite", "kv"])
def test_a_kill_at_any_step_of_persisting_loses_nothing_and_brings_nothing_back(start, tmp_path, killer, kind):
    shards, kept = tmp_path / "shards", tmp_path / "kept"
    options = ("--tile-types", "imagery=1", "terrain=2", f"--tile-{kind}", str(shards), "--tile-batch", "1000000",
               "--tile-interval", "3600s")
    server = start(*options)
    for (type_, key), data in FIRST.items():
        tile(server.client(), "SET", type_, key, data)
    server.stop()
    for part in (shards, server.dir):
        shutil.copytree(part, kept / part.name)

    def changed():
        """A server as it was left above, with changes that are not persisted."""
        for part in (shards, server.dir):
            shutil.rmtree(part)
            shutil.copytree(kept / part.name, part)
        killer.set(0)
        again = start(*options, prefix=killer.prefix)
        for (type_, key), data in CHANGES.items():
            tile(again.client(), *(["DEL", type_, key] if data is None else ["SET", type_, key, data]))
        return again

    whole = changed()
    killer.set(0)
    tile(whole.client(), "SYNC")
    calls = killer.count()
    assert calls > 10
    whole.kill()
    deaths = 0
    tries = calls if os.environ.get("TILE_KILL") == "all" else 10
    for number in sorted({1 + n * (calls - 1) // (tries - 1) for n in range(tries)}):
        victim = changed()
        killer.set(number)
        try:
            tile(victim.client(), "SYNC")
        except redis.ConnectionError:
            deaths += 1  # there may be fewer calls than the last time: then it lives
        victim.kill()
        again = start(*options)
        check(again.client())
        tile(again.client(), "SYNC")
        check(again.client())
        assert in_shards(shards, kind) == {(type_, place(key), pack(key)): headered(data) for (type_, key), data in LAST.items()}
        assert list(shards.rglob("*.corrupt.*")) == []
        again.kill()
    assert deaths > tries // 2
