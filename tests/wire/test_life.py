# SPDX-License-Identifier: Apache-2.0
"""Ends and starts of the process."""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest
import redis

from conftest import TERRACED, start_refused, terrace
from waiting import wait_until

ROUNDS = 20


def write_until_killed(server, first, acknowledged):
    """Pipelines of eight, whose replies are noted."""
    client = server.client()
    n = first
    try:
        while True:
            pipe = client.pipeline(transaction=False)
            for i in range(n, n + 8):
                pipe.set(f"k{i}", f"value {i}")
            pipe.execute()
            acknowledged.extend(range(n, n + 8))
            n += 8
    except redis.ConnectionError:
        pass


def check(client, acknowledged):
    for base in range(0, len(acknowledged), 2000):
        some = acknowledged[base:base + 2000]
        pipe = client.pipeline(transaction=False)
        for i in some:
            pipe.get(f"k{i}")
        assert pipe.execute() == [f"value {i}".encode() for i in some]


def test_kill_loses_nothing_acknowledged(start):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rand = random.Random(seed)
    acknowledged = []
    for round_ in range(ROUNDS):
        mode = ("everysec", "always", "no")[round_ % 3]
        server = start("--durability", mode, "--hot-memory", "8mb")
        check(server.client(), acknowledged[-4000:] if round_ % 5 else acknowledged)
        first = (acknowledged[-1] + 1000) if acknowledged else 0
        writer = threading.Thread(target=write_until_killed, args=(server, first, acknowledged))
        writer.start()
        enough = len(acknowledged) + rand.randrange(1, 1000)
        wait_until(lambda: len(acknowledged) >= enough)
        server.kill()
        writer.join()
    server = start()
    check(server.client(), acknowledged)
    count = server.client().info("keyspace")["db0"]["keys"]
    assert len(acknowledged) <= count <= len(acknowledged) + 8 * ROUNDS


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_flushes_and_ends(start, ending):
    server = start()
    client = server.client()
    for i in range(100):
        client.set(f"k{i}", i)
    server.process.send_signal(ending)
    assert server.process.wait(100) == 0
    text = terrace("inspect", server.dir)
    assert "meta: 100 rows" in text and 'counter "keys:default.default" 100' in text
    server = start()
    assert server.client().info("persistence")["recovered_turns"] == 0
    assert server.client().get("k99") == b"99"


def test_sigint_that_was_ignored_at_the_start_stays_ignored(start):
    """So a script starts what it puts in the background; Ctrl-C is for the script."""
    server = start(prefix=("env", "--ignore-signal=INT"))
    assert f"stop            kill {server.process.pid}\n" in server.banner
    server.process.send_signal(signal.SIGINT)
    for _ in range(100):
        assert server.client().ping()
    assert server.stop() == 0


def known(link):
    """The server has taken the connection: who is not let in when it stops is not served."""
    link.sendall(b"PING\r\n")
    assert link.recv(100) == b"+PONG\r\n"


def test_a_signal_lets_requests_finish(start):
    server, count = start("--durability", "always"), 500
    with server.connect() as link:
        known(link)
        link.sendall(b"".join(b"SET k%d %d\r\n" % (n, n) for n in range(count)))
        assert server.stop() == 0
        replies = b""
        while part := link.recv(1 << 20):
            replies += part
    assert replies == b"+OK\r\n" * count


def test_a_signal_answers_all_that_was_sent_to_who_reads_later(start):
    """The replies go into the kernel's buffers: nobody is waited for, and nothing that was sent is left unread."""
    server, count = start(), 50_000
    with server.connect() as link:
        known(link)
        link.sendall(b"INCR a\r\n" * count)
        assert server.stop() == 0
        replies = b""
        while part := link.recv(1 << 20):
            replies += part
    assert replies == b"".join(b":%d\r\n" % (n + 1) for n in range(count))
    assert "before their replies were taken" not in server.stderr()
    assert start().client().get("a") == b"%d" % count


def test_a_directory_has_one_server(start):
    server = start()
    assert "in use by another process" in start_refused(server.dir)
    assert "in use by another process" in terrace("inspect", server.dir, code=1)
    assert "in use by another process" in terrace("repair", server.dir, code=1)
    assert "in use by another process" in terrace("backup", server.dir, f"{server.dir}.b", code=1)
    assert server.client().ping()


def test_a_port_has_one_server(start, tmp_path):
    server = start()
    text = start_refused(tmp_path / "other", "--port", str(server.port))
    assert "could not listen" in text and "in use" in text


def test_a_directory_of_another_version_is_refused(start):
    server = start()
    server.stop()
    catalogue = server.dir / "TERRACE"
    text = catalogue.read_text()
    catalogue.write_text(text.replace("terrace store 1", "terrace store 2"))
    assert "store format 2" in start_refused(server.dir)
    assert "store format 2" in terrace("repair", server.dir, code=1)
    catalogue.write_text(text.replace("incarnation ", "incarnation 1"))
    assert "does not match its CRC" in start_refused(server.dir)
    assert "from any backup" in terrace("repair", server.dir, code=1)
    catalogue.unlink()
    assert "is not a Terrace directory" in terrace("repair", server.dir, code=1)


def test_options_that_are_wrong_are_named(tmp_path):
    for args, text in ((["--nope", "1"], "unknown option \"nope\""),
                       (["--port"], "port: wrong number of arguments"),
                       (["--port", "65536"], "port: argument must be between 0 and 65535"),
                       (["--durability", "maybe"], "durability: argument(s) must be one of"),
                       (["--engine", "memory"], "engine: argument must be the name of an engine")):
        done = subprocess.run([TERRACED, *args], capture_output=True, text=True, cwd=tmp_path,
                              timeout=100)
        assert done.returncode == 1 and text in done.stderr
    done = subprocess.run([TERRACED, "--help"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "--hot-memory SIZE" in done.stdout


def nobody_can_run():
    if os.geteuid() != 0:
        return False
    return subprocess.run([*NOBODY, TERRACED, "--help"], capture_output=True).returncode == 0


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_a_directory_without_rights_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    if os.geteuid() == 0:
        if not nobody_can_run():
            pytest.skip("another user cannot run the program here")
        for path in (tmp_path, *tmp_path.parents):
            if path.stat().st_uid == 0 and path != path.parent and "pytest" in str(path):
                path.chmod(0o755)
        text = start_refused(closed, prefix=NOBODY)
    else:
        closed.chmod(0)
        text = start_refused(closed)
    assert "Permission denied" in text and str(closed) in text


def mounted(path, size):
    path.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
                          capture_output=True).returncode == 0


def test_a_full_disk_answers_errors_and_recovers(start, tmp_path):
    disk = tmp_path / "disk"
    if not mounted(disk, "64m"):
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        options = ("--disk-reserve", "0", "--full-reserve", "16mb", "--hot-memory", "256mb")
        server = start(*options, name="disk/data")
        client = server.client(socket_timeout=100)
        client.set("kept", "safe")
        written, error = fill(client)
        assert error, "64 MiB of disk held more than they can"
        assert client.get("kept") == b"safe" and client.get("fill0") is not None
        assert client.delete(f"fill{written - 1}") == 1
        written -= 1
        server.kill()
        server = start(*options, name="disk/data")
        client = server.client(socket_timeout=100)
        assert client.get("kept") == b"safe"
        for i in range(written):
            assert client.get(f"fill{i}") is not None
        subprocess.run(["mount", "-o", "remount,size=512m", str(disk)], check=True)
        wait_until_writable(client)
        assert client.get("kept") == b"safe"
        assert server.stop() == 0
    finally:
        server.kill()
        subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(client):
    value = os.urandom(1 << 20)
    for i in range(200):
        try:
            client.set(f"fill{i}", value)
        except redis.ResponseError as error:
            return i, str(error)
    return 200, None


def wait_until_writable(client):
    def holds():
        try:
            return client.set("again", "works")
        except redis.ResponseError:
            return False

    return wait_until(holds)


def test_another_rocksdb_than_that_of_the_build_is_refused(start, tmp_path):
    """The library is the real one; its file's name says that it is another."""
    start().stop()
    listed = subprocess.run(["ldd", TERRACED], capture_output=True, text=True, check=True).stdout
    name, path = re.search(r"(librocksdb\.so\.\S+) => (\S+)", listed).groups()
    libraries = tmp_path / "lib"
    libraries.mkdir()
    shutil.copy(path, libraries / "librocksdb.so.6.11.4")
    (libraries / name).symlink_to("librocksdb.so.6.11.4")
    said = start_refused(tmp_path / "data", prefix=("env", f"LD_LIBRARY_PATH={libraries}"))
    assert "and runs with 6.11" in said and "was built with RocksDB" in said
    assert start().client().ping()


@pytest.mark.parametrize("option", ["--port", "--http-port"])
def test_a_taken_port_makes_no_data_directory(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = start_refused(tmp_path / "data", option, str(port))
    assert f"127.0.0.1:{port}: Address already in use" in said
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_leaves_the_unix_socket_of_the_first_alone(start, tmp_path):
    server = start("--unixsocket", str(tmp_path / "socket"))
    assert "in use by another process" in start_refused(server.dir, "--unixsocket", str(tmp_path / "socket"))
    assert redis.Redis(unix_socket_path=str(tmp_path / "socket")).ping()
