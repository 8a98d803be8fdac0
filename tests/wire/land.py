# SPDX-License-Identifier: Apache-2.0
"""Landing as tests see it: a server with rules, and the database behind it, SQLite or MariaDB."""
import contextlib
import ctypes
import json
import os
import sqlite3

import pytest
import redis

KEY = "slug-data:{game:eu:hero:42}"
NEVER = "600000"  # a delay that no test lives to see: what lands was asked for
MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
          0x27D4EB2F165667C5)


def xxh64(data):
    """XXH64 with seed 0, of less than 2**32 bytes."""
    p1, p2, p3, p4, p5 = PRIMES

    def turn(value, by):
        return (value << by | value >> 64 - by) & MASK

    def mix(lane, word):
        return turn((lane + word * p2) & MASK, 31) * p1 & MASK

    at, size = 0, len(data)
    if size >= 32:
        lanes = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        while at + 32 <= size:
            for i in range(4):
                word = int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little")
                lanes[i] = mix(lanes[i], word)
            at += 32
        value = sum(turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            value = ((value ^ mix(0, lane)) * p1 + p4) & MASK
    else:
        value = p5
    value = (value + size) & MASK
    while at + 8 <= size:
        word = int.from_bytes(data[at:at + 8], "little")
        value = (turn(value ^ mix(0, word), 27) * p1 + p4) & MASK
        at += 8
    if at + 4 <= size:
        word = int.from_bytes(data[at:at + 4], "little")
        value = (turn(value ^ word * p1 & MASK, 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        value = turn(value ^ byte * p5 & MASK, 11) * p1 & MASK
    value = (value ^ value >> 33) * p2 & MASK
    value = (value ^ value >> 29) * p3 & MASK
    return value ^ value >> 32


def table_of(key, tables=4):
    return xxh64(key if isinstance(key, bytes) else key.encode()) % tables


class Sqlite:
    kind = "sqlite"

    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:{path}"

    def ask(self, sql, *args):
        with contextlib.closing(sqlite3.connect(self.path, timeout=100)) as link:
            link.text_factory = bytes
            rows = link.execute(sql, args).fetchall()
            link.commit()
            return rows

    def columns(self, table):
        return {row[1].decode(): row[2].decode().upper()
                for row in self.ask(f"PRAGMA table_info(`{table}`)")}

    def has(self, table):
        return bool(self.columns(table))


class Maria:
    kind = "mysql"

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.url = server.url(name)
        server.ask(f"CREATE DATABASE `{name}` CHARACTER SET latin1")  # ours say what they need

    def ask(self, sql, *args):
        return list(self.server.ask(sql.replace("?", "%s") if args else sql, *args,
                                    database=self.name))

    def columns(self, table):
        return {row[0]: row[1].upper() for row in self.ask(
            "SELECT column_name, column_type FROM information_schema.columns WHERE "
            "table_schema = ? AND table_name = ? ORDER BY ordinal_position", self.name, table)}

    def has(self, table):
        return bool(self.columns(table))


def to_bytes(value):
    return value.encode() if isinstance(value, str) else value


class Landed:
    """A running server whose rules land in a sink."""

    def __init__(self, server, sink):
        self.server, self.sink = server, sink
        self.client = server.client(socket_timeout=120)
        self.plain = server.client(socket_timeout=120)  # replies as they come
        self.plain.response_callbacks.clear()

    def __call__(self, *words):
        return self.plain.execute_command(*words)

    def error(self, *words):
        with pytest.raises(redis.ResponseError) as info:
            self.plain.execute_command(*words)
        return str(info.value)

    def flush(self, *rule):
        assert self("LAND.FLUSH", *rule) == b"OK"

    def try_flush(self):
        """Lands what can land: the database may be away, or refuse some of it."""
        with contextlib.suppress(redis.ResponseError):
            self("LAND.FLUSH")

    def flush_refused(self, *rule):
        """Lands; the database refuses some of it."""
        assert self.error("LAND.FLUSH", *rule).startswith("LANDREFUSED")

    def status(self, rule="players"):
        said = self("LAND.STATUS", rule)
        named = dict(zip(said[::2], said[1::2]))
        return {name.decode(): value.decode() if isinstance(value, bytes) else value
                for name, value in named.items()}

    def errors(self, *words):
        maps = [dict(zip(item[::2], item[1::2])) for item in self("LAND.ERRORS", *words)]
        return {item[b"entry"].decode(): {name.decode(): value for name, value in item.items()}
                for item in maps}

    def dirty(self, part="", tables=4, client=None):
        """What all dirty tables hold: entry -> mark."""
        found = {}
        for n in range(tables):
            found |= (client or self.client).hgetall(f"slug-persist:{{dirtyKey:{n}}}{part}")
        return {entry.decode(): value.decode() for entry, value in found.items()}

    def evict(self, *keys):
        """Lands and drops the copies here."""
        self.flush()
        assert self("LAND.EVICT", *keys) == len(keys)

    # ---- shape object ----

    def rows(self, table="game_eu"):
        """primary_key -> (value, is_del)."""
        if not self.sink.has(table):
            return {}
        return {to_bytes(row[0]).decode(): (row[1], row[2]) for row in self.sink.ask(
            f"SELECT primary_key, value, is_del FROM `{table}`")}

    def live(self, table="game_eu"):
        return {name: value for name, (value, is_del) in self.rows(table).items() if not is_del}

    def put(self, primary_key, value, version=1, is_del=0, table="game_eu"):
        """A row put there by somebody else."""
        logic_type, owner, field = primary_key.split(":", 2)
        self.sink.ask(f"DELETE FROM `{table}` WHERE primary_key = ?", primary_key)
        self.sink.ask(f"INSERT INTO `{table}` (primary_key, logic_type, owner_id, `key`, value, "
                      "up_version, is_del, create_time, update_time, query_all_key) VALUES "
                      "(?, ?, ?, ?, ?, ?, ?, 1, 1, ?)", primary_key, logic_type, owner, field,
                      value, version, is_del, f"{logic_type}:{owner}")

    def version(self, primary_key, table="game_eu"):
        return self.sink.ask(f"SELECT up_version FROM `{table}` WHERE primary_key = ?",
                             primary_key)[0][0]


def error_json(landed, entry):
    return json.loads(landed.dirty(":error")[entry])


def _exchange(a, b):
    """Two names change places, at once."""
    at_cwd, rename_exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(at_cwd, bytes(a), at_cwd, bytes(b), rename_exchange)
    assert done == 0, os.strerror(ctypes.get_errno())


@contextlib.contextmanager
def away(sink):
    """While it lasts a directory, which cannot be opened as a database, stands in the place of the file."""
    aside = sink.path.with_suffix(".aside")
    had = sink.path.exists()
    # At no moment there is nothing: the server, which may try at any time, would make a new one.
    if had:
        aside.mkdir()
        _exchange(sink.path, aside)
        _rename_beside(sink.path, aside)
    else:
        sink.path.mkdir()
    yield
    if had:
        _rename_beside(aside, sink.path)
        _exchange(sink.path, aside)
        aside.rmdir()
    else:
        sink.path.rmdir()


def _rename_beside(path, to):
    """The files that SQLite has beside a database go with it."""
    for tail in ("-wal", "-shm"):
        part = path.with_name(path.name + tail)
        if part.exists():
            part.rename(to.with_name(to.name + tail))


@contextlib.contextmanager
def tables_locked(sink, *tables):
    """While it lasts nobody else reads or writes these tables of MariaDB."""
    link = sink.server.connect(sink.name)
    try:
        with link.cursor() as cursor:
            cursor.execute("LOCK TABLES " + ", ".join(f"`{name}` WRITE" for name in tables))
        yield
    finally:
        link.close()


def maria_queries(sink, like):
    """How many statements that look like this were run since general_log was switched on."""
    return sink.server.ask("SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE %s AND "
                           "command_type IN ('Query', 'Execute') AND argument NOT LIKE "
                           "'%%general_log%%'", like)[0][0]
