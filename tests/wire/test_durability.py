# SPDX-License-Identifier: Apache-2.0
"""What a reply means: durability always, and a disk that is almost full."""
import os
import subprocess

import pytest
import redis

from talk import Link
from waiting import wait_until

RESERVE = "1000000gb"  # no disk has that free
REFUSED = "-ERR disk reserve reached; only deleting commands run"


def info(link, section):
    return dict(line.split(":", 1) for line in link.text("INFO", section).splitlines() if ":" in line)


def syncs(link):
    return int(info(link, "tiers")["journal_syncs"])


def is_durable(link):
    values = info(link, "persistence")
    return values["durable_lsn"] == values["written_lsn"] and values["unsynced_bytes"] == "0"


@pytest.fixture
def always(start):
    return start("--durability", "always")


WRITES = ["SET k v", "INCR n", "RPUSH l a", "HSET h f v", "SADD s m", "ZADD z 1 m", "EXPIRE k 100",
          "RENAME l l2", "DEL h", "FLUSHDB", "SWAPDB 0 1"]


@pytest.mark.parametrize("line", WRITES)
def test_a_write_is_synced_before_its_reply(always, line):
    link = Link(always)
    link.say("SET k v", "RPUSH l a", "HSET h f v")
    before = syncs(link)
    assert not link.say(line)[0].startswith("-")
    assert syncs(link) > before
    assert is_durable(link)


def test_every_one_of_many_writes_is_synced(always):
    link = Link(always)
    before = syncs(link)
    for i in range(50):
        assert link.say(f"SET k{i} v") == ["+OK"]
    assert syncs(link) >= before + 50


def test_reading_needs_no_sync(always):
    link = Link(always)
    link.say("SET k v")
    before = syncs(link)
    for _ in range(20):
        assert link.say("GET k", "PING", "EXISTS none", "MULTI", "GET k", "EXEC")[-1] == "[v]"
    assert syncs(link) == before


def test_a_pipeline_shares_its_syncs_and_keeps_its_order(always):
    link = Link(always)
    before = syncs(link)
    lines = [line for i in range(1000) for line in (f"SET k {i}", "GET k")]
    assert link.say(*lines) == [reply for i in range(1000) for reply in ("+OK", str(i))]
    assert before < syncs(link) < before + 1000
    assert is_durable(link)


def test_who_reads_a_write_that_is_not_durable_waits_with_it(always):
    """Many clients at once: nobody is told of a value that a power cut could still take."""
    writer, readers = Link(always), [Link(always) for _ in range(8)]
    for i in range(50):
        writer.send([[b"SET", b"k", b"%d" % i]])
        for reader in readers:
            reader.send([[b"GET", b"k"]])
        for reader in readers:
            assert reader.hear() in (str(i), str(i - 1) if i else "(nil)")
        assert writer.hear() == "+OK"
    assert is_durable(writer)


def test_an_exec_and_a_command_that_waited_are_synced_too(always):
    link, waiting = Link(always), Link(always)
    before = syncs(link)
    assert link.say("MULTI", "SET a 1", "INCR a", "EXEC")[-1] == "[+OK, :2]"
    assert syncs(link) > before and is_durable(link)
    link.say("DEBUG RELOAD")
    before = syncs(link)
    assert link.say("INCR a") == [":3"]
    assert syncs(link) > before and is_durable(link)
    waiting.send([[b"BLPOP", b"l", b"0"]])
    link.wait_for_blocked()
    link.say("RPUSH l x")
    assert waiting.hear() == "[l, x]"
    assert is_durable(link)


def test_messages_come_when_what_they_tell_of_is_durable(always):
    listener, link, control = Link(always), Link(always), Link(always)
    control.say("CONFIG SET notify-keyspace-events E$")
    listener.say("PSUBSCRIBE *")
    for i in range(20):
        before = syncs(control)
        link.send([[b"SET", b"k", b"%d" % i], [b"PUBLISH", b"c", b"%d" % i]])
        assert listener.hear() == "[pmessage, *, __keyevent@0__:set, k]"
        assert syncs(control) > before and is_durable(control)
        assert listener.hear() == f"[pmessage, *, c, {i}]"
        assert [link.hear(), link.hear()] == ["+OK", ":1"]


def test_messages_keep_their_order_while_syncs_run(always):
    listener, link = Link(always), Link(always)
    listener.say("SUBSCRIBE c")
    link.say(*[line for i in range(300) for line in (f"SET k {i}", f"PUBLISH c {i}", "PING")])
    assert listener.came() == [f"[message, c, {i}]" for i in range(300)]


def test_what_was_answered_is_there_after_kill(start):
    server = start("--durability", "always")
    Link(server).say(*[f"RPUSH l {i}" for i in range(100)])
    server.kill()
    assert Link(start("--durability", "always")).say("LLEN l") == [":100"]


def test_durability_changes_at_run_time(server):
    link, other = Link(server), Link(server)
    assert link.say("CONFIG GET durability") == ["[durability, everysec]"]
    assert link.say("CONFIG SET durability always", "CONFIG GET appendfsync") == [
        "+OK", "[appendfsync, always]"]
    before = syncs(link)
    for _ in range(10):
        assert link.say("INCR n")[0][0] == ":"
        assert is_durable(other)
    assert syncs(link) >= before + 10
    assert link.say("CONFIG SET appendfsync no", "SET k v") == ["+OK", "+OK"]
    assert info(link, "persistence")["durability"] == "no"
    before = syncs(link)
    link.say(*100 * ["INCR n"])
    for _ in range(100):
        link.say("INCR n")
    assert syncs(link) == before
    assert link.say("CONFIG SET durability everysec", "INCR n") == ["+OK", ":211"]
    wait_until(lambda: is_durable(other))
    assert link.say("CONFIG SET durability sometimes")[0].startswith("-ERR CONFIG SET failed")


def test_a_change_of_durability_in_a_pipeline_loses_no_reply(server):
    link = Link(server)
    modes = ("always", "no", "everysec")
    lines = [line for i in range(60) for line in
             (f"CONFIG SET durability {modes[i % 3]}", f"SET k {i}", "GET k", "PUBLISH c m")]
    want = [reply for i in range(60) for reply in ("+OK", "+OK", str(i), ":0")]
    assert link.say(*lines) == want


# ---- the reserve ----

@pytest.fixture
def full(start):
    """A server with data whose disk is below its reserve."""
    server = start(name="data")
    Link(server).say("MSET a 1 b 2 c 3", "RPUSH l 1 2 3", "HSET h f v", "SADD s m", "ZADD z 1 m",
                     "SET brief v PX 30")
    assert server.stop() == 0
    server = start("--disk-reserve", RESERVE, name="data")
    wait_until(lambda: Link(server).say("DBSIZE") == [":7"])  # the sweep has taken the brief one
    return server


@pytest.mark.parametrize("line", ["SET k v", "INCR a", "APPEND a x", "RPUSH l 4", "HSET h g v",
                                  "SADD s n", "ZADD z 2 n", "MSET x 1 y 2", "COPY a d", "SETBIT k 1 1",
                                  "SUNIONSTORE d s", "MULTI|SET k v|EXEC"])
def test_below_the_reserve_writes_are_refused(full, line):
    link = Link(full)
    wait_until(lambda: link.say("DBSIZE") == [":7"])  # the sweep has taken the brief one
    assert link.say(*line.split("|"))[-1] == REFUSED
    assert link.say("GET k", "GET a", "LLEN l", "PING") == ["(nil)", "1", ":3", "+PONG"]
    assert link.say("DBSIZE") == [":7"]


def test_below_the_reserve_reading_works(full):
    link = Link(full)
    assert link.say("MGET a b c", "LRANGE l 0 -1", "HGETALL h", "SMEMBERS s", "ZSCORE z m", "TYPE l",
                    "EXISTS a", "STRLEN a") == [
        "[1, 2, 3]", "[1, 2, 3]", "[f, v]", "[m]", "1", "+list", ":1", ":1"]
    assert info(link, "persistence")["disk_low"] == "1"


def test_below_the_reserve_deleting_works(full):
    link = Link(full)
    assert link.say("DEL a", "UNLINK b none", "EXISTS a b c") == [":1", ":1", ":1"]
    assert link.say("FLUSHDB", "DBSIZE") == ["+OK", ":0"]


def test_below_the_reserve_keys_expire(full):
    link = Link(full)
    wait_until(lambda: link.say("DBSIZE") == [":7"])


def test_below_the_reserve_messages_and_watch_work(full):
    link, listener = Link(full), Link(full)
    listener.say("SUBSCRIBE c")
    assert link.say("PUBLISH c m", "WATCH a", "MULTI", "GET a", "EXEC")[-1] == "[1]"
    assert listener.came() == ["[message, c, m]"]
    link.say("WATCH a")
    Link(full).say("DEL a")
    assert link.say("MULTI", "GET b", "EXEC")[-1] == "(nil array)"


def test_the_log_says_that_the_disk_is_low(full):
    Link(full).say("PING")
    wait_until(lambda: "less than its reserve" in full.stderr())


# ---- a disk that is full ----

@pytest.fixture
def disk(tmp_path):
    """A disk of 64 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)],
                      capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=False)


@pytest.mark.parametrize("durability", ["always", "no"])
def test_an_exec_whose_frame_finds_no_room_is_answered_with_an_error(disk, start, durability):
    options = ("--disk-reserve", "0", "--hot-memory", "256mb", "--durability", durability)
    server = start(*options, name="disk/data")
    link, value = Link(server), os.urandom(1 << 20)
    listener = Link(server)
    listener.say("SUBSCRIBE c")
    count, reply = 0, ""
    while not reply.startswith("-") and count < 200:
        reply = link.say("MULTI", ["SET", f"fill{count}", value], "INCR n", "PUBLISH c m", "EXEC")[-1]
        if not reply.startswith("-"):
            count += 1
            assert reply == f"[+OK, :{count}, :1]"
    assert count < 200, "64 MiB of disk held more than they can"
    assert link.say("GET n", f"EXISTS fill{count}") == [str(count), ":0"]
    assert len(listener.came()) == count
    server.kill()
    assert Link(start(*options, name="disk/data")).say("GET n", f"EXISTS fill{count}") == [
        str(count), ":0"]


def fill(disk, left):
    """Somebody else's file takes all but about `left` bytes. In small steps: the server, too, takes and gives back
    room meanwhile."""
    with open(disk / "other", "wb", buffering=0) as other:
        while (room := os.statvfs(disk)).f_bavail * room.f_frsize > left:
            other.write(bytes(256 << 10))


def test_a_writer_is_told_when_the_flush_finds_no_disk(disk, start):
    """Memory is full, and what would make room in it has no disk: an error, not a wait."""
    server = start("--disk-reserve", "0", "--hot-memory", "8mb", name="disk/data")
    client = server.client(socket_timeout=100)
    fill(disk, 6 << 20)  # the journal has room, a flush has not
    count, error = 0, None
    while not error and count < 200:
        try:
            client.set(f"fill{count}", os.urandom(256 << 10))
            count += 1
        except redis.ResponseError as refused:
            error = str(refused)
    assert error and "disk" in error, error
    assert client.get("fill0") is not None and client.dbsize() == count
    assert client.delete(f"fill{count - 1}") == 1
    (disk / "other").unlink()
    wait_until(lambda: writes(client))
    for i in range(count - 1):
        assert len(client.get(f"fill{i}")) == 256 << 10
    assert server.stop() == 0


def writes(client):
    try:
        return client.set("again", "1")
    except redis.ResponseError:
        return False
