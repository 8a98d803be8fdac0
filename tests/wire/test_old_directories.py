# SPDX-License-Identifier: Apache-2.0
"""Data directories of older builds (tests/fixtures, made by old_directory.py) open and hold everything."""
import json
import pathlib
import tarfile

import pytest

import tilekit
from conftest import terrace
from old_directory import HALF, TILE_OPTIONS, Content, tile_key

FIXTURES = sorted((pathlib.Path(__file__).resolve().parent.parent / "fixtures").glob("*.tar.xz"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def old(request, tmp_path):
    """The directory above `data`, as the older build was started in it."""
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def open_old(old, start):
    def open_one(*options):
        return start(*TILE_OPTIONS, *options, prefix=("env", "-C", str(old)))
    return open_one


def check_all(server):
    clients = {}
    for half in (0, 1):
        for database, command, answer in Content(half).questions():
            client = clients.setdefault(database, server.client(db=database))
            assert client.execute_command(*command) == answer, command
    check_models(server)


def check_models(server):
    client = server.client()
    assert client.execute_command("FS.STAT", "/files/file7") and client.execute_command("FS.STAT", "/files/file67")
    assert client.execute_command("FS.DU", "/files")[1] == sum(n * 1000 for n in range(2 * HALF))
    record = json.loads(client.execute_command("PART.GET", "job", 7))
    assert (record["min_id"], record["max_id"], record["worker_id"]) == (61, 70, "worker")
    q2 = server.client(db=tilekit.Q2)
    assert q2.execute_command("TASK.TAKE", "COUNT", 1)[0][0] == tile_key(0).encode()


def test_a_directory_of_an_older_build_opens_whole(open_old):
    server = open_old()
    check_all(server)
    assert server.stop() == 0
    assert "damage" not in server.stderr() and "lost" not in server.stderr()


def test_what_was_landed_by_an_older_build_is_lifted(open_old):
    client = open_old().client()
    client.execute_command("LAND.FLUSH")
    assert client.execute_command("LAND.EVICT", "player:5", "player:65") == 2
    assert client.hget("player:5", "gold") == b"50" and client.hget("player:65", "gold") == b"650"


def test_tiles_of_an_older_build_are_persisted_and_read_back(open_old):
    server = open_old()
    client = server.client(db=tilekit.IMAGERY)
    client.execute_command("TILE.SYNC")
    client.execute_command("DEBUG", "RELOAD")
    assert [client.execute_command("TILE.GET", "imagery", tile_key(n)) for n in (3, HALF + 3)] == [b"tile 3", b"tile 43"]


def test_the_tools_read_a_directory_of_an_older_build(old, open_old):
    assert "DAMAGED" not in terrace("inspect", old / "data")
    terrace("repair", old / "data")
    terrace("backup", old / "data", old / "copy")
    terrace("restore", old / "copy", old / "restored")
    check_all(open_old())
