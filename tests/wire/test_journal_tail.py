# SPDX-License-Identifier: Apache-2.0
"""The journal's end is cut or changed by something else than a power cut: never in silence."""
import re

import pytest

from conftest import start_refused, terrace
from waiting import wait_until as until

KEYS = 400


def last_segment(server):
    return max(path for path in (server.dir / "journal").glob("*.seg") if path.stat().st_size)


def fill(server, count=KEYS):
    client = server.client()
    for number in range(count):
        client.set(f"k{number}", f"value {number}")
    return client


def overwrite(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def frames(path):
    return [match.start() for match in re.finditer(b"TFRM", path.read_bytes())]


@pytest.mark.parametrize("durability", ["always", "everysec"])
def test_a_truncated_segment_is_refused(start, durability):
    server = start("--durability", durability)
    client = fill(server)
    until(lambda: client.info("persistence")["unsynced_bytes"] == 0)
    server.kill()
    path = last_segment(server)
    with open(path, "r+b") as file:
        file.truncate(frames(path)[KEYS // 2])
    assert "DAMAGED" in terrace("inspect", server.dir)
    said = start_refused(server.dir)
    assert path.name in said and "were on disk" in said and f"terrace repair {server.dir}" in said


def test_bytes_changed_in_what_is_durable_are_refused_and_repaired(start):
    server = start("--durability", "everysec")
    client = fill(server, 50)
    until(lambda: client.info("persistence")["unsynced_bytes"] == 0)
    server.kill()
    path = last_segment(server)
    overwrite(path, frames(path)[11] + 50, b"XXXX")
    said = start_refused(server.dir)
    assert path.name in said and f"terrace repair {server.dir}" in said
    assert "was moved to" in terrace("repair", server.dir)
    assert list((server.dir / "lost").iterdir())
    again = start()
    assert again.client().dbsize() < 50
    assert again.stderr() == ""


def test_a_torn_tail_that_was_not_durable_is_cut_kept_and_told(start):
    server = start("--durability", "no")
    fill(server, 50)
    server.kill()
    path = last_segment(server)
    places = frames(path)
    overwrite(path, places[40] + 50, b"XXXX")
    again = start()
    client = again.client()
    assert client.dbsize() == 40
    kept, = (again.dir / "lost").iterdir()
    said = again.stderr()
    assert f"from offset {places[40]} on with 10 turns" in said and str(kept) in said
    info = client.info("persistence")
    assert info["recovered_cut_turns"] == 10
    assert info["recovered_cut_bytes"] == kept.stat().st_size


def test_a_damaged_table_is_logged_once_and_found_by_repair(start):
    server = start("--hot-memory", "1mb")
    client = server.client()
    for number in range(2000):
        client.set(f"k{number}", f"{number:06d}" * 200)
    assert client.save()
    server.stop()
    table = max((server.dir / "engine").glob("*.sst"), key=lambda path: path.stat().st_size)
    overwrite(table, table.stat().st_size // 3, b"\xff" * 4096)
    server = start("--hot-memory", "1mb")
    client = server.client()
    failed = 0
    for number in range(2000):
        try:
            client.get(f"k{number}")
        except Exception as error:
            assert "orruption" in str(error)
            failed += 1
    assert failed
    until(lambda: table.name in server.stderr())
    assert server.stderr().count("a read from the engine failed") == 1
    assert f"terrace repair {server.dir}" in server.stderr()
    server.kill()
    assert "1 files of the engine are damaged" in terrace("repair", server.dir, code=1)


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST"])
def test_damage_in_the_engine_s_files_is_refused_with_the_repair(start, name):
    server = start()
    fill(server, 50)
    server.stop()
    path, = (server.dir / "engine").glob(name + "*")
    overwrite(path, 0, b"\xff" * min(64, path.stat().st_size))
    said = start_refused(server.dir)
    assert f"terrace repair {server.dir}" in said
    assert "restore a backup" in terrace("repair", server.dir, code=1)
