"""FS.* under attack: what must be refused, and what must stay true meanwhile."""
import pytest

from fs import FS, pairs


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
