# SPDX-License-Identifier: Apache-2.0
"""FS.* refuses what would not be a tree any more, and says why a long command cannot run."""
import pathlib

import pytest

from fs import FS, Refused, flood, pairs
from waiting import wait_until


@pytest.fixture
def fs(server):
    return FS(server)


def test_a_file_is_no_parent_of_itself_either(fs):
    fs("CREATE", "/f")
    for words in [(), ("REPLACE",)]:
        assert fs.code("MV", "/f", "/f/x", *words) == "NOTDIR"
        assert fs.code("MV", "/f", "/f/x/y", *words) == "NOTDIR"
    assert fs.ls("/") == [b"f"]


def test_sizes_are_refused_before_their_sum_is_no_number(fs):
    for name in ("/a", "/b"):
        fs("CREATE", name, "BLOCK", 1 << 38)
    assert fs.code("COMPLETE", "/a", 1 << 62) == "OK"
    assert fs.code("COMPLETE", "/b", 1 << 62) == "RESOURCE"
    assert fs.code("COMPLETE", "/b", (1 << 62) - 1) == "OK"
    assert pairs(fs("DU", "/"))["bytes"] == fs.info()["fs_bytes"] == (1 << 63) - 1
    assert fs.code("RM", "/a") == "OK" and fs.info()["fs_bytes"] == (1 << 62) - 1


def test_long_commands_say_why_there_is_no_view(start, tmp_path):
    """Nothing can be flushed, as on a full disk: they do not wait for ever, nor for each other."""
    server = start()
    fs = FS(server)
    fs("MKDIR", "/d")
    flood(server, (b"/d/%d" % i for i in range(2000)))
    flush = next(pathlib.Path(tmp_path).glob("**/flush"))
    flush.rename(flush.with_name("away"))
    flush.write_bytes(b"")
    for words in [("DU", "/"), ("FIND", "/", "1"), ("CHECK",), ("CHECK", "REPAIR")]:
        with pytest.raises(Refused, match="no view of the tree can be made"):
            fs(*words)
    assert pairs(fs("STAT", "/d/1"))["type"] == "file" and fs.code("CREATE", "/d/new") == "OK"
    flush.unlink()
    flush.with_name("away").rename(flush)
    wait_until(lambda: fs.client.info("persistence")["rdb_last_bgsave_status"] == "ok")
    assert pairs(fs("DU", "/"))["files"] == 2001 and pairs(fs("CHECK"))["problems"] == 0
