# SPDX-License-Identifier: Apache-2.0
"""terrace: the client, inspect, repair, backup, restore."""
import re

import pytest

from conftest import start_refused, terrace


def stopped(start, name="data", count=50, kill=False, args=()):
    server = start(*args, name=name)
    client = server.client()
    for i in range(count):
        client.set(f"k{i}", f"value {i}")
    if kill:
        server.kill()
    else:
        server.stop()
    return server


def segments(directory):
    return sorted(p for p in (directory / "journal").iterdir() if p.stat().st_size > 0)


def snapshot(directory):
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size, p.read_bytes())
            for p in sorted(directory.rglob("*")) if p.is_file()}


def test_the_client(server):
    port = ["-p", server.port]
    assert terrace(*port, "SET", "a", "b c") == "OK\n"
    assert terrace(*port, "GET", "a") == "b c\n"
    assert terrace(*port, "GET", "none") == "\n"
    assert terrace(*port, "DEL", "a", "b") == "1\n"
    assert terrace("ping", *port) == "PONG\n"
    assert "hot_bytes:" in terrace("info", "tiers", *port)
    assert "hot_bytes:" in terrace("-h", "127.0.0.1", *port, "info", "tiers")
    assert "terrace inspect" in terrace("help") and "  GET " in terrace("help")


def test_the_client_names_what_is_wrong(server):
    assert "could not connect" in terrace("-p", 1, "ping", code=1)
    assert "a command is missing" in terrace("-p", server.port, code=1)
    assert "usage" in terrace("inspect", code=1) and "usage" in terrace("restore", "a", code=1)


@pytest.mark.parametrize("kill", [True, False])
def test_inspect_shows_and_changes_nothing(start, kill):
    directory = stopped(start, kill=kill).dir
    before = snapshot(directory)
    text = terrace("inspect", directory)
    assert "space 1 meta, whole" in text and 'prefix of space 1: "kvdefault.defaultm"' in text
    assert "DAMAGED" not in text and "BROKEN" not in text
    assert ("meta: 50 rows" in text) != kill
    assert ("50 frames, 50 commits" in text) == kill
    key = terrace("inspect", directory, "--key", "k7")
    assert 'extra "value 7"' in key and "string, id " in key
    assert terrace("inspect", directory, "--key", "0x6b37") == key
    assert terrace("inspect", directory, "--key", "none", code=1) == "terrace: no such key\n"
    rows = terrace("inspect", directory, "--rows", "meta")
    assert rows.count("string, id") == (0 if kill else 50)
    assert terrace("inspect", directory, "--rows", "1") == rows
    assert "no space" in terrace("inspect", directory, "--rows", "nope", code=1)
    if kill:
        frames = terrace("inspect", directory, "--frames", "--segment", "1")
        assert frames.count('counter "keys:default.default" +1') == 50
    assert snapshot(directory) == before


def test_inspect_refuses_other_directories(tmp_path):
    assert "not a Terrace directory" in terrace("inspect", tmp_path, code=1)
    assert "not a Terrace directory" in terrace("inspect", tmp_path / "none", code=1)
    assert "not a Terrace directory" in terrace("backup", tmp_path, tmp_path / "b", code=1)
    assert list(tmp_path.iterdir()) == []


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_flipped_byte_is_refused_then_repaired(start):
    directory = stopped(start, kill=True, args=("--durability", "always")).dir
    segment = segments(directory)[0]
    turns = re.findall(r"turn at (\d+)\.\.(\d+)", terrace("inspect", directory, "--frames"))
    assert len(turns) == 50
    at, end = map(int, turns[20])
    flip(segment, (at + end) // 2)
    text = start_refused(directory)
    assert str(segment) in text and f"offset {at}" in text
    assert f"terrace repair {directory}" in text
    assert f"DAMAGED at offset {at}" in terrace("inspect", directory)
    text = terrace("repair", directory)
    assert str(segment) in text and f"offset {at}" in text and "20 turns" in text
    assert f"{segment.name}.at-{at}" in [p.name for p in (directory / "lost").iterdir()]
    assert "nothing had to be moved" in terrace("repair", directory)
    client = start().client()
    for i in range(50):
        assert client.get(f"k{i}") == (f"value {i}".encode() if i < 20 else None)
    assert client.info("keyspace")["db0"]["keys"] == 20
    assert client.set("k49", "again")


def test_a_cut_tail_is_no_damage(start):
    directory = stopped(start, kill=True, args=("--durability", "no")).dir
    segment = segments(directory)[0]
    data = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(data[:-3])
    assert "torn tail" in terrace("inspect", directory)
    client = start().client()
    assert client.get("k48") == b"value 48" and client.get("k49") is None


@pytest.mark.parametrize("kill", [True, False])
def test_backup_and_restore(start, tmp_path, kill):
    directory = stopped(start, kill=kill).dir
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    assert "is a backup" in terrace("backup", directory, backup)
    assert "exists" in terrace("backup", directory, backup, code=1)
    server = start()
    server.client().set("k0", "later")
    last_lsn = server.client().info("persistence")["written_lsn"]
    server.stop()
    before = snapshot(backup)
    text = terrace("restore", backup, restored)
    assert "all read and whole" in text
    assert "exists" in terrace("restore", backup, restored, code=1)
    server = start(name="restored")
    client = server.client()
    assert [client.get(f"k{i}") for i in range(50)] == [f"value {i}".encode() for i in range(50)]
    assert client.info("keyspace")["db0"]["keys"] == 50
    client.set("new", "row")
    assert client.info("persistence")["written_lsn"] > last_lsn
    server.stop()
    assert snapshot(backup) == before
    incarnations = {re.search(r"incarnation (\d+)", terrace("inspect", d)).group(1)
                    for d in (directory, restored)}
    assert len(incarnations) == 2


def test_a_damaged_backup_is_not_restored(start, tmp_path):
    directory = stopped(start, kill=True, args=("--durability", "always")).dir
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    terrace("backup", directory, backup)
    segment = segments(backup)[0]
    segment.write_bytes(segment.read_bytes())  # no longer a link
    flip(segment, segment.stat().st_size // 2)
    text = terrace("restore", backup, restored, code=1)
    assert str(segment) in text and "offset" in text and f"terrace repair {backup}" in text
    assert not restored.exists()


def test_a_damaged_table_is_not_restored(start, tmp_path):
    directory = stopped(start, count=2000).dir
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    terrace("backup", directory, backup)
    table = max((backup / "engine").glob("*.sst"), key=lambda p: p.stat().st_size)
    data = bytearray(table.read_bytes())
    table.unlink()
    data[len(data) // 4] ^= 1
    table.write_bytes(data)
    assert "orruption" in terrace("restore", backup, restored, code=1)
    assert not restored.exists()


def test_the_tools_log_in(start, monkeypatch):
    port = start("--requirepass", "open sesame").port
    assert terrace("-p", port, "-a", "open sesame", "SET", "a", "1") == "OK\n"
    assert terrace("-p", port, "-a", "open sesame", "--user", "default", "GET", "a") == "1\n"
    assert "PONG" in terrace("ping", "-p", port, "-a", "open sesame")
    assert "requests/s" in terrace("bench", "-p", port, "-a", "open sesame", "-n", "100", "ping,set")
    assert "WRONGPASS" in terrace("-p", port, "-a", "wrong", "GET", "a", code=1)
    assert "WRONGPASS" in terrace("bench", "-p", port, "-a", "wrong", "-n", "100", "ping", code=1)
    monkeypatch.setenv("TERRACE_AUTH", "open sesame")
    assert terrace("-p", port, "GET", "a") == "1\n"
    assert "WRONGPASS" in terrace("-p", port, "-a", "wrong", "GET", "a", code=1)
    assert "requests/s" in terrace("bench", "-p", port, "-n", "100", "get")
    assert "TERRACE_AUTH" in terrace("help")
