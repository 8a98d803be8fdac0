# SPDX-License-Identifier: Apache-2.0
"""terrace fs: a real directory goes in, and is looked at, moved and removed."""
import os
import subprocess

import pytest

from conftest import TERRACE
from fs import FS, flood, swept


@pytest.fixture
def shell(server):
    """shell(word, ..., code=0): what terrace fs prints, and on standard error if it fails."""

    def run(*words, code=0):
        done = subprocess.run([TERRACE.encode(), b"fs", b"-p", b"%d" % server.port, *map(os.fsencode, map(
            lambda word: word if isinstance(word, bytes) else str(word), words))], capture_output=True, timeout=120)
        assert done.returncode == code, (done.stdout, done.stderr)
        return (done.stderr if code else done.stdout).decode(errors="surrogateescape")

    return run


@pytest.fixture
def real(tmp_path):
    """A directory with odd names, a link, nested directories and files of different sizes."""
    top = tmp_path / "real"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "empty").mkdir(mode=0o700)
    for name, size in ("a", 0), ("sub/b c", 10), ("sub/deep/d", 12345):
        (top / name).write_bytes(b"x" * size)
    with open(os.fsencode(top) + b"/odd\xff\n", "wb") as file:
        file.write(b"yy")
    (top / "link").symlink_to("a")
    os.chmod(top / "a", 0o600)
    os.utime(top / "a", (1700000000, 1700000001.5))
    return top


def test_a_real_directory_is_imported_as_it_is(server, shell, real):
    assert shell("import", real, "/in/here") == \
        "4 files, 3 directories, 12.1 KiB; 0 were there, 1 skipped (links, devices), 0 failed\n"
    fs = FS(server)
    for root, dirs, files in os.walk(os.fsencode(real)):
        inside = b"/in/here" + root[len(os.fsencode(real)):]
        files = [name for name in files if name != b"link"]
        assert sorted(dirs + files) == fs.ls(inside)
        for name in dirs + files:
            told, real_stat = fs.stat(inside + b"/" + name), os.stat(root + b"/" + name)
            assert told["mode"] == f"{real_stat.st_mode & 0o7777:04o}"
            assert told["modified"] == real_stat.st_mtime_ns // 1000000
            assert told["type"] == ("directory" if name in dirs else "file") and told["complete"] == 1
            if name in files:
                assert told["size"] == real_stat.st_size
            assert told["owner"] and told["group"]
    assert "4 files, 3 directories" in shell("import", str(real) + "/", "/in/here/")
    assert fs.info()["fs_files"] == 4


def test_words_of_a_shell(server, shell, real):
    shell("import", real)
    assert shell("ls") == "a\nempty\nodd\\xff\\x0a\nsub\n"
    assert shell("ls", "/sub/") == "b c\ndeep\n"
    assert shell("ls", "-l", "/").splitlines()[0].split()[1:] == \
        ["0600", *shell("ls", "-l", "/").splitlines()[0].split()[2:4], "0", *shell("ls", "-l").splitlines()[0].split()[5:7], "a"]
    assert shell("tree", "/sub") == ("/sub/  (12.1 KiB, 2 files)\n├── b c  (10 B)\n└── deep/  (12.1 KiB, 1 files)\n"
                                     "    └── d  (12.1 KiB)\n\n2 directories, 2 files, 12355 bytes\n")
    assert shell("tree", "-d", "0") == "/  (12.1 KiB, 4 files)\n\n4 directories, 4 files, 12357 bytes\n"
    assert shell("du", "/sub/deep") == "12345 bytes (12.1 KiB), 1 files, 1 directories\n"
    assert shell("find", "/", "d*") == "/sub/deep\n/sub/deep/d\n"
    assert "size: 10\n" in shell("stat", "/sub/b c") and "path: /sub/b c\n" in shell("stat", "/sub/b c")
    assert shell("mv", "/sub", "/sup") == "" and "EXISTS" in shell("mv", "/a", "/sup", code=1)
    assert shell("mv", "--replace", "/a", b"/odd\xff\n") == ""
    assert "NOTEMPTY" in shell("rm", "/sup", code=1) and shell("rm", "-r", "/sup") == ""
    assert "problems: 0\n" in shell("check") and "left: 0\n" in shell("check", "--repair")
    swept(FS(server))
    assert shell("tree") == "/  (0 B, 1 files)\n├── empty/  (0 B, 0 files)\n└── odd\\xff\\x0a  (0 B)\n\n2 directories, 1 files, 0 bytes\n"


def test_mistakes_are_one_line(shell, tmp_path):
    for words in [(), ("nope",), ("stat",), ("mv", "/a"), ("ls", "/x"), ("import", tmp_path / "nope"), ("find", "/")]:
        assert len(shell(*words, code=1).strip().splitlines()) == 1
    (tmp_path / "d").mkdir()
    assert "begin with a slash" in shell("import", tmp_path / "d", "x", code=1)


def test_a_large_directory_is_listed_page_by_page(server, shell):
    flood(server, (b"/%05d" % i for i in range(5000)))
    assert shell("ls") == "".join(f"{i:05}\n" for i in range(5000))
